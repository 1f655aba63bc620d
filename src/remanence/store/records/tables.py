"""Records of the encoder of tables: its settings, the kinds of columns, and the values it has met."""

from typing import Any

from remanence.store.format.record import Lengths, PartValues, Record
from remanence.tables.encoding.encoding import encoding_problem

ENCODING = "remanence.tables.encoding"
KINDS = "number truth category text date embedding"


def _to_parts(features: Any) -> dict[str, Any]:
    parts = {**features.get_params(deep=False), **vars(features)}
    return {**parts, "columns": None if parts["columns"] is None else dict(parts["columns"])}


def _from_parts(cls: Any, parts: dict[str, Any]) -> Any:
    features = cls(**{name: parts[name] for name in ("columns", "text_width", "missing")})
    features._check_settings()
    vars(features).update(parts)
    return features


def _features_check(parts: PartValues, lengths: Lengths) -> str:
    if "encoding_" not in parts:
        return ""
    names = [column.name for column in parts["encoding_"].columns]
    if names != parts["feature_names_in_"].tolist() or len(names) != parts["n_features_in_"]:
        return "expected the names of the encoded columns"
    return ""


def _encoding_check(parts: PartValues, lengths: Lengths) -> str:
    return encoding_problem(parts["columns"], parts["width"])


TABLE_RECORDS = {
    "ColumnEncoding": Record(
        f"{ENCODING}.encoding",
        {
            "name": "str",
            "kind": f"choice {KINDS}",
            "width": "count",
            "place": "count",
            "values": "tuple str",
            "places": "tuple count",
            "counts": "tuple count",
            "gap": "int",
            "gaps": "count",
        },
    ),
    "TableEncoding": Record(
        f"{ENCODING}.encoding", {"columns": "tuple ColumnEncoding", "width": "count"}, check=_encoding_check
    ),
    "TableFeatures": Record(
        f"{ENCODING}.table_features",
        {"columns": "setting", "text_width": "count 1", "missing": "choice refuse indicator"},
        to_parts=_to_parts,
        from_parts=_from_parts,
        learned={"encoding_": "TableEncoding", "n_features_in_": "count 1", "feature_names_in_": "names n"},
        check=_features_check,
        is_root=True,
    ),
}
