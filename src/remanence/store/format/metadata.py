"""Check the metadata of a model file: the summary of the learner, and the notes on the tables it was trained on.

Both are JSON values that commands show and use, so their types are checked when a file is read. Code that uses the
notes also checks that they belong to the learner (`columns_problem`). Keys that are not listed here are not checked.
"""

from collections.abc import Callable, Mapping
from typing import Any

from remanence.estimators.linear_predictor import LinearClassifier
from remanence.labels import LABEL_KINDS, kind_of_classes

Test = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _maybe(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _list_of(test: Test) -> Test:
    return lambda value: type(value) is list and all(map(test, value))


def _dict_of(test: Test) -> Test:
    return lambda value: type(value) is dict and all(map(test, value.values()))


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


SUMMARY: dict[str, Test] = {
    "kind": _maybe(_is_text),
    "method": _is_text,
    "settings": _dict_of(lambda value: _is_plain(value) or type(value) in (list, dict)),
    "rows": _is_count,
    "features": _is_count,
    "outputs": _is_count,
    "precision": _is_text,
    "feature names": _list_of(_is_text),
    "labels": _list_of(_is_plain),
    "encoder": _is_text,
    "network": _is_text,
}
NOTES: dict[str, Test] = {
    "columns": _list_of(_is_text),
    "label": _maybe(_is_text),
    "targets": _list_of(_is_text),
    "ignored": _list_of(_is_text),
    "label kind": _maybe(lambda value: value in LABEL_KINDS),
    "out": _dict_of(_list_of(_is_count)),
    "loose": _dict_of(_list_of(_is_count)),
    "merged": _dict_of(_is_count),
    "since": _dict_of(_is_count),
    "csv": _dict_of(_is_text),
    "kinds": _dict_of(_is_text),
    "missing": lambda value: value == "indicator",
    "added": _list_of(_is_text),
    "label separator": lambda value: _is_text(value) and bool(value.strip()),
}
TOGETHER = ("columns", "label", "targets", "ignored", "label kind")  # all of them, or none


def problem_of(found: Any, what: str, tests: Mapping[str, Test]) -> str:
    """What is wrong with metadata; empty if nothing."""
    if type(found) is not dict:
        return f"expected {what} as a dictionary, got {type(found).__name__}"
    for name, test in tests.items():
        if name in found and not test(found[name]):
            return f"expected {what} as rm.save writes them, got {name} = {found[name]!r:.60}"
    return ""


def columns_problem(notes: Mapping[str, Any], learner: Any) -> str:
    """Why this estimator cannot have been trained on these columns; empty if it can."""
    if "columns" not in notes:
        return ""
    missing = [name for name in TOGETHER if name not in notes]
    if missing:
        return f"expected notes on columns with {missing[0]!r}, got them without"
    if any(len(set(notes[part])) < len(notes[part]) for part in ("columns", "targets")):
        return "expected distinct columns"
    added = notes.get("added", [])
    if notes["columns"][len(notes["columns"]) - len(added) :] != added:
        return "expected the columns that were added last"
    if "kinds" in notes and list(notes["kinds"]) != notes["columns"]:
        return "expected the kinds of the columns"
    known, classifies = vars(learner), isinstance(learner, LinearClassifier)
    if classifies != (notes["label"] is not None) or classifies == bool(notes["targets"]):
        return f"expected the {'label of a classifier' if classifies else 'targets of a regressor'}, got others"
    if "state_" not in known:
        return ""
    if ("label separator" in notes) != (known.get("multilabel_") == "sets"):
        return "expected a separator of labels where rows have sets of them"
    encoding = getattr(known.get("features_"), "encoding_", None)
    if notes.get("kinds") != (None if encoding is None else encoding.kinds):
        return "expected the kinds of columns that the learner has learned"
    if len(notes["columns"]) != known["n_features_in_"]:
        return f"expected {known['n_features_in_']} columns, as the learner has, got {len(notes['columns'])}"
    if classifies and notes["label kind"] is not None and kind_of_classes(known["classes_"]) != notes["label kind"]:
        return f"expected labels that are {notes['label kind']}, got {known['classes_'].dtype}"
    return ""
