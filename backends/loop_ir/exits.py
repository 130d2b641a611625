"""The side exits of a printed program: which words it leaves behind, and what Python makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import ALL_ERRORS, FP_ERRORS, FrameState, Program, Region, Return
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, Slot, Tagged, TupleOf, Use, leaves_of
from npcompile.tensor_core.loop_ir.types import List, Memref, Object, Scalar, Type

UNFIT, OTHERS, UNUSUAL = -1, -2, -3  # exits of programs that do nothing: for memory, what else is given, NumPy's state of errors
USUAL = ALL_ERRORS & ~FP_ERRORS["under"]  # what NumPy reports by default
GIVEN = -4  # of those that return a list, which follows, or may return one


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that is handed over, in words from `word` on."""

    value: int
    kind: Type
    word: int


@dataclass(slots=True)
class Way:
    """One way out. Without a point the program returns `stack[0]`."""

    point: int | None
    stack: list[Recipe]
    locals: list[Slot]
    leaves: list[Leaf] = field(default_factory=list)

    @property
    def is_returned(self) -> bool:
        """Does the program's function give what it returns, and no list? What needs something of Python's own is handed over."""
        return self.point is None and is_plain(self.stack[0])


@dataclass(slots=True)
class Ways:
    """All of a program, in the order of their numbers."""

    found: list[Way] = field(default_factory=list)
    of_state: dict[int, int] = field(default_factory=dict)
    of_return: dict[int, int] = field(default_factory=dict)  # by the op's id

    @property
    def words(self) -> int:
        return max((leaf.word + words_of(leaf.kind) for way in self.found for leaf in way.leaves), default=0)


def side_exits(program: Program) -> Ways:
    ways = Ways()
    for op in walk(program.body):
        match op:
            case FrameState(name, point, stack, slots):
                ways.of_state[name] = len(ways.found)
                ways.found.append(Way(point, stack, slots))
            case Return(value):
                ways.of_return[id(op)] = len(ways.found)
                ways.found.append(Way(None, [value], []))
    known: dict[tuple[int, int], Leaf] = {}  # most ways hand over the same values
    for way in ways.found:
        word = 0
        for number in dict.fromkeys(leaves_of([*way.stack, *(slot.recipe for slot in way.locals)])):
            leaf = known.get((number, word))
            if leaf is None:
                leaf = known[number, word] = Leaf(number, program.types[number], word)
            way.leaves.append(leaf)
            word += words_of(leaf.kind)
    return ways


def how_to_run(errors: int, fuel: int, leaves: bool = False) -> int:
    """In one number: the errors that NumPy reports, the iterations up to a look for signals, and whether it leaves there."""
    return errors | leaves << 4 | fuel << 5


def parts(recipe: Recipe) -> Iterator[Recipe]:
    """The recipe and those that it holds."""
    yield recipe
    if isinstance(recipe, TupleOf):
        for item in recipe.items:
            yield from parts(item)


def is_plain(recipe: Recipe) -> bool:
    """Is it made of numbers, arrays and tuples, each of which stands at one place? At several, it is one object."""
    found = [each for each in parts(recipe) if each != Fixed(None)]
    return all(isinstance(each, Use | Tagged | TupleOf) for each in found) and len({*found}) == len(found)


def words_of(kind: Type) -> int:
    """A number is a word, a list is its address, an object the number of the argument that it is; an array is its data, owner,
    whether it is a view, sizes and strides."""
    match kind:
        case Scalar() | List() | Object():
            return 1
        case Memref(_, rank):
            return 3 + 2 * rank
    raise AssertionError(kind)


@dataclass(slots=True)
class Undo:
    """What a Speculate does where its body is left, and the ways out that are taken there."""

    region: Region
    number: int
    is_given_up: bool = False  # by a Guard
    ways: dict[int, None] = field(default_factory=dict)
