"""Ufunc calls and ufunc methods, with every keyword, against NumPy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy._core import umath

from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.numpy_shim.ufunc_methods import UFUNC_METHODS
from npcompile.tensor_core import Decline, Number
from npcompile.tensor_core.source import Name
from npcompile.tracer.guard_text import text_of
from tests.ops.table import LAYOUTS, numbers
from tests.shim.harness import Capture, check, compare, copy, flatten, same_values

DTYPES = [np.dtype(c) for c in "?bBhHiIlLefdFD"]
UFUNCS = [f for f in FUNCTIONS if isinstance(f, np.ufunc) and not f.signature]
UNARY = [f for f in UFUNCS if f.nin == 1]
BINARY = [f for f in UFUNCS if f.nin == 2]
WEAK = (0, 1, -1, 2, 3, 300, -129, 2**40, 2**63, 2**70, True, 0.0, 0.5, -2.5, 1e40, float("nan"), 1j, 2 - 0.5j)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is compared here are values; floating-point errors have tests of their own."""
    with np.errstate(all="ignore"):
        yield


def is_runnable(ufunc: np.ufunc, *operands: Any) -> bool:
    """Does NumPy give an answer that depends on the operands alone?"""
    with np.errstate(all="ignore"):
        try:
            ufunc(*operands)
        except (TypeError, ValueError, OverflowError):
            return False
    return True


@pytest.mark.parametrize("ufunc", UNARY, ids=lambda u: u.__name__)
def test_unary(ufunc: np.ufunc) -> None:
    rng = np.random.default_rng(1)
    for dtype in DTYPES:
        for layout in LAYOUTS.values():
            x = layout(numbers(dtype, rng))
            check(ufunc, x, must_capture=is_runnable(ufunc, x))
        check(ufunc, numbers(dtype, rng, (1,))[0], must_capture=False)


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda u: u.__name__)
def test_binary_of_all_dtypes(ufunc: np.ufunc) -> None:
    draw, rng = random.Random(2), np.random.default_rng(2)
    layouts = [layout for name, layout in LAYOUTS.items() if name != "empty"]
    for first in DTYPES:
        for second in DTYPES:
            x, y = (draw.choice(layouts)(numbers(d, rng)) for d in (first, second))
            declines = ufunc is np.power and np.result_type(x, y).kind in "iu" and y.dtype.kind == "i"
            declines |= ufunc is np.power and np.result_type(first, second).kind == "i"
            check(ufunc, x, y, must_capture=is_runnable(ufunc, x, y) and not declines)


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda u: u.__name__)
def test_python_numbers_are_weak(ufunc: np.ufunc) -> None:
    rng = np.random.default_rng(3)
    for dtype in DTYPES:
        x = numbers(dtype, rng, (3,))
        for value in WEAK:
            ordinary = abs(value) <= 3 and ufunc is not np.power
            check(ufunc, x, value, must_capture=ordinary and is_runnable(ufunc, x, value))
            check(ufunc, value, x[0], must_capture=False)


@pytest.mark.parametrize("ufunc", [np.add, np.divide, np.equal, np.power, np.logical_and, np.ldexp], ids=lambda u: u.__name__)
def test_without_arrays(ufunc: np.ufunc) -> None:
    for x in (1, 2.5, 1j, True, [1, 2], (1.0, 2.0), np.int8(3), np.float32(2)):
        for y in (1, 2, 0.5, 3j, [1, 2], np.array([1, 2], np.uint8)):
            check(ufunc, x, y, must_capture=False)
    assert check(np.add, 1, 2)
    assert check(np.add, 2.5, [1, 2])


def test_comparison_with_integers_out_of_range() -> None:
    for ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
        for dtype in "bBhHiIlL":
            x = numbers(np.dtype(dtype), np.random.default_rng(4), (2, 3))
            for value in (-1, 300, -(2**70), 2**70, 2**63, -(2**63) - 1):
                assert check(ufunc, x, value)
                assert check(ufunc, value, x)


SHAPES = ((), (1,), (3,), (2, 3), (2, 1), (4, 2, 3), (1, 3), (0, 3))


def random_array(draw: random.Random, rng: np.random.Generator, dtypes: str = "?bBilfdD", shapes: Any = SHAPES) -> np.ndarray:
    x = numbers(np.dtype(draw.choice(dtypes)), rng, draw.choice(shapes))
    if x.ndim and draw.random() < 0.5:
        x = x[(slice(None, None, draw.choice((1, -1, 2))),) * x.ndim]
    return x.copy(order=draw.choice("CFK")) if draw.random() < 0.5 else x


