"""Matrices of float64 in the loops of the Kalman filter: row-major and contiguous; by BLAS and LAPACK where they are large.

BLAS reads a row-major matrix as its transpose: the lower triangle is its upper one ("U"), and a product has its factors
in the other order.
"""

from libc.math cimport sqrt
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport dgemm, dsyrk
from scipy.linalg.cython_lapack cimport dgeqrf, dpotrf

from constants cimport DOUBTFUL, EPS, FAR
from lanes cimport axpy, dot, dots

cdef extern from "dense.h" nogil:
    void dense_multiply(
        Py_ssize_t n, Py_ssize_t k, Py_ssize_t m, const double *A, const double *B, const double *add, double *out,
        bint lower)
    void negative_transpose "dense_negative_transpose"(Py_ssize_t n, Py_ssize_t m, const double *A, double *out)
    void transpose "dense_transpose"(Py_ssize_t d, const double *A, double *out)
    void mirror "dense_mirror"(Py_ssize_t d, double *P)
    double abs_dot "dense_abs_dot"(Py_ssize_t n, const double *x, const double *y)
    const int BLAS "DENSE_BLAS"  # from this many features on its products are faster than loops

cdef enum:
    LARGE = 24  # from this many features on LAPACK's factors are faster than loops
    PANEL = 32  # columns that LAPACK's QR takes at a time, of which its storage is made
    STRIP = 36  # rows of a symmetric product that are made at once



cdef inline void copy(Py_ssize_t n, const double *source, double *out) noexcept nogil:
    """out = source, n numbers."""
    memcpy(out, source, n * sizeof(double))


cdef inline void clear(Py_ssize_t n, double *out) noexcept nogil:
    """out = 0, n numbers."""
    memset(out, 0, n * sizeof(double))


cdef inline void multiply(
    Py_ssize_t n, Py_ssize_t k, Py_ssize_t m, const double *A, const double *B, double *out
) noexcept nogil:
    """out (n, m) = A (n, k) B (k, m)."""
    cdef int rows = <int>n, inner = <int>k, width = <int>m
    cdef double one = 1, zero = 0
    if k < BLAS or m < BLAS:
        dense_multiply(n, k, m, A, B, NULL, out, False)
    else:
        dgemm(b"N", b"N", &width, &rows, &inner, &one, <double *>B, &width, <double *>A, &inner, &zero, out, &width)


