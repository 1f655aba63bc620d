"""The estimators: settings, and what was learned. Frozen features that are not ours stay outside, by fingerprint."""

from typing import Any

from remanence.errors import InputError
from remanence.store.pairs import pair_problem
from remanence.store.record import External, Lengths, Parts, Record

ESTIMATORS = "remanence.estimators"


def _apart(estimator: Any) -> dict[str, Any]:
    """Settings and whatever else the estimator has, by name."""
    return {**estimator.get_params(deep=False), **vars(estimator)}


def _together(kind: Any, parts: dict[str, Any]) -> Any:
    settings = kind().get_params(deep=False).keys()
    estimator = kind(**{name: parts[name] for name in settings})
    vars(estimator).update({name: value for name, value in parts.items() if name not in settings})
    return estimator


def _random_apart(features: Any) -> dict[str, Any]:
    """Without the layer itself, which is drawn anew from its seed."""
    return {name: value for name, value in _apart(features).items() if name != "_drawn"}


def _outside(features: Any) -> bool:
    """Whether these are features that a file cannot hold."""
    return features is not None and type(features).__module__ != f"{ESTIMATORS}.random_features"


def _continual_apart(estimator: Any) -> dict[str, Any]:
    from remanence.estimators.fingerprint import fingerprint

    parts = _apart(estimator)
    if _outside(parts["features"]):
        parts.pop("features_", None)
        known = parts.get("features_fingerprint_")
        parts["features"] = External("features", fingerprint(parts["features"]) if known is None else known)
    return parts


def _continual_together(kind: Any, parts: dict[str, Any]) -> Any:
    if _outside(parts["features"]) and "state_" in parts:
        parts = {**parts, "features_": parts["features"]}
    return _together(kind, parts)


def _continual_sound(parts: Parts, lengths: Lengths) -> str:
    """Whether what was learned belongs to the settings."""
    if "state_" not in parts:
        return ""
    features, ones = parts["features"], bool(parts["fit_intercept"])
    if ones != ("offset_" in parts):
        return "expected an offset where there is an intercept"
    if (features is not None) != ("features_fingerprint_" in parts):
        return "expected a fingerprint where there are frozen features"
    if (features is not None and not _outside(features)) != ("features_" in parts):
        return "expected the random features as they were drawn"
    if features is None and lengths["d"] != parts["n_features_in_"] + ones:
        return f"expected weights of {parts['n_features_in_']} features, got {lengths['d'] - ones}"
    if ones and lengths["d"] != lengths["p"] + 1:
        return f"expected an offset of {lengths['d'] - 1} features, got {lengths['p']}"
    return pair_problem(parts["method_"], parts["state_"])


def _joint_apart(joint: Any) -> dict[str, Any]:
    """All rows and labels; the estimator is trained on them anew, as it is at every call."""
    if joint.estimator is not None:
        raise InputError(
            f"expected Joint with its own ridge classifier to store, got estimator={joint.estimator!r:.60}; "
            f"models of other libraries cannot be stored: loading them could run code"
        )
    return {name: value for name, value in _apart(joint).items() if name != "estimator_"}


def _joint_together(kind: Any, parts: dict[str, Any]) -> Any:
    if "rows_" not in parts:
        return kind()
    joint = kind().fit(parts["rows_"], parts["classes_"][parts["codes_"]])
    if "feature_names_in_" in parts:
        joint.feature_names_in_ = parts["feature_names_in_"]
    return joint


def _anything(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "anything")


NAMES = _anything("feature_names_in_")
CONTINUAL = {"state_": "d c", "method_": "anything", "n_seen_": "count", "n_features_in_": "count"}
BESIDES = NAMES | {"features_": "anything", "features_fingerprint_": "anything", "offset_": "p"}
LABELS = {"classes_": "c any", "n_seen_": "count", "n_features_in_": "count"}
SOFTMAX = {"weights_": "d c float64", "intercepts_": "c float64", "shift_": "d float64", "power_": "number"}
DESCENT = _anything("step", "epochs", "batch", "seed")

ESTIMATOR_RECORDS = {
    "ContinualClassifier": Record(
        f"{ESTIMATORS}.classifier",
        _anything("method", "fit_intercept", "features", "class_weight", "prior", "dtype"),
        apart=_continual_apart,
        together=_continual_together,
        learned=CONTINUAL | {"classes_": "c any", "class_count_": "c any"},
        sometimes=BESIDES,
        sound=_continual_sound,
        alone=True,
    ),
    "ContinualRegressor": Record(
        f"{ESTIMATORS}.regressor",
        _anything("method", "fit_intercept", "features", "dtype"),
        apart=_continual_apart,
        together=_continual_together,
        learned=CONTINUAL | _anything("_flat"),
        sometimes=BESIDES,
        sound=_continual_sound,
        alone=True,
    ),
    "RandomFeatures": Record(
        f"{ESTIMATORS}.random_features",
        _anything("width", "seed", "activation", "scale"),
        apart=_random_apart,
        together=_together,
        sometimes=NAMES | {"n_features_in_": "count"},
    ),
    "Finetune": Record(
        f"{ESTIMATORS}.baselines", DESCENT, None, _apart, _together, LABELS | SOFTMAX, NAMES, alone=True
    ),
    "Replay": Record(
        f"{ESTIMATORS}.baselines",
        DESCENT | _anything("memory"),
        None,
        _apart,
        _together,
        LABELS | SOFTMAX | {"memory_rows_": "m d any", "memory_codes_": "m any"},
        NAMES,
        alone=True,
    ),
    "NearestMean": Record(
        f"{ESTIMATORS}.baselines",
        {},
        None,
        _apart,
        _together,
        LABELS | {"means_": "c d float64", "counts_": "c any"},
        NAMES,
        alone=True,
    ),
    "Joint": Record(
        f"{ESTIMATORS}.baselines",
        _anything("estimator"),
        None,
        _joint_apart,
        _joint_together,
        LABELS | {"rows_": "n d any", "codes_": "n any"},
        NAMES,
        alone=True,
    ),
}
