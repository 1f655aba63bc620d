"""Tables on disk, read block by block: CSV, JSON lines, Parquet, Arrow, NPZ; larger than memory but for NPZ.

`TableFeatures` makes numbers of columns of any kind; it is loaded when first used, since it needs scikit-learn.
"""

from typing import TYPE_CHECKING, Any

from remanence.tables.dialect import Dialect
from remanence.tables.paths import expand_paths
from remanence.tables.table import EmptyTable, Piece, RowBlock, Table, open_table

if TYPE_CHECKING:
    from remanence.tables.encoding.table_features import TableFeatures

__all__ = ["Dialect", "EmptyTable", "Piece", "RowBlock", "Table", "TableFeatures", "expand_paths", "open_table"]


def __getattr__(name: str) -> Any:
    if name != "TableFeatures":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from remanence.tables.encoding.table_features import TableFeatures

    return TableFeatures
