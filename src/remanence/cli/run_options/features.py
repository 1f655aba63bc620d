"""Random features in front of all learners of `remanence run`: `--features random:3000:cos`."""

from dataclasses import replace
from typing import TYPE_CHECKING

from remanence.cli.run_options.streams import Source

if TYPE_CHECKING:
    from remanence.streams import Task


def with_features(source: Source, text: str) -> Source:
    """The stream as random features show it, computed once for all learners; fitted on the first task."""
    from sklearn.base import clone

    from remanence.store.jobs.learn_options import random_features
    from remanence.streams import Task

    features = random_features(text)

    def build(seed: int) -> "list[Task]":
        tasks = source.build(seed)
        fitted = clone(features).fit(tasks[0].X)
        return [Task(t.name, fitted.transform(t.X), t.Y, fitted.transform(t.X_test), t.Y_test) for t in tasks]

    command = (*source.arguments, "--features", text)
    note = f"All learners get {features.width} random features of the columns ({features.activation}), not the columns."
    return replace(
        source,
        build=build,
        settings=source.settings | {"features": text},
        arguments=command,
        notes=(note, *source.notes),
    )
