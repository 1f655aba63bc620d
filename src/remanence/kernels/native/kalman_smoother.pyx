"""The smoother's loops over time, backward: the equations (RTS) of kalman/smoother.py."""

cimport numpy as cnp
from libc.math cimport floor, sqrt
from libc.stdlib cimport free, malloc
from scipy.linalg.cython_blas cimport dgemm
from scipy.linalg.cython_lapack cimport dpotrf, dtrtri

from checked cimport matrix, stack, vector, writeable
from constants cimport CAREFUL, DOUBTFUL, FAR, FAST, STRETCH
from dense cimport LARGE, abs_dot, cholesky, clear, congruence, copy, moved, multiply, near, pivoted_root, transpose
from lanes cimport axpy, dots

cnp.import_array()

cdef enum:
    BLOCK = 25  # columns that are solved for at once


cdef void _gain(
    Py_ssize_t d, const double *A, const double *F, const double *P, double *Jt, double *C, double *left,
    double *inverses, Py_ssize_t *order,
) noexcept nogil:
    """Jt = Jᵀ, J = F Aᵀ P⁺ (RTS1); C and left (d, d) and inverses (d + BLOCK, BLOCK) are storage."""
    cdef int size = <int>d, info = 0
    cdef Py_ssize_t i
    if d < LARGE:
        multiply(d, d, d, A, F, Jt)
        if cholesky(d, P, C):
            _solve(d, C, Jt)
        else:
            _solve_in_order(d, P, Jt, C, left, order)
        return
    copy(d * d, P, C)
    dpotrf(b"L", &size, C, &size, &info)
    for i in range(d):
        if info == 0 and not C[i * d + i] * C[i * d + i] > DOUBTFUL * P[i * d + i]:
            info = 1
    multiply(d, d, d, A, F, Jt)  # as BLAS reads it, F Aᵀ
    if info == 0:
        _solve_in_blocks(d, C, Jt, left, inverses)
    else:
        _solve_in_order(d, P, Jt, C, left, order)


cdef void _solve_in_blocks(Py_ssize_t d, double *C, double *X, double *Y, double *inverses) noexcept nogil:
    """X ← X C⁻ᵀ C⁻¹ by matrix products, as BLAS reads them: twice as fast as its triangular solves.

    Y (d, d) is storage, inverses (d + BLOCK, BLOCK) becomes those of the blocks on the diagonal of C.
    """
    cdef int size = <int>d, width, rest, j, block = BLOCK, info = 0
    cdef double one = 1, zero = 0, minus = -1
    cdef double *own
    cdef Py_ssize_t k
    j = 0
    while j < size:
        width, own = min(block, size - j), inverses + j * BLOCK
        for k in range(width):
            clear(k, own + k * BLOCK)
            copy(width - k, C + (j + k) * d + j + k, own + k * BLOCK + k)
        dtrtri(b"L", b"N", &width, own, &block, &info)
        if j > 0:
            dgemm(b"N", b"T", &size, &width, &j, &minus, Y, &size, C + j, &size, &one, X + j * d, &size)
        dgemm(b"N", b"T", &size, &width, &width, &one, X + j * d, &size, own, &block, &zero, Y + j * d, &size)
        j += block
    j = (size - 1) // block * block
    while j >= 0:
        width, own = min(block, size - j), inverses + j * BLOCK
        rest = size - j - width
        if rest > 0:
            dgemm(b"N", b"N", &size, &width, &rest, &minus, X + (j + width) * d, &size, C + j * d + j + width, &size,
                  &one, Y + j * d, &size)
        dgemm(b"N", b"N", &size, &width, &width, &one, Y + j * d, &size, own, &block, &zero, X + j * d, &size)
        j -= block


cdef void _solve(Py_ssize_t d, const double *C, double *H) noexcept nogil:
    """H ← (C Cᵀ)⁻¹ H, C lower triangular."""
    cdef Py_ssize_t i, j, k
    cdef double inverse
    for i in range(d):
        for k in range(i):
            axpy(d, -C[i * d + k], H + k * d, H + i * d)
        inverse = 1 / C[i * d + i]
        for j in range(d):
            H[i * d + j] *= inverse
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            axpy(d, -C[k * d + i], H + k * d, H + i * d)
        inverse = 1 / C[i * d + i]
        for j in range(d):
            H[i * d + j] *= inverse