cdef inline void congruence(
    Py_ssize_t d, const double *A, const double *At, const double *P, const double *add, double *work, double *out
) noexcept nogil:
    """out = A P Aᵀ + add, for symmetric P and add (NULL is 0), given A and its transpose; work (d, d) is storage."""
    cdef int size = <int>d, first = 0, rows, last, strip
    cdef double one = 1, start = 0 if add == NULL else 1
    if d < BLAS:
        dense_multiply(d, d, d, A, P, NULL, work, False)
        dense_multiply(d, d, d, work, At, add, out, True)
    else:  # as BLAS reads it, At is A, and neither product has its first factor transposed: that is slower
        multiply(d, d, d, P, At, work)
        if add != NULL:
            copy(d * d, add, out)
        strip = (size + size // STRIP) // (size // STRIP + 1)
        while first < size:  # the lower triangle, in strips of rows
            rows = min(strip, size - first)
            last = first + rows
            dgemm(b"N", b"T", &last, &rows, &size, &one, work, &size, <double *>At + first, &size, &start,
                  out + first * d, &size)
            first = last
    mirror(d, out)


cdef inline void squared(Py_ssize_t d, const double *L, double *out) noexcept nogil:
    """out = L Lᵀ."""
    cdef int size = <int>d
    cdef double one = 1, zero = 0
    cdef Py_ssize_t i
    if d < LARGE:
        for i in range(d):
            dots(i + 1, d, L, d, L + i * d, out + i * d)
    else:
        dsyrk(b"U", b"T", &size, &size, &one, <double *>L, &size, &zero, out, &size)
    mirror(d, out)


cdef inline bint near(Py_ssize_t d, const double *P, const double *B, double ulps) noexcept nogil:
    """Whether two covariances differ by no more than that many roundings."""
    cdef Py_ssize_t i, j
    cdef double gap, bound = (ulps * EPS) * (ulps * EPS)
    for i in range(d):
        for j in range(i + 1):
            if P[i * d + j] != B[i * d + j]:
                gap = P[i * d + j] - B[i * d + j]
                if ulps == 0 or gap * gap > bound * P[i * d + i] * P[j * d + j]:
                    return False
    return True


cdef inline double moved(Py_ssize_t d, const double *P, const double *B) noexcept nogil:
    """How many roundings two covariances differ by at most."""
    cdef Py_ssize_t i, j
    cdef double gap, largest = 0
    for i in range(d):
        for j in range(i + 1):
            if P[i * d + j] != B[i * d + j]:
                gap = P[i * d + j] - B[i * d + j]
                gap = gap * gap / (P[i * d + i] * P[j * d + j])
                if not gap < (FAR * EPS) * (FAR * EPS):  # true where a variance of 0 changed
                    return FAR
                largest = max(largest, gap)
    return sqrt(largest) / EPS


cdef inline bint cholesky(Py_ssize_t d, const double *P, double *L) noexcept nogil:
    """L with L Lᵀ = P, lower triangular; False, with L half done, where a pivot is no more than rounding."""
    cdef int size = <int>d, info = 0
    cdef Py_ssize_t i, j
    cdef double own
    if d < LARGE:
        for i in range(d):
            own = P[i * d + i]
            for j in range(i):
                L[i * d + j] = (P[i * d + j] - dot(j, L + i * d, L + j * d)) / L[j * d + j]
                L[j * d + i] = 0
                own -= L[i * d + j] * L[i * d + j]
            if not own > DOUBTFUL * P[i * d + i]:
                return False
            L[i * d + i] = sqrt(own)
        return True
    copy(d * d, P, L)
    dpotrf(b"U", &size, L, &size, &info)
    if info != 0:
        return False
    for i in range(d):
        if not L[i * d + i] * L[i * d + i] > DOUBTFUL * P[i * d + i]:
            return False
        clear(d - i - 1, L + i * d + i + 1)
    return True


cdef inline Py_ssize_t pivoted_root(
    Py_ssize_t d, const double *P, double *C, Py_ssize_t *order, double *left
) noexcept nogil:
    """Columns C with C Cᵀ = P, the least decided coordinate first; `order` lists them and the rank is returned.

    What is left of the others, no more than rounding, stays on the diagonal of `left`.
    """
    cdef Py_ssize_t i, j, k, n, best, pivot
    cdef double top, ratio, size
    copy(d * d, P, left)
    clear(d * d, C)
    for i in range(d):
        order[i] = i
    for k in range(d):
        best, top = k, -1.0
        for n in range(k, d):
            i = order[n]
            ratio = left[i * d + i] / P[i * d + i] if P[i * d + i] > 0 else 0.0
            if ratio > top:
                best, top = n, ratio
        if top <= 4 * EPS * d:
            return k
        pivot = order[best]
        order[best] = order[k]
        order[k] = pivot
        size = sqrt(left[pivot * d + pivot])
        C[pivot * d + k] = size
        for n in range(k + 1, d):
            C[order[n] * d + k] = left[order[n] * d + pivot] / size
        for n in range(k + 1, d):
            i = order[n]
            for j in range(d):
                left[i * d + j] -= C[i * d + k] * C[j * d + k]
    return d


cdef inline bint semidefinite_root(
    Py_ssize_t d, const double *P, double *L, bint drop, Py_ssize_t *order, double *left
) noexcept nogil:
    """L with L Lᵀ = P, and whether part of P was no more than rounding: dropped, or raised to what rounding may be."""
    cdef Py_ssize_t k, rank
    if cholesky(d, P, L):
        return False
    rank = pivoted_root(d, P, L, order, left)
    if not drop:
        for k in range(rank, d):
            L[order[k] * d + k] = sqrt(4 * EPS * d * P[order[k] * d + order[k]])
    return rank < d


cdef inline Py_ssize_t triangular(
    Py_ssize_t n, Py_ssize_t p, double *M, Py_ssize_t rows, const double *floor, Py_ssize_t *place, double *v
) noexcept nogil:
    """Rotate the columns of M (n, p) until its rows are triangular, diagonal ≥ 0; returns the columns `rows` rows took.

    One of the first `rows` whose square is not above its floor once the rows before it are gone takes no column
    (place −1): they decide it. Without floors (NULL) every row takes one; v is storage of 33 n or p numbers, whichever is more.
    """
    cdef Py_ssize_t c = 0, taken = 0, k, i
    cdef double square, size, scale
    cdef double *row
    if floor == NULL and n >= LARGE and p >= n:
        _triangular_by_lapack(n, p, M, v)
        for k in range(rows):
            place[k] = k
        return rows
    for k in range(n):
        row = M + k * p
        if k == rows:
            taken = c
        square = dot(p - c, row + c, row + c)
        if k < rows:
            if floor != NULL and square <= floor[k]:
                place[k] = -1
                clear(p - c, row + c)
                continue
            place[k] = c
        size = sqrt(square)
        if size > 0 and c + 1 < p:
            copy(p - c, row + c, v)
            clear(p - c, row + c)
            size = -size if v[0] > 0 else size
            v[0] -= size
            scale = -1 / (size * v[0])
            row[c] = size
            for i in range(k + 1, n):
                axpy(p - c, -scale * dot(p - c, v, M + i * p + c), v, M + i * p + c)
        if row[c] < 0:
            for i in range(k, n):
                M[i * p + c] = -M[i * p + c]
        c += 1
    return taken if n > rows else c


cdef inline void _triangular_by_lapack(Py_ssize_t n, Py_ssize_t p, double *M, double *work) noexcept nogil:
    cdef int rows = <int>p, width = <int>n, space = <int>(PANEL * n), info = 0
    cdef Py_ssize_t i, k
    dgeqrf(&rows, &width, M, &rows, work, work + n, &space, &info)
    for k in range(n):
        clear(p - k - 1, M + k * p + k + 1)
        if M[k * p + k] < 0:
            for i in range(k, n):
                M[i * p + k] = -M[i * p + k]
