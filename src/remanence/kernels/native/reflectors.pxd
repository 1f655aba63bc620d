"""Householder reflections of a triangle R and rows B below it, column-major: [R; B] = Q [R'; 0], Q = I − V T Vᵀ.

    β = −sign(α) ‖(α, x)‖    τ = (β − α)/β    v = x/(α − β)                    (H1)   one column (α; x) becomes (β; 0)
    Q = H₁ H₂ … = I − [I; V] T [I; V]ᵀ,   T₁₂ = −T₁ (V₁ᵀV₂) T₂                 (H2)   many at once, T upper triangular
    W = Tᵀ(Rⱼ + VᵀBⱼ)    Rⱼ ← Rⱼ − W    Bⱼ ← Bⱼ − V W                          (H3)   Qᵀ applied to other columns

V takes the place of B. Columns are taken NARROW at a time by loops, and halves are put together by BLAS; where there are
few rows (reflections.pyx) loops are faster up to WIDEST columns.
"""

from cython cimport floating
from libc.math cimport sqrt
from scipy.linalg.cython_blas cimport dgemm, dtrmm, sgemm, strmm
from scipy.linalg.cython_lapack cimport dlarfg, slarfg

from lanes cimport axpy, dot, dots

cdef enum:
    NARROW = 8
    WIDEST = 32


cdef inline void add_product(
    bint transposed, int n, int m, int k, floating a, floating *A, int lda, floating *B, int ldb, floating b,
    floating *C, int ldc,
) noexcept nogil:
    """C (n, m) = b C + a A B, or with AᵀB."""
    cdef char *how = b"T" if transposed else b"N"
    if floating is double:
        dgemm(how, b"N", &n, &m, &k, &a, A, &lda, B, &ldb, &b, C, &ldc)
    else:
        sgemm(how, b"N", &n, &m, &k, &a, A, &lda, B, &ldb, &b, C, &ldc)


cdef inline void multiply_triangle(
    char *side, char *how, int n, int m, floating a, floating *T, int ldt, floating *C, int ldc
) noexcept nogil:
    """C (n, m) = a T C (side "L") or a C T (side "R"), T upper triangular, transposed where how is "T"."""
    if floating is double:
        dtrmm(side, b"U", how, b"N", &n, &m, &a, T, &ldt, C, &ldc)
    else:
        strmm(side, b"U", how, b"N", &n, &m, &a, T, &ldt, C, &ldc)


cdef inline floating reflection(Py_ssize_t m, floating *corner, floating *x) noexcept nogil:
    """(H1) in place: `corner` becomes β and x (m,) becomes v; returns τ."""
    cdef floating alpha = corner[0], square = dot(m, x, x), beta, tau = 0, total, scale
    cdef floating low = 1e-290 if floating is double else <floating>1e-30
    cdef floating high = 1e290 if floating is double else <floating>1e30
    cdef int size = <int>m + 1, one = 1
    cdef Py_ssize_t i
    total = alpha * alpha + square
    if not (square > low and total < high):  # zeros, or squares that leave the range of numbers
        if floating is double:
            dlarfg(&size, corner, x, &one, &tau)
        else:
            slarfg(&size, corner, x, &one, &tau)
        return tau
    beta = sqrt(total)
    beta = -beta if alpha > 0 else beta
    scale = 1 / (alpha - beta)
    for i in range(m):
        x[i] *= scale
    corner[0] = beta
    return (beta - alpha) / beta


cdef inline void factor_narrow(
    Py_ssize_t k, Py_ssize_t m, floating *R, Py_ssize_t ldr, floating *B, Py_ssize_t ldb, floating *T, Py_ssize_t ldt
) noexcept nogil:
    """(H1), (H2) for k ≤ WIDEST columns, one after the other."""
    cdef Py_ssize_t i, j, l
    cdef floating tau, w, total
    cdef floating along[WIDEST]
    cdef floating *v
    for i in range(k):
        v = B + i * ldb
        tau = reflection(m, R + i + i * ldr, v)
        T[i + i * ldt] = tau
        dots(i, m, B, ldb, v, along)
        for j in range(i):
            total = 0
            for l in range(j, i):
                total += T[j + l * ldt] * along[l]
            T[j + i * ldt] = -tau * total
        if tau == 0:
            continue
        dots(k - i - 1, m, v + ldb, ldb, v, along)
        for j in range(i + 1, k):
            w = tau * (R[i + j * ldr] + along[j - i - 1])
            R[i + j * ldr] -= w
            axpy(m, -w, v, B + j * ldb)


