"""The rows of the op table, by family. Importing this package fills `npcompile.tensor_core.op.OPS`."""

from npcompile.tensor_core.ops import contraction, elementwise, extern, indexing, leaves, movement, reduction

__all__ = ["contraction", "elementwise", "extern", "indexing", "leaves", "movement", "reduction"]
