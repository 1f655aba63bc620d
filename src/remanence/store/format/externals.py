"""What a model was taught with and its file does not hold: handed in when loading, and known by its fingerprint."""

from typing import Any

from remanence.errors import InputError
from remanence.store.format.record import External

WHAT = {"features": "the encoder it was taught with", "model": "the network it belongs to"}


class Outside:
    """What the caller of rm.load brings along."""

    def __init__(self, **brought: Any) -> None:
        self.brought = {role: value for role, value in brought.items() if value is not None}
        self.used: set[str] = set()

    def given(self, wanted: External) -> Any:
        """The thing in this role; refused where it is missing or another one."""
        role = wanted.role
        if role not in self.brought:
            what = WHAT.get(role, role)
            raise InputError(
                f"expected {what} ({wanted.fingerprint}), which the file does not hold; "
                f"pass it as rm.load(path, {role}=…)"
            )
        self.used.add(role)
        found = fingerprint_in(role, self.brought[role])
        if found != wanted.fingerprint:
            raise InputError(
                f"expected {WHAT[role]} ({wanted.fingerprint}), got another one ({found}); pass that very one"
            )
        return self.brought[role]

    def check_all_used(self) -> None:
        """Refuse what the file has no place for."""
        unused = sorted(self.brought.keys() - self.used)
        if unused:
            raise InputError(
                f"expected no {' and no '.join(unused)} for this file, it holds all it needs; leave that out"
            )


def fingerprint_in(role: str, thing: Any) -> str:
    """The fingerprint that tells whether this is the thing a file wants in this role."""
    if role == "model":
        from remanence.deep.nn.tensors import structure

        return structure(thing)
    from remanence.estimators.fingerprint import fingerprint

    return fingerprint(thing)
