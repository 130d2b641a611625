"""Every `vjp` rule of the op table against differences of the op itself, to second order, by NumPy and compiled."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npcompile.backends import cpu, eager  # noqa: F401  (registers the backends)
from npcompile.backends.registry import find_backend
from npcompile.tensor_core import OPS, Builder, Node, ShapeEnv, TensorMeta
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import run
from npcompile.tensor_core.ops.elementwise import sample
from npcompile.tensor_core.ops.reduction import DERIVATIVE_OF_REDUCE, DERIVATIVE_OF_SCAN
from npcompile.tensor_core.transforms.reverse import gradients
from tests.ops.table import BFLOAT16, numbers
from tests.ops.test_elementwise import UFUNC_ROWS, has_loop
from tests.ops.test_reduction import AXES
from tests.ops.test_structure import indexing, movement

STEP = 1e-6  # of central differences in long double: rounding and curvature are both about 1e-12
NOT_HOLOMORPHIC = {"absolute", "sign", "conjugate", "maximum", "minimum", "fmax", "fmin"}


@dataclass(frozen=True)
class Case:
    op: str
    arrays: list[np.ndarray]
    params: dict[str, Any]


# --- an op, its gradients, and theirs, as nodes


@dataclass
class Derivatives:
    """All nodes of one case in one builder, and the values of its inputs."""

    case: Case
    builder: Builder
    rng: np.random.Generator
    values: list[np.ndarray]

    def __init__(self, case: Case, seed: int = 0, builder: Builder | None = None, values: list[np.ndarray] | None = None) -> None:
        self.case, self.rng = case, np.random.default_rng(seed)
        self.builder = Builder() if builder is None else builder
        self.values = [] if values is None else values
        self.xs = [self.input(x) for x in case.arrays]
        self.floats = [x for x in self.xs if x.dtype.kind in "fc"]
        self.out = self.builder.apply(case.op, *self.xs, **case.params)
        self.cotangent = self.random_like(self.out)
        self.first = self.gradients([self.out], [self.cotangent], self.floats)
        self.directions = [self.random_like(x) for x in self.floats]
        self.second = self.gradients(self.first, self.directions, [*self.floats, self.cotangent])

    def input(self, x: np.ndarray) -> Node:
        self.values.append(x)
        return self.builder.input(TensorMeta(x.shape, x.dtype, x.strides))

    def random_like(self, node: Node) -> Node:
        return self.input(numbers(node.dtype, self.rng, node.shape, ordinary=True) / 9)

    def gradients(self, outputs: Sequence[Node], cotangents: Sequence[Node], wrt: Sequence[Node]) -> list[Node]:
        found = gradients(self.builder, outputs, cotangents, wrt)
        for node, x in zip(found, wrt):
            assert node is None or (node.dtype, node.shape) == (x.dtype, x.shape)
        zeros = [self.builder.apply("broadcast_to", self.builder.constant(0, x.dtype), shape=x.shape) for x in wrt]
        return [zero if node is None else node for node, zero in zip(found, zeros)]

    @property
    def outputs(self) -> list[Node]:
        return [self.out, *self.first, *self.second]

    def evaluate(self, nodes: Sequence[Node], moved: dict[Node, np.ndarray] | None = None, by: Any = 0) -> list[np.ndarray]:
        """The nodes with NumPy, each input of `moved` displaced by `by` times a direction."""
        values = list(self.values)
        for node, direction in (moved or {}).items():
            index = node.params["index"]
            values[index] = values[index] + by * direction
        return evaluate(self.builder, nodes, values)

    def value(self, node: Node) -> np.ndarray:
        return self.values[node.params["index"]]


def evaluate(builder: Builder, nodes: Sequence[Node], values: Sequence[Any]) -> list[np.ndarray]:
    """The nodes for values of the builder's inputs, op by op with NumPy."""
    graph = builder.finish(nodes)
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in run(graph, values, lambda op, *xs, **params: op.eager(*xs, **params))[0]]


def pair(cotangent: np.ndarray, x: np.ndarray) -> Any:
    """The real number that a cotangent makes of x."""
    return np.sum(cotangent * x).real


