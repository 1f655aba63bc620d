"""The covariance of a Gaussian over a network's weights, in three forms.

    full      Σ                                   (C1)   every pair of weights
    layers    Σ = blockdiag(Σ₁, Σ₂, …)            (C2)   each layer's block conditioned with the others as noise:
              Rₗ = I + Σ_{k≠l} X_k Σ_k X_kᵀ              the diagonal blocks of the full update, and the full mean
    lowrank   Σ⁻¹ = diag(υ) + W Wᵀ, W (D, r)      (C3)   information: a diagonal and `rank` directions

Observations are rows X, w of unit noise. The low-rank form appends Xᵀ to W and computes the singular values of the
information beside the diagonal: with diag(υ)^−½ [W Xᵀ] = V diag(s) Pᵀ,

    Δ = diag(υ)^−½ V diag(s/(1 + s²)) Pᵀ [0; w]                                        (C4)   exact: before truncation
    W ← diag(υ)^½ V₁ diag(s₁),    υ ← υ (1 + diag(V₂ diag(s₂²) V₂ᵀ))                    (C5)   r strongest directions

so that the directions which are dropped are kept as variances. Drift is exact in this form:

    υ' = υ/(1 + qυ),   W' = diag(1/(1 + qυ)) W C⁻ᵀ,   C Cᵀ = I + Wᵀ diag(q/(1 + qυ)) W    (C6)   (Σ + diag(q))⁻¹

As long as the observations so far span at most `rank` directions, or `rank` is the number of weights, it equals the
full form.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from remanence.arrays import Array
from remanence.deep.nn.saved_parts import SavedParts
from remanence.errors import NumericalError
from remanence.memory.gaussian import Gain, gain, least_noise
from remanence.memory.truncated_svd import no_spectrum


class Covariance(Protocol):
    """A covariance of the weights that can be updated."""

    def drifted(self, drift: Array) -> Self:
        """Return the covariance after the weights moved by noise of variances `drift` (D,)."""

    def conditioned(self, X: Array, w: Array) -> tuple[Self, Array]:
        """Return the covariance after observing w = XΔ + N(0, I), and the expected change Δ (D,)."""

    def to_dict(self) -> dict[str, Any]:
        """Return the covariance as arrays, by name."""

    def from_dict(self, parts: SavedParts) -> Self:
        """Return a covariance of this shape from what `to_dict` returned."""


@dataclass(frozen=True, slots=True)
class FullCovariance:
    """Covariance of every pair of weights (C1)."""

    cov: Array  # (D, D)

    def drifted(self, drift: Array) -> "FullCovariance":
        cov = self.cov.copy()
        cov.ravel()[:: len(cov) + 1] += drift
        return FullCovariance(cov)

    def conditioned(self, X: Array, w: Array) -> tuple["FullCovariance", Array]:
        found = _gain(self.cov, X, np.eye(len(X)))
        return FullCovariance(found.after), found.G.T @ (found.W @ w)

    def to_dict(self) -> dict[str, Any]:
        return {"cov": self.cov}

    def from_dict(self, parts: SavedParts) -> "FullCovariance":
        return FullCovariance(parts.covariance("cov", len(self.cov)))


@dataclass(frozen=True, slots=True)
class BlockCovariance:
    """Covariance of the pairs of weights within each layer (C2)."""

    covs: dict[str, Array]  # (D_l, D_l) by layer
    places: dict[str, slice]  # slice of each layer's weights

    def drifted(self, drift: Array) -> "BlockCovariance":
        return self._with(
            {name: FullCovariance(cov).drifted(drift[self.places[name]]).cov for name, cov in self.covs.items()}
        )

    def conditioned(self, X: Array, w: Array) -> tuple["BlockCovariance", Array]:
        spread = {name: X[:, place] @ self.covs[name] @ X[:, place].T for name, place in self.places.items()}
        change, covs = np.empty(X.shape[1]), {}
        for name, place in self.places.items():
            noise = np.eye(len(X)) + sum(other for key, other in spread.items() if key != name)
            found = _gain(self.covs[name], X[:, place], (noise + noise.T) / 2)
            covs[name], change[place] = found.after, found.G.T @ (found.W @ w)
        return self._with(covs), change

    def _with(self, covs: dict[str, Array]) -> "BlockCovariance":
        return BlockCovariance(covs, self.places)

    def to_dict(self) -> dict[str, Any]:
        return {f"{name}.cov": cov for name, cov in self.covs.items()}

    def from_dict(self, parts: SavedParts) -> "BlockCovariance":
        return self._with({name: parts.covariance(f"{name}.cov", len(cov)) for name, cov in self.covs.items()})


@dataclass(frozen=True, slots=True)
class LowRankInformation:
    """Inverse covariance as a diagonal and a few directions (C3)."""

    diagonal: Array  # (D,) υ
    factor: Array  # (D, r) W, r ≤ rank
    rank: int

    def drifted(self, drift: Array) -> "LowRankInformation":
        shrink = 1 / (1 + drift * self.diagonal)
        inner = np.eye(self.factor.shape[1]) + (self.factor.T * (drift * shrink)) @ self.factor
        C = np.linalg.cholesky(inner)
        factor = np.linalg.solve(C, self.factor.T * shrink).T  # (C6)
        return LowRankInformation(self.diagonal * shrink, factor, self.rank)

    def conditioned(self, X: Array, w: Array) -> tuple["LowRankInformation", Array]:
        scale = np.sqrt(self.diagonal)
        rows = np.concatenate([self.factor.T, X]) / scale
        targets = np.concatenate([np.zeros(self.factor.shape[1]), w])[:, None]
        known = no_spectrum(len(scale), 1).absorbed(rows, targets, len(rows))
        s = known.strength
        change = known.basis @ (s / (1 + s**2) * known.target[:, 0]) / scale  # (C4)
        dropped = ((known.basis[:, self.rank :] * s[self.rank :]) ** 2).sum(axis=1)
        factor = known.basis[:, : self.rank] * s[: self.rank] * scale[:, None]
        return LowRankInformation(self.diagonal * (1 + dropped), factor, self.rank), change  # (C5)

    def to_dict(self) -> dict[str, Any]:
        return {"diagonal": self.diagonal, "factor": self.factor}

    def from_dict(self, parts: SavedParts) -> "LowRankInformation":
        diagonal = parts.array("diagonal", len(self.diagonal))
        factor = parts.array("factor", len(diagonal), None)
        parts.check(bool((diagonal > 0).all()), "diagonal")
        parts.check(factor.shape[1] <= self.rank, "factor")
        return LowRankInformation(diagonal, factor, self.rank)


def _gain(cov: Array, X: Array, noise: Array) -> Gain:
    try:
        found = gain(cov, X, noise, least_noise(noise))
    except np.linalg.LinAlgError:  # overflow
        found = None
    if found is None or not np.isfinite(found.logdet):
        raise NumericalError(
            "the covariance of the outputs cannot be factored in this precision and the batch was not learned; "
            "use a larger noise or ridge, or scale x and y to about 1"
        )
    return found
