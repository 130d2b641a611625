"""Transforms of functions, and how they go together: with each other, with `compile`, with trees, closures and writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.gradients.harness import STEP, differences

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
W = RNG.normal(size=(3, 2))
B = RNG.normal(size=2)


def loss(x: Any, w: Any, b: Any) -> Any:
    return np.sum(np.tanh(x @ w + b) ** 2)


def vector(x: Any) -> Any:
    return np.stack([np.sin(x[0] * x[1]), x[1] ** 3, x.sum(), np.exp(x[2])])


def assert_alike(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    """The same tree, with the same types of containers, shapes and dtypes."""
    if isinstance(expected, dict):
        assert type(found) is dict and list(found) == list(expected)
        for key, value in expected.items():
            assert_alike(found[key], value, rtol)
    elif isinstance(expected, (list, tuple)):
        assert type(found) is type(expected) and len(found) == len(expected)
        for ours, theirs in zip(found, expected):
            assert_alike(ours, theirs, rtol)
    else:
        assert np.shape(found) == np.shape(expected) and np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def expected_gradients(argnums: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(differences(loss, (X, W, B), k % 3) for k in argnums)


# --- what is differentiated


@pytest.mark.parametrize("argnums", [(0,), (2,), (-1,), (0, 1), (2, 0), (-1, 0), (0, 1, 2), [1, 2], ()])
def test_several_argnums_give_a_tuple(argnums: Any) -> None:
    assert_alike(npc.grad(loss, argnums)(X, W, B), expected_gradients(tuple(argnums)), 1e-8)


@pytest.mark.parametrize("argnum", [0, 1, 2, -1, -3])
def test_one_argnum_gives_one_gradient(argnum: int) -> None:
    assert_alike(npc.grad(loss, argnum)(X, W, B), expected_gradients((argnum,))[0], 1e-8)


def test_keyword_arguments_are_passed_on() -> None:
    def scaled(x: Any, *, scale: Any = 2.0, power: int = 2) -> Any:
        return np.sum(scale * x**power)

    assert_alike(npc.grad(scaled)(X), 4 * X)
    assert_alike(npc.grad(scaled)(X, scale=np.float64(3.0), power=3), 9 * X**2)


def test_aux_is_handed_through() -> None:
    def with_aux(x: Any) -> Any:
        return np.sum(x**2), {"shape": x.shape, "mean": x.mean(), "rows": [x[0], "text"]}

    aux = {"shape": (4, 3), "mean": X.mean(), "rows": [X[0], "text"]}
    gradient, found = npc.grad(with_aux, has_aux=True)(X)
    assert_alike(gradient, 2 * X)
    assert found["shape"] == aux["shape"] and found["rows"][1] == "text"
    np.testing.assert_array_equal(found["rows"][0], X[0])
    (value, again), gradient = npc.value_and_grad(with_aux, has_aux=True)(X)
    np.testing.assert_allclose([value, again["mean"]], [np.sum(X**2), X.mean()], rtol=1e-14)
    assert_alike(gradient, 2 * X)


def test_gradients_have_the_trees_of_arguments() -> None:
    def network(parameters: Any, x: Any) -> Any:
        for layer in parameters["layers"]:
            x = np.tanh(x @ layer["w"] + layer["b"])
        return np.sum(x * parameters["scale"][0]) + parameters["scale"][1]

    parameters = {
        "layers": [{"w": W, "b": B}, {"w": RNG.normal(size=(2, 2)), "b": np.zeros(2)}],
        "scale": (np.float64(2.0), 0.5),
    }

    def flat(w1: Any, b1: Any, w2: Any, b2: Any, scale: Any) -> Any:
        layers = [{"w": w1, "b": b1}, {"w": w2, "b": b2}]
        return network({"layers": layers, "scale": (scale, 0.5)}, X)

    first, second = parameters["layers"]
    leaves = [first["w"], first["b"], second["w"], second["b"], parameters["scale"][0]]
    w1, b1, w2, b2, scale = npc.grad(flat, (0, 1, 2, 3, 4))(*leaves)
    expected = {"layers": [{"w": w1, "b": b1}, {"w": w2, "b": b2}], "scale": (scale, np.float64(1.0))}
    assert_alike(npc.grad(network)(parameters, X), expected)
    assert_alike(w1, differences(flat, tuple(leaves), 0), 1e-8)


def test_one_argument_twice_gets_each_its_own_gradient() -> None:
    assert_alike(npc.grad(lambda x, y: np.sum(x * x * y), (0, 1))(X, X), (2 * X * X, X * X))


def test_what_a_loss_does_not_read_has_gradient_zero() -> None:
    assert_alike(npc.grad(lambda x, y: np.sum(x), (0, 1))(X, B), (np.ones_like(X), np.zeros_like(B)))
    assert_alike(npc.grad(lambda x: np.float64(3.0) + 0 * np.argmax(x))(X), np.zeros_like(X))


@pytest.mark.parametrize("number", [0.7, np.float64(0.7), np.array(0.7)], ids=["float", "scalar", "0-D"])
def test_numbers(number: Any) -> None:
    value, gradient = npc.value_and_grad(lambda x: np.sin(x) * x)(number)
    np.testing.assert_allclose([value, gradient], [0.7 * np.sin(0.7), np.sin(0.7) + 0.7 * np.cos(0.7)], rtol=1e-14)


# --- derivatives of derivatives


def test_grad_of_grad() -> None:
    def sine(x: Any) -> Any:
        return np.sin(x)

    found, function = [], sine
    for _ in range(4):
        function = npc.grad(function)
        found.append(function(0.3))
    np.testing.assert_allclose(found, [np.cos(0.3), -np.sin(0.3), -np.cos(0.3), np.sin(0.3)], rtol=1e-14)


def test_gradient_of_a_gradients_norm() -> None:
    def norm(x: Any) -> Any:
        return np.sum(npc.grad(loss)(x, W, B) ** 2)

    assert_alike(npc.grad(norm)(X), differences(norm, (X,), 0), 1e-7)


def test_jacobian_is_a_loop_of_gradients() -> None:
    x = X[0]
    expected = np.stack([npc.grad(lambda x, k=k: vector(x)[k])(x) for k in range(4)])
    assert_alike(npc.jacobian(vector)(x), expected)
    assert_alike(np.stack([npc.jvp(vector, (x,), (e,))[1] for e in np.eye(3)], axis=1), expected)


def test_jacobian_has_the_shapes_of_result_and_argument() -> None:
    def function(x: Any, w: Any) -> Any:
        return {"product": x @ w, "sum": x.sum()}

    found = npc.jacobian(function, (0, 1))(X, W)
    product = np.einsum("ik,lj->ijkl", np.eye(4), W), np.einsum("ik,jl->ijkl", X, np.eye(2))
    assert_alike(found, {"product": product, "sum": (np.ones((4, 3)), np.zeros((3, 2)))})


def test_hessian_is_symmetric_and_that_of_differences() -> None:
    def function(x: Any) -> Any:
        return np.sum(vector(x) ** 2) * x[0]

    found = npc.hessian(function)(X[1])
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    gradient = npc.grad(function)
    columns = [(gradient(X[1] + STEP * e) - gradient(X[1] - STEP * e)) / (2 * STEP) for e in np.eye(3)]
    np.testing.assert_allclose(found, np.stack(columns), rtol=1e-6, atol=1e-6)


def test_hessian_of_a_quadratic_form() -> None:
    a = RNG.normal(size=(5, 5))
    assert_alike(npc.hessian(lambda x: x @ a @ x / 2)(np.ones(5)), (a + a.T) / 2)


def test_jvp_is_that_of_differences() -> None:
    directions = RNG.normal(size=X.shape), RNG.normal(size=W.shape), RNG.normal(size=B.shape)
    value, moved = npc.jvp(loss, (X, W, B), directions)

    def at(step: float) -> Any:
        return loss(*(p + step * t for p, t in zip((X, W, B), directions)))

    np.testing.assert_allclose(value, loss(X, W, B), rtol=1e-14)
    np.testing.assert_allclose(moved, (at(STEP) - at(-STEP)) / (2 * STEP), rtol=1e-6)


def test_jvp_of_trees_is_a_tree() -> None:
    def function(tree: Any) -> Any:
        return {"a": tree["x"] * 2, "b": (tree["y"][0].sum(),)}

    tree, tangent = {"x": X, "y": [B]}, {"x": np.ones_like(X), "y": [2 * np.ones_like(B)]}
    value, moved = npc.jvp(function, (tree,), (tangent,))
    assert_alike(value, function(tree))
    assert_alike(moved, {"a": np.full_like(X, 2), "b": (np.float64(4),)})


def test_jvp_and_vjp_are_transposed() -> None:
    x, tangent, cotangent = X[0], RNG.normal(size=3), RNG.normal(size=4)
    _, pullback = npc.vjp(vector, x)
    forward = npc.jvp(vector, (x,), (tangent,))[1] @ cotangent
    np.testing.assert_allclose(pullback(cotangent)[0] @ tangent, forward, rtol=1e-13)


def test_jvp_of_grad_is_the_hessians_product() -> None:
    direction = RNG.normal(size=3)

    def function(x: Any) -> Any:
        return np.sum(vector(x) ** 2)

    _, found = npc.jvp(npc.grad(function), (X[0],), (direction,))
    np.testing.assert_allclose(found, npc.hessian(function)(X[0]) @ direction, rtol=1e-12)


# --- batches


def test_batch_of_gradients() -> None:
    found = npc.vmap(npc.grad(loss, (1, 2)), (0, None, None))(X[:, None], W, B)
    alone = [npc.grad(loss, (1, 2))(x[None], W, B) for x in X]
    assert_alike(found, (np.stack([g for g, _ in alone]), np.stack([g for _, g in alone])))


def test_gradient_of_a_batch() -> None:
    def function(x: Any) -> Any:
        return np.sum(npc.vmap(lambda row: np.prod(np.sin(row)))(x) ** 2)

    assert_alike(npc.grad(function)(X), differences(function, (X,), 0), 1e-8)


def test_batches_of_batches() -> None:
    def dot(x: Any, y: Any) -> Any:
        return x @ y

    table = npc.vmap(npc.vmap(dot, (None, 0)), (0, None))
    assert_alike(table(X, W.T), X @ W)
    assert_alike(npc.vmap(npc.vmap(np.cumsum))(np.ones((2, 3, 4))), np.cumsum(np.ones((2, 3, 4)), -1))


@pytest.mark.parametrize("in_axes", [1, None])
def test_keyword_arguments_are_mapped_over_their_first_axis(in_axes):
    def captured(x, *, scale, shift):
        return x.sum() * scale + shift["by"].sum()

    def on_tensors(x, *, scale, shift):
        return captured(x, scale=scale, shift=shift) if str(scale) else x

    x, scale, shift = np.arange(8.0).reshape(2, 4), np.arange(4.0), {"by": np.ones((4, 3))}
    wanted = [captured(x if in_axes is None else x[:, k], scale=scale[k], shift={"by": np.ones(3)}) for k in range(4)]
    for function in (captured, on_tensors):
        assert_alike(npc.vmap(function, in_axes)(x, scale=scale, shift=shift), np.array(wanted))
        mapped = npc.compile(lambda x, scale, shift, f=function: npc.vmap(f, in_axes)(x, scale=scale, shift=shift))
        assert_alike(mapped(x, scale, shift), np.array(wanted))
    with pytest.warns(RuntimeWarning, match="divide by zero"):  # one example after the other, each with its own
        assert_alike(npc.vmap(lambda x: 1 / x)(x=scale), np.array([np.inf, 1, 1 / 2, 1 / 3]))


def test_jacobian_is_a_batch_of_pullbacks() -> None:
    def rows(x: Any) -> Any:
        return npc.vmap(lambda e: npc.grad(lambda x: vector(x) @ e)(x))(np.eye(4))

    assert_alike(npc.compile(rows)(X[0]), npc.jacobian(vector)(X[0]))


AXES = [
    ((0, 0), 0, lambda x, y: np.stack([np.outer(a, b) for a, b in zip(x, y)])),
    ((1, None), 0, lambda x, y: np.stack([np.outer(a, y) for a in x.T])),
    ((-1, None), -1, lambda x, y: np.stack([np.outer(a, y) for a in x.T], axis=-1)),
    ((None, -2), 1, lambda x, y: np.stack([np.outer(x, b) for b in y], axis=1)),
    ((0, -2), -2, lambda x, y: np.stack([np.outer(a, b) for a, b in zip(x, y)], axis=-2)),
    (0, 2, lambda x, y: np.stack([np.outer(a, b) for a, b in zip(x, y)], axis=2)),
    ([1, 1], 0, lambda x, y: np.stack([np.outer(a, b) for a, b in zip(x.T, y.T)])),
]


@pytest.mark.parametrize(("in_axes", "out_axes", "looped"), AXES, ids=[f"{a[0]}-{a[1]}" for a in AXES])
def test_axes_of_batches(in_axes: Any, out_axes: int, looped: Callable[..., Any]) -> None:
    y = RNG.normal(size=(4, 3))
    assert_alike(npc.vmap(np.outer, in_axes, out_axes)(X, y), looped(X, y))


def test_trees_in_batches() -> None:
    def function(tree: Any, scale: Any) -> Any:
        return [tree["x"] * scale, {"sum": tree["y"].sum()}]

    found = npc.vmap(function, (0, None))({"x": X, "y": X[:, :2]}, 3.0)
    assert_alike(found, [3 * X, {"sum": X[:, :2].sum(1)}])


class Layer(NamedTuple):
    weight: Any
    bias: Any


@dataclasses.dataclass
class Layers:
    first: Layer
    scale: Any


def halved(layer: Any, scale: Any) -> Any:
    steps = 0.0
    while layer.weight.sum() > 1:
        layer, steps = Layer(layer.weight * 0.5, layer.bias), steps + scale
    return {"steps": steps, "all": (layer.weight, layer.bias)}


def test_trees_of_axes() -> None:
    tree, axes = Layers(Layer(X, 2.0), X[0]), Layers(Layer(0, None), None)
    expected = np.stack([row * 2.0 + X[0] for row in X])
    assert_alike(npc.vmap(lambda t: t.first.weight * t.first.bias + t.scale, (axes,))(tree), expected)

    def inside(x: Any) -> Any:
        return npc.vmap(lambda d, s: (d["x"] * s, s), ({"x": 1}, None), (0, None))({"x": x}, 3.0)

    assert_alike(npc.compile(inside)(X), (X.T * 3.0, 3.0))
    out = {"steps": 0, "all": (1, None)}
    each = [halved(Layer(np.abs(row), 7.0), 1.0) for row in X]  # runs example by example: data decides how often
    found = npc.vmap(halved, (Layer(0, None), None), out)(Layer(np.abs(X), 7.0), 1.0)
    steps, weights = np.array([e["steps"] for e in each]), np.stack([e["all"][0] for e in each], 1)
    assert_alike(found, {"steps": steps, "all": (weights, 7.0)})


class Segment:
    """A class whose instances are no containers by themselves."""

    def __init__(self, start: Any, end: Any, name: str):
        self.start, self.end, self.name = start, end, name

    def length(self) -> Any:
        return np.sum((self.end - self.start) ** 2)


npc.register_tree_node(Segment, lambda s: ((s.start, s.end), s.name), lambda name, parts: Segment(*parts, name))


def test_trees_of_registered_classes() -> None:
    def summed(s: Any) -> Any:
        total = 0.0
        for k in range(s.start.size):
            total += s.start[k] * s.end
        return total

    def by_hand(x: Any) -> Any:
        found = npc.grad(Segment.length)(Segment(x, 2.0, "inside"))
        return found.start * 2, found.end

    given = Segment(X[0], 2.0, "outside")
    expected = 2 * (X[0] - 2.0), 2 * np.sum(2.0 - X[0])
    found = npc.grad(Segment.length)(given)
    assert type(found) is Segment and found.name == "outside"
    assert_alike((found.start, found.end), expected)
    assert_alike(npc.compile(by_hand, fullgraph=True)(X[0]), (expected[0] * 2, expected[1]))
    found = npc.grad(summed)(given)
    assert_alike((found.start, found.end), (np.full(3, 2.0), X[0].sum()))
    found = npc.vmap(
        lambda s: Segment(s.start * s.end, s.end, s.name), (Segment(0, None, "outside"),), (Segment(0, None, "outside"))
    )(Segment(X, 2.0, "outside"))
    assert found.name == "outside"
    assert_alike((found.start, found.end), (X * 2, 2.0))
    found = npc.fori_loop(0, 3, lambda k, s: Segment(s.start + k, s.end, s.name), given)
    assert_alike((found.start, found.end), (X[0] + 3, 2.0))


@pytest.mark.parametrize(("cls", "kind"), [(3, TypeError), (Layer, ValueError), (Layers, ValueError), (list, ValueError)])
def test_classes_that_are_no_new_containers(cls: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        npc.register_tree_node(cls, lambda x: ((), None), lambda static, parts: None)


def test_results_that_are_the_same_for_all_examples() -> None:
    assert_alike(npc.vmap(lambda x: (B * 2, x.sum()))(X), (np.tile(B * 2, (4, 1)), X.sum(1)))


# --- with compile, closures and writes


def test_transforms_within_compiled_functions() -> None:
    @npc.compile(fullgraph=True)
    def step(w: Any, b: Any, x: Any, rate: Any) -> Any:
        value, (gw, gb) = npc.value_and_grad(loss, (1, 2))(x, w, b)
        return value, w - rate * gw, b - rate * gb

    value, w, b = step(W, B, X, 0.1)
    gw, gb = npc.grad(loss, (1, 2))(X, W, B)
    np.testing.assert_allclose(value, loss(X, W, B), rtol=1e-14)
    assert_alike((w, b), (W - 0.1 * gw, B - 0.1 * gb))


def test_transforms_of_compiled_functions() -> None:
    compiled = npc.compile(loss)
    for function in (npc.grad(compiled), npc.compile(npc.grad(loss)), npc.compile(npc.grad(compiled))):
        assert_alike(function(X, W, B), npc.grad(loss)(X, W, B))
    assert_alike(npc.vmap(npc.compile(vector))(X), np.stack([vector(x) for x in X]))


def test_closures_are_constants() -> None:
    scale = RNG.normal(size=3)
    gradient = npc.grad(lambda x: np.sum(scale * x**2))
    assert_alike(gradient(X), 2 * scale * X)
    scale[:] = 5
    assert_alike(gradient(X), 10 * X)


def test_gradient_with_respect_to_what_a_closure_holds() -> None:
    def outer(x: Any, y: Any) -> Any:
        return npc.grad(lambda x: np.sum(x**2 * y))(x).sum() * y.sum()

    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    assert_alike(npc.grad(outer, (0, 1))(x, y), (2 * y * y.sum(), 2 * x * y.sum() + np.sum(2 * x * y)))


def test_perturbations_are_not_confused() -> None:
    """Siskind and Pearlmutter: d/dx (x * d/dy (x + y)) is 1."""
    assert npc.grad(lambda x: x * npc.grad(lambda y: x + y)(2.0))(1.0) == 1.0
    assert npc.jvp(lambda x: x * npc.jvp(lambda y: x * y, (2.0,), (1.0,))[1], (3.0,), (1.0,))[1] == 6.0


def test_writes_to_an_argument_reach_the_caller() -> None:
    def function(x: Any) -> Any:
        x[0] *= 2
        x[1:] += 1
        return np.sum(x**2)

    x, expected = X.copy(), X.copy()
    value = function(expected)
    found, gradient = npc.value_and_grad(function)(x)
    np.testing.assert_allclose(found, value, rtol=1e-14)
    np.testing.assert_array_equal(x, expected)
    scale = np.ones_like(X)
    scale[0] = 2
    assert_alike(gradient, 2 * expected * scale)


def test_writes_to_an_array_of_a_closure_reach_it() -> None:
    seen = np.zeros(3)

    def function(x: Any) -> Any:
        seen[:] = x * 2
        return np.sum(seen * x)

    assert_alike(npc.grad(function)(X[0]), 4 * X[0])
    np.testing.assert_array_equal(seen, 2 * X[0])


def test_arguments_are_not_changed_otherwise() -> None:
    x, w, b = X.copy(), W.copy(), B.copy()
    gradients = npc.grad(lambda x, w, b: loss(x, w, b) + np.sum(x), (0, 1, 2))(x, w, b)
    for after, before in zip((x, w, b), (X, W, B)):
        np.testing.assert_array_equal(after, before)
    for gradient in gradients:
        gradient += 1  # is the caller's own
    np.testing.assert_array_equal(x, X)


def test_views_are_differentiated_as_arrays() -> None:
    x = np.arange(24.0).reshape(4, 6)[::2, ::-2].T
    assert_alike(npc.grad(lambda x: np.sum(x**3))(x), 3 * x**2)


# --- sizes and dtypes


def test_a_second_size_compiles_for_all_sizes() -> None:
    @npc.compile
    def gradient(x: Any) -> Any:
        return npc.grad(lambda x: np.sum(np.sort(x) * np.cumsum(x)) + np.prod(x[:2]))(x)

    for n in (3, 5, 8, 13):
        x = RNG.normal(size=n)
        expected = differences(lambda x: np.sum(np.sort(x) * np.cumsum(x)) + np.prod(x[:2]), (x,), 0)
        assert_alike(gradient(x), expected, 1e-8)
    known = compiled_function(gradient)
    assert known is not None and len(known.graphs) == 2


def test_batches_of_other_sizes() -> None:
    @npc.compile
    def batched(x: Any, w: Any) -> Any:
        return npc.vmap(npc.grad(lambda x, w: np.sum(np.tanh(x @ w))), (0, None))(x, w)

    for n in (4, 6, 9):
        x = RNG.normal(size=(n, 3))
        assert_alike(batched(x, W), (1 - np.tanh(x @ W) ** 2) @ W.T)
    known = compiled_function(batched)
    assert known is not None and len(known.graphs) == 2


@pytest.mark.parametrize(
    ("dtype", "rtol"), [("f2", 2e-2), ("f4", 1e-5), ("f8", 1e-12), ("g", 1e-12), ("c8", 1e-5), ("c16", 1e-12)]
)
def test_dtypes_are_kept(dtype: str, rtol: float) -> None:
    x = (X[0] / 2).astype(dtype)
    if np.iscomplexobj(x):
        x = x + x.dtype.type(0.25j)

    def function(x: Any) -> Any:
        return np.sum(np.abs(x * x + x) ** 2).real

    value, gradient = npc.value_and_grad(function)(x)
    assert gradient.dtype == x.dtype and value.dtype == function(x).dtype
    inner = x * x + x
    expected = 2 * np.conj(inner) * (2 * x + 1)
    np.testing.assert_allclose(gradient, expected, rtol=rtol, atol=rtol)
    assert npc.vmap(npc.grad(lambda x: np.abs(x) ** 2))(x).dtype == x.dtype


def test_mixed_dtypes_give_each_argument_its_own() -> None:
    x, y = X[0].astype("f4"), X[1]
    gx, gy = npc.grad(lambda x, y: np.sum(x * y), (0, 1))(x, y)
    assert gx.dtype == np.float32 and gy.dtype == np.float64
    np.testing.assert_array_equal(gx, y.astype("f4"))


def test_holomorphic_jacobian() -> None:
    z = X[0] + 1j * X[1]
    assert_alike(npc.jacobian(lambda z: z**2 * 1j)(z), np.diag(2j * z))


# --- errors


def multiplied_at(x: Any) -> Any:
    y = np.ones(3)
    np.multiply.at(y, np.array([0, 0, 1]), x)
    return y.sum()


ERRORS: list[tuple[str, Callable[[], Any], str]] = [
    ("grad of an array", lambda: npc.grad(lambda x: x * 2)(X), r"grad of a function that returns float64\[4, 3\]"),
    ("grad of a complex number", lambda: npc.grad(lambda x: x.sum() * 1j)(X), "grad of a function that returns complex128"),
    ("grad of an integer", lambda: npc.grad(lambda x: np.argmax(x))(X), "grad of a function that returns int64"),
    ("grad of no number", lambda: npc.grad(lambda x: "text")(X), "the value of a function under grad"),
    ("grad of a tuple", lambda: npc.grad(lambda x: (x.sum(), 1))(X), "the value of a function under grad"),
    ("grad by integers", lambda: npc.grad(np.sum)(np.arange(3)), "a derivative with respect to int64 numbers"),
    ("grad by booleans", lambda: npc.grad(np.sum)(np.ones(3, bool)), "a derivative with respect to bool numbers"),
    ("grad by text", lambda: npc.grad(lambda x: 1.0)("text"), "an argument to differentiate with respect to"),
    ("too few arguments", lambda: npc.grad(loss, 3)(X, W, B), "argnums=3, but 3 positional arguments"),
    ("no aux", lambda: npc.grad(np.sum, has_aux=True)(X), "must return a pair"),
    ("jacobian of an integer", lambda: npc.jacobian(lambda x: np.argsort(x))(X), "the jacobian of a function that returns int64"),
    ("another tangent's shape", lambda: npc.jvp(np.sin, (X,), (X[0],)), "a tangent"),
    ("another tangent's dtype", lambda: npc.jvp(np.sin, (X,), (X.astype("f4"),)), "a tangent"),
    ("too few tangents", lambda: npc.jvp(loss, (X, W, B), (X,)), "1 tangents for 3 arguments"),
    ("sizes of batches", lambda: npc.vmap(np.add)(X, X[:3]), "vmap over axes of sizes 4 and 3"),
    ("no axis", lambda: npc.vmap(np.add, (None, None))(X, X), "vmap of no argument"),
    ("axis out of range", lambda: npc.vmap(np.sum, 2)(X), "vmap over axis 2 of an array with 2 dimensions"),
    ("number without axes", lambda: npc.vmap(np.sin)(1.0), "vmap over axis 0 of an array with 0 dimensions"),
    ("too few axes", lambda: npc.vmap(np.add, (0,))(X, X), "in_axes has 1 entries, but 2 positional arguments"),
    ("no rule", lambda: npc.grad(multiplied_at)(X[0]), "multiply"),
]


@pytest.mark.parametrize(("call", "message"), [pytest.param(*row[1:], id=row[0]) for row in ERRORS])
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(npc.GraphBreakError, match=message):
        call()


def test_errors_of_the_function_are_its_own() -> None:
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        npc.grad(loss)(X)
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        npc.grad(loss)(X, W.T, B)
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        npc.jacobian(lambda x: x[7])(X[0])


def test_errors_of_running_are_numpys() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        npc.grad(lambda x: np.linalg.inv(x).sum())(np.zeros((3, 3)))
