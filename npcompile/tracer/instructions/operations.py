"""Operators, subscripts and attributes."""

from __future__ import annotations

from npcompile.tensor_core.source import Formula
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.frame import Frame, handles
from npcompile.tracer.instructions.variables import push_callable
from npcompile.tracer.python import attributes, calls, identity, operators, subscripts
from npcompile.tracer.values import (
    Comparison,
    Constant,
    Sequence,
    SliceValue,
    Truth,
)

# --- operators


@handles("BINARY_OP")
def binary_op(frame: Frame, i: Instruction) -> None:
    right, left = frame.pop_raw(), frame.pop_raw()
    symbol = i.argval
    right, left = operators.as_count(frame.capture, symbol, right, left), operators.as_count(frame.capture, symbol, left, right)
    if symbol.endswith("="):
        frame.calls_python = not isinstance(left, Sequence)  # what a list has taken of an iterator that raises stays in it
        frame.push(operators.inplace(frame.capture, symbol, left, right))
        frame.calls_python = True
    else:
        frame.push(operators.binary(frame.capture, symbol, left, right))


@handles("COMPARE_OP")
def compare_op(frame: Frame, i: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(operators.compare(frame.capture, i.argval, left, right))


@handles("IS_OP")
def is_op(frame: Frame, i: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(Constant(identity.is_same_object(left, right, frame.capture) != bool(i.arg)))


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
    value = frame.pop_raw()
    if isinstance(value, Comparison):
        frame.push(Comparison(Formula("(not {})", value.source), not value.hint))
        return
    match operators.truth(frame.capture, value):
        case Truth(array, negated):
            frame.push(Truth(array, not negated))
        case Constant(value):
            frame.push(Constant(not value))


@handles("TO_BOOL")
def to_bool(frame: Frame, i: Instruction) -> None:
    value = frame.pop_raw()
    frame.push(value if isinstance(value, Comparison) else operators.truth(frame.capture, value))


@handles("BINARY_SUBSCR")
def binary_subscr(frame: Frame, i: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    frame.push(subscripts.getitem(frame.capture, container, key))


@handles("STORE_SUBSCR")
def store_subscr(frame: Frame, i: Instruction) -> None:
    key, container, value = frame.pop(), frame.pop(), frame.pop_raw()
    subscripts.setitem(frame.capture, container, key, value)


@handles("DELETE_SUBSCR")
def delete_subscr(frame: Frame, i: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    subscripts.delitem(frame.capture, container, key)


@handles("BINARY_SLICE")
def binary_slice(frame: Frame, i: Instruction) -> None:
    stop, start, container = frame.pop(), frame.pop(), frame.pop()
    frame.push(subscripts.getitem(frame.capture, container, SliceValue(start, stop, Constant(None))))


@handles("STORE_SLICE")
def store_slice(frame: Frame, i: Instruction) -> None:
    stop, start, container, value = frame.pop(), frame.pop(), frame.pop(), frame.pop_raw()
    subscripts.setitem(frame.capture, container, SliceValue(start, stop, Constant(None)), value)


# --- attributes


@handles("LOAD_ATTR", "LOAD_METHOD")
def load_attr(frame: Frame, i: Instruction) -> None:
    owner = frame.pop()
    push_callable(frame, i, attributes.load(frame, owner, str(i.argval)))


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
