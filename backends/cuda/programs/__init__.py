"""Kernels as Triton programs: their text, and their tiles for the sizes of a call."""
