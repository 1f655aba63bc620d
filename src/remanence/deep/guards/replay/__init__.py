"""Guards that keep some samples of every task and hold the losses on them below bounds."""
