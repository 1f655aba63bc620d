"""Records of the estimators: settings, and what was learned; features of other libraries only by fingerprint."""

from typing import Any

import numpy as np

from remanence.errors import InputError
from remanence.store.format.record import ArraySpec, Check, External, Lengths, PartValues, Record, no_check
from remanence.store.records.pairs import pair_problem

ESTIMATORS = "remanence.estimators"
STORED = (
    f"{ESTIMATORS}.random_features",
    f"{ESTIMATORS}.images.conv_features",
    f"{ESTIMATORS}.decomposition.periodic_features",
    "remanence.tables.encoding.table_features",
)  # where features are that files hold


def _to_parts(estimator: Any) -> dict[str, Any]:
    """Settings and all other attributes, by name."""
    return {**estimator.get_params(deep=False), **vars(estimator)}


def _from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    settings = cls().get_params(deep=False).keys()
    estimator = cls(**{name: parts[name] for name in settings})
    vars(estimator).update({name: value for name, value in parts.items() if name not in settings})
    return estimator


def _random_to_parts(features: Any) -> dict[str, Any]:
    """Without the layer itself, which is drawn again from its seed."""
    return {name: value for name, value in _to_parts(features).items() if name != "_drawn"}


def _random_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    features = _from_parts(cls, parts)
    features._check_settings()
    return features


def _random_check(parts: PartValues, lengths: Lengths) -> str:
    if isinstance(parts["scale"], str) and ("n_features_in_" in parts) != ("scale_" in parts):
        return "expected the scale that was set where it is automatic"
    return ""


def _outside(features: Any) -> bool:
    """Whether these are features that a file cannot hold."""
    return features is not None and type(features).__module__ not in STORED


def _continual_to_parts(estimator: Any) -> dict[str, Any]:
    from remanence.estimators.fingerprint import fingerprint

    parts = _to_parts(estimator.settled())
    for name in ("_solved", "_earlier"):  # computed again on request
        parts.pop(name, None)
    if _outside(parts["features"]):
        parts.pop("features_", None)
        known = parts.get("features_fingerprint_")
        parts["features"] = External("features", fingerprint(parts["features"]) if known is None else known)
    return parts


def _continual_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    if _outside(parts["features"]) and "state_" in parts:
        parts = {**parts, "features_": parts["features"]}
    estimator = cls.__new__(cls)  # its constructor only assigns the settings, which are all there
    vars(estimator).update(parts)
    return estimator


def _continual_check(parts: PartValues, lengths: Lengths) -> str:
    """Whether what was learned belongs to the settings."""
    if not _class_weights(parts.get("class_weight")):
        return f"expected class_weight of numbers by label, got {parts['class_weight']!r:.40}"
    if not (parts["scale"] is None or (isinstance(parts["scale"], str) and parts["scale"] == "standard")):
        return f"expected scale None or standard, got {parts['scale']!r:.40}"
    if "state_" not in parts:
        return ""
    features, ones = parts["features"], bool(parts["fit_intercept"])
    if ones != ("offset_" in parts):
        return "expected an offset where there is an intercept"
    if (features is not None) != ("features_fingerprint_" in parts):
        return "expected a fingerprint where there are frozen features"
    if (features is not None and not _outside(features)) != ("features_" in parts):
        return "expected the features as they were when it learned"
    drawn = parts.get("features_")
    if drawn is not None and vars(drawn).get("n_features_in_") != parts["n_features_in_"]:
        return f"expected features of {parts['n_features_in_']} columns"
    width = parts["n_features_in_"] if features is None else None if drawn is None else drawn.width
    if width is not None and lengths["d"] != width + ones:
        return f"expected weights of {width} features, got {lengths['d'] - ones}"
    if ones and lengths["d"] != lengths["p"] + 1:
        return f"expected an offset of {lengths['d'] - 1} features, got {lengths['p']}"
    if parts.get("_flat") and lengths["c"] != 1:
        return f"expected one output where y has no columns, got {lengths['c']}"
    if parts.get("multilabel_") == "indicator" and not np.array_equal(parts["classes_"], np.arange(lengths["c"])):
        return "expected the columns of an indicator as classes"
    if (parts.get("class_count_", 0) < np.zeros(1)).any():
        return "expected counts of at least 0"
    return pair_problem(parts["method_"], parts["state_"])


def _class_weights(found: Any) -> bool:
    """None, "balanced", or a weight by label."""
    if type(found) is not dict:
        return found is None or (isinstance(found, str) and found == "balanced")
    real = (int, float, np.integer, np.floating)
    return all(isinstance(w, real) and not isinstance(w, bool) and 0 <= w < np.inf for w in found.values())


