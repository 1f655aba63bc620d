"""The laws that every method keeps, as a check for methods of your own."""

from remanence.laws.method_laws import check_method

__all__ = ["check_method"]