def random_keywords(draw: random.Random, rng: np.random.Generator, ufunc: np.ufunc, operands: list[np.ndarray]) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    if draw.random() < 0.5:
        out = numbers(np.dtype(draw.choice("?bilfdD")), rng, draw.choice([shape, shape, shape, (4, *shape), draw.choice(SHAPES)]))
        out = np.asarray(out, order=draw.choice("CF"))
        keywords["out"] = draw.choice([out, out, (out,), draw.choice(operands), ...])
    if draw.random() < 0.4:
        keywords["where"] = draw.choice(
            [True, np.True_, False, np.asarray(rng.random(shape) < 0.5), np.asarray(rng.random(shape[-1:]) < 0.5)]
        )
    if draw.random() < 0.4:
        keywords["dtype"] = draw.choice([None, "f", float, np.int16, np.dtype("D"), bool, "i", object, "q"])
    if draw.random() < 0.3:
        keywords["casting"] = draw.choice(["no", "equiv", "safe", "same_kind", "unsafe", "nonsense"])
    if draw.random() < 0.4:
        keywords["order"] = draw.choice("KCFAkf")
    if draw.random() < 0.2:
        keywords[draw.choice(["signature", "sig"])] = draw.choice(
            [("f",) * (ufunc.nin + 1), "dd->d", "d->d", (None, None, "d"), "ll->l"]
        )
    if draw.random() < 0.1:
        keywords["subok"] = draw.choice([True, False])
    return keywords


UNINITIALISED = "where"  # without out, NumPy leaves the rest of the result undefined


@pytest.mark.parametrize(
    "ufunc", [np.add, np.divide, np.less, np.sqrt, np.negative, np.logical_not, np.maximum, umath.clip, np.arctan2]
)
def test_keywords(ufunc: np.ufunc) -> None:
    draw, rng = random.Random(ufunc.__name__), np.random.default_rng(5)
    captured = 0
    for _ in range(400):
        operands = [random_array(draw, rng) for _ in range(ufunc.nin)]
        try:
            keywords = random_keywords(draw, rng, ufunc, operands)
        except ValueError:
            continue  # shapes that do not broadcast
        if keywords.get("where", True) is not True and not isinstance(keywords.get("out"), (np.ndarray, tuple)):
            del keywords["where"]
        captured += check(ufunc, *operands, must_capture=False, **keywords)
    assert captured > 50, captured


def test_found_by_random_calls() -> None:
    """Corners that long random runs found."""
    rng = np.random.default_rng(14)
    for arguments, keywords in (
        ((np.power, np.arange(3, dtype=np.int8), np.array([1, 253, 2], np.uint8)), {"dtype": "b", "casting": "unsafe"}),
        ((np.tan, 2), {"dtype": "f", "casting": "safe"}),
        ((np.log1p, 2**70), {}),
        ((np.logical_and, 3, 2**63), {}),
        ((np.floor_divide, 0, 2**63), {}),
        ((np.bitwise_or, 2**40, 2**40), {"dtype": "i"}),
        ((np.trunc, np.int64(5)), {"dtype": "q"}),
        ((np.add, 2**70, np.ones(3, np.float32)), {"casting": "equiv"}),
        ((np.add, np.ones(3, np.int8), 1j), {"dtype": float, "casting": "unsafe"}),
        ((np.add, np.ones(3, np.int8), float("nan")), {"dtype": int, "casting": "unsafe"}),
        ((np.maximum, numbers(np.dtype("d"), rng, (3,))[::-1], numbers(np.dtype("F"), rng, (2, 1))), {"order": "A"}),
    ):
        check(*arguments, must_capture=False, **keywords)
    assert not check_method(np.maximum, "reduce", np.arange(3), out=np.zeros((), np.int8), must_capture=False)
    assert check_method(np.maximum, "reduce", np.arange(3), out=np.zeros((), np.float64))


def test_out_positional_and_in_tuples() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    assert check(np.add, x, y, np.zeros((2, 3)))
    assert check(np.add, x, y, None)
    assert check(np.add, x, y, out=None)
    assert check(np.add, x, y, out=(None,))
    assert check(np.add, x, y, out=(np.zeros((2, 3)),))
    assert check(np.add, np.array(1.0), 2, out=...)
    assert check(np.add, np.float64(1.0), 2, out=np.zeros(()))
    assert not check(np.add, x, y, np.zeros((2, 3)), out=np.zeros((2, 3)), must_capture=False)
    assert not check(np.add, x, y, np.float64(1), must_capture=False)
    assert not check(np.add, x, must_capture=False)


