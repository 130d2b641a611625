"""Floating-point warnings and errors are NumPy's, from the user's line. (A device has no flags to tell of them.)"""

import traceback
import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tensor_core.op import OPS, Silent
from npcompile.tracer.function import CompiledFunction
from tests.backends import HOST_BACKENDS
from tests.covering import pairs
from tests.cpu.plans import keeps_what_it_overwrites


def divide(x, y):
    z = x * 2
    return z / y


def logarithm(x, y):
    return np.log(x - 1) + y


def overflow(x, y):
    return np.exp(x * 1000) * y


def reduces(x, y):
    return (x / (y - y)).sum()


def quiet(x, y):
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.log(x - 1) / (y - y)
    return z


def quiet_then_loud(x, y):
    with np.errstate(all="ignore"):
        z = x / (y - y)
    return z, x / y


def quiet_then_the_same_loud(x, y):
    with np.errstate(all="ignore"):
        z = x / (y - y)
    return z, x / (y - y)


def unused(x, y):
    x / y
    np.log(x - 1)
    return y


PROGRAMS = (divide, logarithm, overflow, reduces, quiet, quiet_then_loud, quiet_then_the_same_loud, unused)
DATA = {
    "harmless": (np.array([1.5, 2.0, 3.0]), np.array([1.0, 2.0, 4.0])),
    "zeros": (np.array([1.0, 2.0, 0.5]), np.array([0.0, 1.0, 2.0])),
    "nan": (np.array([np.nan, 2.0, 3.0]), np.array([1.0, np.nan, 2.0])),
}


