"""The kernels of native/, compiled for any processor."""
