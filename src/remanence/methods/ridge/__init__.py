"""Choices of the ridge that need rows."""