def check_against_differences(case: Case, seed: int) -> None:
    """First and second derivatives along random directions, and the derivative of the result itself."""
    d = Derivatives(case, seed)
    v = dict(zip(d.floats, map(d.value, d.directions)))
    w = d.value(d.cotangent)
    first = d.evaluate(d.first)
    second = d.evaluate(d.second)
    check_difference(d, [d.out], [w], v, first)
    z = v | {d.cotangent: numbers(d.out.dtype, d.rng, d.out.shape, ordinary=True) / 9}
    check_difference(d, d.first, list(v.values()), z, second)
    # The gradient is linear in the cotangent: its derivative along v is the result's derivative along v.
    before, after = (d.evaluate([d.out], v, by)[0] for by in (-STEP, STEP))
    along = (after - before) / (2 * STEP)
    np.testing.assert_allclose(second[-1], along, rtol=1e-6, atol=1e-7 * (1 + np.max(np.abs(along), initial=0)))


def check_difference(
    d: Derivatives,
    nodes: Sequence[Node],
    cotangents: Sequence[np.ndarray],
    moved: dict[Node, np.ndarray],
    found: Sequence[np.ndarray],
) -> None:
    """The pairing of `found` with the directions is the slope of the pairing of `nodes` with the cotangents."""

    def loss(by: float) -> Any:
        return sum(pair(w, x) for w, x in zip(cotangents, d.evaluate(nodes, moved, by)))

    slope = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    parts = [g * v for g, v in zip(found, moved.values(), strict=True)]
    size = abs(loss(0)) + sum(np.abs(p).sum() for p in parts)
    assert np.isfinite(slope)
    assert abs(sum(p.sum().real for p in parts) - slope) <= 1e-7 * size + 1e-10, (sum(p.sum().real for p in parts), slope)


# --- cases: (real dtype) -> one for each op and parameters worth telling apart


def complex_of(real: np.dtype) -> np.dtype:
    return np.result_type(real, np.complex64)


def ufunc_cases(name: str, real: np.dtype) -> list[Case]:
    """The row's own samples, for each loop of this precision."""
    op, rng, found = OPS[name], np.random.default_rng(21), []
    if real == BFLOAT16:
        loop = (real,) * op.numpy.nin
        samples = zip(*(op.samples(dtype, rng) for dtype in loop)) if has_loop(op.numpy, loop) else ()
        return [Case(name, [arguments[k] for k, arguments in enumerate(sample)], {}) for sample in samples]
    for text in dict.fromkeys(op.numpy.types):
        dtypes = [np.dtype(c) for c in text.split("->")[0] if c in "?bBhHiIlLqQefdgFDG"]
        if len(dtypes) == op.numpy.nin and dtypes[0] in (real, complex_of(real)):
            samples = zip(*(op.samples(dtype, rng) for dtype in dtypes))
            found += [Case(name, [arguments[k] for k, arguments in enumerate(sample)], {}) for sample in samples]
    return found


def ordinary(dtype: np.dtype, seed: int, *shape: int) -> np.ndarray:
    """No two numbers are equal."""
    return sample(dtype, np.random.default_rng(seed), (-9, 9), int(np.prod(shape))).reshape(shape)


def parts(real: np.dtype) -> list[Case]:
    x, z = ordinary(real, 1, 2, 3), ordinary(complex_of(real), 2, 2, 3)
    condition = np.array([[True, False, True], [False, False, True]])
    return [
        Case("cast", [x], {"dtype": z.dtype}),
        Case("cast", [z], {"dtype": x.dtype}),
        Case("laid_out", [x], {"strides": np.asfortranarray(x).strides}),
        Case("where", [condition, x, x + 1], {}),
        Case("where", [condition, z, z + 1], {}),
        *(Case(op, [v], {}) for op in ("real", "imag") for v in (x, z)),
        *(Case(op, [v, v + 2], {}) for op in ("zero_or_multiply", "zero_or_divide") for v in (x, z)),
        *([Case("complex", [x, x + 1], {})] if z.real.dtype == real else []),
    ]


