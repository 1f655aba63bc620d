"""Methods for signals: complex numbers, sliding windows, filters in the frequency domain."""
