"""Samples that span a model in the space of a kernel."""