cdef inline void copy_rows(
    Py_ssize_t k, Py_ssize_t width, const floating *R, Py_ssize_t ldr, floating *W
) noexcept nogil:
    """W (k, width) = k rows of R."""
    cdef Py_ssize_t i, j
    for j in range(width):
        for i in range(k):
            W[i + j * k] = R[i + j * ldr]


cdef inline void subtract_rows(
    Py_ssize_t k, Py_ssize_t width, const floating *W, floating *R, Py_ssize_t ldr
) noexcept nogil:
    """W (k, width) taken from k rows of R."""
    cdef Py_ssize_t i, j
    for j in range(width):
        for i in range(k):
            R[i + j * ldr] -= W[i + j * k]


cdef inline void reflect(
    Py_ssize_t k, Py_ssize_t width, Py_ssize_t m, floating *V, Py_ssize_t ldv, floating *T, Py_ssize_t ldt,
    floating *B, Py_ssize_t ldb, floating *W,
) noexcept nogil:
    """(H3) but for R, whose rows are in W (k, width): what is to be taken from them takes their place."""
    add_product(True, <int>k, <int>width, <int>m, 1, V, <int>ldv, B, <int>ldb, 1, W, <int>k)
    multiply_triangle(b"L", b"T", <int>k, <int>width, 1, T, <int>ldt, W, <int>k)
    add_product(False, <int>m, <int>width, <int>k, -1, V, <int>ldv, W, <int>k, 1, B, <int>ldb)


cdef inline void apply_reflections(
    Py_ssize_t k, Py_ssize_t width, Py_ssize_t m, floating *V, Py_ssize_t ldv, floating *T, Py_ssize_t ldt,
    floating *R, Py_ssize_t ldr, floating *B, Py_ssize_t ldb, floating *W,
) noexcept nogil:
    """(H3): k reflections applied to `width` columns; W (k, width) is storage."""
    copy_rows(k, width, R, ldr, W)
    reflect(k, width, m, V, ldv, T, ldt, B, ldb, W)
    subtract_rows(k, width, W, R, ldr)


cdef inline void factor_panel(
    Py_ssize_t k, Py_ssize_t m, floating *R, Py_ssize_t ldr, floating *B, Py_ssize_t ldb, floating *T, Py_ssize_t ldt,
    floating *W,
) noexcept nogil:
    """(H1), (H2) for k columns, by halves; T (k, k) and V in B are written, W (k, k) is storage."""
    cdef Py_ssize_t left = NARROW, right
    cdef floating *corner
    if k <= NARROW:
        factor_narrow(k, m, R, ldr, B, ldb, T, ldt)
        return
    while 2 * left < k:
        left *= 2
    right = k - left
    factor_panel(left, m, R, ldr, B, ldb, T, ldt, W)
    apply_reflections(left, right, m, B, ldb, T, ldt, R + left * ldr, ldr, B + left * ldb, ldb, W)
    factor_panel(right, m, R + left + left * ldr, ldr, B + left * ldb, ldb, T + left + left * ldt, ldt, W)
    corner = T + left * ldt
    add_product(True, <int>left, <int>right, <int>m, 1, B, <int>ldb, B + left * ldb, <int>ldb, 0, corner, <int>ldt)
    multiply_triangle(b"L", b"N", <int>left, <int>right, -1, T, <int>ldt, corner, <int>ldt)
    multiply_triangle(b"R", b"N", <int>left, <int>right, 1, T + left + left * ldt, <int>ldt, corner, <int>ldt)
