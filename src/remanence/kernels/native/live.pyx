"""One row at a time, in float64: what LMS and RLS do to their weights, without a Python call per number.

    e = y − Wᵀx        W ← W + γ x e / ‖x‖²                                     (L1)   methods/lms.py
    Wᵀx = zᵀs,  Rᵀs = x                                                         (R3)   memory/root.py
    qₖ = 1 + g (s₁² + … + sₖ²),   hₖ = √qₖ                                      (V1)
    Rₖ ← (hₖ₋₁/hₖ) Rₖ + (g sₖ/(hₖ₋₁hₖ)) t,   t ← t − sₖ Rₖ,   t = x at first    (V2)

(V2) are the rotations (T2) of memory/tracking.py: x there is t/hₖ₋₁ here, and the cosines are hₖ₋₁/hₖ. They follow from
s alone, so that no row of R has to wait for the square root of the row above it.

The classes are the fast half of methods/live.py, whose classes inherit from them. A call holds the interpreter lock from
its first to its last write, so that another thread sees the filter before a row or after it, never in between.
"""

cimport numpy as cnp
from libc.math cimport isfinite, sqrt
from libc.string cimport memcpy

from checked cimport matrix
from lanes cimport axpy, dot, update_row

import numpy as np

cnp.import_array()

cdef double LARGEST = 1e280  # sums of squares up to this come from rows that validation.py accepts
cdef double SMALLEST = 1e-290  # and below this ‖x‖² has lost digits


cdef class Rows:
    """What the live filters share: rows and targets as pointers, and answers as numbers or vectors."""

    cdef readonly Py_ssize_t features, outputs
    cdef double[::1] _target, _answer

    def __cinit__(self, Py_ssize_t features, Py_ssize_t outputs, *_):
        self.features, self.outputs = features, outputs
        self._target, self._answer = np.empty(outputs), np.empty(outputs)

    cdef cnp.ndarray _row(self, x):
        """x as a contiguous float64 vector of finite numbers: as it is, or checked and converted in Python."""
        cdef double square
        if type(x) is cnp.ndarray and cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE and cnp.PyArray_NDIM(x) == 1:
            if cnp.PyArray_DIM(x, 0) == self.features and cnp.PyArray_CHKFLAGS(x, cnp.NPY_ARRAY_CARRAY_RO):
                square = dot(self.features, <double *>cnp.PyArray_DATA(x), <double *>cnp.PyArray_DATA(x))
                if square < LARGEST:
                    return x
        return self.checked_row(x)

    cdef int _aim(self, y) except -1:
        """Put y into self._target."""
        cdef cnp.ndarray values
        if self.outputs == 1 and isinstance(y, float) and isfinite(<double>y) and abs(<double>y) < 1e140:
            self._target[0] = y
            return 0
        values = self.checked_target(y)
        memcpy(&self._target[0], cnp.PyArray_DATA(values), self.outputs * sizeof(double))
        return 0

    cdef object _out(self, double[::1] values):
        """A number, or a vector of its own."""
        cdef cnp.npy_intp size = self.outputs
        if size == 1:
            return values[0]
        out = cnp.PyArray_SimpleNew(1, &size, cnp.NPY_DOUBLE)
        memcpy(cnp.PyArray_DATA(out), &values[0], size * sizeof(double))
        return out


