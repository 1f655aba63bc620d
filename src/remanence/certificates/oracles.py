"""Reference solutions for the claims: the defining problems, solved directly from all data.

    A = [√w X; √μ I]     B = [√w Y; √μ θ⁰]     minimise ‖A W − B‖                                (O1)
    ‖ΔW‖ ≤ ε κ (2 + (κ + 1) ρ) ‖W‖     κ = ‖A‖_F ‖A⁺‖     ρ = ‖A W − B‖ / (‖A‖_F ‖W‖)              (O2)
    K = ΦXᵀD⁻¹     M = D + XXᵀ/λ     z = D⁻¹(Y − XW)     ‖ΔW‖ ≤ ε ‖K‖ ‖M‖ ‖z‖                       (O3)
    θ ~ N(m, C)     y = H θ + v     θ | y ~ N(m + K e, C − K H C)     K = C Hᵀ S⁻¹                  (O4)

(O1) is weighted ridge regression as one tall system; (O2) bounds the effect of a relative change ε of A and B, to first
order. A few pending rows are solved with the small matrix M instead, where D = diag(βⁱ); (O3) bounds the effect of a
change ε of it. (O4) is the linear Gaussian model, with θ of all steps and all observations as one Gaussian.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.certificate import Certificate, Evidence, rounding
from remanence.kalman import LinearGaussian


def weakest(found: Iterable[Evidence]) -> Evidence:
    """The evidence that is nearest to its limit, or furthest beyond it."""
    return max(found, key=lambda e: Certificate("", "", (), e.measured, e.allowed).strain)


class LeastSquares:
    """Ridge regression with rows that weigh 1/βⁱ, as one tall system (O1), solved by a singular value decomposition."""

    def __init__(self, X: Array, Y: Array, ridge: float = 1.0, forget: float = 1.0, start: Array | None = None) -> None:
        n, d = X.shape
        self.X, self.Y, self.ridge = X, Y, ridge
        self.noise = np.asarray(forget ** np.arange(1.0, n + 1))  # (n,) βⁱ
        self.unit = float(min(1.0, forget**n))  # scales the paper's objective so that no weight is above 1
        w, prior = np.sqrt(self.unit / self.noise)[:, None], np.sqrt(self.unit * ridge)
        centre = np.zeros((d, Y.shape[1])) if start is None else start
        self.A = np.vstack([w * X, prior * np.eye(d)])  # (n + d, d)
        self.B = np.vstack([w * Y, prior * centre])  # (n + d, c)
        U, s, V = np.linalg.svd(self.A, full_matrices=False)
        self.weights = np.asarray((V.T / s) @ (U.T @ self.B))  # (d, c)
        self.phi = np.asarray((V.T / s**2) @ V * self.unit)  # (d, d) the inverse of half the Hessian
        self.length = float(np.linalg.norm(s))  # ‖A‖_F
        self.condition = self.length / float(s[-1])  # κ of (O2)
        self.left = float(np.linalg.norm(self.A @ self.weights - self.B))
        self.size = 4 * self.A.size  # eliminating a column takes a sum of squares and a product per entry below

    @property
    def loss(self) -> float:
        """The minimum of the paper's objective."""
        return self.left**2 / self.unit

    def magnification(self) -> float:
        """(O2)."""
        share = self.left / max(self.length * float(np.linalg.norm(self.weights)), 1e-300)
        return self.condition * (2 + (self.condition + 1) * share)

    def pending_magnification(self) -> float:
        """(O2) and (O3), relative to the weights."""
        K, M = self.phi @ self.X.T / self.noise, np.diag(self.noise) + self.X @ self.X.T / self.ridge
        z = (self.Y - self.X @ self.weights) / self.noise[:, None]
        share = np.linalg.norm(K) * np.linalg.norm(z) / max(float(np.linalg.norm(self.weights)), 1e-300)
        return self.magnification() + float(np.linalg.norm(M) * share)

    def allowed(self) -> float:
        """Rounding error allowed between two solutions of the tall system, relative to the weights."""
        return rounding(self.magnification(), 2 * self.size)

    def allowed_pending(self) -> float:
        """The same if one of the two solutions uses the small matrix of pending rows."""
        return rounding(self.pending_magnification(), 2 * self.size)

    def allowed_phi(self) -> float:
        """Rounding error allowed between two computations of Φ, relative to its norm; Φ has twice the sensitivity κ."""
        return rounding(2 * self.condition, 2 * self.size)


