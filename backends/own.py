"""The backends that come with npcompile: importing them registers them."""

from npcompile.backends import cuda, eager
from npcompile.backends.cpu import compile_cpu as HOST

__all__ = ["HOST", "cuda", "eager"]
