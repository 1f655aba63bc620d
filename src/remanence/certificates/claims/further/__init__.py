"""Claims about methods that the paper cites or leaves open."""
