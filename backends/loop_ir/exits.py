"""The side exits of a printed program: which words it leaves behind, and what Python makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import FrameState, Program, Return
from npcompile.tensor_core.loop_ir.states import Recipe, Slot, leaves
from npcompile.tensor_core.loop_ir.types import List, Memref, Object, Scalar, Type


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
    for way in ways.found:
        word = 0
        recipes = (*way.stack, *(slot.recipe for slot in way.locals))
        for leaf in dict.fromkeys(leaf for recipe in recipes for leaf in leaves(recipe)):
            way.leaves.append(Leaf(leaf, program.types[leaf], word))
            word += words_of(program.types[leaf])
    return ways


def words_of(kind: Type) -> int:
    """A number is a word, a list is its address, an object the number of the argument that it is; an array is its data, owner,
    whether it is a view, sizes and strides."""
    match kind:
        case Scalar() | List() | Object():
            return 1
        case Memref(_, rank):
            return 3 + 2 * rank
    raise AssertionError(kind)
