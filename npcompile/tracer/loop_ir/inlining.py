"""Functions of the user's that a program calls are written into it: a frame whose caller is another frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, CodeType, FunctionType
from typing import TypeAlias, TypeGuard

from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.entry import plain_function, wrapped_behind
from npcompile.tracer.loop_ir.abstract import Abstract, Cell, Closure, Known, Record, Tuple, Unsupported
from npcompile.tracer.loop_ir.builder import Builder, Frame
from npcompile.tracer.loop_ir.control import OWN
from npcompile.tracer.loop_ir.sources import DefaultOfKeyword, Entered, PartOfFunction

Constant: TypeAlias = Callable[[Builder, object], Abstract]
DEEPEST = 16  # calls inside each other
GENERATOR = 0x2A0  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


def is_users(named: object) -> TypeGuard[FunctionType]:
    """Is it a function of Python's, and none of NumPy's own?"""
    return isinstance(named, FunctionType) and not str(named.__module__).startswith("numpy")


def is_written_here(function: Known | Closure) -> bool:
    """Is its code written into a program that calls it? The functions of the loops' own are rules."""
    return isinstance(function, Closure) or is_users(function.named) and function.named not in OWN


def frame_of(function: FunctionType, aborts: bool) -> Frame:
    """The frame of a function that begins, without its arguments."""
    code = function.__code__
    if code.co_cellvars and not aborts:
        raise Unsupported("a function with variables of functions inside")
    if code.co_flags & GENERATOR:
        raise Unsupported("a generator")
    facts = analyse(code)
    return Frame(function, facts, facts.start, [], {})


def entered(b: Builder, called: Known | Closure, args: Sequence[Abstract], names: tuple[str, ...], constant: Constant) -> Frame:
    """The frame of a call. The arguments are off the caller's stack; the last ones have `names`."""
    caller, function = b.frame, called.function if isinstance(called, Closure) else plain_function(called.named)
    assert isinstance(function, FunctionType), function
    if hasattr(function, "__npcompile_break__") or wrapped_behind(function) is not None:
        raise Unsupported(f"a call of {function.__name__}")
    if sum(1 for _ in caller.chain()) > DEEPEST:
        raise Unsupported(f"{function.__name__} calls itself, or too many functions call each other")
    frame = frame_of(function, b.aborts)
    if isinstance(called, Closure):
        frame.cells, defaults = called.cells, of_last_parameters(function, called.defaults)
        frame.locals.update((frame.facts.slots.index(name), x) for name, x in zip(function.__code__.co_freevars, called.held))
    else:
        defaults = defaults_of(b, called.named, constant)  # type: ignore[arg-type]
    given = defaults | bound(function, args, names)
    parameters = Parameters.of(function.__code__).names
    if len(given) < len(parameters):
        raise Unsupported(f"the arguments of {function.__name__}")
    frame.locals.update((slot, given[name]) for slot, name in enumerate(parameters))
    kept = caller.copy()
    kept.locals = caller.living(caller.index + 1)
    frame.caller = kept
    return frame


def bound(function: FunctionType, args: Sequence[Abstract], names: tuple[str, ...]) -> dict[str, Abstract]:
    """What a call gives to parameters. The last arguments have `names`."""
    parameters = Parameters.of(function.__code__)
    places = (*parameters.positional_only, *parameters.positional)
    positional, named = args[: len(args) - len(names)], args[len(args) - len(names) :]
    given, others = dict(zip(places, positional)), dict[str, Abstract]()
    for name, x in zip(names, named):
        is_parameter = name in parameters.positional or name in parameters.keyword_only
        of_name = given if is_parameter else others
        if name in of_name:
            raise Unsupported(f"the arguments of {function.__name__}")
        of_name[name] = x
    if len(positional) > len(places) and not parameters.rest or others and not parameters.keywords:
        raise Unsupported(f"the arguments of {function.__name__}")
    given |= {name: Tuple(tuple(positional[len(places) :])) for name in parameters.rest}
    return given | {name: Record(tuple(others), tuple(others.values())) for name in parameters.keywords}


def of_last_parameters(function: FunctionType, defaults: tuple[Abstract, ...]) -> dict[str, Abstract]:
    code = function.__code__
    return dict(zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults))


def defaults_of(b: Builder, function: FunctionType, constant: Constant) -> dict[str, Abstract]:
    """Those of a function from outside, which is guarded. One that is compiled has its own, and enters what it does now."""
    plain = plain_function(function)
    if plain is not function:
        b.note_new_form()
        b.read(Entered(function))
    b.read(PartOfFunction(plain, "__code__"))
    defaults = b.read(PartOfFunction(function, "__defaults__")) or ()
    assert isinstance(defaults, tuple)
    found = of_last_parameters(plain, tuple(constant(b, value) for value in defaults))
    named = b.read(PartOfFunction(function, "__kwdefaults__")) or {}
    assert isinstance(named, dict)
    return found | {name: constant(b, b.read(DefaultOfKeyword(function, name))) for name in named}


# --- functions that the program makes


def made(b: Builder, code: CodeType, cells: Sequence[Abstract], defaults: Sequence[Abstract]) -> Closure:
    """A function inside: Python's, but for what its cells hold."""
    empty = tuple(CellType() for _ in code.co_freevars)
    function = FunctionType(code, b.frame.function.__globals__, code.co_name, None, empty)
    return Closure(function, tuple(cell for cell in cells if isinstance(cell, Cell)), tuple(defaults))


def cell_of(frame: Frame, name: str) -> Cell:
    """The variable that has this name in the frame's function and in functions inside or around."""
    if name in frame.facts.cells or frame.facts.slots.index(name) in frame.locals:
        return Cell(name, sum(1 for _ in frame.chain()) - 1)
    k = frame.facts.free.index(name)
    return frame.cells[k] if frame.cells else Cell(name, (frame.function.__closure__ or ())[k])


def content(frame: Frame, cell: Cell) -> Abstract:
    """What a variable of a frame holds now. Raises Unsupported where it may be unbound."""
    owner, slot = place_of(frame, cell)
    found = owner.locals.get(slot)
    if found is None:
        raise Unsupported(f"the variable {cell.name}, which may be unbound")
    return found


def set_content(frame: Frame, name: str, x: Abstract) -> None:
    """The variable of the frame, or of a function around that the program makes, holds something else from now on."""
    cell = cell_of(frame, name)
    owner, slot = place_of(frame, cell) if isinstance(cell.where, int) else (frame, -1)
    if name not in owner.facts.cells:  # it is in the function that is given, or was made before the program
        raise Unsupported(f"the variable {name} of a function around, which is set")
    owner.locals[slot] = x


def place_of(frame: Frame, cell: Cell) -> tuple[Frame, int]:
    """The frame that has a variable, and its slot there."""
    assert isinstance(cell.where, int), cell
    owner = [*frame.chain()][-1 - cell.where]
    return owner, owner.facts.slots.index(cell.name)


def outlives(frame: Frame, x: Abstract) -> bool:
    """Is it, or has it, a function that reads variables of the frame, which ends?"""
    match x:
        case Closure(_, cells, defaults, held):
            depth = sum(1 for _ in frame.chain()) - 1
            return any(cell.where == depth for cell in cells) or any(outlives(frame, each) for each in (*defaults, *held))
        case Tuple(items) | Record(_, items):
            return any(outlives(frame, item) for item in items)
    return False


def after_call(caller: Frame, result: Abstract) -> Frame:
    frame = caller.copy()
    frame.stack.append(result)
    frame.index += 1
    return frame