def _assessment_check(parts: PartValues, lengths: Lengths) -> str:
    """Sums of log-losses, of rows and of answers are not negative, and have the sizes of the grids."""
    from remanence.estimators.readouts.assessment import NOTHING

    for name in ("losses", "rows", "bins", "alone"):
        wanted = getattr(NOTHING, name).shape
        if parts[name].shape != wanted or (parts[name] < 0).any():
            return f"expected sums of at least 0 of shape {wanted} as {name}"
    if not parts["discordant"] >= 0:
        return f"expected a sum of squares of at least 0, got {parts['discordant']!r:.40}"
    return ""


def _baseline_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    """The baseline, after its own check of settings, which otherwise runs when it is fitted."""
    baseline = _from_parts(cls, parts)
    baseline._check_settings()
    return baseline


def _svd_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    svd = _from_parts(cls, parts)
    svd.check_settings()
    return svd


def _conv_check(parts: PartValues, lengths: Lengths) -> str:
    if "filters_" not in parts:
        return ""
    colours = lengths["q"] / parts["size"] ** 2
    if not all(parts[name].dtype == np.float32 and np.isfinite(parts[name]).all() for name in ("filters_", "shifts_")):
        return "expected finite filters in float32"
    if lengths["f"] != parts["filters"] or colours != int(colours) or not parts["floor_"] > 0:
        return f"expected {parts['filters']} filters of patches of {parts['size']} pixels, and a floor above 0"
    return ""


def _periodic_check(parts: PartValues, lengths: Lengths) -> str:
    width = parts.get("n_features_in_", np.inf)
    return "" if parts["column"] < width else f"expected a column below {width}, got {parts['column']}"


def _svd_check(parts: PartValues, lengths: Lengths) -> str:
    if "components_" not in parts:
        return ""
    if lengths["n"] != parts["n_features_in_"]:
        return f"expected {parts['n_features_in_']} features, got {lengths['n']}"
    if min(parts["n_seen_"], parts["energy_"], *parts["singular_values_"]) < 0 or not parts["n_seen_"]:
        return "expected a weight of rows above 0, and sums of squares and singular values of at least 0"
    return ""


def _petrels_check(parts: PartValues, lengths: Lengths) -> str:
    if "loadings_" not in parts:
        return ""
    owner, diagonal = parts["owner_"], np.diagonal(parts["roots_"], axis1=1, axis2=2)
    if lengths["n"] != parts["n_features_in_"] or not 1 <= lengths["r"] <= lengths["n"] or lengths["r"] != lengths["q"]:
        return f"expected loadings of {parts['n_features_in_']} features and square roots of their rank"
    if owner.dtype.kind not in "iu" or owner.min() < 0 or owner.max() >= lengths["g"]:
        return f"expected a root below {lengths['g']} for every feature"
    if np.tril(parts["roots_"], -1).any() or not diagonal.all() or not parts["n_seen_"] > 0:
        return "expected triangular roots that can be solved, and a weight of rows above 0"
    return ""


def _grouse_check(parts: PartValues, lengths: Lengths) -> str:
    if "components_" not in parts:
        return ""
    V = parts["components_"]
    if lengths["n"] != parts["n_features_in_"] or not 1 <= lengths["r"] <= lengths["n"]:
        return f"expected directions of {parts['n_features_in_']} features"
    return "" if np.abs(V @ V.T - np.eye(len(V))).max() < 1e-6 else "expected orthonormal directions"


def _baseline_check(more: Check = no_check) -> Check:
    """Check that the number of columns is that of the weights, and further conditions."""

    def check(parts: PartValues, lengths: Lengths) -> str:
        if "n_features_in_" in parts and lengths["d"] != parts["n_features_in_"]:
            return f"expected {parts['n_features_in_']} features, got {lengths['d']}"
        if "power_" in parts and not parts["power_"] > 0:
            return f"expected a mean square above 0, got {parts['power_']!r:.40}"
        return more(parts, lengths)

    return check


def _codes(parts: PartValues, name: str, lengths: Lengths) -> str:
    """What is wrong with indices of classes; empty if nothing."""
    codes = parts[name]
    good = codes.dtype.kind in "iu" and (not len(codes) or (codes.min() >= 0 and codes.max() < lengths["c"]))
    return "" if good else f"expected {name} to count the classes from 0 to {lengths['c'] - 1}"


