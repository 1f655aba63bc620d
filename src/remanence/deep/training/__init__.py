"""Train a network over a stream of tasks, with checkpoints."""
