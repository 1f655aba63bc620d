"""Tables on disk, read block by block: CSV, NPZ and Parquet, larger than memory where the format allows it."""

from remanence.tables.table import FORMATS, Piece, RowBlock, Table, expand_paths, open_table

__all__ = ["FORMATS", "Piece", "RowBlock", "Table", "expand_paths", "open_table"]
