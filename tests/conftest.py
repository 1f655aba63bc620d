"""Settings of a test run: how many examples hypothesis tries, and what torch may use of the processor.

Hypothesis tries few examples, always the same, by default, and many new ones with LAWS=search.
"""

import os

from hypothesis import settings

settings.register_profile("same", deadline=None, max_examples=8, derandomize=True, database=None)
settings.register_profile("search", deadline=None, max_examples=150, database=None)
settings.load_profile(os.environ.get("LAWS", "same"))

# Some virtual machines announce AMX and then kill whoever uses it: torch's bfloat16 products would end the test run.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
