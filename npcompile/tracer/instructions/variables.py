"""The stack, constants, and variables of every kind."""

from __future__ import annotations

import builtins
from typing import Any

from npcompile.tensor_core.guards import HasKey
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.source import Literal
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.frame import Frame, Return
from npcompile.tracer.python import generators
from npcompile.tracer.values import NULL, UNASSIGNED, Cell, Constant, Generator, Lazy, Sequence, SliceValue

# --- stack and constants


def nothing(frame: Frame, i: Instruction) -> None:
    pass


def pop_top(frame: Frame, i: Instruction) -> None:
    value = frame.pop_raw()
    if isinstance(value, Generator) and value in frame.capture.begun and not value.is_exhausted:
        generators.drop(frame, value)


def push_null(frame: Frame, i: Instruction) -> None:
    frame.push(NULL)


def load_const(frame: Frame, i: Instruction) -> None:
    frame.push(constant(i.argval))


def constant(value: Any) -> Any:
    match value:
        case tuple():
            return Sequence(tuple, [constant(v) for v in value])
        case slice():
            return SliceValue(Constant(value.start), Constant(value.stop), Constant(value.step))
        case _:
            return Constant(value)


def return_value(frame: Frame, i: Instruction) -> Return:
    return Return(frame.pop_raw())


def copy(frame: Frame, i: Instruction) -> None:
    frame.push(frame.stack[-i.arg])


def swap(frame: Frame, i: Instruction) -> None:
    frame.stack[-1], frame.stack[-i.arg] = frame.stack[-i.arg], frame.stack[-1]


# --- variables


def load_fast(frame: Frame, i: Instruction) -> None:
    name = i.argval
    assert isinstance(name, str)
    is_cell = name in frame.cells and name not in frame.locals
    frame.push(frame.cells[name] if is_cell else frame.load(name))


def load_fast_and_clear(frame: Frame, i: Instruction) -> None:
    name = i.argval
    is_cell = name in frame.cells and name not in frame.locals  # of the function around a comprehension that has such a name
    frame.push(frame.cells.pop(name) if is_cell else frame.locals.pop(name, UNASSIGNED))  # type: ignore[call-overload,arg-type]


def store_fast(frame: Frame, i: Instruction) -> None:
    name, value = i.argval, frame.pop_raw()
    if isinstance(value, Cell):  # put back by LOAD_FAST_AND_CLEAR's counterpart
        frame.cells[name] = value
        frame.locals.pop(name, None)
    else:
        frame.locals[name] = value


def delete_fast(frame: Frame, i: Instruction) -> None:
    frame.load(i.argval)  # type: ignore[arg-type]
    del frame.locals[i.argval]  # type: ignore[arg-type]


def make_cell(frame: Frame, i: Instruction) -> None:
    name = i.argval
    frame.cells[name] = Cell(frame.locals.pop(name, None), bodies=frame.capture.bodies)  # type: ignore[index,call-overload]


def load_deref(frame: Frame, i: Instruction) -> None:
    cell = frame.cells[i.argval]  # type: ignore[index]
    if cell.content is None:
        raise Decline(f"free variable {i.argval!r} has no value")
    frame.push(cell.content)


def store_deref(frame: Frame, i: Instruction) -> None:
    cell = frame.cells[i.argval]  # type: ignore[index]
    if cell.bodies < frame.capture.bodies:  # the body runs many times or never, and what it makes is its graph's
        frame.capture.require_no_body(f"a variable of another function, {i.argval}, is set")
    cell.content, cell.is_written = frame.pop_raw(), True


def load_global(frame: Frame, i: Instruction) -> None:
    push_callable(frame, i, global_value(frame, str(i.argval)))


def push_callable(frame: Frame, i: Instruction, value: Any) -> None:
    """Push what the instruction loads, with the NULL that a call finds beside it."""
    frame.stack += [value] if not i.null else [value, NULL] if i.null > 0 else [NULL, value]


def global_value(frame: Frame, name: str) -> Any:
    source = frame.globals_source
    written = frame.capture.globals_written.get((id(frame.globals), name))
    if written is UNASSIGNED:
        raise Decline(f"name {name!r} is not defined")
    if written is not None:
        return written
    if name in frame.globals:
        value = frame.globals[name]
        return Constant(value) if source is None else Lazy(source.item(name), value)
    if not hasattr(builtins, name):
        raise Decline(f"name {name!r} is not defined")
    if source is not None:
        frame.capture.guard(HasKey(source, Literal(name), False))
        frame.capture.guard_name(vars(builtins), name)
    return Constant(getattr(builtins, name))
