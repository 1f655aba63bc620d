"""Tasks that drift: the linear Gaussian model, its filter and smoother, and their extensions to nonlinear tasks.

filter     each task's model from the tasks so far      smooth        from all tasks, later ones too
forecast   the models to come                           sample        data made up from a model
innovations  how unlikely was a task?                   backward_transfer   what later tasks teach about earlier ones
extended   the filter for nonlinear tasks               linearized    ICL, RLS, … for nonlinear tasks
learn      the model itself, from data (EM)             Kalman        the filter as a streaming method
"""

from remanence.kalman.backward_transfer import backward_transfer
from remanence.kalman.em import Learned, learn
from remanence.kalman.filter import filter
from remanence.kalman.forecast import forecast, sample
from remanence.kalman.innovations import Innovations, innovations
from remanence.kalman.model import LinearGaussian
from remanence.kalman.nonlinear.extended import extended, smooth_extended
from remanence.kalman.nonlinear.linearized import Linearized, linearized
from remanence.kalman.results import Filtered, Forecast, Smoothed
from remanence.kalman.smoother import smooth
from remanence.kalman.streaming import Kalman

__all__ = [
    "Filtered",
    "Forecast",
    "Innovations",
    "Kalman",
    "Learned",
    "LinearGaussian",
    "Linearized",
    "Smoothed",
    "backward_transfer",
    "extended",
    "filter",
    "forecast",
    "innovations",
    "learn",
    "linearized",
    "sample",
    "smooth",
    "smooth_extended",
]
