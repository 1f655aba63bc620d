"""Records: how each class in a model file is stored."""
