"""Compiled loops: plain arrays in, plain arrays out. native/ holds the sources, baseline/ and avx2/ what they make."""
