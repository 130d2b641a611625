"""The front end: canonical instructions, one after another, become blocks of the loop IR (dis documents them).

A block is made for each instruction that is jumped to and for each version of the frame there. What the front end does not know
raises Unsupported with the user's line.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import TypeAlias

from npcompile.tensor_core.loop_ir.ops import Branch, Cfg, Param, Place, Program, Return
from npcompile.tensor_core.loop_ir.types import Kind, List, Type, type_of
from npcompile.tracer.bytecode.analysis import CodeFacts, analyse
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.loop_ir import calls, indexing, numbers
from npcompile.tracer.loop_ir.abstract import (
    Abstract,
    EnteredErrorState,
    Known,
    Mark,
    Method,
    Named,
    NewErrorState,
    Range,
    RangeIter,
    Slice,
    Tuple,
    Unsupported,
    Value,
    recipe_of,
)
from npcompile.tracer.loop_ir.builder import Begun, Builder, Frame

NULL = Known(Mark.NULL)


@dataclass(frozen=True, slots=True)
class Global:
    """What a name stood for when the program was made: it is asked again before the program runs."""

    name: str
    named: Named


@dataclass(frozen=True, slots=True)
class Traced:
    """A program for arguments of some types."""

    program: Program
    globals: tuple[Global, ...]


def trace(function: FunctionType, arguments: Sequence[object]) -> Traced:
    """The loop IR of `function` for positional arguments of these types, in the stage of blocks. Raises Unsupported.

    >>> trace(lambda x, i: x[i] * 2.0, (np.ones(3), 1)).program.params
    [Param(value=0, slot=0), Param(value=1, slot=1)]
    """
    code = function.__code__
    kinds = [type_of(argument) for argument in arguments]
    if code.co_flags & 0x2C or code.co_cellvars or code.co_freevars or len(kinds) != code.co_argcount or code.co_kwonlyargcount:
        raise Unsupported("a function with closures, with other than positional arguments, or that is a generator")
    found: list[Type] = [kind for kind in kinds if kind is not None]
    if len(found) != len(kinds):
        raise Unsupported("an argument of a type without IR")
    front = FrontEnd(function, analyse(code))
    try:
        return front.trace(found)
    except calls.OtherElement as error:
        return FrontEnd(function, analyse(code), error.element).trace(found)


@dataclass(slots=True)
class FrontEnd:
    function: FunctionType
    facts: CodeFacts
    element: Kind = Kind.INT  # of lists: what is appended says it, after they are made
    globals: dict[str, Named] = field(default_factory=dict)
    is_done: bool = False  # has the block its terminator?

    def trace(self, kinds: Sequence[Type]) -> Traced:
        code = self.function.__code__
        b = Builder(Program(code.co_name, code.co_filename), self.facts)
        slots: dict[int, Abstract] = {}
        for slot, kind in enumerate(kinds):
            value = b.new(kind, self.facts.slots[slot])
            b.program.params.append(Param(value, slot))
            slots[slot] = Value(value)
        entry = Frame(self.facts.start, [], slots)
        b.block.label = b.program.new_label()
        b.blocks.append(b.block)
        b.pending.append(Begun(b.block, entry))
        while b.pending:
            begun = b.pending.pop(0)
            b.block, b.frame = begun.block, begun.frame
            try:
                self.translate(b)
            except calls.OtherElement:
                raise
            except Unsupported as error:
                raise Unsupported(error.reason, error.line or b.at.line) from None
        b.program.body = [Cfg(b.blocks)]
        return Traced(b.program, tuple(Global(name, named) for name, named in self.globals.items()))

    def translate(self, b: Builder) -> None:
        """Instructions from where the frame is to the end of the block."""
        b.flagged, b.constants, self.is_done = False, {}, False
        first = b.frame.index
        header = first in self.facts.loop_headers
        b.begin_point(first)
        while not self.is_done:
            index = b.frame.index
            i = self.facts.instructions[index]
            b.at = Place(b.program.file, i.line)
            if index != first and index in self.facts.jump_targets:
                b.jump(index)
                return
            if header and index == first and i.opname != "FOR_ITER":
                b.poll()
            rule = RULES.get(i.opname)
            if rule is None:
                raise Unsupported(f"the instruction {i.opname}")
            rule(self, b, i)
            b.frame.index = index + 1

    def named(self, name: str) -> Named:
        """A global or builtin, as it is now."""
        found = self.function.__globals__.get(name, vars(builtins).get(name))
        if not isinstance(found, ModuleType) and not callable(found):
            raise Unsupported(f"the global {name}")
        self.globals[name] = found
        return found


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


@handles("RESUME", "NOP")
def nothing(front: FrontEnd, b: Builder, i: Instruction) -> None:
    pass


@handles("LOAD_FAST")
def load_fast(front: FrontEnd, b: Builder, i: Instruction) -> None:
    found = b.frame.locals.get(i.arg)
    if found is None:
        raise Unsupported(f"the variable {i.argval}, which may be unbound")
    b.frame.stack.append(found)


@handles("STORE_FAST")
def store_fast(front: FrontEnd, b: Builder, i: Instruction) -> None:
    x = b.frame.locals[i.arg] = b.frame.stack.pop()
    if isinstance(x, Value) and x.value not in b.program.names:
        b.program.names[x.value] = i.argval


@handles("DELETE_FAST")
def delete_fast(front: FrontEnd, b: Builder, i: Instruction) -> None:
    del b.frame.locals[i.arg]


@handles("LOAD_CONST")
def load_const(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack.append(constant(b, i.argval))


def constant(b: Builder, value: object) -> Abstract:
    match value:
        case bool() | int() | float() | complex() if not isinstance(value, int) or -(2**63) <= value < 2**63:
            return Value(b.constant(value))
        case None | str():
            return Known(value)
        case tuple():
            return Tuple(tuple(constant(b, item) for item in value))
        case slice(start=None | int(), stop=None | int(), step=None):
            return Slice(*(None if x is None else constant(b, x) for x in (value.start, value.stop)))
    raise Unsupported(f"the constant {value!r}")


@handles("LOAD_GLOBAL")
def load_global(front: FrontEnd, b: Builder, i: Instruction) -> None:
    push_callable(b, i, Known(front.named(i.argval)))


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
    if not isinstance(x, Tuple) or len(x.items) != i.arg:
        raise Unsupported("unpacking of this")
    b.frame.stack += reversed(x.items)


@handles("BUILD_LIST")
def build_list(front: FrontEnd, b: Builder, i: Instruction) -> None:
    if i.arg:
        raise Unsupported("a list that does not begin empty")
    b.frame.stack.append(calls.new_list(b, front.element))


@handles("BUILD_SLICE")
def build_slice(front: FrontEnd, b: Builder, i: Instruction) -> None:
    if i.arg != 2:
        raise Unsupported("a slice with a step")
    make_slice(b)


def make_slice(b: Builder) -> None:
    stop, start = b.frame.stack.pop(), b.frame.stack.pop()
    b.frame.stack.append(Slice(*(None if x == Known(None) else x for x in (start, stop))))


@handles("BINARY_SLICE")
def binary_slice(front: FrontEnd, b: Builder, i: Instruction) -> None:
    make_slice(b)
    binary_subscr(front, b, i)


@handles("BINARY_SUBSCR")
def binary_subscr(front: FrontEnd, b: Builder, i: Instruction) -> None:
    key, x = b.frame.stack.pop(), b.frame.stack.pop()
    b.frame.stack.append(indexing.element(b, x, key))


@handles("STORE_SUBSCR")
def store_subscr(front: FrontEnd, b: Builder, i: Instruction) -> None:
    key, x, value = b.frame.stack.pop(), b.frame.stack.pop(), b.frame.stack.pop()
    indexing.store(b, x, key, calls.value_of(value))


# --- operators


@handles("BINARY_OP")
def binary_op(front: FrontEnd, b: Builder, i: Instruction) -> None:
    right, left = b.frame.stack.pop(), b.frame.stack.pop()
    if i.argval == "@":
        b.frame.stack.append(calls.matmul(b, left, right))
    else:
        b.frame.stack.append(Value(numbers.binary(b, i.argval, *numbers_of(left, right))))


@handles("COMPARE_OP")
def compare_op(front: FrontEnd, b: Builder, i: Instruction) -> None:
    right, left = b.frame.stack.pop(), b.frame.stack.pop()
    b.frame.stack.append(Value(numbers.compare(b, i.argval, *numbers_of(left, right))))


@handles("UNARY_NEGATIVE")
def unary_negative(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack.append(Value(numbers.negative(b, calls.value_of(b.frame.stack.pop()))))


@handles("UNARY_NOT")
def unary_not(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack.append(Value(b.let("logical_not", calls.value_of(b.frame.stack.pop()))))


# --- attributes and calls


@handles("LOAD_ATTR")
def load_attr(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.frame.stack.append(calls.attribute(b, b.frame.stack.pop(), i.argval))


@handles("LOAD_METHOD")
def load_method(front: FrontEnd, b: Builder, i: Instruction) -> None:
    x = b.frame.stack.pop()
    if isinstance(x, Value) and isinstance(b.type(x.value), List):
        push_callable(b, i, Method(x, i.argval))
    else:
        push_callable(b, i, calls.attribute(b, x, i.argval))


@handles("CALL", "CALL_KW")
def call(front: FrontEnd, b: Builder, i: Instruction) -> None:
    stack = b.frame.stack
    args = stack[len(stack) - i.arg :]
    del stack[len(stack) - i.arg :]
    upper, lower = stack.pop(), stack.pop()
    function, args = (upper, args) if lower == NULL else (lower, args if upper == NULL else [upper, *args])
    if isinstance(function, EnteredErrorState):
        b.flush()
        b.forget_flags()
        stack.append(Known(None))
        return
    # The result is on the stack before a Point may follow: an append is the last thing that its call does.
    stack.append(Known(None))
    result = calls.call(b, function, args, i.argval)
    stack[-1] = result


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
    condition = calls.value_of(b.frame.stack.pop())
    targets = (i.target, i.index + 1) if i.opname.endswith("TRUE") else (i.index + 1, i.target)
    b.branch(condition, *targets)
    front.is_done = True


@handles("GET_ITER")
def get_iter(front: FrontEnd, b: Builder, i: Instruction) -> None:
    x = b.frame.stack.pop()
    if not isinstance(x, Range):
        raise Unsupported("a loop over something else than a range")
    b.frame.stack.append(RangeIter(x.start, x.step, x.length, b.constant(0)))


@handles("FOR_ITER")
def for_iter(front: FrontEnd, b: Builder, i: Instruction) -> None:
    """The header branches to the iteration and to the end."""
    x = b.frame.stack[-1]
    assert isinstance(x, RangeIter), x
    condition = b.let("less", x.taken, x.length)
    frame = b.frame
    iteration = b.new_block(frame)
    b.frame = Frame(i.index, frame.stack[:-1], frame.locals)
    b.emit(Branch(condition, iteration.block.label, b.values(frame), *b.goto(i.target), b.at))
    b.block, b.frame = iteration.block, iteration.frame
    b.begin_point(i.index)
    b.poll()
    x = b.frame.stack[-1]
    assert isinstance(x, RangeIter), x
    item = b.let("add" if x.step == 1 else "subtract", x.start, x.taken)
    taken = b.let("add", x.taken, b.constant(1))
    b.frame.stack[-1] = RangeIter(x.start, x.step, x.length, taken)
    b.frame.stack.append(Value(item))


@handles("RETURN_VALUE")
def return_value(front: FrontEnd, b: Builder, i: Instruction) -> None:
    b.flush()
    b.emit(Return(recipe_of(b.frame.stack.pop()), b.at))
    front.is_done = True
