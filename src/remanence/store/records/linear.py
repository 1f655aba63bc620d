"""Records of RLS and its state, of step rules and of pairs (method, state); those of other methods are derived."""

from typing import Any

import numpy as np

from remanence.store.format.record import ArraySpec, Lengths, PartValues, Record
from remanence.store.records import memories
from remanence.store.records.pairs import Pair, pair_check, pair_from_parts, pair_to_parts

METHODS = "remanence.methods"
MEMORY = "remanence.memory"


def _is_ridge(value: Any) -> bool:
    if isinstance(value, (bool, str)):
        return value == "auto"
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(0 < value <= np.finfo(float).max)


def _soft_check(parts: PartValues, lengths: Lengths) -> str:
    pending, cache = parts["waiting"], parts.get("known")
    if not _is_ridge(parts["ridge"]) or parts["free"] > lengths["d"]:
        return f"expected a ridge and a number of unpenalized features, got {parts['ridge']!r:.40} and {parts['free']}"
    border, shape = parts.get("border"), (parts["free"], lengths["d"] + lengths["c"])
    if border is not None and (border.shape != shape or not parts["free"]):
        return f"expected a border of shape {shape}, got {border.shape}"
    if pending.count > parts["count"]:
        return f"expected at most {parts['count']} pending rows, the number learned, got {pending.count}"
    shape = (lengths["d"], lengths["c"])
    for found in () if cache is None else (cache.posterior, cache.weights):
        if found is not None and found.shape != shape:
            return f"expected cached arrays of shape {shape}, got {found.shape}"
    return ""


def _by_class_check(parts: PartValues, lengths: Lengths) -> str:
    members, given = parts["members"], parts["given"]
    if not members or len(given) not in (0, len(members)) or (given < 0).any():
        return "expected a root for every class, and a weight of at least 0 for each or none"
    priors = {(m.ridge, m.unpenalized, m.scaled) for m in members}
    if len(priors) > 1 or any(m.start.shape[1] != 1 or m.start.any() for m in members):
        return "expected roots of one output with the same prior"
    return ""


RENAMED = {"pending": "waiting", "unpenalized": "free", "cache": "known"}  # fields of soft states: names in files


def _soft_to_parts(*left_out: str) -> Any:
    """The parts of a soft state under their names in files, but for fields that are computed again."""

    def to_parts(value: Any) -> dict[str, Any]:
        names = [name for name in type(value).__dataclass_fields__ if name not in left_out]
        return {RENAMED.get(name, name): getattr(value, name) for name in names}

    return to_parts


def _soft_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    fields = {name: field for field, name in RENAMED.items()}
    return cls(**{fields.get(name, name): part for name, part in parts.items()})


def _pending_spec(pending: Any) -> ArraySpec:
    return ArraySpec((pending.X.shape[1], pending.Y.shape[1]), pending.X.dtype)


def _complex_spec(state: Any) -> ArraySpec | None:
    from remanence.store.records.registry import spec_of

    found = spec_of(state.pairs)
    return None if found is None else ArraySpec((found.shape[0] // 2, *found.shape[1:]), found.dtype)


def _complex_check(parts: PartValues, lengths: Lengths) -> str:
    return f"expected an even number of real features, got {lengths['r']}" if lengths["r"] % 2 else ""


LINEAR_RECORDS = {
    "Alternating": Record(f"{METHODS}.step_sizes", {"c": "number"}),
    # states
    "Exact": Record(
        f"{METHODS}.rls_exact",
        {"W": "d c", "past": "Subspace d *", "start": "d c"},
        class_name="ExactState",
    ),
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
            "scaled": "bool",
        },
        to_parts=_soft_to_parts("sharing"),
        defaults={"scaled": False},
        from_parts=_soft_from_parts,
        check=_soft_check,
    ),
    "ByClassState": Record(
        f"{METHODS}.banks.by_class",
        {"members": "tuple RLSState d *", "given": "* float64"},
        spec=lambda state: ArraySpec(state.start.shape, state.start.dtype),
        check=_by_class_check,
    ),
    "ComplexState": Record(
        f"{METHODS}.signals.complex_numbers", {"pairs": "state r c"}, spec=_complex_spec, check=_complex_check
    ),
    "Known": Record(
        f"{MEMORY}.posterior",
        {"posterior": "optional Root d c", "weights": "optional d c", "ridge": "optional number"},
        class_name="Cache",
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
            "border": "optional * * squarable",
        },
        to_parts=_soft_to_parts("cache"),
        defaults={"border": None},
        from_parts=_soft_from_parts,
        check=_soft_check,
    ),
    # memories
    "Root": Record(
        f"{MEMORY}.root",
        {"triangle": "* squarable", "target": "d c squarable", "rest": "c float64"},
        to_parts=memories.root_to_parts,
        from_parts=memories.root_from_parts,
        optional={"lost": "* float64 squarable"},
        check=memories.root_check,
    ),
    "Waiting": Record(
        f"{MEMORY}.pending_rows",
        {
            "X": "k d squarable",
            "Y": "k c squarable",
            "room": "count",
            "taken": "bool",
            "base": "optional Root d c",
            "held": "number",
            "broken": "bool",
            "S": "optional d i",
            "C": "optional i i",
            "U": "optional i c",
            "low": "number any",
            "high": "number any",
        },
        _pending_spec,
        to_parts=memories.pending_to_parts,
        from_parts=memories.pending_from_parts,
        check=memories.pending_check,
        class_name="PendingRows",
    ),
    "Pair": Record(
        Pair.__module__,
        {"method": "method", "state": "state d c complex"},
        to_parts=pair_to_parts,
        from_parts=pair_from_parts,
        check=pair_check,
        is_root=True,
    ),
}
