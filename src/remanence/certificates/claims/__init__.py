"""The claims of the paper, one function each, in packages that follow its sections."""
