"""Values as C: their types, the words that they are handed over in, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from npcompile.backends.loop_ir.c_text import CText, c
from npcompile.backends.loop_ir.exits import Leaf
from npcompile.backends.loop_ir.target import C_TYPES, Unsupported
from npcompile.tensor_core.loop_ir.ops import Alloc, Op, Room, Scratch
from npcompile.tensor_core.loop_ir.states import Literal
from npcompile.tensor_core.loop_ir.types import FLOATING, NUMPYS, TRUTHS, Kind, List, Memref, Object, Scalar, Type, kind_in_words

RANKS = range(1, 9)
SCALARS = {kind: Scalar(kind) for kind in Kind}


def c_type(kind: Type, line: int = 0) -> CText:
    found = known_c_type(kind)
    if found is None:
        raise Unsupported(f"a value that is {kind_in_words(kind)}", line)
    return found


@lru_cache(None, typed=True)  # a type is a tuple, and equals one of another class
def known_c_type(kind: Type) -> CText | None:
    match kind:
        case Scalar(element, 1) if element in C_TYPES:
            return c(C_TYPES[element])
        case Scalar(element) if element in FLOATING or element in TRUTHS:
            return c("npc_{}", lanes_of(kind))
        case Memref(element, rank) if element in C_TYPES and rank in RANKS:
            return c("struct npc_array{}", rank)
        case List(element) if element in C_TYPES:
            return c("struct npc_list*")
        case Object():  # the number of the argument that it is
            return c("npc_i64")
    return None


def lanes_of(kind: Type) -> CText:
    """Kind and number, in the names of functions of vectors."""
    assert isinstance(kind, Scalar), kind
    return c("{}x{}", c(NUMPYS.get(kind.kind, kind.kind).value), kind.lanes)


def splat(kind: Type, name: CText) -> CText:
    """A vector of one number: less 0 it is itself, -0.0 too. A lane that is true has all bits."""
    assert isinstance(kind, Scalar), kind
    return c("({}){{}} - ({} != 0)" if kind.kind in TRUTHS else "{1} - ({0}){{}}", c_type(kind), name)


def element_type(kind: Type, line: int = 0) -> CText:
    """Of the elements of an array or list."""
    assert isinstance(kind, (List, Memref)), kind
    return c_type(SCALARS[kind.element], line)


def field_of(kind: Scalar) -> CText:
    return c("f" if kind.kind is Kind.F32 else "d" if kind.kind in FLOATING else "i")


def taken(kind: Type, name: CText, number: int, word: int) -> Iterator[CText]:
    """An argument, which has this number, from its words."""
    match kind:
        case Scalar():
            yield c("  {} = in[{}].{};", name, word, field_of(kind))
        case Memref(_, rank):
            yield c("  {}.data = in[{}].p; {}.owner = {}; {}.is_view = 0;", name, word, name, number, name)
            for axis in range(rank):
                sizes = (name, axis, word + 3 + axis, name, axis, word + 3 + rank + axis)
                yield c("  {}.n[{}] = in[{}].i; {}.s[{}] = in[{}].i;", *sizes)
        case Object():
            yield c("  {} = {};", name, number)
        case _:
            raise Unsupported(f"an argument that is {kind_in_words(kind)}", 0)


def handed_over(leaf: Leaf, name: CText) -> Iterator[CText]:
    """A value of a way out, to its words."""
    word = leaf.word
    match leaf.kind:
        case Scalar():
            yield c("  out[{}].{} = {};", word, field_of(leaf.kind), name)
        case Object():
            yield c("  out[{}].i = {};", word, name)
        case List():
            yield c("  out[{}].p = (char*){};", word, name)
        case Memref(_, rank):
            yield c("  out[{}].p = {}.data; out[{}].i = {}.owner;", word, name, word + 1, name)
            yield c("  out[{}].i = {}.is_view;", word + 2, name)
            for axis in range(rank):
                sizes = (word + 3 + axis, name, axis, word + 3 + rank + axis, name, axis)
                yield c("  out[{}].i = {}.n[{}]; out[{}].i = {}.s[{}];", *sizes)


def extent(kind: Type, name: CText) -> CText:
    """Where an array's elements begin and end."""
    assert isinstance(kind, Memref), kind
    size = c("sizeof({})", element_type(kind))
    return c("npc_extent({}.data, {}, {}.n, {}.s, {})", name, kind.rank, name, name, size)


def room(kind: Type, name: CText, number: int, elements: CText) -> Iterator[CText]:
    """Memory for so many elements, which the place of this number keeps."""
    size = c("sizeof({})", element_type(kind))
    yield c("  {}.owner = 0; {}.is_view = 0; {}.s[0] = {};", name, name, name, size)
    yield c("  {}.data = npc_room(frame, &m{}, {} * {});", name, number, elements, size)
    yield c("  {}.n[0] = {}.data ? {} : 0;", name, name, elements)


def memory_of(ops: Iterable[Op], types: Sequence[Type]) -> Iterator[CText]:
    """The variables in which ops keep memory of their own."""
    for op in ops:
        match op:
            case Scratch(result, elements):
                yield c("  {} s{}[{}];", element_type(types[result]), result, elements)
            case Alloc(result, again=True):
                yield c("  struct npc_site taken_{} = {{0, 0}};", result)
            case Alloc(result, turns=turns) if turns:
                yield c("  struct {{ npc_array* arrays[{}]; int next; }} turns_{} = {{{{ 0 }}, 0}};", turns, result)
            case Room(result):
                yield c("  struct npc_room* m{} = 0;", result)


def literal(value: Literal) -> CText:
    match value:
        case bool():
            return c(str(int(value)))
        case int():
            return c(f"{value}LL" if value > -(2**63) else "(-9223372036854775807LL - 1)")
        case float() if value != value:
            return c("NPC_NAN")
        case float() if value in (float("inf"), -float("inf")):
            return c("NPC_INFINITY" if value > 0 else "-NPC_INFINITY")
        case float():
            return c(value.hex())
    raise Unsupported(f"the constant {value}", 0)
