"""The limits of the Kalman filter's arithmetic: what they mean is said in constants.py."""

cdef extern from "constants.h" nogil:
    const int MISSING "KALMAN_MISSING"
    const int SEEN "KALMAN_SEEN"
    const int DECIDED "KALMAN_DECIDED"
    const double CAREFUL "KALMAN_CAREFUL"
    const double DOUBTFUL "KALMAN_DOUBTFUL"
    const double ROUNDING "KALMAN_ROUNDING"
    const double CONFLICT "KALMAN_CONFLICT"
    const double LOG_2PI "KALMAN_LOG_2PI"
    const double EPS "DBL_EPSILON"
