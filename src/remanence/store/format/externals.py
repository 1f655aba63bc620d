"""Encoders and networks that a file does not hold: passed when loading, and identified by their fingerprint."""

from typing import Any

from remanence.errors import InputError
from remanence.store.format.record import External

WHAT = {"features": "the encoder it was trained with", "model": "the network it belongs to"}


class Externals:
    """The encoder and the network that the caller of rm.load passes."""

    def __init__(self, **passed: Any) -> None:
        self.passed = {role: value for role, value in passed.items() if value is not None}
        self.used: set[str] = set()

    def given(self, wanted: External) -> Any:
        """The object in this role; raises InputError if it is missing or another one."""
        role = wanted.role
        if role not in self.passed:
            what = WHAT.get(role, role)
            raise InputError(
                f"expected {what} ({wanted.fingerprint}), which the file does not hold; "
                f"pass it as rm.load(path, {role}=…)"
            )
        self.used.add(role)
        found = fingerprint_in(role, self.passed[role])
        if found != wanted.fingerprint:
            raise InputError(
                f"expected {WHAT[role]} ({wanted.fingerprint}), got another one ({found}); pass the saved one"
            )
        return self.passed[role]

    def check_all_used(self) -> None:
        """Raise InputError for objects that the file does not use."""
        unused = sorted(self.passed.keys() - self.used)
        if unused:
            raise InputError(
                f"expected no {' and no '.join(unused)} for this file, it holds all it needs; leave that out"
            )


def fingerprint_in(role: str, value: Any) -> str:
    """The fingerprint of an object in this role, as files name it."""
    if role == "model":
        from remanence.deep.nn.tensors import structure

        return structure(value)
    from remanence.estimators.fingerprint import fingerprint

    return fingerprint(value)
