"""Control flow as nodes: run op by op and compiled, differentiated once and twice, batched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from npcompile.backends.registry import find_backend
from npcompile.tensor_core import Builder, Decline, Node, TensorMeta
from npcompile.tensor_core.control import make_cond, make_for_loop, make_fori_loop, make_while_loop
from npcompile.tensor_core.graph import Graph, verify
from npcompile.tensor_core.simplify import simplify
from npcompile.tensor_core.transforms.batch import batch
from npcompile.tensor_core.transforms.forward import derivatives
from npcompile.tensor_core.transforms.replay import replay
from npcompile.tensor_core.transforms.reverse import gradients
from npcompile.tensor_core.transforms.value import Value
from tests.covering import pairs

F8, I8 = np.dtype(np.float64), np.dtype(np.int64)
Program = Callable[..., list[Value]]  # of values


def inputs_like(builder: Builder, arrays: Sequence[np.ndarray]) -> list[Value]:
    return [Value(builder, builder.input(TensorMeta(x.shape, x.dtype, x.strides))) for x in arrays]


def run_all(graph: Graph, arrays: Sequence[np.ndarray], *symbols: int) -> list[np.ndarray]:
    """The outputs, the same from every backend, simplified or not."""
    verify(graph)
    simplified = simplify(graph)
    found = [
        [np.asarray(x) for x in find_backend(backend)(each, [])(*arrays, *symbols)]
        for each, backend in ((graph, "eager"), (simplified, "eager"), (simplified, "cpu"))
    ]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    return found[0]


def built(program: Program, arrays: Sequence[np.ndarray]) -> tuple[Builder, list[Value], list[Value]]:
    builder = Builder()
    xs = inputs_like(builder, arrays)
    return builder, xs, program(*xs)


def loss_of(builder: Builder, results: Sequence[Value], weights: Sequence[np.ndarray]) -> Value:
    """A sum in which every number of every result has its own weight."""
    total = Value(builder, builder.constant(0.0, F8))
    for x, w in zip(results, weights):
        literal = builder.apply("literal", data=w.tobytes(), dtype=w.dtype, shape=w.shape)
        total = total + (x.cast(F8) * Value(builder, literal)).sum()
    return total


# --- programs: each with what it is in Python, and its arguments


def on(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of values as one of nodes."""

    def call(builder: Builder, *groups: Any) -> Any:
        found = function(*([Value(builder, n) for n in g] if isinstance(g, list) else Value(builder, g) for g in groups))
        return unwrapped(found)

    return call


def unwrapped(found: Any) -> Any:
    if isinstance(found, (list, tuple)):
        return type(found)(map(unwrapped, found))
    return found.node if isinstance(found, Value) else found


def wrapped(builder: Builder, nodes: Sequence[Node]) -> list[Value]:
    return [Value(builder, n) for n in nodes]


def nodes(*values: Value) -> list[Node]:
    return [v.node for v in values]


def branches(x: Value, y: Value) -> list[Value]:
    b = x.builder
    outer = y.exp()
    taken = make_cond(
        b,
        (x.sum() > 0.0).node,
        on(lambda xs: [xs[0].sin() * outer, xs[0].sum()]),
        on(lambda xs: [xs[0] * xs[0] * 3.0, (y * y).sum()]),
        nodes(x),
    )
    return wrapped(b, taken)


def branches_in_numpy(x: np.ndarray, y: np.ndarray) -> list[Any]:
    return [np.sin(x) * np.exp(y), x.sum()] if x.sum() > 0 else [x * x * 3, (y * y).sum()]


def nested(x: Value, y: Value) -> list[Value]:
    b = x.builder

    def inner(xs: list[Value]) -> list[Value]:
        (z,) = xs
        place = z.builder
        return wrapped(place, make_cond(place, (y.sum() > 0.0).node, on(lambda _: [z * y]), on(lambda _: [z + y.sin()])))

    return wrapped(b, make_cond(b, (x.sum() > 0.0).node, on(inner), on(lambda xs: [xs[0] * 2.0]), nodes(x)))


