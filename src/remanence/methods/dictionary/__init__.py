"""Models of tasks that share a dictionary of atoms."""
