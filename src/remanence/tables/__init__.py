"""Tables on disk, read block by block: CSV, NPZ and Parquet files, larger than memory where the format allows it."""

from remanence.tables.table import Piece, RowBlock, Table, expand_paths, open_table

__all__ = ["Piece", "RowBlock", "Table", "expand_paths", "open_table"]