cdef class RowsLMS(Rows):
    """LMS with a constant step."""

    cdef double[:, ::1] _W  # (c, d)
    cdef double _step
    cdef bint _normalized
    cdef readonly Py_ssize_t count

    def __init__(self, cnp.ndarray W, double step, bint normalized, Py_ssize_t count):
        matrix(W, cnp.NPY_DOUBLE, self.features, self.outputs)
        self._W, self._step, self._normalized, self.count = np.array(W.T, order="C"), step, normalized, count

    def predict(self, x):
        """The prediction Wᵀx for one row."""
        cdef cnp.ndarray row = self._row(x)
        cdef Py_ssize_t j
        for j in range(self.outputs):
            self._answer[j] = dot(self.features, <double *>cnp.PyArray_DATA(row), &self._W[j, 0])
        return self._out(self._answer)

    def learn(self, x, y):
        """Learn one row; returns its error before."""
        cdef cnp.ndarray row = self._row(x)
        self._aim(y)
        self._learn(<double *>cnp.PyArray_DATA(row))
        return self._out(self._answer)

    def step(self, x, y):
        """Predict one row, then learn it; returns the prediction and the error."""
        cdef cnp.ndarray row = self._row(x)
        cdef Py_ssize_t j
        self._aim(y)
        self._learn(<double *>cnp.PyArray_DATA(row))
        for j in range(self.outputs):
            self._target[j] -= self._answer[j]
        return self._out(self._target), self._out(self._answer)

    cdef int _learn(self, const double *x) except -1:
        """(L1); the errors go to self._answer."""
        cdef Py_ssize_t d = self.features, j, k
        cdef double square = dot(d, x, x), largest = 0, scale = 1, gain
        for j in range(self.outputs):
            self._answer[j] = self._target[j] - dot(d, x, &self._W[j, 0])
            if not isfinite(self._answer[j]):
                self.overflowed()
        if self._normalized and square < SMALLEST:  # tiny or zero: in units of the largest entry
            for k in range(d):
                largest = max(largest, abs(x[k]))
            if largest == 0:
                self.count += 1
                return 0
            scale, square = largest, 0
            for k in range(d):
                square += (x[k] / scale) * (x[k] / scale)
        for j in range(self.outputs):
            gain = self._step * self._answer[j]
            if not self._normalized:
                axpy(d, gain, x, &self._W[j, 0])
            elif scale == 1:
                axpy(d, gain / square, x, &self._W[j, 0])
            else:
                for k in range(d):
                    self._W[j, k] += (gain / scale / square) * (x[k] / scale)
        self.count += 1
        return 0

    def read(self):
        """A copy of W (d, c), and the number of rows learned."""
        cdef cnp.ndarray W = np.empty((self.outputs, self.features))
        memcpy(cnp.PyArray_DATA(W), &self._W[0, 0], self.outputs * self.features * sizeof(double))
        cdef Py_ssize_t count = self.count
        return np.ascontiguousarray(W.T), count


