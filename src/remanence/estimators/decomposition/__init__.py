"""Transformers that learn directions of the data row by row."""
