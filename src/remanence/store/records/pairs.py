"""A method and its state: two values that are one learner, if the one made the other."""

from dataclasses import dataclass
from typing import Any

from remanence.methods.protocol import Method
from remanence.store.format.record import Lengths, Parts

STATES = {  # the state of each method, where it is one and the same whatever the settings
    "LMS": "LMSState",
    "APA": "APAState",
    "ICL": "ICLState",
    "OGD": "OGDState",
    "ORFit": "ORFitState",
    "RLS": "RLSState",
    "LowRankRLS": "LowRankState",
    "Kalman": "KalmanState",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """What rm.save is given as (method, state)."""

    method: Method[Any]
    state: Any


def pair_apart(pair: Pair) -> dict[str, Any]:
    """The state without rows that wait; the one in memory stays as it is, for it may be shared."""
    fits = not pair_problem(pair.method, pair.state)
    return {"method": pair.method, "state": pair.method.settled(pair.state) if fits else pair.state}


def both(kind: Any, parts: dict[str, Any]) -> tuple[Any, Any]:
    """The pair as the plain tuple it was."""
    return parts["method"], parts["state"]


def pair_problem(method: Any, state: Any) -> str:
    """Why this cannot be a state of this method, in words; empty if it can."""
    name, found = type(method).__name__, type(state).__name__
    if name not in STATES:
        return f"expected a method, one of {', '.join(STATES)}, got {name}"
    expected = "Exact" if name == "RLS" and method.forget == 0 else STATES[name]
    if found != expected:
        return f"expected the state of {method!r:.60}, a {expected}, got {found}"
    if name in ("APA", "ORFit"):
        past = type(state.past).__name__
        bounded = {"APA": ("Everything", "Window"), "ORFit": ("Subspace", "Spectrum")}[name]
        wanted = bounded[(method.buffer if name == "APA" else method.rank) is not None]
        if past != wanted:
            return f"expected a state of {method!r:.60} with a {wanted}, got one with a {past}"
    if name == "Kalman" and (method.drift == "auto") != (len(state.members) > 1):
        return f"expected a state of {method!r:.60}, got one of {len(state.members)} filters"
    return ""


def pair_sound(parts: Parts, lengths: Lengths) -> str:
    return pair_problem(parts["method"], parts["state"])
