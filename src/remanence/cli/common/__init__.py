"""Options, progress and output that all commands share."""