cdef void _solve_in_order(
    Py_ssize_t d, const double *P, double *H, double *C, double *left, Py_ssize_t *order
) noexcept nogil:
    """H ← P⁺H for a P that may be singular: coordinates that others decide are passed over, their rows are 0."""
    cdef Py_ssize_t rank = pivoted_root(d, P, C, order, left), i, j, k, n
    for n in range(rank):
        i = order[n]
        for k in range(n):
            axpy(d, -C[i * d + k], H + order[k] * d, H + i * d)
        for j in range(d):
            H[i * d + j] /= C[i * d + n]
    for n in range(rank - 1, -1, -1):
        i = order[n]
        for k in range(n + 1, rank):
            axpy(d, -C[order[k] * d + n], H + order[k] * d, H + i * d)
        for j in range(d):
            H[i * d + j] /= C[i * d + n]
    for n in range(rank, d):
        for j in range(d):
            H[order[n] * d + j] = 0


cdef double _amplified(
    Py_ssize_t d, const double *J, const double *P, const double *before, double worst, double *deviations
) noexcept nogil:
    """By how much J P Jᵀ amplifies rounding, at least `worst`; `before`: the covariance whose rounding is there anyway."""
    cdef Py_ssize_t i
    cdef double total, there
    for i in range(d):
        deviations[i] = sqrt(P[i * d + i])
    for i in range(d):
        total, there = abs_dot(d, J + i * d, deviations), before[i * d + i]
        if total * total > worst * there and there > 0:
            worst = total * total / there
    return worst


cdef void _rest(
    Py_ssize_t d, const double *J, const double *Jt, const double *A, const double *Q, const double *F, double *B,
    double *Bt, double *noise, double *work, double *rest,
) noexcept nogil:
    """The part of (RTS3) that the future does not change."""
    cdef Py_ssize_t i, j
    multiply(d, d, d, J, A, B)
    for i in range(d):
        for j in range(d):
            B[i * d + j] = (1.0 if i == j else 0.0) - B[i * d + j]
    transpose(d, B, Bt)
    congruence(d, J, Jt, Q, NULL, work, noise)
    congruence(d, B, Bt, F, noise, work, rest)


def smoothed_covariances(
    cnp.ndarray A, cnp.ndarray Q, cnp.ndarray least_Q, cnp.ndarray filtered, cnp.ndarray predicted, bint constant,
    double ulps, cnp.ndarray smoothed, cnp.ndarray L,
) -> float:
    """Every covariance and gain of the smoother; returns by how much a gain amplifies rounding at most."""
    cdef Py_ssize_t T = filtered.shape[0], d = filtered.shape[1]
    cdef int real = cnp.NPY_DOUBLE
    cdef double *transitions = <double *>stack(A, real, T, d, d, True)
    cdef double *noises = <double *>stack(Q, real, T, d, d, True)
    cdef double *least = <double *>vector(least_Q, real, Q.shape[0])
    cdef double *after = <double *>stack(filtered, real, T, d, d)
    cdef double *before = <double *>stack(predicted, real, T, d, d)
    cdef double *out = <double *>stack(smoothed, real, T, d, d)
    cdef double *gains = <double *>stack(L, real, T - 1, d, d)
    writeable(smoothed)
    writeable(L)
    cdef Py_ssize_t A_step = A.shape[0] > 1, Q_step = Q.shape[0] > 1
    cdef double *work = <double *>malloc((6 * d * d + d + (d + BLOCK) * BLOCK) * sizeof(double))
    cdef Py_ssize_t *order = <Py_ssize_t *>malloc(d * sizeof(Py_ssize_t))
    cdef double worst
    if work == NULL or order == NULL:
        free(work)
        free(order)
        raise MemoryError
    with nogil:
        worst = _smoothed(T, d, transitions, A_step, noises, Q_step, least, after, before, constant, ulps, out, gains,
                          work, order)
    free(work)
    free(order)
    return worst


