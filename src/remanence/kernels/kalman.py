"""The loops over time of the Kalman filter and smoother (native/kalman_*.pyx)."""

from remanence.kernels.variants import load

_filter, _smoother = load("kalman_filter"), load("kalman_smoother")
covariances, means = _filter.covariances, _filter.means
smoothed_covariances, smoothed_means = _smoother.smoothed_covariances, _smoother.smoothed_means
informed = load("kalman_information").informed