def nested_in_numpy(x: np.ndarray, y: np.ndarray) -> list[Any]:
    return [(x * y if y.sum() > 0 else x + np.sin(y)) if x.sum() > 0 else x * 2]


def power_method(x: Value, y: Value) -> list[Value]:
    """A while_loop with a carry that counts, one that is not differentiated, and a constant."""
    b = x.builder
    one, limit = b.constant(1, I8), b.constant(4, I8)

    def step(inner: Builder, carry: list[Node]) -> list[Node]:
        v, count = Value(inner, carry[0]), carry[1]
        return [(v.sin() * y + v).node, inner.apply("add", count, one)]

    test = make_while_loop(b, lambda inner, c: inner.apply("less", c[1], limit), step, [x.node, b.constant(0, I8)])
    return wrapped(b, test)


def power_method_in_numpy(x: np.ndarray, y: np.ndarray) -> list[Any]:
    for _ in range(4):
        x = np.sin(x) * y + x
    return [x, np.int64(4)]


def until_large(x: Value, y: Value) -> list[Value]:
    b = x.builder
    found = make_while_loop(b, on(lambda xs: xs[0].square().sum() < 50.0), on(lambda xs: [xs[0] * 1.5 + y.square()]), nodes(x))
    return wrapped(b, found)


def until_large_in_numpy(x: np.ndarray, y: np.ndarray) -> list[Any]:
    while (x * x).sum() < 50:
        x = x * 1.5 + y * y
    return [x]


def recurrence(reverse: bool) -> Program:
    def program(x: Value, y: Value) -> list[Value]:
        """Elements of y along axis 0, a constant, a stacked output, and a carry that moves nothing."""
        b = x.builder
        total = y.sum()
        zero = Value(b, b.constant(0.0, F8))

        def step(carry: list[Value], elements: list[Value]) -> tuple[list[Value], list[Value]]:
            (h, seen), (e,) = carry, elements
            after = (h * e).tanh() + total
            return [after, seen + e], [after * e, h]

        first = x.reduce("add", (0,)) * 0.5
        carries, stacks = make_for_loop(b, on(step), nodes(first, zero), nodes(y), reverse=reverse)
        return wrapped(b, [*carries, *stacks])

    return program


def recurrence_in_numpy(reverse: bool) -> Callable[..., list[Any]]:
    def program(x: np.ndarray, y: np.ndarray) -> list[Any]:
        h, seen, first, second = x.sum(0) * 0.5, 0.0, [], []
        for e in y[::-1] if reverse else y:
            second.append(h)
            h, seen = np.tanh(h * e) + y.sum(), seen + e
            first.append(h * e)
        order = -1 if reverse else 1
        return [h, np.float64(seen), np.array(first[::order]), np.array(second[::order])]

    return program


def counted(x: Value, y: Value) -> list[Value]:
    b = x.builder
    found = make_fori_loop(b, 1, 5, on(lambda i, xs: [xs[0].cos() * i.cast(F8) + y, xs[1] + xs[0].sum()]), nodes(x, y.sum()))
    return wrapped(b, found)


def counted_in_numpy(x: np.ndarray, y: np.ndarray) -> list[Any]:
    total = y.sum()
    for i in range(1, 5):
        x, total = np.cos(x) * i + y, total + x.sum()
    return [x, total]


def loop_in_loop(x: Value, y: Value) -> list[Value]:
    b = x.builder

    def outer(inner: Builder, i: Node, xs: list[Node]) -> list[Node]:
        return make_fori_loop(inner, 0, 3, on(lambda j, zs: [zs[0].sin() + y * zs[0]]), xs)

    return wrapped(b, make_fori_loop(b, 0, 2, outer, nodes(x)))


def loop_in_loop_in_numpy(x: np.ndarray, y: np.ndarray) -> list[Any]:
    for _ in range(6):
        x = np.sin(x) + y * x
    return [x]


