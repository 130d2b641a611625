"""Containers, numbers and arrays of other kinds between calls."""

import copy
import os
import random
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npcompile.backends.array_guards import LIKENESS
from tests.tracer.calls.changes.cases import Cases, X, check
from tests.tracer.harness import clone

CASES = Cases()
case = CASES.case
TABLE: Any = {"a": 1.0, "b": 2.0}

# --- containers


@case
def contents_of_a_list():
    data: Any = [X, 2.0, "a"]

    def f(x, d):
        return x * d[0] + d[1], d[2], len(d)

    yield f, (X, data)
    data[1] = 3.0
    yield f, (X, data)
    data[2] = "b"
    yield f, (X, data)
    data.append(None)
    yield f, (X, data)
    data[0] = data[0].astype(np.float32)
    yield f, (X, data)
    data.reverse()
    yield f, (X, data)
    data.clear()
    yield f, (X, data)
    yield f, (X, (X, 2.0, "a"))


@case
def contents_of_a_dict():
    d: Any = {"a": X, "b": 2.0}

    def f(x, d):
        return x * d["a"] + d["b"], list(d), "c" in d, d.get("c", 1)

    yield f, (X, d)
    d["b"] = 3.0
    yield f, (X, d)
    d["c"] = 4
    yield f, (X, d)
    del d["c"]
    yield f, (X, d)
    yield f, (X, {"b": 3.0, "a": X})
    yield f, (X, OrderedDict(a=X, b=2.0))
    del d["b"]
    yield f, (X, d)


@case
def keys_that_are_equal():
    def f(x, d):
        return [type(k).__name__ for k in d], x * d[1]

    for key in (1, True, 1.0, np.int64(1), np.True_):
        yield f, (X, {key: 2.0})


@case
def string_keys_of_another_type():
    def f(x, d):
        return [type(k).__name__ for k in d], x * d["a"]

    yield f, (X, {"a": 2.0})
    yield f, (X, {np.str_("a"): 2.0})


@case
def a_dict_made_global():
    global TABLE

    def f(x):
        return sum(x * v for v in TABLE.values()), sorted(TABLE)

    try:
        yield f, (X,)
        TABLE["a"] = 5.0
        yield f, (X,)
        TABLE["z"] = X
        yield f, (X,)
        TABLE = {"z": X, "a": 5.0}
        yield f, (X,)
    finally:
        TABLE = {"a": 1.0, "b": 2.0}


@case
def a_set():
    s = {1, 2}

    def f(x, s):
        return x * len(s), 3 in s, sorted(s)

    yield f, (X, s)
    s.add(3)
    yield f, (X, s)
    yield f, (X, frozenset(s))


Pair = namedtuple("Pair", "a b")
Other = namedtuple("Other", "b a")


@case
def named_tuples():
    def f(x, p):
        return x * p.a - p.b

    yield f, (X, Pair(1.0, 2.0))
    yield f, (X, Pair(2.0, X))
    yield f, (X, Other(1.0, 2.0))


@case
def one_array_twice_in_containers():
    def f(d):
        d[0][0] += 1
        return d[1] * 2

    yield f, lambda: ([np.ones(3), np.ones(3)],)
    yield f, lambda: ([a := np.ones(3), a],)
    yield f, lambda: ([a := np.ones(3), a[::-1]],)


@case
def containers_that_the_program_changes():
    def f(x, d, s):
        d["n"] = d.get("n", 0) + 1
        d.setdefault("seen", []).append(x * 2)
        s.add(d["n"])
        return x * d["n"], len(s)

    yield f, lambda: (X, {}, set())
    yield f, lambda: (X, {"n": 3}, {4})
    yield f, lambda: (X, {"n": 3, "seen": [1, 2]}, {4, 5})
    yield f, lambda: (X, {"seen": [], "n": 2.5}, set())


@case
def one_container_twice():
    def f(a, b):
        a.append(1.0)
        return len(b), b[0] * 2

    yield f, lambda: ([X], [X])
    yield f, lambda: (a := [X], a)
    yield f, lambda: ([X], [X, 1])


@case
def nested_containers():
    def f(x, d):
        return [x * v for k, v in d["a"][0].items() if k in d["keys"]]

    yield f, (X, {"a": [{"p": 1.0, "q": X}], "keys": ("p", "q")})
    yield f, (X, {"a": [{"p": 1.0, "q": X}], "keys": ("p",)})
    yield f, (X, {"a": [{"p": 2, "q": X}], "keys": ["p", "q"]})
    yield f, (X, {"a": ({"p": 2, "q": X}, 1), "keys": {"q"}})


@case
def strings_and_ranges():
    def f(x, s, r):
        return x * len(s), s.upper(), [x * k for k in r], s == "a"

    for s in ("a", "b", "ab", b"ab", np.str_("a")):
        yield f, (X, s, range(2))
    for r in (range(2), range(3), range(0, 4, 2), [0, 1], np.arange(2)):
        yield f, (X, "a", r)


# --- numbers

NUMBERS = [
    0, 1, -1, 2, 3, True, False, 2**31, 2**40, -(2**40), 2**63 - 1, 2**63, 2**64, 10**30, 0.0, -0.0, 1.0, 0.5, float("nan"),
    float("inf"), -float("inf"), 1e308, 5e-324, 1j, 0j, complex(-0.0, 0.0), complex(0.0, -0.0), complex("nan"),
    np.float64(0.5), np.float32(0.5), np.float16(0.5), np.int8(3), np.int64(-3), np.uint64(3), np.bool_(True), np.bool_(False),
    np.complex64(1j), np.longdouble(0.5), np.str_("a"), np.datetime64("2020"), None, "a", b"a",
]  # fmt: skip


