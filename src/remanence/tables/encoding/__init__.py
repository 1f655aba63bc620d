"""Columns of any kind as numbers: what each column is, and an encoding that grows with the values it meets."""