def test_out_that_overlaps_inputs() -> None:
    x = np.arange(10.0)
    for out, first, second in ((x[1:], x[:-1], x[1:]), (x[::-1], x, x), (x[:5], x[5:], x[:5])):
        theirs = x.copy()
        capture = Capture()
        base = capture.wrap(copy(x))
        views = [view_of(base, x, part) for part in (out, first, second)]
        FUNCTIONS[np.add](capture.builder, *views[1:], out=views[0])
        capture.run(None)
        parts = [same_view(theirs, x, part) for part in (out, first, second)]
        np.add(*parts[1:], out=parts[0])
        same_values(capture.values[0], theirs, 0)


def view_of(base: Any, x: np.ndarray, part: np.ndarray) -> Any:
    from npcompile.tensor_core.array import AxisSlice, BasicIndex, basic_index

    step = part.strides[0] // 8
    start = (part.__array_interface__["data"][0] - x.__array_interface__["data"][0]) // 8
    return basic_index(base, BasicIndex((AxisSlice(start, step, len(part)),)))


def same_view(base: np.ndarray, x: np.ndarray, part: np.ndarray) -> np.ndarray:
    start = (part.__array_interface__["data"][0] - x.__array_interface__["data"][0]) // 8
    return base[start:][: len(part)] if part.strides[0] > 0 else base[::-1]


def test_read_only_out_declines() -> None:
    out = np.zeros(3)
    out.flags.writeable = False
    assert not check(np.add, np.ones(3), 1, out=out, must_capture=False)


def test_mask_without_out_declines() -> None:
    capture = Capture()
    x, mask = capture.wrap([np.ones(3), np.array([True, False, True])])
    with pytest.raises(Decline, match="uninitialised"):
        FUNCTIONS[np.add](capture.builder, x, x, where=mask)


@pytest.mark.parametrize(
    "value", [None, "text", b"text", object(), np.datetime64(1, "s"), np.ma.ones(3), np.array(["a"]), {}, {1}, range(3)]
)
def test_operands_that_are_not_numbers_decline(value: Any) -> None:
    capture = Capture()
    x = capture.wrap(np.ones(3))
    with pytest.raises(Decline):
        FUNCTIONS[np.add](capture.builder, x, value)


def test_integer_powers_that_may_raise_decline() -> None:
    x = np.arange(4)
    assert check(np.power, x, 3)
    assert check(np.power, x, np.array([1, 2, 3, 4], np.uint32).astype(np.uint8))
    assert check(np.power, x, np.array([True, False, True, False]))
    assert check(np.power, x.astype(float), np.array([-1, 2, -3, 0]))
    assert not check(np.power, x, -1, must_capture=False)
    assert not check(np.power, x, np.array([1, 2, 3, -4]), must_capture=False)


def test_two_outputs() -> None:
    rng = np.random.default_rng(6)
    for dtype in "bBilfd":
        x, y = (numbers(np.dtype(dtype), rng, (3, 4)) for _ in range(2))
        assert check(np.divmod, x, y)
        assert check(np.divmod, x.T, 3)
        assert check(np.divmod, x[0, 0], y[0, 0])
    for dtype in "?bBilefd":
        for layout in LAYOUTS.values():
            assert check(np.modf, layout(numbers(np.dtype(dtype), rng)))
            assert check(np.frexp, layout(numbers(np.dtype(dtype), rng)), ulp=0)
    assert not check(np.divmod, x, y, out=(np.empty((3, 4)), None), must_capture=False)
    assert not check(np.divmod, x, must_capture=False)
    for function in (np.modf, np.frexp):
        assert check(function, 2.5) and check(function, np.float32(-0.1)) and check(function, 3)
        check(function, np.ones(3, np.longdouble), must_capture=False)
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    assert check(np.frexp, every, ulp=0) and check(np.modf, every, ulp=0)
    assert check(np.frexp, np.ldexp(np.float64(0.7), np.arange(-1075, 1025)), ulp=0)


# --- methods


def method(name: str, ufunc: np.ufunc) -> Any:
    return partial(UFUNC_METHODS[name], ufunc=ufunc)


def check_method(ufunc: np.ufunc, name: str, *args: Any, must_capture: bool = True, ulp: int = 4, **kwargs: Any) -> bool:
    """The harness's comparison for ufunc.name(*args, **kwargs)."""
    ours, theirs = copy((args, kwargs)), copy((args, kwargs))
    capture = Capture()
    traced_args, traced_kwargs = capture.wrap(list(ours[0])), capture.wrap(ours[1])
    try:
        result, error = capture.run(UFUNC_METHODS[name](capture.builder, ufunc, *traced_args, **traced_kwargs)), None
    except (Decline, IndexError) as decline:
        result, error = None, decline
    try:
        with np.errstate(all="ignore"):
            expected = getattr(ufunc, name)(*theirs[0], **theirs[1])
    except Exception as numpy_error:
        assert error is not None, f"NumPy raises {numpy_error!r}, the shim gives {result!r}"
        return False
    if error is not None:
        assert not must_capture, f"declined: {error}"
        return False
    compare(result, expected, ulp)
    compare(capture.values, flatten(*theirs), ulp)
    return True


