"""Methods whose model is a sum of kernels at remembered samples."""
