"""What every backend knows of single operations."""

from __future__ import annotations

from npcompile.tensor_core.dtypes import short as short
from npcompile.tensor_core.graph import Node

# Operations that take longer than reading their operands from memory.
EXPENSIVE = {"sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "hypot"}
EXPENSIVE |= {"sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"}
EXPENSIVE |= {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "logaddexp2", "cbrt"}
EXPENSIVE |= {"power", "float_power", "scalar_power", "by_numpy"}
EXPENSIVE |= {"fmod", "remainder", "floor_divide", "gcd", "lcm", "philox_low", "philox_high"}


def constant_value(node: Node):  # type: ignore[no-untyped-def]
    """The number that a node is everywhere, if it is a broadcast constant."""
    while node.op in ("broadcast_to", "cast", "reshape"):
        (node,) = node.inputs
    return node.params["value"] if node.op == "constant" else None