class JointGaussian:
    """θ of all steps and the observations of a model as one Gaussian (O4); observations that are NaN are left out."""

    def __init__(self, model: LinearGaussian, Y: Any, steps: int | None = None) -> None:
        s, d, T = model.steps, model.features, len(Y)
        self.T, self.d = T, d
        mean, cov = np.zeros((T, d)), np.zeros((T, d, T, d))
        mean[0], cov[0, :, 0] = model.mean, model.cov
        for t in range(1, T):
            A, Q = (v[t if len(v) > 1 else 0] for v in (s.A, s.Q))
            mean[t] = A @ mean[t - 1]
            cov[t, :, :t] = np.einsum("ij,jkl->ikl", A, cov[t - 1, :, :t])
            cov[:t, :, t] = cov[t, :, :t].transpose(1, 2, 0)
            cov[t, :, t] = A @ cov[t - 1, :, t - 1] @ A.T + Q
        self.mean, self.C = mean.ravel(), cov.reshape(T * d, T * d)
        seen = T if steps is None else steps
        self.y = np.concatenate([np.zeros(0), *(np.ravel(y) for y in Y[:seen])])
        rows = [int(s.rows[t if len(s.rows) > 1 else 0]) for t in range(seen)]
        self.H, self.R = np.zeros((sum(rows), T * d)), np.zeros((sum(rows), sum(rows)))
        for t, first in enumerate(np.cumsum([0, *rows[:-1]]) if rows else []):
            part = slice(int(first), int(first) + rows[t])
            self.H[part, t * d : (t + 1) * d] = s.X[t if len(s.X) > 1 else 0][: rows[t]]
            self.R[part, part] = s.R[t if len(s.R) > 1 else 0][: rows[t], : rows[t]]
        there = ~np.isnan(self.y)
        self.y, self.H, self.R = self.y[there], self.H[there], self.R[np.ix_(there, there)]
        self.S = self.H @ self.C @ self.H.T + self.R
        self.e = self.y - self.H @ self.mean

    def posterior(self) -> tuple[Array, Array]:
        """Means (T, d) and the covariance (T, d, T, d) of all steps given the observations."""
        K = np.linalg.solve(self.S, self.H @ self.C).T
        after = (self.C - K @ self.H @ self.C).reshape(self.T, self.d, self.T, self.d)
        return (self.mean + K @ self.e).reshape(self.T, self.d), after

    def given(self) -> tuple[Array, Array]:
        """Means (T, d) and covariances (T, d, d) of every step given the observations."""
        mean, after = self.posterior()
        return mean, np.array([after[t, :, t] for t in range(self.T)])

    @property
    def distance(self) -> float:
        """eᵀS⁻¹e."""
        return float(self.e @ np.linalg.solve(self.S, self.e))

    @property
    def loglik(self) -> float:
        """log p(y)."""
        return float(-0.5 * (self.distance + np.linalg.slogdet(2 * np.pi * self.S)[1]))

    @property
    def condition(self) -> float:
        """κ(S): the covariances of one-step prediction are Schur complements of S, so κ(S) bounds theirs."""
        return float(np.linalg.cond(self.S)) if len(self.y) else 1.0

    @property
    def spread(self) -> float:
        """‖C‖, the scale of errors of covariances."""
        return float(np.linalg.norm(self.C, 2))

    @property
    def reach(self) -> float:
        """‖m‖ + ‖C Hᵀ‖ ‖S⁻¹e‖, the scale of errors of means."""
        if not len(self.y):
            return float(np.linalg.norm(self.mean))
        moved = np.linalg.norm(self.C @ self.H.T, 2) * np.linalg.norm(np.linalg.solve(self.S, self.e))
        return float(np.linalg.norm(self.mean) + moved)

    def allowed(self) -> float:
        """Rounding error allowed between two computations with products with C and solves with S."""
        return rounding(self.condition, 4 * (len(self.C) + len(self.y)) * max(len(self.y), self.d))
