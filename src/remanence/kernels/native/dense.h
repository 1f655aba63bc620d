/* Small dense matrices of float64, row-major and contiguous: below a dozen features a call of BLAS costs more than it
   saves. */
#ifndef REMANENCE_DENSE_H
#define REMANENCE_DENSE_H

#include "lanes.h"

#if defined(__GNUC__)
/* `rows` (1 to 4) rows of out = add + A B, eight columns from j on in registers. */
static inline __attribute__((always_inline)) void dense_tile(int rows, ptrdiff_t k, ptrdiff_t m, const double *A,
                                                             const double *B, const double *add, double *out) {
    vector_d low[4], high[4];
    for (int r = 0; r < rows; ++r) {
        low[r] = add ? *(const vector_d *)(add + r * m) : (vector_d){0};
        high[r] = add ? *(const vector_d *)(add + r * m + 4) : (vector_d){0};
    }
    for (ptrdiff_t i = 0; i < k; ++i) {
        const vector_d a = *(const vector_d *)(B + i * m), b = *(const vector_d *)(B + i * m + 4);
        for (int r = 0; r < rows; ++r) low[r] += A[r * k + i] * a, high[r] += A[r * k + i] * b;
    }
    for (int r = 0; r < rows; ++r) *(vector_d *)(out + r * m) = low[r], *(vector_d *)(out + r * m + 4) = high[r];
}
#endif

/* out (n, m) = add + A (n, k) B (k, m); add may be NULL for 0. */
static inline void dense_multiply(ptrdiff_t n, ptrdiff_t k, ptrdiff_t m, const double *A, const double *B,
                                  const double *add, double *out) {
    ptrdiff_t j = 0;
#if defined(__GNUC__)
    for (; j + 8 <= m; j += 8) {
        ptrdiff_t i = 0;
        for (; i + 4 <= n; i += 4)
            dense_tile(4, k, m, A + i * k, B + j, add ? add + i * m + j : 0, out + i * m + j);
        for (; i < n; ++i) dense_tile(1, k, m, A + i * k, B + j, add ? add + i * m + j : 0, out + i * m + j);
    }
#endif
    if (j < m)
        for (ptrdiff_t i = 0; i < n; ++i) {
            double at[8] = {0};
            const ptrdiff_t width = m - j < 8 ? m - j : 8;
            double *row = out + i * m;
#if defined(__GNUC__)
            for (ptrdiff_t q = 0; add && q < width; ++q) at[q] = add[i * m + j + q];
            for (ptrdiff_t p = 0; p < k; ++p)
                for (ptrdiff_t q = 0; q < width; ++q) at[q] += A[i * k + p] * B[p * m + j + q];
            for (ptrdiff_t q = 0; q < width; ++q) row[j + q] = at[q];
#else
            (void)at, (void)width;
            for (ptrdiff_t q = 0; q < m; ++q) row[q] = add ? add[i * m + q] : 0;
            for (ptrdiff_t p = 0; p < k; ++p) axpy_d(m, A[i * k + p], B + p * m, row);
#endif
        }
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
