"""The op table's column of what may differ from NumPy in the last bits: what differs is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.backend import compiling_pieces
from npcompile.backends.cpu.partition import is_native_node
from npcompile.backends.together import finished
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.exactness import may_differ
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.slopes import zero_or_divide, zero_or_multiply
from tests.ops.bits import different, numbers

ELEMENTWISE = [name for name, op in OPS.items() if op.kind == "elementwise" and isinstance(op.numpy, np.ufunc)]


AT_ONCE = 12  # functions in a unit


def check(builder: Builder, nodes: list[Node], arrays: list[np.ndarray]) -> None:
    """Those that are not marked have NumPy's bits, by default."""
    nodes = [node for node in nodes if is_native_node(node) and not may_differ(node)]
    for first in range(0, len(nodes), AT_ONCE):
        some = nodes[first : first + AT_ONCE]
        with np.errstate(all="ignore"):
            for node, made in zip(some, finished(compiling_pieces(builder.finish(some))).call(*arrays)):
                given = [arrays[i.params["index"]] for i in node.inputs]
                assert not different(made, OPS[node.op].eager(*given, **node.params)), (node, node.params)


@pytest.mark.parametrize("letter", "?bHlQefdgFD")
def test_unmarked_functions_have_numpys_bits(letter: str) -> None:
    rng, dtype, builder = np.random.default_rng(3), np.dtype(letter), Builder()
    arrays = [numbers(d, 4000, rng) for d in (dtype, dtype, np.dtype(int))]
    x, y, exponents = (builder.input(TensorMeta(a.shape, a.dtype), str(k)) for k, a in enumerate(arrays))
    nodes = []
    for name in ELEMENTWISE:
        given = [x, exponents] if name == "ldexp" else [x, y][: OPS[name].loops.nin]
        try:
            loop = OPS[name].numpy.resolve_dtypes((*(n.dtype for n in given), None))
        except TypeError:
            continue
        if list(loop[:-1]) == [n.dtype for n in given]:
            nodes.append(builder.apply(name, *given))
    check(builder, nodes, arrays)


REDUCERS = ("add", "multiply", "maximum", "minimum", "fmax", "fmin", "logical_or", "bitwise_xor")


@pytest.mark.parametrize("letter", "?lefdFD")
@pytest.mark.parametrize("op", ["reduce", "scan"])
def test_unmarked_reductions_have_numpys_bits(op: str, letter: str) -> None:
    rng, dtype = np.random.default_rng(4), np.dtype(letter)
    for is_ordinary in (False, True):
        builder = Builder()
        x = numbers(dtype, 6000, rng, is_ordinary=is_ordinary).reshape(60, 100)
        node = builder.input(TensorMeta(x.shape, dtype), "x")
        reducers = REDUCERS[:2] if is_ordinary else REDUCERS[2:] if dtype.kind in "bi" else REDUCERS[2:7]
        params = [{"axes": (axis,)} if op == "reduce" else {"axis": axis} for axis in (0, 1)]
        check(builder, [builder.apply(op, node, reducer=r, **p) for r in reducers for p in params], [x])


def test_what_is_marked() -> None:
    """Of every function that rounds more than once; not of integers, bfloat16, and what rounds once."""
    builder = Builder()

    def of(name: str, letter: str, **params: object) -> bool:
        op = OPS[name]
        count = op.numpy.nin if isinstance(op.numpy, np.ufunc) else 1
        xs = [builder.input(TensorMeta((4, 4), np.dtype(letter)), f"{letter}{k}") for k in range(count)]
        return may_differ(builder.apply(name, *xs, **params))

    assert of("exp", "d") and of("sin", "e") and of("power", "f") and of("multiply", "D") and of("absolute", "F")
    assert of("reduce", "d", reducer="multiply", axes=(0,)) and of("reduce", "f", reducer="maximum", axes=(0,))
    assert of("einsum", "d", inputs=((0, 1),), output=(0,))
    assert not of("sqrt", "d") and not of("multiply", "d") and not of("add", "D") and not of("power", "l")
    assert not of("reduce", "d", reducer="add", axes=(0,)) and not of("reduce", "l", reducer="multiply", axes=(0,))
    assert not of("scan", "d", reducer="add", axis=0) and not of("einsum", "l", inputs=((0, 1),), output=(0,))


NAMES = {"e": "float16", "f": "float32", "d": "float64", "g": "longdouble", "F": "complex64", "D": "complex128"}


def listed() -> str:
    """The column, as docs/accuracy.md has it, of what NumPy computes too."""
    found: dict[str, list[str]] = {}
    for name, op in OPS.items():
        if isinstance(op.inexact, str) and op.inexact and op.numpy not in (zero_or_multiply, zero_or_divide):
            found.setdefault(op.inexact, []).append(f"`{name}`")
    return "\n".join(
        f"- {', '.join(NAMES[c] for c in letters)}: {', '.join(sorted(ops))}" for letters, ops in sorted(found.items())
    )


def test_the_page_lists_them() -> None:
    text = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text()
    assert listed() in text, f"docs/accuracy.md is to have\n{listed()}"


def test_explain_lists_them() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return np.exp(x) @ x + np.sqrt(x).sum()

    x = np.ones((4, 4))
    assert npc.explain(function)(x).inexact == ("exp f8", "einsum f8")
    assert "may differ from NumPy in the last bits: exp f8, einsum f8" in str(npc.explain(function)(x))
    assert npc.explain(npc.compile(function, accuracy="bitwise"))(x).inexact == ()