def outcome(function, arguments):
    """What was warned, where, and what came out or was raised, where."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = function(*(a.copy() for a in arguments)), None
        except FloatingPointError as raised:
            lines = [f.lineno for f in traceback.extract_tb(raised.__traceback__) if f.filename == __file__]
            result, error = None, (str(raised), lines[-1])
    said = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    return said, error, result


@pytest.mark.parametrize(("data", "state", "backend"), pairs([*DATA], ["warn", "raise", "ignore"], ["eager", "cpu"]))
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_warnings_and_errors(function, data, state, backend):
    compiled = npc.compile(function, backend=backend)
    for _ in range(2):
        with np.errstate(all=state, under="ignore"):
            ours, theirs = outcome(compiled, DATA[data]), outcome(function, DATA[data])
        assert ours[:2] == theirs[:2]
        for a, b in zip(np.atleast_1d(ours[2]), np.atleast_1d(theirs[2]), strict=True):
            if b is None:
                assert a is None
            else:
                np.testing.assert_allclose(a, b, rtol=1e-14)


# --- programs that write to their arguments


def in_place(x, y):
    x += y / x
    return x


def twice(x, y):
    x -= 1
    x /= y
    x *= y


def with_out(x, y):
    np.divide(x, y, out=x)
    np.log(x, out=x)


def overwrites(x, y):
    x[...] = (y + 1) / y


def overwrites_with_out(x, y):
    np.divide(y, y - y, out=x)


def overwrites_a_part(x, y):
    x[1:] = 2 / (y[1:] - 1)


def overwrites_after_a_copy(x, y):
    old = x.copy()
    x[...] = 1 / y
    return old


def reads_what_it_overwrote(x, y):
    x[:2] = y[:2] / 2
    z = x[1:] / y[1:]
    x[1:] = 3
    return z


def logarithm_of_what_it_overwrites(x, y):
    np.log(x)
    x[...] = -1 / y


def part_of_a_view(x, y):
    v = x[::-1][:2]
    v /= y[1:3]
    v[0] = np.sqrt(v[1] - 1)
    return v


def several_parts(x, y):
    x[0:2] += 1 / y[0:2]
    x[1:3] /= x[0:2]
    x[0:1] = np.log(x[2:3])


def shifted(x, y):
    x[1:] = x[:-1] / y[1:]


def both(x, y):
    x += 1 / y
    y -= np.sqrt(1 - x)
    x *= y


def one_kept_one_overwritten(x, y):
    y /= x - 1.5
    x[...] = 1 / y


def where_small(x, y):
    x[y < 1.5] = 0
    x[x == 0] /= 1
    y /= x


def broken(x, y):
    x /= y
    str(x)
    y /= x
    return y


def divided(a, b):
    a /= b
    return np.log(b)


def through_a_callee(x, y):
    z = divided(x, y)
    return z + divided(y, x - x)


def repeated(x, y):
    for _ in range(40):
        x -= x / y
    return x


def repeated_until_small(x, y):
    k = 0
    while k < 30 and not x[0] > 50:
        x += 1 / y
        k += 1
    return k


def quiet_in_part(x, y):
    with np.errstate(divide="ignore"):
        x /= y
    y /= x - x


def product(x, y):
    x[...] = np.outer(x, y / y).sum(axis=0)


def silent(x, y):
    x[...] = np.maximum(x, y)
    y[y < 1.5] = np.nan
    np.negative(x, out=x)


WRITERS = (
    *(in_place, twice, with_out, overwrites, overwrites_with_out, overwrites_a_part, overwrites_after_a_copy),
    *(reads_what_it_overwrote, logarithm_of_what_it_overwrites, part_of_a_view, several_parts, shifted, both),
    *(one_kept_one_overwritten, where_small, broken, through_a_callee, repeated, repeated_until_small, quiet_in_part),
    *(product, silent),
)
LAYOUTS = {
    "contiguous": lambda values: np.array(values),
    "reversed": lambda values: np.array(values[::-1])[::-1],
    "strided": lambda values: np.array([values, [7.0] * len(values)]).T[:, 0],
}
STATES = {
    "warn": {"all": "warn", "under": "ignore"},
    "raise": {"all": "raise", "under": "ignore"},
    "ignore": {"all": "ignore"},
    "call": {"all": "call", "under": "ignore"},
    "raise one": {"all": "warn", "divide": "raise", "under": "ignore"},
}


def outcome_of_writing(function, data, layout, state, action="always"):
    """Everything that can be seen of a call: also the memory of the arguments, and the calls of np.errstate."""
    arguments = [LAYOUTS[layout](values) for values in data]
    memory = [a if a.base is None else a.base for a in arguments]
    calls = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        try:
            # NumPy's call sees the arguments as they are then.
            with np.errstate(call=lambda kind, flag: calls.append((kind, flag, str(memory))), **STATES[state]):
                result, error = function(*arguments), None
        except (ArithmeticError, RuntimeWarning, IndexError) as raised:
            lines = [f.lineno for f in traceback.extract_tb(raised.__traceback__) if f.filename == __file__]
            result, error = None, (type(raised), str(raised), lines[-1])
    said = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    return said, calls, error, result, memory


def check_writing(function, data, layout, state, backend, action="always"):
    compiled = npc.compile(function, backend=backend)
    for _ in range(2):
        for values in (DATA["harmless"], data):
            ours = outcome_of_writing(compiled, values, layout, state, action)
            theirs = outcome_of_writing(function, values, layout, state, action)
            assert ours[:3] == theirs[:3]
            for a, b in zip((ours[3], *ours[4]), (theirs[3], *theirs[4]), strict=True):
                assert type(a) is type(b)
                if b is not None:
                    np.testing.assert_allclose(a, b, rtol=1e-14)
    return theirs


@pytest.mark.parametrize(("state", "data", "backend"), pairs([*STATES], ["zeros", "nan"], ["eager", "cpu"]))
@pytest.mark.parametrize("function", WRITERS, ids=lambda f: f.__name__)
def test_programs_that_write(function, data, state, backend):
    check_writing(function, DATA[data], "contiguous", state, backend)


@pytest.mark.parametrize(("layout", "state", "backend"), pairs(["reversed", "strided"], ["warn", "raise"], ["eager", "cpu"]))
@pytest.mark.parametrize("function", WRITERS, ids=lambda f: f.__name__)
def test_programs_that_write_through_views(function, layout, state, backend):
    check_writing(function, DATA["zeros"], layout, state, backend)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("function", WRITERS, ids=lambda f: f.__name__)
def test_warnings_that_are_errors(function, backend):
    check_writing(function, DATA["zeros"], "contiguous", "warn", backend, action="error")


SIZED = [in_place, several_parts, shifted, overwrites, part_of_a_view]


@pytest.mark.parametrize(("function", "state", "backend"), pairs(SIZED, [*STATES], ["eager", "cpu"]))
def test_sizes_that_change(function, state, backend):
    """The third size is symbolic in the program; a large one runs on several threads."""
    compiled = npc.compile(function, backend=backend)
    for size in (5, 7, 9, 400_001):
        for last in (2.0, 0.0):
            data = np.linspace(1, 3, size), np.append(np.full(size - 1, 2.0), last)
            ours, theirs = (outcome_of_writing(f, data, "contiguous", state) for f in (compiled, function))
            assert ours[:3] == theirs[:3]
            for a, b in zip(ours[4], theirs[4], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-14)


def rows(x, y):
    x.T[0] /= y[:, 0]
    x[1:, ::-1] -= np.sqrt(y[1:] - 1)
    y *= x.sum(axis=1, keepdims=True) / y


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("action", ["always", "error"])
def test_two_dimensions(dtype, order, action, backend):
    compiled = npc.compile(rows, backend=backend)
    for bad in (2, 0, np.nan, np.inf):
        outcomes = []
        for function in (compiled, rows):
            x, y = (np.arange(2, 14).reshape(3, 4).astype(dtype, order=order) for _ in range(2))
            y[2, 0] = bad
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter(action)
                try:
                    error = function(x, y)
                except RuntimeWarning as raised:
                    error = str(raised)
            outcomes.append(((error, [(str(w.message), w.lineno) for w in caught]), x, y))
        ours, theirs = outcomes
        assert ours[0] == theirs[0]
        for a, b in zip(ours[1:], theirs[1:]):
            np.testing.assert_allclose(a, b, rtol=1e-5 if dtype == "f4" else 1e-14)


def picks(x, y):
    x += 1
    z = x[y.astype(int) * 2] / y
    x *= 2
    return z


def puts(x, y):
    y /= 2
    x[y.astype(int) * 3] = y
    y *= 2


def adds(x, y):
    y += 1 / (x - 1)
    np.add.at(x, y.astype(np.int8) * 0 + 5, y)
    y[...] = 0


@pytest.mark.parametrize(("state", "layout", "backend"), pairs([*STATES], [*LAYOUTS], ["eager", "cpu"]))
@pytest.mark.parametrize("function", [picks, puts, adds], ids=lambda f: f.__name__)
def test_indices_out_of_bounds(function, state, layout, backend):
    """The statements before have written, those after have not."""
    data = np.array([1.5, 1.0, 3.0]), np.array([0.0, 1.0, 4.0])
    error = check_writing(function, data, layout, state, backend)[2]
    assert error[0] is (FloatingPointError if "raise" in state and function is adds else IndexError)


def test_only_what_may_be_reported_is_kept():
    """Nothing is kept of what is overwritten unseen, and nothing by programs in which NumPy reports no error."""
    for function, is_kept in ((in_place, True), (overwrites, False), (overwrites_a_part, False), (silent, False)):
        compiled = npc.compile(function)
        compiled(*(a.copy() for a in DATA["harmless"]))
        ((graph, _),) = compiled_function(compiled).graphs
        assert bool(graph.restored and graph.checks) == is_kept == keeps_what_it_overwrites(graph), function


BESIDE = {"partition": (2,), "argpartition": (2,), "searchsorted": (np.nan,)}  # further arguments


@pytest.mark.parametrize("name", sorted({op.name for op in OPS.values() if op.silent is not Silent.NEVER} & set(dir(np))))
def test_operations_that_are_never_reported(name):
    function = getattr(np, name)
    kinds = "efd" if OPS[name].silent is Silent.REAL or name in ("signbit", "copysign") else "efdFD"
    for dtype in kinds:
        limits = np.finfo(dtype)
        values = [0.0, -0.0, 1, -2.5, np.nan, np.inf, -np.inf, limits.max, limits.min, limits.tiny, limits.smallest_subnormal]
        with np.errstate(all="ignore"):
            numbers = [complex(a, b) for a in values for b in values] if dtype in "FD" else values
            x = np.array(numbers).astype(dtype)
        pair = np.repeat(x, len(x)), np.tile(x, len(x))
        with np.errstate(all="raise"):
            function(*pair[: getattr(function, "nin", 1)], *BESIDE.get(name, ()))


def test_complex_division_reports_nothing_that_numpy_does_not(monkeypatch):
    """Where C computes both arms of Smith's algorithm, that which is not taken divides by what may be 0."""
    compiled = npc.compile(lambda a, b: a / b, backend="cpu")
    a = np.arange(1, 38) * (1 + 2j)
    monkeypatch.setattr(CompiledFunction, "whole", None)  # which is called where there is something to report
    for b in (np.full(37, 2.0 + 0j), np.full(37, 3j), a[::-1].copy(), np.full(37, -1e-200 + 0j)):
        np.testing.assert_array_equal(compiled(a, b), a / b)


@pytest.mark.parametrize("a", [0, 1, -2 + 1j, np.inf, complex(np.nan, 1)])
def test_complex_division_by_zero(a):
    compiled = npc.compile(lambda a, b: a / b, backend="cpu")
    x = np.full(9, a, complex)
    for zero in (0j, complex(-0.0, 0.0), complex(0.0, -0.0)):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(compiled(x, np.full(9, zero)), x / zero)


def test_what_reports_is_not_tried_again_at_each_instruction():
    """Code after a break that reports at every call runs natively to its end, as one segment."""

    def f(x, y):
        y = y + 1
        npc.graph_break()
        z = x / (y - y)
        a = z * 2 + y
        b = np.minimum(a, 1) - x
        return z, a, b

    compiled = npc.compile(f, backend="cpu")
    x = np.arange(1.0, 4.0)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ours = compiled(x, x)
        assert [str(w.message) for w in caught] == ["divide by zero encountered in divide"]
    with np.errstate(all="ignore"):
        for one, other in zip(ours, f(x, x)):
            np.testing.assert_array_equal(one, other)
    assert len(compiled_function(compiled).graphs) == 2
