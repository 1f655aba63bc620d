"""Models in continuous time, observed at any times, inputs that are known, and a filter that runs along."""
