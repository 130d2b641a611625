"""What a native program has on the stack and in variables between blocks, which blocks are the same, and where it leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import NoForm, ScalarLoops
from npcompile.tensor_core.source import Name, Source
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.native import arrays
from npcompile.tracer.native.accumulations import Ordered
from npcompile.tracer.native.types import (
    Bound,
    Closure,
    Elements,
    Formula,
    Generator,
    Items,
    Known,
    Listed,
    Method,
    Nested,
    NumberList,
    Outside,
    Scalar,
    Shared,
    Slice,
    Span,
    Steps,
    Tied,
    Together,
    Walk,
)


class NoProgram(NoForm):
    """The loop as a whole is no native program."""


@dataclass(slots=True)
class State:
    """What is on the stack and in the variables."""

    stack: list[Any]
    locals: dict[str, Any]

    def copy(self) -> State:
        return State(self.stack.copy(), self.locals.copy())


@dataclass(slots=True)
class Attributes:
    """What a program has met of objects and their attributes."""

    names: dict[Source, Name] = field(default_factory=dict)  # `source.name` -> the name for what it has before the program
    places: dict[str, Source] = field(default_factory=dict)  # what stands among the variables -> `source.name` that is set
    owners: dict[Source, Any] = field(default_factory=dict)  # sources of objects -> the objects
    changed: set[Source] = field(default_factory=set)  # sources of those whose attributes are set


@dataclass(slots=True)
class Exit:
    """Where the program leaves for Python, and what it hands over."""

    index: int
    state: State
    is_end: bool  # compiled code may go on; else the instruction has no native form in a loop, or not for these numbers
    throws: bool = False  # an exception is raised there
    values: list[Scalar | Part | NumberList] = field(default_factory=list)  # numbers, arrays that the program made, and views
    given: list[Steps | Walk] = field(default_factory=list)  # iterators that others may have, and that are not on the stack

    def hand_over(self, value: Any) -> None:
        """Note the numbers and arrays of which Python makes a value."""
        match value:
            case Elements(array) if array.made:
                self.hand_over(arrays.part_of(value))
            case Scalar() | Part() | NumberList():
                if value not in self.values:
                    self.values.append(value)
            case Items(items):
                for item in items:
                    self.hand_over(item)
            case Span(start, stop, step):
                for number in (start, stop, step):
                    self.hand_over(number)
            case Steps():
                for name in (value.next, value.stop, *[value.by] * (value.step is None)):
                    self.hand_over(Scalar("int", name))
            case Walk():
                self.hand_over(Scalar("int", value.next))
                self.hand_over(value.elements)
            case Together(_, parts) | Tied(_, parts):
                for part in parts:
                    self.hand_over(part)


def key_of(index: int, state: State) -> tuple[Any, ...]:
    """What decides how the block at an instruction is written."""
    variables = tuple(sorted((n, signature(v)) for n, v in state.locals.items()))
    return index, tuple(map(signature, state.stack)), variables, shared_objects(state)


def shared_objects(state: State) -> tuple[int, ...]:
    """Which of the views and tuples are one object: of each the first one. Nothing where no two are."""
    found = [id(v) for value in [*state.stack, *(v for _, v in sorted(state.locals.items()))] for v in objects_in(value)]
    return () if len(set(found)) == len(found) else tuple(map(found.index, found))


def objects_in(value: Any) -> Iterator[Part | Items]:
    """Views, and tuples before what they hold."""
    match value:
        case Part():
            if not value.is_whole:
                yield value
        case Items(parts):
            if parts:
                yield value
            for part in parts:
                yield from objects_in(part)
        case Together(_, parts):
            for part in parts:
                yield from objects_in(part)
        case Walk(_, elements):
            yield from objects_in(elements)


def shared_tuples(state: State) -> list[Items]:
    """Those that several variables or tuples have, each before those that hold it."""
    found = [v for value in [*state.stack, *state.locals.values()] for v in objects_in(value) if isinstance(v, Items)]
    times = Counter(map(id, found))
    return list({id(v): v for v in reversed(found) if times[id(v)] > 1}.values())


def over_items(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`change` where it is for what tuples hold: of a tuple that several variables have one is made."""
    return partial(changed_items, change, {})


def changed_items(change: Callable[[Any], Any], made: dict[int, Items], value: Any) -> Any:
    if not isinstance(value, Items):
        return change(value)
    if id(value) not in made:
        items = tuple(changed_items(change, made, item) for item in value.items)
        made[id(value)] = value if all(a is b for a, b in zip(items, value.items)) else Items(items)
    return made[id(value)]


def signature(value: Any) -> Any:
    """What of a value decides how a block is written."""
    match value:
        case Scalar(kind):
            return "number", kind
        case Elements() | Outside() | Closure():
            return "outside", value.source
        case Known():
            return "known", id(value.value)
        case Steps():
            return "iterator", value.name, value.step
        case Walk():
            return "iterator", value.name, signature(value.elements)
        case Together(_, parts):
            return "iterators", tuple(map(signature, parts))
        case Part():
            known = tuple(text if not is_variable(text) else "" for text in (value.data, *value.sizes, *value.strides))
            return (
                "part",
                value.dtype.str,
                value.ndim,
                "" if value.is_own else value.root,
                value.is_whole,
                value.is_dense,
                value.is_ordered,
                known,
            )
        case NumberList(name, kinds, is_of_tuples):
            return "list", name, kinds, is_of_tuples
        case Items(items):
            return "tuple", tuple(map(signature, items))
        case Ordered(name):
            return "sum", name
    return (type(value).__name__,)


