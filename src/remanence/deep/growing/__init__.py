"""Networks that grow unit by unit."""
