"""What random programs may call: functions, classes and context managers as users write them, and the state these share."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import npcompile as npc

printed: list[Any] = []  # what a program showed, in order


class Screen:
    """Standard output that keeps what is printed between what is recorded."""

    def write(self, text: str) -> None:
        printed.append(text)

    def flush(self) -> None:
        pass


# --- functions


@npc.disable
def record(*values: Any) -> None:
    """What `print` is to a program: an effect that must happen once, in order."""
    printed.append(tuple(np.array(v) if isinstance(v, np.ndarray) else v for v in values))


@npc.disable
def opaque(x: Any) -> Any:
    """A function that is not captured and returns its argument."""
    return x


def helper(x: Any, k: Any = 2, *rest: Any, **named: Any) -> Any:
    """A user's function, to be inlined."""
    y = x * k
    for r in rest:
        y = y + r
    return y - named.get("b", 1)


def breaking_helper(x: Any, k: int = 2) -> Any:
    """A user's function that cannot be inlined."""
    y = x * k
    record(y.shape)
    return y + 1


compiled_helper = npc.compile(helper, backend="eager")


def recursive(x: Any, depth: int) -> Any:
    return x if depth <= 0 else recursive(x + 1, depth - 1) * 2


def remembering(x: Any, seen: list[Any] = []) -> int:  # noqa: B006  (the default is what is tried)
    """Keeps its arguments in a default that outlives the call."""
    seen.append(x)
    return len(seen)


def keyword_only(x: Any, /, *, scale: Any = 2, **others: Any) -> Any:
    return x * scale, sorted(others)


def rows(x: Any, limit: int = 3) -> Iterator[Any]:
    """A generator over the first rows of an array, which tells that it was asked to the end."""
    for k, row in enumerate(x):
        if k == limit:
            break
        try:
            yield row * 2
        finally:  # runs too when the generator is dropped, at a time that is nobody's promise: without an effect
            row = None
    STATE["ended"] = STATE.get("ended", 0) + 1


def twice(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs), function(*args, **kwargs)

    return wrapper


@twice
def doubled(x: Any) -> Any:
    return x + x


@functools.singledispatch
def described(x: Any) -> str:
    return "other"


@described.register
def _(x: np.ndarray) -> str:
    return f"array of {x.ndim}"


@described.register
def _(x: int) -> str:
    return "int"


def check_positive(x: Any, what: str = "x") -> Any:
    """Raises for data: most calls pass."""
    if x.size and (x < 0).all():
        raise Refused(f"{what} is negative", x.ndim)
    return x


class Refused(ValueError):
    """An exception of the user's own, with two arguments."""

    def __init__(self, text: str, code: Any = None):
        super().__init__(text, code)
        self.code = code


# --- classes


class Box:
    """A user's object that holds an array."""

    scale = 2

    def __init__(self, data: Any):
        self.data = data
        self.uses = 0

    @property
    def total(self) -> Any:
        return self.data.sum() if self.data.dtype.kind in "biu" else self.data.shape

    def scaled(self, k: Any = 1) -> Any:
        return self.data * self.scale * k

    def touch(self) -> int:
        self.uses += 1
        return self.uses


class Meter(Box):
    """Class and static methods, a property that is set, attributes that are found when asked for."""

    made = 0

    def __init__(self, data: Any, unit: str = "m"):
        super().__init__(data)
        self.unit = unit
        type(self).made += 1

    @classmethod
    def of(cls, *items: Any) -> Meter:
        return cls(np.array(items), unit="s")

    @staticmethod
    def ratio(a: Any, b: Any) -> Any:
        return a * b

    @property
    def first(self) -> Any:
        return self.data[:1]

    @first.setter
    def first(self, value: Any) -> None:
        self.uses += 1
        self.data[:1] = value

    @functools.cached_property
    def kept(self) -> Any:
        STATE["computed"] = STATE.get("computed", 0) + 1
        return self.data * 2

    def scaled(self, k: Any = 1) -> Any:
        return super().scaled(k) + 1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("plus_"):
            return self.data + int(name[5:])
        raise AttributeError(f"no {name}")


