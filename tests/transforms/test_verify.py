"""What is wrong in a graph is an internal mistake that is found, whoever has made the node."""

import numpy as np
import pytest

from npcompile.tensor_core.graph import Builder, InvalidGraph, Node, verify
from npcompile.tensor_core.keys import freeze
from npcompile.tensor_core.meta import TensorMeta

F8 = np.dtype("f8")
VECTOR = TensorMeta((3,), F8)


def made() -> tuple[Builder, Node]:
    builder = Builder()
    return builder, builder.input(VECTOR)


def test_a_node_that_no_builder_made_is_checked_against_the_table() -> None:
    builder, x = made()
    longer = Node("sin", (x,), {}, TensorMeta((4,), F8))
    with pytest.raises(InvalidGraph, match="sin"):
        builder.finish([longer])
    with pytest.raises(InvalidGraph, match="no op"):
        builder.finish([Node("sinus", (x,), {}, VECTOR)])


def test_a_node_of_another_builder_is_checked() -> None:
    builder, x = made()
    other, y = made()
    with pytest.raises(InvalidGraph, match="not an input"):
        builder.finish([other.apply("sin", y)])
    graph = builder.finish([builder.apply("sin", x)])
    verify(graph)


def test_outputs_and_writes_are_checked_in_graphs_of_a_builder() -> None:
    builder, x = made()
    with pytest.raises(InvalidGraph, match="given out"):
        builder.finish([builder.apply("sin", x)], [TensorMeta((4,), F8)])
    with pytest.raises(InvalidGraph, match="replace input"):
        builder.finish([], writes=[(0, builder.constant(1.0, F8))])


def test_keys_tell_numbers_apart_that_are_equal() -> None:
    values = [0, 0.0, -0.0, False, np.float64(0), np.int64(0), 0j, "0", (0,), (0.0,), {"a": 0}, {"a": False}, None]
    keys = [freeze(value) for value in values]
    assert len(set(keys)) == len(keys)
    assert freeze({"b": [1, 2], "a": 3}) == freeze({"a": 3, "b": (1, 2)})
