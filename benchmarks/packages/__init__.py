"""Calls of well-known packages with every function of theirs compiled: see `__main__`."""
