"""Gradients and training steps beside torch and JAX, in time and in memory: `python -m benchmarks.training`."""
