"""Readouts of a classifier: what its memory says about the classes, and how far to believe it."""
