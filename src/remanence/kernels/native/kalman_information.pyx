"""The smoother without backward gains: the information of later observations, carried backward.

    Σ_{t|T} = F − F B F,   θ_{t|T} = θ_{t|t} + F λ                                                            (I1)
    N = (I − KX)ᵀ B (I − KX) + ZᵀZ,   r = (I − KX)ᵀ λ + Zᵀw,   KX = GᵀZ, Z = C⁻¹X, w = C⁻¹(y − Xθ_{t|t−1})    (I2)
    B ← AᵀNA,   λ ← Aᵀr                                                                                       (I3)

F = Σ_{t|t}; B is the information about θ_t in the observations after step t, N that from step t on. With U = GB,
V = U − ½(UGᵀ + I)Z the first of (I2) is N = B − ZᵀV − VᵀZ. No matrix is factored: where a step has few rows the
cost is that of three products of d × d matrices; by the gains (kalman_smoother.pyx) it is four, with a factorization.
"""

cimport numpy as cnp
from libc.stdlib cimport free, malloc
from scipy.linalg.cython_blas cimport dsyr2k

from checked cimport matrix, stack, writeable
from constants cimport SEEN
from dense cimport BLAS, clear, congruence, copy, dense_multiply, mirror, multiply, negative_transpose, transpose
from lanes cimport axpys, dots

cnp.import_array()


def informed(
    cnp.ndarray A, cnp.ndarray X, cnp.ndarray G, cnp.ndarray W, cnp.ndarray kinds, cnp.ndarray whitened,
    cnp.ndarray mean, cnp.ndarray filtered, cnp.ndarray predicted, double limit, cnp.ndarray smoothed_mean,
    cnp.ndarray smoothed,
) -> bool:
    """The smoothed means and covariances; False, half done, where (I2) takes more than `limit` times what it leaves."""
    cdef Py_ssize_t T = filtered.shape[0], d = filtered.shape[1], m = G.shape[1]
    cdef int real = cnp.NPY_DOUBLE
    cdef Backward s
    s.T, s.d, s.m = T, d, m
    s.A, s.X = <double *>stack(A, real, T, d, d, True), <double *>stack(X, real, T, m, d, True)
    s.A_step, s.X_step = A.shape[0] > 1, X.shape[0] > 1
    s.G, s.W = <double *>stack(G, real, T, m, d), <double *>stack(W, real, T, m, m)
    s.kinds = <long long *>matrix(kinds, cnp.NPY_INT64, T, m)
    s.w, s.mean = <double *>matrix(whitened, real, T, m), <double *>matrix(mean, real, T, d)
    s.F, s.P = <double *>stack(filtered, real, T, d, d), <double *>stack(predicted, real, T, d, d)
    cdef double *means = <double *>matrix(smoothed_mean, real, T, d)
    cdef double *out = <double *>stack(smoothed, real, T, d, d)
    writeable(smoothed_mean)
    writeable(smoothed)
    cdef double *storage = <double *>malloc((3 * d * d + 5 * m * d + m + 2 * d) * sizeof(double))
    if storage == NULL:
        raise MemoryError
    cdef bint good
    with nogil:
        good = _informed(&s, limit, means, out, storage)
    free(storage)
    return good


cdef struct Backward:
    Py_ssize_t T, d, m, A_step, X_step
    const double *A
    const double *X
    const double *G
    const double *W
    const long long *kinds
    const double *w
    const double *mean
    const double *F
    const double *P


cdef bint _informed(const Backward *s, double limit, double *means, double *smoothed, double *storage) noexcept nogil:
    cdef Py_ssize_t d = s.d, m = s.m, dd = d * d, t, i
    cdef double *B = storage  # (d, d) −B, so that every product adds
    cdef double *N = B + dd  # (d, d) −N
    cdef double *At = N + dd  # (d, d)
    cdef double *Z = At + dd  # (m, d), V after it, then Z again
    cdef double *U = Z + 3 * m * d  # (2 m, d)
    cdef double *gap = U + 2 * m * d  # (m,)
    cdef double *ahead = gap + m  # (d,) λ
    cdef double *r = ahead + d  # (d,)
    cdef const double *A
    cdef const double *F
    cdef const double *G
    clear(dd, B)
    clear(d, ahead)
    for t in range(s.T - 1, -1, -1):
        A, F, G = s.A + t * s.A_step * dd, s.F + t * dd, s.G + t * m * d
        for i in range(d):
            if not -B[i * d + i] * s.P[t * dd + i * d + i] <= limit:
                return False
        dots(d, d, F, d, ahead, means + t * d)
        for i in range(d):
            means[t * d + i] += s.mean[t * d + i]  # (I1)
        if t == s.T - 1:
            copy(dd, F, smoothed + t * dd)
        else:
            congruence(d, F, F, B, F, N, smoothed + t * dd)  # (I1)
        if t == 0:
            return True
        multiply(m, m, d, s.W + t * m * m, s.X + t * s.X_step * m * d, Z)
        for i in range(m):
            if s.kinds[t * m + i] != SEEN:
                clear(d, Z + i * d)
        dots(m, d, G, d, ahead, gap)
        for i in range(m):
            gap[i] = s.w[t * m + i] - gap[i]
        copy(d, ahead, r)
        axpys(m, d, gap, Z, d, r)  # (I2)
        _with_rows(d, m, B, G, Z, U, gap, N)  # (I2)
        transpose(d, A, At)
        congruence(d, At, A, N, NULL, smoothed + (t - 1) * dd, B)  # (I3), with what comes next as storage
        clear(d, ahead)
        axpys(d, d, r, A, d, ahead)  # (I3)
    return True


cdef void _with_rows(
    Py_ssize_t d, Py_ssize_t m, const double *B, const double *G, double *Z, double *U, double *own, double *N
) noexcept nogil:
    """−N of (I2), given −B; storage: two more matrices after Z (m, d), U (2 m, d), own (m,)."""
    cdef double *V = Z + m * d
    cdef int size = <int>d, rows = <int>m
    cdef double one = 1, minus = -1
    cdef Py_ssize_t k, j
    multiply(m, d, d, G, B, U)  # −U
    for k in range(m):
        dots(m, d, G, d, U + k * d, own)
        for j in range(m):
            own[j] = ((1.0 if j == k else 0.0) - own[j]) / 2
        copy(d, U + k * d, V + k * d)
        axpys(m, d, own, Z, d, V + k * d)  # −V
    if d < BLAS:
        copy(m * d, Z, V + m * d)
        negative_transpose(2 * m, d, Z, U)
        dense_multiply(d, 2 * m, d, U, V, B, N, True)
    else:
        copy(d * d, B, N)
        dsyr2k(b"U", b"N", &size, &rows, &minus, Z, &size, V, &size, &one, N, &size)
    mirror(d, N)