cdef class RowsRLS(Rows):
    """RLS on the root of all rows and the prior; the rows themselves are kept until `install` takes them over."""

    cdef double[:, ::1] _R  # (d, wide), upper triangular; rotated in whole vectors, so what is left of the diagonal is noise
    cdef double[:, ::1] _z, _X, _Y
    cdef double[::1] _x  # (wide,)
    cdef double[::1] _inverse  # (d,) 1/(√β Rₖₖ)
    cdef Py_ssize_t _wide
    cdef double _fade, _shrink, _gain
    cdef object _state
    cdef readonly Py_ssize_t pending

    def __init__(self, Py_ssize_t capacity, double forget):
        cdef Py_ssize_t features = self.features, outputs = self.outputs, wide = (self.features + 3) // 4 * 4
        self._R, self._z, self._wide = np.zeros((features, wide)), np.zeros((features, outputs)), wide
        self._X, self._Y, self._x = np.empty((capacity, features)), np.empty((capacity, outputs)), np.zeros(wide)
        self._inverse = np.empty(features)
        self._fade, self._shrink = sqrt(min(forget, 1.0)), 1 / max(forget, 1.0)
        self._gain, self.pending = 1.0, 0

    def install(self, state, Py_ssize_t rows, cnp.ndarray R, cnp.ndarray z, double gain):
        """Take over a state that has learned the first `rows` pending rows, with its root; False where more came since.

        `gain` is the weight of the row before the next one, see WeightSchedule.
        """
        cdef Py_ssize_t d = self.features, c = self.outputs, k
        cdef double *r = <double *>matrix(R, cnp.NPY_DOUBLE, d, d)
        cdef double *t = <double *>matrix(z, cnp.NPY_DOUBLE, d, c)
        if self.pending != rows:
            return False
        old = self._state  # (freed only when everything is in place)
        for k in range(d):
            memcpy(&self._R[k, k], r + k * d + k, (d - k) * sizeof(double))
            self._inverse[k] = 1 / (self._fade * self._R[k, k])
        memcpy(&self._z[0, 0], t, d * c * sizeof(double))
        self._gain, self._state, self.pending = gain, state, 0
        return True

    def held(self):
        """The state of all rows that are not pending, and copies of the pending rows."""
        cdef cnp.ndarray X, Y
        cdef Py_ssize_t rows
        while True:
            state, rows = self._state, self.pending
            X, Y = np.empty((rows, self.features)), np.empty((rows, self.outputs))
            if self._state is state:  # (another thread may have folded the rows meanwhile)
                memcpy(cnp.PyArray_DATA(X), &self._X[0, 0], rows * self.features * sizeof(double))
                memcpy(cnp.PyArray_DATA(Y), &self._Y[0, 0], rows * self.outputs * sizeof(double))
                return state, X, Y

    def solve(self):
        """The weights W (d, c), by back substitution in R W = z."""
        cdef Py_ssize_t d = self.features, c = self.outputs, j, k
        cdef double[:, ::1] W = np.empty((c, d))
        for j in range(c):
            for k in range(d - 1, -1, -1):
                W[j, k] = self._z[k, j]
                if k + 1 < d:
                    W[j, k] -= dot(d - k - 1, &self._R[k, k + 1], &W[j, k + 1])
                W[j, k] /= self._R[k, k]
        return np.ascontiguousarray(np.asarray(W).T)

    cpdef bint full(self):
        """Whether the pending rows must be taken over before the next row."""
        return self.pending == self._X.shape[0]

    def predict(self, x):
        """The prediction Wᵀx for one row."""
        cdef cnp.ndarray row = self._row(x)
        cdef Py_ssize_t d = self.features, c = self.outputs, j, k
        cdef double s
        cdef double *t = &self._x[0]
        memcpy(t, cnp.PyArray_DATA(row), d * sizeof(double))
        self._answer[:] = 0
        for k in range(d):  # Rᵀs = x, along the rows of R
            s = t[k] * self._fade * self._inverse[k]
            axpy(c, s, &self._z[k, 0], &self._answer[0])  # zᵀs
            j = k // 4 * 4
            axpy(self._wide - j, -s, &self._R[k, j], t + j)
        for j in range(c):
            if not isfinite(self._answer[j]):
                self.overflowed()
        return self._out(self._answer)

    def learn(self, x, y):
        """Learn one row; returns its error before."""
        cdef cnp.ndarray row = self._row(x)
        self._learn(row, y)
        return self._out(self._answer)

    def step(self, x, y):
        """Predict one row, then learn it; returns the prediction and the error."""
        cdef cnp.ndarray row = self._row(x)
        cdef Py_ssize_t j
        self._learn(row, y)
        for j in range(self.outputs):
            self._target[j] = self._Y[self.pending - 1, j] - self._answer[j]
        return self._out(self._target), self._out(self._answer)

    cdef int _learn(self, cnp.ndarray row, y) except -1:
        """(V1, V2) for [R z] and [x y]; the errors go to self._answer."""
        cdef Py_ssize_t d = self.features, c = self.outputs, j, k
        cdef double *t = &self._x[0]
        cdef double *u = &self._answer[0]
        cdef double g, p = self._fade, s, q = 1, h = 1, above
        while self.full():
            self.fold()
        self._aim(y)  # (after fold, which may let another thread predict)
        memcpy(&self._X[self.pending, 0], cnp.PyArray_DATA(row), d * sizeof(double))
        memcpy(&self._Y[self.pending, 0], &self._target[0], c * sizeof(double))
        memcpy(t, cnp.PyArray_DATA(row), d * sizeof(double))
        memcpy(u, &self._target[0], c * sizeof(double))
        g = self._gain = self._gain * self._shrink
        for k in range(d):
            s = t[k] * self._inverse[k]  # (R faded: s/p)
            q += g * s * s
            above, h = h, sqrt(q)
            j = k // 4 * 4
            update_row(j, self._wide, p * above / h, g * s / (above * h), p * s, &self._R[k, 0], t)
            update_row(0, c, p * above / h, g * s / (above * h), p * s, &self._z[k, 0], u)
            self._inverse[k] = 1 / (p * self._R[k, k])
        self.pending += 1
        return 0
