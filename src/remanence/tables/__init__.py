"""Tables on disk, read block by block: CSV, JSON lines, Parquet, Arrow, NPZ; larger than memory but for NPZ."""

from remanence.tables.dialect import Dialect
from remanence.tables.paths import expand_paths
from remanence.tables.table import EmptyTable, Piece, RowBlock, Table, open_table

__all__ = ["Dialect", "EmptyTable", "Piece", "RowBlock", "Table", "expand_paths", "open_table"]
