"""Complex numbers as pairs of real ones: z = a + ib is (a, b), side by side.

    xᵀw = r + is     with     r = uᵀω,  s = vᵀω     ω = w,  u = x̄,  v = i x̄     as real vectors of 2d entries      (P1)
    M w  →  [Re m  −Im m; Im m  Re m] for every entry m of M                                                     (P2)

(P1) turns a complex row into two real ones, (P2) a complex matrix into a real one of twice its size. Sums, products and
inverses of such matrices are those of the complex ones, so that real algorithms compute complex results.
"""

import numpy as np

from remanence.arrays import Array


def real_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """float64 for complex128, float32 for complex64."""
    return np.dtype(dtype.char.lower())


def real_entries(Z: Array) -> Array:
    """(…, n) complex numbers as (…, 2n) real ones."""
    Z = np.ascontiguousarray(Z)
    return Z.view(real_dtype(Z.dtype))


def complex_entries(A: Array) -> Array:
    """(…, 2n) real numbers as the (…, n) complex ones whose parts they are."""
    A = np.ascontiguousarray(A)
    return A.view(np.dtype(A.dtype.char.upper()))


def real_rows(X: Array) -> Array:
    """(n, d) complex rows as (2n, 2d) real ones, u and v in turn (P1)."""
    u = X.conj()
    return real_entries(np.stack([u, 1j * u], axis=1)).reshape(2 * len(X), 2 * X.shape[1])


def real_targets(Y: Array) -> Array:
    """(n, c) complex targets as (2n, c) real ones, r and s in turn."""
    return np.stack([Y.real, Y.imag], axis=1).reshape(2 * len(Y), Y.shape[1])


def complex_targets(Y: Array) -> Array:
    """The (n, c) complex targets of (2n, c) real ones."""
    return np.asarray(Y[::2] + 1j * Y[1::2], np.dtype(Y.dtype.char.upper()))


def real_weights(W: Array) -> Array:
    """(d, c) complex weights as (2d, c) real ones, ω."""
    return np.ascontiguousarray(real_entries(W.T).T)


def complex_weights(W: Array) -> Array:
    """The (d, c) complex weights of (2d, c) real ones."""
    return np.ascontiguousarray(complex_entries(W.T).T)


def real_matrix(M: Array) -> Array:
    """(…, m, n) complex matrices as (…, 2m, 2n) real ones (P2)."""
    M = np.asarray(M, np.result_type(M, np.complex64))
    rows = np.stack([real_entries(M.conj()), real_entries(1j * M.conj())], axis=-2)
    return np.ascontiguousarray(rows.reshape(*M.shape[:-2], 2 * M.shape[-2], 2 * M.shape[-1]))


def complex_matrix(A: Array) -> Array:
    """The (…, m, n) complex matrices of (…, 2m, 2n) real ones; what rounding has made of equal entries is averaged."""
    re = (A[..., ::2, ::2] + A[..., 1::2, 1::2]) / 2
    im = (A[..., 1::2, ::2] - A[..., ::2, 1::2]) / 2
    return np.asarray(re + 1j * im)