def structure(real: np.dtype) -> list[Case]:
    """The cases by which the ops themselves are tested."""
    found = []
    for dtype in (real, complex_of(real)):
        x = ordinary(dtype, 3, 2, 3, 4)
        for op, arrays, params, _ in chain(movement(x), indexing(x)):
            arrays = [a if a.dtype.kind == "i" else ordinary(dtype, k, *a.shape) for k, a in enumerate(arrays)]
            found.append(Case(op, arrays, params))
        found += [Case("scatter", [x, ordinary(dtype, 4, 5, 4), *np.array([[0, 1, 0, 0, 1], [2, -1, 2, 1, 2]])], {"mode": "set"})]
        found += [Case("gather", [x, np.array(1), np.array(-1)], {}), Case("permute", [x], {"axes": (2, 0, 1)})]
    return [case for case in found if case.params.get("mode") != "multiply"]


def with_zeros(x: np.ndarray, *zeros: tuple[int, ...]) -> np.ndarray:
    x = x.copy()
    for place in zeros:
        x[place] = 0
    return x


def reductions(real: np.dtype) -> list[Case]:
    found = []
    for dtype in (real, complex_of(real)):
        x = ordinary(dtype, 5, 2, 3, 4) / 4
        zeros = with_zeros(x, (0, 0, 1), (0, 1, 2), (0, 1, 3), (1, 0, 0), (1, 0, 2), (1, 0, 3), (1, 2, 3))
        found += [Case("reduce", [x], {"reducer": r, "axes": axes}) for r in DERIVATIVE_OF_REDUCE for axes in [(), *AXES]]
        found += [Case("reduce", [zeros], {"reducer": "multiply", "axes": axes}) for axes in AXES]
        found += [Case("reduce", [x[:, :0]], {"reducer": r, "axes": (1,)}) for r in ("add", "multiply")]
        found += [Case("scan", [x], {"reducer": r, "axis": axis}) for r in DERIVATIVE_OF_SCAN for axis in range(3)]
        found += [Case("scan", [zeros], {"reducer": "multiply", "axis": axis}) for axis in range(3)]
        found += [Case("scan", [x[:, :0]], {"reducer": r, "axis": axis}) for r in ("add", "multiply") for axis in (1, 2)]
    return found


def contractions(real: np.dtype) -> list[Case]:
    axes = "ijkl"
    sizes = dict(zip(axes, (2, 3, 4, 5)))
    texts = "ij,jk->ik ij-> ij->ji ij,ij->i ij,ij-> kij,kjl->kil ij,k->ik i,j->ij ij,jk,kl->il ,ij->j".split()
    found = []
    for dtype in (real, complex_of(real)):
        for text in texts:
            *inputs, output = re.split(",|->", text)
            operands = [ordinary(dtype, 6 + k, *(sizes[a] for a in part)) / 4 for k, part in enumerate(inputs)]
            numbered = {"inputs": tuple(tuple(map(axes.index, p)) for p in inputs), "output": tuple(map(axes.index, output))}
            found += [Case("einsum", operands, numbered | block) for block in ({}, {"block": 2})]
    return found


FAMILIES = {"parts": parts, "structure": structure, "reductions": reductions, "contractions": contractions}
LONG, FLOAT64 = np.dtype(np.longdouble), np.dtype(float)
RULED_UFUNCS = [name for name in UFUNC_ROWS if OPS[name].vjp is not None]


HOLOMORPHIC = [
    name
    for name in RULED_UFUNCS
    if name not in NOT_HOLOMORPHIC and {f"{c * OPS[name].loops.nin}->{c}" for c in "dD"} <= set(OPS[name].numpy.types)
]


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_gradient_by_complex_step(name: str) -> None:
    """f(x + ih) is f(x) + ih f'(x) to the last digit where h is tiny: nothing is subtracted, so nothing cancels."""
    step = 1e-30
    cases = [c for c in ufunc_cases(name, FLOAT64) if all(x.dtype == FLOAT64 for x in c.arrays)]
    assert cases
    for case in cases:
        d = Derivatives(case)
        for k, found in enumerate(d.evaluate(d.first)):
            moved = [x + 1j * step * (j == k) for j, x in enumerate(case.arrays)]
            with np.errstate(all="ignore"):
                expected = d.value(d.cotangent) * OPS[name].numpy(*moved).imag / step
            np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)  # tanh: 1 - out * out cancels


