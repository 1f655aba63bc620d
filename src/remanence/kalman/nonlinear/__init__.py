"""Nonlinear observations: the extended filter, linearized methods, and Jacobians."""

from remanence.kalman.nonlinear.extended import extended, smooth_extended
from remanence.kalman.nonlinear.linearized import Linearized, linearized

__all__ = ["Linearized", "extended", "linearized", "smooth_extended"]
