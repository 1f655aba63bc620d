"""Roots of columns that have not all met the same rows."""
