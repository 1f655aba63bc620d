"""The linear methods, their states and their memories, as they are stored."""

from typing import Any

import numpy as np

from remanence.store.format.record import Lengths, Outline, Parts, Record, like
from remanence.store.records import memories
from remanence.store.records.pairs import Pair, both, pair_apart, pair_sound

METHODS = "remanence.methods"
MEMORY = "remanence.memory"


def _ridge(value: Any) -> bool:
    if isinstance(value, (bool, str)):
        return value == "auto"
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(0 < value <= np.finfo(float).max)


def _soft_sound(parts: Parts, lengths: Lengths) -> str:
    waiting, known = parts["waiting"], parts.get("known")
    if not _ridge(parts["ridge"]) or parts["free"] > lengths["d"]:
        return f"expected a ridge and a number of free features, got {parts['ridge']!r:.40} and {parts['free']}"
    if waiting.count > parts["count"]:
        return f"expected at most {parts['count']} rows to wait, the number learned, got {waiting.count}"
    shape = (lengths["d"], lengths["c"])
    for found in () if known is None else (known.posterior, known.weights):
        if found is not None and found.shape != shape:
            return f"expected what is known of shape {shape}, got {found.shape}"
    return ""


def _without(*names: str) -> Any:
    """The parts of a dataclass but for some that are worked out anew."""

    def apart(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in type(value).__dataclass_fields__ if name not in names}

    return apart


def _waiting_outline(waiting: Any) -> Outline:
    return Outline((waiting.X.shape[1], waiting.Y.shape[1]), waiting.X.dtype)


def _window_outline(window: Any) -> Outline:
    return Outline((window.X.shape[1], window.Y.shape[1]), window.X.dtype)


def _everything_outline(everything: Any) -> Outline:
    return Outline((everything.span.features, everything.inside.shape[1]), everything.span.basis.dtype)


LINEAR_RECORDS = {
    # methods: settings are looked at by the methods themselves
    "LMS": Record(f"{METHODS}.lms", {"step": "setting", "normalized": "truth"}),
    "APA": Record(f"{METHODS}.apa", {"buffer": "setting", "step": "setting"}),
    "ICL": Record(f"{METHODS}.icl", {"tolerance": "setting"}),
    "OGD": Record(f"{METHODS}.ogd", {"step": "setting", "tolerance": "setting"}),
    "ORFit": Record(f"{METHODS}.orfit", {"rank": "setting", "tolerance": "setting"}),
    "RLS": Record(f"{METHODS}.rls", {"ridge": "setting", "forget": "setting", "floor": "setting"}),
    "LowRankRLS": Record(f"{METHODS}.lowrank_rls", {"rank": "setting", "ridge": "setting"}),
    "Alternating": Record(f"{METHODS}.step_sizes", {"c": "number"}),
    # states
    "LMSState": Record(f"{METHODS}.lms", {"W": "d c", "count": "count"}, like("W")),
    "APAState": Record(f"{METHODS}.apa", {"W": "d c", "past": "Window|Everything d c", "count": "count"}, like("W")),
    "ICLState": Record(f"{METHODS}.icl", {"W": "d c", "past": "Subspace d *"}, like("W")),
    "OGDState": Record(f"{METHODS}.ogd", {"W": "d c", "past": "Subspace d *", "count": "count"}, like("W")),
    "ORFitState": Record(f"{METHODS}.orfit", {"W": "d c", "past": "Subspace|Spectrum d *"}, like("W")),
    "Exact": Record(f"{METHODS}.rls_exact", {"W": "d c", "past": "Subspace d *", "start": "d c"}, like("W")),
    "RLSState": Record(
        f"{METHODS}.rls_state",
        {
            "data": "Root d c",
            "waiting": "Waiting d c",
            "start": "d c",
            "count": "count",
            "ridge": "setting",
            "free": "count",
            "known": "Known",
        },
        like("start"),
        apart=_without("owner"),
        sound=_soft_sound,
    ),
    "Known": Record(
        f"{METHODS}.rls_state", {"posterior": "maybe Root d c", "weights": "maybe d c", "ridge": "maybe number"}
    ),
    "LowRankState": Record(
        f"{METHODS}.lowrank_rls",
        {
            "spectrum": "Spectrum d c",
            "waiting": "Waiting d c",
            "start": "d c",
            "count": "count",
            "ridge": "setting",
            "free": "count",
        },
        like("start"),
        apart=_without("known"),
        sound=_soft_sound,
    ),
    # memories
    "Subspace": Record(
        f"{MEMORY}.subspace", {"basis": "d r"}, like("basis"), sound=memories.bounded(directions="basis")
    ),
    "Window": Record(f"{MEMORY}.window", {"X": "k d", "Y": "k c"}, _window_outline, sound=memories.bounded("X", "Y")),
    "Everything": Record(f"{MEMORY}.window", {"span": "Subspace d r", "inside": "Root r c"}, _everything_outline),
    "Spectrum": Record(
        f"{MEMORY}.truncated_svd",
        {"basis": "d r", "strength": "r", "target": "r c", "rest": "c float64", "dropped": "number"},
        like("basis", "target"),
        sound=memories.bounded("strength", "target", directions="basis"),
    ),
    "Root": Record(
        f"{MEMORY}.root",
        {"triangle": "*", "target": "d c", "rest": "c float64"},
        like("target"),
        apart=memories.root_apart,
        together=memories.root_together,
        sometimes={"lost": "* float64"},
        sound=memories.root_sound,
    ),
    "Waiting": Record(
        f"{MEMORY}.pending_rows",
        {
            "X": "k d",
            "Y": "k c",
            "room": "count",
            "taken": "truth",
            "base": "maybe Root d c",
            "held": "number",
            "broken": "truth",
            "S": "maybe d i",
            "C": "maybe i i",
            "U": "maybe i c",
            "low": "number any",
            "high": "number any",
        },
        _waiting_outline,
        apart=memories.waiting_apart,
        together=memories.waiting_together,
        sound=memories.waiting_sound,
    ),
    "Pair": Record(
        Pair.__module__,
        {"method": "method", "state": "state d c"},
        apart=pair_apart,
        together=both,
        sound=pair_sound,
        alone=True,
    ),
}
