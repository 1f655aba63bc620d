"""The laws that every method keeps, as a check to run on a method of one's own."""

from remanence.laws.method_laws import check_method

__all__ = ["check_method"]
