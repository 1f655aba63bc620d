"""Edit the answers of a trained layer by least squares, with exact undo."""
