"""Nodes that stand for values that no program has: one example of a batch, a cotangent that is transposed away."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from npcompile.tensor_core.array import full
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Shape

NAME = "stand_in"


def stand_in(builder: Builder, shape: Shape, dtype: np.dtype) -> Node:
    """Told apart from all other nodes. A transform replaces it: only its shape and dtype count."""
    node = builder.apply("alias", full(builder, shape, 0, dtype), name=(NAME, len(builder.made)))
    assert node.op == "alias", "the builder must keep what its nodes are made of"
    return node


def made_of_stand_ins(nodes: Iterable[Node]) -> set[Node]:
    """Those of `nodes`, in which each comes after what it uses, that a transform replaces: they never run."""
    found: set[Node] = set()
    for node in nodes:
        is_one = node.op == "alias" and isinstance(node.params["name"], tuple) and node.params["name"][0] == NAME
        if is_one or not found.isdisjoint(node.inputs):
            found.add(node)
    return found
