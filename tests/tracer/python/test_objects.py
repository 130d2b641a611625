"""Objects of the user's classes: what Python does for them, and what changes of their classes between calls do."""

import functools
import types

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import check, compare_any


class SetsTwice:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)


@check(lambda r: SetsTwice(), graphs=1, breaks=0)
def test_setattr_of_the_class_runs_once(obj, x):
    obj.a = x
    obj.b = 3
    return obj.a, obj.b


class Base:
    def apply(self, x):
        return x * 2


class Derived(Base):
    def apply(self, x):
        bound = super().apply
        print(end="")
        return bound(x) + 1


@check(lambda r: Derived())
def test_a_bound_method_is_the_same_after_a_break(obj, x):
    return obj.apply(x)


def decorated():
    return npc.compile(Derived.apply, backend="eager"), Derived.apply


def test_decorated_method_with_super():
    compiled, plain = decorated()
    for _ in range(2):
        np.testing.assert_array_equal(compiled(Derived(), np.ones(2)), plain(Derived(), np.ones(2)))


class Remembers:
    def __init__(self):
        self.asked = 0

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        self.asked += 1
        setattr(self, name, name * 2)
        return getattr(self, name)


@check(lambda r: Remembers(), graphs=1, breaks=0)
def test_getattr_that_sets(obj, x):
    return obj.ab, obj.ab, obj.asked, hasattr(obj, "_q"), getattr(obj, "_r", 1), x * 2


@check(lambda r: Base())
def test_attributes_with_names_that_no_program_can_write(obj, x):
    setattr(obj, "a b", x)
    setattr(obj, "class", 2)
    setattr(obj, "{0}", 3)
    return x * 2


class First:
    def __add__(self, other):
        return "first"

    def __radd__(self, other):
        return "reflected first"


class Second(First):
    def __radd__(self, other):
        return "reflected second"


class NotForArrays:
    __array_ufunc__ = None

    def __radd__(self, other):
        return "reflected"


@check(graphs=1, breaks=0)
def test_whose_operator_is_asked_first(x):
    return First() + Second(), Second() + First(), First() + First(), 3 + Second(), x + NotForArrays(), x * 2


# --- changes between calls


class Descriptor:
    def __get__(self, obj, kind=None):
        return 5.0

    def __set__(self, obj, value):
        pass


def classes():
    """Fresh ones, so that a change of one is not seen by other tests."""

    class Descriptive(Descriptor):
        pass

    class Outer:
        w = 2.0

        def method(self):
            return self.v * 2

        def __len__(self):
            return 2

    class Inner(Outer):
        described = Descriptive()

        def __init__(self, v):
            self.v = v

        @property
        def prop(self):
            return self.v + 1

        @classmethod
        def of_class(cls):
            return cls.w

        @staticmethod
        def static(a):
            return a * 3

        def __add__(self, other):
            return self.v + other

        def __call__(self, x):
            return x * self.v

        def __getitem__(self, key):
            return self.v * key

        def __iter__(self):
            return iter([self.v])

        def __contains__(self, item):
            return item == 1

        def __bool__(self):
            return True

        def __eq__(self, other):
            return True

        def with_super(self):
            return super().method()

    return Descriptive, Outer, Inner


def set_and_get(obj, x):
    obj.z = 3
    return obj.z * x


def set_v(obj, x):
    obj.v = 3
    return obj.v * x


def delete_v(obj, x):
    del obj.v
    return hasattr(obj, "v"), x * 2


USES = {
    "method": lambda obj, x: obj.method() * x,
    "super": lambda obj, x: obj.with_super() * x,
    "property": lambda obj, x: obj.prop * x,
    "class method": lambda obj, x: obj.of_class() * x,
    "static method": lambda obj, x: obj.static(x),
    "operator": lambda obj, x: (obj + 1) * x,
    "call": lambda obj, x: obj(x),
    "item": lambda obj, x: obj[2] * x,
    "iteration": lambda obj, x: [v * x for v in obj],
    "in": lambda obj, x: (1 in obj, x * 2),
    "bool": lambda obj, x: x * 2 if obj else x,
    "equal": lambda obj, x: (obj == 3, x * 2),
    "len": lambda obj, x: len(obj) * x,
    "descriptor": lambda obj, x: obj.described * x,
    "class attribute": lambda obj, x: obj.w * x,
    "attribute": lambda obj, x: obj.v * x,
    "hasattr": lambda obj, x: (hasattr(obj, "z"), hasattr(obj, "v"), x * 2),
    "getattr": lambda obj, x: getattr(obj, "z", 7) * x,
    "made": lambda obj, x: type(obj)(4).method() * x,
    "set": set_v,
    "set new": set_and_get,
    "delete": delete_v,
}


