"""The filter's loops over time: the equations (G) of memory/gaussian.py, in the order of kalman/gains.py."""

cimport numpy as cnp
from libc.math cimport INFINITY, fabs, floor
from libc.stdlib cimport free, malloc

from checked cimport matrix, stack, vector, writeable
from constants cimport CONFLICT, DECIDED, FAR, FAST, LOG_2PI, MISSING, ROUNDING, SEEN, STRETCH
from dense cimport clear, congruence, copy, moved, near, semidefinite_root, squared, transpose
from kalman_block cimport advanced, conditioned, inverse_of, plain, rotated
from lanes cimport axpy, dot, dots

cnp.import_array()

cdef struct Model:  # a stack that is constant is not moved along: its stride is 0
    Py_ssize_t T, d, m, A_step, Q_step, X_step, R_step
    const double *A
    const double *Q
    const double *X
    const double *R
    const double *root_Q
    const double *root_R
    const double *least_Q
    const double *least_R
    const double *start
    const double *root
    const cnp.npy_bool *there

cdef struct Carried:  # from one part of the steps to the next
    Py_ssize_t first  # the steps before it are there already
    long long *progress  # mark, stride, frozen, last; NULL where there is one part
    double *reference  # (d, d) the covariance at the mark
    double *root  # (d, d)

cdef struct Found:
    double *predicted
    double *filtered
    double *G
    double *W
    double *logdet
    long long *kinds
    double *slack


def covariances(
    cnp.ndarray A, cnp.ndarray Q, cnp.ndarray X, cnp.ndarray R, cnp.ndarray root_Q, cnp.ndarray root_R,
    cnp.ndarray least_Q, cnp.ndarray least_R, cnp.ndarray start, cnp.ndarray root, cnp.ndarray there, bint rooted,
    bint constant, double ulps, cnp.ndarray predicted, cnp.ndarray filtered, cnp.ndarray G, cnp.ndarray W,
    cnp.ndarray logdet, cnp.ndarray kinds, cnp.ndarray slack, Py_ssize_t first = 0, cnp.ndarray progress = None,
    cnp.ndarray reference = None,
) -> int:
    """Every covariance and gain of the filter; returns the step from which on they no longer changed.

    A run may be made in parts: the steps before `first`, the last of the part before, are there already, and `root`,
    `progress` (mark, stride, frozen, last) and `reference` (d, d), the covariance at the mark, are carried along.
    """
    cdef Model s
    cdef Found out
    cdef Carried carried
    cdef Py_ssize_t T = there.shape[0], m = there.shape[1], d = start.shape[0], settled
    cdef int real = cnp.NPY_DOUBLE
    if root_Q.shape[0] != Q.shape[0] or root_R.shape[0] != R.shape[0]:
        raise ValueError("expected a root for every covariance")
    s.T, s.d, s.m = T, d, m
    s.A, s.Q = <double *>stack(A, real, T, d, d, True), <double *>stack(Q, real, T, d, d, True)
    s.X, s.R = <double *>stack(X, real, T, m, d, True), <double *>stack(R, real, T, m, m, True)
    s.root_Q, s.root_R = <double *>stack(root_Q, real, T, d, d, True), <double *>stack(root_R, real, T, m, m, True)
    s.least_Q, s.least_R = <double *>vector(least_Q, real, Q.shape[0]), <double *>vector(least_R, real, R.shape[0])
    s.start, s.root = <double *>matrix(start, real, d, d), <double *>matrix(root, real, d, d)
    s.there = <cnp.npy_bool *>matrix(there, cnp.NPY_BOOL, T, m)
    s.A_step, s.Q_step = A.shape[0] > 1, Q.shape[0] > 1
    s.X_step, s.R_step = X.shape[0] > 1, R.shape[0] > 1
    out.predicted, out.filtered = <double *>stack(predicted, real, T, d, d), <double *>stack(filtered, real, T, d, d)
    out.G, out.W = <double *>stack(G, real, T, m, d), <double *>stack(W, real, T, m, m)
    out.logdet, out.slack = <double *>vector(logdet, real, T), <double *>matrix(slack, real, T, m)
    out.kinds = <long long *>matrix(kinds, cnp.NPY_INT64, T, m)
    for array in (predicted, filtered, G, W, logdet, kinds, slack):
        writeable(array)
    if not 0 <= first < T:
        raise ValueError("expected steps that are not there yet")
    carried.first, carried.progress, carried.reference, carried.root = first, NULL, NULL, NULL
    if progress is not None:
        for array in (progress, reference, root):
            writeable(array)
        carried.progress = <long long *>vector(progress, cnp.NPY_INT64, 4)
        carried.reference, carried.root = <double *>matrix(reference, real, d, d), <double *>s.root
    cdef Py_ssize_t numbers = 7 * d * d + 3 * m * d + 4 * m * m + m + (m + d) * (m + d) + 101 * (d + m)
    cdef double *work = <double *>malloc(numbers * sizeof(double))
    cdef Py_ssize_t *indices = <Py_ssize_t *>malloc((3 * m + d + 1) * sizeof(Py_ssize_t))
    if work == NULL or indices == NULL:
        free(work)
        free(indices)
        raise MemoryError
    with nogil:
        settled = _covariances(&s, &out, &carried, rooted, constant, ulps, work, indices)
    free(work)
    free(indices)
    return settled


