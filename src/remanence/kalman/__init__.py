"""Models for drifting tasks: the linear Gaussian model, its filter and smoother, and nonlinear extensions.

filter       estimates from the observations so far     smooth             estimates from all observations
forecast     predictions of future states               sample             random draws from a model
innovations  normalized prediction errors               backward_transfer  expected error on earlier tasks
extended     the filter for nonlinear observations      linearized         ICL, RLS, … for nonlinear observations
unscented    the same without derivatives
learn        parameter estimation by EM                 Kalman             the filter as a streaming method
LiveFilter   the filter one observation at a time
random_walk, constant_velocity, constant_acceleration   motions in continuous time, for LinearGaussian.from_continuous
"""

from remanence.kalman.backward_transfer import backward_transfer
from remanence.kalman.em import Learned, learn
from remanence.kalman.filter import filter
from remanence.kalman.forecast import forecast, sample
from remanence.kalman.innovations import Innovations, innovations
from remanence.kalman.model import LinearGaussian
from remanence.kalman.nonlinear.extended import extended, smooth_extended
from remanence.kalman.nonlinear.linearized import Linearized, linearized
from remanence.kalman.nonlinear.unscented import unscented
from remanence.kalman.results import Filtered, Forecast, Smoothed
from remanence.kalman.smoother import smooth
from remanence.kalman.streaming import Kalman
from remanence.kalman.time.continuous import Motion, constant_acceleration, constant_velocity, random_walk
from remanence.kalman.time.live_filter import LiveFilter

__all__ = [
    "Filtered",
    "Forecast",
    "Innovations",
    "Kalman",
    "Learned",
    "LinearGaussian",
    "Linearized",
    "LiveFilter",
    "Motion",
    "Smoothed",
    "backward_transfer",
    "constant_acceleration",
    "constant_velocity",
    "extended",
    "filter",
    "forecast",
    "innovations",
    "learn",
    "linearized",
    "random_walk",
    "sample",
    "smooth",
    "smooth_extended",
    "unscented",
]
