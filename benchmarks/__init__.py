"""npcompile beside NumPy and its peers, on the same inputs in one run: `python -m benchmarks`."""
