"""Blocks of rows reflected into a triangular factor (native/reflections.pyx)."""

from remanence.kernels.variants import load

reflect_rows = load("reflections").reflect_rows
