"""Blocks of rows folded into a square root by several threads (native/fold.pyx)."""

from remanence.kernels.variants import load

Fold = load("fold").Fold
