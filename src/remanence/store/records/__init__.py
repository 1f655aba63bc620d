"""Which classes a model file may hold, and what each consists of."""
