"""Comparison of several learners on one stream, for one seed or several."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from platform import python_version
from typing import Any

from remanence.certificates import Certificate
from remanence.certificates.catalogue import claims_without_torch
from remanence.certificates.certify import Certifier
from remanence.certificates.verify import worst_case
from remanence.evaluation import ErrorMatrix, evaluate
from remanence.evaluation.observers import Observer
from remanence.progress import progress_bar, track_progress
from remanence.report.data_summary import DataSummary
from remanence.report.final_answers import FinalAnswers
from remanence.report.kept import Kept, Nothing, Part
from remanence.report.outcome import Outcome, Role
from remanence.report.run import Run
from remanence.streams import Task

CERTIFIED = 2e7  # numbers in a stream; a larger one is certified on request only, as joint training takes minutes


@dataclass(frozen=True)
class Contender:
    """A learner of a comparison, with its name and role.

    Parameters
    ----------
    name, label : str
        The name in files, and the label in tables and pictures.
    learner : estimator or method
    role : "learner", "floor" or "reference"
        A floor forgets by design; a reference keeps all rows and is retrained on them.
    note : str
        A remark for the reader of the table.

    Examples
    --------
    >>> import remanence as rm
    >>> rm.report.Contender("rls", "RLS", rm.ContinualClassifier()).role
    'learner'
    """

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
    certified: bool | None = False,
) -> Run:
    """Train every contender on one stream, each from scratch.

    Parameters
    ----------
    contenders : sequence of Contender
    stream : list of Task
    settings, command, notes
        Kept in the run: what decides its numbers, how to repeat it, and remarks.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    certified : bool, optional
        As in `repeat`.

    Returns
    -------
    Run

    Examples
    --------
    >>> import remanence as rm
    >>> contenders = [rm.report.Contender("rls", "RLS", rm.ContinualClassifier())]
    >>> run = rm.report.compare(contenders, rm.streams.digits(tasks=2), progress=False)
    >>> run.headline
    'RLS keeps 93.3 % after 2 tasks.'
    """
    return repeat(lambda _: contenders, lambda _: stream, (0,), settings, command, notes, progress, certified)


def repeat(
    contenders: Callable[[int], Sequence[Contender]],
    stream: Callable[[int], Sequence[Task]],
    seeds: Sequence[int],
    settings: Mapping[str, Any] | None = None,
    command: str = "",
    notes: Sequence[str] = (),
    progress: bool | None = None,
    certified: bool | None = False,
    kept: Kept | None = None,
) -> Run:
    """Train every contender on the stream of every seed, each from scratch and each task once.

    Before its time is measured each contender is trained once for warm-up, so that loading and compiling code is not
    counted: on the first task or, where its certificates compare with a copy trained on all rows, on those. All use one
    thread, which is fastest on small blocks.

    Parameters
    ----------
    contenders, stream : callable
        Functions of the seed that return the contenders and the tasks.
    seeds : sequence of int
    settings, command, notes, progress
        As in `compare`.
    certified : bool, optional
        Check the guarantees of every learner on the stream of the first seed; None does so unless the stream is large,
        and adds a note.
    kept : RunFolder, optional
        Parts of the run that it holds are not learned again; what is learned is stored there at once.

    Returns
    -------
    Run

    Examples
    --------
    >>> import remanence as rm
    >>> run = rm.report.repeat(
    ...     lambda seed: [rm.report.Contender("rls", "RLS", rm.ContinualClassifier())],
    ...     lambda seed: rm.streams.digits(tasks=2, seed=seed),
    ...     seeds=(0, 1),
    ...     progress=False,
    ... )
    >>> run.seeds
    2
    """
    kept = Nothing() if kept is None else kept
    first = contenders(seeds[0])
    matrices: dict[str, list[ErrorMatrix]] = {contender.name: [] for contender in first}
    parts: dict[str, Part] = {}  # of the first seed
    with progress_bar("Learning", len(first) * len(seeds), progress) as advance:
        for seed in seeds:
            tasks: Sequence[Task] = ()
            for contender in contenders(seed):
                advance(0, contender.label if len(seeds) == 1 else f"{contender.label}, seed {seed}")
                part = kept.part(contender.name, seed)
                if part is None:
                    tasks = tasks or stream(seed)
                    wanted = seed == seeds[0] and (_size(tasks) <= CERTIFIED if certified is None else certified)
                    part = _learned(contender, tasks, seed if wanted else None)
                    kept.keep(contender.name, seed, part)
                matrices[contender.name].append(part.matrix)
                parts.setdefault(contender.name, part)
                advance(1)
    outcomes = tuple(
        Outcome(
            c.name,
            c.label,
            tuple(matrices[c.name]),
            c.role,
            c.note,
            parts[c.name].certificates,
            parts[c.name].confusion,
            parts[c.name].reliability,
        )
        for c in first
    )
    if certified is None and not any(part.certificates for part in parts.values()):
        notes = [*notes, "The stream is large, and its guarantees were not checked; certified=True checks them."]
    relations = () if certified is False else _relations([contender.learner for contender in first])
    data = DataSummary.of(stream(seeds[0]))
    return Run(outcomes, dict(settings or {}), command, versions(), tuple(notes), relations, data)


def _learned(contender: Contender, stream: Sequence[Task], seed: int | None) -> Part:
    """The error matrix of a contender and, with a seed, its certificates; each task is learned once."""
    from threadpoolctl import threadpool_limits

    learner, certifier = contender.learner, None
    if seed is not None:
        with threadpool_limits(1):
            certifier = Certifier(learner, stream, seed)
            learner = certifier.learner
    if certifier is None or certifier.joint is None:  # else training the joint copy was the warm-up
        evaluate(learner, stream[:1], progress=False)
    answers = FinalAnswers(stream)
    with threadpool_limits(1):  # after the warm-up, which has loaded the libraries to be limited
        observers: list[Observer] = [answers] if certifier is None else [certifier, answers]
        matrix = evaluate(learner, stream, progress=False, observers=observers)
        certificates = () if certifier is None else tuple(certifier.certificates())
        return Part(matrix, certificates, answers.confusion, answers.reliability)


def _relations(learners: Sequence[Any]) -> tuple[Certificate, ...]:
    """What the paper proves between methods of the run, each checked on its first data set."""
    methods = [learner.method for learner in learners if hasattr(learner, "method")]
    names = {"RLS" if method is None else type(method).__name__ for method in methods}  # None: the default
    nodes = {{"Kalman": "KF"}.get(name, name) for name in names}
    claims = [claim for claim in claims_without_torch() if claim.edge and set(claim.edge) <= nodes]
    return tuple(worst_case(claim, seed=0, instances=1) for claim in track_progress(claims, "Verifying claims"))


def _size(stream: Sequence[Task]) -> int:
    return sum(task.X.size for task in stream)


def versions() -> dict[str, str]:
    """The versions of the packages that the numbers depend on."""
    from importlib.metadata import version

    return {"python": python_version()} | {p: version(p) for p in ("remanence", "numpy", "scipy", "scikit-learn")}
