"""LMS and RLS one row at a time (native/live.pyx)."""

from remanence.kernels.variants import load

_compiled = load("live")
RowsLMS, RowsRLS = _compiled.RowsLMS, _compiled.RowsRLS
