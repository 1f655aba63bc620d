"""Streams: lists of tasks, from data sets or generated from a seed."""

from remanence.streams.classes import digits, split_classes
from remanence.streams.delay_line import delay_line
from remanence.streams.images import permuted, rotated
from remanence.streams.linear import linear, linear_gaussian
from remanence.streams.recurring import recurring
from remanence.streams.task import Task

__all__ = [
    "Task",
    "delay_line",
    "digits",
    "linear",
    "linear_gaussian",
    "permuted",
    "recurring",
    "rotated",
    "split_classes",
]
