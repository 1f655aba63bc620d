"""Joint training: the model that all rows of a stream give at once, by dense linear algebra and none of the methods.

    [X Y; √λ I 0] = Q [R Z; 0 ρ],    R = U diag(s) Vᵀ,    W = V diag(1/s) Uᵀ Z          (J1)

Directions that no row spans (s of rounding size) get no weight, which is the minimum-norm solution.
"""

from dataclasses import dataclass

import numpy as np

from remanence.arrays import Array
from remanence.certificates.certificate import likely, rounding
from remanence.certificates.training_record import LinearModel


@dataclass(frozen=True, slots=True)
class JointModel:
    """The jointly trained model and what it says about the data."""

    W: Array  # (d, c)
    predictions: Array  # (n, c) of all rows
    kappa: float  # condition of the rows, with the prior, among the directions they span
    exact: bool  # whether this model fits every row exactly
    fits: bool  # whether some model does


def joint_training(model: LinearModel) -> JointModel:
    """Ridge regression, or the minimum-norm least-squares solution if nothing is penalised, on all rows at once."""
    W, kappa = _solved(model.X, model.Y, model.ridge, model.unpenalized)
    exact = _met(model, W, kappa)
    fits = exact or _met(model, *_solved(model.X, model.Y, 0.0, 0))
    return JointModel(W, model.X @ W, kappa, exact, fits)


def _solved(X: Array, Y: Array, ridge: float, unpenalized: int) -> tuple[Array, float]:
    d = X.shape[1]
    prior = np.sqrt(ridge) * np.eye(d)[unpenalized:] if ridge else np.zeros((0, d))
    stacked = np.block([[X, Y], [prior, np.zeros((len(prior), Y.shape[1]))]])
    R = np.asarray(np.linalg.qr(stacked, mode="r"))
    U, s, Vt = np.linalg.svd(R[:, :d], full_matrices=False)
    spanned = s > max(stacked.shape) * np.finfo(float).eps * s[0]
    if not spanned.any():
        return np.zeros((d, Y.shape[1])), 1.0
    U, s, Vt = U[:, spanned], s[spanned], Vt[spanned]
    return np.asarray(Vt.T @ ((U.T @ R[:, d:]) / s[:, None])), float(s[0] / s[-1])


def _met(model: LinearModel, W: Array, kappa: float) -> bool:
    left = float(np.linalg.norm(model.Y - model.X @ W))
    size = float(np.linalg.norm(model.Y) + np.linalg.norm(model.X, 2) * np.linalg.norm(W))
    return left <= min(model.precision * rounding(kappa, likely(model.X.size)), 1e-6) * size
