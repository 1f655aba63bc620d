"""Blocks of rows folded into a square root, in tiles of columns that several threads work on.

    [R z; √w X √w Y] = Q [R' z'; 0 r]                                          (R2)   memory/root.py

The columns of [R z] and of the rows are cut into tiles of equal width. Tile j meets the reflections of tiles 0 … j−1 in
this order (H3) and is then factored (H1, H2; tiles of z only meet them), see reflectors.pxd. Threads take the next
tile that nobody has taken. A tile waits for the ones before it, never for one after, so that the first unfinished tile
can always go on; and it is computed by the same products on the same numbers whoever does it: the bits of the result
depend neither on the number of threads nor on their speed.

Long blocks are cut into chunks of rows, which follow each other through the tiles. A chunk needs storage of its own for
rows and T, so that at most `slots` are under way.

Packed: tile j holds only its rows above and at the diagonal, (j + 1) · width of them, half a factor in all.
"""

cimport numpy as cnp
from cython cimport floating
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from checked cimport columns, matrix, real_type, vector, writeable
from lanes cimport dot
from reflectors cimport apply_reflections, factor_panel

cnp.import_array()

cdef extern from "together.h" nogil:
    long together_take(volatile long *number)
    long together_read(volatile long *number)
    void together_wait(volatile long *number, long value)


cdef struct Rows:
    char *data
    Py_ssize_t down, across  # bytes from a row to the next, from a column to the next


cdef struct Plan:
    Py_ssize_t n, d, c, width, chunk, slots
    Py_ssize_t tiles, all_tiles, chunks  # tiles of features, with those of the targets, and how often
    Py_ssize_t ld, ldz  # numbers from a column of B, of z, to the next
    Py_ssize_t skipped  # tiles of a packed R that these rows, which are zero there, do not meet
    bint packed
    bint in_place, triangle
    double shrink
    void *R
    void *z
    void *old_R
    void *old_z
    void *scale
    void *B
    void *D
    void *T
    double *rest
    Rows X, Y
    volatile long *done  # (tiles) how many chunks each has met
    volatile long *over  # (chunks) how many tiles have met it
    volatile long taken


