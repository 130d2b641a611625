"""npcompile beside NumPy and its peers, on the same inputs in one run: `python -m benchmarks`."""

import os

# What is compiled is measured, from the first call on. (benchmarks.packages measures what users of packages meet.)
os.environ.setdefault("NPCOMPILE_TIERS", "always")
