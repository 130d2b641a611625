"""The CPU backend: one generated C translation unit per graph."""
