"""One block of observations, or one step of time: (G1), (G3) and (G5) of memory/gaussian.py."""

from libc.math cimport fabs, log, sqrt
from scipy.linalg.cython_blas cimport dsyrk

from constants cimport CAREFUL, CONFLICT, DECIDED, SEEN
from dense cimport BLAS, clear, copy, dense_multiply, mirror, multiply, negative_transpose, triangular
from lanes cimport axpys, dot, dots


cdef inline bint plain(
    Py_ssize_t d, Py_ssize_t n, const double *P, const double *Z, const double *R, double least, double *ZP, double *C
) noexcept nogil:
    """C (n, n) of (G1) for n rows Z, unless the noise is so small that (G3) is called for: then False."""
    cdef Py_ssize_t k, j
    cdef double largest = 0
    multiply(n, d, d, Z, P, ZP)
    for k in range(n):
        dots(k + 1, d, Z, d, ZP + k * d, C + k * n)
        for j in range(k + 1):
            C[k * n + j] += R[k * n + j]
        largest = max(largest, C[k * n + k])
    if not least > CAREFUL * largest:
        return False
    for k in range(n):
        for j in range(k):
            C[k * n + j] = (C[k * n + j] - dot(j, C + k * n, C + j * n)) / C[j * n + j]
        C[k * n + k] = sqrt(max(C[k * n + k] - dot(k, C + k * n, C + k * n), least))
    return True


cdef inline double inverse_of(Py_ssize_t n, const double *C, double *V) noexcept nogil:
    """V = C⁻¹, and log det C Cᵀ."""
    cdef Py_ssize_t k, j
    cdef double logdet = 0
    clear(n * n, V)
    for k in range(n):
        axpys(k, k, C + k * n, V, n, V + k * n)
        for j in range(k):
            V[k * n + j] /= -C[k * n + k]
        V[k * n + k] = 1 / C[k * n + k]
        logdet += log(C[k * n + k])
    return 2 * logdet


cdef inline void conditioned(
    Py_ssize_t d, Py_ssize_t n, const double *P, const double *V, const double *ZP, double *g, double *work, double *F
) noexcept nogil:
    """Gᵀ (n, d) of (G1) and Σ after the block (G2); work (d, n) is storage."""
    cdef Py_ssize_t k
    cdef int size = <int>d, rows = <int>n
    cdef double one = 1, minus = -1
    clear(n * d, g)
    for k in range(n):
        axpys(k + 1, d, V + k * n, ZP, d, g + k * d)  # (G1)
    if d < BLAS:
        negative_transpose(n, d, g, work)
        dense_multiply(d, n, d, work, g, P, F, True)  # (G2)
    else:
        copy(d * d, P, F)
        dsyrk(b"U", b"N", &size, &rows, &minus, g, &size, &one, F, &size)
    mirror(d, F)


cdef inline void rotated(
    Py_ssize_t d, Py_ssize_t m, Py_ssize_t n, double *L, const double *Z, const double *R, const double *root,
    double tolerance, double *C, double *g, long long *kinds, double *slack, double *M, double *work,
    Py_ssize_t *place,
) noexcept nogil:
    """C and G of (G1), and L after the block, by the rotations (G3).

    Storage: M (n + d, m + d), work (2 d + n + 33 (n + m + 2 d)) and place (n).
    """
    cdef double *sizes = work
    cdef double *old = sizes + d
    cdef double *floor = old + d
    cdef double *v = floor + n
    cdef double *row
    cdef Py_ssize_t p = m + d, i, j, k, taken
    cdef double scale
    clear((n + d) * p, M)
    for i in range(d):
        copy(d, L + i * d, M + (n + i) * p + m)
        old[i] = dot(d, L + i * d, L + i * d)
        sizes[i] = sqrt(old[i])
    for k in range(n):
        row = M + k * p
        copy(m, root + k * m, row)
        axpys(d, d, Z + k * d, L, d, row + m)
        scale = 0
        for i in range(d):
            scale += fabs(Z[k * d + i]) * sizes[i]
        scale = scale * scale + R[k * n + k]
        floor[k] = tolerance * scale
        slack[k] = CONFLICT * sqrt(scale)
    taken = triangular(n + d, p, M, n, floor if tolerance > 0 else NULL, place, v)
    for k in range(n):
        kinds[k] = SEEN if place[k] >= 0 else DECIDED
        for j in range(k):
            C[k * n + j] = M[k * p + place[j]] if place[j] >= 0 else 0
        C[k * n + k] = M[k * p + place[k]] if place[k] >= 0 else 1
        for i in range(d):
            g[k * d + i] = M[(n + i) * p + place[k]] if place[k] >= 0 else 0
    for i in range(d):
        copy(d, M + (n + i) * p + taken, L + i * d)
        if tolerance > 0 and dot(d, L + i * d, L + i * d) <= tolerance * old[i]:
            clear(d, L + i * d)


cdef inline void advanced(
    Py_ssize_t d, double *L, const double *A, const double *root, double *wide, double *work
) noexcept nogil:
    """L one step later (G5); storage: wide (d, 2 d), work (100 d + d²)."""
    cdef Py_ssize_t i
    cdef double *product = work + 100 * d
    multiply(d, d, d, A, L, product)
    for i in range(d):
        copy(d, product + i * d, wide + 2 * i * d)
        copy(d, root + i * d, wide + (2 * i + 1) * d)
    triangular(d, 2 * d, wide, 0, NULL, NULL, work)
    for i in range(d):
        copy(d, wide + 2 * i * d, L + i * d)
