"""What each instruction does in a native loop."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import NoForm
from npcompile.backends.cpu.loops.value_ranges import Integer
from npcompile.tensor_core.guards import Is
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.native import (
    arrays,
    attributes,
    comprehensions,
    inlining,
    meanings,
    number_lists,
    objects,
    outside,
    trip_counts,
    views,
)
from npcompile.tracer.native.accumulations import is_ordered, updated
from npcompile.tracer.native.blocks import Blocks, Left, Meaning, meaning_of
from npcompile.tracer.native.if_conversion import choose, usual_branch
from npcompile.tracer.native.inlining import inline
from npcompile.tracer.native.nested_code import NestedCode
from npcompile.tracer.native.numbers import OPERATORS, number
from npcompile.tracer.native.objects import truth_of
from npcompile.tracer.native.select import extreme, is_of_several_types
from npcompile.tracer.native.states import number_of_items
from npcompile.tracer.native.types import (
    Bound,
    Elements,
    Generator,
    Items,
    Known,
    Listed,
    Method,
    Nested,
    Null,
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
    can_inline,
)
from npcompile.tracer.native.value_ranges import range_of
from npcompile.tracer.python.attributes import is_library

# --- the stack, constants and variables


def nothing(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    pass


def pop_top(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    arrays.reported(b.code, b.state.stack.pop(), fail)


def copy(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    stack = b.state.stack
    stack[-i.arg] = arrays.settled(b.code, stack[-i.arg], fail)  # it is one array, whatever becomes of both
    b.push(stack[-i.arg])


def swap(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    stack = b.state.stack
    stack[-1], stack[-i.arg] = stack[-i.arg], stack[-1]


def push_null(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    b.push(Null())


def load_const(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    b.push(outside.constant_value(b, i.argval))


def local(b: Blocks, name: str) -> Any:
    if name not in b.state.locals:
        raise NoForm(f"local variable {name!r} may have no value")
    value = b.realize(b.state.locals[name])
    if isinstance(value, Scalar) and value.text in b.code.variables:
        known = b.counters.get(name) if value.kind == "int" else None
        value = Scalar(value.kind, b.code.known(value.kind, value.text, known))  # the variable may be set before this is read
    if isinstance(value, Scalar) and value.kind == "int":
        b.bound(value.text, name)
    return value


def load_fast(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    is_cell = i.argval in b.facts.cells or i.argval in b.facts.free
    b.push(Shared(shared(b, i.argval)) if is_cell else local(b, i.argval))


def stored_value(b: Blocks, name: str, fail: Callable[[], str]) -> Any:
    value = arrays.settled(b.code, b.state.stack.pop(), fail)
    if isinstance(value, Generator | Nested):
        raise NoForm("a function or generator that is kept")
    return number_lists.kept(b, value, name)


def store_fast(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    b.store(i.argval, stored_value(b, i.argval, fail))


def load_deref(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    b.push(shared(b, str(i.argval)))


def shared(b: Blocks, name: str) -> Any:
    return local(b, name) if name in b.own_cells and not b.calls else b.shared_value(name)


def store_deref(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    if i.argval not in b.own_cells or b.calls:
        raise NoForm("a variable of an outer function is set")
    b.store(str(i.argval), stored_value(b, str(i.argval), fail))


def load_global(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    push_callable(b, i, outside.global_value(b, str(i.argval)))


def push_callable(b: Blocks, i: Instruction, value: Any) -> None:
    b.state.stack += [value] if not i.null else [value, Null()] if i.null > 0 else [Null(), value]


def load_attr(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    owner, name = b.pop(), str(i.argval)
    if isinstance(owner, Known) and isinstance(owner.value, types.ModuleType):
        if not hasattr(owner.value, name):
            raise NoForm(f"no attribute {name!r}")
        value = module_attribute(b, owner, name)
    elif isinstance(owner, NumberList) and name in number_lists.METHODS:
        value = Method(owner, name)
    elif isinstance(owner, Outside):
        value = attributes.load(b, owner, name, i.index + 1)
    elif arrays.is_array(owner) and name == "dtype":
        value = views.dtype_of(arrays.reported(b.code, owner, fail), b.guard, b.object_of)
    else:
        value = meanings.attribute(b.code, owner, name, fail)
    push_callable(b, i, value)


def module_attribute(b: Blocks, owner: Known, name: str) -> Any:
    value = getattr(owner.value, name)
    if name not in vars(owner.value) or not is_library(owner.value.__name__):
        return b.realize(Outside(owner.source.attribute(name), value))
    # Guards on what dictionaries have are one native question. Python is slow to find attributes of modules with __getattr__.
    constant = b.object_of(value)
    b.guard(Is(b.object_of(vars(owner.value)).item(name), constant))
    return b.realize(Outside(constant, value))


def binary_op(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    right, left = b.pop(), b.pop()
    sign = i.argval.removesuffix("=")
    if sign == "*" and isinstance(left, Listed) and isinstance(right, Scalar):
        b.push(number_lists.repeated(b, left, right, fail))
    elif sign not in (*OPERATORS, "@"):
        raise NoForm(f"operator {sign}")
    elif is_ordered([left, right]):
        b.push(updated([left, right], lambda code, operands, fail: meanings.binary(code, sign, operands[0], operands[1], fail)))
    elif i.argval.endswith("=") and arrays.is_array(left):
        b.state.stack += [left, right]  # they stay on the stack of what has to be computed before
        b.settle(fail, below=2)
        del b.state.stack[-2:]
        b.push(meanings.in_place(b.code, sign, left, right, fail))
        b.note_write()
    else:
        b.push(meanings.binary(b.code, sign, left, right, fail))


def compare_op(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    right, left = b.pop(), b.pop()
    b.push(objects.compared(b, i.argval, left, right, fail))


def unary(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    b.push((meanings.negative if i.traits.sign == "-" else meanings.invert)(b.code, b.pop(), fail))


def truth(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    found = truth_of(b, b.pop())
    b.push(objects.inverted(b, found) if i.traits.operator == "not" else Scalar("bool", found))


def build_tuple(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    items = [arrays.settled(b.code, b.pop(), fail) for _ in range(i.arg)]  # they may be read more than once
    b.push(Items(tuple(reversed(items))))


def build_list(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    items = [arrays.settled(b.code, b.pop(), fail) for _ in range(i.arg)]
    is_begun = isinstance(b, NestedCode) and not items
    b.push(number_lists.begun(b, ()) if is_begun else listed(items[::-1]))


def list_extend(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    more, given = b.pop(), b.state.stack[-i.arg]
    if not isinstance(given, Listed) or not isinstance(more, Items):
        raise NoForm("a list that becomes longer")
    b.state.stack[-i.arg] = listed([*given.items, *more.items])


def listed(values: Sequence[Any]) -> Listed:
    """A list of numbers, of arrays, or of lists and tuples of these."""
    if not all(isinstance(x, Scalar | Items | Listed | Elements | Part) for x in values):
        raise NoForm("a list of something else than numbers and arrays")
    return Listed(tuple(values))


def unpack_sequence(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    value = b.pop()
    if arrays.is_array(value):
        value = unpacked(b, value, int(i.arg), fail)
    if not isinstance(value, Items) or len(value.items) != i.arg:
        raise NoForm("unpacking")
    b.state.stack += reversed(value.items)


def unpacked(b: Blocks, owner: Any, count: int, fail: Callable[[], str]) -> Items:
    """The elements, or rows, of an array that has so many."""
    owner = arrays.settled(b.code, owner, fail)
    size = meanings.shape(owner).items[0]
    b.code.leave_if(f"{size.text} != {count}", fail)
    places = [Scalar("int", b.code.constant("int", k)) for k in range(count)]
    return Items(tuple(meanings.element(b.code, owner, place, fail) for place in places))


def binary_subscr(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    key, container = b.pop(), b.pop()
    b.note_within(i, container, key)
    if isinstance(container, NumberList):
        b.push(number_lists.element(b, container, key, fail))
    elif isinstance(container, Outside):
        b.push(objects.item_of_dict(b, container, key))
    else:
        b.push(meanings.element(b.code, container, key, fail))


def build_slice(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    parts = [b.pop() for _ in range(i.arg)][::-1]
    b.push(slice_of(parts))


def slice_of(parts: Sequence[Any]) -> Slice:
    def part(value: Any) -> Scalar | None:
        if isinstance(value, Known) and value.value is None:
            return None
        return number(value)

    start, stop, *step = map(part, parts)
    return Slice(start, stop, step[0] if step else None)


def binary_slice(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    stop, start, container = b.pop(), b.pop(), b.pop()
    b.push(meanings.element(b.code, container, slice_of([start, stop]), fail))


def store_slice(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    b.settle(fail, below=4)
    stop, start, container, value = b.pop(), b.pop(), b.pop(), b.pop()
    meanings.set_element(b.code, container, slice_of([start, stop]), value, fail)
    b.note_write()


def store_subscr(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    b.settle(fail, below=3)
    key, container, value = b.pop(), b.pop(), b.pop()
    b.note_within(i, container, key)
    if isinstance(container, NumberList):
        number_lists.set_element(b, container, key, value, fail)
        return
    meanings.set_element(b.code, container, key, value, fail)
    b.note_write()


def call(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    names = i.argval
    arguments = [b.pop() for _ in range(i.arg)][::-1]
    second, first = b.pop(), b.pop()
    function, null = (second, first) if isinstance(first, Null) else (first, second)
    if isinstance(first, Nested) and not isinstance(second, Null):  # its argument is where methods have their object
        function, arguments = first, [iterator_of(b, second, f"it{len(b.state.stack)}_{i.index}{b.suffix}"), *arguments]
    elif not isinstance(null, Null):
        raise NoForm("a call of a method")
    if isinstance(function, Bound):
        arguments, function = [function.owner, *arguments], function.function
    positional = arguments[: len(arguments) - len(names)]
    keywords = dict(zip(names, arguments[len(positional) :]))
    if is_ordered(arguments):
        if keywords or isinstance(function, Known) and can_inline(function.value):
            raise NoForm("a sum that a function is given")
        b.push(updated(positional, lambda code, operands, fail: meanings.call(code, function, operands, {}, fail)))
    elif isinstance(function, Known) and can_inline(function.value):
        b.push(inline(b, function, positional, keywords, i.index + 1))
    elif isinstance(function, Nested) or positional and isinstance(positional[0], Generator):
        b.push(comprehensions.call(b, function, positional, keywords, i.index + 1, fail))
    elif isinstance(function, Method) and isinstance(function.owner, NumberList):
        b.push(number_lists.call(b, function.owner, function.name, arguments, fail))
    elif positional and isinstance(positional[0], NumberList):
        b.push(number_lists.function(b, function, positional, keywords, fail))
    elif not keywords and is_of_several_types(function, positional):
        b.push(extreme(b, function, positional, i.index + 1, fail))
    else:
        b.push(meanings.call(b.code, function, positional, keywords, fail))


# --- jumps and loops


def jump(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    b.go(i.target)
    raise Left


def branch(b: Blocks, i: Instruction, fail: Callable[[], str]) -> int | None:
    truth, taken_if = truth_of(b, b.pop()), i.traits.flow == "if true"
    if truth in objects.KNOWN:
        objects.jump_if(b, i, (truth == "1") == taken_if)
    end = choose(b, i, truth, taken_if)
    if end is None:
        condition, is_usual = truth if taken_if else f"!{truth}", usual_branch(b, i, truth)
        b.branch(condition, i.target, (lambda: b.code.line("NO_CHOICE;")) if is_usual is False else None)
        if is_usual is not None:
            b.code.lines += ["NO_CHOICE;"] * is_usual
            b.noted("if-conversion", i.index, "each iteration would wait for the one before it", "branch")
    return end


def get_iter(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    value = b.pop()
    b.push(iterator_of(b, value, f"it{len(b.state.stack)}_{i.index}{b.suffix}", i.index + 1))
    if b.inside is not None and i.index + 1 in b.inside.widened:
        b.code.line(f"if (UNLIKELY(!({has_next(b.state.stack[-1])}))) goto undo;")


def iterator_of(b: Blocks, value: Any, name: str, header: int = -1) -> Any:
    if isinstance(value, Steps | Walk | Together):
        return value
    if isinstance(value, Items):
        value = as_range(value)
    if isinstance(value, Span):
        made = Steps(name, known_step(value.step))
        starts, ends = b.code.variable(made.next, "int"), b.code.variable(made.stop, "int")
        b.code.set(starts, value.start.text)
        b.code.set(b.code.variable(made.start, "int"), starts)
        if made.step is None:
            b.code.set(b.code.variable(made.by, "int"), value.step.text)
            b.code.set(ends, f"npc_range_end({starts}, {value.stop.text}, {made.by})")
        else:
            b.code.set(ends, value.stop.text)
        trip_counts.note(b, header, value, made.step)
        if b.inside is not None:
            b.code.line(f"if (UNLIKELY((turns += npc_max({ends} - {starts}, {starts} - {ends})) >= POLL)) goto undo;")
            b.inside.strip.begin_inner(made.next, b.code.integer(value.start.text), b.code.integer(value.stop.text), made.step)
        elif b.apart is not None:
            b.apart.begin(b.code, made, value.start.text)
        return made
    if isinstance(value, NumberList) or isinstance(value, Elements | Part) and arrays.part_of(value).ndim:
        walk = Walk(name, value)
        b.code.set(b.code.variable(walk.next, "int"), "0")
        return walk
    if isinstance(value, Tied) and value.function.value is reversed:
        return iterator_of(b, backwards(b, value.items[0]), name)
    if isinstance(value, Tied):
        return Together(value.function, tuple(iterator_of(b, x, f"{name}_{k}") for k, x in enumerate(value.items)))
    raise NoForm(f"a loop over {type(value).__name__}")


def as_range(value: Items) -> Span:
    """The range that has the same items as a tuple of constants: who goes over it sees no difference."""
    are_ints = all(isinstance(item, Scalar) and item.kind == "int" for item in value.items)
    made = range_of([arrays.known(arrays.integer_text(item)) for item in value.items]) if are_ints else None
    if made is None:
        raise NoForm("a loop over a tuple that is not a range")
    return Span(*(Scalar("int", f"INT64_C({part})") for part in (made.start, made.stop, made.step)))


def backwards(b: Blocks, value: Any) -> Span | Part:
    """What reversed() goes over: as a range, or a view."""
    if not isinstance(value, Span):
        last_first = Slice(None, None, Scalar("int", b.code.constant("int", -1)))
        return arrays.view(b.code, arrays.part_of(value), last_first, b.fail())
    start, stop, step = (x.text for x in (value.start, value.stop, value.step))
    amount = known_step(value.step)
    end = stop if amount in (1, -1) else b.code.new("int", f"npc_range_end({start}, {stop}, {step})")
    by = Scalar("int", b.code.new("int", f"-{step}") if amount is None else b.code.constant("int", -amount))
    first, behind = (Scalar("int", b.code.new("int", f"{x} - {step}")) for x in (end, start))
    return Span(first, behind, by)


def known_step(step: Scalar) -> int | None:
    amount = arrays.known(arrays.integer_text(step))
    return amount if amount is not None and abs(amount) < 2**31 else None


def for_iter(b: Blocks, i: Instruction, fail: Callable[[], str]) -> None:
    iterator = b.state.stack[-1]
    if b.inside is not None and i.index == b.inside.header:
        b.push(next_item(b, iterator, fail))  # that there is one is tested before the strip, and iterators are set after it
        return
    if b.inside is not None and not isinstance(iterator, Steps):
        raise NoForm("a strip with a loop inside that goes over no range")
    going = has_next(iterator)
    if b.apart is not None and b.apart.header == i.index:
        b.code.line(f"if (!({going})) goto done;")
        b.push(next_item(b, iterator, fail))
        advance(b, iterator)
        return
    inside = b.state.copy()
    b.state.stack.pop()
    b.code.line(f"if (!({going})) {{")
    if isinstance(iterator, Together):
        take_from_the_first(b, iterator)
    b.go(i.target)
    b.code.line("}")
    b.state = inside
    b.push(next_item(b, iterator, fail))
    advance(b, iterator)


def take_from_the_first(b: Blocks, iterator: Together) -> None:
    """zip() has taken an item of each iterator in front of the one that has no more."""
    if iterator.function.value is zip:
        for part in iterator.parts[:-1]:
            b.code.line(f"if ({has_next(part)}) {{")
            advance(b, part)
        b.code.line("}" * (len(iterator.parts) - 1))


def has_next(iterator: Any) -> str:
    if isinstance(iterator, Steps):
        sign = "!=" if iterator.step is None else "<" if iterator.step > 0 else ">"
        return f"{iterator.next} {sign} {iterator.stop}"
    if isinstance(iterator, Walk):
        return f"{iterator.next} < {number_of_items(iterator.elements)}"
    if isinstance(iterator, Together):
        return " && ".join(f"({has_next(part)})" for part in iterator.parts)
    raise NoForm("a loop over something else")


def next_item(b: Blocks, iterator: Any, fail: Callable[[], str]) -> Any:
    if isinstance(iterator, Together):
        return Items(tuple(next_item(b, part, fail) for part in iterator.parts))
    if b.inside is None:
        place = b.code.known("int", iterator.next, Integer(0 if isinstance(iterator, Walk) else -(2**62), 2**62))
        if b.apart is not None:
            b.apart.item(b.code, iterator.next, place)
    elif isinstance(iterator, Steps) and all(w.first != iterator.next for w in b.inside.strip.ways):
        place = b.code.new("int", iterator.next)
        b.code.integers[place] = b.inside.strip.inner_item(iterator.next)
    else:
        (way,) = (w for w in b.inside.strip.ways if w.first == iterator.next)
        place = way.place = b.code.new("int", f"{iterator.next} + k * {way.step}")
        b.code.integers[place] = Integer(-(2**62), 2**62, ((place, 1),))
    if iterator is b.state.stack[-1] and isinstance(iterator, Steps):
        b.bound(place)
    if isinstance(iterator, Walk) and isinstance(iterator.elements, NumberList):
        return number_lists.element(b, iterator.elements, Scalar("int", place), fail)
    if isinstance(iterator, Walk):
        return meanings.element(b.code, iterator.elements, Scalar("int", place), fail)
    return Scalar("int", place)


def advance(b: Blocks, iterator: Any) -> None:
    if isinstance(iterator, Together):
        for part in iterator.parts:
            advance(b, part)
    else:
        b.code.line(f"{iterator.next} += {iterator.by if isinstance(iterator, Steps) else 1};")


MEANINGS: Final[Mapping[str, Meaning]] = {
    **dict.fromkeys(("NOP", "RESUME"), nothing),
    "POP_TOP": pop_top,
    "COPY": copy,
    "SWAP": swap,
    **dict.fromkeys(("PUSH_NULL", "RETURN_GENERATOR"), push_null),  # a generator begins with what is sent to it, which it pops
    "LOAD_CONST": load_const,
    "LOAD_FAST": load_fast,
    "STORE_FAST": store_fast,
    "LOAD_DEREF": load_deref,
    "STORE_DEREF": store_deref,
    "LOAD_GLOBAL": load_global,
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD"), load_attr),
    "BINARY_OP": binary_op,
    "COMPARE_OP": compare_op,
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_INVERT"), unary),
    **dict.fromkeys(("UNARY_NOT", "TO_BOOL"), truth),
    "BUILD_TUPLE": build_tuple,
    "BUILD_LIST": build_list,
    "LIST_EXTEND": list_extend,
    "UNPACK_SEQUENCE": unpack_sequence,
    "BINARY_SUBSCR": binary_subscr,
    "BUILD_SLICE": build_slice,
    "BINARY_SLICE": binary_slice,
    "STORE_SLICE": store_slice,
    "STORE_SUBSCR": store_subscr,
    **dict.fromkeys(("CALL", "CALL_KW"), call),
    **dict.fromkeys(("JUMP", "JUMP_BACKWARD"), jump),
    **dict.fromkeys(("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"), branch),
    "GET_ITER": get_iter,
    "FOR_ITER": for_iter,
    "STORE_ATTR": attributes.store_attr,
    "MAKE_FUNCTION": comprehensions.make_function,
    "LIST_APPEND": comprehensions.list_append,
    "YIELD_VALUE": comprehensions.yield_value,
    "RETURN_VALUE": inlining.return_value,
    "IS_OP": objects.is_op,
    **dict.fromkeys(("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"), objects.branch),
    "CONTAINS_OP": objects.contains_op,
}


@meaning_of.defined
def meaning(i: Instruction) -> Meaning | None:
    return MEANINGS.get(i.opname)
