"""What each CPython instruction does to a symbolic frame. Versions differ by rows: one handler serves all its names."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable
from typing import Any

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import FLOAT_ERRORS
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Number
from npcompile.tracer import attributes, calls, loops, operators, unlikely
from npcompile.tracer.analysis import NULL_AFTER_CALLABLE
from npcompile.tracer.capture import Break
from npcompile.tracer.decode import Instruction
from npcompile.tracer.frame import Branch, Frame, Jump, NextItem, Outcome, Return, handles
from npcompile.tracer.values import (
    NULL,
    UNASSIGNED,
    Cell,
    Closure,
    Constant,
    ContextExit,
    ErrorState,
    GradMode,
    Iterator,
    Lazy,
    Mapping,
    Opaque,
    Sequence,
    SliceValue,
    Truth,
)

# --- stack and constants


@handles("RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "EXTENDED_ARG")
def nothing(frame: Frame, i: Instruction) -> None:
    pass


@handles("POP_TOP", "END_FOR")
def pop_top(frame: Frame, i: Instruction) -> None:
    frame.pop_raw()


@handles("PUSH_NULL")
def push_null(frame: Frame, i: Instruction) -> None:
    frame.push(NULL)


@handles("LOAD_CONST")
def load_const(frame: Frame, i: Instruction) -> None:
    frame.push(constant(i.argval))


def constant(value: Any) -> Any:
    return Sequence(tuple, [constant(v) for v in value]) if type(value) is tuple else Constant(value)


@handles("RETURN_CONST")
def return_const(frame: Frame, i: Instruction) -> Return:
    return Return(constant(i.argval))


@handles("RETURN_VALUE")
def return_value(frame: Frame, i: Instruction) -> Return:
    return Return(frame.pop_raw())


@handles("COPY")
def copy(frame: Frame, i: Instruction) -> None:
    frame.push(frame.stack[-i.arg])


@handles("SWAP")
def swap(frame: Frame, i: Instruction) -> None:
    frame.stack[-1], frame.stack[-i.arg] = frame.stack[-i.arg], frame.stack[-1]


# --- variables


@handles("LOAD_FAST", "LOAD_FAST_CHECK")
def load_fast(frame: Frame, i: Instruction) -> None:
    name = i.argval
    assert isinstance(name, str)
    frame.push(frame.cells[name] if name in frame.cells else frame.load(name))  # 3.13 loads cells for closures this way


@handles("LOAD_FAST_LOAD_FAST")
def load_fast_load_fast(frame: Frame, i: Instruction) -> None:
    first, second = i.argval  # type: ignore[misc]
    frame.push(frame.load(first))
    frame.push(frame.load(second))


@handles("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: Frame, i: Instruction) -> None:
    frame.push(frame.locals.pop(i.argval, UNASSIGNED))


@handles("STORE_FAST")
def store_fast(frame: Frame, i: Instruction) -> None:
    frame.locals[i.argval] = frame.pop_raw()  # type: ignore[index]


@handles("STORE_FAST_STORE_FAST")
def store_fast_store_fast(frame: Frame, i: Instruction) -> None:
    first, second = i.argval  # type: ignore[misc]
    frame.locals[first] = frame.pop_raw()
    frame.locals[second] = frame.pop_raw()


@handles("STORE_FAST_LOAD_FAST")
def store_fast_load_fast(frame: Frame, i: Instruction) -> None:
    stored, loaded = i.argval  # type: ignore[misc]
    frame.locals[stored] = frame.pop_raw()
    frame.push(frame.load(loaded))


@handles("DELETE_FAST")
def delete_fast(frame: Frame, i: Instruction) -> None:
    frame.load(i.argval)  # type: ignore[arg-type]
    del frame.locals[i.argval]  # type: ignore[arg-type]


@handles("MAKE_CELL")
def make_cell(frame: Frame, i: Instruction) -> None:
    name = i.argval
    frame.cells[name] = Cell(frame.locals.pop(name, None))  # type: ignore[index,call-overload]


@handles("LOAD_CLOSURE")
def load_closure(frame: Frame, i: Instruction) -> None:
    frame.push(frame.cells[i.argval])  # type: ignore[index]


@handles("LOAD_DEREF")
def load_deref(frame: Frame, i: Instruction) -> None:
    cell = frame.cells[i.argval]  # type: ignore[index]
    if cell.content is None:
        raise Decline(f"free variable {i.argval!r} has no value")
    frame.push(cell.content)


@handles("STORE_DEREF")
def store_deref(frame: Frame, i: Instruction) -> None:
    cell = frame.cells[i.argval]  # type: ignore[index]
    cell.content, cell.is_written = frame.pop_raw(), True


@handles("LOAD_GLOBAL")
def load_global(frame: Frame, i: Instruction) -> None:
    null = [NULL] if i.arg & 1 else []
    value = [global_value(frame, str(i.argval))]
    frame.stack += value + null if NULL_AFTER_CALLABLE else null + value


def global_value(frame: Frame, name: str) -> Any:
    source = frame.globals_source
    if name in frame.globals:
        value = frame.globals[name]
        return Constant(value) if source is None else Lazy(f"{source}[{name!r}]", value)
    if not hasattr(builtins, name):
        raise Decline(f"name {name!r} is not defined")
    if source is not None:
        frame.capture.guard(f"{name!r} not in {source}")
    return Constant(getattr(builtins, name))


# --- operators


@handles("BINARY_OP")
def binary_op(frame: Frame, i: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    symbol = i.argrepr
    if symbol.endswith("="):
        frame.push(operators.inplace(frame.capture, symbol, left, right))
    else:
        frame.push(operators.binary(frame.capture, symbol, left, right))


@handles("COMPARE_OP")
def compare_op(frame: Frame, i: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    symbol = str(i.argval).removeprefix("bool(").removesuffix(")").strip()
    result = operators.compare(frame.capture, symbol, left, right)
    frame.push(operators.truth(frame.capture, result) if i.argrepr.startswith("bool(") else result)


@handles("IS_OP")
def is_op(frame: Frame, i: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(Constant(operators.is_same_object(left, right) != bool(i.arg)))


@handles("CONTAINS_OP")
def contains_op(frame: Frame, i: Instruction) -> None:
    container, item = frame.pop(), frame.pop()
    frame.push(Constant(operators.contains(frame.capture, container, item) != bool(i.arg)))


@handles("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def unary(frame: Frame, i: Instruction) -> None:
    symbol = {"UNARY_NEGATIVE": "-", "UNARY_POSITIVE": "+", "UNARY_INVERT": "~"}[i.opname]
    frame.push(operators.unary(frame.capture, symbol, frame.pop()))


@handles("UNARY_NOT")
def unary_not(frame: Frame, i: Instruction) -> None:
    match operators.truth(frame.capture, frame.pop()):
        case Truth(array, negated):
            frame.push(Truth(array, not negated))
        case Constant(value):
            frame.push(Constant(not value))


@handles("TO_BOOL")
def to_bool(frame: Frame, i: Instruction) -> None:
    frame.push(operators.truth(frame.capture, frame.pop()))


@handles("BINARY_SUBSCR")
def binary_subscr(frame: Frame, i: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    frame.push(operators.getitem(frame.capture, container, key))


@handles("STORE_SUBSCR")
def store_subscr(frame: Frame, i: Instruction) -> None:
    key, container, value = frame.pop(), frame.pop(), frame.pop_raw()
    operators.setitem(frame.capture, container, key, value)


@handles("DELETE_SUBSCR")
def delete_subscr(frame: Frame, i: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    operators.delitem(frame.capture, container, key)


@handles("BINARY_SLICE")
def binary_slice(frame: Frame, i: Instruction) -> None:
    stop, start, container = frame.pop(), frame.pop(), frame.pop()
    frame.push(operators.getitem(frame.capture, container, SliceValue(start, stop, Constant(None))))


@handles("STORE_SLICE")
def store_slice(frame: Frame, i: Instruction) -> None:
    stop, start, container, value = frame.pop(), frame.pop(), frame.pop(), frame.pop_raw()
    operators.setitem(frame.capture, container, SliceValue(start, stop, Constant(None)), value)


# --- building containers and strings


@handles("BUILD_TUPLE", "BUILD_LIST")
def build_sequence(frame: Frame, i: Instruction) -> None:
    frame.push(Sequence(tuple if i.opname == "BUILD_TUPLE" else list, frame.pop_many(i.arg)))


@handles("BUILD_MAP")
def build_map(frame: Frame, i: Instruction) -> None:
    flat = frame.pop_many(2 * i.arg)
    frame.push(Mapping({operators.constant_key(frame.capture, k): v for k, v in zip(flat[::2], flat[1::2])}))


@handles("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, i: Instruction) -> None:
    keys = [operators.constant_key(frame.capture, k) for k in frame.pop().items]
    frame.push(Mapping(dict(zip(keys, frame.pop_many(i.arg)))))


@handles("BUILD_SLICE")
def build_slice(frame: Frame, i: Instruction) -> None:
    parts = frame.pop_many(i.arg)
    frame.push(SliceValue(*parts, *[Constant(None)] * (3 - i.arg)))


def under_construction(frame: Frame, position: int) -> Any:
    """The list or dict that is being built, `position` deep in the stack."""
    container = frame.capture.realize(frame.stack[-position])
    if not isinstance(container, (Sequence, Mapping)) or container.source is not None:
        raise Decline("a container that was begun before the graph")
    return container


@handles("LIST_APPEND")
def list_append(frame: Frame, i: Instruction) -> None:
    value = frame.pop_raw()
    under_construction(frame, i.arg).items.append(value)


@handles("LIST_EXTEND")
def list_extend(frame: Frame, i: Instruction) -> None:
    items = operators.iterate(frame.capture, frame.pop())
    under_construction(frame, i.arg).items.extend(items)


@handles("MAP_ADD")
def map_add(frame: Frame, i: Instruction) -> None:
    value, key = frame.pop_raw(), frame.pop()
    under_construction(frame, i.arg).items[operators.constant_key(frame.capture, key)] = value


@handles("DICT_UPDATE", "DICT_MERGE")
def dict_update(frame: Frame, i: Instruction) -> None:
    source = frame.pop()
    if not isinstance(source, Mapping):
        raise Decline("** of an object that is not a plain dict")
    target = under_construction(frame, i.arg)
    if i.opname == "DICT_MERGE" and target.items.keys() & source.items.keys():
        raise Decline("multiple values for a keyword argument")
    target.items.update(source.items)


@handles("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, i: Instruction) -> None:
    items = operators.iterate(frame.capture, frame.pop(), at_most=i.arg + 1)
    if len(items) != i.arg:
        raise Decline("wrong number of values to unpack")
    frame.stack += reversed(items)


@handles("UNPACK_EX")
def unpack_ex(frame: Frame, i: Instruction) -> None:
    before, after = i.arg & 0xFF, i.arg >> 8
    items = operators.iterate(frame.capture, frame.pop())
    if len(items) < before + after:
        raise Decline("not enough values to unpack")
    middle = Sequence(list, items[before : len(items) - after])
    frame.stack += reversed([*items[:before], middle, *items[len(items) - after :]])


CONVERSIONS: dict[int, Callable[[Any], str]] = {1: str, 2: repr, 3: ascii}


def formatted(frame: Frame) -> Any:
    """The constant to make a string of. What comes from outside is not fixed for that: its text is made natively."""
    value = frame.pop_raw()
    if isinstance(value, (Lazy, Dim, Number)):
        raise Decline("the text of a value that is not constant")
    return calls.plain(frame.capture, value)


@handles("FORMAT_VALUE")
def format_value(frame: Frame, i: Instruction) -> None:
    spec = calls.plain(frame.capture, frame.pop()) if i.arg & 4 else ""
    value = formatted(frame)
    convert = CONVERSIONS.get(i.arg & 3)
    frame.push(calls.evaluate(lambda: format(convert(value) if convert else value, spec)))


@handles("CONVERT_VALUE")
def convert_value(frame: Frame, i: Instruction) -> None:
    value = formatted(frame)
    frame.push(calls.evaluate(lambda: CONVERSIONS[i.arg](value)))


@handles("FORMAT_SIMPLE")
def format_simple(frame: Frame, i: Instruction) -> None:
    value = formatted(frame)
    frame.push(calls.evaluate(lambda: format(value, "")))


@handles("FORMAT_WITH_SPEC")
def format_with_spec(frame: Frame, i: Instruction) -> None:
    spec = calls.plain(frame.capture, frame.pop())
    value = formatted(frame)
    frame.push(calls.evaluate(lambda: format(value, spec)))


@handles("BUILD_STRING")
def build_string(frame: Frame, i: Instruction) -> None:
    parts = frame.pop_many(i.arg)
    if any(isinstance(p, Lazy) for p in parts):
        raise Decline("a string made of parts that are not constant")
    parts = [calls.plain(frame.capture, p) for p in parts]
    frame.push(Constant("".join(parts)))


# --- attributes


@handles("LOAD_ATTR")
def load_attr(frame: Frame, i: Instruction) -> None:
    owner = frame.pop()
    value = attributes.load(frame, owner, str(i.argval))
    if NULL_IN_LOAD_ATTR and i.arg & 1:
        frame.stack += [value, NULL] if NULL_AFTER_CALLABLE else [NULL, value]
    else:
        frame.push(value)


@handles("LOAD_METHOD")
def load_method(frame: Frame, i: Instruction) -> None:
    owner = frame.pop()
    frame.stack += [NULL, attributes.load(frame, owner, str(i.argval))]


@handles("STORE_ATTR")
def store_attr(frame: Frame, i: Instruction) -> None:
    owner, value = frame.pop(), frame.pop()
    attributes.store(frame, owner, str(i.argval), value)


@handles("IMPORT_NAME")
def import_name(frame: Frame, i: Instruction) -> None:
    names, level = frame.pop(), frame.pop()
    frame.push(calls.import_module(frame, str(i.argval), names, level))


@handles("IMPORT_FROM")
def import_from(frame: Frame, i: Instruction) -> None:
    frame.push(attributes.load(frame, frame.capture.realize(frame.stack[-1]), str(i.argval)))


# --- calls


@handles("KW_NAMES")
def kw_names(frame: Frame, i: Instruction) -> None:
    frame.keyword_names = i.argval if isinstance(i.argval, tuple) else frame.program.code.co_consts[i.arg]


@handles("CALL")
def call(frame: Frame, i: Instruction) -> None:
    names, frame.keyword_names = frame.keyword_names, ()
    arguments = frame.pop_many(i.arg)
    positional = arguments[: len(arguments) - len(names)]
    keywords = dict(zip(names, arguments[len(positional) :]))
    finish_call(frame, positional, keywords)


@handles("CALL_KW")
def call_kw(frame: Frame, i: Instruction) -> None:
    names = [operators.constant_key(frame.capture, n) for n in frame.pop().items]
    arguments = frame.pop_many(i.arg)
    positional = arguments[: len(arguments) - len(names)]
    finish_call(frame, positional, dict(zip(names, arguments[len(positional) :])))


def finish_call(frame: Frame, positional: list[Any], keywords: dict[str, Any]) -> None:
    second, first = frame.pop_raw(), frame.pop_raw()
    if NULL_AFTER_CALLABLE:
        callee, own = first, second
    elif first is NULL:
        callee, own = second, NULL
    else:
        callee, own = first, second
    if own is not NULL:
        positional.insert(0, own)
    frame.push(calls.call(frame, frame.capture.realize(callee), positional, keywords))


@handles("CALL_FUNCTION_EX")
def call_function_ex(frame: Frame, i: Instruction) -> None:
    keywords = frame.pop() if i.arg & 1 else Mapping({})
    positional = operators.iterate(frame.capture, frame.pop())
    second = frame.pop_raw()
    callee = second if second is not NULL else frame.pop_raw()
    if second is not NULL and frame.stack and frame.stack[-1] is NULL:
        frame.pop_raw()
    if not isinstance(keywords, Mapping):
        raise Decline("** of an object that is not a plain dict")
    frame.push(calls.call(frame, frame.capture.realize(callee), list(positional), dict(keywords.items)))


@handles("MAKE_FUNCTION")
def make_function(frame: Frame, i: Instruction) -> None:
    code = frame.pop().value
    closure = Closure(code, frame.globals_source or "", frame.globals, qualname=code.co_qualname)
    for flag, slot in ((8, "closure"), (4, "annotations"), (2, "kwdefaults"), (1, "defaults")):
        if MAKE_FUNCTION_HAS_FLAGS and i.arg & flag:
            set_function_part(frame, closure, slot, frame.pop())
    frame.push(closure)


@handles("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(frame: Frame, i: Instruction) -> None:
    closure, part = frame.pop(), frame.pop()
    if not isinstance(closure, Closure):
        raise Decline("a part of a function from outside is set")
    set_function_part(frame, closure, {1: "defaults", 2: "kwdefaults", 4: "annotations", 8: "closure"}[i.arg], part)
    frame.push(closure)


def set_function_part(frame: Frame, closure: Closure, slot: str, part: Any) -> None:
    match slot:
        case "closure":
            closure.cells = [frame.capture.realize(cell) for cell in part.items]
        case "defaults":
            closure.defaults = part
        case "kwdefaults":
            closure.kwdefaults = part
        case "annotations":
            closure.annotations = part


@handles("CALL_INTRINSIC_1")
def call_intrinsic_1(frame: Frame, i: Instruction) -> None:
    if i.arg == 5:  # unary plus
        frame.push(operators.unary(frame.capture, "+", frame.pop()))
    elif i.arg == 6:  # list to tuple
        frame.push(Sequence(tuple, frame.pop().items))
    else:
        raise Decline(f"intrinsic {i.argrepr} is not captured")


@handles("LIST_TO_TUPLE")
def list_to_tuple(frame: Frame, i: Instruction) -> None:
    frame.push(Sequence(tuple, frame.pop().items))


# --- jumps and loops


@handles("JUMP_FORWARD", "JUMP_NO_INTERRUPT")
def jump_forward(frame: Frame, i: Instruction) -> int:
    return i.target


@handles("JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump_backward(frame: Frame, i: Instruction) -> int | Outcome:
    return frame.jump_back(i.target) if is_loop_jump(frame, i) else i.target


def is_loop_jump(frame: Frame, i: Instruction) -> bool:
    """Exception handlers also jump backwards, to where they go on."""
    return i.opname == "JUMP_BACKWARD"


def branch(frame: Frame, i: Instruction, jump_if: bool, keep: bool = False) -> int | Outcome | None:
    """Jump when the top value's truth is `jump_if`; `keep` leaves it on the stack when jumping."""
    value = frame.pop()
    decision = operators.truth(frame.capture, value)
    if isinstance(decision, Truth):
        if any(not (isinstance(n, int) and n == 1) for n in decision.array.shape):
            raise Decline("the truth of an array with more than one element")
        if not keep and (assumed := unlikely.go_on(frame, i, decision, jump_if)) is not None:
            return assumed
        stack = frame.stack.copy()
        jumped = (frame.follow(i.target), [*stack, value] if keep else stack)
        fell = (frame.follow(i.index + 1), stack)
        reason = frame.why(i.index, Decline("a branch on array data", "np.where computes both arms in one graph."))
        assert isinstance(reason, Break)
        return Branch(decision, jumped, fell, reason) if jump_if else Branch(decision, fell, jumped, reason)
    if bool(decision.value) != jump_if:
        return None
    if keep:
        frame.push(value)
    return take(frame, i)


