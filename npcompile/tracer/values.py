"""What the tracer knows of each value on the stack and in the locals while a function is captured.

Arrays, Dims and Numbers of the tensor core are values as they are. The classes here are for everything else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from collections.abc import Iterator as AbstractIterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, ClassVar

from npcompile.numpy_shim.objects import ShimObject
from npcompile.tensor_core.array import Array, Variable
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import Source


@dataclass(slots=True, eq=False)
class Lazy:
    """Something from outside that nothing was asked of yet: passing it on needs no guard."""

    source: Source  # the Python expression that gives it in the generated function
    example: object  # what it is in this call


@dataclass(slots=True, eq=False)
class Constant:
    """A Python object that is the same in every call the variant serves."""

    value: Any
    source: Source | None = None


@dataclass(slots=True, eq=False)
class Sequence:
    """A tuple or list whose length is known."""

    kind: type  # tuple, list, or a class of named tuples
    items: list[Any]
    source: Source | None = None  # set while it is an unchanged object from outside

    @property
    def plain_kind(self) -> type:
        """What parts of it, and it joined with others, are."""
        return list if self.kind is list else tuple

    def part(self, items: list[Any]) -> Sequence:
        """Items of it, and of others: a tuple itself, where these are all that it has."""
        is_all = self.kind is tuple and len(items) == len(self.items) and all(map(operator.is_, items, self.items))
        return self if is_all else Sequence(self.plain_kind, items)

    def of(self, items: Iterable[Any]) -> Any:
        """The real object of these items."""
        return self.kind._make(items) if is_named_tuple(self.kind) else self.kind(items)  # type: ignore[attr-defined]


MADE_FOR_NAMED_TUPLES = {"__new__", "__repr__", "__getnewargs__", "__doc__"}


def is_hashable(value: Any) -> bool:
    """Can it be looked for in a dict?"""
    try:
        hash(value)
    except (TypeError, ValueError):  # the second of a memoryview that can be written
        return False
    return True


def is_named_tuple(kind: type) -> bool:
    """Did collections.namedtuple or typing.NamedTuple make this class, without operators of its own?"""
    own = vars(kind).keys()
    return (
        kind.__bases__ == (tuple,)
        and {"_fields", "_make", "_field_defaults"} <= own
        and not (own & (vars(tuple).keys() | {"__bool__", "__getattr__"})) - MADE_FOR_NAMED_TUPLES
    )


class Loading:
    """What has `items` once they were looked at."""

    __slots__ = ()

    @property
    def is_loaded(self) -> bool:
        try:
            object.__getattribute__(self, "items")
        except AttributeError:
            return False
        return True


class OutsideSequence(Sequence, Loading):
    """A tuple or list from outside. Its length is guarded when its items are first looked at."""

    __slots__ = ("_added", "_load", "example")

    def __init__(self, kind: type, source: Source, load: Callable[[], list[Any]], example: Any = ()):
        self.kind, self.source, self._load, self.example = kind, source, load, example
        self._added: list[Any] = []  # by the program, before the items were looked at

    @property
    def is_as_given(self) -> bool:
        """Were no items looked at, nor added?"""
        return not self.is_loaded and not self._added

    def __getattr__(self, name: str) -> Any:
        if name != "items":
            raise AttributeError(name)
        self.items = [*self._load(), *self._added]
        return self.items

    def extend(self, items: list[Any]) -> None:
        """Put items at the end, without asking how long it is if nobody did yet."""
        try:
            found = object.__getattribute__(self, "items")
        except AttributeError:
            found = self._added
        found.extend(items)


@dataclass(slots=True, eq=False)
class Mapping:
    """A dict whose keys are known constants."""

    items: dict[Any, Any]
    source: Source | None = None
    resizes: int = 0  # how often the program has added or removed keys


class OutsideMapping(Mapping, Loading):
    """A dict from outside. What keys it has, and in which order, is guarded when it is first looked at as a whole."""

    __slots__ = ("_guard", "example")

    def __init__(self, source: Source, guard: Callable[[], None], example: dict[Any, Any]):
        self.source, self._guard, self.example, self.resizes = source, guard, example, 0

    @property
    def is_as_given(self) -> bool:
        return not self.is_loaded

    def known(self, key: Any) -> Lazy:
        """The item under a key that it has."""
        assert self.source is not None
        return Lazy(self.source.item(key), self.example[key])

    def __getattr__(self, name: str) -> Any:
        if name != "items":
            raise AttributeError(name)
        self._guard()
        self.items = {key: self.known(key) for key in [*self.example]}  # the capture itself may add to it
        return self.items


@dataclass(slots=True, eq=False)
class DictView:
    """What keys(), values() or items() of a dict gives: it sees the dict as it is now."""

    kind: str  # the method's name
    owner: Mapping


@dataclass(slots=True, eq=False)
class SetValue:
    """A set or frozenset whose members are known constants."""

    items: set[Any] | frozenset[Any]
    source: Source | None = None
    resizes: int = 0  # how often the program has changed it
    maker: tuple[Callable[[Any], set[Any]], Any] | None = None  # a function and its argument that make it, before its changes
    changes: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)  # of one made here: methods and their arguments

    @property
    def kind(self) -> type:
        return set if isinstance(self.items, set) else frozenset


@dataclass(slots=True, eq=False)
class Deque:
    """A collections.deque made inside the captured program, without a maximum length."""

    items: list[Any]
    source: None = None
    resizes: int = 0  # how often the program has changed it


@dataclass(slots=True, eq=False)
class Record:
    """An object of a class written in Python, made inside the captured program."""

    kind: type
    items: dict[str, Any]  # its attributes


@dataclass(slots=True, eq=False)
class Super:
    """super(after, owner)"""

    after: type
    owner: object


@dataclass(slots=True, eq=False)
class Text:
    """A string that an expression of the generated program gives: what is only passed on is not fixed."""

    source: Source
    hint: str  # what it is in this call


@dataclass(slots=True, eq=False)
class Comparison:
    """True or False, of Python numbers that are computed when the program is called. Passing it on needs no guard."""

    source: Source
    hint: bool  # what it is in this call


@dataclass(slots=True, eq=False)
class SliceValue:
    start: object
    stop: object
    step: object


@dataclass(slots=True, eq=False)
class RangeValue:
    """range(start, stop, step) with start and stop Constants or Dims, and a constant step."""

    start: object
    stop: object
    step: int
    source: Source | None = None  # of one from outside


@dataclass(slots=True, eq=False)
class Iterator:
    """An iterator made inside the captured program. `position` counts the items already given."""

    kind: str  # a row of tracer.python.iteration.NEXT
    parts: list[Any]  # what it runs over: a Sequence, an Array, a RangeValue, or other Iterators; what "lazy" ones are made by
    position: int = 0
    start: int = 0  # the first index, of enumerate and reversed
    made_at: int = 0  # the instruction of the outermost frame that made it: of "lazy" ones, and of those over containers
    resizes: int = 0  # of what it runs over, a dict, set or deque, when it was made
    is_exhausted: bool = False  # for good, also when what it ran over grows
    advance: Callable[[Any], Any] | None = None  # of "lazy" ones, given the iterator: the next item, or None


@dataclass(slots=True, eq=False)
class Generator(Iterator):
    """A generator made inside the captured program: `parts` are what makes the same one, of kind "lazy"."""

    frame: object = None  # the Frame that it runs: `generators.frame_of`
    bodies: int = 0  # how many bodies of loops and branches it was made in
    has_blocks: bool = False  # does it have `try` or `with` blocks, which see how it ends?
    is_running: bool = False
    handled: list[ExceptionValue] = field(default_factory=list)  # exceptions that it handles where it stands
    returned: object = None  # its result


@dataclass(slots=True, eq=False)
class Opaque:
    """An object from outside that is only known by its type and what was read from it."""

    source: Source
    example: Any
    written: dict[str, Any] = field(default_factory=dict)  # attributes that the program has set, or UNASSIGNED


@dataclass(slots=True, eq=False)
class Cell:
    """A variable shared with inner functions. `content` is None while it has no value that is known here."""

    content: object
    source: Source | None = None  # the real cell, for one that exists outside
    is_written: bool = False
    bodies: int = 0  # how many bodies of loops and branches it was made inside of


@dataclass(slots=True, eq=False)
class Closure:
    """A function made inside the captured program."""

    code: CodeType
    globals_source: Source | None
    globals: dict[str, Any]
    defaults: Sequence | None = None
    kwdefaults: Mapping | None = None
    annotations: object = None  # Sequence of names and values in turn, the function that makes them (3.14), or None
    cells: list[Cell] = field(default_factory=list)
    qualname: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)  # set on it
    is_renamed: bool = False  # does it look as its `__wrapped__`, by functools.wraps?


@dataclass(slots=True, eq=False)
class Partial:
    """A functools.partial, or an itemgetter, attrgetter or methodcaller of operator, made inside the captured program."""

    kind: type
    positional: list[Any]
    keywords: dict[str, Any]


@dataclass(slots=True, eq=False)
class Method:
    """A function bound to its first argument."""

    owner: object
    function: Constant | Closure | None  # of a function
    name: str


@dataclass(slots=True, eq=False)
class ArrayMethod:
    """ndarray's method `name`, bound to a traced array."""

    owner: Array
    name: str


