"""Derivatives of linear algebra, Fourier transforms and sorting: first and second, against differences in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from npcompile.backends.registry import find_backend
from npcompile.tensor_core import OPS, Builder, Decline, TensorMeta
from npcompile.tensor_core.graph import Node, run
from npcompile.tensor_core.ops.linalg_gradients import adjoint, conj, in_rows, matmul
from npcompile.tensor_core.transforms.reverse import gradients
from npcompile.tensor_core.transforms.value import Value
from tests.backends import BACKENDS

Function = Callable[..., Sequence[Value]]  # of Values
RNG_SEED = 5
STEP = 1e-6


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    values = rng.uniform(-2, 2, shape)
    return (values + 1j * rng.uniform(-2, 2, shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def evaluated(builder: Builder, nodes: Sequence[Node], arrays: Sequence[np.ndarray], backend: str = "run") -> list[np.ndarray]:
    graph = builder.finish(nodes)
    with np.errstate(all="ignore"):
        if backend == "run":
            return run(graph, arrays, lambda op, *xs, **params: op.eager(*xs, **params))[0]
        return list(find_backend(backend)(graph, arrays)(*arrays))


def inputs_of(builder: Builder, arrays: Sequence[np.ndarray]) -> list[Value]:
    return [Value(builder, builder.input(TensorMeta(x.shape, x.dtype))) for x in arrays]


def paired(x: Value, weight: Value) -> Value:
    """Re <weight, x>, a real number, without conjugation."""
    total = (x * weight).sum()
    return total.real() if total.dtype.kind == "c" else total


class Loss:
    """A real number made of a function's results and random weights, and its derivatives along random directions."""

    def __init__(self, function: Function, arrays: Sequence[np.ndarray], seed: int = RNG_SEED):
        self.function, self.arrays = function, [np.asarray(a) for a in arrays]
        self.rng = np.random.default_rng(seed)
        builder = Builder()
        self.weights = [numbers(self.rng, tuple(y.shape), y.dtype) for y in function(*inputs_of(builder, self.arrays))]
        self.directions = [numbers(self.rng, a.shape, a.dtype) for a in self.arrays]

    def build(self, order: int) -> tuple[Builder, list[Value], Value]:
        """The loss (order 0) or its derivative along the directions (order 1), as one number."""
        builder = Builder()
        values = inputs_of(builder, [*self.arrays, *self.weights, *self.directions])
        xs, rest = values[: len(self.arrays)], values[len(self.arrays) :]
        weights, directions = rest[: len(self.weights)], rest[len(self.weights) :]
        total = self.summed(paired(y, w) for y, w in zip(self.function(*xs), weights, strict=True))
        for _ in range(order):
            found = self.gradients(total, xs)
            total = self.summed(paired(g, d) for g, d in zip(found, directions))
        return builder, xs, total

    @staticmethod
    def summed(parts: Any) -> Value:
        first, *rest = parts
        for part in rest:
            first = first + part
        return first

    @staticmethod
    def gradients(total: Value, xs: Sequence[Value]) -> list[Value]:
        one = total.like(1)
        found = gradients(total.builder, [total.node], [one.node], [x.node for x in xs])
        return [x.zeros() if g is None else total.of(g) for g, x in zip(found, xs)]

    def value(self, order: int, shift: float) -> float:
        builder, _, total = self.build(order)
        moved = [a + shift * d for a, d in zip(self.arrays, self.directions)]
        (result,) = evaluated(builder, [total.node], [*moved, *self.weights, *self.directions])
        return float(result)

    def check(self, order: int, rtol: float = 2e-6) -> None:
        """Derivative number order + 1 along the directions, against the difference of derivative number `order`."""
        expected = (self.value(order, STEP) - self.value(order, -STEP)) / (2 * STEP)
        np.testing.assert_allclose(self.value(order + 1, 0.0), expected, rtol=rtol, atol=1e-6 * max(1, abs(expected)))

    def all_gradients(self, backend: str) -> list[np.ndarray]:
        builder, xs, total = self.build(0)
        found = self.gradients(total, xs)
        return evaluated(builder, [g.node for g in found], [*self.arrays, *self.weights, *self.directions], backend)


