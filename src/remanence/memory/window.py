"""Memory of the last few samples as they are, and of all samples in the fewest numbers that decide a fit.

correction = γ Z⁺ (T − Z W)                               (B1)   Z, T: the samples that must be met
all samples: rows a = Uᵀx in a basis U of what was seen, folded into a root; W = U R⁻¹z + (I − UUᵀ)θ⁰     (B2)
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from remanence.arrays import Array
from remanence.memory import root as roots
from remanence.memory.root import Root, take_outputs
from remanence.memory.subspace import Subspace


@dataclass(frozen=True, slots=True)
class Window:
    """The most recent samples, oldest first."""

    X: Annotated[Array, "k d squarable"]
    Y: Annotated[Array, "k c squarable"]

    def pushed(self, X: Array, Y: Array, size: int) -> "Window":
        """With new samples behind, and only the last `size` kept."""
        if len(X) >= size:
            return Window(X[len(X) - size :].copy(), Y[len(Y) - size :].copy())
        return Window(np.concatenate([self.X, X])[-size:], np.concatenate([self.Y, Y])[-size:])

    def with_outputs(self, sources: Array) -> "Window":
        return Window(self.X, take_outputs(self.Y, sources))


def correction(Z: Array, R: Array) -> Array:
    """The smallest change D (d, c) with Z D nearest to R: minimum norm, whatever the rows depend on (B1)."""
    Z, R = Z[(each := np.abs(Z).max(axis=1)) > 0], R[each > 0]  # a sample of zeros asks for nothing
    if not len(Z):
        return np.zeros((Z.shape[1], R.shape[1]), Z.dtype)
    scale = np.abs(Z).max(axis=1, keepdims=True)
    cut = max(Z.shape) * 16 * float(np.finfo(Z.dtype).eps)
    even, aims = Z / scale, R / scale  # whether samples can all be met does not depend on their lengths
    D = np.linalg.lstsq(even, aims, rcond=cut)[0]
    if not (np.abs(even @ D - aims).max() <= np.sqrt(cut) * np.abs(aims).max()):  # they contradict: plain least squares
        D = np.linalg.lstsq(Z / scale.max(), R / scale.max(), rcond=cut)[0]
    return np.asarray(D)


@dataclass(frozen=True, slots=True)
class Everything:
    """All samples seen, as their information inside the directions they span."""

    span: Annotated[Subspace, "d r"]  # U
    inside: Annotated[Root, "r c"]  # in the coordinates Uᵀx

    def absorbed(self, X: Array, Y: Array, tolerance: float) -> "Everything":
        """With more samples; what a sample has outside the span within the tolerance counts as rounding."""
        span = self.span.extended(X.T, tolerance)
        r, old = span.rank, self.span.rank
        inside = self.inside.copy()
        if r > old:
            factor = np.zeros((r, r), X.dtype, order="F")
            target = np.zeros((r, Y.shape[1]), X.dtype, order="F")
            factor[:old, :old], target[:old] = inside.factor, inside.target
            inside = Root(factor, target, inside.rest)
        return Everything(span, inside.folded(X @ span.basis, Y, donate=True) if r else inside)

    def nearest(self, W: Array) -> Array:
        """The least-squares solution over all samples nearest to W (B2)."""
        if not self.span.rank:
            return W
        return self.span.basis @ self.inside.solve() + self.span.away(W)  # type: ignore[no-any-return]

    def with_outputs(self, sources: Array) -> "Everything":
        return Everything(self.span, self.inside.with_outputs(sources))


def nothing_seen(like: Array, span: Subspace) -> Everything:
    """The memory of no samples, for weights like these."""
    return Everything(span, roots.empty(0, like.shape[1], like.dtype))
