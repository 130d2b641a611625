"""Op table, graph and traced arrays. Imports NumPy and the standard library alone."""

from npcompile.tensor_core import ops
from npcompile.tensor_core.array import Array, Storage, fresh
from npcompile.tensor_core.dim import Dim, ShapeEnv, Size
from npcompile.tensor_core.graph import Builder, Graph, Location, Node
from npcompile.tensor_core.meta import Decline, TensorMeta
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.op import OPS, Op

__all__ = [
    "OPS",
    "Array",
    "Builder",
    "Decline",
    "Dim",
    "Graph",
    "Location",
    "Node",
    "Number",
    "Op",
    "ShapeEnv",
    "Size",
    "Storage",
    "TensorMeta",
    "fresh",
    "ops",
]
