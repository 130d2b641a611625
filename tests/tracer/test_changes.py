"""What a program has read may change between calls: each kind of thing read, in each way in which it can change.

A case is a generator. It yields the function, which is compiled once, and arguments for a call; after the `yield` it changes
something and yields again. Every call is compared with the plain function's, errors included.
"""

import builtins
import copy
import dataclasses
import enum
import functools
import os
import random
import types
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import clone, compare_any

Case = Callable[[], Iterator[tuple[Callable[..., Any], Any]]]  # arguments, or what makes them anew
CASES: dict[str, Case] = {}
X = np.arange(1.0, 4.0)


def case(make: Case) -> Case:
    assert make.__name__ not in CASES
    CASES[make.__name__] = make
    return make


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


# --- globals

SCALE: Any = 2.0
TABLE: Any = {"a": 1.0, "b": 2.0}


def helper(x, k=2.0, *, s=1.0):
    return x * k + s


def other_helper(x, k=20.0, *, s=10.0):
    return x - k - s


def uses_scale(x):
    return x * SCALE


@case
def a_global_rebound():
    global SCALE
    try:
        for SCALE in (2.0, 3.0, 4, True, np.float32(2), X, np.arange(3), [1.0, 2.0, 3.0], "text", None, -0.0, float("nan"), 2j):
            yield uses_scale, (X,)
        for SCALE in (0.0, -0.0):
            yield uses_scale, (X,)
    finally:
        SCALE = 2.0


@case
def a_global_deleted_and_made_again():
    yield uses_scale, (X,)
    kept = globals().pop("SCALE")
    try:
        yield uses_scale, (X,)
    finally:
        globals()["SCALE"] = kept
    yield uses_scale, (X,)


@case
def a_global_array_changed_in_place():
    global SCALE
    SCALE = np.ones(3)
    try:
        yield uses_scale, (X,)
        SCALE[1] = 7
        yield uses_scale, (X,)
        SCALE.resize(1, refcheck=False)
        yield uses_scale, (X,)
        SCALE.shape = (1, 1)
        yield uses_scale, (X,)
        SCALE.dtype = np.int64
        yield uses_scale, (X,)
        SCALE.flags.writeable = False
        yield uses_scale, (X,)
    finally:
        SCALE = 2.0


@case
def a_builtin_hidden_by_a_global():
    def f(x):
        return x * len(x)

    yield f, (X,)
    f.__globals__["len"] = lambda x: 100
    try:
        yield f, (X,)
    finally:
        del f.__globals__["len"]
    yield f, (X,)


@case
def a_builtin_replaced():
    def f(x):
        return x * divmod(7, 2)[0]

    yield f, (X,)
    builtins.divmod, saved = (lambda a, b: (100, 0)), divmod
    try:
        yield f, (X,)
    finally:
        builtins.divmod = saved
    yield f, (X,)


@case
def a_numpy_function_replaced():
    def f(x):
        return np.sin(x) + np.linalg.norm(x)

    yield f, (X,)
    np.sin, saved = np.cos, np.sin
    try:
        yield f, (X,)
    finally:
        np.sin = saved
    yield f, (X,)
    np.linalg.norm, saved = (lambda x: 100.0), np.linalg.norm
    try:
        yield f, (X,)
    finally:
        np.linalg.norm = saved
    yield f, (X,)


@case
def the_name_np_rebound():
    def f(x):
        return np.sin(x)

    yield f, (X,)
    f.__globals__["np"] = types.SimpleNamespace(sin=np.cos)
    try:
        yield f, (X,)
    finally:
        f.__globals__["np"] = np_module
    yield f, (X,)


np_module = np


@case
def an_attribute_of_a_module():
    module = types.ModuleType("settings")
    module.k, module.table, module.f = 2.0, np.ones(3), helper

    def f(x):
        return module.f(x * module.k + module.table)

    yield f, (X,)
    module.k = 3.0
    yield f, (X,)
    module.table[1] = 5
    yield f, (X,)
    module.f = other_helper
    yield f, (X,)
    del module.k
    yield f, (X,)
    module.__getattr__ = lambda name: 9.0
    yield f, (X,)