@dataclass(slots=True, eq=False)
class ArrayFlags:
    """`array.flags`"""

    owner: Array


@dataclass(slots=True, eq=False)
class ArrayFlat:
    """`array.flat`"""

    owner: Array
    begun: int | None = None  # the instruction that began to take its items: it goes on from there


@dataclass(slots=True, eq=False)
class TensorValue:
    """A Tensor: the array that it holds, and where its gradient goes."""

    array: Array
    source: Source | None = None  # of the Tensor, when it came from outside and is still that object
    requires_grad: bool = False  # it came from outside so
    is_leaf: bool = False

    @property
    def variable(self) -> Variable:
        """Of one that came from outside and requires grad."""
        (step,) = self.array.steps
        assert isinstance(step.param, Variable)
        return step.param


@dataclass(slots=True, eq=False)
class TensorMethod:
    """Tensor's method `name`, bound to a traced Tensor."""

    owner: TensorValue
    name: str


@dataclass(slots=True, eq=False)
class Truth:
    """bool(array), not asked yet: the program branches on it, or the graph ends."""

    array: Array
    negated: bool = False


@dataclass(slots=True, eq=False)
class PythonNumber:
    """int(x) or float(x) of array data: `array` is a scalar, of int64 or float64, that nothing else changes."""

    array: Array
    kind: type