ORDERS = int(os.environ.get("NPCOMPILE_ORDERS", 1))  # in which the same values are given


def number_case(name: str, f: Callable[..., Any]) -> None:
    def make():
        rng = random.Random(name)
        for _ in range(ORDERS):
            for n in rng.sample(NUMBERS, len(NUMBERS)):
                yield f, (X, n)

    make.__name__ = f"number_{name}"
    case(make)


for name, f in {
    "added": lambda x, n: x + n,
    "divided": lambda x, n: x / n,
    "copysign": lambda x, n: np.copysign(x, n),
    "arithmetic": lambda x, n: (n * 2 + 1, x),
    "power": lambda x, n: (n**2, x * 2),
    "compared": lambda x, n: x * 2 if n > 0 else x,
    "true": lambda x, n: x * 2 if n else x,
    "equal": lambda x, n: (x * 2, n == 1, n == 0, n != n),
    "is": lambda x, n: (x * 2, n is None, n is True, n is n),
    "index": lambda x, n: x[n],
    "slice": lambda x, n: x[:n],
    "shape": lambda x, n: np.zeros(n).shape if isinstance(n, int) and n < 100 else x,
    "type": lambda x, n: (x, type(n).__name__, isinstance(n, int), isinstance(n, float)),
    "array": lambda x, n: np.array(n),
    "full": lambda x, n: np.full(3, n),
    "returned": lambda x, n: (x * 2, n),
    "kept": lambda x, n: [n, n, {"n": n}, x],
    "where": lambda x, n: np.where(x > 1, x, n),
    "maximum": lambda x, n: np.maximum(x, n),
    "integers": lambda x, n: x.astype(np.int64) * n,
    "bools": lambda x, n: (x > 1) & n,
    "negated": lambda x, n: (-n, x),
    "abs": lambda x, n: (abs(n), x),
    "float": lambda x, n: (float(n), x),
    "int": lambda x, n: (int(n), x),
    "mod": lambda x, n: (n % 3, n // 3, x),
    "text": lambda x, n: (f"{n}", str(n), x * 2),
    "max": lambda x, n: (max(n, 1), min(n, 1.5), x),
    "divmod": lambda x, n: (divmod(n, 3), round(n), x),
    "chain": lambda x, n: x * 2 if 0 < n < 2 else x,
    "bits": lambda x, n: (n & 3, n | 4, n ^ 1, n << 2, n >> 1, ~n, x),
    "hash": lambda x, n: (hash(n) if n == n else 0, x),
    "sqrt": lambda x, n: (np.sqrt(n), x),
}.items():
    number_case(name, f)


# --- arrays


def array_case(name: str, f: Callable[..., Any], *arguments: tuple[Any, ...]) -> None:
    def make():
        rng = random.Random(name)
        for _ in range(ORDERS):
            for given in rng.sample(arguments, len(arguments)):
                yield f, given

    make.__name__ = f"arrays_{name}"
    case(make)


class Labelled(np.ndarray):
    pass


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


A = np.arange(12.0).reshape(3, 4)
VARIED = [
    A, A[::-1], A[:, ::-1], A.T.copy().T, A[:, ::2], np.broadcast_to(A[:1], (3, 4)), A.astype(np.float32), A.astype(">f8"),
    A.astype(int), A > 3, A.astype(complex), A.astype(object), A.astype("U5"), A.view(Labelled), np.ma.masked_array(A, A > 3),
    A[0], A[0, 0], A[:0], A[:1], A[None], A.tolist(), A.astype("m8[s]"), np.matrix(A), np.zeros((3, 4), [("a", "f8")]),
    A.astype(np.longdouble), A.astype(np.float16), np.asarray(5.0), np.frombuffer(b"\0" + A.tobytes(), np.uint8)[1:].view(float),
]  # fmt: skip

for name, f in {
    "sum": lambda x: np.sum(x),
    "flags": lambda x: (x.flags["C_CONTIGUOUS"], x.flags["F_CONTIGUOUS"], x.flags["WRITEABLE"]),
    "strides": lambda x: (x.strides, x.shape, x.dtype, x.ndim),
    "ravel": lambda x: x.ravel(),
    "doubled": lambda x: x * 2,
    "rows": lambda x: [r.sum() for r in x],
    "base": lambda x: x[:1].base is x,
    "copy": lambda x: x.copy(order="K").strides,
    "type": lambda x: type(x * 1).__name__,
    "reshape": lambda x: np.shares_memory(x.reshape(-1), x),
}.items():
    array_case(name, f, *((x,) for x in VARIED))


def writes(x):
    x[0] = 5
    return x * 2


@case
def arrays_written():
    for x in random.Random(0).sample([*VARIED, read_only(A)], len(VARIED) + 1):
        yield writes, lambda: (copy.deepcopy(x) if isinstance(x, list) else clone([x])[0],)


@case
def two_arrays_that_may_overlap():
    def f(x, y):
        x[1:] = y[:-1]
        x += y
        return x, y, x * y, np.shares_memory(x, y)

    def given():
        base = np.arange(20.0)
        return [
            (base[:5].copy(), base[:5].copy()),
            (base[:5], base[5:10]),
            (base[:5], base[:5]),
            (base[:5], base[3:8]),
            (base[:5], base[4::-1]),
            (base[::4], base[1:17:4]),
            ((x := base[:5]), x),
        ]

    for k in range(len(given())):
        yield f, lambda: given()[k]


@pytest.mark.parametrize("name", CASES)
def test_the_change_is_seen(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", [name for name in CASES if "arrays" in name])
def test_the_change_is_seen_without_a_compiler(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIKENESS, "are_like", None)
    check(CASES[name])
