"""NumPy programs on a GPU beside CuPy, torch and JAX: `python -m benchmarks.cuda`."""
