"""Models in continuous time, observed at any times, and inputs that are known."""
