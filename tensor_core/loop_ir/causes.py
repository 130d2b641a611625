"""Why a program that aborts was left: a frame state for each cause, whose point is the cause's number.

The front end gives such a program one state, which is enough where Python runs again. Elsewhere callers are told what went wrong.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Iterator
from dataclasses import dataclass

from npcompile.tensor_core.loop_ir.forms import all_regions, results, walk
from npcompile.tensor_core.loop_ir.ops import (
    Check,
    Constant,
    FpCheck,
    FrameState,
    Let,
    Op,
    Place,
    Program,
    SideExit,
    Size,
)
from npcompile.tensor_core.loop_ir.rows import result_type
from npcompile.tensor_core.loop_ir.types import F32, F64, FLOAT, Scalar

# Of `math`'s functions, where an argument is finite and the result is not.
OUT_OF_DOMAIN = ("arccos", "arccosh", "arcsin", "arctanh", "log", "log10", "log1p", "log2", "sqrt")
OUT_OF_RANGE = ("cosh", "exp", "exp2", "expm1", "sinh")
DIVISIONS = ("divide", "floor_divide", "remainder")
OVERFLOWS = ("add_overflows", "subtract_overflows", "multiply_overflows", "left_shift_overflows")
FLOATING_POINT = "FloatingPointError"


@dataclass(frozen=True, slots=True)
class Cause:
    """`name`: of Python's exception, where it is known; else empty. `reason`: its message, or what went wrong."""

    name: str
    reason: str
    at: Place


def tell_apart(program: Program) -> list[Cause]:
    """Give each cause of leaving a structured program a state of its own, in place. The points of the states are indices of the
    result. The first one is what no program says: that a signal waits."""
    (state,) = [op for op in program.body if isinstance(op, FrameState)]
    made = {value: op for op in walk(program.body) for value in results(op)}
    divisors = pythons_divisors(program)
    found = {Cause("", "a signal waits", state.at): state.name}
    for region in all_regions(program.body):
        region[:] = [each for op in region for each in told(program, op, made, divisors, found)]
    others = list(found.items())[1:]
    after = program.body.index(state) + 1
    program.body[after:after] = [FrameState(name, k + 1, [], [], cause.at) for k, (cause, name) in enumerate(others)]
    return list(found)


def pythons_divisors(program: Program) -> set[int]:
    """Numbers that Python's own are divided by, and NumPy's are not: those give infinities and warnings."""
    found: dict[bool, set[int]] = {True: set(), False: set()}
    for op in walk(program.body):
        if isinstance(op, Let) and op.op in DIVISIONS:
            kind = program.types[op.result]
            found[isinstance(kind, Scalar) and not kind.is_numpys].add(op.args[1])
    return found[True] - found[False]


def told(program: Program, op: Op, made: dict[int, Op], divisors: set[int], found: dict[Cause, int]) -> Iterator[Op]:
    """The op with a state for its cause, after Checks of what would be other causes."""
    match op:
        case Check(condition, at=at) if isinstance(asked := made.get(condition), Let):
            if asked.op == "is_finite" and isinstance(computed := made.get(asked.args[0]), Let):
                for value in computed.args:
                    if program.types[value] in (FLOAT, F64, F32):
                        cause = Cause("", f"an argument of {computed.op} is infinite or no number", at)
                        yield from checked(program, "is_finite", [value], at, state_of(program, cause, found))
            if asked.op == "greater" and asked.args[0] in divisors:
                cause = Cause("ZeroDivisionError", "division by zero", at)
                yield from checked(program, "not_equal", asked.args, at, state_of(program, cause, found))
    if isinstance(op, Check | SideExit | FpCheck):
        op.state = state_of(program, cause_of(op, made, divisors), found)
    yield op


def checked(program: Program, row: str, args: list[int], at: Place, state: int) -> Iterator[Op]:
    kind = result_type(row, [program.types[value] for value in args])
    assert kind is not None, row
    condition = program.new(kind)
    yield Let(condition, row, [*args], at)
    yield Check(condition, state, at)


def state_of(program: Program, cause: Cause, found: dict[Cause, int]) -> int:
    if cause not in found:
        found[cause] = program.new_state()
    return found[cause]


def cause_of(op: Check | SideExit | FpCheck, made: dict[int, Op], divisors: set[int]) -> Cause:
    match op:
        case SideExit():
            return Cause(*raised_at(op.at), op.at)
        case FpCheck():
            return Cause(FLOATING_POINT, "a floating-point error", op.at)
    return Cause(*why_false(made.get(op.condition), made, divisors), op.at)


def why_false(op: Op | None, made: dict[int, Op], divisors: set[int]) -> tuple[str, str]:
    """The exception and the text of a condition that does not hold."""
    if not isinstance(op, Let):
        return "", "the program was compiled for other values"
    args = [made.get(value) for value in op.args]
    are_sizes = [isinstance(arg, Size) for arg in args]
    match op.op:
        case "is_index" if not isinstance(args[1], Constant):  # else the count of a shift
            return "IndexError", "an index is out of bounds"
        case "logical_not" if isinstance(args[0], Let) and args[0].op in OVERFLOWS:
            return "", "an integer is out of the range of its word"
        case "is_finite" if isinstance(args[0], Let) and args[0].op in OUT_OF_DOMAIN:
            return "ValueError", "math domain error"
        case "is_finite" if isinstance(args[0], Let) and args[0].op in OUT_OF_RANGE:
            return "OverflowError", "math range error"
        case "not_equal" if are_sizes[0] and is_zero(args[1], made):
            return "ValueError", "an array has no elements"
        case "not_equal" if op.args[0] in divisors:
            return "ZeroDivisionError", "division by zero"
        case "not_equal" | "greater" if is_zero(args[1], made):
            return "", "a divisor is zero or negative"
        case "equal" if all(are_sizes):
            return "", "shapes of arrays fit each other otherwise than the examples' did"
    return "", "the program was compiled for other values"


def is_zero(op: Op | None, made: dict[int, Op]) -> bool:
    """Is it the constant 0, of any kind?"""
    if isinstance(op, Let) and op.op.startswith("to_"):
        return is_zero(made.get(op.args[0]), made)
    return isinstance(op, Constant) and op.value == 0


def raised_at(at: Place) -> tuple[str, str]:
    """What the statement on a user's line raises: Python's exception, where the line says it, and its text."""
    line = linecache.getline(at.file, at.line).strip()
    try:
        (statement,) = ast.parse(line).body
    except (SyntaxError, ValueError):  # a line that is no statement of its own, or none
        return "", "an exception is raised"
    match statement:
        case ast.Raise(ast.Call(ast.Name(name), [ast.Constant(str(text))], [])) if is_exception(name):
            return name, text
        case ast.Raise(ast.Call(ast.Name(name), [], []) | ast.Name(name)) if is_exception(name):
            return name, ""
        case ast.Assert(_, ast.Constant(str(text))):
            return "AssertionError", text
        case ast.Assert(_, None):
            return "AssertionError", ""
    return "", "an exception is raised"


def is_exception(name: str) -> bool:
    """Is it the name of an exception that Python has?"""
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, Exception)
