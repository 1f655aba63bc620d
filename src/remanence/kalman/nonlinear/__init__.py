"""Nonlinear tasks: the extended filter, linearised methods, and Jacobians."""
