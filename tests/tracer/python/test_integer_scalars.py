"""Operators on NumPy's integer scalars: what overflows is reported, as `np.errstate` says, on the user's line."""

import traceback
import warnings

import numpy as np
import pytest

import npcompile as npc
from tests.backends import HOST_BACKENDS
from tests.covering import pairs

REPORT = ("x + y", "x - y", "x * y", "x // y", "x % y", "divmod(x, y)", "-x", "abs(x)", "x += y", "x *= y")
WRAP_AROUND = ("x ** y", "x << y", "x >> y", "+x", "~x", "x ^ y")
LEAST, LARGEST = "least", "largest"
VALUES = [(1, 0), (LARGEST, LARGEST), (LEAST, LEAST), (LEAST, 1), (LARGEST, 2), (3, 5)]  # of x and y


def program(text):
    """The function that gives the value of an expression, or of x after a statement."""
    made = {}
    body = f"{text}\n    return x" if "=" in text else f"return {text}"
    exec(compile(f"def plain(x, y):\n    {body}", "<plain>", "exec"), made)
    return made["plain"]


def outcome(function, arguments, state):
    with warnings.catch_warnings(record=True) as caught, np.errstate(all=state):
        warnings.simplefilter("always")
        try:
            results = function(*arguments)
        except (FloatingPointError, OverflowError, ValueError) as error:
            lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<")]
            results = (type(error), str(error), lines)
    said = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    return said, repr(results), [type(r) for r in (results if isinstance(results, tuple) else (results,))]


def agree(compiled, plain, arguments):
    """The outcomes for each state of np.errstate; returns what was warned."""
    for state in ("ignore", "raise", "warn"):
        copies = [[x.copy() if isinstance(x, np.ndarray) else x for x in arguments] for _ in range(2)]
        ours, theirs = outcome(compiled, copies[0], state), outcome(plain, copies[1], state)
        assert ours == theirs, (state, arguments)
        assert str(copies[0]) == str(copies[1])
    return theirs[0]


def numbers(dtype, pair):
    limits = {LEAST: np.iinfo(dtype).min, LARGEST: np.iinfo(dtype).max}
    return [np.dtype(dtype).type(limits.get(v, v)) for v in pair]


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("text", REPORT + WRAP_AROUND)
def test_operators_on_arguments(text, backend):
    plain = program(text)
    warned = []
    dtypes = ("u2", "i1", "i8")
    for dtype in dtypes if backend == "eager" else [dtypes[(REPORT + WRAP_AROUND).index(text) % 3]]:  # a unit for each
        compiled = npc.compile(plain, backend=backend)
        for pair in VALUES:
            x, y = numbers(dtype, pair)
            warned += agree(compiled, plain, (x, y))
            if "y" in text:
                warned += agree(compiled, plain, (x, int(y))) + agree(compiled, plain, (int(x), y))
    assert bool(warned) == (text in REPORT)


def of_elements(x, y):
    return x[0] + y[0], x[-1] * y[-1], -x[1], abs(y[1])


def of_reductions(x, y):
    return x.max() - y.min() * 2, x.sum() * x.max()


def into_arrays(x, y):
    x[0] = x[0] + x[1]
    y[...] = y + x.max() * y[0]
    return x + (x[1] - y[0])


def unused(x, y):
    x[0] - y[0]
    return x.sum()


def ignored(x, y):
    with np.errstate(over="ignore"):
        less = x[0] - y[0]
    return less, x[0] + y[0]


def branches(x, y):
    if x[0] > 0:
        z = x[0] * y[0]
    else:
        z = x[0] - y[0]
    return z


PLAIN = [of_elements, of_reductions, into_arrays, unused, ignored, branches]


@pytest.mark.parametrize(("plain", "dtype", "backend"), pairs(PLAIN, ["i1", "u2", "i8", "u8"], ["eager", "cpu"]))
def test_scalars_of_arrays(plain, dtype, backend):
    compiled = npc.compile(plain, backend=backend)
    warned = []
    for pair in [(1, 1), (2, 3), (LARGEST, LARGEST), (LEAST, LEAST), (LARGEST, 1), (LEAST, 1), (0, LARGEST)]:
        x, y = numbers(dtype, pair)
        warned += agree(compiled, plain, (np.array([x, y, x]), np.array([y, x, x])))
    assert warned


def middle(x):
    return np.percentile(x, 40)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_differences_of_neighbours_in_quantiles(backend):
    """NumPy subtracts scalars by an operator there."""
    compiled = npc.compile(middle, backend=backend)
    warned = [agree(compiled, middle, (np.array([127, -100, last], np.int8),)) for last in (5, 90, 100)]
    assert [bool(w) for w in warned] == [False, True, True]


LARGE = np.uint8(200)
FLOAT = np.float32(1e30)


def of_constants(x, y):
    return x + (LARGE + LARGE), -np.int8(-128)


def of_constant_floats(x, y):
    return x + (FLOAT * FLOAT)


@pytest.mark.parametrize("plain", [of_constants, of_constant_floats], ids=lambda f: f.__name__)
def test_constants_are_reported_at_each_call(plain):
    compiled = npc.compile(plain, backend="eager")
    for _ in range(3):
        assert agree(compiled, plain, (np.arange(3, dtype="u1"), 0))


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_functions_and_arrays_wrap_around(backend):
    def plain(x, y):
        return np.add(x, y), np.negative(x), np.array(x) + y, np.array(y) * x, np.sum([x, y], dtype=x.dtype), x**y, x << y

    compiled = npc.compile(plain, backend=backend, fullgraph=True)
    assert not agree(compiled, plain, (np.uint8(200), np.uint8(100)))


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_each_example_of_a_batch_is_reported(backend):
    def differences(x, y):
        return npc.vmap(lambda a, b: a[0] - b[0])(x, y)

    compiled = npc.compile(differences, backend=backend)
    for last in (4, 9):
        x, y = np.array([[5], [6], [7]], np.uint8), np.array([[1], [2], [last]], np.uint8)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = compiled(x, y)
        assert result.tolist() == (x - y)[:, 0].tolist()
        assert {str(w.message) for w in caught} == ({"overflow encountered in scalar subtract"} if last == 9 else set())


def test_long_long_is_told_from_long():
    """Their dtypes are equal, and scalars of both stay what they are."""
    item, doubled = npc.compile(lambda x: x[0]), npc.compile(lambda x: x * 2 + 1)
    for kind in "qlqlLQLQ":
        x = np.arange(3).astype(kind)
        assert type(item(x)) is type(x[0])
        assert doubled(x).dtype.char == (x * 2 + 1).dtype.char