def _replay_check(parts: PartValues, lengths: Lengths) -> str:
    if "memory_rows_" not in parts:
        return ""
    kept = min(parts["memory"], parts["n_seen_"])
    if lengths["m"] != kept:
        return f"expected {kept} rows in memory, got {lengths['m']}"
    return _codes(parts, "memory_codes_", lengths)


def _joint_check(parts: PartValues, lengths: Lengths) -> str:
    if parts["estimator"] is not None:
        return "expected no estimator, which no file holds"
    if "rows_" not in parts:
        return ""
    return _codes(parts, "codes_", lengths)


def _means_check(parts: PartValues, lengths: Lengths) -> str:
    counts = parts.get("counts_")
    if counts is not None and (counts.dtype.kind not in "iu" or counts.min() < 0 or not counts.any()):
        return "expected the numbers of rows of the classes"  # 0 for a class announced before its first row
    return ""


def _joint_to_parts(joint: Any) -> dict[str, Any]:
    """All rows and labels; the estimator is trained on them again, as at every call."""
    if joint.estimator is not None:
        raise InputError(
            f"expected Joint with its own ridge classifier to store, got estimator={joint.estimator!r:.60}; "
            f"models of other libraries cannot be stored: loading them could run code"
        )
    return {name: value for name, value in _to_parts(joint).items() if name != "estimator_"}


def _joint_from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    if "rows_" not in parts:
        return cls()
    joint = cls().partial_fit(parts["rows_"], parts["classes_"][parts["codes_"]], classes=parts["classes_"])
    if "feature_names_in_" in parts:
        joint.feature_names_in_ = parts["feature_names_in_"]
    return joint


NAMES = {"feature_names_in_": "names n"}
CONTINUAL = {"state_": "state d c", "method_": "method", "n_seen_": "count", "n_features_in_": "count 1"}
BESIDES = NAMES | {
    "features_": "RandomFeatures|TableFeatures|ConvFeatures|PeriodicFeatures",
    "features_fingerprint_": "str",
    "offset_": "p squarable",
}
LABELS = {"classes_": "labels c", "n_seen_": "count", "n_features_in_": "count 1"}
SOFTMAX = {"weights_": "d c float64", "intercepts_": "c float64", "shift_": "d float64", "power_": "number"}
DESCENT = dict.fromkeys(("step", "epochs", "batch", "seed"), "setting")
SETTINGS = {
    "method": "optional method",
    "fit_intercept": "bool",
    "features": "features",
    "scale": "setting",
    "dtype": "dtype",
    "grow_features": "bool",
}