def take(frame: Frame, i: Instruction) -> int | Outcome:
    return frame.jump_back(i.target) if "BACKWARD" in i.opname else i.target


@handles("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE")
def pop_jump_if_true(frame: Frame, i: Instruction) -> int | Outcome | None:
    return branch(frame, i, True)


@handles("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE")
def pop_jump_if_false(frame: Frame, i: Instruction) -> int | Outcome | None:
    return branch(frame, i, False)


@handles("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(frame: Frame, i: Instruction) -> int | Outcome | None:
    return branch(frame, i, True, keep=True)


@handles("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(frame: Frame, i: Instruction) -> int | Outcome | None:
    return branch(frame, i, False, keep=True)


@handles("POP_JUMP_IF_NONE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE")
def pop_jump_if_none(frame: Frame, i: Instruction) -> int | Outcome | None:
    return take(frame, i) if operators.is_same_object(frame.pop(), Constant(None)) else None


@handles("POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE")
def pop_jump_if_not_none(frame: Frame, i: Instruction) -> int | Outcome | None:
    return None if operators.is_same_object(frame.pop(), Constant(None)) else take(frame, i)


@handles("GET_ITER")
def get_iter(frame: Frame, i: Instruction) -> None:
    frame.push(operators.iterator_of(frame.capture, frame.pop()))


# Iterators whose __next__ is C code without user code in it: the generated program may call it.
PLAIN_ITERATORS: tuple[type, ...] = (type(iter(range(0))), type(iter(())), type(iter([])), type(iter({})))


@handles("FOR_ITER")
def for_iter(frame: Frame, i: Instruction) -> int | Outcome | None:
    iterator = frame.capture.realize(frame.stack[-1])
    rolled = frame.capture.decisions.rolled_loops
    if isinstance(iterator, Iterator):
        if frame.parent is None and i.index in rolled:
            return Jump(i.index)
        is_long = (operators.remaining(iterator) or 0) > UNROLLED_ITERATIONS
        if (is_long or iterator.position == 1) and loops.has_gradients(frame) and loops.can_be_node(iterator):
            if iterator.position == 0:
                frame.push(operators.next_item(frame.capture, iterator))
                return None
            if is_long or operators.length_changes(iterator):
                try:
                    loops.capture_loop(frame, i.index, iterator)
                    return frame.program.after_loop(i.index)
                except Decline:
                    if frame.parent is not None:
                        raise
        if is_long or operators.length_changes(iterator):
            frame.roll(i.index)
        item = operators.next_item(frame.capture, iterator)
        if item is None:
            if iterator.kind != "range":
                frame.visits.pop(i.index, None)  # a loop over a container may stand in another
            frame.pop_raw()
            return frame.program.after_loop(i.index)
        frame.push(item)
        return None
    if isinstance(iterator, Opaque) and type(iterator.example) in PLAIN_ITERATORS and frame.parent is None:
        return NextItem(i.index, iterator)
    raise Decline(f"a loop over {type_name(iterator)}")


UNROLLED_ITERATIONS = 16


def type_name(value: Any) -> str:
    match value:
        case Opaque():
            return f"an object of type {type(value.example).__qualname__}"
        case Array() | Dim() | Number():
            return type(value).__name__
        case _:
            return f"a {type(value).__name__}"


# --- generator expressions: all items are computed where the expression stands


@handles("RETURN_GENERATOR")
def return_generator(frame: Frame, i: Instruction) -> None:
    frame.push(Constant(None))


@handles("YIELD_VALUE")
def yield_value(frame: Frame, i: Instruction) -> None:
    frame.yielded.append(frame.pop_raw())
    frame.push(Constant(None))


# --- with


@handles("BEFORE_WITH")
def before_with(frame: Frame, i: Instruction) -> None:
    manager = frame.pop()
    if not isinstance(manager, (ErrorState, GradMode)):
        raise Decline("`with` of an object that is not captured")
    frame.contexts.append((i.index, manager))
    frame.stack += [ContextExit(manager), Constant(None)]
    if isinstance(manager, GradMode):
        manager.before, frame.capture.grad_enabled = frame.capture.grad_enabled, manager.enabled
        return
    manager.before = frame.capture.builder.ignored
    changed = {"all": FLOAT_ERRORS}
    for name, setting in manager.settings.items():
        categories = changed.get(name, frozenset((name,)))
        frame.capture.builder.ignored -= categories
        if setting == "ignore":
            frame.capture.builder.ignored |= categories


@handles("LOAD_ASSERTION_ERROR")
def load_assertion_error(frame: Frame, i: Instruction) -> None:
    frame.push(Constant(AssertionError))


# --- the differences between CPython versions, asked of the interpreter that runs

NULL_IN_LOAD_ATTR = dis.opmap.get("LOAD_METHOD", 256) > 255
MAKE_FUNCTION_HAS_FLAGS = "SET_FUNCTION_ATTRIBUTE" not in dis.opmap
