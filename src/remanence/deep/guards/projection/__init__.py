"""Projectors that keep the allowed part of each optimizer step."""
