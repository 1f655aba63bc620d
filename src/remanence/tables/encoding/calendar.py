"""Dates and times as calendar parts.

    year      years since the beginning of 2000, of 365.2425 days                                               (D1)
    season    sine and cosine of the day within the year                                                        (D2)
    weekday   seven columns, one of them 1                                                                      (D3)
    hour      sin(2πh/24) and 1 − cos(2πh/24), both 0 at midnight, where dates without a time are               (D4)

Times with an offset are converted to UTC; others are taken as they are.
"""

import numpy as np

from remanence.arrays import Array

DAY, YEAR = 86_400.0, 365.2425
EPOCH_2000 = 10_957  # days from 1970 to 2000
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PARTS = ("year", "season_sin", "season_cos", *WEEKDAYS, "hour_sin", "hour_cos")


def calendar_parts(seconds: Array) -> Array:
    """The parts of times given in seconds since 1970, (n, 12); all are 0 where the time is NaN."""
    there = np.isfinite(seconds)
    seconds = np.where(there, seconds, 0.0)
    days = np.floor(seconds / DAY)
    dates = days.astype("datetime64[D]")
    start = dates.astype("datetime64[Y]")
    angle = 2 * np.pi * (dates - start.astype("datetime64[D]")).astype(float) / YEAR
    hour = 2 * np.pi * (seconds - days * DAY) / DAY
    parts = np.zeros((len(seconds), len(PARTS)))
    parts[:, 0] = (seconds / DAY - EPOCH_2000) / YEAR  # (D1)
    parts[:, 1], parts[:, 2] = np.sin(angle), np.cos(angle)  # (D2)
    weekday = (days.astype(int) + 3) % 7  # (1970 began on a Thursday)
    parts[np.arange(len(days)), 3 + weekday] = 1  # (D3)
    parts[:, 10], parts[:, 11] = np.sin(hour), 1 - np.cos(hour)  # (D4)
    parts[~there] = 0
    return parts
