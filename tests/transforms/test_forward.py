"""Jacobian-vector products against differences, and against the vector-Jacobian products that they transpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npcompile.tensor_core import OPS, Builder, Decline, TensorMeta
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Node, topological
from npcompile.tensor_core.transforms.batch import batch
from npcompile.tensor_core.transforms.forward import derivatives
from npcompile.tensor_core.transforms.reverse import gradients, is_differentiable
from npcompile.tensor_core.transforms.value import Value
from tests.backends import BACKENDS
from tests.transforms.cases import CASES, Case, apply_numpy, close, execute, has_derivative, meta_of, results_of

FLOAT64 = np.dtype(float)
# The derivative of custom_gradient is what its user says.
DIFFERENTIABLE = sorted(name for name in CASES if OPS[name].vjp is not None and name != "custom_gradient")
STEP = 1e-6
# Functions of Hermitian matrices are differentiated along Hermitian directions: both triangles share what one holds.
HERMITIAN = {"cholesky", "eigh", "eigvalsh"}


def moved_off_corners(op: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The operand a little away from where functions have steps and corners, and from equal elements."""
    if x.dtype.kind not in "fc" or op in HERMITIAN:
        return x
    return x + rng.uniform(0.001, 0.02, x.shape) * (0 if isinstance(OPS[op].numpy, np.ufunc) else 1)