REDUCED = [
    np.add,
    np.multiply,
    np.maximum,
    np.minimum,
    np.fmax,
    np.logical_and,
    np.logical_or,
    np.logical_xor,
    np.bitwise_and,
    np.bitwise_or,
]


def ordinary(draw: random.Random, rng: np.random.Generator, dtypes: str = "?bBilefdFD") -> np.ndarray:
    """Arrays whose sums and products round little, so that any order of summing agrees."""
    x = rng.integers(-3, 4, draw.choice(((), (1,), (5,), (2, 3), (3, 1), (2, 3, 4), (0, 3), (3, 0))))
    x = x.astype(draw.choice(dtypes))
    if x.ndim and draw.random() < 0.5:
        x = x[(slice(None, None, draw.choice((1, -1, 2))),) * x.ndim]
    return x.transpose(draw.sample(range(x.ndim), x.ndim)) if draw.random() < 0.5 else x


@pytest.mark.parametrize("ufunc", REDUCED, ids=lambda u: u.__name__)
def test_reduce(ufunc: np.ufunc) -> None:
    draw, rng = random.Random(7), np.random.default_rng(7)
    captured = 0
    for _ in range(500):
        x = ordinary(draw, rng)
        captured += check_method(ufunc, "reduce", x, must_capture=False, **reduce_keywords(draw, rng, x))
    assert captured > 100, captured


def reduce_keywords(draw: random.Random, rng: np.random.Generator, x: np.ndarray) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    if draw.random() < 0.8:
        axes = tuple(draw.sample(range(x.ndim), draw.randint(0, x.ndim)))
        keywords["axis"] = draw.choice([None, axes, draw.choice(axes) if axes else 0, -1, (-1,), (0, 0), 7, 1.5, [0], True])
    if draw.random() < 0.3:
        keywords["dtype"] = draw.choice([None, "f", "d", "l", "b", bool, complex])
    if draw.random() < 0.4:
        keywords["keepdims"] = draw.choice([True, False])
    if draw.random() < 0.3:
        keywords["initial"] = draw.choice([0, 1, 2, -3, 1.5, None, np._NoValue, np.float32(2), np.int8(4), 300, True, 1j])
    if draw.random() < 0.3:
        keywords["where"] = draw.choice([True, rng.random(x.shape) < 0.5, np.True_, rng.random(x.shape[-1:]) < 0.5])
    if draw.random() < 0.3:
        try:
            shape = np.add.reduce(x, axis=keywords.get("axis", 0), keepdims=keywords.get("keepdims", False)).shape
        except (TypeError, ValueError):
            shape = ()
        keywords["out"] = draw.choice([np.zeros(shape, draw.choice("bilfdD")), np.zeros((2,)), ..., np.zeros(shape)])
    return keywords


@pytest.mark.parametrize("ufunc", REDUCED, ids=lambda u: u.__name__)
def test_accumulate(ufunc: np.ufunc) -> None:
    draw, rng = random.Random(8), np.random.default_rng(8)
    captured = 0
    for _ in range(240):
        x = ordinary(draw, rng)
        keywords: dict[str, Any] = {}
        if draw.random() < 0.7:
            keywords["axis"] = draw.choice([0, -1, 1, (0,), None, 3])
        if draw.random() < 0.3:
            keywords["dtype"] = draw.choice([None, "f", "d", "l", "b", bool])
        if draw.random() < 0.3:
            keywords["out"] = np.zeros(draw.choice([x.shape, x.shape, (2,)]), draw.choice("bldD"))
        captured += check_method(ufunc, "accumulate", x, must_capture=False, **keywords)
    assert captured > 60, captured


