"""Long lists of arrays made one array: NumPy joins them, and another length is no other program."""

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tensor_core.guards import Length
from tests.tracer.harness import compare_any


def rows_of(count, width=3):
    return [np.arange(float(width)) + k for k in range(count)]


class Table:
    def __init__(self, rows):
        self.rows = rows


def joined(rows):
    return np.concatenate(rows) * 2 + 1


def made(rows):
    return np.array(rows).sum(axis=0)


def stacked(rows):
    return np.stack(rows, axis=1) - np.vstack(rows).T


def flat(rows):
    return np.hstack(rows) + np.concatenate(rows, axis=None)


def of_attribute(table):
    return np.vstack(table.rows) * 3


def of_tuple(rows):
    return np.concatenate(tuple(rows)) + 1


def of_generator(rows):
    return np.stack([row * 2 for row in rows]) + 1


def built(rows):
    found = []
    for row in rows:
        found.append(np.cumsum(row))
    return np.array(found) + 1


FUNCTIONS = (joined, made, stacked, flat, of_attribute, of_tuple, of_generator, built)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_lists_that_grow(function):
    compiled = npc.compile(function)
    for count in (40, 41, 60, 300, 35):
        given = Table(rows_of(count)) if function is of_attribute else rows_of(count)
        compare_any(compiled(given), function(given), 2)
    known = compiled_function(compiled)
    assert max(len(point.variants) for point in known.points.values()) <= 4
    assert not any(point.is_native for point in known.points.values())
    if function in (joined, made, stacked, flat, of_attribute):
        assert not any(isinstance(guard, Length) for p in known.points.values() for v in p.variants for guard in v.guards)


@pytest.mark.parametrize(
    "rows",
    [
        [*rows_of(40), np.arange(3)],
        [np.arange(3, dtype=np.int8) for _ in range(40)],
        [*rows_of(40), np.zeros(0)],
        [np.zeros(0) for _ in range(40)],
        [1, 2.5, np.float32(3), *range(40)],
        [*rows_of(40), [1, 2, 3]],
        [*rows_of(40), "text"],
        [np.ones((2, 2)) * k for k in range(40)],
        [*rows_of(40), np.ones((2, 3))],
    ],
    ids=["mixed", "int8", "an empty part", "empty parts", "scalars", "a list", "a text", "matrices", "other dimensions"],
)
def test_parts_of_all_kinds(rows):
    for function in (joined, made, stacked, flat):
        try:
            expected = function(rows)
        except Exception as error:
            with pytest.raises(type(error)) as ours:
                npc.compile(function)(rows)
            assert str(ours.value) == str(error)
        else:
            compare_any(npc.compile(function)(rows), expected, 2)


def test_many_parts_made_in_the_program():
    """A kernel for each part, and not one that selects from all for each element."""
    parts = 70
    text = ", ".join(f"x[{k}:{k + 3}] * {k}.5" for k in range(parts))
    namespace = {"np": np}
    exec(
        f"def f(x):\n    return np.concatenate([{text}]) + 1\n\ndef g(x):\n    return np.stack([{text}]).sum(axis=0)\n", namespace
    )
    x = np.linspace(0, 1, parts + 3)
    for plain in (namespace["f"], namespace["g"]):
        compiled = npc.compile(plain, fullgraph=True)
        np.testing.assert_allclose(compiled(x), plain(x), rtol=1e-15)
        ((_, graph),) = compiled_function(compiled).graphs
        assert len(set(graph.kernels)) <= 4 and len(graph.kernels) >= parts


def test_a_list_as_one_graph_and_with_gradients():
    rows = rows_of(36)
    compare_any(npc.compile(joined, fullgraph=True)(rows), joined(rows), 2)
    x = np.linspace(0, 1, 4)
    gradient = npc.grad(lambda x: np.sum(np.stack([x * k for k in range(40)]) ** 2))(x)
    np.testing.assert_allclose(gradient, 2 * x * sum(k * k for k in range(40)), rtol=1e-14)