ESTIMATOR_RECORDS = {
    "Assessment": Record(
        f"{ESTIMATORS}.readouts.assessment",
        {
            "losses": "k b e float64",
            "rows": "k float64",
            "bins": "k m n float64",
            "alone": "k float64",
            "seen": "count",
            "classes": "count",
            "solved": "count",
            "discordant": "number",
            "choice": "choice ridge discriminant",
        },
        defaults={"discordant": 0.0, "choice": "ridge"},
        check=_assessment_check,
    ),
    "Budget": Record(f"{ESTIMATORS}.readouts.budget", {"solving": "number", "answering": "number"}),
    "ContinualClassifier": Record(
        f"{ESTIMATORS}.classifier",
        SETTINGS
        | {
            "readout": "choice ridge discriminant auto",
            "class_weight": "setting",
            "prior": "choice seen uniform",
            "calibrate": "bool",
            "missing_labels": "choice refuse skip",
        },
        to_parts=_continual_to_parts,
        from_parts=_continual_from_parts,
        learned=CONTINUAL | {"classes_": "labels c", "class_count_": "c any"},
        optional=BESIDES | {"assessment_": "Assessment", "_budget": "Budget", "multilabel_": "choice indicator sets"},
        defaults={
            "readout": "ridge",
            "scale": None,
            "calibrate": True,
            "grow_features": False,
            "missing_labels": "refuse",
        },
        check=_continual_check,
        is_root=True,
    ),
    "ContinualRegressor": Record(
        f"{ESTIMATORS}.regressor",
        SETTINGS | {"intervals": "setting"},
        to_parts=_continual_to_parts,
        from_parts=_continual_from_parts,
        learned=CONTINUAL | {"_flat": "bool"},
        optional=BESIDES | {"errors_": "PastErrors * c"},
        defaults={"intervals": "auto", "scale": None, "grow_features": False},
        check=_continual_check,
        is_root=True,
    ),
    "PastErrors": Record(
        f"{ESTIMATORS}.conformal",
        {"sizes": "k c", "ranks": "k c", "credit": "number"},
        spec=lambda past: ArraySpec(past.sizes.shape, past.sizes.dtype),
    ),
    "RandomFeatures": Record(
        f"{ESTIMATORS}.random_features",
        {
            "width": "count 1",
            "seed": "count",
            "activation": "choice relu tanh cos fourier identity",
            "scale": "setting",
        },
        to_parts=_random_to_parts,
        from_parts=_random_from_parts,
        optional=NAMES | {"n_features_in_": "count 1", "scale_": "number"},
        check=_random_check,
    ),
    "ConvFeatures": Record(
        f"{ESTIMATORS}.images.conv_features",
        {
            "filters": "count 1",
            "size": "count 1",
            "pool": "count 1",
            "seed": "count",
            "shape": "setting",
            "threshold": "number",
            "overlap": "number",
            "power": "number",
            "mirror": "bool",
            "floor": "number",
            "epsilon": "number",
        },
        defaults={"overlap": 0.0, "power": 1.0, "mirror": False, "floor": 0.005, "epsilon": 0.1},
        to_parts=_to_parts,
        from_parts=_svd_from_parts,
        learned={
            "filters_": "q f any",
            "shifts_": "f any",
            "floor_": "number",
            "n_features_in_": "count 1",
        },
        optional=NAMES,
        check=_conv_check,
    ),
    "PeriodicFeatures": Record(
        f"{ESTIMATORS}.decomposition.periodic_features",
        {"period": "number", "harmonics": "count 1", "column": "count"},
        to_parts=_to_parts,
        from_parts=_svd_from_parts,
        optional=NAMES | {"n_features_in_": "count 1"},
        check=_periodic_check,
    ),
    "StreamingSVD": Record(
        f"{ESTIMATORS}.decomposition.streaming_svd",
        {"rank": "setting", "forget": "setting", "center": "bool"},
        to_parts=_to_parts,
        from_parts=_svd_from_parts,
        learned={
            "components_": "r n float64",
            "singular_values_": "r float64 squarable",
            "mean_": "n float64 squarable",
            "n_seen_": "number",
            "energy_": "number",
            "n_features_in_": "count 1",
        },
        optional=NAMES,
        check=_svd_check,
        is_root=True,
    ),
    "PETRELS": Record(
        f"{ESTIMATORS}.decomposition.petrels",
        {"rank": "setting", "forget": "setting", "ridge": "setting", "seed": "count"},
        to_parts=_to_parts,
        from_parts=_svd_from_parts,
        learned={
            "loadings_": "n r float64 squarable",
            "roots_": "g r q float64 squarable",
            "owner_": "n any",
            "n_seen_": "number",
            "n_features_in_": "count 1",
        },
        optional=NAMES,
        check=_petrels_check,
        is_root=True,
    ),
    "GROUSE": Record(
        f"{ESTIMATORS}.decomposition.grouse",
        {"rank": "setting", "step": "setting", "seed": "count"},
        to_parts=_to_parts,
        from_parts=_svd_from_parts,
        learned={"components_": "r n float64 unit", "n_features_in_": "count 1"},
        optional=NAMES,
        check=_grouse_check,
        is_root=True,
    ),
    "Finetune": Record(
        f"{ESTIMATORS}.baselines",
        DESCENT,
        to_parts=_to_parts,
        from_parts=_baseline_from_parts,
        learned=LABELS | SOFTMAX,
        optional=NAMES,
        check=_baseline_check(),
        is_root=True,
    ),
    "Replay": Record(
        f"{ESTIMATORS}.baselines",
        DESCENT | {"memory": "count 1"},
        to_parts=_to_parts,
        from_parts=_baseline_from_parts,
        learned=LABELS | SOFTMAX | {"memory_rows_": "m d any", "memory_codes_": "m any"},
        optional=NAMES,
        check=_baseline_check(_replay_check),
        is_root=True,
    ),
    "NearestMean": Record(
        f"{ESTIMATORS}.baselines",
        {},
        to_parts=_to_parts,
        from_parts=_baseline_from_parts,
        learned=LABELS | {"means_": "c d float64", "counts_": "c any"},
        optional=NAMES,
        check=_baseline_check(_means_check),
        is_root=True,
    ),
    "Joint": Record(
        f"{ESTIMATORS}.baselines",
        {"estimator": "setting"},
        to_parts=_joint_to_parts,
        from_parts=_joint_from_parts,
        learned=LABELS | {"rows_": "n d any", "codes_": "n any"},
        optional=NAMES,
        check=_baseline_check(_joint_check),
        is_root=True,
    ),
}
