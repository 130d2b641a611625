"""Lists of numbers, or of tuples of them, that a native program makes, appends to, takes from, and hands over or returns.

All items have numbers of the same types. Which list a variable holds is known where the program is written, by the instruction
that has made it: one that makes another while the one before is still in use takes another C variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.number_lists import NumberList, dtype_of
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops, is_complex
from npcompile.backends.cpu.loops.value_ranges import Integer
from npcompile.tracer.bytecode.versions import RUNNING
from npcompile.tracer.native import arrays, builtin_reductions, creation
from npcompile.tracer.native.blocks import Blocks, NoProgram
from npcompile.tracer.native.numbers import as_integer
from npcompile.tracer.native.states import State, is_object, lists_in, names_read, over_items
from npcompile.tracer.native.types import Items, Known, Listed, Scalar, Slice, Together, Walk

MOST_AT_ONCE = 4  # lists of one instruction that are in use together
MOST_REPEATED = 2**40
METHODS = ("append", "pop", "clear", "extend")


def require(b: Blocks, changes: bool = False) -> None:
    """NoForm where a list must not be read, or changed: Python would find it changed when it does the statement again."""
    if b.code.pointwise is not None:
        raise NoForm("a list of numbers")
    if b.inside is not None or b.apart is not None:
        raise NoProgram("a list of numbers")
    if changes:
        if b.calls:
            raise NoForm("a function that changes a list")
        if not all(map(is_object, b.state.stack)):
            raise NoForm("a list that changes in the middle of a statement")
        b.note_write()


# --- lists that are made


def kept(b: Blocks, value: Any, name: str) -> Any:
    """What a variable holds: a list of numbers may be changed there, or read in other blocks."""
    if not isinstance(value, Listed) or not is_of_one_type(value.items):
        return value
    grows = not value.items or any(method in b.program.code.co_names for method in METHODS)
    if not grows and (b.code.loop >= 0 or not is_read_in_loops(b, name)):
        return value
    made = begun(b, value.items)

    def seen(other: Any) -> Any:
        """What else shows the list shows it still: `a = b = []`."""
        return made if other is value else other

    change = over_items(seen)
    b.state = State([*map(change, b.state.stack)], {n: change(v) for n, v in b.state.locals.items()})
    return made


def is_read_in_loops(b: Blocks, name: str) -> bool:
    return any(name in names_read(b.program.instructions[k]) for k in b.around)


def is_of_one_type(items: Sequence[Any]) -> bool:
    numbers = [numbers_of(item) for item in items]
    return all(found is not None for found in numbers) and len({kinds_of(item) for item in items}) < 2


def numbers_of(item: Any) -> tuple[Scalar, ...] | None:
    numbers = item.items if isinstance(item, Items) else (item,)
    are_real = all(isinstance(x, Scalar) and not is_complex(x.kind) for x in numbers)
    return numbers if numbers and are_real else None


def kinds_of(item: Any) -> tuple[tuple[str, ...], bool]:
    """The types of an item's numbers, and whether it is a tuple."""
    numbers = numbers_of(item)
    if numbers is None:
        raise NoForm("a list of something else than numbers")
    return tuple(x.kind for x in numbers), isinstance(item, Items)


def begun(b: Blocks, items: Sequence[Any]) -> NumberList:
    """A new list of items that have the same types."""
    require(b)
    if b.calls:
        raise NoForm("a list that a function makes")
    used = {name for value in b.values_in_use() for name in lists_in(value)}
    names = (f"list{b.code.instruction}_{k}{b.site}" for k in range(MOST_AT_ONCE))
    name = next((n for n in names if n not in used), None)
    if name is None:
        raise NoForm("many lists that one instruction makes")
    b.code.lists[name] = None
    b.code.line(f"{name}.count = 0;")
    made = NumberList(name, *kinds_of(items[0])) if items else NumberList(name)
    for item in items:
        put(b.code, made, item)
    return made