class Vector:
    """A user's class with operators, indexing and iteration."""

    __slots__ = ("log", "values")

    def __init__(self, values: Any):
        self.values = values
        self.log: list[str] = []

    def __add__(self, other: Any) -> Vector:
        return Vector(self.values + getattr(other, "values", other))

    __radd__ = __add__

    def __iadd__(self, other: Any) -> Vector:
        self.values = self.values + other
        self.log.append("+=")
        return self

    def __mul__(self, k: Any) -> Vector:
        return Vector(self.values * k)

    def __matmul__(self, other: Any) -> Any:
        return (self.values * other.values).shape

    def __neg__(self) -> Vector:
        return Vector(-self.values)

    def __getitem__(self, key: Any) -> Any:
        return self.values[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.log.append("set")
        self.values[key] = value

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __contains__(self, item: Any) -> bool:
        return item is self.values

    def __bool__(self) -> bool:
        return self.values.ndim > 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.values.shape == other.values.shape

    def __hash__(self) -> int:
        return hash(self.values.shape)

    def __call__(self, x: Any, k: Any = 1) -> Any:
        return x * k + len(self.log)


@dataclasses.dataclass
class Settings:
    """Fields with defaults, of which one is made for each object."""

    rate: Any = 0.5
    names: list[str] = dataclasses.field(default_factory=list)
    data: Any = None

    def apply(self, x: Any) -> Any:
        return x * self.rate


@dataclasses.dataclass(frozen=True)
class Size:
    rows: int
    columns: int = 1


class Pair(NamedTuple):
    left: Any
    right: Any = 2


Point = namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Clamped:
    """A descriptor that counts how often it is set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(instance, self.name, 0)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.sets = getattr(instance, "sets", 0) + 1
        setattr(instance, self.name, value)


class Model:
    weight = Clamped()

    def __init__(self, weight: Any, **options: Any):
        self.weight = weight
        self.options = options

    def __call__(self, x: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        return x + self.weight


def kind_of(error: type[BaseException] | None) -> str:
    """A local without a value is a NameError of one kind or the other: see docs/architecture/errors.md."""
    return "" if error is None else "NameError" if issubclass(error, NameError) else error.__name__


class Section:
    """A context manager that logs, and may keep exceptions to itself."""

    def __init__(self, name: str, *swallowed: type[BaseException]):
        self.name = name
        self.swallowed = swallowed

    def __enter__(self) -> list[Any]:
        STATE.setdefault("sections", []).append(f"enter {self.name}")
        return STATE["sections"]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        STATE["sections"].append(f"leave {self.name} {kind_of(kind)}")
        return bool(self.swallowed) and kind is not None and issubclass(kind, self.swallowed)


@contextlib.contextmanager
def announced(value: Any) -> Iterator[Any]:
    LOG.append("begin")
    try:
        yield value
    finally:
        LOG.append("end")


# --- state that outlives a call

LOG: list[Any] = []
REGISTRY: dict[Any, Any] = {}
SEEN: set[Any] = set()
STATE: dict[str, Any] = {}
SHARED = Box(None)


def reset(round: int = 0) -> None:
    """The same objects, as they are when the module is imported; in later rounds some are others."""
    printed.clear()
    LOG[:] = [0]
    REGISTRY.clear()
    REGISTRY["a"] = np.arange(2)
    SEEN.clear()
    STATE.clear()
    vars(SHARED).clear()
    vars(SHARED).update(data=np.arange(4.0) if round < 2 else np.arange(4), uses=round // 2)
    Box.scale, Meter.made = 2 + (round > 1), 0
    helper.__defaults__ = (2 if round != 3 else 1.5,)
    remembering.__defaults__[0].clear()  # type: ignore[index]


def state() -> list[Any]:
    """What `reset` sets, as it is now: the containers are copies, what they hold is not."""
    containers = [list(printed), list(LOG), dict(REGISTRY), set(SEEN), dict(STATE), dict(vars(SHARED))]
    return [*containers, Box.scale, Meter.made, list(remembering.__defaults__[0])]  # type: ignore[index]


TOOLS = {
    f.__name__: f
    for f in (
        *(record, opaque, helper, breaking_helper, recursive, remembering, keyword_only, rows, twice, doubled, described),
        *(check_positive, Refused, Box, Meter, Vector, Settings, Size, Pair, Point, Color, Model, Section, announced),
        *(Counter, OrderedDict, defaultdict),
    )
}
TOOLS.update(compiled_helper=compiled_helper, LOG=LOG, REGISTRY=REGISTRY, SEEN=SEEN, STATE=STATE, SHARED=SHARED)
