"""Objects and classes that change between calls."""

import dataclasses
import enum
import types
from typing import Any

import numpy as np
import pytest

from tests.tracer.calls.changes.cases import Cases, X, check

CASES = Cases()
case = CASES.case

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


@case
def super_of_a_class():
    class Base:
        def g(self, x):
            return x + 1

    class Derived(Base):
        def g(self, x):
            return super().g(x) * 2

    d = Derived()

    def f(x, d):
        return d.g(x)

    yield f, (X, d)
    Base.g = lambda self, x: x - 5
    yield f, (X, d)
    Derived.g = lambda self, x: x - 6
    yield f, (X, d)


@case
def objects_made_by_the_program():
    class P:
        scale = 2.0

        def __init__(self, w):
            self.w = w

        def __mul__(self, x):
            return self.w * x * self.scale

    def f(x):
        p = P(x + 1)
        return p * x

    yield f, (X,)
    P.scale = 3.0
    yield f, (X,)
    P.__mul__ = lambda self, x: self.w - x
    yield f, (X,)

    def start(self, w):
        self.w = w * 100

    P.__init__ = start
    yield f, (X,)
    P.__new__ = lambda cls, w: 5.0
    yield f, (X,)


@case
def defaults_of_a_dataclass():
    @dataclasses.dataclass
    class P:
        w: Any
        k: Any = 2.0

        def scaled(self):
            return self.w * self.k

    def f(x):
        return P(x).scaled()

    yield f, (X,)
    P.scaled = lambda self: self.w + self.k
    yield f, (X,)
    P.__init__.__defaults__ = (7.0,)
    yield f, (X,)
    P.__post_init__ = lambda self: None
    yield f, (X,)


@case
def descriptors():
    class D:
        factor = 2.0

        def __get__(self, owner, kind):
            return owner.w * self.factor

    class A:
        d = D()

        def __init__(self):
            self.w = X

    a = A()

    def f(x, a):
        return x + a.d

    yield f, (X, a)
    D.factor = 3.0
    yield f, (X, a)
    a.__dict__["d"] = 9.0
    yield f, (X, a)
    D.__set__ = lambda self, owner, value: None
    yield f, (X, a)
    A.d = 4.0
    yield f, (X, a)


@case
def a_fallback_for_attributes():
    class A:
        def __getattr__(self, name):
            return {"k": 2.0}.get(name, 1.0)

    a = A()

    def f(x, a):
        return x * a.k

    yield f, (X, a)
    a.k = 5.0
    yield f, (X, a)
    del a.k
    A.__getattr__ = lambda self, name: 7.0
    yield f, (X, a)
    A.k = 8.0
    yield f, (X, a)
    A.__getattribute__ = lambda self, name: {} if name == "__dict__" else 9.0
    yield f, (X, a)


@case
def the_dict_of_an_object():
    m = Model()

    def f(x, m):
        return x * m.w + m.rate

    yield f, (X, m)
    m.__dict__["rate"] = 4.0
    yield f, (X, m)
    vars(m).update(w=X, rate=5.0)
    yield f, (X, m)
    m.__dict__ = {"w": 3.0}
    yield f, (X, m)


@case
def attributes_that_the_program_sets():
    class A:
        pass

    a = A()

    def f(x, a):
        a.total = a.total + x
        a.count += 1
        return a.total * a.count

    def given(total, count):
        a.total, a.count = total, count
        return (X, a)

    for total, count in ((X, 0), (X, 1), (0, 1), (0.5, 2.5), (X.astype(np.float32), 1)):
        yield f, lambda: given(total, count)
    given(X, 0)
    A.count = property(lambda self: 7, lambda self, value: None)
    yield f, lambda: given(X, 0)


@case
def classes_asked_for():
    class A:
        pass

    class B:
        pass

    def f(x, a):
        return x * 2 if isinstance(a, A) else x * 3, issubclass(type(a), A), type(a).__name__

    a = B()
    yield f, (X, a)
    a.__class__ = A
    yield f, (X, a)
    A.__name__ = "Other"
    yield f, (X, a)


@case
def callables_among_attributes():
    m = types.SimpleNamespace(g=np.sin, k=1.0)

    def f(x, m):
        return m.g(x * m.k)

    for g in (np.sin, np.cos, lambda x: x, lambda x: x * m.k, Model().step, Model, len, abs):
        m.g = g
        yield f, (X, m)


@pytest.mark.parametrize("name", CASES)
def test_the_change_is_seen(name: str) -> None:
    check(CASES[name])
