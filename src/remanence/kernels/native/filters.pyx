"""LMS and APA, row by row: loops whose every step needs the one before.

    θ ← θ + γ x (y − xᵀθ) / ‖x‖²                                     (L1)   methods/lms.py
    θ ← θ + γ Zᵀ(ZZᵀ)⁻¹(T − Zθ)                                      (A1)   methods/apa.py
"""

cimport numpy as cnp
from cython cimport floating
from libc.math cimport fabs, isfinite, sqrt
from libc.stdlib cimport free, malloc

from checked cimport matrix, real_type, vector, writeable
from lanes cimport axpy, axpys, dot, dot_and_square, dots

cnp.import_array()


def lms_walk(
    cnp.ndarray W, cnp.ndarray X, cnp.ndarray Y, cnp.ndarray steps, bint normalized, cnp.ndarray errors
) -> int:
    """LMS over the rows, W (c, d) in place; returns the first row that is not finite, or the number of rows."""
    cdef int kind = real_type(W)
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], c = W.shape[0], stop
    cdef void *w = matrix(W, kind, c, d)
    cdef void *x = matrix(X, kind, n, d)
    cdef void *y = matrix(Y, kind, n, c)
    cdef void *s = vector(steps, kind, n)
    cdef void *e = matrix(errors, kind, n, c)
    writeable(W)
    writeable(errors)
    with nogil:
        if kind == cnp.NPY_DOUBLE:
            stop = _lms[double](<double *>w, <double *>x, <double *>y, <double *>s, normalized, <double *>e, n, d, c)
        else:
            stop = _lms[float](<float *>w, <float *>x, <float *>y, <float *>s, normalized, <float *>e, n, d, c)
    return stop


cdef Py_ssize_t _lms(
    floating *W, const floating *X, const floating *Y, const floating *steps, bint normalized, floating *errors,
    Py_ssize_t n, Py_ssize_t d, Py_ssize_t c,
) noexcept nogil:
    cdef Py_ssize_t i, j, k
    cdef const floating *x
    cdef floating *w
    cdef floating square, scale, answer, error, gain
    for i in range(n):
        x = X + i * d
        answer, scale = dot_and_square(d, x, W, &square), 1
        if not (1e-290 < square < 1e280):  # zero, out of range, or not finite: look at the size first
            scale = _largest(d, x)
            if scale < 0:
                return i
            square = _scaled_square(d, x, scale) if scale > 0 else 1
            scale = scale if scale > 0 else 1
        for j in range(c):
            w = W + j * d
            if j > 0:
                answer = dot(d, x, w)
            error = Y[i * c + j] - answer
            errors[i * c + j] = error
            if not normalized:
                axpy(d, steps[i] * error, x, w)
            elif scale == 1:
                axpy(d, steps[i] * (error / square), x, w)  # (L1)
            else:
                gain = steps[i] * (error / scale / square)
                for k in range(d):
                    w[k] += gain * (x[k] / scale)
    return n


cdef floating _largest(Py_ssize_t d, const floating *x) noexcept nogil:
    """The largest magnitude, or −1 where an entry is not finite."""
    cdef floating largest = 0
    cdef Py_ssize_t k
    for k in range(d):
        if not isfinite(x[k]):
            return -1
        largest = max(largest, <floating>fabs(x[k]))
    return largest


cdef floating _scaled_square(Py_ssize_t d, const floating *x, floating scale) noexcept nogil:
    """‖x / scale‖²."""
    cdef floating square = 0
    cdef Py_ssize_t k
    for k in range(d):
        square += (x[k] / scale) * (x[k] / scale)
    return square


