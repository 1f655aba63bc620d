"""Linear discriminant analysis out of the memory of ridge regression on one-hot labels.

Let s = xᵀW be the ridge scores, N = diag(n₁, …, n_c) the weight of each class, n their sum, and

    E = N − G,   G = Σᵢ yᵢ sᵢᵀ         what ridge regression leaves unexplained of the one-hot labels        (D1)

With S the scatter within classes and P the penalty (λ on every feature, 0 on the intercept), linear discriminant
analysis with the covariance κ(S + P)/n has the scores

    δ_k(x) = n/κ (s E⁻ − ½ diag(E⁻) + ½ N⁻¹)_k + log n_k/n                                                   (D2)

up to a number that is the same for all classes: the two fits span the same directions, and differ by a c × c matrix.
E⁻ is any symmetric generalised inverse. With an intercept, G is taken without its column, which leaves E invertible:
then (N − G)⁻¹ is one. κ = tr S / (tr S + tr P) keeps the total variance that the rows have within their classes, as
scikit-learn does: (D2) equals LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1 − κ) on all rows,

    shrinkage = λ / (λ + tr S / d),        λ = shrinkage / (1 − shrinkage) · tr S / d                         (D3)

The scores of the mean of all rows need only

    diag(E⁻¹ − N⁻¹) = diag(N^-½ V a/(1−a) Vᵀ N^-½),        N^-½ G N^-½ = V a Vᵀ                                (D4)

which is taken from G and not as a difference: where the rows are small beside √λ, G is far below the rounding of N.

E is a difference. Its digits are those of the memory divided by the smallest eigenvalue of N^-½ E N^-½, the share of
the variance in the best discriminant direction that lies within classes: a millionth of it costs six digits.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from remanence.arrays import Array
from remanence.errors import NumericalError
from remanence.memory.root import Root, sums_of_squares

ROUNDING = 8.0  # times precision and size: a share of variance below that is rounding


class ResidualInverse(Protocol):
    """The inverse of E, (c, c)."""

    @property
    def distances(self) -> Array: ...  # (c,) diag(E⁻¹ − N⁻¹), to all its digits however small it is (D4)

    def apply(self, rows: Array) -> Array:
        """rows E⁻¹, (n, c)."""


@dataclass(frozen=True, slots=True)
class DenseInverse:
    """For few classes: the matrix itself."""

    matrix: Array  # (c, c)
    distances: Array  # (c,)

    def apply(self, rows: Array) -> Array:
        return np.asarray(rows @ self.matrix)


@dataclass(frozen=True, slots=True)
class FactoredInverse:
    """For more classes than features: N^-½ (I + AᵀF) N^-½, where A and F have a row per feature."""

    root: Array  # (c,) N^-½
    left: Array  # (d, c) A
    right: Array  # (d, c) F

    @property
    def distances(self) -> Array:
        return np.asarray(self.root**2 * np.einsum("ij,ij->j", self.left, self.right))

    def apply(self, rows: Array) -> Array:
        scaled = rows * self.root
        return np.asarray((scaled + (scaled @ self.left.T) @ self.right) * self.root)


@dataclass(frozen=True, slots=True)
class Discriminant:
    """Linear discriminant analysis in terms of ridge scores (D2), for classes that all have samples."""

    inverse: ResidualInverse
    counts: Array  # (c,) n_k
    kappa: float
    shrinkage: float  # 1 − κ (D3), to all its digits however small it is

    @property
    def scale(self) -> float:
        """n/κ."""
        return float(self.counts.sum() / self.kappa)

    def weights(self, W: Array) -> Array:
        """(d, c) Coefficients of the features, from those of ridge regression."""
        return self.scale * self.inverse.apply(W)

    def intercepts(self, uniform: bool = False) -> Array:
        """(c,) The scores of the mean of all rows, or of x = 0 where there is no intercept."""
        level = -0.5 * self.scale * self.inverse.distances
        return level if uniform else level + np.log(self.counts / self.counts.sum())


def discriminant_of(data: Root, W: Array, ridge: float, centred: bool) -> Discriminant:
    """The discriminant of all rows in a root; W (d, c) are the ridge weights. Every class must have samples.

    `centred`: feature 0 is the column of ones, which the factor puts first: what is below it is centred.
    """
    free = int(centred)
    counts = class_weights(data, centred)
    if not len(counts) or not (counts > 0).all():  # (no rows give others, but a file may say anything)
        raise NumericalError("expected weight of every class in the memory, got none of some; learn the rows anew")
    R, z, W = data.factor[free:, free:], data.target[free:], W[free:]
    scores, z = (R @ W).astype(np.float64), z.astype(np.float64)
    inverse = residual_inverse(scores, z, counts, float(np.finfo(data.dtype).eps))
    return Discriminant(inverse, counts, *_shares(R, z, counts, ridge))


def class_weights(data: Root, centred: bool) -> Array:
    """(c,) Σ w of each class: the first row of Rᵀz where feature 0 is one, otherwise Σ w y².

    Removing rows keeps RᵀR and Rᵀz to rounding also where a column depends on others; Σ w y² it does not.
    """
    if centred:
        return np.asarray(float(data.factor[0, 0]) * data.target[0].astype(np.float64))
    return np.asarray(data.energies()[len(data.factor) :])


def residual_inverse(scores: Array, z: Array, counts: Array, eps: float) -> ResidualInverse:
    """(N − G)⁻¹ with G = scoresᵀz (D1), through the smaller of the two dimensions."""
    root = 1 / np.sqrt(counts)
    (d, c), (scores, z) = z.shape, (scores * root, z * root)
    floor = ROUNDING * eps * max(c, d)
    if c <= d:
        explained = scores.T @ z
        share, V = np.linalg.eigh((explained + explained.T) / 2)
        V *= root[:, None]
        left = np.maximum(1 - share, floor)
        return DenseInverse((V / left) @ V.T, np.einsum("ij,j,ij->i", V, share / left, V))
    # (I − AᵀZ)⁻¹ = I + Aᵀ(I − ZAᵀ)⁻¹Z
    return FactoredInverse(root, scores, np.linalg.solve((1 + floor) * np.eye(d) - z @ scores.T, z))


def _shares(R: Array, z: Array, counts: Array, ridge: float) -> tuple[float, float]:
    """tr S and tr P as shares of their sum; 1 and 0 where rows do not spread within their classes.

    Then the penalty is the covariance.
    """
    total = float(sums_of_squares(R).sum())
    within = total - float((sums_of_squares(R.T @ z) / counts).sum())
    if not within > ROUNDING * float(np.finfo(R.dtype).eps) * total:
        return 1.0, 0.0
    penalty = len(R) * ridge
    return within / (within + penalty), penalty / (within + penalty)
