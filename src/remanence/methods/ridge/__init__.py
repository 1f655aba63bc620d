"""What the choice of a ridge consists of: errors as if rows had been left out, and a form of the factor."""
