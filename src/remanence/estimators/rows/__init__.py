"""Rows as users have them: sparse matrices, tables whose columns come and go, dictionaries."""
