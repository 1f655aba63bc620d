"""Models, filters and smoothers of complex numbers, through real ones of twice the size."""
