"""Guards: each optimizer step is projected onto the directions that old inputs allow."""
