"""Learners side by side on one stream: the same tasks, the same rows, the same questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from platform import python_version
from typing import Any

from remanence.evaluation import evaluate
from remanence.progress import track_progress
from remanence.report.run import Outcome, Role, Run
from remanence.streams import Task


@dataclass(frozen=True)
class Contender:
    """A learner and how to speak of it."""

    name: str
    label: str
    learner: Any
    role: Role = "learner"
    note: str = ""


def compare(
    contenders: Sequence[Contender],
    stream: Sequence[Task],
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    notes: Sequence[str] = (),
    progress: bool | None = None,
) -> Run:
    """The run of every contender on the stream, each from scratch.

    Each learns the first task once unmeasured, so that loading and compiling code is not counted as its time, and all
    use one thread: on small blocks more of them cost more than they give, the more so on a busy machine.
    """
    from threadpoolctl import threadpool_limits

    outcomes = []
    for contender in track_progress(list(contenders), "Learning", show=progress):
        evaluate(contender.learner, stream[:1], progress=False)
        with threadpool_limits(1):  # after the warm-up, which has loaded what is to be limited
            matrix = evaluate(contender.learner, stream, progress=False)
        outcomes.append(Outcome(contender.name, contender.label, matrix, contender.role, contender.note))
    return Run(tuple(outcomes), dict(settings or {}), command, versions(), tuple(notes))


def versions() -> dict[str, str]:
    """What was installed, where it bears on the numbers."""
    from importlib.metadata import version

    return {"python": python_version()} | {p: version(p) for p in ("remanence", "numpy", "scipy", "scikit-learn")}
