"""Data, models and networks on which claims are tried."""
