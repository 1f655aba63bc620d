"""The streams of `remanence run`: by name, or a table whose classes are split into tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from remanence.cli.run_options.learners import known
from remanence.errors import InputError

if TYPE_CHECKING:  # names must be known without loading numpy
    from remanence.arrays import Array
    from remanence.streams import Task

ORDERS = ("sorted", "given", "reversed", "random")
TASKS = 5
GROWING = (
    "Forward transfer is 0 for all learners: a class cannot be predicted before it was learned.",
    "Part of the forgetting is not loss of memory: every task adds classes to confuse, also for the references.",
)


@dataclass(frozen=True)
class Asked:
    """The options of the command that describe the stream."""

    stream: str = "digits"
    tasks: int | None = None
    order: str = "sorted"
    label: str = ""
    ignore: tuple[str, ...] = ()
    test: float = 0.25
    data: Path = Path("data")
    others: tuple[str, ...] = ()  # further files or patterns: every file is a task

    @property
    def names(self) -> tuple[str, ...]:
        return self.stream, *self.others


@dataclass(frozen=True)
class Rows:
    """Labelled rows, with test rows if the data have them."""

    X: "Array"
    y: "Array"
    X_test: "Array | None" = None
    y_test: "Array | None" = None
    fingerprint: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamChoice:
    """A stream by name: where its rows come from, and how they become tasks."""

    load: Callable[[Asked], Rows]
    summary: str
    view: Literal["classes", "permuted", "rotated"] = "classes"


@dataclass(frozen=True)
class Source:
    """A stream that can be built for any seed."""

    name: str
    tasks: int
    build: "Callable[[int], list[Task]]"  # of the seed
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()  # of the command, beside --stream and --tasks
    notes: tuple[str, ...] = ()


def _digits(asked: Asked) -> Rows:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Rows(X / 16.0, y)


def _idx(asked: Asked) -> Rows:
    from remanence.streams.idx import read_folder

    return Rows(*read_folder(asked.data / asked.stream))


STREAMS: dict[str, StreamChoice] = {
    "digits": StreamChoice(_digits, "handwritten digits, a few classes at a time"),
    "permuted-digits": StreamChoice(
        _digits, "all digits, each task with another permutation of the pixels", "permuted"
    ),
    "rotated-digits": StreamChoice(_digits, "all digits, each task rotated by 15° more", "rotated"),
    "mnist": StreamChoice(_idx, "70 000 handwritten digits of 28 × 28 pixels, from files in --data"),
    "fashion-mnist": StreamChoice(_idx, "70 000 images of clothing of 28 × 28 pixels, from files in --data"),
}


def find_source(asked: Asked) -> Source:
    """The stream for these options, with its data loaded; raises InputError for options that do not fit."""
    from remanence.validation import check_count

    if asked.tasks is not None:
        check_count(asked.tasks, "tasks")
    files = _files(asked)
    if len(files) > 1:
        from remanence.cli.run_options.file_tasks import tasks_of_files

        return tasks_of_files(asked, files)
    if files:
        choice = StreamChoice(lambda asked: _table(asked, files[0]), f"the classes of {files[0].name}")
    elif asked.label or asked.ignore:
        raise InputError(f"expected --label and --ignore with a file, got --stream {asked.stream}; leave them out")
    else:
        choice = STREAMS[known(asked.stream, STREAMS, "stream")]
    rows = choice.load(asked)
    if choice.view == "classes":
        return _by_classes(asked, rows)
    if asked.order != "sorted":
        raise InputError(
            f"expected no --order with {asked.stream}, where every task has all classes, got {asked.order}"
        )
    return _through(asked, rows, choice.view)


def _files(asked: Asked) -> list[Path]:
    """The files that were named, none if the stream has a name of its own."""
    from glob import has_magic

    from remanence.tables import expand_paths
    from remanence.tables.formats import format_of

    named = [has_magic(name) or format_of(Path(name)) is not None or Path(name).is_file() for name in asked.names]
    if len(named) > 1 and not all(named):
        other = asked.names[named.index(False)]
        raise InputError(f"expected several --stream to be files, of which every one is a task, got {other!r}")
    return [Path(path) for path in expand_paths(asked.names)] if all(named) else []


def _by_classes(asked: Asked, rows: Rows) -> Source:
    import numpy as np

    from remanence.streams import split_classes

    tasks = asked.tasks or min(TASKS, len(np.unique(rows.y)))

    def build(seed: int) -> "list[Task]":
        order = class_order(rows.y, asked.order, seed)
        return split_classes(rows.X, rows.y, tasks, asked.test, seed, order, rows.X_test, rows.y_test)

    settings: dict[str, Any] = {"order": asked.order}
    arguments = [] if asked.order == "sorted" else ["--order", asked.order]
    if asked.label:
        settings |= {"label": asked.label, "ignore": list(asked.ignore)}
        arguments += column_arguments(asked)
    if rows.X_test is None:
        settings["test"] = asked.test
        arguments += [] if asked.test == Asked.test else ["--test", f"{asked.test:g}"]
    elif asked.data != Asked.data:
        arguments += ["--data", str(asked.data)]
    if rows.fingerprint:
        settings["fingerprint"] = rows.fingerprint
    build(0)  # raises errors about the split before any training
    notes = (*rows.notes, *(GROWING if tasks > 1 else ()))
    return Source(asked.stream, tasks, build, settings, tuple(arguments), notes)


def _through(asked: Asked, rows: Rows, view: str) -> Source:
    from remanence import streams

    views: dict[str, Callable[..., list[Task]]] = {"permuted": streams.permuted, "rotated": streams.rotated}
    tasks, draw = asked.tasks or TASKS, views[view]
    arguments = () if asked.test == Asked.test else ("--test", f"{asked.test:g}")
    settings = {"test": asked.test}
    build = lambda seed: draw(rows.X, rows.y, tasks, test=asked.test, seed=seed)
    return Source(asked.stream, tasks, build, settings, arguments)


def column_arguments(asked: Asked) -> list[str]:
    """The arguments of the command that give the columns of files their meaning."""
    return ["--label", asked.label, *(part for name in asked.ignore for part in ("--ignore", name))]


def class_order(y: "Array", order: str, seed: int) -> Sequence[Any] | None:
    """The classes of y in the requested order; None is the sorted one."""
    import numpy as np

    classes, first = np.unique(y, return_index=True)
    word = order.strip().lower()
    if word in ORDERS:
        orders: dict[str, Any] = {
            "sorted": None,
            "given": classes[np.argsort(first)],
            "reversed": classes[::-1],
            "random": np.random.default_rng((seed, len(classes))).permutation(classes),
        }
        return orders[word]  # type: ignore[no-any-return]
    names = {str(label): label for label in classes.tolist()}
    wanted = [name.strip() for name in order.split(",")]
    if sorted(wanted) != sorted(names):
        raise InputError(
            f"expected --order to be {', '.join(ORDERS)} or every class once, separated by commas, got {order!r}; "
            f"the classes are {','.join(list(names)[:20])}{' …' if len(names) > 20 else ''}"
        )
    return [names[name] for name in wanted]


def _table(asked: Asked, path: Path) -> Rows:
    from remanence.cli.run_options.table_rows import labelled_rows

    return labelled_rows([path], asked.label, asked.ignore)[0]