@dataclass(slots=True, eq=False)
class Converted:
    """What a method of ndarray makes of array data that is no array, a list or bytes: called when the program has run."""

    array: Array  # which nothing else changes
    method: str
    made_at: int | None = None  # the instruction of the outermost frame that can make it instead, natively

    @property
    def kind(self) -> type:
        return {"tolist": list, "tobytes": bytes}[self.method]


class LookedAt(Exception):
    """The program does more with a list or bytes than to pass them on: `index` is the instruction that makes them."""

    def __init__(self, index: int):
        self.index = index


@dataclass(eq=False)
class Transform:
    """A function and what is done to it when it is called: `kind` is a row of tracer.transformed.TRANSFORMS."""

    kind: str
    function: object  # the user's function; made while capturing, the value that it is there
    options: dict[str, Any] = field(default_factory=dict)

    outside: ClassVar[type[Transform]]  # the class of the same that users call: npcompile.transforms, which is above

    @property
    def given(self) -> Any:
        """What was transformed, to be captured: a compiled function itself, in whose place another's code may be put."""
        return self.function


@dataclass(slots=True, eq=False)
class ErrorState:
    """np.errstate(...), entered while capturing."""

    settings: dict[str, str]
    before: frozenset[str] = frozenset()  # the categories ignored outside


@dataclass(slots=True, eq=False)
class GradMode:
    """no_grad() or enable_grad(), entered while capturing."""

    enabled: bool
    before: bool = True


@dataclass(slots=True, eq=False)
class ContextExit:
    """The __exit__ of a context that was entered while capturing."""

    state: ErrorState | GradMode


@dataclass(slots=True, eq=False)
class ExceptionValue:
    """An exception made inside the captured program."""

    kind: type[BaseException]
    arguments: list[Any]
    raised_at: int | None = None  # the instruction of the outermost frame during which it was first raised and caught
    location: Location | None = None  # of that instruction
    cause: ExceptionValue | None = None
    context: ExceptionValue | None = None
    origin: ExceptionValue | None = None  # the group that this is a part of, whose traceback it has