def ten_times(self, name, value):
    object.__setattr__(self, name, value * 10)


def some_are_others(self, name):
    return 13.0 if name in ("v", "w", "z") else object.__getattribute__(self, name)


CHANGES = {
    "method": lambda d, o, i, obj: setattr(o, "method", lambda self: self.v * 100),
    "method of the derived class": lambda d, o, i, obj: setattr(i, "method", lambda self: self.v * 50),
    "method of the object": lambda d, o, i, obj: setattr(obj, "method", lambda: 77.0),
    "no method": lambda d, o, i, obj: delattr(o, "method"),
    "code": lambda d, o, i, obj: setattr(o.method, "__code__", (lambda self: self.v * 1000).__code__),
    "property": lambda d, o, i, obj: setattr(i, "prop", property(lambda self: 9.0)),
    "class method": lambda d, o, i, obj: setattr(i, "of_class", classmethod(lambda cls: 8.0)),
    "static method": lambda d, o, i, obj: setattr(i, "static", staticmethod(lambda a: a * 30)),
    "operator": lambda d, o, i, obj: setattr(i, "__add__", lambda self, other: 90.0),
    "call": lambda d, o, i, obj: setattr(i, "__call__", lambda self, x: x * 90.0),
    "item": lambda d, o, i, obj: setattr(i, "__getitem__", lambda self, key: key * 90.0),
    "iteration": lambda d, o, i, obj: setattr(i, "__iter__", lambda self: iter([1, 2])),
    "in": lambda d, o, i, obj: setattr(i, "__contains__", lambda self, item: False),
    "bool": lambda d, o, i, obj: setattr(i, "__bool__", lambda self: False),
    "no bool": lambda d, o, i, obj: delattr(i, "__bool__"),
    "equal": lambda d, o, i, obj: setattr(i, "__eq__", lambda self, other: False),
    "len": lambda d, o, i, obj: setattr(i, "__len__", lambda self: 5),
    "__get__": lambda d, o, i, obj: setattr(d, "__get__", lambda self, obj, kind=None: 6.0),
    "no descriptor": lambda d, o, i, obj: setattr(i, "described", 4.0),
    "class attribute": lambda d, o, i, obj: setattr(o, "w", 3.0),
    "class attribute hidden by one of the object": lambda d, o, i, obj: setattr(obj, "w", 30.0),
    "class attribute hidden by one of the derived class": lambda d, o, i, obj: setattr(i, "w", 13.0),
    "type of an attribute": lambda d, o, i, obj: setattr(obj, "v", 3),
    "new attribute": lambda d, o, i, obj: setattr(obj, "z", 3.0),
    "new attribute of the class": lambda d, o, i, obj: setattr(i, "z", 3.5),
    "attribute that is a property now": lambda d, o, i, obj: setattr(i, "v", property(lambda s: 44.0, lambda s, v: None)),
    "__getattr__": lambda d, o, i, obj: setattr(i, "__getattr__", lambda self, name: 12.0),
    "__getattribute__": lambda d, o, i, obj: setattr(i, "__getattribute__", some_are_others),
    "__setattr__": lambda d, o, i, obj: setattr(i, "__setattr__", ten_times),
    "__delattr__": lambda d, o, i, obj: setattr(i, "__delattr__", lambda self, name: None),
    "__init__": lambda d, o, i, obj: setattr(i, "__init__", lambda self, v: setattr(self, "v", v * 9)),
    "class of the object": lambda d, o, i, obj: setattr(obj, "__class__", type("Other", (i,), {"method": lambda self: 1.5})),
    "bases": lambda d, o, i, obj: setattr(i, "__bases__", (type("Other", (o,), {"method": lambda self: 2.5, "w": 8.5}),)),
}


