"""The laws that every method keeps, as a check to run on a method of one's own."""

from remanence.laws.check_method import check_method

__all__ = ["check_method"]
