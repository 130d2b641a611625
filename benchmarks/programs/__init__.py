"""The benchmark programs, by families: `python -m benchmarks.programs`."""
