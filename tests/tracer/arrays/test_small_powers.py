"""Powers of arrays to small whole numbers are the same, to the bit, however the exponent is given and wherever it is applied."""

import numpy as np
import pytest

import npcompile as npc
from tests.backends import HOST_BACKENDS
from tests.covering import pairs

EXPONENTS = [2, 3, 4, -1, 2.0, 3.0, -1.0, -2, 5, 1.7]
DTYPES = ["f8", "f4"]


def numbers(dtype, exponent=1):
    """Whose powers note no error: where they do NumPy computes what it reports of, to other bits."""
    x = np.random.default_rng(5).uniform(-9, 9, (20, 17)).astype(dtype)
    return x if exponent == int(exponent) else np.abs(x)


def literal(exponent):
    return eval(f"lambda x: x ** {exponent!r}")


def power(x, n):
    return x**n


def by_ufunc(x, n):
    return np.power(x, n)


def in_a_sum(x, n):
    return x**n + 0 * x


def of_columns(x, n):
    return x[:, ::2] ** n


def by_rows(x, n):
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = x[i] ** n
    return out


def by_rows_of_a_call(x, n):
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = power(x[i], n)
    return out


WAYS = [power, by_ufunc, in_a_sum, of_columns, by_rows, by_rows_of_a_call]


ROWS = pairs(range(len(EXPONENTS)), WAYS, DTYPES, ["known", "given"])  # the exponent, to the compiled function


@pytest.mark.parametrize("place", range(len(EXPONENTS)), ids=map(str, EXPONENTS))
def test_one_power_has_one_result(place):
    n = EXPONENTS[place]
    wanted = {dtype: npc.compile(literal(n))(numbers(dtype, n)) for dtype in DTYPES}
    for way, dtype, exponent in (row[1:] for row in ROWS if row[0] == place):
        call = npc.compile(way) if exponent == "given" else npc.compile(lambda x, n=None, way=way: way(x, EXPONENTS[place]))
        found, expected = call(numbers(dtype, n), n), wanted[dtype]
        np.testing.assert_array_equal(found, expected[:, ::2] if way is of_columns else expected, f"{way.__name__} {dtype}")


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, -1, 2.0, -1.0])
def test_squares_and_reciprocals_are_numpys(n, dtype, backend):
    x = numbers(dtype)
    for way in WAYS:
        if way is by_ufunc and n == -1:  # a reciprocal since NumPy 2.3
            continue
        assert npc.compile(way, backend=backend)(x, n).tobytes() == way(x, n).tobytes(), way.__name__


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponents_that_are_elements(dtype):
    x = numbers(dtype, 0.5)
    exponents = np.resize(np.array(EXPONENTS, dtype), x.shape)
    compiled, of_one = npc.compile(lambda x, y: x**y), npc.compile(power)
    found = compiled(x, exponents)
    for n in EXPONENTS:
        here = exponents == np.dtype(dtype).type(n)
        np.testing.assert_array_equal(found[here], of_one(x, n)[here], str(n))


@pytest.mark.parametrize(("x", "n"), [(1e200, 2), (1e200, 3), (1e-200, -2), (0.0, -1), (-0.0, -1)])
def test_errors_are_numpys(x, n):
    given = np.full(19, x)
    with np.errstate(all="raise", under="ignore"), pytest.raises(FloatingPointError) as ours:
        npc.compile(power)(given, n)
    with np.errstate(all="raise", under="ignore"), pytest.raises(FloatingPointError) as theirs:
        power(given, n)
    assert str(ours.value) == str(theirs.value)
