"""Single rows folded into a triangular factor, and the weights while rows are still pending.

    r = √(R²ₖₖ + g xₖ²)    Rₖⱼ ← (RₖₖRₖⱼ + g xₖxⱼ)/r    xⱼ ← (Rₖₖxⱼ − xₖRₖⱼ)/r      (T2)   memory/tracking.py
    e = α / Π cₖ, α what is left of y, cₖ the cosines                                (T1)
    S = R⁻ᵀXᵀ     M = B + g SᵀS = C Cᵀ     B = diag(β, β², …)                        (W1)   memory/pending_rows.py
    W = W₀ + g R⁻¹ S M⁻¹ (Y − X W₀)                                                  (W2)
"""

cimport numpy as cnp
from cython cimport floating
from libc.math cimport INFINITY, pow, sqrt
from libc.stdlib cimport free, malloc

from checked cimport columns, matrix, real_type, vector, writeable
from lanes cimport axpy, axpys, dot, dots, rotate_two

cnp.import_array()

cdef inline floating _rotation(floating own, floating new, floating g, floating fade, floating *by) noexcept nogil:
    """The coefficients of (T2) for a diagonal entry `own` that fades and an entry `new` of weight g; returns r."""
    cdef floating r, cos, share
    own = fade * own
    r = sqrt(own * own + g * new * new)
    if r == 0:
        by[0], by[1], by[2], by[3] = fade, 0, 1, 0
        return own
    cos, share = own / r, new / r
    by[0], by[1], by[2], by[3] = fade * cos, g * share, cos, fade * share
    return r


def rotate_rows(
    cnp.ndarray R, cnp.ndarray z, cnp.ndarray rest, cnp.ndarray X, cnp.ndarray Y, cnp.ndarray weights,
    cnp.ndarray fades, cnp.ndarray errors,
) -> None:
    """Fold rows one by one into R (d, d), z (d, c), all row-major, in place; X and Y are used up (T2).

    Two rows travel together through R, the second one step behind the first: half the traffic. An odd last row
    needs a companion that weighs nothing: n is even. Where nothing fades, rows of R before the first entries that are
    not zero stay as they are, so that a diagonal costs a third of as many full rows.
    """
    cdef int kind = real_type(R)
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], c = Y.shape[1]
    if n % 2:
        raise ValueError("expected an even number of rows")
    cdef void *r = matrix(R, kind, d, d)
    cdef void *t = matrix(z, kind, d, c)
    cdef double *left = <double *>vector(rest, cnp.NPY_DOUBLE, c)
    cdef void *x = matrix(X, kind, n, d)
    cdef void *y = matrix(Y, kind, n, c)
    cdef void *g = vector(weights, kind, n)
    cdef void *f = vector(fades, kind, n)
    cdef void *e = matrix(errors, kind, n, c)
    for array in (R, z, rest, X, Y, errors):
        writeable(array)
    with nogil:
        if kind == cnp.NPY_DOUBLE:
            _rotate[double](<double *>r, <double *>t, left, <double *>x, <double *>y, <double *>g, <double *>f,
                            <double *>e, n, d, c)
        else:
            _rotate[float](<float *>r, <float *>t, left, <float *>x, <float *>y, <float *>g, <float *>f,
                           <float *>e, n, d, c)


cdef void _rotate(
    floating *R, floating *z, double *rest, floating *X, floating *Y, const floating *weights, const floating *fades,
    floating *errors, Py_ssize_t n, Py_ssize_t d, Py_ssize_t c,
) noexcept nogil:
    cdef Py_ssize_t i, k, j, start
    cdef floating *x
    cdef floating *y
    cdef floating *u
    cdef floating *v
    cdef floating a[4]
    cdef floating b[4]
    cdef floating g, h, p, q, r, first, second
    for i in range(0, n, 2):
        x, y, u, v = X + i * d, Y + i * c, X + (i + 1) * d, Y + (i + 1) * c
        g, h, p, q = weights[i], weights[i + 1], fades[i], fades[i + 1]
        first, second, start = 1, 1, 0  # the products of the cosines
        if p == 1 and q == 1:
            while start < d and x[start] == 0 and u[start] == 0:
                start += 1
        for k in range(start, d):
            r = _rotation(R[k * d + k], x[k], g, p, a)
            r = _rotation(r, u[k], h, q, b)
            R[k * d + k] = r
            rotate_two(k + 1, d, R + k * d, x, u, a, b)
            rotate_two(0, c, z + k * c, y, v, a, b)
            first *= a[2]
            second *= b[2]
        for j in range(c):
            rest[j] = p * p * rest[j] + g * y[j] * y[j]
            rest[j] = q * q * rest[j] + h * v[j] * v[j]
            errors[i * c + j] = y[j] / first  # (T1)
            errors[(i + 1) * c + j] = v[j] / second