def items(x: Value, *which: int) -> list[Value]:
    return [x.op("item", index=k) for k in which]


def hermitian(x: Value) -> Value:
    return (x + adjoint(x)) * 0.5


def positive(x: Value) -> Value:
    identity = x.builder.apply("literal", data=np.eye(3, dtype=x.dtype).tobytes(), dtype=x.dtype, shape=(3, 3))
    return matmul(x, adjoint(x)) + x.of(identity).broadcast_to(x.shape)


def squares(x: Value) -> Value:
    """|x|^2: a factor of absolute value 1 is free in each vector, and a device's library has another one."""
    return x * conj(x)


def op(name: str, **params: Any) -> Function:
    return lambda *xs: [xs[0].op(name, *xs[1:], **params)]


def eigh(uplo: str) -> Function:
    def function(x: Value) -> list[Value]:
        w, v = items(hermitian(x).op("eigh", uplo=uplo), 0, 1)
        return [w, squares(v)]

    return function


def powers(w: Value) -> list[Value]:
    """Sums over eigenvalues, which have no order."""
    return [x.sum([x.ndim - 1]) for x in (w, w * w, w * w * w)]


def eig(x: Value) -> list[Value]:
    w, v = items(x.op("eig"), 0, 1)
    sizes = squares(v)
    return [*powers(w), *((sizes * in_rows(p, v)).sum([v.ndim - 1]) for p in (w, w * w))]


def svd(full_matrices: bool, *which: int) -> Function:
    def function(x: Value) -> list[Value]:
        u, s, vh = items(x.op("svd", full_matrices=full_matrices), 0, 1, 2)
        found = {0: squares(u), 1: s, 2: squares(vh)}
        both = [matmul(u, vh)] if {0, 2} <= set(which) and not full_matrices else []
        return [*(found[k] for k in which), *both]

    return function


def qr(mode: str, *which: int) -> Function:
    def function(x: Value) -> list[Value]:
        result = x.op("qr", mode=mode)
        return [result] if mode == "r" else items(result, *which)

    return function


def lstsq(*which: int) -> Function:
    return lambda a, b: items(a.op("lstsq", b, rcond=None), *which)


def partition(x: Value) -> list[Value]:
    """The elements that are in their places: the others may be in any order."""
    found = x.op("partition", kth=(2, 4), axis=1)
    return [found.op("slice", start=(0, k, 0), step=(1, 1, 1), shape=(3, 1, 2)) for k in (2, 4)]


