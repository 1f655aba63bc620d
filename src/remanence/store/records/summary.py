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
    name = find_name(learner)
    known = vars(learner) if name in ESTIMATORS else {}
    summary: dict[str, Any] = {"kind": name}
    if name is not None and name.startswith("deep."):
        settings = {key: _plain(value) for key, value in learner.settings.items()}
        return summary | {
            "method": type(learner).__name__,
            "settings": settings,
            "network": type(learner if name == "deep.Growing" else learner.model).__name__,
        }
    method = known.get("method_", known.get("method"))
    if method is not None:
        summary |= _method(method)
    if "state_" in known:
        summary |= _state(known["state_"])
    if "n_seen_" in known:
        summary["rows"] = int(known["n_seen_"])
    if "n_features_in_" in known:
        summary["features"] = int(known["n_features_in_"])
    if "feature_names_in_" in known:
        summary["feature names"] = [str(name) for name in known["feature_names_in_"]]
    if "classes_" in known:
        summary["labels"] = [_plain(label) for label in known["classes_"].tolist()]
    if "features_fingerprint_" in known:
        summary["encoder"] = known["features_fingerprint_"]
    return summary


ESTIMATORS = ("ContinualClassifier", "ContinualRegressor", "Finetune", "Replay", "NearestMean", "Joint")


def _method(method: Any) -> dict[str, Any]:
    return {
        "method": type(method).__name__,
        "settings": {f.name: _plain(getattr(method, f.name)) for f in fields(method)},
    }


def _state(state: Any) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    found = spec_of(state)
    if found is not None:
        summary = {"features": found.shape[0], "outputs": found.shape[1], "precision": str(found.dtype)}
    rows = getattr(state, "rows", getattr(state, "count", None))
    return summary if rows is None else summary | {"rows": int(rows)}


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