cdef class Fold:
    """Rows to be folded; `work` may be called by several threads at once, and returns when everything is done.

    Parameters
    ----------
    R, z : (d, d) upper triangular and (d, c), column-major; overwritten by the result. Packed, R is a vector.
    old_R, old_z : like R and z, or None: the root to begin with, where it is not in R and z. It is read only.
    shrink : a factor for R and z before rows are folded in.
    X, Y : (n, d), (n, c) in any layout; where B and D are None they are column-major and used up.
    scale : (n,) a factor for every row, or None.
    B, D : (slots, d, ld), (slots, c, ld) storage of the chunks, row-major, ld at least the rows of a chunk.
    T : (slots, tiles, width, width) storage.
    rest : (chunks, c) float64; becomes the squares of what is left of the targets.
    triangle : whether X (n, d), n ≤ d, is upper triangular or trapezoidal; what is below is not read.
    skipped : where R is packed, the tiles before the first column of X.
    """

    cdef Plan plan
    cdef int kind
    cdef tuple held

    def __cinit__(self) -> None:
        self.plan.done = NULL
        self.plan.over = NULL

    def __init__(
        self, cnp.ndarray R, cnp.ndarray z, cnp.ndarray old_R, cnp.ndarray old_z, double shrink, cnp.ndarray X,
        cnp.ndarray Y, cnp.ndarray scale, cnp.ndarray B, cnp.ndarray D, cnp.ndarray T, cnp.ndarray rest,
        Py_ssize_t chunk, bint triangle, Py_ssize_t skipped=0,
    ) -> None:
        cdef Plan *p = &self.plan
        cdef int kind = real_type(R)
        if p.done != NULL or X.ndim != 2 or z.ndim != 2 or T.ndim != 4 or T.shape[0] < 1 or T.shape[3] < 1:
            raise ValueError("expected matrices, and storage for at least one chunk")
        cdef Py_ssize_t n = X.shape[0], d = X.shape[1], c = z.shape[1], w = T.shape[3], all_of_it
        if chunk < 1 or n < 1 or d < 1 or skipped < 0:
            raise ValueError("expected rows and features")
        self.kind, self.held = kind, (R, z, old_R, old_z, X, Y, scale, B, D, T, rest)
        p.n, p.d, p.c, p.width, p.chunk, p.slots = n, d, c, T.shape[3], chunk, T.shape[0]
        p.tiles = (d + p.width - 1) // p.width
        p.all_tiles = p.tiles + (c + p.width - 1) // p.width
        p.chunks = (n + chunk - 1) // chunk
        p.shrink, p.triangle, p.in_place, p.taken = shrink, triangle, B is None, 0
        p.packed, p.skipped, p.ldz = R.ndim == 1, skipped, skipped * w + d
        p.z = columns(z, kind, p.ldz, c)
        if p.packed:
            all_of_it = (p.ldz + w - 1) // w
            p.R = vector(R, kind, w * w * all_of_it * (all_of_it + 1) // 2)
        else:
            p.R = columns(R, kind, d, d)
        if (p.packed and (old_R is not None or old_z is not None or shrink != 1)) or (skipped and not p.packed):
            raise ValueError("expected a packed R to begin as it is")
        p.old_R = NULL if old_R is None else columns(old_R, kind, d, d)
        p.old_z = NULL if old_z is None else columns(old_z, kind, d, c)
        p.scale = NULL if scale is None else vector(scale, kind, n)
        p.T = storage(T, kind, p.slots, p.tiles * p.width, p.width)
        p.rest = <double *>matrix(rest, cnp.NPY_DOUBLE, p.chunks, c)
        if triangle and (n > d or p.chunks != 1):
            raise ValueError("expected a triangle to be one chunk of no more rows than features")
        if p.in_place:
            if p.chunks != 1 or scale is not None or D is not None:
                raise ValueError("expected storage for several chunks, and for rows with a scale")
            p.ld, p.B, p.D = n, columns(X, kind, n, d), columns(Y, kind, n, c)
            writeable(X)
            writeable(Y)
        else:
            p.X, p.Y = rows_of(X, kind, n, d), rows_of(Y, kind, n, c)
            p.ld = B.shape[2] if B.ndim == 3 else 0
            if p.ld < min(chunk, n):
                raise ValueError("expected storage for the rows of a chunk")
            p.B, p.D = storage(B, kind, p.slots, d, p.ld), storage(D, kind, p.slots, c, p.ld)
        for array in (R, z, T, rest):
            writeable(array)
        p.done = <volatile long *>calloc(p.all_tiles, sizeof(long))
        p.over = <volatile long *>calloc(p.chunks, sizeof(long))
        if p.done == NULL or p.over == NULL:
            raise MemoryError

    def __dealloc__(self) -> None:
        free(<void *>self.plan.done)
        free(<void *>self.plan.over)

    def work(self) -> None:
        """Take tiles while there are any, and wait for those that others have taken."""
        cdef Plan *p = &self.plan
        cdef void *W = malloc(p.width * p.width * sizeof(double))
        if W == NULL:
            raise MemoryError
        with nogil:
            if self.kind == cnp.NPY_DOUBLE:
                _work[double](p, <double *>W)
            else:
                _work[float](p, <float *>W)
        free(W)


cdef void *storage(cnp.ndarray array, int kind, Py_ssize_t slots, Py_ssize_t n, Py_ssize_t m) except? NULL:
    """The entries of writeable row-major storage of slots · n · m numbers."""
    cdef bint good = cnp.PyArray_SIZE(array) == slots * n * m and cnp.PyArray_TYPE(array) == kind
    if not good or not cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_CARRAY):
        raise TypeError(f"a kernel got storage of shape {(<object>array).shape}, {array.dtype}")
    return cnp.PyArray_DATA(array)


cdef Rows rows_of(cnp.ndarray array, int kind, Py_ssize_t n, Py_ssize_t m) except *:
    """The entries of an aligned matrix (n, m) in any layout."""
    cdef Rows rows
    cdef bint good = array.ndim == 2 and array.shape[0] == n and array.shape[1] == m
    if not good or cnp.PyArray_TYPE(array) != kind or not cnp.PyArray_ISBEHAVED_RO(array):
        raise TypeError(f"a kernel got an array of shape {(<object>array).shape}, {array.dtype}")
    rows.data, rows.down, rows.across = <char *>cnp.PyArray_DATA(array), array.strides[0], array.strides[1]
    return rows


