"""Graphs made from graphs: reverse and forward derivatives, batches, and the cut between forward and backward."""

from npcompile.tensor_core.transforms import batch_control

__all__ = ["batch_control"]  # registers its rules
