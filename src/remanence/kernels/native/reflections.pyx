"""A block of rows folded into a triangular factor, a panel of columns at a time: the reflections of reflectors.pxd.

E are the rows, with their targets and whatever else is to be reflected beside them. LAPACK's tpqrt does the same; its
panels are calls of BLAS for each column, which cost more than the work where there are few rows.
"""

cimport numpy as cnp
from cython cimport floating
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from checked cimport columns, real_type, writeable
from reflectors cimport WIDEST, copy_rows, factor_narrow, reflect, subtract_rows

cnp.import_array()


def reflect_rows(cnp.ndarray R, cnp.ndarray z, cnp.ndarray E, Py_ssize_t panel) -> None:
    """Fold the first d columns of E (n, d + width) into R (d, d); all column-major, in place.

    Of the other columns the first c are folded into z (d, c), the next ones into zeros that are not kept. What is left
    of all of them stays in E; in the first d columns it is noise.
    """
    cdef int kind = real_type(R)
    cdef Py_ssize_t n = E.shape[0], d = R.shape[0], c = z.shape[1], width = E.shape[1] - R.shape[0]
    if width < c or not 1 <= panel <= WIDEST:
        raise ValueError("expected targets for every output, and panels of 1 to 32 columns")
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
    cdef floating *T = work  # (b, b)
    cdef floating *W = T + panel * panel  # (b, columns behind the panel): rows of R and z, and zeros
    cdef floating *V
    cdef Py_ssize_t first = 0, b, left
    while first < d:
        b = min(panel, d - first)
        left, V = d - first - b, E + first * n
        factor_narrow(b, n, R + first * d + first, d, V, n, T, b)  # (H1), (H2)
        copy_rows(b, left, R + (first + b) * d + first, d, W)
        copy_rows(b, c, z + first, d, W + left * b)
        memset(W + (left + c) * b, 0, b * (width - c) * sizeof(floating))
        reflect(b, left + width, n, V, n, T, b, V + b * n, n, W)
        subtract_rows(b, left, W, R + (first + b) * d + first, d)
        subtract_rows(b, c, W + left * b, z + first, d)  # (H3)
        first += b
