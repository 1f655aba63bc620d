"""What the commands do with a model file, one module per command."""