@dataclass(slots=True)
class Placing:
    """Gives values as the next block has them: numbers in variables of their own, and a view or tuple that several have once."""

    code: ScalarLoops
    copies: list[tuple[str, str, str]]  # (variable, what it is set to, kind)
    suffix: str = ""
    shared: dict[int, Part | Items] = field(default_factory=dict)

    def all(self, state: State, slots: Mapping[str, int | str]) -> State:
        """What is on the stack, and in variables of these slots."""
        stack = [self.placed(v, f"S{k}{self.suffix}") for k, v in enumerate(state.stack)]
        variables = {n: self.placed(v, f"L{slots[n]}{self.suffix}") for n, v in sorted(state.locals.items())}
        return State(stack, {n: variables[n] for n in state.locals})

    def placed(self, value: Any, name: str) -> Any:
        if isinstance(value, Scalar):
            variable = self.code.variable(f"{name}_{value.kind}", value.kind)
            self.copies.append((variable, value.text, value.kind))
            return Scalar(value.kind, variable)
        if isinstance(value, Items):
            if id(value) not in self.shared:
                self.shared[id(value)] = Items(tuple(self.placed(item, f"{name}_{k}") for k, item in enumerate(value.items)))
            return self.shared[id(value)]
        if isinstance(value, Part):
            if value.is_whole:
                return placed_part(self.code, value, name, self.copies)
            if id(value) not in self.shared:
                self.shared[id(value)] = placed_part(self.code, value, name, self.copies)
            return self.shared[id(value)]
        if isinstance(value, Walk):
            return Walk(value.name, self.placed(value.elements, f"{value.name}_of"), value.given)
        if isinstance(value, Together):
            return Together(value.function, tuple(self.placed(part, name) for part in value.parts))
        if isinstance(value, Bound | Generator | Listed | Method | Nested | Shared | Slice):
            raise NoProgram(f"a {type(value).__name__.lower()} that is made in one block and used in another")
        if isinstance(value, Ordered) and value.steps:
            raise NoProgram("a sum that is made in one block and stored in another")
        if isinstance(value, Span | Tied):
            raise NoProgram("a range that is made in one block and used in another")
        return value


def placed_part(code: ScalarLoops, part: Part, name: str, copies: list[Any]) -> Part:
    """Memory whose place, sizes and strides are in variables of their own. Those of arrays that are given stay."""

    def put(text: str, tag: str, kind: str = "int") -> str:
        if text.isdigit() or text in code.constants:
            return text
        variable = code.variable(f"{name}_{tag}", kind)
        copies.append((variable, text, kind))
        return variable

    sizes = tuple(put(n, f"n{k}") for k, n in enumerate(part.sizes))
    strides = tuple(put(s, f"s{k}") for k, s in enumerate(part.strides))
    root = put(part.root, "o", "object") if part.is_own else part.root
    return replace(part, data=put(part.data, "d", "data"), sizes=sizes, strides=strides, root=root)


def names_of(iterator: Any) -> list[str]:
    """Of the ranges and arrays that an iterator goes over."""
    if isinstance(iterator, Together):
        return [name for part in iterator.parts for name in names_of(part)]
    return [iterator.name] if isinstance(iterator, Steps | Walk) else []


def number_of_items(value: Any) -> str:
    """Of an array or a list that a loop goes over, as C."""
    return value.count if isinstance(value, NumberList) else arrays.part_of(value).sizes[0]


def is_attribute(name: str) -> bool:
    """Is it no variable of the code, but an attribute that was set, and is set in Python when the program leaves?"""
    return name.startswith(".a")  # what a comprehension goes over is named .0


def still_needed(variables: dict[str, Any], live: Collection[str]) -> dict[str, Any]:
    """Those variables that somebody may read."""
    return {n: v for n, v in variables.items() if n in live or isinstance(v, Outside) or is_attribute(n)}


def has_known_steps(iterator: Any) -> bool:
    """Are the steps of all ranges that an iterator goes over constants? Lists may change meanwhile."""
    if isinstance(iterator, Together):
        return all(map(has_known_steps, iterator.parts))
    if isinstance(iterator, Walk) and isinstance(iterator.elements, NumberList):
        return False
    return not isinstance(iterator, Steps) or iterator.step is not None


def lists_in(value: Any) -> list[str]:
    match value:
        case NumberList(name):
            return [name]
        case Walk(_, elements):
            return lists_in(elements)
        case Items(parts) | Together(_, parts):
            return [name for part in parts for name in lists_in(part)]
    return []


def is_object(value: Any) -> bool:
    """Could Python be handed it?"""
    if isinstance(value, Items):
        return all(map(is_object, value.items))
    return not isinstance(value, Bound | Formula | Generator | Listed | Method | Nested | Shared | Slice)


def named(state: State) -> list[Any]:
    """What variables hold that is more than elements yet to be computed."""
    return [v for v in state.locals.values() if not isinstance(v, Formula)]


def is_variable(text: str) -> bool:
    """Is it a variable that belongs to a value, so that its name tells nothing?"""
    return text[0] in "LSi" and not text.startswith("in")


def names_set(i: Instruction) -> tuple[str, ...]:
    """The variables that an instruction sets."""
    return (i.argval,) if i.traits.place in ("local", "cell") and i.traits.access != "read" else ()


def names_read(i: Instruction) -> tuple[str, ...]:
    """The variables that an instruction may read."""
    return (i.argval,) if i.traits.place == "local" and i.traits.access in ("read", "take") else ()