@dataclass(slots=True, eq=False)
class TracebackValue:
    """The traceback of an exception that captured code raised: nothing is known of it."""

    error: ExceptionValue


LONGEST = 10_000  # items that are taken at once, or looked at


def is_long(value: Any) -> bool:
    """Is it a list, tuple or dict from outside that is too long to look at all its items, and of which nothing more is known?"""
    return isinstance(value, (OutsideSequence, OutsideMapping)) and len(value.example) > LONGEST and value.is_as_given


class _Marker:
    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return self._name


NULL = _Marker("NULL")  # an empty stack slot of CPython's calling convention
UNASSIGNED = _Marker("UNASSIGNED")  # a local without a value


def describe(value: Any) -> str:
    """What is said of a value that is not captured here. One that can be made natively before it is used is no such value."""
    match value:
        case Converted(made_at=int(index)):
            raise LookedAt(index)
        case Converted():
            return f"a {value.kind.__name__} made of array data"
        case Array():
            return "the value of a NumPy scalar" if not value.meta.boxed else "the value of an array"
        case Constant(None):
            return "None"
        case Opaque(example=known) | Constant(known) | Lazy(example=known):
            return of_type(type(known))
        case Sequence(kind=kind) | Record(kind=kind) | Partial(kind=kind) | ExceptionValue(kind=kind) | PythonNumber(kind=kind):
            return of_type(kind)
        case SetValue():
            return of_type(type(value.items))
        case Iterator():
            return "a generator" if isinstance(value, Generator) else "an iterator"
        case _:
            return WORDS.get(type(value)) or f"a {type(value).__name__.lower()}"


def of_type(kind: type) -> str:
    if kind.__module__ != "builtins":
        return f"an object of type {kind.__qualname__}"
    return f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__name__}"


# What messages call a value that has no Python type of its own here.
WORDS: dict[type, str] = {
    OutsideMapping: "a dict",
    Mapping: "a dict",
    DictView: "a view of a dict",
    Deque: "an object of type deque",
    Super: "super()",
    Text: "a str",
    Comparison: "a bool",
    Truth: "the truth of an array",
    SliceValue: "a slice",
    RangeValue: "a range",
    Closure: "a function",
    Method: "a method",
    ArrayMethod: "a method of an array",
    ArrayFlags: "the flags of an array",
    ArrayFlat: "the flat iterator of an array",
    TensorValue: "a Tensor",
    TensorMethod: "a method of a Tensor",
    Transform: "a transformed function",
    ErrorState: "np.errstate",
    GradMode: "no_grad or enable_grad",
    ContextExit: "the end of a with block",
    TracebackValue: "a traceback",
}


def require_known(*operands: Any) -> None:
    """Operators ask what is in a list or bytes."""
    for value in operands:
        if isinstance(value, Converted):
            raise Decline(f"an operator of {describe(value)}")


def is_number(value: Any) -> bool:
    """A Python int or float, known or traced."""
    if isinstance(value, Constant):
        return type(value.value) in (int, float, bool, complex)
    return isinstance(value, (Dim, Number, Integer))


def children(value: Any) -> AbstractIterator[Any]:
    """The values that a value holds."""
    match value:
        case Sequence() | Deque():
            yield from value.items
        case Mapping() | Record():
            yield from value.items.values()
        case SliceValue():
            yield from (value.start, value.stop, value.step)
        case RangeValue():
            yield from (value.start, value.stop)
        case Iterator():
            yield from value.parts
        case DictView() | Super():
            yield value.owner
        case Cell():
            yield value.content
        case Closure():
            yield from (value.defaults, value.kwdefaults, value.annotations, *value.cells, *value.attributes.values())
        case Partial():
            yield from (*value.positional, *value.keywords.values())
        case Method():
            yield from (value.owner, value.function)
        case ArrayMethod() | ArrayFlags() | ArrayFlat() | TensorMethod():
            yield value.owner
        case Constant(ShimObject() as made):
            yield from made.made_of
        case TensorValue():
            yield value.array
        case Truth() | PythonNumber() | Converted():
            yield value.array
        case ExceptionValue():
            yield from value.arguments
        case TracebackValue():
            yield value.error
        case Transform():
            yield value.function
