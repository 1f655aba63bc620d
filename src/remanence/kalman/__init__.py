"""Tasks that drift: the linear Gaussian model, its filter and its smoother, and what they need."""

from remanence.kalman.filtering import filter
from remanence.kalman.model import LinearGaussian
from remanence.kalman.smoothing import smooth

__all__ = ["LinearGaussian", "filter", "smooth"]
