"""Operators, subscripts and attributes."""

from __future__ import annotations

from npcompile.tensor_core.source import Formula
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.frame import Frame
from npcompile.tracer.instructions.variables import push_callable
from npcompile.tracer.python import attributes, identity, inlining, operators, subscripts
from npcompile.tracer.values import Comparison, Constant, Sequence, SliceValue, Truth

# --- operators


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


def compare_op(frame: Frame, i: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(operators.compare(frame.capture, i.argval, left, right))


def is_op(frame: Frame, i: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(Constant(identity.is_same_object(left, right, frame.capture) != bool(i.arg)))


def contains_op(frame: Frame, i: Instruction) -> None:
    container, item = frame.pop(), frame.pop()
    frame.push(Constant(operators.contains(frame.capture, container, item) != bool(i.arg)))


def unary(frame: Frame, i: Instruction) -> None:
    frame.push(operators.unary(frame.capture, i.traits.sign, frame.pop()))


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


def to_bool(frame: Frame, i: Instruction) -> None:
    value = frame.pop_raw()
    frame.push(value if isinstance(value, Comparison) else operators.truth(frame.capture, value))


def binary_subscr(frame: Frame, i: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    frame.push(subscripts.getitem(frame.capture, container, key))


def store_subscr(frame: Frame, i: Instruction) -> None:
    key, container, value = frame.pop(), frame.pop(), frame.pop_raw()
    subscripts.setitem(frame.capture, container, key, value)


def delete_subscr(frame: Frame, i: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    subscripts.delitem(frame.capture, container, key)


def binary_slice(frame: Frame, i: Instruction) -> None:
    stop, start, container = frame.pop(), frame.pop(), frame.pop()
    frame.push(subscripts.getitem(frame.capture, container, SliceValue(start, stop, Constant(None))))


def store_slice(frame: Frame, i: Instruction) -> None:
    stop, start, container, value = frame.pop(), frame.pop(), frame.pop(), frame.pop_raw()
    subscripts.setitem(frame.capture, container, SliceValue(start, stop, Constant(None)), value)


# --- attributes


def load_attr(frame: Frame, i: Instruction) -> None:
    owner = frame.pop()
    push_callable(frame, i, attributes.load(frame, owner, str(i.argval)))


def store_attr(frame: Frame, i: Instruction) -> None:
    owner, value = frame.pop(), frame.pop()
    attributes.store(frame, owner, str(i.argval), value)


def import_name(frame: Frame, i: Instruction) -> None:
    names, level = frame.pop(), frame.pop()
    frame.push(inlining.import_module(frame, str(i.argval), names, level))


def import_from(frame: Frame, i: Instruction) -> None:
    frame.push(attributes.load(frame, frame.capture.realize(frame.stack[-1]), str(i.argval)))
