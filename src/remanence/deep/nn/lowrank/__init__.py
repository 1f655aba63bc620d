"""The inputs of a wide layer in bounded memory."""
