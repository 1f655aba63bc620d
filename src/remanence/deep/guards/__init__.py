"""Guards: project each optimizer step so that the outputs on earlier inputs do not change."""