@pytest.mark.parametrize("ufunc", [np.logaddexp, np.logaddexp2], ids=lambda u: u.__name__)
def test_accumulate_of_logarithms_runs_as_numpy(ufunc: np.ufunc) -> None:
    assert not check_method(ufunc, "accumulate", np.arange(3.0), must_capture=False)


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.less, np.arctan2, np.power], ids=lambda u: u.__name__)
def test_outer(ufunc: np.ufunc) -> None:
    draw, rng = random.Random(9), np.random.default_rng(9)
    for _ in range(60):
        x, y = random_array(draw, rng, dtypes="fdB"), random_array(draw, rng, dtypes="fdB")
        assert check_method(ufunc, "outer", x, y, must_capture=x.dtype.kind == "f" or ufunc is not np.power) or ufunc is np.power
    assert check_method(ufunc, "outer", np.arange(3.0), [1, 2], dtype="d") or ufunc is np.less
    assert check_method(ufunc, "outer", [1.0, 2.0], np.arange(3.0))


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.logical_or, np.subtract], ids=lambda u: u.__name__)
def test_at(ufunc: np.ufunc) -> None:
    rng = np.random.default_rng(10)
    for dtype in "bilfd":
        x = numbers(np.dtype(dtype), rng, (4, 3), ordinary=True)
        rows, columns = rng.integers(-4, 4, 6), rng.integers(-3, 3, 6)
        check_method(ufunc, "at", x, rows, 2, must_capture=False)
        check_method(ufunc, "at", x[:, ::-1], rows, x[0], must_capture=False)
        check_method(ufunc, "at", x, (rows, columns), np.arange(6).astype(dtype), must_capture=False)
        check_method(ufunc, "at", x, [0, 0, 1], 1, must_capture=False)
        check_method(ufunc, "at", x, rows.astype(np.int8), np.float64(1.5), must_capture=False)
        check_method(ufunc, "at", x, np.array([7]), 1, must_capture=False)
        check_method(ufunc, "at", x, x > 0, 1, must_capture=False)
        check_method(ufunc, "at", x, slice(0, 2), 1, must_capture=False)
    assert check_method(np.add, "at", np.zeros(5), np.array([0, 0, 3]), 1.0)
    assert check_method(np.add, "at", np.zeros((5, 2)), (np.array([0, 0, 3]), np.array([[1], [1]])), np.ones(3))


# --- sizes and floats that the program does not fix


class Symbolic(Capture):
    """A capture with an integer `n` and a float `t` that may be called with other values than the hints."""

    def __init__(self, n: int, t: float | complex, at_least: int = 2):
        super().__init__()
        self.n = self.builder.env.symbol("n", n, at_least)
        self.t = Number(self.builder.env, Name("t"), t)

    def evaluate(self, result: Any, n: int, t: float | complex) -> Any:
        from npcompile.backends.eager import compile_eager

        graph = self.builder.finish([result.storage.node], [result.storage.meta])
        named = {"t": t}
        arguments = iter(self.values)
        inputs = [named[str(source)] if source else next(arguments) for source in self.builder.arguments]
        symbols = {"n": n}
        return compile_eager(graph, inputs)(*inputs, *(symbols[s] for s in graph.symbols))[0]

    def holds(self, n: int, t: float | complex) -> bool:
        return all(eval(text_of(guard), {}, {"n": n, "t": t}) for guard in self.builder.env.guards)


@pytest.mark.parametrize("dtype", "?bBhHilLefdFD")
@pytest.mark.parametrize(
    "ufunc", [np.add, np.multiply, np.divide, np.less, np.equal, np.maximum, np.floor_divide], ids=lambda u: u.__name__
)
def test_symbolic_numbers_are_weak(ufunc: np.ufunc, dtype: str) -> None:
    x = numbers(np.dtype(dtype), np.random.default_rng(11), (4,))
    for pick in ("n", "t"):
        for hint in ((5, 2.5), (500, 1e30), (70_000, -0.0)):
            capture = Symbolic(*hint)
            ours = capture.wrap(x)
            try:
                result = FUNCTIONS[ufunc](capture.builder, ours, getattr(capture, pick))
            except Decline:
                assert not is_runnable(ufunc, x, hint["nt".index(pick)]), hint
                continue
            for n, t in (hint, (7, -1.5), (250, float("nan")), (40_000, float("inf"))):
                if capture.holds(n, t):
                    with np.errstate(all="ignore"):
                        compare(capture.evaluate(result, n, t), ufunc(x, n if pick == "n" else t))


def test_symbolic_integer_guards_its_range_once() -> None:
    capture = Symbolic(5, 0.5)
    FUNCTIONS[np.add](capture.builder, capture.wrap(np.arange(3, dtype=np.uint8)), capture.n)
    assert [capture.holds(n, 0.5) for n in (2, 255, 256)] == [True, True, False]
    capture = Symbolic(5, 0.5)
    for x in (np.arange(3), np.arange(3, dtype=np.uint64), np.arange(3.0)):
        FUNCTIONS[np.multiply](capture.builder, capture.wrap(x), capture.n)
    assert not capture.builder.env.guards