@pytest.mark.parametrize("name", RULED_UFUNCS)
def test_ufunc(name: str) -> None:
    cases = ufunc_cases(name, LONG)
    assert cases
    for seed, case in enumerate([*cases, *cases]):
        check_against_differences(case, seed)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_family(family: str) -> None:
    for seed, case in enumerate(FAMILIES[family](LONG)):
        try:
            check_against_differences(case, seed)
        except AssertionError as error:
            raise AssertionError(f"{case.op} {[x.shape for x in case.arrays]} {case.params}: {error}") from error


def test_every_rule_is_tested() -> None:
    """Rows of libraries and of control flow have tests of their own; the rule of custom_gradient is the user's.

    Operators of scalars have the rules of the ufuncs: tests/tracer/python/test_{complex_scalars,powers_of_scalars}.py.
    """
    ruled = {name for name, op in OPS.items() if op.vjp is not None and op.kind not in ("extern", "control")} - {
        "custom_gradient",
        "scalar_absolute",
        "scalar_multiply",
        "scalar_power",
    }
    assert ruled == {*RULED_UFUNCS, *(case.op for family in FAMILIES.values() for case in family(FLOAT64))}


# --- compiled, and in other precisions


def check_compiled(cases: Sequence[Case]) -> None:
    """Results and gradients of first and second order of all cases, as one compiled graph, are NumPy's."""
    builder, values = Builder(), []
    all_cases = [Derivatives(case, seed, builder, values) for seed, case in enumerate(cases)]
    nodes = [node for d in all_cases for node in d.outputs]
    expected = all_cases[0].evaluate(nodes)
    graph = replace(builder.finish(nodes), checks=frozenset())
    found = find_backend("cpu")(graph, values)(*values)
    names = [f"{d.case.op} {d.case.params}" for d in all_cases for _ in d.outputs]
    for name, result, want in zip(names, found, expected, strict=True):
        scale = np.max(np.abs(want), initial=1)
        np.testing.assert_allclose(result, want, rtol=1e-9, atol=1e-12 * scale, err_msg=name)


@pytest.mark.parametrize("name", RULED_UFUNCS)
def test_compiled_ufunc(name: str) -> None:
    check_compiled(ufunc_cases(name, FLOAT64))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_compiled_family(family: str) -> None:
    cases = FAMILIES[family](FLOAT64)
    check_compiled(random.Random(0).sample(cases, min(len(cases), 24)))


PRECISIONS = [
    (name, p) for name in RULED_UFUNCS for p in (ml_dtypes.bfloat16, np.float16, np.float32) if ufunc_cases(name, np.dtype(p))
]


@pytest.mark.parametrize(("name", "precision"), PRECISIONS)
def test_gradients_have_the_dtype_of_the_operand(name: str, precision: type) -> None:
    for case in ufunc_cases(name, np.dtype(precision)):
        d = Derivatives(case)
        precise = {x.dtype: np.result_type(x.dtype, np.float64) for x in (*d.xs, d.out)}
        wide = [x.astype(precise[x.dtype]) if kind_of(x.dtype) in "fc" else x for x in case.arrays]
        e = Derivatives(Case(name, wide, case.params))
        e.values[e.cotangent.params["index"]] = d.value(d.cotangent).astype(e.out.dtype)
        rtol = (8 if precision is ml_dtypes.bfloat16 else 50) * float(ml_dtypes.finfo(precision).eps)
        for x, gradient, want in zip(d.floats, d.evaluate(d.first), e.evaluate(e.first)):
            assert gradient.dtype == x.dtype
            np.testing.assert_allclose(gradient.astype(want.dtype), want, rtol=rtol, atol=rtol)


# --- complex steps


@pytest.mark.parametrize("name", [n for n in RULED_UFUNCS if n not in NOT_HOLOMORPHIC and "D" in "".join(OPS[n].numpy.types)])
def test_complex_step(name: str) -> None:
    """f(x + ih) = f(x) + ih f'(x): to the last digits, as nothing is subtracted."""
    d = Derivatives(ufunc_cases(name, FLOAT64)[0])
    step = 1e-30
    for x, gradient in zip(d.floats, d.evaluate(d.first)):
        operands = [v + 1j * step if other is x else v.astype(complex) for v, other in zip(d.case.arrays, d.xs)]
        slope = OPS[name].eager(*operands).imag / step
        np.testing.assert_allclose(gradient, d.value(d.cotangent) * slope, rtol=1e-12, atol=1e-12)


