"""What the commands do with a model file, with a Dask cluster that reads and learns; one module per command."""
