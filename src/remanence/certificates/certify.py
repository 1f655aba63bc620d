"""Certificates for a learner and a stream of the user's own: which guarantees apply, and whether they held."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from remanence.arrays import Array
from remanence.certificates.certificate import Certificate
from remanence.certificates.guarantees import certificates_of_linear, certificates_of_predictions
from remanence.certificates.training_record import TrainingRecord, is_linear
from remanence.evaluation.adapters import adapt, check_learner
from remanence.evaluation.loop import Blocks, check_stream, learn_tasks, training_blocks
from remanence.evaluation.observers import TaskStep
from remanence.streams import Task
from remanence.validation import check_count


class Certifier:
    """Observer that certifies the learner whose training it observes.

    Pass `certifier.learner` to `evaluate` together with the certifier, then ask for `certificates()`. Where the learner
    is not one of the linear methods, a copy of it is trained on all rows at once when the certifier is made; the
    certificate of equality compares with that copy.

    Parameters
    ----------
    learner : estimator or method
    stream : list of Task
    seed : int
        As in `certify`.
    """

    def __init__(self, learner: Any, stream: Iterable[Task], seed: int = 0) -> None:
        seed, self.tasks = check_count(seed, "seed", 0), check_stream(stream)
        self.learner = _seeded(check_learner(learner), seed)
        self.train = training_blocks(self.learner, self.tasks)
        self.record = TrainingRecord()
        self.joint = None if is_linear(self.learner) else _trained_on_all_rows(self.learner, self.train, seed)

    def __call__(self, step: TaskStep) -> None:
        self.record(step)

    def certificates(self) -> list[Certificate]:
        """One certificate for each guarantee, of the learner after the last task."""
        if self.joint is None:
            return certificates_of_linear(self.record.linear_model())
        return certificates_of_predictions(self.record.predictions, self.record.final_predictions(), self.joint)


def certify(learner: Any, stream: Iterable[Task], seed: int = 0, progress: bool | None = None) -> list[Certificate]:
    """Train a fresh copy of the learner on the stream, and return one certificate for each guarantee.

    Each certificate has a `status`: "holds", "fails", or "does not apply" with the condition that is not met in
    `unmet`. The learner itself is not changed.

    Parameters
    ----------
    learner : estimator or method
        What `evaluate` takes.
    stream : list of Task
    seed : int
        The random state of the copies if the learner draws random numbers without a seed of its own.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.

    Returns
    -------
    list of Certificate
        In a fixed order; the first is the one that compares with joint training.

    Examples
    --------
    >>> import remanence as rm
    >>> equal = rm.certify(rm.RLS(), rm.streams.linear(tasks=4, features=5, rows=8, noise=0.1))[0]
    >>> equal.claim, equal.status
    ('The learner equals joint training on all tasks', 'holds')

    References
    ----------
    Peng and Vidal (2025), "Mathematics of continual learning".
    """
    certifier = Certifier(learner, stream, seed)
    learn_tasks(adapt(certifier.learner, certifier.train), certifier.tasks, certifier.train, [certifier], progress)
    return certifier.certificates()


def _seeded(learner: Any, seed: int) -> Any:
    """The learner, or a copy whose random numbers begin at the seed where it has no seed of its own."""
    from sklearn.base import BaseEstimator, clone

    if not isinstance(learner, BaseEstimator):
        return learner
    unseeded = [k for k, v in learner.get_params().items() if k.split("__")[-1] == "random_state" and v is None]
    return clone(learner).set_params(**dict.fromkeys(unseeded, seed)) if unseeded else learner


def _trained_on_all_rows(learner: Any, train: Blocks, seed: int) -> list[Array]:
    """The predictions, on the rows of each task, of a copy that learns all rows at once in random order."""
    copy, order = adapt(learner, train), np.random.default_rng(seed).permutation(sum(len(X) for X, _ in train))
    copy.learn(*(np.concatenate(parts)[order] for parts in zip(*train, strict=True)))
    return [np.array(copy.predict(X)) for X, _ in train]
