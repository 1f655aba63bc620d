"""What `remanence run` can be asked for: learners and streams."""
