"""Library calls on the device: the answers are NumPy's, and nothing goes through the host that need not.

With the stand-in device the library is NumPy; marked `gpu`, it is CuPy's cuBLAS, cuSOLVER, cuFFT and sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import devices
from npcompile.backends.cuda.backend import compile_for
from npcompile.backends.cuda.runtime import device as cuda_device
from npcompile.backends.cuda.runtime.device import current_device
from npcompile.backends.cuda.runtime.interface import to_host
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.meta import TupleMeta
from tests.backends import NO_DEVICE
from tests.cuda.numpy_library import StrictDevice

RNG = np.random.default_rng(3)
DEVICES = ["stand-in"] if NO_DEVICE else ["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device that counts, as `device.host`, the arrays that come to the host: what is more than a flag."""
    made: Any = StrictDevice() if request.param == "stand-in" else current_device()
    monkeypatch.setattr(made, "host", 0, raising=False)
    download = made.download

    def counted(array: Any, out: np.ndarray) -> None:
        made.host += out.nbytes > 8
        download(array, out)

    monkeypatch.setattr(made, "download", counted)
    return made


def normal(*shape: int, dtype: str = "d") -> np.ndarray:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


def positive(*shape: int, dtype: str = "d") -> np.ndarray:
    a = normal(*shape, dtype=dtype)
    return a @ a.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)


