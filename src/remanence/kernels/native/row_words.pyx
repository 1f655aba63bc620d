"""The words of rows of numbers, mixed and added up, for keys of rows (remanence/hashing.py)."""

cimport numpy as cnp
from libc.stdint cimport uint64_t

from checked cimport matrix, writeable

cnp.import_array()

cdef extern from "row_words.h" nogil:
    void add_words_of(
        Py_ssize_t n, Py_ssize_t d, const char *x, Py_ssize_t down, Py_ssize_t across, const uint64_t *factors,
        uint64_t *sums, Py_ssize_t rows)


def add_words(cnp.ndarray sums, cnp.ndarray numbers, cnp.ndarray factors) -> None:
    """Add the mixed words of numbers (n, d), in any layout, times factors (d, 2) to sums (2, n)."""
    if numbers.ndim != 2 or cnp.PyArray_TYPE(numbers) != cnp.NPY_DOUBLE or not cnp.PyArray_ISBEHAVED_RO(numbers):
        raise TypeError(f"expected a matrix of float64, got {numbers.dtype} of shape {(<object>numbers).shape}")
    cdef Py_ssize_t n = numbers.shape[0], d = numbers.shape[1]
    cdef uint64_t *to = <uint64_t *>matrix(sums, cnp.NPY_UINT64, 2, n)
    cdef const uint64_t *by = <const uint64_t *>matrix(factors, cnp.NPY_UINT64, d, 2)
    cdef const char *x = <const char *>cnp.PyArray_DATA(numbers)
    cdef Py_ssize_t down = numbers.strides[0], across = numbers.strides[1]
    writeable(sums)
    with nogil:
        add_words_of(n, d, x, down, across, by, to, n)
