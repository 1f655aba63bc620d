"""The loops of lanes.h under one name for both precisions."""

from cython cimport floating

cdef extern from "lanes.h" nogil:
    double dot_d(Py_ssize_t n, const double *x, const double *y)
    float dot_s(Py_ssize_t n, const float *x, const float *y)
    double dot_and_square_d(Py_ssize_t n, const double *x, const double *y, double *square)
    float dot_and_square_s(Py_ssize_t n, const float *x, const float *y, float *square)
    void axpy_d(Py_ssize_t n, double a, const double *x, double *y)
    void axpy_s(Py_ssize_t n, float a, const float *x, float *y)
    void dots_d(Py_ssize_t m, Py_ssize_t n, const double *rows, Py_ssize_t stride, const double *x, double *out)
    void dots_s(Py_ssize_t m, Py_ssize_t n, const float *rows, Py_ssize_t stride, const float *x, float *out)
    void axpys_d(Py_ssize_t m, Py_ssize_t n, const double *a, const double *rows, Py_ssize_t stride, double *y)
    void axpys_s(Py_ssize_t m, Py_ssize_t n, const float *a, const float *rows, Py_ssize_t stride, float *y)
    void rotate_two_d(
        Py_ssize_t j, Py_ssize_t n, double *row, double *x, double *u, const double *a, const double *b)
    void rotate_two_s(Py_ssize_t j, Py_ssize_t n, float *row, float *x, float *u, const float *a, const float *b)

    void update_row_d(Py_ssize_t j, Py_ssize_t n, double a, double b, double s, double *row, double *t)
    void update_row_s(Py_ssize_t j, Py_ssize_t n, float a, float b, float s, float *row, float *t)


cdef inline floating dot(Py_ssize_t n, const floating *x, const floating *y) noexcept nogil:
    """Σ x[i] y[i]."""
    if floating is double:
        return dot_d(n, x, y)
    else:
        return dot_s(n, x, y)


cdef inline floating dot_and_square(
    Py_ssize_t n, const floating *x, const floating *y, floating *square
) noexcept nogil:
    """Σ x[i] y[i], and Σ x[i]² in square."""
    if floating is double:
        return dot_and_square_d(n, x, y, square)
    else:
        return dot_and_square_s(n, x, y, square)


cdef inline void axpy(Py_ssize_t n, floating a, const floating *x, floating *y) noexcept nogil:
    """y ← y + a x."""
    if floating is double:
        axpy_d(n, a, x, y)
    else:
        axpy_s(n, a, x, y)


cdef inline void dots(
    Py_ssize_t m, Py_ssize_t n, const floating *rows, Py_ssize_t stride, const floating *x, floating *out
) noexcept nogil:
    """out[r] = Σ rows[r, i] x[i] for m rows that lie `stride` apart."""
    if floating is double:
        dots_d(m, n, rows, stride, x, out)
    else:
        dots_s(m, n, rows, stride, x, out)


cdef inline void axpys(
    Py_ssize_t m, Py_ssize_t n, const floating *a, const floating *rows, Py_ssize_t stride, floating *y
) noexcept nogil:
    """y ← y + Σ a[r] rows[r] for m rows that lie `stride` apart."""
    if floating is double:
        axpys_d(m, n, a, rows, stride, y)
    else:
        axpys_s(m, n, a, rows, stride, y)


cdef inline void rotate_two(
    Py_ssize_t j, Py_ssize_t n, floating *row, floating *x, floating *u, const floating *a, const floating *b
) noexcept nogil:
    """Rotate entries j, …, n−1 of a row with those of x, then with those of u."""
    if floating is double:
        rotate_two_d(j, n, row, x, u, a, b)
    else:
        rotate_two_s(j, n, row, x, u, a, b)


cdef inline void update_row(
    Py_ssize_t j, Py_ssize_t n, floating a, floating b, floating s, floating *row, floating *t
) noexcept nogil:
    """row ← a row + b t,  t ← t − s row, entries j, …, n−1."""
    if floating is double:
        update_row_d(j, n, a, b, s, row, t)
    else:
        update_row_s(j, n, a, b, s, row, t)
