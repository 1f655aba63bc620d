"""States of RLS that consist of several: one per forgetting factor, or one per class."""
