"""A block of rows folded into a triangular factor, a panel of columns at a time: Householder's reflections by gemm.

    [R]   →  H [R],     H = I − [e] τ [e v]ᵀ,   v = E / (R − β),   β = −sign(R) √(R² + ‖E‖²),   τ = (β − R)/β      (H1)
    [E]        [E]              [v]
    H₁ ⋯ H_b = I − [I; V] T [I; V]ᵀ,    T upper triangular                                                      (H2)
    W = Tᵀ(R + VᵀE)    R ← R − W    E ← E − V W      for all columns behind the panel                           (H3)

E are the rows, with their targets and whatever else is to be reflected beside them. LAPACK's tpqrt does the same; its panels
are calls of BLAS for each column, which cost more than the work where there are few rows.
"""

cimport numpy as cnp
from cython cimport floating
from libc.math cimport fabs, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from scipy.linalg.cython_blas cimport dgemm, dtrmm, sgemm, strmm

from checked cimport columns, real_type, writeable
from lanes cimport axpy, dot, dots

cnp.import_array()


def reflect_rows(cnp.ndarray R, cnp.ndarray z, cnp.ndarray E, Py_ssize_t panel) -> None:
    """Fold the first d columns of E (n, d + width) into R (d, d); all column-major, in place.

    Of the other columns the first c are folded into z (d, c), the next ones into zeros that are not kept. What is left
    of all of them stays in E; in the first d columns it is noise.
    """
    cdef int kind = real_type(R)
    cdef Py_ssize_t n = E.shape[0], d = R.shape[0], c = z.shape[1], width = E.shape[1] - R.shape[0]
    if width < c or panel < 1:
        raise ValueError("expected targets for every output, and panels of at least one column")
    cdef void *r = columns(R, kind, d, d)
    cdef void *t = columns(z, kind, d, c)
    cdef void *e = columns(E, kind, n, d + width)
    for array in (R, z, E):
        writeable(array)
    cdef void *work = malloc(panel * (panel + d + width) * R.itemsize)
    if work == NULL:
        raise MemoryError
    with nogil:
        if kind == cnp.NPY_DOUBLE:
            _reflect[double](<double *>r, <double *>t, <double *>e, n, d, c, width, panel, <double *>work)
        else:
            _reflect[float](<float *>r, <float *>t, <float *>e, n, d, c, width, panel, <float *>work)
    free(work)


cdef void _reflect(
    floating *R, floating *z, floating *E, Py_ssize_t n, Py_ssize_t d, Py_ssize_t c, Py_ssize_t width,
    Py_ssize_t panel, floating *work,
) noexcept nogil:
    cdef floating *T = work  # (b, b), column-major
    cdef floating *W = T + panel * panel  # (b, columns behind the panel), column-major
    cdef Py_ssize_t first = 0, b, left, behind
    while first < d:
        b = min(panel, d - first)
        left = d - first - b
        behind = left + width
        _panel(R + first * d + first, d, E + first * n, n, b, T)
        _copied(b, left, R + (first + b) * d + first, d, W)
        _copied(b, c, z + first, d, W + left * b)
        memset(W + (left + c) * b, 0, b * (width - c) * sizeof(floating))
        _multiply(True, b, behind, n, 1, E + first * n, E + (first + b) * n, W)
        _transposed_times(b, behind, T, W)
        _subtracted(b, left, W, R + (first + b) * d + first, d)
        _subtracted(b, c, W + left * b, z + first, d)
        _multiply(False, n, behind, b, -1, E + first * n, W, E + (first + b) * n)  # (H3)
        first += b