def branch_in_loop(x: Value, y: Value) -> list[Value]:
    b = x.builder

    def step(inner: Builder, i: Node, xs: list[Node]) -> list[Node]:
        v = Value(inner, xs[0])
        return make_cond(inner, (v.sum() > 1.0).node, on(lambda zs: [zs[0] * 0.5 - y]), on(lambda zs: [zs[0].exp() * 0.7]), xs)

    return wrapped(b, make_fori_loop(b, 0, 6, step, nodes(x)))


def branch_in_loop_in_numpy(x: np.ndarray, y: np.ndarray) -> list[Any]:
    for _ in range(6):
        x = x * 0.5 - y if x.sum() > 1 else np.exp(x) * 0.7
    return [x]


def matrix_products(x: Value, y: Value) -> list[Value]:
    """Products by BLAS inside of the loop."""
    b = x.builder

    def step(carry: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        (h,) = carry
        h = h.op("einsum", x.permute((1, 0)), inputs=((0, 1), (1, 2)), output=(0, 2)).tanh()
        h = h.op("einsum", x, inputs=((0, 1), (1, 2)), output=(0, 2)) * 0.3
        return [h], [h.sum()]

    carries, stacks = make_for_loop(b, on(step), nodes(x + y), [], 3)
    return wrapped(b, [*carries, *stacks])


def matrix_products_in_numpy(x: np.ndarray, y: np.ndarray) -> list[Any]:
    h, sums = x + y, []
    for _ in range(3):
        h = np.tanh(h @ x.T) @ x * 0.3
        sums.append(h.sum())
    return [h, np.array(sums)]


ONCE = {
    "power_method": (power_method, power_method_in_numpy),
    "until_large": (until_large, until_large_in_numpy),
}
TWICE = {
    "branches": (branches, branches_in_numpy),
    "nested": (nested, nested_in_numpy),
    "recurrence": (recurrence(False), recurrence_in_numpy(False)),
    "backward recurrence": (recurrence(True), recurrence_in_numpy(True)),
    "counted": (counted, counted_in_numpy),
    "loop_in_loop": (loop_in_loop, loop_in_loop_in_numpy),
    "branch_in_loop": (branch_in_loop, branch_in_loop_in_numpy),
    "matrix_products": (matrix_products, matrix_products_in_numpy),
}
PROGRAMS = {**ONCE, **TWICE}
SIGNS = [(1, 1), (1, -1), (-1, 1)]


def arguments(signs: tuple[int, int] = (1, 1)) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [sign * rng.uniform(0.2, 1.0, (2, 3)) for sign in signs]


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_value(name: str, signs: tuple[int, int]) -> None:
    program, in_numpy = PROGRAMS[name]
    arrays = arguments(signs)
    if name.endswith("recurrence"):
        arrays[1] = arrays[1][:, 0].copy()
    builder, _, results = built(program, arrays)
    found = run_all(builder.finish([r.node for r in results]), arrays)
    for a, b in zip(found, in_numpy(*arrays), strict=True):
        assert a.dtype == np.asarray(b).dtype and a.shape == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-12)


def derivative_graph(program: Program, arrays: Sequence[np.ndarray], order: int, rng: Any) -> tuple[Graph, Graph]:
    """The program's loss, or the product of its gradient and directions; and the gradient of that."""
    builder, xs, results = built(program, arrays)
    real = [r for r in results if r.dtype.kind == "f"]
    loss = loss_of(builder, real, [rng.normal(size=r.shape) for r in real])
    for _ in range(order - 1):
        found = gradients(builder, [loss.node], [builder.constant(1.0, F8)], nodes(*xs))
        known = [Value(builder, g) for g in found if g is not None]
        loss = loss_of(builder, known, [rng.normal(size=g.shape) for g in known])
    found = gradients(builder, [loss.node], [builder.constant(1.0, F8)], nodes(*xs))
    outputs = [g if g is not None else x.zeros().node for g, x in zip(found, xs)]
    return builder.finish([loss.node]), builder.finish(outputs)