def outcomes(function, change):
    descriptor, outer, inner = classes()
    found = [function(inner(2.0), np.ones(2))]
    obj = inner(2.0)
    change(descriptor, outer, inner, obj)
    for _ in range(2):
        try:
            found.append(function(obj, np.ones(2)))
        except (AttributeError, TypeError) as error:
            found.append(str(error))
        found.append(sorted(vars(obj)))
    return found


@pytest.mark.parametrize("use", USES)
def test_changes_of_classes_are_seen(use):
    for change in CHANGES.values():
        theirs = outcomes(USES[use], change)
        compare_any(outcomes(npc.compile(USES[use], backend="eager"), change), theirs, 0)


# --- kinds of objects


class SaysYes(type):
    def __instancecheck__(cls, obj):
        return True


class Anything(metaclass=SaysYes):
    pass


@check(np.float64, Derived, graphs=1)
def test_isinstance_of_classes(dtype, kind, x):
    asked = isinstance(dtype, type), isinstance(int, int), issubclass(bool, int), isinstance(kind, type), issubclass(kind, Base)
    more = isinstance(None, type(None)), isinstance(3, int | str), isinstance(x, (list, np.ndarray)), isinstance(kind, Base)
    return asked, more, x * 2


@check()
def test_isinstance_that_a_class_answers(x):
    y = x * 2
    return isinstance(3, Anything), isinstance(y, Anything), y


# --- attributes that one object has, and for which another asks code of the user's


class Asked:
    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)

    def __getattr__(self, name):
        if name != "extra":
            raise AttributeError(name)
        COUNTED.append(name)
        return float(len(COUNTED))


class AskedForSlots(Asked):
    __slots__ = ("extra",)


class Computed(Asked):
    @functools.cached_property
    def extra(self):
        COUNTED.append("extra")
        return float(len(COUNTED))


COUNTED: list[str] = []


def in_an_array(obj, x):
    return x * obj.extra + obj.extra


def in_a_loop(obj, x):
    total = 0.0
    for k in range(40):
        total += obj.extra * k + x[k % 3]
    return total


@pytest.mark.parametrize("kind", [Asked, AskedForSlots, Computed])
@pytest.mark.parametrize("user", [in_an_array, in_a_loop])
def test_an_object_without_the_attribute_asks_as_often_as_in_python(user, kind):
    orders = ({"extra": 1.0}, {"extra": 2.0}, {}, {}), ({}, {"extra": 1.0}, {}, {"extra": 2.0})
    for order in orders:
        compiled = npc.compile(user, backend="eager")
        for attributes in order:
            found = []
            for function in (user, compiled):
                COUNTED.clear()
                found.append((np.asarray(function(kind(**attributes), np.ones(3))).tolist(), len(COUNTED)))
            assert found[0] == found[1], attributes


class Scaled:
    """A callable that bears a function's name, as np.vectorize does."""

    __name__ = "scaled"

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, owner, x):
        return self.factor * x + owner.shift


class Unnamed:
    def __call__(self, owner, x):
        return x - owner.shift


class Shifted:
    def __init__(self, shift):
        self.shift = shift


def bind(owner, function, x):
    print(end="")  # a break: what follows gets the method from outside
    owner.method = types.MethodType(function, owner)
    return owner.method, x * 2


def run_method(method, x):
    return method(x) + 1, method


@pytest.mark.parametrize("function", [Scaled(3), Unnamed(), np.vectorize(lambda owner, x: x), len, functools.partial(Scaled(2))])
def test_methods_of_callables_that_are_no_functions(function):
    bound, run = npc.compile(bind), npc.compile(run_method)
    x = np.arange(3.0)
    for k in range(3):
        owner = Shifted(k)
        method, _ = bound(owner, function, x)
        assert method is owner.method and method.__func__ is function and method.__self__ is owner
        if function is not len:
            result, same = run(method, x)
            np.testing.assert_array_equal(result, method(x) + 1)
            assert same is method
