"""LMS and APA row by row (native/filters.pyx)."""

from remanence.kernels.variants import load

_compiled = load("filters")
lms_walk, apa_walk = _compiled.lms_walk, _compiled.apa_walk