def hermitian(x: np.ndarray) -> np.ndarray:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def direction(op: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    t = rng.uniform(-1, 1, x.shape) + (1j * rng.uniform(-1, 1, x.shape) if x.dtype.kind == "c" else 0)
    return np.asarray(hermitian(t) if op in HERMITIAN else t, x.dtype)


def full_like(node: Node, found: Node | None, builder: Builder) -> Node:
    return Value(builder, node).zeros().node if found is None else found


def check(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [moved_off_corners(case.op, x, rng) for x in case.make(rng)]
    if case.op in HERMITIAN:
        arrays = [hermitian(x) for x in arrays]
    builder = Builder()
    operands = [builder.input(meta_of(x)) for x in arrays]
    results = results_of(builder, builder.apply(case.op, *operands, **case.params))
    moving = [k for k, x in enumerate(operands) if is_differentiable(x.meta)]
    directions = [direction(case.op, arrays[k], rng) for k in moving]
    tangents = [builder.input(meta_of(t)) for t in directions]
    made = derivatives(builder, results, [operands[k] for k in moving], tangents)
    graph = builder.finish([full_like(r, d, builder) for r, d in zip(results, made)])
    found = execute("eager", graph, [*arrays, *directions])

    def at(step: float) -> list[np.ndarray]:
        moved = [x + step * directions[moving.index(k)] if k in moving else x for k, x in enumerate(arrays)]
        return apply_numpy(case, list(map(np.asarray, moved)))

    for before, after, derivative, result in zip(at(-STEP), at(STEP), found, results):
        if not is_differentiable(result.meta):
            continue
        along = (after - before) / (2 * STEP)
        scale = 1 + np.max(np.abs(along), initial=0)
        np.testing.assert_allclose(derivative, along, rtol=1e-5, atol=1e-6 * scale, err_msg=f"{case.op} {case.params}")


def is_double(case: Case) -> bool:
    """Are the operands precise enough for differences, and is there something to move?"""
    dtypes = [x.dtype for x in case.make(np.random.default_rng(0))]
    return any(d.kind in "fc" for d in dtypes) and all(d.kind not in "fc" or d.char in "dD" for d in dtypes)


def is_unique(case: Case) -> bool:
    """The phase of a complex eigenvector is free: differences of what LAPACK chooses say nothing."""
    return case.op not in ("eig", "eigh") or case.make(np.random.default_rng(0))[0].dtype.kind != "c"


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivative_of_each_op(name: str) -> None:
    cases = [case for case in CASES[name] if is_double(case)]
    for case in cases:
        if has_derivative(case) and is_unique(case):
            check(case, 3)
        elif not has_derivative(case):
            with pytest.raises(Decline):
                check(case, 3)


# --- programs


def program(builder: Builder, x: Node, w: Node, v: Node) -> list[Node]:
    """softmax(tanh(x @ w) * v), its largest element, and something that does not depend on w."""
    product = builder.apply("einsum", x, w, inputs=((0,), (0, 1)), output=(1,))
    y = Value(builder, product).tanh() * Value(builder, v)
    shifted = (y - y.reduce("maximum", [0], keepdims=True).broadcast_to(y.shape)).exp()
    softmax = shifted / shifted.sum(keepdims=True).broadcast_to(y.shape)
    return [softmax.node, softmax.reduce("maximum", [0]).node, Value(builder, x).sin().node]


def shapes(m: Size = 3, n: Size = 4) -> list[TensorMeta]:
    return [TensorMeta(shape, FLOAT64) for shape in ((m,), (m, n), (n,))]


def arrays_like(inputs: list[Node], sizes: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, [n if isinstance(n, int) else sizes[str(n)] for n in x.shape]) for x in inputs]


def check_program(backend: str, sizes: dict[str, int] | None = None) -> None:
    builder = Builder()
    symbols = {name: builder.env.symbol(name, 3, at_least=2) for name in sizes or ()}
    metas = shapes(*symbols.values())
    inputs = [builder.input(meta) for meta in metas]
    outputs = program(builder, *inputs)
    tangents = [builder.input(meta) for meta in metas]
    made = derivatives(builder, outputs, inputs, tangents)
    graph = builder.finish([*outputs, *(full_like(r, d, builder) for r, d in zip(outputs, made))])
    values = arrays_like(graph.inputs, sizes or {})
    given = [(sizes or {})[name] for name in graph.symbols]
    found = execute(backend, graph, [*values, *given])[3:]

    def at(step: float) -> list[np.ndarray]:
        moved = [x + step * t for x, t in zip(values, values[3:])]
        return execute("eager", graph, [*moved, *values[3:], *given])[:3]

    for before, after, derivative in zip(at(-STEP), at(STEP), found):
        np.testing.assert_allclose(derivative, (after - before) / (2 * STEP), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivative_of_a_program(backend: str) -> None:
    check_program(backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_derivative_of_a_program_of_symbolic_sizes(backend: str) -> None:
    check_program(backend, {"m": 5, "n": 2})


def test_forward_is_the_transpose_of_reverse() -> None:
    builder = Builder()
    inputs = [builder.input(meta) for meta in shapes()]
    outputs = program(builder, *inputs)
    tangents = [builder.input(x.meta) for x in inputs]
    cotangents = [builder.input(y.meta) for y in outputs]
    pushed = derivatives(builder, outputs, inputs, tangents)
    pulled = gradients(builder, outputs, cotangents, inputs)
    graph = builder.finish([full_like(x, d, builder) for x, d in zip([*outputs, *inputs], [*pushed, *pulled])])
    values = arrays_like(graph.inputs, {})
    found = execute("eager", graph, values)
    forward = sum(np.sum(c * d) for c, d in zip(values[6:], found[:3]))
    reverse = sum(np.sum(t * d) for t, d in zip(values[3:6], found[3:]))
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)


def test_zeros_are_none_and_placeholders_are_gone() -> None:
    builder = Builder()
    inputs = x, w, v = [builder.input(meta) for meta in shapes()]
    outputs = program(builder, x, w, v)
    tangent = builder.input(w.meta)
    softmax, largest, sine = derivatives(builder, outputs, inputs, [None, tangent, None])
    assert sine is None and softmax is not None and largest is not None
    assert not [node for node in topological([softmax, largest]) if node.op == "alias"]
    assert derivatives(builder, outputs, inputs, [None, None, None]) == [None, None, None]
    assert derivatives(builder, [builder.apply("floor", x), builder.apply("isnan", x)], [x], [x]) == [None, None]
    assert derivatives(builder, [x, w], [x], [x]) == [x, None]


def test_a_rule_may_look_at_the_cotangent_without_depending_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def vjp(g: Value, out: Value, x: Value) -> Value:
        return g.isfinite().where(g, 0) * x.cos()

    monkeypatch.setitem(OPS._rows, "sin", replace(OPS["sin"], vjp=vjp))
    builder = Builder()
    x, t = (builder.input(TensorMeta((3,), FLOAT64)) for _ in range(2))
    (found,) = derivatives(builder, [builder.apply("sin", x)], [x], [t])
    assert found is not None and not [node for node in topological([found]) if node.op == "alias"]
    values = arrays_like(builder.inputs, {})
    close(execute("eager", builder.finish([found]), values)[0], values[1] * np.cos(values[0]))


def test_second_derivatives() -> None:
    """Forward over reverse, and forward over forward: the Hessian's product, and its quadratic form."""
    builder = Builder()
    x, t = (builder.input(TensorMeta((3,), FLOAT64)) for _ in range(2))
    loss = (Value(builder, x).sin() * Value(builder, x)).sum().node
    (gradient,) = gradients(builder, [loss], [builder.constant(1, FLOAT64)], [x])
    (product,) = derivatives(builder, [gradient], [x], [t])
    (once,) = derivatives(builder, [loss], [x], [t])
    (twice,) = derivatives(builder, [once], [x], [t])
    a, b = arrays_like(builder.inputs, {})
    hessian = 2 * np.cos(a) - a * np.sin(a)
    found = execute("eager", builder.finish([product, twice]), [a, b])
    close(found[0], hessian * b)
    close(found[1], np.sum(hessian * b * b))


def test_complex_functions_that_are_not_holomorphic() -> None:
    builder = Builder()
    z, t = (builder.input(TensorMeta((4,), np.dtype(complex))) for _ in range(2))
    outputs = [builder.apply(name, z) for name in ("conjugate", "absolute", "real", "imag")]
    made = derivatives(builder, outputs, [z], [t])
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 4)) + 1j * rng.normal(size=(2, 4))
    found = execute("eager", builder.finish([full_like(r, d, builder) for r, d in zip(outputs, made)]), [a, b])
    for result, wanted in zip(found, (b.conj(), (a.conj() * b).real / abs(a), b.real, b.imag)):
        close(result, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_jacobian_is_a_batch_of_derivatives(backend: str) -> None:
    builder = Builder()
    x = builder.input(TensorMeta((3,), FLOAT64))
    y = (Value(builder, x) * Value(builder, x).sum()).node
    t = builder.input(x.meta)
    (derivative,) = derivatives(builder, [y], [x], [t])
    directions = builder.input(TensorMeta((3, 3), FLOAT64))
    ((jacobian, is_batched),) = batch(builder, [derivative], {t: directions}, 3)
    assert is_batched
    a = np.array([0.5, -1, 2])
    (found,) = execute(backend, builder.finish([jacobian]), [a, a, np.eye(3)])
    close(found.T, np.outer(a, np.ones(3)) + a.sum() * np.eye(3))


def test_an_op_without_a_rule_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS._rows, "sin", replace(OPS["sin"], vjp=None))
    builder = Builder()
    x, t = (builder.input(TensorMeta((3,), FLOAT64)) for _ in range(2))
    with pytest.raises(Decline, match="sin has no derivative"):
        derivatives(builder, [builder.apply("sin", x)], [x], [t])
