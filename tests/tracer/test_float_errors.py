"""Floating-point warnings and errors are NumPy's, from the user's line."""

import traceback
import warnings

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import BACKENDS


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


PROGRAMS = (divide, logarithm, overflow, reduces, quiet, quiet_then_loud)
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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("state", ["warn", "raise", "ignore"])
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_written_before_an_error(backend):
    """A program that writes to its arguments says that something went wrong, and has written what it could."""

    def scale(x, y):
        x /= y
        return x

    compiled = npc.compile(scale, backend=backend)
    x, y = np.array([1.0, 2.0]), np.array([0.0, 1.0])
    with np.errstate(all="ignore"):
        got = compiled(x, y)
    assert got is x and list(x) == [np.inf, 2.0]
