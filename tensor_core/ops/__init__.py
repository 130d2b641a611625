"""The rows of the op table, by family. Importing this package fills `npcompile.tensor_core.op.OPS`."""

from npcompile.tensor_core.ops import (
    contraction,
    control,
    elementwise,
    extern,
    fourier,
    indexing,
    interpolation,
    leaves,
    linalg,
    movement,
    random,
    reduction,
    scalar,
    sorting,
    whole,
)

__all__ = [
    "contraction",
    "control",
    "elementwise",
    "extern",
    "fourier",
    "indexing",
    "interpolation",
    "leaves",
    "linalg",
    "movement",
    "random",
    "reduction",
    "scalar",
    "sorting",
    "whole",
]
