"""Methods, properties, descriptors, dataclasses, named tuples, enums, and objects that act as functions, arrays or numbers."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import namedtuple
from typing import ClassVar, NamedTuple

import numpy as np

from tests.tracer.bytecode.constructs import construct


class Base:
    gain = 2.0

    def __init__(self, scale=1.0):
        self.scale = scale
        self.weights = np.arange(3.0) + scale

    def apply(self, x):
        return x * self.scale

    def describe(self):
        return "base"


class Layer(Base):
    made: ClassVar[int] = 3

    def __init__(self, scale=1.0, shift=0.5):
        super().__init__(scale)
        self.shift = shift

    def apply(self, x):
        return super().apply(x) + self.shift

    def old_super(self, x):
        return super(Layer, self).apply(x)

    @property
    def total(self):
        return self.scale + self.shift

    @total.setter
    def total(self, value):
        self.shift = value - self.scale

    @functools.cached_property
    def doubled(self):
        return self.weights * 2

    @staticmethod
    def square(x):
        return x * x

    @classmethod
    def named(cls, x):
        return x * cls.made + cls.gain

    @classmethod
    def create(cls, scale):
        return cls(scale, shift=scale * 2)

    def describe(self):
        return "layer of " + super().describe()

    def __call__(self, x):
        return x @ self.weights[:, None] + self.shift


def layer(round):
    return Layer(1.5 + round)


@construct("method", layer)
def method(obj, x):
    return obj.apply(x) + Base.apply(obj, x)


@construct("bound method passed around", layer)
def bound_method(obj, x):
    f = obj.apply
    return [g(x) for g in (f, obj.named)]


@construct("super()", layer)
def super_call(obj, x):
    return obj.apply(x) * 2


construct("decorated method that uses super()", layer)(Layer.apply)
construct("decorated __call__ of an object", layer)(Layer.__call__)


@construct("super(Class, self)", layer)
def super_with_arguments(obj, x):
    return obj.old_super(x)


@construct("method that asks super() for a string", layer)
def super_string(obj, x):
    return x + len(obj.describe())


@construct("attribute read, also of the class", layer)
def attributes(obj, x):
    return x * obj.scale + obj.weights * obj.gain + obj.made + Layer.gain


@construct("property", layer)
def property_(obj, x):
    return x + obj.total


@construct("property set", layer)
def property_set(obj, x):
    obj.total = 3.0
    return x + obj.shift


@construct("functools.cached_property computed before", lambda r: (o := layer(r), o.doubled)[0])
def cached_property_known(obj, x):
    return x + obj.doubled


@construct("functools.cached_property computed here", layer)
def cached_property_new(obj, x):
    return x + obj.doubled + obj.doubled


@construct("static method", layer)
def static_method(obj, x):
    return obj.square(x) + Layer.square(x)


@construct("class method", layer)
def class_method(obj, x):
    return obj.named(x) + Layer.named(x)


@construct("__call__ of an object", layer)
def callable_object(obj, x):
    return obj(x)


@construct("object of a plain class made inside")
def made_inside(x):
    obj = Layer(2.0)
    return obj.apply(x) + obj.total + obj.weights


@construct("class method that makes an object")
def made_by_class_method(x):
    return Layer.create(2.0).apply(x)


@construct("object made inside and returned")
def made_and_returned(x):
    obj = Layer(2.0)
    obj.extra = x * 2
    return obj


@construct("object made inside and changed")
def made_and_changed(x):
    obj = Base()
    obj.scale = 3.0
    obj.scale += 1
    obj.weights[0] = 7
    del obj.weights
    return obj.apply(x), hasattr(obj, "weights"), hasattr(obj, "scale")


@construct("attribute set on an object from outside", layer)
def attribute_set(obj, x):
    obj.scale = 3.0
    obj.last = x * 2
    return obj.apply(x)


@construct("attribute counted up on an object from outside", layer)
def attribute_counted(obj, x):
    obj.shift += 1
    y = obj.apply(x)
    obj.shift += 1
    return y, obj.apply(x)


@construct("attribute that is an array changed in place", layer)
def attribute_in_place(obj, x):
    obj.weights += x[0]
    obj.weights[1] = 3
    return obj.weights * 2


@construct("attribute deleted", layer)
def attribute_deleted(obj, x):
    del obj.shift
    return x * obj.scale


@construct("getattr, setattr, hasattr, delattr", layer)
def attribute_functions(obj, x):
    setattr(obj, "scale", 5.0)
    missing = getattr(obj, "nothing", 2.0)
    if hasattr(obj, "shift"):
        delattr(obj, "shift")
    return x * getattr(obj, "scale") + missing, hasattr(obj, "shift"), hasattr(x, "nothing")


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


@construct("__slots__", lambda r: Slotted(np.arange(3.0) + r, 2.0))
def slots(obj, x):
    obj.right = x
    return x * obj.left + obj.right


@construct("__slots__ of an object made inside")
def slots_inside(x):
    obj = Slotted(x, 2.0)
    return obj.left * obj.right, obj


@dataclasses.dataclass
class Point:
    x: object
    y: object = 2.0

    def norm(self):
        return np.sqrt(self.x * self.x + self.y * self.y)

    @property
    def sum(self):
        return self.x + self.y


@dataclasses.dataclass(frozen=True)
class Frozen:
    center: object
    radius: float = 1.0

    def __add__(self, other):
        return Frozen(self.center + other.center, self.radius + other.radius)


@dataclasses.dataclass
class WithFactory:
    items: list = dataclasses.field(default_factory=list)
    scale: float = 1.0
    twice: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self):
        self.twice = self.scale * 2


@construct("dataclass made inside")
def dataclass(x, y):
    p = Point(x, y)
    p.x = p.x + 1
    return p.norm() + p.sum, Point(x)


@construct("dataclass from outside", lambda r: Point(np.arange(3.0) + r, 2.0 + r))
def dataclass_outside(p, x):
    return p.norm() + p.sum * x


@construct("frozen dataclass with an operator")
def frozen_dataclass(x, y):
    made = Frozen(x) + Frozen(y, 2.0)
    return made.center * made.radius, made


@construct("dataclass with a default factory and __post_init__")
def dataclass_with_factory(x):
    made = WithFactory(scale=3.0)
    made.items.append(x)
    return made.items[0] * made.twice


@construct("dataclasses.replace", lambda r: Frozen(np.arange(3.0) + r))
def dataclass_replaced(p, x):
    return dataclasses.replace(p, center=p.center + x)


@construct("dataclasses.fields, asdict, astuple")
def dataclass_helpers(x):
    p = Point(x, 1.0)
    return [f.name for f in dataclasses.fields(p)]


Pair = namedtuple("Pair", ["left", "right"], defaults=[1.0])


class Named(NamedTuple):
    value: object
    error: float = 0.5

    def upper(self):
        return self.value + self.error


@construct("named tuple")
def named_tuple(x, y):
    p = Pair(x)
    q = p._replace(right=y)
    a, b = q
    return Named(a, 2.0).upper() + b + p.right + q[0], Pair._fields, q


@construct("named tuple from outside", lambda r: Pair(np.arange(3.0) + r, 2.0))
def named_tuple_outside(p, x):
    return p.left * x + p.right, p._asdict(), len(p)


class Mode(enum.Enum):
    SUM = 1
    MEAN = "mean"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flag(enum.Flag):
    A = enum.auto()
    B = enum.auto()


@construct("enum from outside", Mode.SUM)
def enum_(mode, x):
    if mode is Mode.SUM or mode == Mode.MEAN:
        return x.sum(), mode.name, mode.value
    return x.mean(), "", 0


@construct("enum constants")
def enum_constants(x):
    table = {Mode.SUM: x + 1, Mode.MEAN: x + 2}
    return table[Mode.MEAN], Mode("mean") is Mode.MEAN, [m.value for m in Mode], Mode["SUM"].value


@construct("IntEnum as a number")
def int_enum(x):
    return x * Level.HIGH + x[Level.LOW], Level.LOW < Level.HIGH


@construct("enum flags", Flag.A | Flag.B)
def enum_flags(flags, x):
    return x * 2 if Flag.A in flags else x, bool(flags & Flag.B)


class Vector:
    def __init__(self, data):
        self.data = data

    def __add__(self, other):
        return Vector(self.data + (other.data if isinstance(other, Vector) else other))

    def __radd__(self, other):
        return Vector(other + self.data)

    def __sub__(self, other):
        return NotImplemented

    def __mul__(self, other):
        return Vector(self.data * other)

    def __imul__(self, other):
        self.data *= other
        return self

    def __matmul__(self, other):
        return (self.data * other.data).sum()

    def __neg__(self):
        return Vector(-self.data)

    def __abs__(self):
        return Vector(abs(self.data))

    def __getitem__(self, key):
        return self.data[key]

    def __setitem__(self, key, value):
        self.data[key] = value

    def __len__(self):
        return self.data.shape[0]

    def __iter__(self):
        return iter([self.data[0], self.data[1]])

    def __contains__(self, item):
        return item == 3

    def __bool__(self):
        return self.data.ndim == 2

    def __eq__(self, other):
        return self.data.shape == other.data.shape

    def __lt__(self, other):
        return self.data.ndim < other.data.ndim

    __hash__ = None


class Reflected:
    def __rsub__(self, other):
        return other.data * 10


def vector(round):
    return Vector(np.arange(12.0).reshape(4, 3) + round)


@construct("operators of a class, object from outside", vector)
def operators(v, x):
    return (v + x).data, (v * 2).data, (-v).data, v @ v, abs(v).data


@construct("operators of a class, object made inside")
def operators_inside(x, y):
    v = Vector(x)
    return (v + Vector(y)).data, (v * 2 + y).data, (-v).data, v @ v


@construct("reflected operator", vector)
def reflected_operators(v, x):
    return (2.0 + v).data, v - Reflected()


@construct("in-place operator of a class", vector)
def inplace_operator(v, x):
    v *= 2
    return v.data + x


@construct("items of a class", vector)
def items_of_class(v, x):
    v[0] = x[1]
    v[1, 1] = 5
    return v[0] + v[1:3]


@construct("len, bool, in, iteration and comparison of a class", vector)
def protocols_of_class(v, x):
    other = Vector(x)
    total = len(v) * x if v else x
    for row in v:
        total = total + row
    return total, 3 in v, 4 in v, v == other, v != other, v < other


class Lookup:
    def __init__(self, table):
        self.table = table

    def __getattr__(self, name):
        if name.startswith("w_"):
            return self.table[name[2:]]
        raise AttributeError(name)


@construct("__getattr__", lambda r: Lookup({"a": np.arange(3.0) + r, "b": 2.0}))
def getattr_method(obj, x):
    return x * obj.w_a + obj.w_b, hasattr(obj, "other"), getattr(obj, "another", 3)


class Doubled:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, kind=None):
        return getattr(obj, self.name) * 2

    def __set__(self, obj, value):
        setattr(obj, self.name, value + 1)


class Constant:
    def __get__(self, obj, kind=None):
        return 7.0


class Described:
    size = Doubled()
    seven = Constant()

    def __init__(self, size):
        self.size = size


@construct("descriptor with __get__ and __set__", lambda r: Described(2.0 + r))
def descriptor(obj, x):
    obj.size = 3.0
    return x * obj.size + obj.seven


@construct("descriptor read", lambda r: Described(2.0 + r))
def descriptor_read(obj, x):
    return x * obj.size + obj.seven


@construct("descriptor of an object made inside")
def descriptor_inside(x):
    obj = Described(x)
    return obj.size


class Counter:
    created = 0

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * self.calls


@construct("state kept in an object", lambda r: Counter())
def state_in_object(counter, x):
    return counter(x) + counter(x)


@construct("attribute of a class set", breaks=1, why="other objects of the class see it at once")
def class_attribute_set(x):
    Counter.created = 3
    return x * Counter.created


class Model:
    """As modules of a network are: objects in a list, with arrays."""

    def __init__(self, round):
        rng = np.random.default_rng(round)
        self.weights = [rng.normal(size=(3, 3)) for _ in range(2)]
        self.biases = {"0": rng.normal(size=3), "1": rng.normal(size=3)}
        self.act = np.tanh

    def __call__(self, x):
        for k, w in enumerate(self.weights):
            x = self.act(x @ w + self.biases[str(k)])
        return x


@construct("object with lists and dicts of arrays", lambda r: Model(r))
def model(net, x):
    return net(x)


@construct("objects in a list", lambda r: [layer(r), layer(r + 1)])
def objects_in_list(layers, x):
    for each in layers:
        x = each.apply(x)
    return x


@construct("type, isinstance, issubclass, callable of objects", layer)
def types_of_objects(obj, x):
    known = (
        isinstance(obj, Base),
        issubclass(type(obj), Base),
        type(obj) is Layer,
        callable(obj),
        isinstance(x, (int, np.ndarray)),
    )
    return x * sum(known), known, type(obj).__name__, obj.__class__ is Layer


@construct("class made inside", breaks=1, why="a class statement runs code that is kept")
def class_inside(x):
    class Local:
        factor = 3

        def scale(self, a):
            return a * self.factor

    return Local().scale(x)


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tagged = True
        return made


class Tagged(metaclass=Meta):
    def __init__(self, value):
        self.value = value


@construct("object of a class with a metaclass", why="its __call__ is the metaclass's", breaks=1)
def metaclass(x):
    return Tagged(x).value * 2


class Cached:
    def __new__(cls, value):
        made = super().__new__(cls)
        made.first = value
        return made

    def __init__(self, value):
        self.second = value * 2


@construct("__new__")
def new_method(x):
    made = Cached(x)
    return made.first + made.second
