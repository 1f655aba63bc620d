"""What the root of the monomials of one degree says: the polynomial, how well it fits, and where the samples lie.

    c = argmin ‖b − A c‖,   b = yⁿ and A the others, columns of length 1; the smallest c where A is singular   (P1)
    r = ‖b − A c‖/‖b‖:   √(1 − √(1 − r²)) is the smallest singular value of [Q b/‖b‖], A = QR                 (P2)

(P2) is 0 where the degree fits. Columns of A may depend on each other, as neighbouring samples of a signal nearly do:
that alone makes a singular value of [A b] small, which says nothing of y.
"""

import numpy as np

from remanence.arrays import Array
from remanence.memory.root import Root
from remanence.validation import check_result

DIGITS = 1e-11  # singular values of A below this share of the largest are rounding


def solution(root: Root) -> tuple[Array, float]:
    """c (P1), and the singular value (P2)."""
    A, b, lengths = unit_columns(root)
    c = np.linalg.lstsq(A, b, rcond=DIGITS)[0]
    square = min(1.0, float(np.square(b - A @ c).sum()))
    return np.asarray(c * lengths[-1] / lengths[:-1]), float(np.sqrt(square / (1 + np.sqrt(1 - square))))


def directions(linear: Root, degree: int) -> tuple[Array, Array]:
    """Where samples x lie, from the root of the monomials of degree 1, as far as those of this degree can tell.

    Returns (d, r), of which random combinations are distributed as the samples are, and the projector (d, d) onto the
    models θ that are combinations of samples, with columns of length 1.
    """
    A, _, lengths = unit_columns(linear)
    _, s, V = np.linalg.svd(A[:-1])
    kept = s > DIGITS ** (1 / degree) * max(float(s[0]), 1e-300)
    V, lengths = V[kept], lengths[:-1]
    return (V.T * s[kept]) * (lengths / lengths.max())[:, None], (V.T @ V) * lengths / lengths[:, None]


def unit_columns(root: Root) -> tuple[Array, Array, Array]:
    """A (m + 1, m) and b (m + 1,) at length 1, and all lengths; columns of zeros stay."""
    m = len(root.factor)
    whole = np.zeros((m + 1, m + 1))
    whole[:m, :m], whole[:m, m:], whole[m, m] = root.factor, root.target, np.sqrt(root.rest[0])
    lengths = np.linalg.norm(whole, axis=0)
    lengths[lengths == 0] = 1
    whole /= lengths
    check_result(whole)
    return whole[:, :-1], whole[:, -1], lengths
