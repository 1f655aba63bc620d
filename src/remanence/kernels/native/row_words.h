/* The words of numbers, mixed and added up by rows: what remanence/hashing.py defines, in one pass over the numbers. */
#ifndef REMANENCE_ROW_WORDS_H
#define REMANENCE_ROW_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t mixed_word(const char *place)
{
    double number;
    uint64_t word;
    memcpy(&number, place, 8);
    number += 0.0; /* a negative zero is a zero */
    memcpy(&word, &number, 8);
    word ^= word >> 32;
    word *= UINT64_C(0x9E3779B97F4A7C15);
    return word ^ (word >> 29);
}

static inline void add_column(
    ptrdiff_t n, const char *x, ptrdiff_t step, uint64_t first, uint64_t second, uint64_t *a, uint64_t *b)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        uint64_t word = mixed_word(x + i * step);
        a[i] += word * first;
        b[i] += word * second;
    }
}

static inline void add_words_of(
    ptrdiff_t n, ptrdiff_t d, const char *x, ptrdiff_t down, ptrdiff_t across, const uint64_t *factors, uint64_t *sums,
    ptrdiff_t rows)
{
    for (ptrdiff_t begin = 0; begin < n; begin += 1024) { /* sums of so many rows stay in the nearest cache */
        ptrdiff_t count = n - begin < 1024 ? n - begin : 1024;
        uint64_t *a = sums + begin, *b = sums + rows + begin;
        for (ptrdiff_t j = 0; j < d; j++) {
            const char *column = x + begin * down + j * across;
            if (down == 8) /* (a step that is known lets the compiler take several at once) */
                add_column(count, column, 8, factors[2 * j], factors[2 * j + 1], a, b);
            else
                add_column(count, column, down, factors[2 * j], factors[2 * j + 1], a, b);
        }
    }
}

#endif
