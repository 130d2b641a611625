"""NumPy's public names, and what becomes of a typical call of each in a compiled function."""
