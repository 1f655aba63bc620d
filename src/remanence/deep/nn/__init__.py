"""Building blocks for torch modules: weight matrices, parameters as one vector, heads, modes, tensors for files."""