def repeated(b: Blocks, given: Listed, times: Scalar, fail: Fail) -> NumberList:
    """`[0.0] * n`"""
    if len(given.items) != 1 or numbers_of(given.items[0]) is None:
        raise NoForm("a list of several items that is repeated")
    n = b.code.new("int", as_integer(b.code, times).text)
    b.code.leave_if(f"{n} > {MOST_REPEATED}", fail)
    made = begun(b, ())
    made = NumberList(made.name, *kinds_of(given.items[0]))
    size = made.size
    b.code.line(f"if ({n} > 0 && npc_reserve(&{made.name}, {n} * {size})) goto {b.code.failing()};")
    values = [x.text for x in numbers_of(given.items[0]) or ()]
    texts = made.slots(made.count)
    stores = " ".join(f"{text} = {value};" for text, value in zip(texts, values))
    b.code.line(f"for (; {made.count} < {n}; ++{made.count}) {{ {stores} }}")
    b.code.line(f"fuel -= npc_max({n}, 0);")
    return made


def put(code: ScalarLoops, owner: NumberList, item: Any) -> None:
    n, size = owner.name, owner.size
    code.line(f"if (UNLIKELY(({n}.count + 1) * {size} > {n}.bytes) && npc_grow(&{n}, {n}.count * {size})) goto {code.failing()};")
    for slot, x in zip(owner.slots(owner.count), numbers_of(item) or ()):
        code.line(f"{slot} = {x.text};")
    code.line(f"++{n}.count;")


# --- what is done to them


def place(code: ScalarLoops, owner: NumberList, index: Any, fail: Fail) -> str:
    if isinstance(index, Slice):
        raise NoForm("a part of a list")
    at = as_integer(code, index).text
    found = at if code.integer(at).least >= 0 else code.new("int", f"{at} < 0 ? {at} + {owner.count} : {at}")
    code.leave_if(f"(uint64_t){found} >= (uint64_t){owner.count}", fail)
    return found


def item_at(code: ScalarLoops, owner: NumberList, at: str) -> Any:
    texts = owner.slots(at)
    numbers = tuple(Scalar(kind, code.new(kind, text)) for kind, text in zip(owner.kinds, texts))
    return Items(numbers) if owner.is_of_tuples else numbers[0]


def element(b: Blocks, owner: NumberList, index: Any, fail: Fail) -> Any:
    require(b)
    if not owner.kinds:
        raise NoForm("an item of an empty list")
    return item_at(b.code, owner, place(b.code, owner, index, fail))


def set_element(b: Blocks, owner: NumberList, index: Any, value: Any, fail: Fail) -> None:
    require(b, changes=True)
    if kinds_of(value) != (owner.kinds, owner.is_of_tuples):
        raise NoForm("numbers of several types in a list")
    at = place(b.code, owner, index, fail)
    for slot, x in zip(owner.slots(at), numbers_of(value) or ()):
        b.code.line(f"{slot} = {x.text};")


def call(b: Blocks, owner: NumberList, name: str, arguments: Sequence[Any], fail: Fail) -> Any:
    """A method."""
    require(b, changes=True)
    if name == "append" and len(arguments) == 1:
        append(b, owner, arguments[0])
    elif name == "extend" and len(arguments) == 1 and isinstance(arguments[0], Listed | Items):
        for item in arguments[0].items:
            owner = append(b, owner, item)
    elif name == "clear" and not arguments:
        b.code.line(f"{owner.count} = 0;")
    elif name == "pop" and len(arguments) < 2:
        return popped(b, owner, arguments, fail)
    else:
        raise NoForm(f"{name} of a list")
    return Known(None)


def append(b: Blocks, owner: NumberList, item: Any) -> NumberList:
    kinds = kinds_of(item)
    if not owner.kinds:
        owner, empty = NumberList(owner.name, *kinds), owner
        b.state = replaced(b.state, empty, owner)
    if kinds != (owner.kinds, owner.is_of_tuples):
        raise NoForm("numbers of several types in a list")
    put(b.code, owner, item)
    return owner


