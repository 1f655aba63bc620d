"""Rows that are mostly zero."""
