"""The words of rows of numbers, for keys of rows (native/row_words.pyx)."""

from remanence.kernels.variants import load

add_words = load("row_words").add_words
