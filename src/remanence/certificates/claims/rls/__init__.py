"""Claims about recursive least squares."""