def check_gradient(program: Program, arrays: Sequence[np.ndarray], order: int) -> None:
    rng = np.random.default_rng(11)
    loss, gradient = derivative_graph(program, arrays, order, rng)
    found = run_all(gradient, arrays)
    for _ in range(3):
        directions = [rng.normal(size=x.shape) for x in arrays]
        step = 1e-6
        ahead, behind = (loss(*(x + s * step * d for x, d in zip(arrays, directions)))[0] for s in (1, -1))
        expected = float((ahead - behind) / (2 * step))
        slope = sum(float((g * d).sum()) for g, d in zip(found, directions))
        assert slope == pytest.approx(expected, rel=2e-6, abs=1e-6)


@pytest.mark.parametrize(("name", "order", "signs"), pairs([*PROGRAMS], [1, 2], SIGNS))
def test_gradient(name: str, order: int, signs: tuple[int, int]) -> None:
    program, _ = PROGRAMS[name]
    arrays = arguments(signs)
    if name.endswith("recurrence"):
        arrays[1] = arrays[1][:, 0].copy()
    if order == 2 and name in ONCE:
        with pytest.raises(Decline, match="while_loop has no second derivative"):
            derivative_graph(program, arrays, 2, np.random.default_rng(1))
        return
    check_gradient(program, arrays, order)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_derivative(name: str) -> None:
    program, in_numpy = PROGRAMS[name]
    arrays = arguments()
    if name.endswith("recurrence"):
        arrays[1] = arrays[1][:, 0].copy()
    rng = np.random.default_rng(3)
    directions = [rng.normal(size=x.shape) for x in arrays]
    builder = Builder()
    values = inputs_like(builder, [*arrays, *directions])
    xs, ts = values[:2], values[2:]
    outputs = [r.node for r in program(*xs) if r.dtype.kind == "f"]
    pushed = derivatives(builder, outputs, nodes(*xs), nodes(*ts))
    graph = builder.finish([p for p in pushed if p is not None])
    found = run_all(graph, [*arrays, *directions])
    step = 1e-6
    ahead, behind = (in_numpy(*(x + s * step * d for x, d in zip(arrays, directions))) for s in (1, -1))
    expected = [(a - b) / (2 * step) for a, b in zip(ahead, behind) if np.asarray(a).dtype.kind == "f"]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


# --- batches


def batch_of(
    program: Program, arrays: Sequence[np.ndarray], flags: Sequence[bool], derive: Callable[..., list[Value]] | None = None
) -> Graph:
    """One lane's program, or what `derive` makes of it, for all lanes of the arrays that have an axis 0 of lanes."""
    size = next(x.shape[0] for x, flag in zip(arrays, flags) if flag)
    builder = Builder()
    given = inputs_like(builder, arrays)
    lane = [builder.input(TensorMeta(x.shape[1:], x.dtype)) if flag else v.node for x, v, flag in zip(arrays, given, flags)]
    results = program(*(Value(builder, n) for n in lane))
    if derive is not None:
        results = derive(builder, wrapped(builder, lane), results)
    made = batch(builder, nodes(*results), {n: v.node for n, v, flag in zip(lane, given, flags) if flag}, size)
    outputs = [x if flag else builder.apply("broadcast_to", x, shape=(size, *x.shape)) for x, flag in made]
    clean = Builder(env=builder.env)
    replaced = {v.node: clean.input(v.node.meta) for v in given}
    return clean.finish(replay(clean, outputs, replaced))


