"""Classes that a function makes at each call: what uses them is compiled for one and serves the others."""

# The shapes are the point: what a linter would write shorter stays.

import dataclasses
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function

X = np.arange(6.0).reshape(2, 3)


def plain(x):
    class Local:
        factor = 3

        def __init__(self, a):
            self.a = a

        def scale(self):
            return self.a * self.factor

    return Local(x).scale() + 1


def with_super(x):
    class Base:
        def scale(self):
            return x * 2

    class Derived(Base):
        def scale(self):
            return super().scale() + 1

    return Derived().scale()


def with_dataclass(x):
    @dataclasses.dataclass
    class Pair:
        left: object
        right: float = 2.0

        def total(self):
            return self.left * self.right

    return Pair(x).total(), Pair(x, 3.0).right


def with_named_tuples(x):
    class Typed(NamedTuple):
        left: object
        right: int = 2

    Untyped = namedtuple("Untyped", ["left", "right"])
    return Typed(x).left * Typed(x).right, Untyped(x, 1).left + 1


def with_exception(x):
    class Refused(Exception):
        pass

    try:
        x = x + 1
        raise Refused("here")
    except Refused:
        x = x * 2
    return x


def with_descriptors(x):
    class Local:
        __slots__ = ("value",)

        def __init__(self, value):
            self.value = value

        @property
        def doubled(self):
            return self.value * 2

        @staticmethod
        def shifted(a):
            return a + x

        @classmethod
        def make(cls, a):
            return cls(a)

    made = Local.make(x)
    made.value = made.doubled
    return made.shifted(made.value), isinstance(made, Local)


def with_values(x):
    class Local:
        weights = x * 2
        names = ["a", "b"]

        def apply(self, a, by=x + 1):
            return a * self.weights + by + len(self.names)

    return Local().apply(x)


FUNCTIONS = [plain, with_super, with_dataclass, with_named_tuples, with_exception, with_descriptors, with_values]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_no_program_for_each_call(function):
    compiled = npc.compile(function, backend="eager")
    for k in range(12):
        assert repr(compiled(X + k)) == repr(function(X + k))
    assert max(len(point.variants) for point in compiled_function(compiled).points.values()) <= 2


def layer(scale, act=np.tanh, power=2, extra=()):
    class Layer:
        activation = act
        exponent = power

        def __init__(self, shift):
            self.shift = shift

        def __call__(self, x):
            return self.activation(x * scale + self.shift) ** self.exponent

        if extra:
            more = extra

    return Layer


def call(made, x):
    return made(x) + 1


def test_classes_of_a_factory():
    compiled = npc.compile(call, backend="eager")
    for k in range(12):
        made = layer(1.0 + k)(0.5 * k)
        assert np.array_equal(compiled(made, X), call(made, X))
    assert len(compiled_function(compiled).points) == 1
    assert sum(len(p.variants) for p in compiled_function(compiled).points.values()) <= 3  # floats in cells become inputs


@pytest.mark.filterwarnings("ignore:.*was compiled .* times:RuntimeWarning")
def test_classes_of_one_name_that_are_not_alike():
    compiled = npc.compile(call, backend="eager")
    kinds = [layer(1.0), layer(2.0), layer(2.0, np.sin), layer(2.0, np.cos), layer(2.0, np.sin, 3), layer(2.0, np.sin, 3.0)]
    kinds += [layer(2.0, np.sin, 3, (1,)), layer(2.0, lambda self, a: a * 2), layer(2.0, lambda self, a: a * 3)]
    for _ in range(2):
        for kind in kinds:
            made = kind(0.5)
            assert np.array_equal(compiled(made, X), call(made, X))


def test_method_that_is_replaced():
    compiled = npc.compile(call, backend="eager")
    for k in range(5):
        made = layer(2.0)(0.5)
        if k == 4:
            type(made).__call__ = lambda self, x: x * 100
        assert np.array_equal(compiled(made, X), call(made, X))


def compare(one, other, x):
    return x + 1, type(one) is type(other), isinstance(one, type(other)), one(x) + other(x)


def test_two_objects_of_one_class_or_of_two():
    compiled = npc.compile(compare, backend="eager")
    for k in range(6):
        first, second = layer(1.0), layer(2.0)
        for kinds in ((first, second), (first, first), (second, first)):
            made = [kind(0.5 * k) for kind in kinds]
            assert repr(compiled(*made, X)) == repr(compare(*made, X))


def put(holder, x):
    old = type(holder["made"])
    holder["made"] = None
    holder["new"] = old(2.0)
    return x + 1


def test_class_of_an_object_that_the_program_lets_go():
    compiled = npc.compile(put, backend="eager")
    for _ in range(4):
        kind = layer(1.0)
        holder = {"made": kind(1.0)}
        compiled(holder, X)
        assert type(holder["new"]) is kind and holder["new"].shift == 2.0 and holder["made"] is None


def test_programs_of_many_kinds_beside_one_for_a_class_made_anew():
    """Which of the programs fit a kind of call is asked without the names that guards give: the class is one of these."""

    def scaled(x):
        return x(X) if callable(x) else x + 1

    compiled = npc.compile(scaled, backend="eager")
    arrays = [np.ones((2,) * ndim, dtype) for dtype in "fdilhb" for ndim in (1, 2)]
    for given in (layer(1.0)(0.5), layer(2.0)(0.5), *arrays, layer(3.0)(0.5)):
        assert np.array_equal(compiled(given), scaled(given))