# --- functions


@case
def a_function_with_other_code():
    def g(x):
        return x * 2

    def f(x):
        return g(x)

    yield f, (X,)
    g.__code__ = (lambda x: x - 5).__code__
    yield f, (X,)


def called_globally(x, k=3.0, *, s=1.0):
    return x * k + s


def calls_globally(x):
    return called_globally(x)


@case
def a_global_function_with_other_code_and_defaults():
    code, defaults, kwdefaults = called_globally.__code__, called_globally.__defaults__, called_globally.__kwdefaults__
    try:
        yield calls_globally, (X,)
        called_globally.__defaults__ = (7.0,)
        yield calls_globally, (X,)
        called_globally.__kwdefaults__ = {"s": 9.0}
        yield calls_globally, (X,)
        called_globally.__kwdefaults__["s"] = 10.0
        yield calls_globally, (X,)
        called_globally.__kwdefaults__ = None
        yield calls_globally, (X,)
        called_globally.__kwdefaults__ = {"s": X}
        yield calls_globally, (X,)
        called_globally.__defaults__ = None
        yield calls_globally, (X,)
        called_globally.__defaults__ = (1.0, 2.0)
        yield calls_globally, (X,)
        called_globally.__defaults__ = ("text",)
        yield calls_globally, (X,)
        called_globally.__code__ = (lambda x, k=0, *, s=0: x - k - s).__code__
        called_globally.__defaults__ = (3,)
        yield calls_globally, (X,)
    finally:
        called_globally.__code__, called_globally.__defaults__, called_globally.__kwdefaults__ = code, defaults, kwdefaults


@case
def defaults_of_functions_given():
    def f(x, g):
        return g(x)

    for k in (1.0, 2.0, 3, True, None, "text", X, (1.0, 2.0, 3.0)):

        def g(x, k=k, *, s=k):
            return (x if k is None else x * 2, k, s)

        yield f, (X, g)


@case
def a_function_given_closes_over_another():
    def f(x, g):
        return g(x)

    def make(k):
        return lambda x: x * k

    for k in (1.0, 2.0, 3, X, "text", None):
        yield f, (X, make(k))


@case
def a_closure_cell_rebound():
    k: Any = 1.0

    def f(x):
        return x * k  # noqa: F821

    yield f, (X,)
    for k in (2.0, 3, np.ones(3), [1, 2, 3], "text", np.float32(3)):
        yield f, (X,)
    del k
    yield f, (X,)


@case
def a_cell_of_a_callee_rebound():
    k: Any = 1.0

    def g(x):
        return x * k

    def f(x):
        return g(x) + 1

    yield f, (X,)
    for k in (2.0, 3, X, None):
        yield f, (X,)


@case
def own_array_default_changed_in_place():
    table = np.ones(3)

    def f(x, t=table, *, u=table):
        return x * t + u

    yield f, (X,)
    table[:] = [3, 4, 5]
    yield f, (X,)


@case
def a_callee_with_a_list_default():
    def g(x, seen=[1.0]):  # noqa: B006
        return x * seen[0] + len(seen)

    def f(x):
        return g(x)

    yield f, (X,)
    g.__defaults__[0][0] = 5.0
    yield f, (X,)
    g.__defaults__[0].append(1)
    yield f, (X,)


@case
def a_function_replaced_by_an_equal_name():
    holder = types.SimpleNamespace(g=helper)

    def f(x):
        return holder.g(x)

    yield f, (X,)
    holder.g = other_helper
    yield f, (X,)
    holder.g = np.sin
    yield f, (X,)
    holder.g = functools.partial(helper, k=5)
    yield f, (X,)
    holder.g = functools.partial(helper, k=6)
    yield f, (X,)
    holder.g = 5
    yield f, (X,)


@case
def a_bound_method_given():
    class A:
        def __init__(self, k):
            self.k = k

        def scale(self, x):
            return x * self.k

        def shift(self, x):
            return x + self.k

    def f(x, g):
        return g(x)

    for g in (A(1.0).scale, A(2.0).scale, A(2.0).shift, A(X).shift):
        yield f, (X, g)


