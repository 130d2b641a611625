"""New arrays as NumPy makes them: values to the bit, dtype, memory order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npcompile.numpy_shim  # noqa: F401  (fills the registry)
from npcompile.backends.eager import compile_eager
from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core import Array, Builder, Decline, Number
from npcompile.tensor_core.graph import bind
from npcompile.tracer.guard_text import text_of
from tests.shim.harness import check, compare
from tests.shim.layouts import LAYOUTS, MATRIX, VECTOR

orders = st.sampled_from(["C", "F", None])
like_orders = st.sampled_from(["C", "F", "A", "K"])
dtypes = st.sampled_from([None, "?", "u1", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
shapes = st.one_of(st.integers(0, 4), st.lists(st.integers(0, 4), max_size=3).map(tuple))
layouts = st.sampled_from(sorted(LAYOUTS))
fills = st.sampled_from([0, 1, -1, 2.5, True, 300, 1e300, math.nan, 1 + 2j, np.float32(1.5), np.int8(3), VECTOR[:1]])


def run(function: Any, *args: Any, values: dict[str, Any] | None = None, **keywords: Any) -> Any:
    """The captured call with Dims and Numbers at other values than at capture, which its guards must allow."""
    builder = Builder()
    args = tuple(a(builder.env) if callable(a) and not isinstance(a, type) else a for a in args)
    result = FUNCTIONS[function](builder, *args, **keywords)
    arrays = [r for r in (result if isinstance(result, tuple) else (result,)) if isinstance(r, Array)]
    graph = builder.finish([a.node for a in arrays], [a.meta for a in arrays])
    values = values or {}
    for guard in builder.env.guards:
        assert eval(text_of(guard), {}, values), f"{guard} fails for {values}"
    inputs = [eval(str(source), {}, values) for source in builder.arguments]
    outputs = compile_eager(graph, inputs)(*inputs, *(values[s] for s in graph.symbols))
    for output, array in zip(outputs, arrays):
        assert output.shape == bind(array.shape, values)
    return outputs if isinstance(result, tuple) else outputs[0]


def dim(name: str, hint: int) -> Any:
    return lambda env: env.symbol(name, hint, 0)


def number(name: str, hint: float) -> Any:
    return lambda env: Number(env, name, hint)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.sampled_from([np.zeros, np.ones]), shapes, dtypes, orders)
def test_filled(function: Any, shape: Any, dtype: Any, order: Any) -> None:
    assert check(function, shape, dtype, order)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(shapes, fills, dtypes, orders)
def test_full(shape: Any, fill: Any, dtype: Any, order: Any) -> None:
    with np.errstate(all="ignore"):
        discards = np.iscomplexobj(fill) and dtype is not None and np.dtype(dtype).kind not in "c"
        overflows = dtype in ("f2", "f4", "c8", "u1", "i4", "i8")
        if not discards:
            check(np.full, shape, fill, dtype, order, must_capture=not overflows)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from([np.zeros_like, np.ones_like]), layouts, dtypes, like_orders, st.one_of(st.none(), shapes))
def test_like(function: Any, layout: str, dtype: Any, order: str, shape: Any) -> None:
    assert check(function, LAYOUTS[layout], dtype, order, shape=shape)
    assert check(np.full_like, LAYOUTS[layout], 1, dtype=dtype, order=order, shape=shape)


@pytest.mark.parametrize("dtype", [np.dtypes.Float32DType, np.dtypes.Int64DType, np.float32, "f4", float, np.dtype("i2")])
def test_dtype_given_as_class(dtype: Any) -> None:
    assert check(np.zeros, 3, dtype)
    assert check("astype", VECTOR, dtype)
    assert check(np.add, VECTOR, 1, dtype=dtype, casting="unsafe")


def test_empty_holds_something() -> None:
    assert run(np.empty, (2, 3)).shape == (2, 3)
    assert run(np.empty_like, LAYOUTS["fortran"], "i4").dtype == np.int32


@settings(max_examples=250, deadline=None, derandomize=True)
@given(layouts, dtypes, like_orders, st.sampled_from([True, False, None]), st.integers(0, 4))
def test_array_of_array(layout: str, dtype: Any, order: str, copy: Any, ndmin: int) -> None:
    x = LAYOUTS[layout]
    warns = np.iscomplexobj(x) and dtype is not None and np.dtype(dtype).kind not in "bc"
    if not warns:
        assert check(np.array, x, dtype, copy=copy, order=order, ndmin=ndmin, must_capture=copy is not False) or copy is False
        assert check(np.asarray, x, dtype, order, copy=copy, must_capture=copy is not False) or copy is False
        assert check(np.ascontiguousarray, x, dtype)
        assert check(np.asfortranarray, x, dtype)
        assert check(np.copy, x, order)


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3],
        [[1.5, 2], [3, True]],
        2.5,
        (),
        [[]],
        [np.float32(1), 2],
        [np.float32(1), np.float32(2)],
        [np.uint8(1), 2],
        [[np.float64(1), 0.0], [2, np.int8(3)]],
        [VECTOR, VECTOR[::-1]],
        [VECTOR, (1, 2, 3, 4, 5)],
        [MATRIX, MATRIX * 1j],
        [np.array(2.0), 3],
        [np.True_, False],
        ([1, 2], VECTOR[:2]),
    ],
)
@pytest.mark.parametrize("dtype", [None, "f4", "f8", "i8", "c16"])
def test_array_of_sequence(value: Any, dtype: Any) -> None:
    is_narrowed = (
        dtype in ("i8",) and np.asarray(value).dtype.kind == "f" or np.iscomplexobj(value) and dtype in ("f4", "f8", "i8")
    )
    if not (np.iscomplexobj(value) and dtype in ("f4", "f8", "i8")):
        check(np.array, value, dtype, must_capture=not is_narrowed)
        check(np.asarray, value, dtype, "F", must_capture=not is_narrowed)


def test_ragged_sequence_declines() -> None:
    assert not check(np.array, [VECTOR, VECTOR[:2]], must_capture=False)
    assert not check(np.array, [VECTOR, 1.0], must_capture=False)


@pytest.mark.parametrize(
    "kind", [np.bool, np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64, np.complex128]
)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_scalar_type(kind: Any, layout: str) -> None:
    x = LAYOUTS[layout]
    if not (np.iscomplexobj(x) and kind not in (np.bool, np.complex128)):
        with np.errstate(all="ignore"):
            assert check(kind, x)


def test_scalar_type_of_python_number() -> None:
    assert run(np.float32, number("a", 2.5), values={"a": 1.1}) == np.float32(1.1)
    assert run(np.int64, dim("n", 3), values={"n": 7}) == np.int64(7)
    with pytest.raises(Decline):
        run(np.int64, number("a", 2.5))
    with pytest.raises(Decline):
        run(np.int8, dim("n", 300))


integers = st.integers(-20, 20)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(integers, integers, integers.filter(bool), st.sampled_from([None, "i4", "i8", "u1", "f4", "f8"]))
def test_integer_arange(start: int, stop: int, step: int, dtype: Any) -> None:
    check(np.arange, start, stop, step, dtype=dtype, must_capture=dtype in (None, "i8", "f8"))
    assert check(np.arange, stop)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(0.01, 3))
def test_float_arange(start: float, stop: float, step: float) -> None:
    check(np.arange, start, stop, step, ulp=0, must_capture=False)
    check(np.arange, stop, start, -step, ulp=0, must_capture=False)


@pytest.mark.parametrize("args", [(0, 1, 0.01), (0.0, 100.0), (-1, 1, 0.125), (3, -3, -0.001), (1e-3, 1, 1e-3)])
def test_long_float_arange(args: Any) -> None:
    check(np.arange, *args, ulp=0)


def test_symbolic_arange() -> None:
    for n in (2, 5, 9):
        compare(run(np.arange, dim("n", 5), values={"n": n}), np.arange(n))
        compare(run(np.arange, 1, dim("n", 5), values={"n": n}), np.arange(1, n))
        compare(run(np.arange, dim("n", 5), 20, 3, values={"n": n}), np.arange(n, 20, 3))
        compare(run(np.arange, dim("n", 5), -1, -1, values={"n": n}), np.arange(n, -1, -1))
        compare(run(np.arange, dim("n", 5), values={"n": n}, dtype=float), np.arange(n, dtype=float))


ends = st.one_of(st.floats(-1e3, 1e3), st.integers(-50, 50), st.sampled_from([0.0, -0.0, 1e-310, math.inf, math.nan]))


@settings(max_examples=250, deadline=None, derandomize=True)
@given(ends, ends, st.integers(0, 12), st.booleans(), st.booleans(), st.sampled_from([None, "f4", "i8", "c16"]))
def test_linspace(start: Any, stop: Any, num: int, endpoint: bool, retstep: bool, dtype: Any) -> None:
    is_plain = all(math.isfinite(v) and (v == 0 or abs(v) > 1e-200) for v in (start, stop))
    with np.errstate(all="ignore"):
        check(np.linspace, start, stop, num, endpoint, retstep, dtype, ulp=0, must_capture=is_plain)


@pytest.mark.parametrize(
    "ends", [(VECTOR[0], VECTOR[3]), (np.float64(0), np.float64(0)), (np.float64(1e-320), 0), (np.array(1.0), 5)]
)
def test_linspace_between_scalars(ends: Any) -> None:
    for num in (0, 1, 2, 7):
        for endpoint in (True, False):
            assert check(np.linspace, *ends, num, endpoint, ulp=0)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(layouts, layouts, st.integers(0, 5), st.booleans(), st.integers(-2, 1), st.sampled_from([None, "f4", "i8"]))
def test_linspace_between_arrays(first: str, second: str, num: int, endpoint: bool, axis: int, dtype: Any) -> None:
    a, b = LAYOUTS[first], LAYOUTS[second]
    is_real = not (np.iscomplexobj(a) or np.iscomplexobj(b))
    with np.errstate(all="ignore"):
        if is_real or dtype is None:
            check(
                np.linspace,
                a,
                b,
                num,
                endpoint,
                True,
                dtype,
                axis,
                ulp=0,
                must_capture=is_real and np.result_type(a, b).kind != "b",
            )
            check(np.linspace, a, 2, num, endpoint, False, dtype, axis, ulp=0, must_capture=not np.iscomplexobj(a))


def test_arange_to_known_array() -> None:
    builder = Builder()
    end = FUNCTIONS[np.multiply](builder, FUNCTIONS[np.asarray](builder, 2.5), 2.0)
    assert FUNCTIONS[np.arange](builder, 1.0, end).shape == (4,)


def test_symbolic_linspace() -> None:
    for n, a in ((5, 1.5), (9, -3.0), (1, 0.0)):
        if n > 1:
            compare(run(np.linspace, 0, 1, dim("n", 7), values={"n": n}), np.linspace(0, 1, n), ulp=0)
        compare(run(np.linspace, number("a", 0.5), 2.0, 11, values={"a": a}), np.linspace(a, 2.0, 11), ulp=0)
        compare(
            run(np.linspace, -1, number("a", 0.5), 11, False, True, values={"a": a}), np.linspace(-1, a, 11, False, True), ulp=0
        )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.integers(0, 5), st.one_of(st.none(), st.integers(0, 5)), st.integers(-6, 6), st.sampled_from([float, "i4", bool]), orders
)
def test_grids(n: int, m: Any, k: int, dtype: Any, order: Any) -> None:
    assert check(np.eye, n, m, k, dtype, order or "C")
    assert check(np.tri, n, m, k, dtype)
    assert check(np.identity, n, dtype)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(layouts, st.integers(-3, 3))
def test_triangles(layout: str, k: int) -> None:
    check(np.tril, LAYOUTS[layout], k)
    check(np.triu, LAYOUTS[layout], k)


def test_symbolic_eye() -> None:
    for n in (3, 6):
        compare(run(np.eye, dim("n", 4), values={"n": n}), np.eye(n))
        compare(run(np.tri, dim("n", 4), None, -1, values={"n": n}), np.tri(n, None, -1))


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(copy: bool, sparse: bool, indexing: str) -> None:
    vectors = [VECTOR, np.arange(3), np.float64(2), [1, 2]]
    for count in range(5):
        assert check(np.meshgrid, *vectors[:count], copy=copy, sparse=sparse, indexing=indexing)
    assert not check(np.meshgrid, VECTOR, indexing="no", must_capture=False)
