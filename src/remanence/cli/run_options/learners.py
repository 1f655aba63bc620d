"""The learners of `remanence run`, by name, with their settings.

All learners get the same features. Step sizes are round numbers, small enough to average over noise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from remanence.errors import InputError

if TYPE_CHECKING:  # names must be known without loading numpy
    from remanence.report import Contender


Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """A learner by name; `method` is its name in `rm.list_methods()`, a baseline has its own description."""

    label: str
    build: Callable[[int, Settings], Any]  # of the seed and the settings
    method: str = ""
    settings: Settings = field(default_factory=dict)  # that differ from the defaults of the library
    role: Literal["learner", "floor", "reference"] = "learner"
    note: str = ""
    summary: str = ""
    cost: str = ""
    memory: str = ""

    def __post_init__(self) -> None:
        assert bool(self.method) != bool(self.summary), f"{self.label}: a method is described by the library"


def _method(label: str, name: str, note: str = "", **settings: Any) -> Choice:
    """A method in a ContinualClassifier; settings are those of either."""

    def build(seed: int, chosen: Settings) -> Any:
        from inspect import signature

        import remanence as rm
        from remanence.methods import method_classes

        method = method_classes()[name]
        of_method = signature(method).parameters.keys()
        inner = {key: value for key, value in chosen.items() if key in of_method}
        outer = {key: value for key, value in chosen.items() if key not in of_method}
        return rm.ContinualClassifier(method(**inner), **outer)

    return Choice(label, build, name, settings, note=note)


def _baseline(name: str, seeded: bool = False) -> Callable[[int, Settings], Any]:
    def build(seed: int, chosen: Settings) -> Any:
        from remanence.estimators import baselines

        return getattr(baselines, name)(**({"seed": seed} if seeded else {}), **chosen)

    return build


def _ridge(seed: int, chosen: Settings) -> Any:
    from sklearn.linear_model import RidgeClassifier

    from remanence.estimators.baselines import Joint

    return Joint(RidgeClassifier(**chosen))


def _logistic(seed: int, chosen: Settings) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from remanence.estimators.baselines import Joint

    return Joint(make_pipeline(StandardScaler(), LogisticRegression(**chosen)))


LEARNERS: dict[str, Choice] = {
    "finetune": Choice(
        "Fine-tuning",
        _baseline("Finetune", seeded=True),
        role="floor",
        summary="baseline: SGD on each task alone, as a network is fine-tuned",
        cost="4dc per epoch, 20 epochs",
        memory="dc",
    ),
    "lms": _method("LMS", "LMS", step=0.1),
    "apa": _method("APA", "APA", buffer=8, step=0.1),
    "icl": _method(
        "ICL",
        "ICL",
        "ICL never changes predictions on old samples. On noisy data the oldest samples use up all directions of "
        "the input, and later samples cannot be learned: it is meant for data that one model can fit exactly.",
    ),
    "ogd": _method(
        "OGD",
        "OGD",
        "OGD does not change predictions on old samples either, and runs out of directions like ICL.",
        step=0.1,
    ),
    "orfit": _method("ORFit", "ORFit", rank=32),
    "rls": _method("RLS", "RLS", ridge=1.0),
    "lowrankrls": _method("LowRankRLS", "LowRankRLS"),
    "kalman": _method("Kalman", "Kalman", drift="auto"),
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
        "Ridge retrained",
        _ridge,
        settings={"alpha": 1.0},
        role="reference",
        summary="reference: keeps every row, retrains scikit-learn's RidgeClassifier on all of them after each task",
        cost="nd² + d³ per task",
        memory="nd",
    ),
    "logistic": Choice(
        "Logistic retrained",
        _logistic,
        settings={"C": 1.0, "max_iter": 1000},
        role="reference",
        summary="reference: keeps every row, retrains scikit-learn's LogisticRegression on all of them (standardised)",
        cost="ndc per iteration, per task",
        memory="nd",
    ),
}

DEFAULT = ("finetune", "rls", "nearest-mean", "joint", "logistic")
ALIASES = {"lowrank": "lowrankrls", "ridge": "joint"}


def registered() -> dict[str, Choice]:
    """Linear methods of `rm.list_methods()` that are not in the list above and have a default for every setting."""
    from inspect import signature

    from remanence.methods import method_classes

    listed = {choice.method for choice in LEARNERS.values()}
    return {
        name.lower(): _method(name, name)
        for name, method in method_classes().items()
        if name not in listed
        and method.linear
        and all(p.default is not p.empty for p in signature(method).parameters.values())
    }


def choices_for(names: Sequence[str]) -> dict[str, Choice]:
    """The choices by name; methods that are registered but not listed are looked up only if needed (loads numpy)."""
    choices = LEARNERS if all(name in LEARNERS for name in names) else LEARNERS | registered()
    return {name: choices[known(name, choices, "method")] for name in names}


def contenders(names: Sequence[str], seed: int, settings: Mapping[str, Settings] | None = None) -> "list[Contender]":
    """Fresh learners by name; `settings` are those given for each, shown in its label."""
    from remanence.report import Contender

    found = []
    for name, choice in choices_for(names).items():
        given = (settings or {}).get(name, {})
        learner = choice.build(seed, {**choice.settings, **given})
        shown = f" ({', '.join(f'{key}={value}' for key, value in given.items())})" if given else ""
        found.append(Contender(name, choice.label + shown, learner, choice.role, choice.note))
    return found


def read_learners(text: str) -> list[str]:
    """The names in a comma-separated list, each once; `all` is all of them."""
    names = [ALIASES.get(name, name) for part in text.split(",") if (name := part.strip().lower())]
    if not names:
        raise InputError(f"expected at least one method, got {text!r}; choose from {', '.join(LEARNERS)}")
    return list(LEARNERS) if names == ["all"] else list(choices_for(names))


def known(name: str, choices: Mapping[str, Any], what: str) -> str:
    """The name, if it is one of the choices."""
    if name in choices:
        return name
    close = get_close_matches(name, choices, n=1)
    hint = f"did you mean {close[0]}? Choices: " if close else "choose from "
    raise InputError(f"unknown {what} {name!r}; {hint}{', '.join(choices)}")