# --- objects


class Model:
    rate: Any = 0.5

    def __init__(self):
        self.w: Any = np.ones(3)

    def step(self, x):
        return x * self.rate + self.w

    @property
    def twice(self):
        return self.w * 2

    @staticmethod
    def plain(x):
        return x + 1

    @classmethod
    def of(cls, x):
        return x * cls.rate

    def __call__(self, x):
        return self.step(x)

    def __add__(self, x):
        return self.w + x

    def __getitem__(self, k):
        return self.w[k]

    def __len__(self):
        return 3

    def __bool__(self):
        return True


def fresh_class() -> type:
    return type("Model", (), {k: v for k, v in vars(Model).items() if k not in ("__dict__", "__weakref__")})


@case
def attributes_of_an_object():
    m = Model()

    def f(x, m):
        return x * m.rate + m.w

    yield f, (X, m)
    m.w[1] = 7
    yield f, (X, m)
    m.w = np.arange(3)
    yield f, (X, m)
    m.w = 3
    yield f, (X, m)
    m.rate = 9.0  # hides the class's
    yield f, (X, m)
    del m.rate
    yield f, (X, m)
    del m.w
    yield f, (X, m)
    m.w = None
    yield f, (X, m)


@case
def attributes_of_a_class():
    kind = fresh_class()
    m = kind()

    def f(x, m):
        return x * m.rate

    yield f, (X, m)
    kind.rate = 3.0
    yield f, (X, m)
    kind.rate = property(lambda self: 100.0)
    yield f, (X, m)
    del kind.rate
    yield f, (X, m)
    kind.__getattr__ = lambda self, name: 7.0
    yield f, (X, m)


@case
def a_method_replaced_on_the_class():
    kind = fresh_class()
    m = kind()

    def f(x, m):
        return m.step(x)

    yield f, (X, m)
    kind.step = lambda self, x: x - 100
    yield f, (X, m)
    kind.step = staticmethod(lambda x: x - 200)
    yield f, (X, m)
    kind.step = property(lambda self: np.sin)
    yield f, (X, m)
    del kind.step
    yield f, (X, m)


@case
def a_method_hidden_by_the_object():
    m = Model()

    def f(x, m):
        return m.step(x)

    yield f, (X, m)
    m.step = lambda x: x - 100
    yield f, (X, m)
    m.step = np.sin
    yield f, (X, m)
    del m.step
    yield f, (X, m)


@case
def a_method_of_a_base_overridden_later():
    base = fresh_class()
    derived = type("Derived", (base,), {})
    m = derived()

    def f(x, m):
        return m.step(x)

    yield f, (X, m)
    derived.step = lambda self, x: x - 100
    yield f, (X, m)
    del derived.step
    base.step = lambda self, x: x - 200
    yield f, (X, m)


@case
def bases_changed():
    class A:
        def g(self, x):
            return x + 1

    class B:
        def g(self, x):
            return x + 2

    class C(A):
        pass

    c = C()

    def f(x, c):
        return c.g(x)

    yield f, (X, c)
    C.__bases__ = (B,)
    yield f, (X, c)


@case
def a_property_replaced():
    kind = fresh_class()
    m = kind()

    def f(x, m):
        return x + m.twice

    yield f, (X, m)
    m.w = X
    yield f, (X, m)
    kind.twice = property(lambda self: self.w * 3)
    yield f, (X, m)
    kind.twice = 5.0
    yield f, (X, m)


@case
def static_and_class_methods_replaced():
    kind = fresh_class()
    m = kind()

    def f(x, m):
        return m.plain(x), m.of(x)

    yield f, (X, m)
    kind.rate = 7.0
    yield f, (X, m)
    kind.plain = staticmethod(lambda x: x - 1)
    yield f, (X, m)
    kind.of = classmethod(lambda cls, x: x - 2)
    yield f, (X, m)


