"""What the values of a native loop are: numbers in C variables, arrays, ranges, and things that only stand there."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part, Tree
from npcompile.backends.cpu.loops.number_lists import NumberList
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, ArrayInput, NoForm
from npcompile.tensor_core.source import NONE, Source

OTHER_KINDS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # *args, **kwargs, generators, coroutines, asynchronous generators
PYTHON_KINDS: dict[type, str] = {bool: "bool", int: "int", float: "float", complex: "complex"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number: "int", "float", "bool", "complex" of Python, else the dtype of a scalar of NumPy's."""

    kind: str
    text: str  # the C variable, or a literal

    @property
    def is_numpy(self) -> bool:
        return self.kind not in PYTHON_KINDS.values()


@dataclass(frozen=True, slots=True)
class Known:
    """An object that is always the same one: a function, a module, None, a constant of the code."""

    value: Any
    source: Source = NONE  # what gives it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Closure(Known):
    """A function that a variable holds: perhaps another in each call, with cells and defaults of its own, but of this code."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Closure) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)


@dataclass(frozen=True, slots=True)
class CellOf:
    """A cell that exists outside, and the Python expression that gives it."""

    source: Source
    real: types.CellType


@dataclass(frozen=True, slots=True)
class Elements:
    """An array."""

    input: ArrayInput
    source: Source = NONE
    is_plain: bool = True  # is its dtype the object that NumPy itself has? One that was unpickled, or has metadata, is another

    def __hash__(self) -> int:
        return hash(self.source)


@dataclass(frozen=True, slots=True)
class Formula:
    """An array that was not computed yet: what is done with its elements, and its sizes as C expressions.

    It stands on the stack only. What it reads does not change meanwhile: before anything is written, it is computed.
    """

    tree: Tree
    sizes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadOnly(Formula):
    """Memory that may be read by what stands around it. It is a view of its own kind, which only Python makes."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice made on the stack. None is a part that is left out."""

    start: Scalar | None
    stop: Scalar | None
    step: Scalar | None


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an array, to be called."""

    owner: object
    name: str


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple made on the stack."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """A list made on the stack, of numbers, arrays, or lists: an index, or what an array is made of."""

    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """The cell of a variable that a comprehension reads, and what the variable holds."""

    value: object


@dataclass(frozen=True, slots=True)
class Nested:
    """A function made on the stack. `free`: what it has of the variables around it."""

    code: types.CodeType
    free: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator made on the stack, and the iterator that it goes over."""

    nested: Nested
    iterator: object


@dataclass(frozen=True, slots=True)
class Span:
    """A range, of which nothing has been asked."""

    start: Scalar
    stop: Scalar
    step: Scalar


@dataclass(frozen=True, slots=True)
class Steps:
    """An iterator over a range: C variables for the next item and the end. `given` is Python's own, and its first item."""

    name: str  # of the variables
    step: int | None  # None where it is computed: a C variable has it, and the end is where the last step leads
    given: str | None = None

    @property
    def next(self) -> str:
        return f"{self.name}_next"

    @property
    def stop(self) -> str:
        return f"{self.name}_stop"

    @property
    def by(self) -> str:
        """The step, as C."""
        return f"{self.name}_step" if self.step is None else str(self.step)

    @property
    def start(self) -> str:
        """The first item, of a range that the program makes."""
        return f"{self.name}_start"


@dataclass(frozen=True, slots=True)
class Walk:
    """An iterator over an array or a list: a C variable for the next position."""

    name: str
    elements: Elements | Part | NumberList
    given: str | None = None

    @property
    def next(self) -> str:
        return f"{self.name}_next"


@dataclass(frozen=True, slots=True)
class Tied:
    """What enumerate(), zip() or reversed() of ranges and arrays gives, of which nothing has been asked.

    enumerate's first is a range.
    """

    function: Known
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """An iterator of enumerate's or zip's: it takes an item of each of these."""

    function: Known
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Outside:
    """A Python object that nothing was asked of yet."""

    source: Source
    example: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outside) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)


@dataclass(frozen=True, slots=True)
class Bound:
    """A method of an object from outside, to be called."""

    owner: Outside
    function: Known


@dataclass(frozen=True, slots=True)
class Null:
    """A NULL of the stack."""


def cells_of(known: Known) -> dict[str, CellOf]:
    """Of the variables that a function shares with those around it."""
    function, source = known.value, known.source
    names = function.__code__.co_freevars
    return {name: CellOf(source.attribute("__closure__").item(k), function.__closure__[k]) for k, name in enumerate(names)}


def can_inline(function: Any) -> bool:
    """Is it a Python function whose instructions can be written where it is called?"""
    if type(function) is not types.FunctionType:
        return False
    code = function.__code__
    is_plain = not code.co_flags & OTHER_KINDS and not code.co_kwonlyargcount and not code.co_cellvars
    return is_plain and not any(name.startswith("__npcompile") for name in vars(function))


LONG_LONG = "qQ"  # dtypes of which NumPy's scalars stay what they are beside those of int64


def kind_of_number(value: Any) -> str | None:
    """The kind of a Python number or a scalar of NumPy's."""
    if type(value) in PYTHON_KINDS:
        return PYTHON_KINDS[type(value)]
    if isinstance(value, np.generic) and type(value) is value.dtype.type and value.dtype.char not in LONG_LONG:
        kind = value.dtype.str[1:]
        return kind if kind in C_OF_KIND else None
    return None


def promoted(ufunc: np.ufunc, kinds: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The kinds in which NumPy computes `ufunc` of these, and that of the result: NEP 50."""
    weak = {"int": int, "float": float, "complex": complex, "bool": np.dtype("?")}
    asked = (*(weak.get(k) or np.dtype(k) for k in kinds), *(None,) * ufunc.nout)
    try:
        *inputs, output = ufunc.resolve_dtypes(asked)
    except TypeError as error:
        raise NoForm(str(error)) from None
    found = (*(d.str[1:] for d in inputs), output.str[1:])
    if any(k not in C_OF_KIND for k in found):
        raise NoForm(f"{ufunc.__name__} in {found}")
    return found[:-1], found[-1]