def live_rows(
    cnp.ndarray R, cnp.ndarray W0, cnp.ndarray X, cnp.ndarray Y, cnp.ndarray S, cnp.ndarray C, cnp.ndarray U,
    Py_ssize_t done, Py_ssize_t k, cnp.ndarray scales, cnp.ndarray W,
) -> int:
    """Add the images of rows done, …, k−1 (W1) and write the weights with k rows to W (W2).

    R (d, d), S and C column-major; scales = (forget, gain, smallest pivot, largest diagonal, spread of R, limit), the
    third and fourth kept up to date. Returns the number of rows whose image can be trusted; W is written only if that
    is k.
    """
    cdef int kind = real_type(R)
    cdef Py_ssize_t d = W0.shape[0], c = W0.shape[1], room = X.shape[0], trusted
    if not (0 <= done <= room and 0 <= k <= room):
        raise ValueError("expected done and k to count rows of X")
    cdef void *r = columns(R, kind, d, d)
    cdef void *w0 = matrix(W0, kind, d, c)
    cdef void *x = matrix(X, kind, room, d)
    cdef void *y = matrix(Y, kind, room, c)
    cdef void *s = columns(S, kind, d, room)
    cdef void *l = columns(C, kind, room, room)
    cdef void *u = matrix(U, kind, room, c)
    cdef void *limits = vector(scales, kind, 6)
    cdef void *w = matrix(W, kind, d, c)
    for array in (S, C, U, scales, W):
        writeable(array)
    cdef void *work = malloc((k + d) * R.itemsize)
    if work == NULL:
        raise MemoryError
    with nogil:
        if kind == cnp.NPY_DOUBLE:
            trusted = _images[double](<double *>r, <double *>w0, <double *>x, <double *>y, <double *>s, <double *>l,
                                      <double *>u, done, k, <double *>limits, room, d, c, <double *>work)
            if trusted == k:
                _live_weights[double](<double *>r, <double *>w0, <double *>s, <double *>l, <double *>u, k,
                                      (<double *>limits)[1], <double *>w, room, d, c, <double *>work)
        else:
            trusted = _images[float](<float *>r, <float *>w0, <float *>x, <float *>y, <float *>s, <float *>l,
                                     <float *>u, done, k, <float *>limits, room, d, c, <float *>work)
            if trusted == k:
                _live_weights[float](<float *>r, <float *>w0, <float *>s, <float *>l, <float *>u, k,
                                     (<float *>limits)[1], <float *>w, room, d, c, <float *>work)
    free(work)
    return trusted


cdef Py_ssize_t _images(
    const floating *R, const floating *W0, const floating *X, const floating *Y, floating *S, floating *C,
    floating *U, Py_ssize_t done, Py_ssize_t k, floating *scales, Py_ssize_t room, Py_ssize_t d, Py_ssize_t c,
    floating *row,
) noexcept nogil:
    """(W1) for rows done, …, k−1; row (k) is storage."""
    cdef floating forget = scales[0], gain = scales[1], spread = scales[4], limit = scales[5]
    cdef floating *s
    cdef floating ahead[4]
    cdef floating own, pivot, total
    cdef Py_ssize_t i, j, a, b, width
    for i in range(done, k):
        s = S + i * d
        for a in range(0, d, 4):  # Rᵀs = x, down the columns of R, four at a time
            width = min(4, d - a)
            dots(width, a, R + a * d, d, s, ahead)
            for b in range(width):
                total = X[i * d + a + b] - ahead[b]
                for j in range(b):
                    total -= R[(a + b) * d + a + j] * s[a + j]
                s[a + b] = total / R[(a + b) * d + a + b]
        own = <floating>pow(forget, i + 1) + gain * dot(d, s, s)
        dots(i, d, S, d, s, row)
        pivot = own
        for j in range(i):
            row[j] *= gain
        for j in range(i):
            row[j] /= C[j * room + j]
            pivot -= row[j] * row[j]
            axpy(i - j - 1, -row[j], C + j * room + j + 1, row + j + 1)
            C[j * room + i] = row[j]
        scales[2], scales[3] = min(scales[2], pivot), max(scales[3], own)
        if not (pivot > 0 and scales[3] * spread <= limit * scales[2] < INFINITY):  # false for NaN too
            return i
        C[i * room + i] = sqrt(pivot)
        for j in range(c):
            total = Y[i * c + j]
            if c == 1:
                total -= dot(d, X + i * d, W0)
            else:
                for a in range(d):
                    total -= X[i * d + a] * W0[a * c + j]
            for b in range(i):
                total -= row[b] * U[b * c + j]
            U[i * c + j] = total / C[i * room + i]
    return k


cdef void _live_weights(
    const floating *R, const floating *W0, const floating *S, const floating *C, const floating *U, Py_ssize_t k,
    floating gain, floating *W, Py_ssize_t room, Py_ssize_t d, Py_ssize_t c, floating *work,
) noexcept nogil:
    """(W2), M⁻¹ by the factor C."""
    cdef floating *V = work  # (k,)
    cdef floating *step = work + k  # (d,)
    cdef Py_ssize_t i, j, a, b
    for j in range(c):
        for i in range(k - 1, -1, -1):
            V[i] = (U[i * c + j] - dot(k - 1 - i, C + i * room + i + 1, V + i + 1)) / C[i * room + i]
        for a in range(d):
            step[a] = 0
        axpys(k, d, V, S, d, step)
        for a in range(d - 1, -1, -1):  # R step = S V, up the columns of R
            step[a] /= R[a * d + a]
            axpy(a, -step[a], R + a * d, step)
        for a in range(d):
            W[a * c + j] = W0[a * c + j] + gain * step[a]
