"""How many examples hypothesis tries: few and always the same by default, many and new with LAWS=search."""

import os

from hypothesis import settings

settings.register_profile("same", deadline=None, max_examples=8, derandomize=True, database=None)
settings.register_profile("search", deadline=None, max_examples=150, database=None)
settings.load_profile(os.environ.get("LAWS", "same"))