def apa_walk(
    cnp.ndarray W, cnp.ndarray Z, cnp.ndarray T, Py_ssize_t first, Py_ssize_t buffer, cnp.ndarray steps,
    cnp.ndarray errors, Py_ssize_t skip, double bound,
) -> int:
    """APA over rows first, first+1, … of Z (n, d), T (n, c), each with up to `buffer` rows before it; W in place.

    Stops at a row whose constraints are too dependent for a Gram matrix (squared pivot ratio below `bound`) and returns
    its index; the caller solves that one with care and comes back with `skip` past it.
    """
    cdef int kind = real_type(W)
    cdef Py_ssize_t n = Z.shape[0], d = Z.shape[1], c = W.shape[0], size = buffer + 1, stop
    if first < 0 or buffer < 0 or skip < 0 or steps.shape[0] < n - first or errors.shape[0] < n - first:
        raise ValueError("expected rows from `first` on, with a step and an error for each")
    cdef void *w = matrix(W, kind, c, d)
    cdef void *z = matrix(Z, kind, n, d)
    cdef void *t = matrix(T, kind, n, c)
    cdef void *s = vector(steps, kind, steps.shape[0])
    cdef void *e = matrix(errors, kind, errors.shape[0], c)
    writeable(W)
    writeable(errors)
    cdef void *work = malloc((2 * size * size + size * (c + 1)) * W.itemsize)
    if work == NULL:
        raise MemoryError
    with nogil:
        if kind == cnp.NPY_DOUBLE:
            stop = _apa[double](<double *>w, <double *>z, <double *>t, first, size, <double *>s, <double *>e, skip,
                                bound, n, d, c, <double *>work)
        else:
            stop = _apa[float](<float *>w, <float *>z, <float *>t, first, size, <float *>s, <float *>e, skip,
                               bound, n, d, c, <float *>work)
    free(work)
    return stop


cdef Py_ssize_t _apa(
    floating *W, const floating *Z, const floating *T, Py_ssize_t first, Py_ssize_t size, const floating *steps,
    floating *errors, Py_ssize_t skip, double bound, Py_ssize_t n, Py_ssize_t d, Py_ssize_t c, floating *work,
) noexcept nogil:
    cdef floating *G = work  # (size, size) ZZᵀ, its lower triangle
    cdef floating *L = G + size * size  # (size, size) its Cholesky factor
    cdef floating *inverse = L + size * size  # (size,) 1 over the factor's diagonal, which is not kept
    cdef floating *r = inverse + size  # (c, size) T − Zθ, then (ZZᵀ)⁻¹ times it
    cdef floating *own
    cdef const floating *rows
    cdef Py_ssize_t i, m, a, b, j, k, known = 0  # constraints whose products are in G
    cdef floating total, part
    for i in range(first + skip, n):
        m = min(i + 1, size)
        rows = Z + (i + 1 - m) * d
        if known and m == known:  # the oldest row left: move the products up
            for a in range(m - 1):
                for b in range(a + 1):
                    G[a * size + b] = G[(a + 1) * size + b + 1]
        for a in range(m - 1 if known else 0, m):
            dots(a + 1, d, rows, d, rows + a * d, G + a * size)
        known = m
        for j in range(c):
            own = r + j * size
            dots(m, d, rows, d, W + j * d, own)
            for a in range(m):
                own[a] = T[(i + 1 - m + a) * c + j] - own[a]
            errors[(i - first) * c + j] = own[m - 1]
        for a in range(m):  # Cholesky, row by row
            own = L + a * size
            total = G[a * size + a]
            for b in range(a):
                part = G[a * size + b]
                for k in range(b):
                    part -= own[k] * L[b * size + k]
                own[b] = part * inverse[b]
                total -= own[b] * own[b]
            if not (total > bound * G[a * size + a] and 1e-290 < G[a * size + a] < 1e280):
                return i
            inverse[a] = 1 / <floating>sqrt(total)
        for j in range(c):
            own = r + j * size
            for a in range(m):
                for k in range(a):
                    own[a] -= L[a * size + k] * own[k]
                own[a] *= inverse[a]
            for a in range(m - 1, -1, -1):
                own[a] *= inverse[a]
                for k in range(a):
                    own[k] -= L[a * size + k] * own[a]
            for a in range(m):
                own[a] *= steps[i - first]
            axpys(m, d, own, rows, d, W + j * d)  # (A1)
    return n
