"""Rotations of single rows into a triangular factor, and weights with pending rows (native/rotations.pyx)."""

from remanence.kernels.variants import load

_compiled = load("rotations")
rotate_rows, live_rows = _compiled.rotate_rows, _compiled.live_rows
