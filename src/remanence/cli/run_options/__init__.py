"""Learners and streams of `remanence run`."""
