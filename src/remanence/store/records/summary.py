"""The summary of a learner that a model file holds, in plain values."""

from dataclasses import fields
from typing import Any

import numpy as np

from remanence.store.records.pairs import Pair
from remanence.store.records.registry import find_name, spec_of

LONG = 20  # entries of a setting that are listed one by one


def summarize(learner: Any) -> dict[str, Any]:
    """Class, method, settings, rows seen, shapes, labels and names, as far as the learner has them."""
    if isinstance(learner, Pair):
        return {"kind": "pair", **_method(learner.method), **_state(learner.state)}
    kind = find_name(learner)
    known = vars(learner) if kind in ESTIMATORS else {}
    told: dict[str, Any] = {"kind": kind}
    if kind is not None and kind.startswith("deep."):
        settings = {name: _plain(value) for name, value in learner.settings.items()}
        return told | {"method": type(learner).__name__, "settings": settings, "network": type(learner.model).__name__}
    method = known.get("method_", known.get("method"))
    if method is not None:
        told |= _method(method)
    if "state_" in known:
        told |= _state(known["state_"])
    if "n_seen_" in known:
        told["rows"] = int(known["n_seen_"])
    if "n_features_in_" in known:
        told["features"] = int(known["n_features_in_"])
    if "feature_names_in_" in known:
        told["feature names"] = [str(name) for name in known["feature_names_in_"]]
    if "classes_" in known:
        told["labels"] = [_plain(label) for label in known["classes_"].tolist()]
    if "features_fingerprint_" in known:
        told["encoder"] = known["features_fingerprint_"]
    return told


ESTIMATORS = ("ContinualClassifier", "ContinualRegressor", "Finetune", "Replay", "NearestMean", "Joint")


def _method(method: Any) -> dict[str, Any]:
    return {
        "method": type(method).__name__,
        "settings": {f.name: _plain(getattr(method, f.name)) for f in fields(method)},
    }


def _state(state: Any) -> dict[str, Any]:
    told: dict[str, Any] = {}
    found = spec_of(state)
    if found is not None:
        told = {"features": found.shape[0], "outputs": found.shape[1], "precision": str(found.dtype)}
    rows = getattr(state, "rows", getattr(state, "count", None))
    return told if rows is None else told | {"rows": int(rows)}


def _plain(value: Any) -> Any:
    """A setting or a label as a JSON value; other values as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, str, type(None))):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else repr(value)
    if isinstance(value, tuple):
        return [_plain(v) for v in value] if len(value) <= LONG else f"{len(value)} numbers"
    return str(value)
