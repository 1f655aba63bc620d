"""A method and its state: two values that are one learner, if the state was made by that method."""

from dataclasses import dataclass
from typing import Any

from remanence.methods.protocol import Method, structure
from remanence.store.format.record import Lengths, PartValues


@dataclass(frozen=True, slots=True)
class Pair:
    """What rm.save is given as (method, state)."""

    method: Method[Any]
    state: Any


def pair_to_parts(pair: Pair) -> dict[str, Any]:
    """The state without pending rows; the one in memory stays as it is, since it may be shared."""
    fits = not pair_problem(pair.method, pair.state)
    return {"method": pair.method, "state": pair.method.settled(pair.state) if fits else pair.state}


def pair_from_parts(cls: Any, parts: dict[str, Any]) -> tuple[Any, Any]:
    """The pair as the plain tuple that was saved."""
    return parts["method"], parts["state"]


def pair_problem(method: Any, state: Any) -> str:
    """Why this cannot be a state of this method; empty if it can."""
    if not isinstance(method, Method):
        return f"expected a method, one of rm.list_methods(), got {type(method).__name__}"
    if not method.accepts_state(state):
        found = " with ".join(cls.__name__ for cls in structure(state)) or type(state).__name__
        return f"expected a state of {method!r:.60}, got {found} of another method or of other settings"
    return ""


def pair_check(parts: PartValues, lengths: Lengths) -> str:
    return pair_problem(parts["method"], parts["state"])
