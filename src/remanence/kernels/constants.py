"""Limits of the Kalman filter's arithmetic, shared by its loops and by `memory/gaussian.py`."""

import numpy as np

MISSING, SEEN, DECIDED = 0, 1, 2  # what an entry of y is to us
CAREFUL = 1e-5  # below this part of S the noise is too small for a difference (G2): rotate (G3)
DOUBTFUL = 1e-7  # a pivot below this part of its diagonal is not taken in the order it comes
ROUNDING = 64 * float(np.finfo(float).eps)  # part of the terms of a sum, per feature, that its rounding may reach
CONFLICT = 1e-6  # part of its scale by which a decided answer may be off before it is a contradiction
STRETCH = 32  # steps after which a covariance is compared with what it was
FAST = 8  # times that a stretch must move it less than the one before, to believe that it has arrived
FAR = 1e15  # roundings by which a covariance moved before there was one to compare with
LOG_2PI = float(np.log(2 * np.pi))
