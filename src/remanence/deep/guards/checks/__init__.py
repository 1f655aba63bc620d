"""Checks that a guard makes before it protects a model: batches, other copies of the weights, a trial step."""
