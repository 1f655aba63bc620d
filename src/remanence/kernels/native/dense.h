/* Small dense matrices of float64, row-major and contiguous: for a few dozen features a call of BLAS costs more than it
   saves, most of it for copies of its factors. */
#ifndef REMANENCE_DENSE_H
#define REMANENCE_DENSE_H

#include "lanes.h"

/* From this many features on BLAS is faster; with vectors of 32 bytes and enough registers not below a hundred. */
#if defined(__GNUC__) && (defined(__AVX2__) || defined(__aarch64__))
#define DENSE_BLAS 128
#else
#define DENSE_BLAS 24
#endif

#if defined(__GNUC__)
/* `rows` rows and 4 `wide` columns of out = add + A B in registers; A has k columns, the others m. */
static inline __attribute__((always_inline)) void dense_tile(int rows, int wide, ptrdiff_t k, ptrdiff_t m,
                                                             const double *A, const double *B, const double *add,
                                                             double *out) {
    vector_d sums[4][3];
    for (int r = 0; r < rows; ++r)
        for (int q = 0; q < wide; ++q) sums[r][q] = add ? *(const vector_d *)(add + r * m + 4 * q) : (vector_d){0};
    for (ptrdiff_t i = 0; i < k; ++i) {
        vector_d b[3];
        for (int q = 0; q < wide; ++q) b[q] = *(const vector_d *)(B + i * m + 4 * q);
        for (int r = 0; r < rows; ++r)
            for (int q = 0; q < wide; ++q) sums[r][q] += A[r * k + i] * b[q];
    }
    for (int r = 0; r < rows; ++r)
        for (int q = 0; q < wide; ++q) *(vector_d *)(out + r * m + 4 * q) = sums[r][q];
}

/* 4 `wide` columns of out = add + A B from column j on, from the row on where they reach the diagonal if `lower`.
   The last four rows may overlap those before: every entry is the same sum in any tile. */
static inline __attribute__((always_inline)) void dense_columns(int wide, ptrdiff_t j, ptrdiff_t n, ptrdiff_t k,
                                                                ptrdiff_t m, const double *A, const double *B,
                                                                const double *add, double *out, int lower) {
    ptrdiff_t i = lower ? j / 4 * 4 : 0;
    add = add ? add + j : 0;
    for (; i < n && n >= 4; i += 4) {
        const ptrdiff_t row = i + 4 <= n ? i : n - 4;
        dense_tile(4, wide, k, m, A + row * k, B + j, add ? add + row * m : 0, out + row * m + j);
    }
    for (; i < n; ++i) dense_tile(1, wide, k, m, A + i * k, B + j, add ? add + i * m : 0, out + i * m + j);
}
#endif

/* out (n, m) = add + A (n, k) B (k, m); add may be NULL for 0, and must not be out. With `lower` (n = m) the entries
   right of the diagonal are not all made. */
static inline void dense_multiply(ptrdiff_t n, ptrdiff_t k, ptrdiff_t m, const double *A, const double *B,
                                  const double *add, double *out, int lower) {
#if defined(__GNUC__)
    if (m >= 4) {
        ptrdiff_t j = 0;
        for (; j + 12 <= m; j += 12) dense_columns(3, j, n, k, m, A, B, add, out, lower);
        if (j + 8 <= m) dense_columns(2, j, n, k, m, A, B, add, out, lower), j += 8;
        if (j + 4 <= m) dense_columns(1, j, n, k, m, A, B, add, out, lower), j += 4;
        if (j < m) dense_columns(1, m - 4, n, k, m, A, B, add, out, lower);
        return;
    }
#endif
    (void)lower;
    for (ptrdiff_t i = 0; i < n; ++i) {
        for (ptrdiff_t q = 0; q < m; ++q) out[i * m + q] = add ? add[i * m + q] : 0;
        for (ptrdiff_t p = 0; p < k; ++p) axpy_d(m, A[i * k + p], B + p * m, out + i * m);
    }
}

/* out (m, n) = −Aᵀ for A (n, m) */
static inline void dense_negative_transpose(ptrdiff_t n, ptrdiff_t m, const double *__restrict A,
                                            double *__restrict out) {
    for (ptrdiff_t i = 0; i < m; ++i)
        for (ptrdiff_t j = 0; j < n; ++j) out[i * n + j] = -A[j * m + i];
}

/* The upper triangle from the lower one, in squares that fit the cache. */
static inline void dense_mirror(ptrdiff_t d, double *P) {
    for (ptrdiff_t a = 0; a < d; a += 16)
        for (ptrdiff_t b = 0; b <= a; b += 16)
            for (ptrdiff_t j = b; j < b + 16 && j < d; ++j)
                for (ptrdiff_t i = a > j ? a : j + 1; i < a + 16 && i < d; ++i) P[j * d + i] = P[i * d + j];
}

/* out = Aᵀ, in the same squares. */
static inline void dense_transpose(ptrdiff_t d, const double *__restrict A, double *__restrict out) {
    for (ptrdiff_t a = 0; a < d; a += 16)
        for (ptrdiff_t b = 0; b < d; b += 16)
            for (ptrdiff_t i = a; i < a + 16 && i < d; ++i)
                for (ptrdiff_t j = b; j < b + 16 && j < d; ++j) out[i * d + j] = A[j * d + i];
}

/* Σ |x[i]| y[i] */
static inline double dense_abs_dot(ptrdiff_t n, const double *x, const double *y) {
    double at[4] = {0, 0, 0, 0}, total = 0;
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; ++l) at[l] += (x[i + l] < 0 ? -x[i + l] : x[i + l]) * y[i + l];
    for (; i < n; ++i) total += (x[i] < 0 ? -x[i] : x[i]) * y[i];
    return total + (at[0] + at[2]) + (at[1] + at[3]);
}

#endif