M3, S3 = (3, 3), (2, 3, 3)
TALL, WIDE = (2, 4, 3), (2, 3, 5)
# name -> (function, shapes of the arguments)
CASES: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "solve": (op("solve"), (S3, (2, 3, 2))),
    "solve one": (op("solve"), (M3, (3, 1))),
    "lstsq square": (lstsq(0), (M3, (3, 2))),
    "lstsq tall": (lstsq(0, 1, 3), ((5, 3), (5, 2))),
    "lstsq wide": (lstsq(0), (WIDE, (2, 3, 2))),
    "inv": (op("inv"), (S3,)),
    "det": (op("det"), (S3,)),
    "det 1": (op("det"), ((1, 1),)),
    "det 4": (op("det"), ((4, 4),)),
    "cofactor": (op("cofactor"), (S3,)),
    "slogdet": (lambda x: items(x.op("slogdet"), 0, 1), (S3,)),
    "logabsdet": (lambda x: items(x.op("slogdet"), 1), (M3,)),
    "sign": (lambda x: [*items(x.op("slogdet"), 0), x], (M3,)),
    "cholesky": (lambda x: [positive(x).op("cholesky", upper=False)], (S3,)),
    "cholesky upper": (lambda x: [positive(x).op("cholesky", upper=True)], (M3,)),
    "qr square": (qr("reduced", 0, 1), (S3,)),
    "qr tall": (qr("reduced", 0, 1), (TALL,)),
    "qr wide": (qr("reduced", 0, 1), (WIDE,)),
    "qr wide complete": (qr("complete", 0, 1), (WIDE,)),
    "qr tall complete, r": (qr("complete", 1), (TALL,)),
    "qr q": (qr("reduced", 0), (TALL,)),
    "qr q wide": (qr("reduced", 0), (WIDE,)),
    "qr r": (qr("r"), (TALL,)),
    "qr r wide": (qr("r"), (WIDE,)),
    "eigh": (eigh("L"), (S3,)),
    "eigh upper": (eigh("U"), (M3,)),
    "eigvalsh": (lambda x: [hermitian(x).op("eigvalsh", uplo="L")], (S3,)),
    "eigvalsh upper": (lambda x: [hermitian(x).op("eigvalsh", uplo="U")], (M3,)),
    "eig": (eig, (S3,)),
    "eig values": (lambda x: powers(*items(x.op("eig"), 0)), (M3,)),
    "eigvals": (lambda x: powers(x.op("eigvals")), (S3,)),
    "svd square": (svd(True, 0, 1, 2), (S3,)),
    "svd tall": (svd(False, 0, 1, 2), (TALL,)),
    "svd wide": (svd(False, 0, 1, 2), (WIDE,)),
    "svd u": (svd(False, 0), (TALL,)),
    "svd vh": (svd(False, 2), (WIDE,)),
    "svd u wide": (svd(False, 0), (WIDE,)),
    "svd vh tall": (svd(False, 2), (TALL,)),
    "svd full tall": (svd(True, 1, 2), (TALL,)),
    "svd full wide": (svd(True, 0, 1), (WIDE,)),
    "svdvals": (op("svdvals"), (TALL,)),
    "svdvals wide": (op("svdvals"), (WIDE,)),
    "sort": (op("sort", axis=1, kind="quicksort"), ((3, 7, 2),)),
    "sort stable": (op("sort", axis=0, kind="stable"), ((9,),)),
    "partition": (partition, ((3, 9, 2),)),
}
for norm in ("backward", "ortho", "forward"):
    for n in (4, 5, 6, 9):
        CASES[f"fft {n} {norm}"] = (op("fft", n=n, axis=1, norm=norm), ((2, 5, 3),))
        CASES[f"ifft {n} {norm}"] = (op("ifft", n=n, axis=0, norm=norm), ((5, 2),))
        CASES[f"rfft {n} {norm}"] = (op("rfft", n=n, axis=1, norm=norm), ((2, 5, 3),))
        CASES[f"irfft {n} {norm}"] = (op("irfft", n=n, axis=1, norm=norm), ((2, 4, 3),))


def dtypes_of(name: str) -> str:
    return "d" if name.startswith("rfft") else "D" if name in ("eig", "eig values", "eigvals") else "dD"


def loss_of(name: str, dtype: str, seed: int = RNG_SEED) -> Loss:
    function, shapes = CASES[name]
    rng = np.random.default_rng([seed, len(name)])
    return Loss(function, [numbers(rng, shape, dtype) for shape in shapes], seed)


