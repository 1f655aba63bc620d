"""The claims of the paper, one function each, on shelves that follow its sections."""
