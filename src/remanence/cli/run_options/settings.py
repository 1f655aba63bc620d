"""Settings of single learners of `remanence run`: `--set rls.ridge=auto`, checked before any work."""

from collections.abc import Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from remanence.cli.run_options.learners import ALIASES, Choice, choices_for, known
from remanence.errors import InputError

if TYPE_CHECKING:
    from remanence.report import Contender

OF_THE_RUN = {"self", "method", "features", "seed"}  # set by other options


def read_learner_settings(texts: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings given as LEARNER.NAME=VALUE, by learner; each must belong to a learner of the run."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        left, sign, value = text.partition("=")
        learner, dot, setting = left.strip().partition(".")
        learner = ALIASES.get(learner.lower(), learner.lower())
        if not (sign and dot and learner and setting and value):
            raise InputError(f"expected --set LEARNER.NAME=VALUE, like rls.ridge=auto, got {text!r}")
        if learner not in names:
            raise InputError(
                f"expected --set for a method of this run, {', '.join(names)}, got {learner!r}; name it in --methods"
            )
        if setting in found.setdefault(learner, {}):
            raise InputError(f"expected every setting once, got {learner}.{setting} twice")
        found[learner][setting] = value
    choices = choices_for(list(found))
    return {name: _values(name, choices[name], given) for name, given in found.items()}


def check_learners(contenders: "Sequence[Contender]") -> None:
    """Learn a few rows with each learner, so that a setting that it refuses is an error before any work."""
    import numpy as np
    from sklearn.base import clone
    from sklearn.utils._param_validation import InvalidParameterError

    rng = np.random.default_rng(0)
    for contender in contenders:
        try:
            clone(contender.learner).fit(rng.standard_normal((30, 4)), np.arange(30) % 3)
        except InvalidParameterError as problem:
            raise InputError(f"expected other settings of {contender.name}: {problem}") from None


def valid_settings(choice: Choice) -> dict[str, Any]:
    """The settings of a learner with their defaults; those without a default have None."""
    found: dict[str, Any] = {}
    for kind in _kinds(choice):
        for name, parameter in signature(kind).parameters.items():
            if name not in OF_THE_RUN:
                found.setdefault(name, None if parameter.default is Parameter.empty else parameter.default)
    return found | dict(choice.settings)


def _values(name: str, choice: Choice, given: dict[str, str]) -> dict[str, Any]:
    from remanence.store.jobs.learn_options import value_of

    valid = valid_settings(choice)
    for setting in given:
        try:
            known(setting, valid, "setting")
        except InputError:
            raise InputError(
                f"expected a setting of {name}, one of {', '.join(valid)}, got {setting!r}"
                if valid
                else f"expected no setting for {name}, which has none, got {setting!r}"
            ) from None
    return {setting: value_of(text, valid[setting]) for setting, text in given.items()}


def _kinds(choice: Choice) -> list[Any]:
    """The classes whose parameters are settings of the learner."""
    if choice.method:
        from remanence.estimators import ContinualClassifier
        from remanence.methods import method_classes

        return [method_classes()[choice.method], ContinualClassifier]
    learner = choice.build(0, choice.settings)
    inner = getattr(learner, "estimator", None)  # of joint training: what is retrained, after its scaler if any
    return [type(learner) if inner is None else type(getattr(inner, "steps", [(None, inner)])[-1][1])]
