/* The constants of constants.py, for the kernels; a test compares the two. */
#ifndef REMANENCE_CONSTANTS_H
#define REMANENCE_CONSTANTS_H

#include <float.h>

#define KALMAN_MISSING 0
#define KALMAN_SEEN 1
#define KALMAN_DECIDED 2
#define KALMAN_CAREFUL 1e-5
#define KALMAN_DOUBTFUL 1e-7
#define KALMAN_ROUNDING (64 * DBL_EPSILON)
#define KALMAN_CONFLICT 1e-6
#define KALMAN_STRETCH 32
#define KALMAN_FAST 8
#define KALMAN_FAR 1e15
#define KALMAN_LOG_2PI 1.8378770664093453

#endif
