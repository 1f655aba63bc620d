"""Features of images without a trained network."""