def lanes(signs: Sequence[tuple[int, int]], flags: Sequence[bool], name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = [(2, 3), (2,) if name.endswith("recurrence") else (2, 3)]
    return [
        np.stack([s[k] * rng.uniform(0.2, 1.0, shape) for s in signs]) if flag else rng.uniform(0.2, 1.0, shape)
        for k, (shape, flag) in enumerate(zip(shapes, flags))
    ]


FLAGS = [(True, True), (True, False), (False, True)]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_batch(name: str, flags: tuple[bool, bool]) -> None:
    program, in_numpy = PROGRAMS[name]
    arrays = lanes(SIGNS, flags, name)
    found = run_all(batch_of(program, arrays, flags), arrays)
    expected = [in_numpy(*(x[k] if flag else x for x, flag in zip(arrays, flags))) for k in range(len(SIGNS))]
    for a, *each in zip(found, *expected, strict=True):
        np.testing.assert_allclose(a, np.stack(each), rtol=1e-12)


def gradient_of(builder: Builder, xs: Sequence[Value], results: Sequence[Value]) -> list[Value]:
    rng = np.random.default_rng(2)
    real = [r for r in results if r.dtype.kind == "f"]
    loss = loss_of(builder, real, [rng.normal(size=r.shape) for r in real])
    found = gradients(builder, [loss.node], [builder.constant(1.0, F8)], nodes(*xs))
    return [x.zeros() if g is None else Value(builder, g) for g, x in zip(found, xs)]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_batch_of_gradients(name: str, flags: tuple[bool, bool]) -> None:
    program, _ = PROGRAMS[name]
    arrays = lanes(SIGNS, flags, name)
    found = run_all(batch_of(program, arrays, flags, gradient_of), arrays)
    for k in range(len(SIGNS)):
        one = [x[k] if flag else x for x, flag in zip(arrays, flags)]
        builder, xs, results = built(program, one)
        expected = find_backend("eager")(builder.finish(nodes(*gradient_of(builder, xs, results))), [])(*one)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a[k], b, rtol=1e-10, atol=1e-12)


# --- against the same written out


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_dtypes(dtype: str) -> None:
    """Values and gradients of a loop, and of a branch in it, equal those of its iterations one after another."""

    def step(h: Value, e: Value, w: Value) -> Value:
        return (h * w + e.sin()).tanh()

    def looped(x: Value, y: Value, w: Value) -> list[Value]:
        def body(inner: Builder, carry: list[Node], elements: list[Node]) -> tuple[list[Node], list[Node]]:
            h, e = Value(inner, carry[0]), Value(inner, elements[0])
            (after,) = make_cond(inner, inner.constant(1, I8), lambda b, _: [step(h, e, w).node], lambda b, _: [h.node])
            return [after], [after]

        carries, stacks = make_for_loop(x.builder, body, nodes(x), nodes(y))
        return wrapped(x.builder, [*carries, *stacks])

    def written_out(x: Value, y: Value, w: Value) -> list[Value]:
        stack = []
        for k in range(3):
            e = y.op("slice", start=(k, 0), step=(1, 1), shape=(1, 2)).reshape((2,))
            x = step(x, e, w)
            stack.append(x.reshape((1, 2)))
        return [x, stack[0].op("concatenate", *stack[1:], axis=0)]

    rng = np.random.default_rng(6)
    # Not so large that tanh is near 1: its derivative is then the difference of two numbers that are nearly equal.
    arrays = [0.5 * (rng.normal(size=shape) + 1j * rng.normal(size=shape)) for shape in ((2,), (3, 2), (2,))]
    arrays = [(x if dtype in "FD" else x.real).astype(dtype) for x in arrays]
    found = []
    for program in (looped, written_out):
        builder, xs, results = built(program, arrays)
        cotangents = [r.op("cos") for r in results]
        slopes = gradients(builder, nodes(*results), nodes(*cotangents), nodes(*xs))
        graph = builder.finish([*nodes(*results), *(g for g in slopes if g is not None)])
        found.append([find_backend(backend)(simplify(graph), [])(*arrays) for backend in ("eager", "cpu")])
    for a, b, c, d in zip(*found[0], *found[1], strict=True):
        for x in (a, b, c):
            assert x.dtype == d.dtype == dtype
            np.testing.assert_allclose(x, d, rtol=1e-4 if dtype in "fF" else 1e-12)
