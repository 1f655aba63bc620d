"""The kernels of native/, compiled for x86-64 processors with AVX2 and FMA."""
