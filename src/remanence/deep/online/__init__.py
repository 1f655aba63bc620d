"""Online learners: a network that learns one batch at a time with a soft memory."""
