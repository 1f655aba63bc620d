"""Threads: how many are used, and what keeps them safe beside BLAS and forks."""

from remanence.parallel.thread_count import set_threads, threads

__all__ = ["set_threads", "threads"]
