"""The front end: canonical instructions, one after another, become blocks of the loop IR (dis documents them).

A block is made for each instruction that is jumped to and for each version of the frame there. What the front end does not know
raises Unsupported with the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import TypeAlias

import numpy as np

from npcompile.tensor_core.loop_ir.ops import Branch, Cfg, FrameState, Policy, Program, Return
from npcompile.tensor_core.loop_ir.types import Kind, List
from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.loop_ir import calls, control, inlining, iteration, leaving, lists, objects, operators, statements, tuples
from npcompile.tracer.loop_ir.abstract import (
    Abstract,
    Closure,
    EnteredErrorState,
    Iterating,
    Known,
    Mark,
    Method,
    NewErrorState,
    Partial,
    Pending,
    Range,
    Record,
    Rest,
    Seen,
    Slice,
    Tuple,
    Unsupported,
    Value,
    recipe_of,
)
from npcompile.tracer.loop_ir.arguments import held_on, taken
from npcompile.tracer.loop_ir.builder import Begun, Builder, Tail
from npcompile.tracer.loop_ir.sources import CellContents, GlobalName, Same, Source

NULL = Known(Mark.NULL)


@dataclass(frozen=True, slots=True)
class Traced:
    """A program for arguments of some types, and while names stand for what they stood for."""

    program: Program
    guards: tuple[Same, ...]
    inputs: tuple[Source, ...]  # what its last params are: numbers and arrays from outside
    has_arrays: bool = False  # are there statements about whole arrays in loops?
    has_products: bool = False  # of matrices?
    has_element_loops: bool = False  # are there innermost loops of its own without such statements?
    has_loops: bool = True  # other ones than over items that are known?
    has_new_forms: bool = False  # is there, in loops, what no other compiler has a form for?
    tails: tuple[Tail, ...] = ()  # where Python goes on after it


@dataclass(frozen=True, slots=True)
class Beginning:
    """A loop that a program begins at. The arguments are its iterator, if it has one, and variables of these names."""

    index: int
    held: int  # of what is on the stack below, which no loop uses: if there is something, one that aborts ends after the loop
    has_iterator: bool
    names: tuple[str, ...]


class Outside(Exception):
    """A number or an array from outside is read: it becomes one more param."""

    def __init__(self, source: Source):
        super().__init__(source.name)
        self.source = source


def trace(
    function: FunctionType,
    arguments: Sequence[object],
    policy: Policy = Policy.RESUME,
    merges: bool = False,
    is_exact: bool = False,
    with_statements: bool = True,
    of_state: bool = False,
    goes_on: bool = False,
    at: Beginning | None = None,
) -> Traced:
    """The loop IR of `function` for positional arguments of these types, in the stage of blocks. Raises Unsupported.

    A program that aborts may call functions and read numbers and arrays from outside. `merges`: a float is NumPy's wherever
    control comes from several places. `is_exact`: with NumPy's bits in sums and powers too, where that has a program.
    `with_statements`: also those about whole arrays. `of_state`: there is an argument for each parameter, also for those after
    stars, and tuples and lists may be handed on. `goes_on`: it may end after the loops, as one that does not abort does.
    `at`: where it begins, if not at the function's start.

    >>> trace(lambda x, i: x[i] * 2.0, (np.ones(3), 1)).program.params
    [Param(value=0, slot=0), Param(value=1, slot=1)]
    """
    parameters = Parameters.of(function.__code__)
    if at is None and len(arguments) != len(parameters.names) or not (of_state or parameters.are_positional):
        raise Unsupported("another number of arguments than of parameters")
    front = FrontEnd(function, policy, merges, is_exact, with_statements, of_state, goes_on, at)
    front.ends_early = at is not None and at.held > 0
    while True:
        try:
            return front.trace(arguments)
        except lists.OtherElement as error:
            if front.element is error.element:
                raise Unsupported(error.reason, error.line) from None
            front = replace(front, element=error.element)
        except Outside as found:
            front = replace(front, inputs=(*front.inputs, found.source))
        except leaving.EndsBefore:
            front = replace(front, ends_early=True)


@dataclass(slots=True)
class FrontEnd:
    function: FunctionType
    policy: Policy
    merges: bool
    is_exact: bool
    with_statements: bool
    of_state: bool
    goes_on: bool
    at: Beginning | None
    element: Kind = Kind.INT  # of lists: what is appended says it, after they are made
    inputs: tuple[Source, ...] = ()
    ends_early: bool = False  # where it may end after the loops, at the first block there?
    is_done: bool = False  # has the block its terminator?
    is_elsewhere: bool = False  # does another frame go on, where it stands?

    def trace(self, arguments: Sequence[object]) -> Traced:
        code = self.function.__code__
        entry = inlining.frame_of(self.function, self.policy is Policy.ABORT)
        program = Program(code.co_name, code.co_filename, policy=self.policy)
        b = Builder(program, entry, is_exact=self.is_exact, with_statements=self.with_statements, merges=self.merges)
        b.hands_on, b.goes_on = self.of_state and b.aborts, self.goes_on and not code.co_cellvars
        if self.at is not None:
            entry.index, arguments, b.loop = self.at.index, [*arguments], loop_region(entry.facts, self.at.index)
            b.held = self.at.held
            entry.stack += [NULL if b.aborts else held_on(b) for _ in range(b.held)]
            entry.stack += [iteration.begun(b, arguments.pop(0))] * self.at.has_iterator
        slots = range(len(arguments)) if self.at is None else map(entry.facts.slots.index, self.at.names)
        for slot, argument in zip(slots, arguments):
            entry.locals[slot] = taken(b, argument, entry.facts.slots[slot], slot)
        for k, source in enumerate(self.inputs):
            entry.locals[-1 - k] = taken(b, source.read(), source.name, None)
        b.block.label = b.program.new_label()
        b.blocks.append(b.block)
        if b.aborts:
            b.start = b.program.new_state()
            b.emit(FrameState(b.start, 0, [], []))
        if self.at is None:
            b.pending.append(Begun(b.block, entry))
        else:
            b.jump(self.at.index)
        while b.pending:
            begun = b.pending.pop(0)
            b.block, b.frame = begun.block, begun.frame
            try:
                self.translate(b)
            except lists.OtherElement:
                raise
            except Unsupported as error:
                *_, own = b.frame.chain()
                if b.goes_on and not self.ends_early and leaving.is_behind(b, own):
                    raise leaving.EndsBefore from None
                raise Unsupported(error.reason, error.line or b.at.line) from None
        b.program.body = [Cfg(b.blocks)]
        said = b.has_arrays, b.has_products, b.has_element_loops(entry.facts), b.has_loops, b.has_new_forms, tuple(b.tails)
        return Traced(b.program, tuple(b.names.values()), self.inputs, *said)

    def translate(self, b: Builder) -> None:
        """Instructions from where the frame is to the end of the block."""
        b.flagged, b.constants, b.statement, b.views, self.is_done = False, {}, None, {}, False
        is_first, beginning = True, None
        if not b.aborts:
            b.begin_point(b.frame.index)
        while not self.is_done:
            index = b.frame.index
            i = b.facts.instructions[index]
            b.at = control.place_of(b.frame)
            if not is_first and index in b.facts.jump_targets:
                b.jump(index)
                return
            if is_first:
                beginning = leaving.begun(b)
            is_raise = is_first and leaving.leads_to_raise(b)
            if beginning is not None and (is_raise or is_first and self.ends_early):
                leaving.end(b, beginning)
                return
            if is_raise or is_first and leaving.is_left_behind(b):
                b.leave()
                return
            if is_first and index in b.facts.loop_headers and i.opname != "FOR_ITER":
                b.has_loops = True
                b.poll()
            is_first = False
            self.is_elsewhere = False
            if not leaving.attempted(b, partial(self.instruction, b, i), beginning):
                return
            if not self.is_elsewhere:
                b.frame.index = index + 1

    def instruction(self, b: Builder, i: Instruction) -> None:
        rule = RULES.get(i.opname)
        if rule is None:
            raise Unsupported(f"the instruction {i.opname}")
        if b.statement is not None and i.opname not in LEAVE_PENDING:
            b.statement.compute_all()
        rule(self, b, i)

    def push_outside(self, b: Builder, i: Instruction, source: Source) -> None:
        """What a name from outside stands for: an object that is the same, a constant, or a param."""
        for k, known in enumerate(self.inputs):
            if known.key == source.key:
                *_, outermost = b.frame.chain()
                b.frame.stack.append(outermost.locals[-1 - k])
                return
        found = source.read()
        if isinstance(found, float | np.ndarray | np.generic) and b.aborts:
            raise Outside(source)
        if isinstance(found, ModuleType) or callable(found):
            push_callable(b, i, Known(b.read(source)))  # type: ignore[arg-type]
            return
        if not b.aborts:
            raise Unsupported(f"the global {source.name}")
        b.frame.stack.append(calls.constant(b, b.read(source)))


# What takes arrays whose elements are not computed yet from the stack, or puts something on it.
LEAVE_PENDING = frozenset((
    *("BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_INVERT"),
    *("BINARY_SUBSCR", "BINARY_SLICE", "STORE_SUBSCR", "STORE_SLICE"),
    *("LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD", "CALL", "CALL_KW"),
    *("PUSH_NULL", "COPY", "SWAP", "BUILD_SLICE", "BUILD_TUPLE", "NOP"),
))  # fmt: skip
Rule: TypeAlias = Callable[[FrontEnd, Builder, Instruction], None]
RULES: dict[str, Rule] = {}


def handles(*names: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return add


def numbers_of(*parts: Abstract) -> list[int]:
    return [calls.value_of(x) for x in parts]


# --- variables, constants, the stack


@handles("RESUME", "NOP", "COPY_FREE_VARS")
def nothing(front: FrontEnd, b: Builder, i: Instruction) -> None:
    pass


@handles("LOAD_FAST")
def load_fast(front: FrontEnd, b: Builder, i: Instruction) -> None:
    if i.argval in b.facts.cells or i.argval in b.facts.free:
        b.frame.stack.append(inlining.cell_of(b.frame, i.argval))  # the variable itself, for a function inside
        return
    found = b.frame.locals.get(i.arg)
    if found is None and b.aborts:  # Python raises an error here
        b.leave()
        front.is_done = True
        return
    if found is None:
        raise Unsupported(f"the variable {i.argval}, which may be unbound")
    if isinstance(found, Tuple) and found.given is not None and not found.is_list:
        b.note_new_form()
    b.frame.stack.append(found)


@handles("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(front: FrontEnd, b: Builder, i: Instruction) -> None:
    """A comprehension begins whose variable the function may have too."""
    b.frame.stack.append(b.frame.locals.pop(i.arg, NULL))


@handles("STORE_FAST")
def store_fast(front: FrontEnd, b: Builder, i: Instruction) -> None:
    if b.frame.stack[-1] == NULL:
        b.frame.stack.pop()
        b.frame.locals.pop(i.arg, None)
        return
    x = b.frame.locals[i.arg] = b.frame.stack.pop()
    if isinstance(x, Value) and x.value not in b.program.names:
        b.program.names[x.value] = i.argval


@handles("DELETE_FAST")
def delete_fast(front: FrontEnd, b: Builder, i: Instruction) -> None:
    del b.frame.locals[i.arg]


@handles("LOAD_CONST")
def load_const(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack.append(Known(i.argval) if isinstance(i.argval, CodeType) else calls.constant(b, i.argval))


@handles("LOAD_GLOBAL")
def load_global(front: FrontEnd, b: Builder, i: Instruction) -> None:
    front.push_outside(b, i, GlobalName(b.frame.function.__globals__, i.argval))


@handles("LOAD_DEREF")
def load_deref(front: FrontEnd, b: Builder, i: Instruction) -> None:
    cell = inlining.cell_of(b.frame, i.argval)
    if isinstance(cell.where, int):
        b.frame.stack.append(inlining.content(b.frame, cell))
    else:
        front.push_outside(b, i, CellContents(cell.where, i.argval))


@handles("STORE_DEREF")
def store_deref(front: FrontEnd, b: Builder, i: Instruction) -> None:
    inlining.set_content(b.frame, i.argval, b.frame.stack.pop())


@handles("MAKE_FUNCTION")
def make_function(front: FrontEnd, b: Builder, i: Instruction) -> None:
    stack = b.frame.stack
    code = stack.pop()
    cells = stack.pop() if i.arg & 8 else Tuple(())
    defaults = stack.pop() if i.arg & 1 else Tuple(())
    if not b.aborts or i.arg & ~9 or not isinstance(code, Known) or not isinstance(code.named, CodeType):
        raise Unsupported("a function that is made")
    if not isinstance(cells, Tuple) or not isinstance(defaults, Tuple):
        raise Unsupported("a function with defaults that are not known")
    stack.append(inlining.made(b, code.named, cells.items, defaults.items))


def push_callable(b: Builder, i: Instruction, x: Abstract) -> None:
    """Push an object, with a NULL above or below it where the instruction says so."""
    b.frame.stack += {0: [x], 1: [x, NULL], -1: [NULL, x]}[i.null]


@handles("PUSH_NULL")
def push_null(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack.append(NULL)


@handles("POP_TOP")
def pop_top(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack.pop()


@handles("COPY")
def copy(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack.append(b.frame.stack[-i.arg])


@handles("SWAP")
def swap(front: FrontEnd, b: Builder, i: Instruction) -> None:
    stack = b.frame.stack
    stack[-1], stack[-i.arg] = stack[-i.arg], stack[-1]


# --- tuples, lists, slices


@handles("BUILD_TUPLE")
def build_tuple(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack[len(b.frame.stack) - i.arg :] = [Tuple(tuple(b.frame.stack[len(b.frame.stack) - i.arg :]))]


@handles("UNPACK_SEQUENCE")
def unpack_sequence(front: FrontEnd, b: Builder, i: Instruction) -> None:
    x = b.frame.stack.pop()
    b.frame.stack += reversed(iteration.items_of(b, x, i.arg))


@handles("BUILD_LIST")
def build_list(front: FrontEnd, b: Builder, i: Instruction) -> None:
    items = b.frame.stack[len(b.frame.stack) - i.arg :]
    del b.frame.stack[len(b.frame.stack) - i.arg :]
    if items and not b.aborts:
        lists.push_list(b, items)
    else:
        b.frame.stack.append(Tuple(tuple(items), True) if items else lists.new_list(b, front.element))


@handles("LIST_EXTEND")
def list_extend(front: FrontEnd, b: Builder, i: Instruction) -> None:
    items = b.frame.stack.pop()
    if not b.aborts or not isinstance(items, Tuple) or i.arg != 1:
        raise Unsupported("a list that is made of another object")
    before = b.frame.stack[-1]
    b.frame.stack[-1] = Tuple((*(before.items if isinstance(before, Tuple) else ()), *items.items), True)  # else it is empty


@handles("LIST_APPEND")
def list_append(front: FrontEnd, b: Builder, i: Instruction) -> None:
    """Of a comprehension, or of what stands after a star, in a tuple or a list."""
    item, before = b.frame.stack.pop(), b.frame.stack[-i.arg]
    if b.aborts and is_list(b, before):
        lists.append(b, calls.value_of(before), calls.value_of(item))
    elif b.aborts and isinstance(before, Tuple) and i.arg == 1:
        b.frame.stack[-1] = Tuple((*before.items, item), True)
    else:
        raise Unsupported("a list that is made of another object")


@handles("LIST_TO_TUPLE")
def list_to_tuple(front: FrontEnd, b: Builder, i: Instruction) -> None:
    items = b.frame.stack[-1]
    if not isinstance(items, Tuple):
        raise Unsupported("a tuple of a list that grows")
    b.frame.stack[-1] = replace(items, is_list=False)


@handles("BUILD_MAP")
def build_map(front: FrontEnd, b: Builder, i: Instruction) -> None:
    given = b.frame.stack[len(b.frame.stack) - 2 * i.arg :]
    b.frame.stack[len(b.frame.stack) - 2 * i.arg :] = [tuples.record_of(given[::2], given[1::2])]


@handles("BUILD_CONST_KEY_MAP")
def build_const_key_map(front: FrontEnd, b: Builder, i: Instruction) -> None:
    keys = b.frame.stack.pop()
    assert isinstance(keys, Tuple), keys
    b.frame.stack[len(b.frame.stack) - i.arg :] = [tuples.record_of(keys.items, b.frame.stack[len(b.frame.stack) - i.arg :])]


@handles("DICT_MERGE")
def dict_merge(front: FrontEnd, b: Builder, i: Instruction) -> None:
    x = b.frame.stack.pop()
    b.frame.stack[-1] = tuples.merged(b.frame.stack[-1], x)


@handles("BUILD_SLICE")
def build_slice(front: FrontEnd, b: Builder, i: Instruction) -> None:
    step = numbers_of(b.frame.stack.pop())[0] if i.arg == 3 else None
    make_slice(b, 1 if step is None else b.constants.get(step))


def make_slice(b: Builder, step: object = 1) -> None:
    last, first = b.frame.stack.pop(), b.frame.stack.pop()
    if not isinstance(step, int) or not step:
        raise Unsupported("a slice with a step that is not constant")
    start, stop = (None if x == Known(None) else x for x in (first, last))
    b.frame.stack.append(Slice(start, stop, step))


@handles("BINARY_SLICE")
def binary_slice(front: FrontEnd, b: Builder, i: Instruction) -> None:
    make_slice(b)
    binary_subscr(front, b, i)


@handles("BINARY_SUBSCR")
def binary_subscr(front: FrontEnd, b: Builder, i: Instruction) -> None:
    key, x = b.frame.stack.pop(), b.frame.stack.pop()
    result = operators.item(b, x, key)
    b.frame.stack.append(result)


@handles("STORE_SUBSCR")
def store_subscr(front: FrontEnd, b: Builder, i: Instruction) -> None:
    key, x, value = b.frame.stack.pop(), b.frame.stack.pop(), b.frame.stack.pop()
    operators.set_item(b, x, key, value)


@handles("STORE_SLICE")
def store_slice(front: FrontEnd, b: Builder, i: Instruction) -> None:
    make_slice(b)
    store_subscr(front, b, i)


# --- operators


@handles("BINARY_OP")
def binary_op(front: FrontEnd, b: Builder, i: Instruction) -> None:
    right, left = b.frame.stack.pop(), b.frame.stack.pop()
    b.frame.stack.append(Known(None))  # as before a call
    b.frame.stack[-1] = operators.binary(b, i.argval, left, right)


@handles("COMPARE_OP")
def compare_op(front: FrontEnd, b: Builder, i: Instruction) -> None:
    right, left = b.frame.stack.pop(), b.frame.stack.pop()
    result = operators.compare(b, i.argval, left, right)
    b.frame.stack.append(result)


@handles("UNARY_NEGATIVE")
def unary_negative(front: FrontEnd, b: Builder, i: Instruction) -> None:
    result = operators.negative(b, b.frame.stack.pop())
    b.frame.stack.append(result)


@handles("UNARY_INVERT")
def unary_invert(front: FrontEnd, b: Builder, i: Instruction) -> None:
    result = operators.inverted(b, b.frame.stack.pop())
    b.frame.stack.append(result)


@handles("UNARY_NOT")
def unary_not(front: FrontEnd, b: Builder, i: Instruction) -> None:
    condition = objects.truth(b, b.frame.stack.pop())
    known = b.constants.get(condition)
    b.frame.stack.append(Value(b.constant(not known) if isinstance(known, bool) else b.let("logical_not", condition)))


@handles("IS_OP")
def is_op(front: FrontEnd, b: Builder, i: Instruction) -> None:
    right, left = b.frame.stack.pop(), b.frame.stack.pop()
    b.frame.stack.append(Value(b.constant(objects.is_same(b, left, right) ^ bool(i.arg))))


@handles("CONTAINS_OP")
def contains_op(front: FrontEnd, b: Builder, i: Instruction) -> None:
    items, x = b.frame.stack.pop(), b.frame.stack.pop()
    found = objects.is_among(b, x, items)
    b.frame.stack.append(Value(b.let("logical_not", found) if i.arg else found))


# --- attributes and calls


@handles("LOAD_ATTR")
def load_attr(front: FrontEnd, b: Builder, i: Instruction) -> None:
    result = calls.attribute(b, b.frame.stack.pop(), i.argval)
    b.frame.stack.append(result)


@handles("LOAD_METHOD")
def load_method(front: FrontEnd, b: Builder, i: Instruction) -> None:
    x = b.frame.stack.pop()
    if isinstance(x, Value | Seen | Pending) and (is_list(b, x) or statements.is_about_arrays(b, x)):
        push_callable(b, i, Method(x, i.argval))
    else:
        push_callable(b, i, calls.attribute(b, x, i.argval))


def is_list(b: Builder, x: Abstract) -> bool:
    return isinstance(x, Value) and isinstance(b.type(x.value), List)


@handles("CALL", "CALL_KW")
def call(front: FrontEnd, b: Builder, i: Instruction) -> None:
    args = b.frame.stack[len(b.frame.stack) - i.arg :]
    del b.frame.stack[len(b.frame.stack) - i.arg :]
    called(front, b, args, i.argval)


@handles("CALL_FUNCTION_EX")
def call_function_ex(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.note_new_form()
    keywords = b.frame.stack.pop() if i.arg else Record((), ())
    called(front, b, *tuples.spread(b, b.frame.stack.pop(), keywords))


def called(front: FrontEnd, b: Builder, args: list[Abstract], names: tuple[str, ...]) -> None:
    """What is below the arguments is called with them."""
    stack = b.frame.stack
    upper, lower = stack.pop(), stack.pop()
    function, args = (upper, args) if lower == NULL else (lower, args if upper == NULL else [upper, *args])
    if isinstance(function, EnteredErrorState):
        b.flush()
        b.forget_flags()
        stack.append(Known(None))
        return
    while isinstance(function, Partial):
        b.note_new_form()
        function, args, names = tuples.with_bound(function, args, names)
    function = control.written_for(b, function)
    if b.aborts and isinstance(function, Closure | Known) and inlining.is_written_here(function):
        b.frame, front.is_elsewhere = inlining.entered(b, function, args, names, calls.constant), True
        return
    # The result is on the stack before a Point may follow: an append is the last thing that its call does.
    stack.append(Known(None))
    result = calls.call(b, function, args, names)
    b.frame.stack[-1] = result


@handles("BEFORE_WITH")
def before_with(front: FrontEnd, b: Builder, i: Instruction) -> None:
    x = b.frame.stack.pop()
    if not isinstance(x, NewErrorState):
        raise Unsupported("a `with` that is not of np.errstate")
    b.flush()
    b.frame.stack += [EnteredErrorState(x.modes), Known(None)]


# --- control flow


@handles("JUMP", "JUMP_BACKWARD")
def jump(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.jump(i.target)
    front.is_done = True


@handles("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def pop_jump_if(front: FrontEnd, b: Builder, i: Instruction) -> None:
    condition = objects.truth(b, b.frame.stack.pop())
    targets = (i.target, i.index + 1) if i.opname.endswith("TRUE") else (i.index + 1, i.target)
    known = b.constants.get(condition)
    if isinstance(known, bool):
        b.jump(targets[not known])
    else:
        b.branch(condition, *targets)
    front.is_done = True


@handles("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def pop_jump_if_none(front: FrontEnd, b: Builder, i: Instruction) -> None:
    is_none = objects.is_same(b, b.frame.stack.pop(), Known(None))
    b.jump(i.target if is_none == i.opname.endswith("IF_NONE") else i.index + 1)
    front.is_done = True


@handles("GET_ITER")
def get_iter(front: FrontEnd, b: Builder, i: Instruction) -> None:
    x = b.frame.stack.pop()
    if not b.aborts and not isinstance(x, Range | Value) and not (isinstance(x, Tuple) and not x.is_list):
        raise Unsupported("a loop over something else than a range")
    items = iteration.known_items(b, x)
    if items is not None:
        b.frame.stack.append(Rest(items))
        return
    b.frame.stack.append(Iterating(x, iteration.length_of(b, x), b.constant(0)))


@handles("FOR_ITER")
def for_iter(front: FrontEnd, b: Builder, i: Instruction) -> None:
    """The header branches to the iteration and to the end."""
    x = b.frame.stack[-1]
    if isinstance(x, Rest):
        front.is_done = not iteration.goes_on(b, x, i.target)
        return
    assert isinstance(x, Iterating), x
    b.has_loops = True
    condition = b.let("less", x.taken, x.length)
    frame = b.frame
    inside = b.new_block(frame)
    b.frame = frame.copy()
    b.frame.stack.pop()
    b.emit(Branch(condition, inside.block.label, b.values(frame), *b.goto(i.target), b.at))
    b.block, b.frame = inside.block, inside.frame
    b.begin_point(i.index)
    b.poll()
    x = b.frame.stack[-1]
    assert isinstance(x, Iterating), x
    item = iteration.item_of(b, x.over, x.taken)
    taken = b.let("add", x.taken, b.constant(1))
    b.frame.stack[-1] = Iterating(x.over, x.length, taken)
    b.frame.stack.append(item)


@handles("RETURN_VALUE")
def return_value(front: FrontEnd, b: Builder, i: Instruction) -> None:
    result = b.frame.stack.pop()
    if b.frame.caller is not None:
        if inlining.outlives(b.frame, result):
            raise Unsupported("a function that a function returns, with variables of it")
        b.frame, front.is_elsewhere = inlining.after_call(b.frame.caller, result), True
        return
    b.flush()
    b.emit(Return(recipe_of(result), b.at))
    front.is_done = True