cdef inline void _panel(
    floating *R, Py_ssize_t d, floating *E, Py_ssize_t n, Py_ssize_t b, floating *T
) noexcept nogil:
    """(H1) for b columns; E becomes V, and T that of (H2)."""
    cdef Py_ssize_t i, j, k
    cdef floating *v
    cdef floating *own
    cdef floating tau, total
    for k in range(b):
        v, own = E + k * n, T + k * b
        tau = _reflection(n, R + k * d + k, v)
        dots(b - k - 1, n, v + n, n, v, own)  # (T's column is free until the end)
        for j in range(k + 1, b):
            total = tau * (R[j * d + k] + own[j - k - 1])
            R[j * d + k] -= total
            axpy(n, -total, v, E + j * n)
        dots(k, n, E, n, v, own)
        for i in range(k):  # T ← [T, −τ T Vᵀv; 0, τ]: upper triangular times a vector, from the top
            total = 0
            for j in range(i, k):
                total += T[j * b + i] * own[j]
            own[i] = -tau * total
        own[k] = tau


cdef inline floating _reflection(Py_ssize_t n, floating *corner, floating *v) noexcept nogil:
    """τ, with v and the corner of R as in (H1)."""
    cdef floating square = dot(n, v, v), own = corner[0], size, scale = 0, low, high
    cdef Py_ssize_t i
    if floating is double:
        low, high = 1e-280, 1e280
    else:
        low, high = <floating>1e-30, <floating>1e30
    if low < square < high and fabs(own) < sqrt(high):
        size = <floating>sqrt(own * own + square)
    else:  # in units of the largest entry
        for i in range(n):
            scale = max(scale, <floating>fabs(v[i]))
        if scale == 0:
            return 0
        scale = max(scale, <floating>fabs(own))
        size = (own / scale) * (own / scale)
        for i in range(n):
            size += (v[i] / scale) * (v[i] / scale)
        size = scale * <floating>sqrt(size)
    size = -size if own > 0 else size
    scale = 1 / (own - size)
    for i in range(n):
        v[i] *= scale
    corner[0] = size
    return (size - own) / size


cdef inline void _copied(Py_ssize_t b, Py_ssize_t m, const floating *source, Py_ssize_t d, floating *W) noexcept nogil:
    """W (b, m) = b rows of a matrix of d rows."""
    cdef Py_ssize_t i, j
    for j in range(m):
        for i in range(b):
            W[j * b + i] = source[j * d + i]


cdef inline void _subtracted(Py_ssize_t b, Py_ssize_t m, const floating *W, floating *out, Py_ssize_t d) noexcept nogil:
    """W (b, m) taken from b rows of a matrix of d rows."""
    cdef Py_ssize_t i, j
    for j in range(m):
        for i in range(b):
            out[j * d + i] -= W[j * b + i]


cdef inline void _multiply(
    bint transposed, Py_ssize_t n, Py_ssize_t m, Py_ssize_t k, floating scale, floating *A, floating *B, floating *out
) noexcept nogil:
    """out (n, m) ← out + scale A B, contiguous and column-major; A is given as its transpose (k, n) where `transposed`."""
    cdef int rows = <int>n, width = <int>m, inner = <int>k, lead = <int>(k if transposed else n)
    cdef char *turn = b"T" if transposed else b"N"
    cdef floating one = 1
    if m == 0:
        return
    if floating is double:
        dgemm(turn, b"N", &rows, &width, &inner, &scale, A, &lead, B, &inner, &one, out, &rows)
    else:
        sgemm(turn, b"N", &rows, &width, &inner, &scale, A, &lead, B, &inner, &one, out, &rows)


cdef inline void _transposed_times(Py_ssize_t b, Py_ssize_t m, floating *T, floating *W) noexcept nogil:
    """W (b, m) ← Tᵀ W."""
    cdef int rows = <int>b, width = <int>m
    cdef floating one = 1
    if m == 0:
        return
    if floating is double:
        dtrmm(b"L", b"U", b"T", b"N", &rows, &width, &one, T, &rows, W, &rows)
    else:
        strmm(b"L", b"U", b"T", b"N", &rows, &width, &one, T, &rows, W, &rows)