@case
def methods_through_the_class():
    kind = fresh_class()

    def f(x):
        return kind.plain(x), kind.of(x), kind.rate

    yield f, (X,)
    kind.rate = 7.0
    yield f, (X,)
    kind.plain = staticmethod(lambda x: x - 1)
    yield f, (X,)
    kind.of = classmethod(lambda cls, x: x - 2)
    yield f, (X,)


@case
def an_object_with_operators_changed():
    kind = fresh_class()
    m = kind()

    def f(x, m):
        return m(x), m + x, m[0], len(m), bool(m)

    yield f, (X, m)
    kind.__call__ = lambda self, x: x - 7
    yield f, (X, m)
    kind.__add__ = lambda self, x: x - 8
    yield f, (X, m)
    kind.__getitem__ = lambda self, k: 9.0
    yield f, (X, m)
    kind.__len__ = lambda self: 10
    yield f, (X, m)
    kind.__bool__ = lambda self: False
    yield f, (X, m)
    m.__call__ = lambda x: None  # not looked at: Python asks the class
    yield f, (X, m)


@case
def the_class_of_an_object_assigned():
    class Other(Model):
        rate = 4.0

        def step(self, x):
            return x - 1

    m = Model()

    def f(x, m):
        return m.step(x) * m.rate

    yield f, (X, m)
    m.__class__ = Other
    yield f, (X, m)
    m.__class__ = Model
    yield f, (X, m)


@case
def a_subclass_given():
    class Other(Model):
        rate = 4.0

    def f(x, m):
        return m.step(x) * m.rate

    yield f, (X, Model())
    yield f, (X, Other())


@case
def hasattr_and_getattr():
    m = Model()

    def f(x, m):
        return x * getattr(m, "extra", 3.0), hasattr(m, "extra"), hasattr(m, "w")

    yield f, (X, m)
    m.extra = 5.0
    yield f, (X, m)
    del m.extra
    yield f, (X, m)
    del m.w
    yield f, (X, m)


@case
def getattr_of_a_module_and_class():
    module, kind = types.ModuleType("m"), fresh_class()

    def f(x):
        return x * getattr(module, "extra", 3.0), hasattr(module, "extra"), hasattr(kind, "extra"), getattr(kind, "extra", 1)

    yield f, (X,)
    module.extra = 5.0
    yield f, (X,)
    kind.extra = 6.0
    yield f, (X,)
    del module.extra
    yield f, (X,)


@case
def slots():
    class S:
        __slots__ = ("w", "k")

    s = S()
    s.w, s.k = X, 2.0

    def f(x, s):
        return x * s.w * s.k

    yield f, (X, s)
    s.k = 3.0
    yield f, (X, s)
    del s.k
    yield f, (X, s)


@case
def nested_attributes():
    a = types.SimpleNamespace(b=types.SimpleNamespace(c={"d": [X, 2.0]}))

    def f(x, a):
        return x * a.b.c["d"][0] + a.b.c["d"][1]

    yield f, (X, a)
    a.b.c["d"][1] = 5.0
    yield f, (X, a)
    a.b.c["d"] = (X + 1, 1)
    yield f, (X, a)
    a.b = types.SimpleNamespace(c={"e": 0, "d": [X, 3.0]})
    yield f, (X, a)
    del a.b.c["d"]
    yield f, (X, a)


@case
def enums_and_dataclasses():
    class Mode(enum.Enum):
        UP = 1
        DOWN = 2

    @dataclasses.dataclass
    class P:
        w: Any
        mode: Mode

    def f(x, p):
        return x * p.w if p.mode is Mode.UP else x - p.w

    p = P(2.0, Mode.UP)
    yield f, (X, p)
    p.mode = Mode.DOWN
    yield f, (X, p)
    p.w = X
    yield f, (X, p)


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
    for k, (function, arguments) in enumerate(CASES[name]()):
        if k % (npc.config.recompile_limit - 1) == 0:  # more would run natively
            compiled = npc.compile(function, backend="eager")
        fresh = arguments if callable(arguments) else lambda given=arguments: given
        given = fresh()
        theirs = outcome(function, given), given
        for _ in range(2):
            given = fresh()
            compare_any((outcome(compiled, given), given), theirs, 0)