cdef double _smoothed(
    Py_ssize_t T, Py_ssize_t d, const double *transitions, Py_ssize_t A_step, const double *noises, Py_ssize_t Q_step,
    const double *least, const double *filtered, const double *predicted, bint constant, double ulps, double *smoothed,
    double *L, double *storage, Py_ssize_t *order,
) noexcept nogil:
    cdef Py_ssize_t dd = d * d, mark = T - 1, stride = STRETCH, t, i, q
    cdef double *work = storage  # (d, d), as the next five
    cdef double *Jt = work + dd
    cdef double *B = Jt + dd
    cdef double *noise = B + dd
    cdef double *rest = noise + dd
    cdef double *C = rest + dd
    cdef double *deviations = C + dd  # (d,)
    cdef double *inverses = deviations + d  # (d + BLOCK, BLOCK)
    cdef double *N
    cdef double *J
    cdef const double *A
    cdef const double *F
    cdef const double *P
    cdef double largest, now, last = FAR, worst = 0
    cdef bint known = False, frozen = False, summed = False, same
    copy(dd, filtered + (T - 1) * dd, smoothed + (T - 1) * dd)
    for t in range(T - 2, -1, -1):
        F, P, N, J = filtered + t * dd, predicted + (t + 1) * dd, smoothed + t * dd, L + t * dd
        A, q = transitions + (t + 1) * A_step * dd, (t + 1) * Q_step
        same = known and constant and near(d, F, F + dd, 0) and near(d, P, P + dd, 0)
        if same:
            copy(dd, J + dd, J)
            if frozen:
                copy(dd, N + dd, N)
                continue
        frozen = False
        if not same:
            mark, stride, last, known = t, STRETCH, FAR, True
            _gain(d, A, F, P, Jt, C, work, inverses, order)  # (RTS1)
            transpose(d, Jt, J)
            worst = _amplified(d, J, P, predicted + t * dd, worst, deviations)
            largest = 0
            for i in range(d):
                largest = max(largest, P[i * d + i])
            summed = least[q] <= CAREFUL * largest
            if summed:
                _rest(d, J, Jt, A, noises + q * dd, F, B, C, noise, work, rest)
        if summed:
            congruence(d, J, Jt, N + dd, rest, work, N)  # (RTS3)
        else:
            for i in range(dd):
                B[i] = N[dd + i] - P[i]
            congruence(d, J, Jt, B, F, work, N)  # (RTS2)
        if same:
            if near(d, N, N + dd, 0) or (mark - t >= 8 * ulps and near(d, N, smoothed + mark * dd, ulps)):
                frozen = True
            elif mark - t >= stride:
                now = floor(moved(d, N, smoothed + mark * dd))
                if FAST * now > last:
                    stride *= 2
                elif 2 * now <= ulps:
                    frozen = True
                mark, last = t, now
    return worst


def smoothed_means(cnp.ndarray L, cnp.ndarray filtered, cnp.ndarray predicted, cnp.ndarray smoothed) -> None:
    """The smoothed means of N series that share their gains."""
    cdef Py_ssize_t N = filtered.shape[0], T = filtered.shape[1], d = filtered.shape[2], s, t, i
    cdef int real = cnp.NPY_DOUBLE
    cdef double *J = <double *>stack(L, real, T - 1, d, d)
    cdef double *after = <double *>stack(filtered, real, N, T, d)
    cdef double *before = <double *>stack(predicted, real, N, T, d)
    cdef double *out = <double *>stack(smoothed, real, N, T, d)
    writeable(smoothed)
    cdef double *gap = <double *>malloc(d * sizeof(double))
    cdef double *here
    if gap == NULL:
        raise MemoryError
    with nogil:
        for s in range(N):
            copy(d, after + (s * T + T - 1) * d, out + (s * T + T - 1) * d)
            for t in range(T - 2, -1, -1):
                here = out + (s * T + t) * d
                for i in range(d):
                    gap[i] = here[d + i] - before[(s * T + t + 1) * d + i]
                dots(d, d, J + t * d * d, d, gap, here)
                for i in range(d):
                    here[i] += after[(s * T + t) * d + i]  # (RTS2)
    free(gap)