@pytest.mark.parametrize("name", CASES)
def test_first_derivatives(name: str) -> None:
    for dtype in dtypes_of(name):
        for seed in (1, 2, 3):
            loss_of(name, dtype, seed).check(0)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives(name: str) -> None:
    for dtype in dtypes_of(name):
        loss_of(name, dtype).check(1, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_gradients(backend: str) -> None:
    for name in CASES:
        if "fft" not in name or "5 ortho" in name:
            for dtype in dtypes_of(name):
                loss = loss_of(name, dtype)
                for ours, expected in zip(loss.all_gradients(backend), loss.all_gradients("run")):
                    np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_narrow_dtypes(name: str) -> None:
    """The gradient has its argument's dtype, and the value of the wide one."""
    for dtype in dtypes_of(name):
        wide = loss_of(name, dtype)
        narrow = loss_of(name, dtype)
        narrow.arrays = [a.astype(a.dtype.char.translate({ord("d"): "f", ord("D"): "F"})) for a in wide.arrays]
        narrow.weights = [a.astype(a.dtype.char.translate({ord("d"): "f", ord("D"): "F"})) for a in wide.weights]
        narrow.directions = [a.astype(b.dtype) for a, b in zip(wide.directions, narrow.arrays)]
        for ours, expected, x in zip(narrow.all_gradients("run"), wide.all_gradients("run"), narrow.arrays):
            assert ours.dtype == x.dtype
            scale = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(ours, expected, rtol=2e-2, atol=2e-3 * scale)


# --- what is documented of special cases


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", "dD")
def test_determinant_of_singular_matrices(rank: int, dtype: str) -> None:
    rng = np.random.default_rng(rank)
    x = numbers(rng, (4, rank), dtype) @ numbers(rng, (rank, 4), dtype)
    minors = [[np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) * (-1) ** (i + j) for j in range(4)] for i in range(4)]
    loss = Loss(op("det"), [x])
    loss.weights = [np.ones((), dtype)]
    np.testing.assert_allclose(loss.all_gradients("run")[0], minors, atol=1e-10)


@pytest.mark.parametrize("function", [lambda x: items(x.op("slogdet"), 1), qr("reduced", 0, 1), qr("r")])
def test_derivatives_that_need_an_inverse(function: Function) -> None:
    loss = Loss(function, [np.zeros((3, 3))])
    with pytest.raises(np.linalg.LinAlgError):
        loss.all_gradients("run")


def test_determinant_of_matrices_with_infinities() -> None:
    x = np.stack([np.eye(3), np.full((3, 3), np.inf), np.diag([1.0, 2.0, np.nan])])
    loss = Loss(op("det"), [x])
    loss.weights = [np.ones(3)]
    (found,) = loss.all_gradients("run")
    np.testing.assert_array_equal(found[0], np.eye(3))
    assert np.isnan(found[1:]).all()


@pytest.mark.parametrize("dtype", "dD")
@pytest.mark.parametrize("function", [op("cholesky", upper=False), op("cholesky", upper=True), op("eigvalsh", uplo="L")])
def test_gradients_of_hermitian_matrices_are_hermitian(function: Function, dtype: str) -> None:
    x = numbers(np.random.default_rng(0), (2, 3, 3), dtype)
    x = x @ x.conj().swapaxes(-1, -2) + np.eye(3)
    (found,) = Loss(function, [x]).all_gradients("run")
    np.testing.assert_allclose(found, found.conj().swapaxes(-1, -2), atol=1e-12)


def test_ties_of_sort_share_by_position() -> None:
    """Equal elements get the gradients of their places in a stable order."""
    x = np.array([2.0, 1.0, 2.0, 1.0, 3.0])
    loss = Loss(op("sort", axis=0, kind="quicksort"), [x])
    (found,) = loss.all_gradients("run")
    np.testing.assert_array_equal(found, loss.weights[0][[2, 0, 3, 1, 4]])


@pytest.mark.parametrize(
    ("function", "shape"), [(qr("complete", 0), (4, 3)), (svd(True, 0), (4, 3)), (svd(True, 2), (3, 4))], ids=["qr", "u", "vh"]
)
def test_vectors_that_the_matrix_does_not_determine(function: Function, shape: tuple[int, ...]) -> None:
    with pytest.raises(Decline, match=r"does not determine|do not determine"):
        Loss(function, [np.ones(shape)]).build(1)


def test_every_rule_is_tested() -> None:
    builder = Builder()
    for name, (function, shapes) in CASES.items():
        dtype = dtypes_of(name)[0]
        values = inputs_of(builder, [np.zeros(shape, dtype) for shape in shapes])
        function(*values)
    tested = {node.op for node in builder.made}
    rows = {
        name
        for name, row in OPS.items()
        if row.kind == "extern"
        and row.vjp is not None
        and row.meta.__module__.rsplit(".", 1)[-1] in ("linalg", "fourier", "sorting")
    }
    assert rows and rows <= tested, rows - tested
