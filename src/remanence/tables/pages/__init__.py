"""Reading Parquet where memory is short."""