cdef Py_ssize_t _covariances(
    const Model *s, Found *out, const Carried *carried, bint rooted, bint constant, double ulps, double *work,
    Py_ssize_t *indices,
) noexcept nogil:
    cdef Py_ssize_t T = s.T, d = s.d, m = s.m, dd = s.d * s.d
    cdef double *reference = work  # (d, d) the covariance at the mark
    cdef double *first = reference + dd  # (d, d)
    cdef double *L = first + dd  # (d, d) Σ = L Lᵀ, where roots are carried
    cdef double *wide = L + dd  # (d, 2 d)
    cdef double *other = wide + dd  # (d, d) its second half, where it is not in use
    cdef double *At = wide + 2 * dd  # (d, d)
    cdef double *Z = At + dd  # (m, d) the rows that are there
    cdef double *ZP = Z + m * d
    cdef double *g = ZP + m * d
    cdef double *C = g + m * d  # (m, m)
    cdef double *V = C + m * m
    cdef double *noise = V + m * m
    cdef double *noise_root = noise + m * m
    cdef double *loose = noise_root + m * m  # (m,)
    cdef double *M = loose + m  # (m + d, m + d)
    cdef double *more = M + (m + d) * (m + d)  # (101 (d + m) + d²)
    cdef Py_ssize_t *which = indices  # (m,)
    cdef Py_ssize_t *place = which + m
    cdef Py_ssize_t *order = place + m  # (d,)
    cdef long long *kind = <long long *>(order + d)  # (m,)
    cdef Py_ssize_t settled = T, mark = 0, stride = STRETCH, t, k, i, j, n, q, r
    cdef bint frozen = False, turned = False
    cdef const double *x
    cdef double *P
    cdef double *F
    cdef double least, tolerance, now, last = FAR  # by how many roundings the last stretch moved the covariance
    copy(dd, s.root, L)
    if carried.progress != NULL:
        mark, stride, frozen, last = carried.progress[0], carried.progress[1], carried.progress[2], carried.progress[3]
        copy(dd, carried.reference, reference)
        if frozen:
            settled = 0
    for t in range(carried.first, T):
        q, r, x = t * s.Q_step, t * s.R_step, s.X + t * s.X_step * m * d
        P, F = out.predicted + t * dd, out.filtered + t * dd
        n = 0
        for k in range(m):
            if s.there[t * m + k]:
                which[n] = k
                n += 1
        if frozen and n == m:
            _repeat(s, out, t)
            continue
        frozen = False
        if t == 0:
            copy(dd, s.start, P)
        elif rooted:
            advanced(d, L, s.A + t * s.A_step * dd, s.root_Q + q * dd, wide, more)
            squared(d, L, P)  # (G5)
        else:
            if not turned or s.A_step:
                turned = True
                transpose(d, s.A + t * s.A_step * dd, At)
            congruence(d, s.A + t * s.A_step * dd, At, F - dd, s.Q + q * dd, first, P)  # (G4)
        out.logdet[t] = 0
        clear(m * d, out.G + t * m * d)
        clear(m * m, out.W + t * m * m)
        for k in range(m):
            out.kinds[t * m + k], out.slack[t * m + k] = MISSING, 0
        if n == 0:
            copy(dd, P, F)
            if not rooted and s.least_Q[q] == 0 and semidefinite_root(d, F, first, False, order, other):
                squared(d, first, F)
            mark, settled, stride, last = t + 1, T, STRETCH, FAR
            continue
        for k in range(n):
            copy(d, x + which[k] * d, Z + k * d)
            copy(m, s.root_R + (r * m + which[k]) * m, noise_root + k * m)
            for j in range(n):
                noise[k * n + j] = s.R[(r * m + which[k]) * m + which[j]]
        least = s.least_R[r]
        if not rooted and plain(d, n, P, Z, noise, least, ZP, C):
            out.logdet[t] = inverse_of(n, C, V)
            conditioned(d, n, P, V, ZP, g, M, F)
            for k in range(n):
                kind[k] = SEEN
            if s.least_Q[q] == 0 and semidefinite_root(d, F, L, False, order, other):  # else nothing keeps Σ above 0
                squared(d, L, F)
        else:
            if not rooted:
                semidefinite_root(d, P, L, least == 0, order, other)
            tolerance = ROUNDING * (d + m)
            tolerance = 0 if least > 0 else tolerance * tolerance if rooted else tolerance
            rotated(d, m, n, L, Z, noise, noise_root, tolerance, C, g, kind, loose, M, more, place)
            out.logdet[t] = inverse_of(n, C, V)
            squared(d, L, F)
        for k in range(n):
            i = t * m + which[k]
            out.kinds[i] = kind[k]
            out.slack[i] = loose[k] if kind[k] == DECIDED else 0
            copy(d, g + k * d, out.G + i * d)
            for j in range(k + 1):
                out.W[i * m + which[j]] = V[k * n + j]
        if not constant or n < m:
            mark, settled, stride, last = t + 1, T, STRETCH, FAR
        elif t == mark:
            copy(dd, F, reference)
        elif near(d, F, F - dd, 0) or (t - mark >= 8 * ulps and near(d, F, reference, ulps)):
            frozen, settled = True, t
        elif t - mark >= stride:
            now = floor(moved(d, F, reference))
            if FAST * now > last:
                stride *= 2
            elif 2 * now <= ulps:  # what is still to come is FAST times less
                frozen, settled = True, t
            mark, last = t, now
            copy(dd, F, reference)
    if carried.progress != NULL:  # the next part begins with this one's last step
        carried.progress[0], carried.progress[1] = mark - (T - 1), stride
        carried.progress[2], carried.progress[3] = frozen, <long long>last
        copy(dd, reference, carried.reference)
        copy(dd, L, carried.root)
    return settled


