"""Polynomials, masked, structured, datetime, string and object arrays, subclasses, memory maps: NumPy's, inside programs."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy import ma
from numpy.polynomial import Chebyshev, Polynomial

import npcompile as npc
from tests.shim.harness import same_values

X = np.arange(1.0, 7.0).reshape(2, 3)
MASKED = ma.masked_array([1.0, 2.0, 3.0, 4.0], mask=[0, 1, 0, 0])
RECORDS = np.array([(1, 2.5, b"a"), (3, 4.5, b"bb")], dtype=[("i", "i4"), ("f", "f8"), ("s", "S3")])
DATES = np.array(["2020-01-01", "2021-06-05", "NaT"], "M8[D]")
DAYS = np.array([1, 2, 3], "m8[D]")
TEXTS = np.array(["ab", "cde", ""])
OBJECTS = np.array([1, 2.5, Fraction(1, 3)], object)
MATRIX = np.array([[1.0, 2.0], [3.0, 4.0]]).view(np.matrix)


class Tagged(np.ndarray):
    """A subclass with an attribute that views and results inherit."""

    def __array_finalize__(self, made_of: Any) -> None:
        self.tag = getattr(made_of, "tag", None)


TAGGED = np.arange(6.0).view(Tagged)
TAGGED.tag = "a tag"

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def program(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = function, arguments
        return function

    return add


# --- polynomials


@program(X)
def poly1d(x):
    p = np.poly1d([1, 2, 3.0])
    q = (p * p + 1).deriv()
    return p(x), q.coeffs, p.roots, p.integ().c, np.polyval(q, x), np.poly1d(x[0])(x), str(p)


@program(X)
def functions_of_coefficients(x):
    fitted = np.polyfit(x[0], x[1] ** 2, 1)
    return fitted, np.roots([1.0, -3, 2]), np.polymul([1, 2], x[0]), np.polydiv([1.0, 5, 6], [1.0, 2]), np.poly(x[0])


@program(X)
def classes_of_polynomials(x):
    p = Polynomial([1, 2, 3.0])
    q = p * p + 1
    fitted = Polynomial.fit(x[0], x[1], 1).convert().coef
    return q(x), q.coef, p.deriv().coef, p.roots(), str(p), Chebyshev(x[0])(x[1]), fitted


# --- masked arrays


@program(MASKED)
def masked_arithmetic(m):
    y = m * 2 + 1
    return (
        y.sum(),
        y.mean(),
        y.filled(0),
        ma.getmaskarray(y),
        np.sqrt(y),
        np.add(m, 1),
        np.where(m > 2, m, 0),
        m[m > 1],
        np.sum(m),
    )


@program(X)
def masked_by_computed_conditions(x):
    above, below = ma.masked_greater(x, 3), ma.masked_where(x * 2 < 4, x)
    return (
        above.compressed(),
        (above + below).count(),
        ma.average(above),
        ma.median(below),
        ma.masked_invalid(np.log(x - 3)),
        x + 1,
    )


@program(MASKED, X)
def masked_writes(m, x):
    m[0] = ma.masked
    m[1:] = x[0] * 2
    return m * x[0, 0], m.mask, np.exp(m), np.max(m), np.cumsum(m), m.data


@program(X)
def masked_memory_is_that_of_the_array(x):
    y = x * 2
    m = ma.array(y, copy=False)
    m[0] = 100
    return y + 1, m


# --- structured arrays and records


@program(RECORDS, X)
def structured(a, x):
    b = a.copy()
    b["i"] += 1
    b["f"] = x[0, :2]
    return b["f"] * x[0, :2], b["i"], b[0], a.dtype.names, np.sort(a, order="f"), b[["i", "f"]], a["f"].sum(), a == b


@program(RECORDS.view(np.recarray), X)
def records(a, x):
    return a.f * x[:, 0], a.i + 1, a[0].f, a.s, np.rec.fromarrays([a.i, x[:, 0]], names="x,y").x


@program(X)
def fields_are_views(x):
    y = x * 1
    fields = y.view([("a", "f8"), ("b", "f8"), ("c", "f8")])
    fields["a"] *= 2
    fields["b"] = y[:, :1]
    return y.sum(0), y + 1


# --- dates, texts, objects


@program(DATES, DAYS, X)
def dates(d, t, x):
    counted = (d[:2] - d[0]).astype(float) * x[0, :2]
    months = np.arange("2020-01", "2020-04", dtype="M8[M]")
    return (
        counted,
        d + t,
        np.isnat(d),
        d.astype("M8[M]"),
        np.diff(d),
        d < d[1],
        t.sum(),
        t / np.timedelta64(1, "h"),
        months,
        d[x[0] > 1],
    )


@program(TEXTS, X)
def texts(s, x):
    made = np.array([f"{v:.2f}" for v in x[0].tolist()])
    return (
        made,
        np.char.upper(s),
        s == "ab",
        np.sort(s),
        s.astype("S"),
        np.unique(s),
        np.char.count(s, "a"),
        np.array2string(x * 2),
    )


@program(OBJECTS, X)
def objects(o, x):
    y = x[0]
    return o + 1, o * y, y * o, np.add(y, o), o.sum(), np.add.reduce(o), o == 2.5, o.astype(float) * y, np.dot(o, o), y + 1


# --- subclasses


@program(TAGGED, X)
def subclass(a, x):
    b = a[:3] * x
    a[0] = x[0, 0]
    return (
        b,
        b.tag,
        np.sin(a),
        a.sum(),
        a[1:].tag,
        np.where(x > 2, x, a[:3]),
        np.asarray(a) + 1,
        a.reshape(2, 3) @ x[0],
        np.maximum(a[:3], x),
    )


@program(X)
def views_as_a_subclass(x):
    y = x + 1
    tagged = y.view(Tagged)
    tagged += 1
    y *= 2
    return tagged, y, np.add(x[0], 1, out=np.zeros(3).view(Tagged))


@program(MATRIX, X)
def matrix(m, x):
    return m * m, m.I, m.T + 1, m.sum(0), np.linalg.inv(m), m[0], m**2, np.asarray(m) * 2, x[:, :2] * m, np.hstack([m, m])


# --- other memory


@program(X)
def memory_map(x):
    with tempfile.NamedTemporaryFile() as file:
        mapped = np.memmap(file.name, float, "w+", shape=x.shape)
        mapped[:] = x * 2
        mapped += 1
        mapped.flush()
        return np.asarray(mapped) * x, np.fromfile(file.name), float(mapped.sum()), type(mapped * 2).__name__


@program(X)
def other_byte_order_and_buffers(x):
    swapped, memory = x.astype(">f8"), bytearray(x.tobytes())
    y = np.frombuffer(memory)
    y[0] = 9
    return swapped + 1, swapped[0] * x, np.sin(swapped), swapped.sum(), np.frombuffer(memory) * 2, x.view("u1")[0, :4]


@program(X)
def long_numbers(x):
    y = x.astype(np.longdouble)
    return y + 1, y.sum(), np.sin(y), x.astype(np.clongdouble) * 2, np.linalg.norm(y)


@program(X)
def iterators_and_python_functions(x):
    y = x * 2
    with np.nditer(y, op_flags=["readwrite"]) as numbers:
        for number in numbers:
            number[...] = number + 1
    add = np.frompyfunc(lambda a, b: a + b, 2, 1)
    return (
        y + 1,
        [i for i, _ in np.ndenumerate(x)],
        list(np.ndindex(2, 2)),
        np.vectorize(lambda v: v * 2 + 1)(x) * y,
        add.reduce(x, axis=1),
    )


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b)
    elif isinstance(theirs, ma.MaskedArray):
        same(ma.getmaskarray(ours), ma.getmaskarray(theirs))
        assert str(ours) == str(theirs) and ours.fill_value == theirs.fill_value
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape, ours.strides) == (theirs.dtype, theirs.shape, theirs.strides)
        assert ours.flags.writeable == theirs.flags.writeable and getattr(ours, "tag", None) == getattr(theirs, "tag", None)
        if theirs.dtype.kind in "fc":
            same_values(ours.view(np.ndarray), theirs.view(np.ndarray), 16)
        else:
            assert repr(ours) == repr(theirs)
    elif isinstance(theirs, (float, complex)):
        same_values(np.asarray(ours), np.asarray(theirs), 16)
    else:
        assert ours == theirs or str(ours) == str(theirs)


@pytest.mark.parametrize("backend", ["eager", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::PendingDeprecationWarning", "ignore::DeprecationWarning")
def test_program(name: str, backend: str) -> None:
    function, arguments = PROGRAMS[name]
    compiled = npc.compile(function, backend=backend)
    for _ in range(2):
        ours, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
        same(compiled(*ours), function(*theirs))
        same(ours, theirs)
