"""What a teacher asks for: the meaning of columns and the settings of a model, by name and as text may have them.

They make the model when there is none yet; of one that is there they must all be true already.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from remanence.errors import InputError
from remanence.store.jobs.columns import Columns
from remanence.store.jobs.piecewise import check_method
from remanence.store.model_file import ModelFile

if TYPE_CHECKING:
    from remanence.estimators import RandomFeatures
    from remanence.methods import Method

WIDEST = 10**8  # random features, whatever the method: no memory holds more


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """All that may be said when teaching; what is not said is as it is, or as it is by default."""

    label: str | None = None
    targets: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    method: str | None = None  # a name of rm.list_methods(), in any case
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the method: numbers, or text that says them
    features: str | None = None  # "random:WIDTH" or "random:WIDTH:SEED"
    undo: str | None = None  # "pieces" keeps one learner for every piece beside that of all

    def new_learner(self) -> Any:
        """A learner that has learned nothing."""
        from remanence.estimators import ContinualClassifier, ContinualRegressor

        if (self.label is None) == (not self.targets):
            raise InputError(
                "expected either a column of labels (--label NAME) or columns of numbers to foretell (--target NAME) "
                f"for a new model, got {'neither' if self.label is None else 'both'}"
            )
        kind = ContinualRegressor if self.label is None else ContinualClassifier
        return kind(self._method(), features=None if self.features is None else random_features(self.features))

    def new_model(self) -> ModelFile:
        """A model file that has learned nothing."""
        learner = self.new_learner()
        if self.undo is None:
            return ModelFile(learner)
        if self.undo != "pieces":
            raise InputError(f'expected undo "pieces", got {self.undo!r}')
        check_method(learner)
        return ModelFile(learner, pieces={})

    def _method(self) -> "Method[Any]":
        from remanence.methods import list_methods

        known = {  # (tables are learned in batches: not with a method for which each batch is a task)
            name.lower(): info.method for name, info in list_methods().items() if not info.method.task_per_update
        }
        wanted = "rls" if self.method is None else self.method.lower()
        if wanted not in known:
            close = get_close_matches(wanted, known, n=1)
            hint = f"did you mean {close[0]}? Choices: " if close else "choose from "
            raise InputError(f"unknown method {self.method!r}; {hint}{', '.join(known)}")
        return known[wanted](**self.settings_of(known[wanted]))

    def settings_of(self, method: Any) -> dict[str, Any]:
        """The settings as this method (or its class) has them; one it does not have is refused."""
        defaults = {f.name: f.default for f in fields(method)}
        name = method.__name__ if isinstance(method, type) else type(method).__name__
        for setting in self.settings:
            if setting not in defaults:
                raise InputError(f"expected a setting of {name}, one of {', '.join(defaults)}, got {setting!r}")
        return {setting: _number(value, defaults[setting]) for setting, value in self.settings.items()}

    def check(self, model: ModelFile, columns: Columns | None) -> None:
        """Refuse options that an existing model does not fulfil."""
        learner, undo = model.learner, None if model.pieces is None else "pieces"
        if self.undo not in (None, undo):
            raise _conflict("--undo", self.undo, undo)
        if columns is not None:
            for what, told, found in (
                ("--label", self.label, columns.label),
                ("--target", self.targets or None, columns.targets or None),
            ):
                if told is not None and told != found:
                    raise _conflict(what, told, found)
        from remanence.methods import RLS

        method = RLS() if learner.method is None else learner.method
        if self.method is not None and self.method.lower() != type(method).__name__.lower():
            raise _conflict("--method", self.method, type(method).__name__.lower())
        for setting, value in self.settings_of(method).items():
            if value != getattr(method, setting):
                raise _conflict(f"--{setting}", value, getattr(method, setting))
        if self.features is not None:
            from remanence.estimators.fingerprint import fingerprint

            found = None if learner.features is None else fingerprint(learner.features)
            if random_features(self.features).fingerprint() != found:
                raise _conflict("--features", self.features, found)


def _conflict(what: str, told: Any, found: Any) -> InputError:
    shown = "none" if found is None else found
    return InputError(
        f"expected the settings this model was begun with, {what} {_shown(shown)}, got {what} {_shown(told)}; "
        f"leave {what} out, or begin a new model under another name"
    )


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def random_features(text: str) -> "RandomFeatures":
    """The layer that "random:WIDTH" or "random:WIDTH:SEED" names."""
    from remanence.estimators import RandomFeatures

    kind, *numbers = text.split(":")
    good = kind == "random" and len(numbers) in (1, 2) and all(n.isdecimal() and len(n) < 19 for n in numbers)
    if not good or not 0 < int(numbers[0]) <= WIDEST:
        raise InputError(
            f"expected features like random:5000 or random:5000:SEED, at most {WIDEST:,} of them, got {text!r:.80}"
        )
    return RandomFeatures(int(numbers[0]), seed=int(numbers[1]) if len(numbers) > 1 else 0)


def _number(value: Any, default: Any) -> Any:
    """A setting out of text: a number of the kind its default is, a truth, or the text itself."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
