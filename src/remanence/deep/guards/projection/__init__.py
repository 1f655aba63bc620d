"""Keeping the allowed part of each optimizer step."""
