"""Training a network over a stream of tasks."""