cdef void _repeat(const Model *s, Found *out, Py_ssize_t t) noexcept nogil:
    """Step t as step t − 1."""
    cdef Py_ssize_t d = s.d, m = s.m, k
    copy(d * d, out.predicted + (t - 1) * d * d, out.predicted + t * d * d)
    copy(d * d, out.filtered + (t - 1) * d * d, out.filtered + t * d * d)
    copy(m * d, out.G + (t - 1) * m * d, out.G + t * m * d)
    copy(m * m, out.W + (t - 1) * m * m, out.W + t * m * m)
    copy(m, out.slack + (t - 1) * m, out.slack + t * m)
    out.logdet[t] = out.logdet[t - 1]
    for k in range(m):
        out.kinds[t * m + k] = out.kinds[(t - 1) * m + k]


def means(
    cnp.ndarray A, cnp.ndarray X, cnp.ndarray Y, cnp.ndarray start, cnp.ndarray G, cnp.ndarray W, cnp.ndarray logdet,
    cnp.ndarray kinds, cnp.ndarray slack, cnp.ndarray predicted, cnp.ndarray filtered, cnp.ndarray logliks,
    Py_ssize_t first = 0,
) -> None:
    """The means and log-likelihoods of N series (N, T, m) that miss the same entries; steps before `first` are there."""
    cdef Py_ssize_t N = Y.shape[0], T = Y.shape[1], m = Y.shape[2], d = start.shape[0], s
    cdef int real = cnp.NPY_DOUBLE
    cdef Model model
    cdef Found found
    model.T, model.d, model.m = T, d, m
    model.A, model.X = <double *>stack(A, real, T, d, d, True), <double *>stack(X, real, T, m, d, True)
    model.A_step, model.X_step = A.shape[0] > 1, X.shape[0] > 1
    model.start = <double *>vector(start, real, d)
    found.G, found.W = <double *>stack(G, real, T, m, d), <double *>stack(W, real, T, m, m)
    found.logdet, found.slack = <double *>vector(logdet, real, T), <double *>matrix(slack, real, T, m)
    found.kinds = <long long *>matrix(kinds, cnp.NPY_INT64, T, m)
    cdef double *y = <double *>stack(Y, real, N, T, m)
    cdef double *before = <double *>stack(predicted, real, N, T, d)
    cdef double *after = <double *>stack(filtered, real, N, T, d)
    cdef double *logs = <double *>matrix(logliks, real, N, T)
    for array in (predicted, filtered, logliks):
        writeable(array)
    cdef double *work = <double *>malloc((2 * m + 1) * sizeof(double))
    if work == NULL:
        raise MemoryError
    with nogil:
        for s in range(N):
            _means(&model, &found, first, y + s * T * m, before + s * T * d, after + s * T * d, logs + s * T, work)
    free(work)


cdef void _means(
    const Model *model, const Found *found, Py_ssize_t first, const double *Y, double *predicted, double *filtered,
    double *logliks, double *work,
) noexcept nogil:
    """One series."""
    cdef Py_ssize_t d = model.d, m = model.m, t, k, i, seen
    cdef double *expected = work  # (m,)
    cdef double *e = work + m  # (m,)
    cdef double *p
    cdef double *f
    cdef double total, w
    for t in range(first, model.T):
        p, f = predicted + t * d, filtered + t * d
        if t == 0:
            copy(d, model.start, p)
        else:
            dots(d, d, model.A + t * model.A_step * d * d, d, f - d, p)  # (G4)
        copy(d, p, f)
        dots(m, d, model.X + t * model.X_step * m * d, d, p, expected)
        total, seen = 0, 0
        for k in range(m):
            i = t * m + k
            e[k] = 0
            if found.kinds[i] == MISSING:
                continue
            e[k] = Y[i] - expected[k]
            w = dot(k + 1, found.W + i * m, e)
            if found.kinds[i] == SEEN:
                total += w * w
                seen += 1
                axpy(d, w, found.G + i * d, f)  # (G2)
            elif fabs(w) > found.slack[i] + CONFLICT * (fabs(Y[i]) + fabs(expected[k])):
                total = INFINITY
        logliks[t] = -0.5 * (total + found.logdet[t] + seen * LOG_2PI)