cdef void _work(Plan *p, floating *W) noexcept nogil:
    cdef long task, last = <long>(p.chunks * p.all_tiles)
    while True:
        task = together_take(&p.taken)
        if task >= last:
            break
        _tile[floating](p, task // p.all_tiles, task % p.all_tiles, W)
    for task in range(<long>p.chunks):
        together_wait(&p.over[task], <long>p.all_tiles)


cdef inline Py_ssize_t rows_met(Plan *p, Py_ssize_t m, Py_ssize_t columns) noexcept nogil:
    """Rows of a chunk of m that are not zero in the columns before `columns`."""
    return min(m, columns) if p.triangle else m


cdef void _tile(Plan *p, Py_ssize_t q, Py_ssize_t j, floating *W) noexcept nogil:
    """Chunk q meets tile j."""
    cdef Py_ssize_t w = p.width, slot = q % p.slots, m = min(p.chunk, p.n - q * p.chunk), k, i, width, ldr = p.d
    cdef Py_ssize_t all_of_it = j + p.skipped  # the tile, counted from the first of R
    cdef bint features = j < p.tiles
    cdef Py_ssize_t first = (j if features else j - p.tiles) * w
    cdef floating *T = <floating *>p.T + slot * p.tiles * w * w
    cdef floating *V = <floating *>p.B + slot * p.d * p.ld  # all columns of the features
    cdef floating *B = V + first * p.ld  # those of this tile
    cdef floating *R = <floating *>p.R
    if q >= p.slots:
        together_wait(&p.over[q - p.slots], <long>p.all_tiles)
    together_wait(&p.done[j], <long>q)
    if features:
        width = min(w, p.d - first)
        if p.packed:
            R, ldr = R + w * w * (all_of_it * (all_of_it + 1) // 2) + p.skipped * w, (all_of_it + 1) * w
        else:
            R += first * p.d
        if q == 0:
            _begin[floating](p.d, first, width, <floating>p.shrink,
                             NULL if p.old_R == NULL else <floating *>p.old_R + first * p.d, R)
        if not p.in_place:
            _copy[floating](p, &p.X, q * p.chunk, rows_met(p, m, first + width), first, width, B)
        if p.triangle:
            for k in range(first, min(first + width, rows_met(p, m, first + width)) - 1):  # below the diagonal
                memset(B + (k - first) * p.ld + k + 1, 0, (rows_met(p, m, first + width) - k - 1) * sizeof(floating))
    else:
        width = min(w, p.c - first)
        ldr = p.ldz
        B, R = <floating *>p.D + (slot * p.c + first) * p.ld, <floating *>p.z + first * ldr + p.skipped * w
        if q == 0:
            _begin[floating](p.d, p.d, width, <floating>p.shrink,
                             NULL if p.old_z == NULL else <floating *>p.old_z + first * p.d, R)
        if not p.in_place:
            _copy[floating](p, &p.Y, q * p.chunk, m, first, width, B)
    for k in range(j if features else p.tiles):
        together_wait(&p.done[k], <long>q + 1)
        apply_reflections(min(w, p.d - k * w), width, rows_met(p, m, (k + 1) * w), V + k * w * p.ld, p.ld,
                          T + k * w * w, w, R + k * w, ldr, B, p.ld, W)
    if features:
        factor_panel(width, rows_met(p, m, first + width), R + first, ldr, B, p.ld, T + j * w * w, w, W)
    else:
        for i in range(width):
            p.rest[q * p.c + first + i] = _square(m, B + i * p.ld)
    together_take(&p.done[j])
    together_take(&p.over[q])


cdef void _begin(
    Py_ssize_t d, Py_ssize_t first, Py_ssize_t width, floating shrink, const floating *old, floating *R
) noexcept nogil:
    """Columns first, … of R begin as `shrink` times the old ones, down to the diagonal; NULL: those are in R already."""
    cdef Py_ssize_t j, i, rows
    for j in range(width):
        rows = min(first + j + 1, d)
        if old != NULL:
            memset(R + j * d + rows, 0, (d - rows) * sizeof(floating))
            for i in range(rows):
                R[j * d + i] = shrink * old[j * d + i]
        elif shrink != 1:
            for i in range(rows):
                R[j * d + i] *= shrink


cdef void _copy(
    Plan *p, Rows *source, Py_ssize_t row, Py_ssize_t m, Py_ssize_t first, Py_ssize_t width, floating *B
) noexcept nogil:
    """Columns first, … of m rows, times their scale, to columns of B."""
    cdef Py_ssize_t i, j, part
    cdef floating *scale = NULL if p.scale == NULL else <floating *>p.scale + row
    cdef char *at
    for part in range(0, m, 16):
        for j in range(width):
            at = source.data + (row + part) * source.down + (first + j) * source.across
            for i in range(part, min(part + 16, m)):
                B[j * p.ld + i] = (<floating *>at)[0] if scale == NULL else scale[i] * (<floating *>at)[0]
                at += source.down


cdef double _square(Py_ssize_t m, const floating *x) noexcept nogil:
    cdef double total = 0
    cdef Py_ssize_t i
    if floating is double:
        return dot(m, x, x)
    else:
        for i in range(m):
            total += <double>x[i] * <double>x[i]
        return total
