"""Filters that are given one row at a time and change in place."""
