"""How far compiled functions, and NumPy's, are from the exact results. `python -m tests.accuracy` writes the table."""
