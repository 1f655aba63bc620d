"""Online learners: train a network one batch at a time with a soft or hard memory of the past."""
