"""Models whose parameters FSDP2 splits over processes."""
