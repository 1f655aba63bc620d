"""Threads: how many are used, and what keeps them safe beside BLAS and forks."""