def popped(b: Blocks, owner: NumberList, arguments: Sequence[Any], fail: Fail) -> Any:
    if not owner.kinds:
        raise NoForm("an item of an empty list")
    n, code = owner.name, b.code
    if arguments and arguments[0] != Scalar("int", code.constant("int", -1)):
        at = code.new("int", place(code, owner, arguments[0], fail))
        found, size = item_at(code, owner, at), owner.size
        moved = f"{n}.data + {at} * {size}, {n}.data + ({at} + 1) * {size}, ({n}.count - {at} - 1) * {size}"
        code.line(f"__builtin_memmove({moved});")
        code.line(f"--{n}.count;")
        return found
    code.leave_if(f"!{n}.count", fail)
    code.line(f"--{n}.count;")
    return item_at(code, owner, owner.count)


def replaced(state: State, old: NumberList, new: NumberList) -> State:
    """All that is this list has items of a type now."""

    def of(value: Any) -> Any:
        match value:
            case NumberList():
                return new if value == old else value
            case Walk(_, elements):
                return replace(value, elements=change(elements))
            case Together(function, parts):
                return Together(function, tuple(map(change, parts)))
        return value

    change = over_items(of)
    return State([*map(change, state.stack)], {name: change(value) for name, value in state.locals.items()})


# --- functions of lists


def length(code: ScalarLoops, owner: NumberList) -> Scalar:
    return Scalar("int", code.known("int", owner.count, Integer(0, 2**60)))


def function(b: Blocks, called: Any, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    """A function whose first argument is a list."""
    require(b)
    owner = arguments[0]
    value = called.value if isinstance(called, Known) else None
    if value is len and len(arguments) == 1:
        return length(b.code, owner)
    if value in (np.array, np.asarray):
        return array(b.code, owner, arguments, keywords, fail)
    if value in (sum, min, max, any, all) and len(arguments) == 1 and not keywords and not owner.is_of_tuples:
        return folded(b.code, value, owner, fail)
    raise NoForm("a function of a list")


def array(code: ScalarLoops, owner: NumberList, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    kinds = [dtype_of(kind) for kind in owner.kinds] or ["f8"]
    if len(set(kinds)) > 1 or owner.is_of_tuples and np.dtype(kinds[0]).itemsize != 8:
        raise NoForm("an array of tuples of several types")
    kind = creation.dtype_of("array", 1, arguments, keywords, kinds[0])
    if kind not in (kinds[0], "f8"):
        raise NoForm(f"an array of {kind}, of a list of {kinds[0]}")
    n = code.new("int", owner.count)
    if owner.is_of_tuples or not arguments[1:] and not keywords and kind != "f8":
        code.leave_if(f"!{n}", fail)  # then it is another array
    sizes = [n, str(len(kinds))] if owner.is_of_tuples else [n]
    made = arrays.filled(code, kind, sizes, None, fail)
    total = f"{n} * {len(kinds)}"
    c, own = C_OF_KIND[kind], C_OF_KIND[kinds[0]]
    code.line(f"for (int64_t k = 0; k < {total}; ++k) (({c}*){made.data})[k] = (({own}*){owner.name}.data)[k];")
    code.line(f"fuel -= {n};")
    return made


def folded(code: ScalarLoops, called: Callable[..., Any], owner: NumberList, fail: Fail) -> Scalar:
    if not owner.kinds:
        code.leave_if(str(int(called in (min, max))), fail)
        return Scalar("bool" if called in (any, all) else "int", str(int(called is all)))
    (kind,) = owner.kinds
    if kind == "bool" or called is sum and kind == "float" and RUNNING.sums_exactly:
        raise NoForm(f"{called.__name__} of such a list")  # sums of Python's numbers are compensated there
    n = code.new("int", owner.count)
    found = builtin_reductions.folded(code, called.__name__, dtype_of(kind), (f"{owner.name}.data", str(owner.size), n), fail)
    return Scalar(kind, found.text) if found.kind != "bool" else found
