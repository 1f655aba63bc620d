"""What a torch module consists of: its weight matrices, its parameters as one vector, heads, tensors and files."""
