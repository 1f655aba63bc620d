"""Roots that get new columns while the rows are at hand."""
