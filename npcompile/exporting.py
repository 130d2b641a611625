"""`export`: a function that is compiled as a whole becomes a program that needs no Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from npcompile.compiler import original
from npcompile.exported import Exported, ExportError, parameters_of
from npcompile.handled_lines import Handlers
from npcompile.tensor_core.loop_ir.activity import written_params
from npcompile.tensor_core.loop_ir.buffers import use_buffers
from npcompile.tensor_core.loop_ir.causes import FLOATING_POINT, Cause, tell_apart
from npcompile.tensor_core.loop_ir.clone import renumber
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.fp_status import look_once
from npcompile.tensor_core.loop_ir.ops import Check, Constant, FrameState, Let, Op, Param, Policy, Program, SideExit
from npcompile.tensor_core.loop_ir.pipeline import differentiable
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.types import Memref, Object, type_of
from npcompile.tensor_core.loop_ir.verifier import Stage, stage_of
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import Traced, trace


def export(f: Callable[..., Any], *args: Any, dynamic: bool = True) -> Exported:
    """Compile a function as a whole, as a program that can be saved and runs without the function.

    Parameters
    ----------
    f
        A Python function, compiled or not. All of it is compiled: loops, calls of functions, and statements about arrays of
        float64 as far as the loop IR has them.
    *args
        Examples of its arguments: arrays of bool, integers, float32 and float64, numbers of NumPy's and of Python's. The program
        takes arguments of the same types: dtype and number of axes, and C order where the example has it. Parameters without
        one have their defaults as example.
    dynamic
        May sizes differ from the examples'?

    Returns
    -------
    Exported
        Callable, with `save`.

    Raises
    ------
    ExportError
        Where something of the function has no program: why, with the file and line.
    TypeError
        For a number of examples that the function does not take, or examples of other types.

    Notes
    -----
    What the function reads from outside, numbers, arrays and functions, is as it is now, also when it changes later.
    The result is NumPy's in type, dtype and value: additions, multiplications, divisions, roots and sums have its bits. Functions
    such as exp and products of matrices have the bits that they have in compiled functions. Powers of arrays have other last
    bits, and `is_exact` is False then.

    Examples
    --------
    >>> def smooth(x, weight):
    ...     out = np.empty_like(x)
    ...     s = x[0]
    ...     for i in range(x.size):
    ...         s = weight * s + (1 - weight) * x[i]
    ...         out[i] = s
    ...     return out
    >>> exported = export(smooth, np.ones(3), 0.5)
    >>> exported(np.array([0.0, 1.0, 1.0, 1.0]), 0.5)
    array([0.   , 0.5  , 0.75 , 0.875])
    >>> print(exported)
    exported smooth(x: an array of float64 with 1 axis in C order, weight: a Python float), any sizes
    """
    function = original(f)
    if not isinstance(function, FunctionType):
        raise TypeError(f"export takes a Python function, not {function!r}")
    names, given = examples(function, args)
    traced, is_exact = traced_as_a_whole(function, given)
    program = traced.program
    outside = [source.read() for source in traced.inputs]
    differentiable(program)
    if stage_of(program) is not Stage.STRUCTURED:
        raise cannot(function, Unsupported("a loop that is entered at several places"))
    keep_numbers(program, outside, len(given))
    look_once(program, next(op.name for op in program.body if isinstance(op, FrameState)))
    use_buffers(program)
    causes = known_to_callers(tell_apart(program), program, function)
    renumber(program)
    arrays = tuple(np.array(x, order="C") for x in outside if isinstance(x, np.ndarray))
    if any(written_params(program, len(program.params))[len(given) :]):
        raise cannot(function, Unsupported("an array from outside is written to"))
    parameters = parameters_of(program, [(name, np.shape(x)) for name, x in zip(names, given)])
    program.name = function.__name__ if function.__name__.isidentifier() else "function"  # of a lambda
    doc = inspect.getdoc(function) or ""
    return Exported(function.__name__, doc, parameters, print_program(program), tuple(causes), arrays, dynamic, is_exact)


def examples(function: FunctionType, args: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """The names of the parameters, and an example of each. Raises TypeError."""
    bound = inspect.signature(function).bind(*args)
    bound.apply_defaults()
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    if any(kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds):
        raise cannot(function, Unsupported("parameters after a star"))
    for name, x in bound.arguments.items():
        kind = type_of(x)
        if kind is None or isinstance(kind, Object):
            said = f"a {type(x).__name__}" if not isinstance(x, np.ndarray) else f"an array of {x.dtype} with {x.ndim} axes"
            raise TypeError(f"{function.__name__}(): {name!r} is {said}: export takes arrays with axes, and numbers")
    return list(bound.arguments), list(bound.arguments.values())


def traced_as_a_whole(function: FunctionType, given: Sequence[Any]) -> tuple[Traced, bool]:
    """The program, and whether it has NumPy's bits. Raises ExportError."""
    try:
        return trace(function, given, Policy.ABORT, is_exact=True), True
    except Unsupported:  # sums of arrays and powers, for one
        try:
            return trace(function, given, Policy.ABORT), False
        except Unsupported as error:
            raise cannot(function, error) from error


def keep_numbers(program: Program, outside: list[Any], count: int) -> None:
    """Make constants of the params after the first that are numbers from outside. In place."""
    kept: list[Param] = []
    made: list[Op] = []
    for param, x in zip(program.params[count:], outside, strict=True):
        if isinstance(program.types[param.value], Memref):
            kept.append(param)
        else:
            made.append(Constant(param.value, x.item() if isinstance(x, np.generic) else x))
    program.params[count:] = kept
    program.body[1:1] = made


def known_to_callers(causes: Sequence[Cause], program: Program, function: FunctionType) -> list[Cause]:
    """What the function may handle itself is no exception of its: only Python knows what comes of it."""
    handlers = Handlers(function.__code__, [op.at for op in walk(program.body) if isinstance(op, Check | Let | SideExit)])
    return [
        replace(each, name="", reason=f"{each.reason or each.name}, which a handler may take")
        if each.name not in ("", FLOATING_POINT) and handlers.may_handle(each.at)
        else each
        for each in causes
    ]


def cannot(function: FunctionType, error: Unsupported) -> ExportError:
    line = error.line or function.__code__.co_firstlineno
    return ExportError(f"{function.__name__} cannot be exported: {error.reason} ({function.__code__.co_filename}:{line})")
