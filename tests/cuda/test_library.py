"""Library calls on the device: the answers are NumPy's, and nothing goes through the host that need not.

With the stand-in device the library is NumPy; marked `gpu`, it is CuPy's cuBLAS, cuFFT and sorts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cuda.backend import compile_for
from npcompile.backends.cuda.runtime.interface import to_host
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core import Builder, TensorMeta
from tests.cuda import one_op
from tests.cuda.one_op import RNG, both, close, graph_of, normal

device = one_op.device  # a fixture

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


@pytest.mark.parametrize("dtype", "?biLefdFD")
@pytest.mark.parametrize("axis", [0, 1])
def test_partitions(axis: int, dtype: str, device: Any) -> None:
    """NumPy's elements at kth, no larger ones before them, and no smaller ones behind: the rest has no order."""
    x = RNG.integers(0, 30, (41, 43)).astype(dtype)
    if dtype in "efdFD":
        x[::7, ::5] = np.nan
    kth = (7, 20)
    (values,), (expected,) = both(device, "partition", [x], {"kth": kth, "axis": axis})
    assert not device.host
    (places,), _ = both(device, "argpartition", [x], {"kth": kth, "axis": axis})
    assert places.dtype == np.intp and not device.host
    same_elements = np.sort(x, axis)
    for found in (values, np.take_along_axis(x, places, axis)):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(np.take(found, kth, axis), np.take(expected, kth, axis))
        np.testing.assert_array_equal(np.sort(found, axis), same_elements)
        start = 0
        for k in (*kth, x.shape[axis]):
            between = np.sort(np.take(found, range(start, k), axis), axis)
            np.testing.assert_array_equal(between, np.take(same_elements, range(start, k), axis))
            start = k


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
