"""Validated access to the entries of a saved memory: wrong shapes, dtypes or values raise InputError."""

from typing import Any

import numpy as np
from torch import Tensor

from remanence.arrays import Array
from remanence.errors import InputError


class SavedParts:
    """The entries of a saved memory, checked when they are read."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    def array(self, name: str, *shape: int | None) -> Array:
        """Return a finite float64 array of this shape; None allows any length."""
        found = self.parts.get(name)
        if not isinstance(found, Tensor):
            raise InputError(f"expected a tensor {name!r} in the saved memory, got {type(found).__name__}")
        if found.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, found.shape, strict=True)):
            raise InputError(
                f"expected {name!r} in the saved memory to have shape {shape}, got {tuple(found.shape)}; "
                f"was it saved for another network?"
            )
        array = np.array(found.numpy(force=True), np.float64)
        self.check(bool(np.isfinite(array).all()), name)
        return array

    def covariance(self, name: str, size: int) -> Array:
        """Return a symmetric (size, size) array without negative variances."""
        cov = self.array(name, size, size)
        self.check(np.allclose(cov, cov.T, atol=1e-9 * np.abs(cov).max()) and cov.diagonal().min() >= 0, name)
        return cov

    def orthonormal(self, name: str, size: int) -> Array:
        """Return an array (size, r) with orthonormal columns."""
        basis = self.array(name, size, None)
        self.check(np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-6), name)
        return basis

    def check(self, good: bool, name: str) -> None:
        """Raise InputError if an entry holds values that no saved memory can have."""
        if not good:
            raise InputError(
                f"expected {name!r} in the saved memory as it was saved, got invalid values; is the file damaged?"
            )

    def number(self, name: str) -> float:
        """Return a finite number of at least 0."""
        found = self.parts.get(name)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < np.inf:
            raise InputError(f"expected a number {name!r} of at least 0 in the saved memory, got {found!r}")
        return found
