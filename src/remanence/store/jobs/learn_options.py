"""Options of `learn`: the meaning of columns and the settings of a new model; values may be given as text.

A new model is made from them; an existing model must already agree with all that are given.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from remanence.errors import InputError
from remanence.store.jobs.columns import Columns
from remanence.store.jobs.piecewise import check_mergeable
from remanence.store.model_file import ModelFile
from remanence.validation import check_count

if TYPE_CHECKING:
    from remanence.estimators import RandomFeatures
    from remanence.methods import Method

WIDEST = 10**8  # random features, whatever the method


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """The options of a model; those that are None or empty keep the value of the model, or the default."""

    label: str | None = None
    targets: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    method: str | None = None  # a name of rm.list_methods(), in any case of letters
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method: values, or text that says them
    features: str | None = None  # "random:WIDTH", and a seed or an activation after it
    undo: str | None = None  # "pieces" keeps one learner per piece beside the model
    ledger: str | None = None  # "rows" keeps the key of every row
    column_kinds: Mapping[str, str] = field(default_factory=dict)  # column: its kind
    readout: str | None = None  # of a classifier
    missing: str | None = None  # "indicator" learns rows with missing features, "refuse" does not
    text_width: int | None = None  # columns that text is hashed to
    separator: str | None = None  # between labels, where rows have several
    class_weight: str | None = None  # "balanced" gives all classes the same weight in total
    scale: str | None = None  # "standard" standardizes columns by everything seen

    def new_learner(self) -> Any:
        """An estimator that has learned nothing."""
        from remanence.estimators import ContinualClassifier, ContinualRegressor

        if (self.label is None) == (not self.targets):
            raise InputError(
                "expected either a column of labels (`label`) or numeric columns to predict (`targets`) for a new "
                f"model, got {'neither' if self.label is None else 'both'}",
                arguments=("label", "targets"),
            )
        if self.text_width is not None:
            check_count(self.text_width, "text_width")
        self._check_kinds()
        method, features = self._method(), None if self.features is None else random_features(self.features)
        if self.label is None:
            for name in ("readout", "separator", "class_weight"):
                if getattr(self, name) is not None:
                    raise InputError(f"expected a {name} only where labels are learned", arguments=(name, "label"))
            learner: Any = ContinualRegressor(method, features=features, scale=self.scale)
        else:
            readout, weights = self.readout or "ridge", self.class_weight
            learner = ContinualClassifier(method, True, features, readout, self.scale, weights)
        learner._check_settings()
        return learner

    def _check_kinds(self) -> None:
        """Raise an InputError for kinds of columns that are no features."""
        others = dict.fromkeys(self.ignored, "ignored") | dict.fromkeys(self.targets, "the target")
        others |= {} if self.label is None else {self.label: "the label"}
        kinds = self.column_kinds.items()
        wrong = [f"{name!r} is {others[name]}" for name, kind in kinds if others.get(name, kind) != kind]
        if wrong:
            raise InputError(
                f"expected kinds of columns to learn from, but {', '.join(wrong)}; leave out its kind",
                arguments=("columns",),
            )

    def keeps_gaps(self) -> bool:
        """Whether rows with missing features are learned."""
        if self.missing not in (None, "refuse", "indicator"):
            raise InputError(
                f"expected gaps to be refused, dropped or given an indicator, got {self.missing!r:.40} as what to do",
                arguments=("missing", "drop"),
            )
        return self.missing == "indicator"

    def with_encoder(self, learner: Any, kinds: Mapping[str, str]) -> Any:
        """An estimator like this one, which has learned nothing, for columns of these kinds."""
        from sklearn.base import clone

        from remanence.tables.encoding.table_features import TableFeatures

        if learner.features is not None:
            others = [f"{name!r} ({kind})" for name, kind in kinds.items() if kind != "number"]
            raise InputError(
                f"expected only numbers with random features, got {', '.join(others[:8]) or 'missing entries'}; "
                f"ignore such columns, or learn without random features",
                arguments=("features", "ignored"),
            )
        settings: dict[str, Any] = {} if self.text_width is None else {"text_width": self.text_width}
        encoder = TableFeatures(dict(kinds), missing="indicator" if self.keeps_gaps() else "refuse", **settings)
        encoder.fingerprint()  # (checks the settings)
        return clone(learner).set_params(features=encoder)

    def new_model(self) -> ModelFile:
        """A model file that has learned nothing."""
        learner = self.new_learner()
        if self.ledger not in (None, "rows", "pieces"):
            raise InputError(f'expected ledger="rows" or "pieces", got {self.ledger!r}', arguments=("ledger",))
        if self.ledger == "rows" and self.undo is not None:
            raise InputError("expected a ledger of rows or a learner per piece, got both", arguments=("ledger", "undo"))
        if self.undo is None:
            return ModelFile(learner)
        if self.undo != "pieces":
            raise InputError(f'expected undo="pieces", got {self.undo!r}', arguments=("undo",))
        check_mergeable(learner)
        return ModelFile(learner, pieces={})

    def _method(self) -> "Method[Any]":
        from remanence.methods import method_classes

        known = {  # (tables are learned in batches, by a linear model: no batch may be a task of its own)
            name.lower(): method
            for name, method in method_classes().items()
            if method.linear and not method.task_per_update
        }
        wanted = "rls" if self.method is None else self.method.lower()
        if wanted not in known:
            close = get_close_matches(wanted, known, n=1)
            hint = f"did you mean {close[0]}? Choices: " if close else "choose from "
            raise InputError(f"unknown method {self.method!r}; {hint}{', '.join(known)}")
        return known[wanted](**self.settings_of(known[wanted]))

    def settings_of(self, method: Any) -> dict[str, Any]:
        """The settings, with the types this method (or its class) has them in; an unknown one is an InputError."""
        defaults = {f.name: f.default for f in fields(method)}
        name = method.__name__ if isinstance(method, type) else type(method).__name__
        for setting in self.settings:
            if setting not in defaults:
                raise InputError(f"expected a setting of {name}, one of {', '.join(defaults)}, got {setting!r}")
        return {setting: value_of(value, defaults[setting]) for setting, value in self.settings.items()}

    def check(self, model: ModelFile, columns: Columns | None) -> None:
        """Raise an InputError if an existing model has other values than the options given."""
        from remanence.methods import RLS

        learner, undo = model.learner, None if model.pieces is None else "pieces"
        method = RLS() if learner.method is None else learner.method
        ledger = "rows" if model.row_keys is not None and model.row_keys.every else "pieces"
        given: list[tuple[str, Any, Any]] = [("undo", self.undo, undo), ("ledger", self.ledger, ledger)]
        if columns is not None:
            given += [("label", self.label, columns.label), ("targets", self.targets or None, columns.targets or None)]
            given += [("separator", self.separator, columns.separator)]
            given += [("missing", self.missing, "indicator" if columns.gaps else "refuse")]
            kinds = dict.fromkeys(columns.features, "number") | dict(columns.kinds or {})
            kinds |= dict.fromkeys(columns.ignored, "ignored")
            declared = {n: kind for n, kind in self.column_kinds.items() if kind != "ignored" and n in kinds}
            given += [(f"column {n!r}", kind, kinds[n]) for n, kind in declared.items()]
        given.append(("method", self.method and self.method.lower(), type(method).__name__.lower()))
        given.append(("readout", self.readout, getattr(learner, "readout", None)))
        given.append(("scale", self.scale, getattr(learner, "scale", None)))
        given.append(("class_weight", self.class_weight, getattr(learner, "class_weight", None)))
        if self.text_width is not None:
            given += [("text_width", self.text_width, getattr(learner.features, "text_width", None))]
        for name, wanted, found in given:
            _check_same(name, wanted, found)
        for name, wanted in self.settings_of(method).items():
            _check_same(name, wanted, getattr(method, name))
        if self.features is not None:
            from remanence.estimators.fingerprint import fingerprint, stands_for

            found = None if learner.features is None else fingerprint(learner.features)
            if found is None or not stands_for(random_features(self.features).fingerprint(), found):
                raise _conflict("features", self.features, found)


def _check_same(name: str, wanted: Any, found: Any) -> None:
    if wanted is not None and wanted != found:
        raise _conflict(name, wanted, found)


def _conflict(name: str, wanted: Any, found: Any) -> InputError:
    shown = "none" if found is None else found
    return InputError(
        f"expected the options this model was made with, {name} {_shown(shown)}, got {name} {_shown(wanted)}; "
        f"omit {name}, or start a new model under another name",
        arguments=(name,),
    )


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def random_features(text: str) -> "RandomFeatures":
    """The random features that "random:WIDTH" stands for, and after it a seed, an activation, or both."""
    from remanence.estimators import RandomFeatures
    from remanence.estimators.random_features import ACTIVATIONS

    name, _, rest = text.partition(":")
    width, *others = rest.split(":")
    numbers = [part for part in (width, *others) if part.isdecimal() and len(part) < 19]
    words = [part for part in others if part in ACTIVATIONS]
    good = name == "random" and width in numbers[:1] and len(numbers) <= 2 and len(words) <= 1
    if not good or len(numbers) + len(words) != 1 + len(others) or not 0 < int(width) <= WIDEST:
        raise InputError(
            f"expected features like random:5000, random:5000:SEED or random:5000:cos ({', '.join(ACTIVATIONS)}), "
            f"at most {WIDEST:,} of them, got {text!r:.80}"
        )
    activation: dict[str, Any] = {"activation": words[0]} if words else {}
    return RandomFeatures(int(width), seed=int(numbers[1]) if len(numbers) > 1 else 0, **activation)


def value_of(value: Any, default: Any) -> Any:
    """The value of a setting given as text: a number of the type of its default, a boolean, or the text itself."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        with suppress(OverflowError):  # (the method refuses it in words)
            return float(value)
    return value
