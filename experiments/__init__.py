"""Experiments on public data; every figure in experiments/cards was written by the command printed on the card."""
