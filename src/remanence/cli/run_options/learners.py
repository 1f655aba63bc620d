"""The learners of `remanence run`, by name, with their settings.

All learners get the same features. Step sizes are round numbers, small enough to average over noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from remanence.errors import InputError

if TYPE_CHECKING:  # names must be known without loading numpy
    from remanence.report import Contender


@dataclass(frozen=True)
class Choice:
    """A learner by name; `method` is its name in `rm.list_methods()`, a baseline has its own description."""

    label: str
    build: Callable[[int], Any]  # of the seed
    method: str = ""
    role: Literal["learner", "floor", "ceiling"] = "learner"
    note: str = ""
    summary: str = ""
    cost: str = ""
    memory: str = ""


def _method(name: str, **settings: Any) -> Callable[[int], Any]:
    def build(seed: int) -> Any:
        import remanence as rm

        return rm.ContinualClassifier(rm.list_methods()[name].method(**settings))

    return build


def _baseline(name: str, seeded: bool = False) -> Callable[[int], Any]:
    def build(seed: int) -> Any:
        from remanence.estimators import baselines

        return getattr(baselines, name)(**({"seed": seed} if seeded else {}))

    return build


LEARNERS: dict[str, Choice] = {
    "finetune": Choice(
        "Fine-tuning",
        _baseline("Finetune", seeded=True),
        role="floor",
        summary="baseline: SGD on each task alone, as a network is fine-tuned",
        cost="4dc per epoch, 20 epochs",
        memory="dc",
    ),
    "lms": Choice("LMS", _method("LMS", step=0.1), "LMS"),
    "apa": Choice("APA", _method("APA", buffer=8, step=0.1), "APA"),
    "icl": Choice(
        "ICL",
        _method("ICL"),
        "ICL",
        note="ICL never changes predictions on old samples. On noisy data the oldest samples use up all directions of "
        "the input, and later samples cannot be learned: it is meant for data that one model can fit exactly.",
    ),
    "ogd": Choice(
        "OGD",
        _method("OGD", step=0.1),
        "OGD",
        note="OGD does not change predictions on old samples either, and runs out of directions like ICL.",
    ),
    "orfit": Choice("ORFit", _method("ORFit", rank=32), "ORFit"),
    "rls": Choice("RLS", _method("RLS", ridge=1.0), "RLS"),
    "nearest-mean": Choice(
        "Nearest mean",
        _baseline("NearestMean"),
        summary="baseline: the class whose running mean is nearest",
        cost="d",
        memory="dc",
    ),
    "replay": Choice(
        "Replay",
        _baseline("Replay", seeded=True),
        summary="baseline: fine-tuning with replay of 500 earlier rows",
        cost="8dc per epoch, 20 epochs",
        memory="dc + 500d",
    ),
    "joint": Choice(
        "Joint training",
        _baseline("Joint"),
        role="ceiling",
        summary="ceiling: keeps every row and retrains on all of them",
        cost="nd² + d³ per task",
        memory="nd",
    ),
}

DEFAULT = ("finetune", "lms", "apa", "icl", "rls", "joint")


def registered() -> dict[str, Choice]:
    """The methods of `rm.list_methods()` that are not in the list above and have a default for every setting."""
    from inspect import signature

    from remanence.methods import list_methods

    listed = {choice.method for choice in LEARNERS.values()}
    return {
        name.lower(): Choice(name, _method(name), name)
        for name, info in list_methods().items()
        if name not in listed and all(p.default is not p.empty for p in signature(info.method).parameters.values())
    }


def contenders(names: Sequence[str], seed: int) -> "list[Contender]":
    """Fresh learners by name."""
    from remanence.report import Contender

    choices = LEARNERS if all(name in LEARNERS for name in names) else LEARNERS | registered()
    chosen = [(name, choices[name]) for name in names]
    return [Contender(name, c.label, c.build(seed), c.role, c.note) for name, c in chosen]


def read_learners(text: str) -> list[str]:
    """The names in a comma-separated list, each once; `all` is all of them."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"expected at least one method, got {text!r}; choose from {', '.join(LEARNERS)}")
    if names == ["all"]:
        return list(LEARNERS)
    unlisted = {} if all(name in LEARNERS for name in names) else registered()  # (loads numpy)
    return list(dict.fromkeys(known(name, LEARNERS | unlisted, "method") for name in names))


def known(name: str, choices: dict[str, Any], what: str) -> str:
    """The name, if it is one of the choices."""
    if name in choices:
        return name
    close = get_close_matches(name, choices, n=1)
    hint = f"did you mean {close[0]}? Choices: " if close else "choose from "
    raise InputError(f"unknown {what} {name!r}; {hint}{', '.join(choices)}")
