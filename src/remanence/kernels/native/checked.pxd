"""The entries of NumPy arrays as pointers, after their dtype, layout and shape were checked.

A kernel reads and writes memory without looking: these functions are the only way in.
"""

cimport numpy as cnp


cdef inline int real_type(cnp.ndarray array) except -1:
    """NPY_DOUBLE or NPY_FLOAT."""
    cdef int kind = cnp.PyArray_TYPE(array)
    if kind != cnp.NPY_DOUBLE and kind != cnp.NPY_FLOAT:
        raise TypeError(f"expected float64 or float32, got {array.dtype}")
    return kind


cdef inline int _check(cnp.ndarray array, int kind, int flags, bint good) except -1:
    if not good or cnp.PyArray_TYPE(array) != kind or not cnp.PyArray_CHKFLAGS(array, flags):
        raise TypeError(f"a kernel got an array of shape {(<object>array).shape}, {array.dtype}, strides {(<object>array).strides}")
    return 0


cdef inline void *vector(cnp.ndarray array, int kind, Py_ssize_t n) except? NULL:
    """The entries of a contiguous vector (n,)."""
    _check(array, kind, cnp.NPY_ARRAY_CARRAY_RO, array.ndim == 1 and array.shape[0] == n)
    return cnp.PyArray_DATA(array)


cdef inline void *matrix(cnp.ndarray array, int kind, Py_ssize_t n, Py_ssize_t m) except? NULL:
    """The entries of a row-major matrix (n, m)."""
    _check(array, kind, cnp.NPY_ARRAY_CARRAY_RO, array.ndim == 2 and array.shape[0] == n and array.shape[1] == m)
    return cnp.PyArray_DATA(array)


cdef inline void *columns(cnp.ndarray array, int kind, Py_ssize_t n, Py_ssize_t m) except? NULL:
    """The entries of a column-major matrix (n, m)."""
    _check(array, kind, cnp.NPY_ARRAY_FARRAY_RO, array.ndim == 2 and array.shape[0] == n and array.shape[1] == m)
    return cnp.PyArray_DATA(array)


cdef inline void *stack(
    cnp.ndarray array, int kind, Py_ssize_t length, Py_ssize_t n, Py_ssize_t m, bint constant = False
) except? NULL:
    """The entries of a row-major stack (length, n, m); of length 1 too where it may be constant."""
    cdef bint good = array.ndim == 3 and array.shape[1] == n and array.shape[2] == m
    good = good and (array.shape[0] >= length or (constant and array.shape[0] == 1))
    _check(array, kind, cnp.NPY_ARRAY_CARRAY_RO, good)
    return cnp.PyArray_DATA(array)


cdef inline int writeable(cnp.ndarray array) except -1:
    """Refuse an array that must not be written to."""
    if not cnp.PyArray_ISWRITEABLE(array):
        raise TypeError("a kernel got a read-only array to write to")
    return 0
