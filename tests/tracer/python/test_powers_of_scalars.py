"""Powers of NumPy's scalars are those of the C library, to the bit: ufuncs square, take roots and have vector functions."""

import warnings

import numpy as np
import pytest

import npcompile as npc
from tests.backends import HOST_BACKENDS

DTYPES = (np.float64, np.float32)
PAIRS = [("f4", "f8"), ("i8", "f8"), ("f8", "i4"), ("?", "f8"), ("i2", "f4")]  # of which one is converted
CONVERTED = [(np.int64(7), 0.5), (np.int64(7), 3.0), (np.float32(1.7), np.int32(3)), (2.5, np.int64(3))]
SPECIAL = (0.0, -0.0, -8.0, 1e300, np.inf, -np.inf, np.nan)


def powers(x, y):
    known = x**2, x**3, x**4, x**-1, x**0.5, x**2.0, x**3.0, x**-0.5, x**1.7
    return *known, 2**x, 0.3**x, x**y, y**x


def power(x, y):
    return x**y


def of_elements(a):
    return (a[1] - a[0]) ** 2, a.max() ** 3, a * a[0] ** 3


def numbers(dtype, n=300):
    return np.random.default_rng(3).uniform(0.1, 9, (n, 2)).astype(dtype)


def outcome(function, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = function(*arguments)
    results = found if isinstance(found, tuple) else (found,)
    return [(type(x), np.asarray(x).dtype, np.asarray(x).tobytes()) for x in results], [str(w.message) for w in caught]


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_are_numpys_to_the_bit(backend, dtype):
    compiled, of_two = npc.compile(powers, backend=backend), npc.compile(power, backend=backend)
    for x, y in numbers(dtype):
        assert outcome(compiled, x, y) == outcome(powers, x, y)
        for n in (2, 3, -2, 0.5, 1.7, float(y)):
            assert outcome(of_two, x, n) == outcome(power, x, n)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("pair", PAIRS)
def test_where_one_is_converted(pair, backend):
    compiled = npc.compile(power, backend=backend)
    for row in numbers("f8"):
        x, y = (np.dtype(dtype).type(v) for dtype, v in zip(pair, row))
        assert outcome(compiled, x, y) == outcome(power, x, y)


@pytest.mark.parametrize(("x", "y"), CONVERTED)
def test_where_both_are_converted_numpy_takes_the_ufunc(x, y):
    compiled = npc.compile(power)
    assert type(compiled(x, y)) is type(x**y)
    np.testing.assert_array_max_ulp(compiled(x, y), x**y, 1)
    assert outcome(npc.compile(power, backend="eager"), x, y) == outcome(power, x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_elements_and_extremes_of_arrays(dtype):
    compiled = npc.compile(of_elements)
    for a in numbers(dtype, 40):
        assert outcome(compiled, a) == outcome(of_elements, a)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("y", [2, 3, -1, 0.5, 1.5, 400.0])
def test_errors_are_warned_of_as_by_numpy(y, backend):
    compiled = npc.compile(lambda x: x**y, backend=backend)
    warned = []
    for x in map(np.float64, SPECIAL):
        ours, theirs = outcome(compiled, x), outcome(lambda x: x**y, x)
        assert ours == theirs, x
        warned += theirs[1]
    assert warned


def test_a_gradient():
    def cube(x):
        return x[0] ** 3 + x[1] ** x[0]

    x = np.array([1.5, 2.5])
    slope = np.array([3 * x[0] ** 2 + x[1] ** x[0] * np.log(x[1]), x[0] * x[1] ** (x[0] - 1)])
    np.testing.assert_allclose(npc.grad(cube)(x), slope, rtol=1e-14)


def test_in_batches_they_are_those_of_arrays():
    X = numbers(np.float64)
    np.testing.assert_array_equal(npc.vmap(lambda v: v[0] ** 2)(X), X[:, 0] * X[:, 0])
    np.testing.assert_array_max_ulp(npc.vmap(lambda v: v[0] ** v[1])(X), X[:, 0] ** X[:, 1], 1)
