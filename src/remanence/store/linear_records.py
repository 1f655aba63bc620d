"""The linear methods, their states and their memories, as they are stored."""

from typing import Any

from remanence.store import memories
from remanence.store.pairs import Pair, both, pair_sound
from remanence.store.record import Lengths, Outline, Parts, Record, like

METHODS = "remanence.methods"
MEMORY = "remanence.memory"


def _ridge(value: Any) -> bool:
    return value == "auto" if isinstance(value, str) else not isinstance(value, bool) and float(value) > 0


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
    "LMS": Record(f"{METHODS}.lms", {"step": "anything", "normalized": "anything"}),
    "APA": Record(f"{METHODS}.apa", {"buffer": "anything", "step": "anything"}),
    "ICL": Record(f"{METHODS}.icl", {"tolerance": "anything"}),
    "OGD": Record(f"{METHODS}.ogd", {"step": "anything", "tolerance": "anything"}),
    "ORFit": Record(f"{METHODS}.orfit", {"rank": "anything", "tolerance": "anything"}),
    "RLS": Record(f"{METHODS}.rls", {"ridge": "anything", "forget": "anything", "floor": "anything"}),
    "LowRankRLS": Record(f"{METHODS}.lowrank_rls", {"rank": "anything", "ridge": "anything"}),
    "Alternating": Record(f"{METHODS}.steps", {"c": "number"}),
    # states
    "LMSState": Record(f"{METHODS}.lms", {"W": "d c", "count": "count"}, like("W")),
    "APAState": Record(f"{METHODS}.apa", {"W": "d c", "past": "d c", "count": "count"}, like("W")),
    "ICLState": Record(f"{METHODS}.icl", {"W": "d c", "past": "d *"}, like("W")),
    "OGDState": Record(f"{METHODS}.ogd", {"W": "d c", "past": "d *", "count": "count"}, like("W")),
    "ORFitState": Record(f"{METHODS}.orfit", {"W": "d c", "past": "d *"}, like("W")),
    "Exact": Record(f"{METHODS}.rls_exact", {"W": "d c", "past": "d *", "start": "d c"}, like("W")),
    "RLSState": Record(
        f"{METHODS}.rls_state",
        {
            "data": "d c",
            "waiting": "d c",
            "start": "d c",
            "count": "count",
            "ridge": "anything",
            "free": "count",
            "known": "anything",
        },
        like("start"),
        apart=_without("owner"),
        sound=_soft_sound,
    ),
    "Known": Record(
        f"{METHODS}.rls_state", {"posterior": "maybe d c", "weights": "maybe d c", "ridge": "maybe number"}
    ),
    "LowRankState": Record(
        f"{METHODS}.lowrank_rls",
        {
            "spectrum": "d c",
            "waiting": "d c",
            "start": "d c",
            "count": "count",
            "ridge": "anything",
            "free": "count",
        },
        like("start"),
        apart=_without("known"),
        sound=_soft_sound,
    ),
    # memories
    "Subspace": Record(f"{MEMORY}.subspace", {"basis": "d r"}, like("basis")),
    "Window": Record(f"{MEMORY}.window", {"X": "k d", "Y": "k c"}, _window_outline),
    "Everything": Record(f"{MEMORY}.window", {"span": "d r", "inside": "r c"}, _everything_outline),
    "Spectrum": Record(
        f"{MEMORY}.lowrank",
        {"basis": "d r", "strength": "r", "target": "r c", "rest": "c float64", "dropped": "number"},
        like("basis", "target"),
    ),
    "Root": Record(
        f"{MEMORY}.root",
        {"triangle": "*", "target": "d c", "rest": "c float64"},
        like("target"),
        apart=memories.root_apart,
        together=memories.root_together,
    ),
    "Waiting": Record(
        f"{MEMORY}.waiting",
        {
            "X": "k d",
            "Y": "k c",
            "room": "count",
            "taken": "anything",
            "base": "maybe d c",
            "held": "number",
            "broken": "anything",
            "S": "maybe d i",
            "C": "maybe i i",
            "U": "maybe i c",
            "low": "number",
            "high": "number",
        },
        _waiting_outline,
        apart=memories.waiting_apart,
        together=memories.waiting_together,
        sound=memories.waiting_sound,
    ),
    "Pair": Record(
        Pair.__module__, {"method": "anything", "state": "d c"}, together=both, sound=pair_sound, alone=True
    ),
}
