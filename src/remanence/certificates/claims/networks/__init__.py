"""Claims about layers, guards and online learners of networks."""
