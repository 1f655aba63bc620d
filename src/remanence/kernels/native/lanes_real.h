/* The loops of lanes.h for one REAL: included once per precision. WIDTH numbers are 32 bytes. */
#define NAME(name) LANES_JOIN(name, KIND)
#define VECTOR NAME(vector)

#if defined(__GNUC__)
typedef REAL VECTOR __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
#define LOAD(place) (*(const VECTOR *)(place))
#define ADD_TO(sum, a, b) (sum) += (a) * (b)
#else
typedef struct { REAL at[WIDTH]; } VECTOR;
#endif

/* Σ x[i] y[i] */
static inline REAL NAME(dot)(ptrdiff_t n, const REAL *x, const REAL *y) {
    REAL total = 0;
    ptrdiff_t i = 0;
    if (n >= WIDTH) {
        REAL at[WIDTH];
#if defined(__GNUC__)
        VECTOR a = {0}, b = {0}, c = {0}, d = {0};
        for (; i + 4 * WIDTH <= n; i += 4 * WIDTH) {
            ADD_TO(a, LOAD(x + i), LOAD(y + i));
            ADD_TO(b, LOAD(x + i + WIDTH), LOAD(y + i + WIDTH));
            ADD_TO(c, LOAD(x + i + 2 * WIDTH), LOAD(y + i + 2 * WIDTH));
            ADD_TO(d, LOAD(x + i + 3 * WIDTH), LOAD(y + i + 3 * WIDTH));
        }
        for (; i + WIDTH <= n; i += WIDTH) ADD_TO(a, LOAD(x + i), LOAD(y + i));
        a = (a + b) + (c + d);
        for (int l = 0; l < WIDTH; ++l) at[l] = a[l];
#else
        REAL sums[4 * WIDTH] = {0};
        for (; i + 4 * WIDTH <= n; i += 4 * WIDTH)
            for (int l = 0; l < 4 * WIDTH; ++l) sums[l] += x[i + l] * y[i + l];
        for (; i + WIDTH <= n; i += WIDTH)
            for (int l = 0; l < WIDTH; ++l) sums[l] += x[i + l] * y[i + l];
        for (int l = 0; l < WIDTH; ++l)
            at[l] = (sums[l] + sums[l + WIDTH]) + (sums[l + 2 * WIDTH] + sums[l + 3 * WIDTH]);
#endif
        for (int step = WIDTH / 2; step; step /= 2)
            for (int l = 0; l < step; ++l) at[l] += at[l + step];
        total = at[0];
    }
    for (; i < n; ++i) total += x[i] * y[i];
    return total;
}

/* Σ x[i] y[i], and Σ x[i]² in square, in one pass */
static inline REAL NAME(dot_and_square)(ptrdiff_t n, const REAL *x, const REAL *y, REAL *square) {
#if defined(__GNUC__)
    VECTOR a = {0}, b = {0}, c = {0}, d = {0}, p = {0}, q = {0}, r = {0}, s = {0};
    REAL total = 0, own = 0;
    ptrdiff_t i = 0;
    for (; i + 4 * WIDTH <= n; i += 4 * WIDTH) {
        const VECTOR e = LOAD(x + i), f = LOAD(x + i + WIDTH), g = LOAD(x + i + 2 * WIDTH), h = LOAD(x + i + 3 * WIDTH);
        ADD_TO(a, e, LOAD(y + i)), ADD_TO(b, f, LOAD(y + i + WIDTH));
        ADD_TO(c, g, LOAD(y + i + 2 * WIDTH)), ADD_TO(d, h, LOAD(y + i + 3 * WIDTH));
        ADD_TO(p, e, e), ADD_TO(q, f, f), ADD_TO(r, g, g), ADD_TO(s, h, h);
    }
    for (; i + WIDTH <= n; i += WIDTH) {
        const VECTOR e = LOAD(x + i);
        ADD_TO(a, e, LOAD(y + i)), ADD_TO(p, e, e);
    }
    a = (a + b) + (c + d), p = (p + q) + (r + s);
    for (int l = 0; l < WIDTH - 1 && i < n; ++i, ++l) total += x[i] * y[i], own += x[i] * x[i];
    for (int l = 0; l < WIDTH; ++l) total += a[l], own += p[l];
    *square = own;
    return total;
#else
    *square = NAME(dot)(n, x, x);
    return NAME(dot)(n, x, y);
#endif
}