# --- sizes that are not known


SYMBOLIC: list[tuple[str, Any]] = [  # op, n -> (shapes of the operands, params); a list is the shape of indices
    ("reduce", lambda n: ([(n, 3)], {"reducer": "add", "axes": (0,)})),
    ("reduce", lambda n: ([(3, n)], {"reducer": "multiply", "axes": (0, 1)})),
    ("reduce", lambda n: ([(n, n)], {"reducer": "maximum", "axes": (0,)})),
    ("scan", lambda n: ([(n, 3)], {"reducer": "add", "axis": 0})),
    ("scan", lambda n: ([(3, n)], {"reducer": "multiply", "axis": 1})),
    ("scan", lambda n: ([(3, n)], {"reducer": "minimum", "axis": 1})),
    ("gather", lambda n: ([(n, 2), [n]], {})),
    ("scatter", lambda n: ([(n, 2), (n, 2), [n]], {"mode": "set"})),
    ("scatter", lambda n: ([(n, 2), (n, 2), [n]], {"mode": "add"})),
    ("scatter", lambda n: ([(n,), (n,), [n]], {"mode": "fmin"})),
    ("concatenate", lambda n: ([(n, 2), (3, 2), (n, 2)], {"axis": 0})),
    ("slice", lambda n: ([(n, 2)], {"start": (n - 1, 0), "step": (-1, 1), "shape": (n, 1)})),
    ("slice_update", lambda n: ([(n + 2, 2), (n, 1)], {"start": (2, 1), "step": (1, 1)})),
    ("broadcast_to", lambda n: ([(n, 1)], {"shape": (2, n, 3)})),
    ("reshape", lambda n: ([(n, 3)], {"shape": (3 * n,)})),
    ("permute", lambda n: ([(n, 3, 2)], {"axes": (2, 0, 1)})),
    ("einsum", lambda n: ([(n, 3), (3, 2), (n,)], {"inputs": ((0, 1), (1, 2), (3,)), "output": (0, 2)})),
]


@pytest.mark.parametrize(("op", "sized"), SYMBOLIC, ids=[f"{op}-{k}" for k, (op, _) in enumerate(SYMBOLIC)])
def test_symbolic_sizes(op: str, sized: Any) -> None:
    """Gradients with a symbol for n are, for each n, those made for it; and no equality was asked."""

    def build(n: Any, env: ShapeEnv) -> tuple[Builder, list[Node], list[Node]]:
        builder = Builder(env=env)
        shapes, params = sized(n)
        xs = [builder.input(TensorMeta(tuple(s), np.dtype(int) if isinstance(s, list) else FLOAT64)) for s in shapes]
        out = builder.apply(op, *xs, **params)
        floats = [x for x in xs if x.dtype == FLOAT64]
        first = gradients(builder, [out], [builder.apply("sin", out)], floats)
        second = gradients(builder, first, [builder.apply("cos", x) for x in floats], floats)
        return builder, xs, [*first, *(node for node in second if node is not None)]

    env = ShapeEnv()
    builder, _, nodes = build(env.symbol("n", 5, at_least=2), env)
    assert not env.fixed and not [guard for guard in env.guards if {"==", "!="} & {*guard.symbols}]
    for n in (2, 5, 8):
        rng = np.random.default_rng(n)
        static, same_xs, same_nodes = build(n, ShapeEnv())
        values = [rng.integers(-2, 2, x.shape) if x.dtype.kind == "i" else rng.uniform(-2, 2, x.shape) for x in same_xs]
        graph = builder.finish(nodes)
        for call in (find_backend("eager")(graph, values), find_backend("cpu")(graph, values)):
            for result, want in zip(call(*values, n), evaluate(static, same_nodes, values), strict=True):
                np.testing.assert_allclose(result, want, rtol=1e-12, atol=1e-14)
