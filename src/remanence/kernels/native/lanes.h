/* Inner loops over contiguous numbers, for float64 (…_d) and float32 (…_s).

   A sum runs in 16 (float32: 32) lanes that are added in a fixed order: the compiler needs no permission to reorder it,
   and its bits do not depend on where an array begins in memory. */
#ifndef REMANENCE_LANES_H
#define REMANENCE_LANES_H

#include <stddef.h>

#define LANES_JOIN_(name, kind) name##_##kind
#define LANES_JOIN(name, kind) LANES_JOIN_(name, kind)

#define REAL double
#define KIND d
#define WIDTH 4
#include "lanes_real.h"
#undef REAL
#undef KIND
#undef WIDTH

#define REAL float
#define KIND s
#define WIDTH 8
#include "lanes_real.h"
#undef REAL
#undef KIND
#undef WIDTH

#endif
