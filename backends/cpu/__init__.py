"""The CPU backend: one generated C translation unit per graph."""

from npcompile.backends.cpu.backend import compile_cpu

__all__ = ["compile_cpu"]