/* out[r] = Σ rows[r, i] x[i] for m rows, four at a time: x is loaded once for them */
static inline void NAME(dots)(ptrdiff_t m, ptrdiff_t n, const REAL *rows, ptrdiff_t stride, const REAL *x, REAL *out) {
    ptrdiff_t r = 0;
#if defined(__GNUC__)
    for (; r + 4 <= m && n >= WIDTH; r += 4) {
        const REAL *p = rows + r * stride, *q = p + stride, *s = q + stride, *t = s + stride;
        VECTOR a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};
        REAL left[4] = {0, 0, 0, 0};
        ptrdiff_t i = 0;
        for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
            const VECTOR u = LOAD(x + i), v = LOAD(x + i + WIDTH);
            ADD_TO(a, LOAD(p + i), u), ADD_TO(e, LOAD(p + i + WIDTH), v);
            ADD_TO(b, LOAD(q + i), u), ADD_TO(f, LOAD(q + i + WIDTH), v);
            ADD_TO(c, LOAD(s + i), u), ADD_TO(g, LOAD(s + i + WIDTH), v);
            ADD_TO(d, LOAD(t + i), u), ADD_TO(h, LOAD(t + i + WIDTH), v);
        }
        if (i + WIDTH <= n) {
            const VECTOR u = LOAD(x + i);
            ADD_TO(a, LOAD(p + i), u), ADD_TO(b, LOAD(q + i), u), ADD_TO(c, LOAD(s + i), u), ADD_TO(d, LOAD(t + i), u);
            i += WIDTH;
        }
        for (int l = 0; l < WIDTH - 1 && i < n; ++i, ++l) {
            left[0] += p[i] * x[i], left[1] += q[i] * x[i], left[2] += s[i] * x[i], left[3] += t[i] * x[i];
        }
        a += e, b += f, c += g, d += h;
        for (int l = 0; l < WIDTH; ++l) left[0] += a[l], left[1] += b[l], left[2] += c[l], left[3] += d[l];
        out[r] = left[0], out[r + 1] = left[1], out[r + 2] = left[2], out[r + 3] = left[3];
    }
#endif
    for (; r < m; ++r) out[r] = NAME(dot)(n, rows + r * stride, x);
}

/* y ← y + a x */
static inline void NAME(axpy)(ptrdiff_t n, REAL a, const REAL *__restrict x, REAL *__restrict y) {
    for (ptrdiff_t i = 0; i < n; ++i) y[i] += a * x[i];
}

/* y ← y + Σ a[r] rows[r] for m rows, four at a time */
static inline void NAME(axpys)(ptrdiff_t m, ptrdiff_t n, const REAL *a, const REAL *__restrict rows, ptrdiff_t stride,
                               REAL *__restrict y) {
    ptrdiff_t r = 0;
    for (; r + 4 <= m; r += 4) {
        const REAL *p = rows + r * stride, *q = p + stride, *s = q + stride, *t = s + stride;
        const REAL a0 = a[r], a1 = a[r + 1], a2 = a[r + 2], a3 = a[r + 3];
        for (ptrdiff_t i = 0; i < n; ++i) y[i] += (a0 * p[i] + a1 * q[i]) + (a2 * s[i] + a3 * t[i]);
    }
    for (; r < m; ++r) NAME(axpy)(n, a[r], rows + r * stride, y);
}

/* Two rotations one after the other, of a row with x and then with u, entries j, …, n−1:
   x ← a₃x − a₄row,  row ← a₁row + a₂x,  then u ← b₃u − b₄row,  row ← b₁row + b₂u
   Vectors begin at multiples of WIDTH whatever j is, so that what one call stored the next one loads in the same
   pieces: a load that spans two stores waits for both. */
#define ROTATE(Number, at)                                                                                             \
    do {                                                                                                               \
        const Number old = at(row), first = at(x), second = at(u), kept = a1 * old + a2 * first;                       \
        at(x) = a3 * first - a4 * old;                                                                                 \
        at(u) = b3 * second - b4 * kept;                                                                               \
        at(row) = b1 * kept + b2 * second;                                                                             \
    } while (0)
#define ONE(array) (array)[j]
#define SOME(array) (*(VECTOR *)((array) + j))
static inline void NAME(rotate_two)(ptrdiff_t j, ptrdiff_t n, REAL *__restrict row, REAL *__restrict x,
                                    REAL *__restrict u, const REAL *__restrict a, const REAL *__restrict b) {
    const REAL a1 = a[0], a2 = a[1], a3 = a[2], a4 = a[3], b1 = b[0], b2 = b[1], b3 = b[2], b4 = b[3];
    for (; j % WIDTH && j < n; ++j) ROTATE(REAL, ONE);
#if defined(__GNUC__)
    for (; j + WIDTH <= n; j += WIDTH) ROTATE(VECTOR, SOME);
#endif
    for (; j < n; ++j) ROTATE(REAL, ONE);
}
#undef ROTATE

/* row ← a row + b t,  t ← t − s row, both from the old values, entries j, …, n−1 */
#define ROTATE(Number, at)                                                                                             \
    do {                                                                                                               \
        const Number old = at(row), left = at(t);                                                                      \
        at(t) = left - s * old;                                                                                        \
        at(row) = a * old + b * left;                                                                                  \
    } while (0)
static inline void NAME(update_row)(ptrdiff_t j, ptrdiff_t n, REAL a, REAL b, REAL s, REAL *__restrict row,
                                    REAL *__restrict t) {
    for (; j % WIDTH && j < n; ++j) ROTATE(REAL, ONE);
#if defined(__GNUC__)
    for (; j + WIDTH <= n; j += WIDTH) ROTATE(VECTOR, SOME);
#endif
    for (; j < n; ++j) ROTATE(REAL, ONE);
}
#undef ROTATE
#undef ONE
#undef SOME

#undef NAME
#undef VECTOR
#undef LOAD
#undef ADD_TO