def graph_of(op: str, arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Graph:
    """One op, and each of its results."""
    builder = Builder()
    node = builder.apply(op, *(builder.input(TensorMeta(x.shape, x.dtype, x.strides)) for x in arrays), **params)
    results = [node]
    if isinstance(node.meta, TupleMeta):
        results = [builder.apply("item", node, index=k) for k in range(len(node.meta.items))]
    return replace(builder.finish(results), checks=frozenset())  # warnings are not seen on a device


def both(device: Any, op: str, arrays: Sequence[np.ndarray], params: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The op's results on the device, brought to the host, and NumPy's. `device.host` is what the op itself brought."""
    graph = graph_of(op, arrays, params)
    given = [device.upload(np.ascontiguousarray(x)) for x in arrays]
    before = device.host
    with np.errstate(all="ignore"):
        results = compile_for(graph, device).call(*given)
    came = device.host - before
    assert all(map(device.is_array, results))
    got = [to_host(device, x) for x in results]
    for x, original in zip(given, arrays):  # operands are as they were
        np.testing.assert_array_equal(to_host(device, x), original)
    device.host = came
    return got, list(compile_eager(graph, [])(*arrays))


def close(got: Any, expected: Any, of: np.dtype) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    limit = 2e-5 if of.char in "fF" else 1e-10
    scale = np.abs(expected).max(initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(got, expected, rtol=limit, atol=limit * scale)


# --- linear algebra


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("stack", [(), (3,), (2, 3)])
@pytest.mark.parametrize("op", ["solve", "inv", "det", "slogdet", "cofactor", "cholesky", "upper cholesky"])
def test_equations(op: str, stack: tuple[int, ...], dtype: str, device: Any) -> None:
    a = (positive if "cholesky" in op else normal)(*stack, 5, 5, dtype=dtype)
    arrays = [a, normal(*stack, 5, 2, dtype=dtype)] if op == "solve" else [a]
    params = {"upper": op.startswith("upper")} if "cholesky" in op else {}
    for x, y in zip(*both(device, op.split()[-1], arrays, params), strict=True):
        close(x, y, a.dtype)
    assert not device.host


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (3, 6, 4), (2, 3, 4, 6), (2, 40, 36)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr(mode: str, shape: tuple[int, ...], dtype: str, device: Any) -> None:
    a = normal(*shape, dtype=dtype)
    for x, y in zip(*both(device, "qr", [a], {"mode": mode}), strict=True):
        close(x, y, a.dtype)
    assert not device.host


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", [(6, 6), (3, 4, 4), (2, 2, 40, 40)])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_symmetric_eigenvalues(uplo: str, shape: tuple[int, ...], dtype: str, device: Any) -> None:
    a = normal(*shape, dtype=dtype)  # only one triangle counts
    (values,), (expected,) = both(device, "eigvalsh", [a], {"uplo": uplo})
    close(values, expected, a.dtype)
    assert not device.host
    for x, y in zip(*both(device, "eigh", [a], {"uplo": uplo}), strict=True):  # by NumPy: its vectors
        close(x, y, a.dtype)


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (3, 6, 4), (2, 3, 4, 6), (2, 40, 36)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_values(full: bool, shape: tuple[int, ...], dtype: str, device: Any) -> None:
    a = normal(*shape, dtype=dtype)
    (values,), (expected,) = both(device, "svdvals", [a], {})
    close(values, expected, a.dtype)
    assert not device.host
    for x, y in zip(*both(device, "svd", [a], {"full_matrices": full}), strict=True):  # by NumPy: its vectors
        close(x, y, a.dtype)


AWKWARD = {
    "zero": np.zeros((4, 4)),
    "singular": np.ones((4, 4)),
    "nan": np.where(np.eye(4), np.nan, 1.0),
    "inf": np.where(np.eye(4), np.inf, 1.0),
    "negative": -np.eye(4),
    "nearly singular": np.eye(4) + 1e-17 * np.arange(16).reshape(4, 4) + np.outer([1e16, 0, 0, 0], [1, 1, 1, 1]),
    "of no size": np.zeros((0, 0)),
    "stack of no matrices": np.zeros((0, 3, 3)),
    "one of a stack is singular": np.stack([np.eye(4), np.zeros((4, 4)), np.eye(4)]),
}
CALLS: dict[str, dict[str, Any]] = {
    "inv": {},
    "det": {},
    "slogdet": {},
    "cholesky": {"upper": False},
    "qr": {"mode": "reduced"},
    "eigvalsh": {"uplo": "L"},
    "svdvals": {},
    "eigvals": {},
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("op", CALLS)
def test_what_numpy_refuses(op: str, name: str, device: Any) -> None:
    """LinAlgError as NumPy raises it, and its values where it raises none."""
    a = AWKWARD[name].astype("D") if op == "eigvals" else AWKWARD[name]
    try:
        (expected, *_) = compile_eager(graph_of(op, [a], CALLS[op]), [])(a)
    except np.linalg.LinAlgError as error:
        with pytest.raises(np.linalg.LinAlgError, match=str(error)):
            both(device, op, [a], CALLS[op])
        return
    (got, *_), (expected, *_) = both(device, op, [a], CALLS[op])
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


def test_linalg_errors_come_from_the_users_line(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(device, StrictDevice):
        monkeypatch.setattr(cuda_device, "current_device", lambda: device)
    monkeypatch.setattr(devices, "_in_use", [])

    @npc.compile
    def inverse(x):
        y = x + 1
        try:
            return np.linalg.inv(y - 1)
        except np.linalg.LinAlgError as error:
            return str(error)

    @npc.compile
    def factor(x):
        return np.linalg.cholesky(-x @ x.T)

    with npc.device("cuda"):
        assert inverse(np.ones((3, 3))) == "Singular matrix"
        np.testing.assert_allclose(inverse(np.eye(3) * 2), np.eye(3) / 2)
        assert inverse(np.ones((3, 3))) == "Singular matrix"
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite") as caught:
            factor(np.eye(3))
    assert any(entry.name == "factor" for entry in caught.traceback)


# --- transforms


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("op", ["fft", "ifft", "rfft", "irfft"])
def test_transforms(op: str, norm: str, dtype: str, device: Any) -> None:
    if op == "rfft" and dtype in "FD":
        pytest.skip("rfft takes real numbers")
    for shape in [(17,), (6, 8), (4, 5, 6)]:
        x = normal(*shape, dtype=dtype)
        for axis in range(x.ndim):
            for n in (1, 4, shape[axis], 11, 32):
                (got,), (expected,) = both(device, op, [x], {"n": n, "axis": axis, "norm": norm})
                close(got, expected, x.dtype)
                assert not device.host


# --- order


def unlike(dtype: str, *shape: int) -> np.ndarray:
    """No two elements along an axis are equal."""
    x = RNG.permutation(int(np.prod(shape))).reshape(shape) - 20
    return (x + 0.5j * x[::-1] if dtype in "FD" else x).astype(dtype)


@pytest.mark.parametrize("dtype", "bhilBHILefdFD")
def test_sorts(dtype: str, device: Any) -> None:
    for axis in range(3):
        x = unlike(dtype, 4, 5, 6)
        for op in ("sort", "argsort"):
            (got,), (expected,) = both(device, op, [x], {"axis": axis, "kind": None})
            np.testing.assert_array_equal(got, expected)
            assert not device.host
        (got,), (expected,) = both(device, "argsort", [x // 3 if dtype in "bhil" else x], {"axis": axis, "kind": "stable"})
        np.testing.assert_array_equal(got, expected)
        assert not device.host


@pytest.mark.parametrize("dtype", "?idD")
@pytest.mark.parametrize("kind", [None, "stable"])
def test_equal_elements_and_nan(kind: str | None, dtype: str, device: Any) -> None:
    x = RNG.integers(0, 3, (3, 70)).astype(dtype)
    if dtype in "dD":
        x[:, ::7], x[:, 1::9], x[:, 2::9] = np.nan, np.inf, -0.0
    for op in ("sort", "argsort"):
        (got,), (expected,) = both(device, op, [x], {"axis": 1, "kind": kind})
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_lexsort(axis: int, device: Any) -> None:
    keys = [RNG.integers(0, 3, (7, 9)).astype(t) for t in "ldb"]
    keys[1][2, 3] = np.nan
    (got,), (expected,) = both(device, "lexsort", keys, {"axis": axis})
    np.testing.assert_array_equal(got, expected)
    assert not device.host


@pytest.mark.parametrize("op", ["partition", "argpartition"])
def test_partitions_are_numpys(op: str, device: Any) -> None:
    x = normal(3, 50)
    (got,), (expected,) = both(device, op, [x], {"kth": (7, 20), "axis": 1})
    np.testing.assert_array_equal(got, expected)


READ = [((3, 1, 1), True), ((3, 2, 2), True), ((3, 1, 2), False), ((5, -2, 2), True), (3, True), (-1, True), (4, False)]


@pytest.mark.parametrize(("places", "stays"), READ)
def test_partitions_of_which_known_places_are_read(places: Any, stays: bool, device: Any) -> None:
    """Sorted on the device if these are all; the rest lies where NumPy's selection puts it."""
    x = normal(12, 7)
    builder = Builder()
    node = builder.apply("partition", builder.input(TensorMeta(x.shape, x.dtype)), kth=(3, 5, 11), axis=0)
    if isinstance(places, tuple):
        start, step, count = places
        result = builder.apply("slice", node, start=(start, 0), step=(step, 1), shape=(count, 7))
    else:
        result = builder.apply("gather", node, builder.constant(places, np.dtype(np.int64)))
    graph = builder.finish([result])
    before = device.host
    (got,) = compile_for(graph, device).call(device.upload(x))
    assert (device.host == before) == stays
    np.testing.assert_array_equal(to_host(device, got), compile_eager(graph, [])(x)[0])


@pytest.mark.parametrize("dtype", "ldfD")
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("stack", [0, 1])
def test_searches(stack: int, side: str, dtype: str, device: Any) -> None:
    for n in (1, 2, 7, 64):
        a = np.sort(RNG.integers(0, 30, (*(3,) * stack, n)).astype(dtype), -1)
        v = RNG.integers(-2, 33, (*(3,) * stack, 4, 5)).astype(dtype)
        if dtype != "l":
            v[..., 0, 0], v[..., 1, 1] = np.nan, np.inf
            a[..., -1] = np.nan
        params = {"side": side, "stack": stack}
        (got,), (expected,) = both(device, "searchsorted", [a, v], params)
        np.testing.assert_array_equal(got, expected)
        assert dtype == "D" or not device.host
        order = np.argsort(a[..., ::-1], -1, kind="stable")
        (got,), (expected,) = both(device, "searchsorted", [a[..., ::-1], v, order], params)
        np.testing.assert_array_equal(got, expected)


def test_a_sorter_out_of_bounds(device: Any) -> None:
    a, v = np.arange(4.0), np.array([9.0])
    for bad in (4, -1):
        with pytest.raises(ValueError, match="Sorter index out of range"):
            both(device, "searchsorted", [a, v, np.array([0, 1, 2, bad])], {"side": "left"})


@pytest.mark.parametrize("points", [1, 2, 9])
@pytest.mark.parametrize("stack", [0, 1])
def test_interpolation(stack: int, points: int, device: Any) -> None:
    xp = np.sort(normal(*(2,) * stack, points), -1)
    fp = normal(*(2,) * stack, points)
    x = np.concatenate([normal(*(2,) * stack, 50) * 2, xp, fp * 0 + np.inf, fp * 0 - np.inf, fp * np.nan], -1)
    (got,), (expected,) = both(device, "interp", [xp, x, fp], {"stack": stack})
    np.testing.assert_array_equal(got, expected)
    assert not device.host
    if points > 2:
        xp[..., 3], fp[..., 5], fp[..., 1:3] = xp[..., 4], np.inf, -np.inf
        (got,), (expected,) = both(device, "interp", [xp, x, fp], {"stack": stack})
        np.testing.assert_array_equal(got, expected)


# --- products


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("stack", ["", "s", "st"])
def test_products(stack: str, dtype: str, device: Any) -> None:
    sizes = (3, 2)[: len(stack)]
    axes = tuple(range(3, 3 + len(stack)))
    a, b = normal(*sizes, 40, 30, dtype=dtype), normal(*sizes, 30, 35, dtype=dtype)
    params = {"inputs": ((*axes, 0, 1), (*axes, 1, 2)), "output": (*axes, 0, 2)}
    graph = graph_of("einsum", [a, b], params)
    layouts = [
        lambda x: x,
        lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
        lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
        lambda x: np.repeat(x, 2, -1)[..., ::2],
    ]
    for layout in layouts:
        x, y = (device_view(device, layout(v)) for v in (a, b))
        (got,) = compile_for(graph, device).call(x, y)
        close(to_host(device, got), compile_eager(graph, [])(a, b)[0], a.dtype)


def device_view(device: Any, x: np.ndarray) -> Any:
    """The array on the device, with its strides."""
    base = x if x.base is None else x.base
    whole = device.upload(np.ascontiguousarray(base))
    assert whole.strides == base.strides
    offset = (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // x.itemsize
    return device.library.lib.stride_tricks.as_strided(whole.ravel()[offset:], x.shape, x.strides)


def test_one_kernel_after_a_product(device: Any) -> None:
    """Bias and activation are one kernel on what cuBLAS gives, and nothing is copied."""
    builder = Builder()
    metas = [TensorMeta((64, 80), np.dtype("f4")), TensorMeta((80, 48), np.dtype("f4")), TensorMeta((48,), np.dtype("f4"))]
    x, w, bias = map(builder.input, metas)
    product = builder.apply("einsum", x, w, inputs=((0, 1), (1, 2)), output=(0, 2))
    sum_ = builder.apply("add", product, builder.apply("broadcast_to", bias, shape=(64, 48)))
    graph = builder.finish([builder.apply("maximum", sum_, builder.constant(0, np.dtype("f4")))])
    compiled = compile_for(graph, device)
    assert len(compiled.kernels) == 1
    arrays = [normal(*m.shape, dtype="f") for m in metas]
    (got,) = compiled.call(*map(device.upload, arrays))
    close(to_host(device, got), np.maximum(arrays[0] @ arrays[1] + arrays[2], 0), np.dtype("f4"))


def test_views_around_products_are_not_copied(device: Any) -> None:
    """No kernel: cuBLAS takes the transpose, and what it gives is reshaped; results are arrays of their own."""
    builder = Builder()
    x = builder.input(TensorMeta((4, 10, 80), np.dtype("f8")))
    rows = builder.apply("reshape", x, shape=(40, 80))
    turned = builder.apply("permute", rows, axes=(1, 0))
    product = builder.apply("einsum", rows, turned, inputs=((0, 1), (1, 2)), output=(0, 2))
    reshaped = builder.apply("reshape", product, shape=(4, 10, 40))
    graph = builder.finish([reshaped, product])
    compiled = compile_for(graph, device)
    assert not compiled.kernels
    given = normal(4, 10, 80)
    for _ in range(2):
        a, b = compiled.call(device.upload(given))
        assert device.address(a) != device.address(b)
        flat = given.reshape(40, 80)
        close(to_host(device, a), (flat @ flat.T).reshape(4, 10, 40), np.dtype("f8"))
        close(to_host(device, b), flat @ flat.T, np.dtype("f8"))


@pytest.mark.parametrize("seed", range(12))
def test_kernels_and_library_in_any_order(seed: int, device: Any) -> None:
    """Random programs of square matrices: stages, views and what is computed where it is read keep the meaning."""
    rng = np.random.default_rng(seed)
    builder, n = Builder(), 33  # products of less are kernels
    nodes = [builder.input(TensorMeta((n, n), np.dtype("f8"))) for _ in range(3)]

    def pick() -> Any:
        return nodes[max(rng.integers(len(nodes)), rng.integers(len(nodes)))]

    for _ in range(14):
        x = pick()
        match rng.integers(9):
            case 0 | 1:
                made = builder.apply("einsum", x, pick(), inputs=((0, 1), (1, 2)), output=(0, 2))
                made = builder.apply("multiply", made, builder.apply("broadcast_to", scalar(builder, 1 / n), shape=(n, n)))
            case 2 | 3:
                made = builder.apply("permute", x, axes=(1, 0))
            case 4:
                flat = builder.apply("reshape", x, shape=(n * n,))
                made = builder.apply("reshape", flat, shape=(n, n))
            case 5:
                made = builder.apply("sort", x, axis=int(rng.integers(2)), kind=None)
            case 6:
                total = builder.apply("reduce", x, reducer="maximum", axes=(0,))
                made = builder.apply("subtract", x, builder.apply("broadcast_to", total, shape=(n, n)))
            case 7:
                made = builder.apply("sin", x)
            case _:
                made = builder.apply("add", x, pick())
        nodes.append(made)
    results = [pick() for _ in range(4)]
    graph = replace(builder.finish(results, writes=[(0, pick())]), checks=frozenset())
    arrays = [rng.standard_normal((n, n)) for _ in range(3)]
    ours, theirs = [device.upload(x) for x in arrays], [x.copy() for x in arrays]
    got, expected = compile_for(graph, device).call(*ours), compile_eager(graph, [])(*theirs)
    assert len({device.address(x) for x in (*got, *ours)}) == 7
    for a, b in zip([*got, *ours], [*expected, *theirs], strict=True):
        np.testing.assert_allclose(to_host(device, a), b, rtol=1e-9, atol=1e-9)


def scalar(builder: Builder, value: float) -> Any:
    return builder.constant(value, np.dtype("f8"))


# --- gradients

SCALARS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda x: np.linalg.solve(x @ x.T + np.eye(4), x).sum(),
    "inv": lambda x: (np.linalg.inv(x @ x.T + np.eye(4)) * x).sum(),
    "det": lambda x: np.linalg.det(x),
    "slogdet": lambda x: np.linalg.slogdet(x)[1],
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(4)).sum(),
    "qr": lambda x: np.abs(np.linalg.qr(x)[1]).sum(),
    "eigh": lambda x: np.exp(np.linalg.eigvalsh(x + x.T)).sum() + np.abs(np.linalg.eigh(x + x.T)[1] ** 2 @ x).sum(),
    "svd": lambda x: np.linalg.svd(x, compute_uv=False).max() + np.linalg.norm(x, 2),
    "fft": lambda x: np.abs(np.fft.fft(x * x)).sum(),
    "sort": lambda x: (np.sort(x, 0) * np.arange(4.0)).sum(),
    "median": lambda x: np.median(x, 0).sum(),
    "interp": lambda x: np.interp(x, np.arange(5.0), x[0, 0] * np.arange(5.0) ** 2).sum(),
}


@pytest.mark.parametrize("name", SCALARS)
def test_gradients(name: str, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(device, StrictDevice):
        monkeypatch.setattr(cuda_device, "current_device", lambda: device)
    monkeypatch.setattr(devices, "_in_use", [])
    x = np.random.default_rng(1).standard_normal((4, 4))
    expected = npc.grad(SCALARS[name])(x)
    with npc.device("cuda"):
        got = npc.grad(SCALARS[name])(x)
    assert type(got) is np.ndarray and getattr(device, "requests", True)  # of the stand-in: kernels ran there
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)
