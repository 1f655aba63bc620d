"""Moved to remanence.progress."""

from remanence.progress import progress_bar, track_progress

__all__ = ["progress_bar", "track_progress"]
