"""Python's operators on numbers, with the Checks under which a 64-bit word or a division is exact."""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.types import BOOL, FLOAT, INT, Kind, Scalar
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.builder import Builder

ROWS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder"}
COMPARED = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal"}
INTEGERS = (Kind.INT, Kind.I64)
FLOATING = (Kind.FLOAT, Kind.F64)
TRUTHS = (Kind.BOOL, Kind.B1)
EXACT = 2**53  # integers up to here are doubles


def kind_of(b: Builder, value: int) -> Kind:
    kind = b.type(value)
    if not isinstance(kind, Scalar):
        raise Unsupported(f"an operator of {kind}")
    return kind.kind


def binary(b: Builder, symbol: str, left: int, right: int) -> int:
    """`left symbol right`."""
    symbol = symbol.removesuffix("=")
    if symbol == "**":
        return power(b, left, right)
    op = ROWS.get(symbol)
    kinds = kind_of(b, left), kind_of(b, right)
    if op is None or not all(kind in INTEGERS + FLOATING for kind in kinds):
        raise Unsupported(f"the operator {symbol} of {kinds[0].value} and {kinds[1].value}")
    if all(kind in INTEGERS for kind in kinds):
        return of_integers(b, op, left, right)
    if op in ("floor_divide", "remainder"):
        raise Unsupported(f"the operator {symbol} of floating-point numbers")
    left, right = floating(b, left), floating(b, right)
    if op == "divide" and (b.merges or kind_of(b, left) is kind_of(b, right) is Kind.FLOAT):
        b.check(b.let("not_equal", right, b.constant(0.0)))
    return b.let(op, left, right)


def power(b: Builder, left: int, right: int) -> int:
    """`left ** right` of floating-point numbers; the second power of an integer."""
    kinds = kind_of(b, left), kind_of(b, right)
    found = b.constants.get(right)
    if found in (1, 2) and type(found) is int:
        return left if found == 1 else binary(b, "*", left, left)
    if not all(kind in INTEGERS + FLOATING for kind in kinds) or all(kind in INTEGERS for kind in kinds):
        raise Unsupported(f"the operator ** of {kinds[0].value} and {kinds[1].value}")
    left, right = floating(b, left), floating(b, right)
    result = b.let("power", left, right)
    if b.merges or b.type(result) == FLOAT:  # Python raises, or gives a complex number
        b.check(b.let("is_finite", result))
    return result


def of_integers(b: Builder, op: str, left: int, right: int) -> int:
    if op == "divide":
        left, right = exact_float(b, left), exact_float(b, right)
        b.check(b.let("not_equal", right, b.constant(0.0)))
        return b.let(op, left, right)
    if op in ("floor_divide", "remainder"):
        if Kind.I64 in (kind_of(b, left), kind_of(b, right)):
            raise Unsupported("division of NumPy's integers")
        b.check(b.let("greater", right, b.constant(0)))
        return b.let(op, left, right)
    b.check_not(b.let(f"{op}_overflows", left, right))
    return b.let(op, left, right)


def floating(b: Builder, value: int) -> int:
    """The number rounded to a double, as Python and NumPy round integers."""
    kind = kind_of(b, value)
    if kind in FLOATING:
        return value
    if isinstance(found := b.constants.get(value), int):
        return b.constant(float(found))
    return b.let("to_float" if kind is Kind.INT else "to_f64", value)


def as_f64(b: Builder, value: int) -> int:
    """The number as NumPy's. An op also where it is one already: versions with other numbers then have the same ops."""
    return b.let("to_f64", floating(b, value))


def exact_float(b: Builder, value: int) -> int:
    """The number as a double, where that changes nothing: Python compares and divides integers exactly."""
    if kind_of(b, value) in INTEGERS and not abs(int(b.constants.get(value, EXACT + 1).real)) <= EXACT:
        b.check(b.let("less_equal", value, b.constant(EXACT)))
        b.check(b.let("greater_equal", value, b.constant(-EXACT)))
    return floating(b, value)


def compare(b: Builder, symbol: str, left: int, right: int) -> int:
    kinds = kind_of(b, left), kind_of(b, right)
    if not all(kind in INTEGERS + FLOATING for kind in kinds) or symbol not in COMPARED:
        raise Unsupported(f"the comparison {symbol} of {kinds[0].value} and {kinds[1].value}")
    if any(kind in FLOATING for kind in kinds):
        left, right = exact_float(b, left), exact_float(b, right)
    return b.let(COMPARED[symbol], left, right)


def negative(b: Builder, value: int) -> int:
    if kind_of(b, value) in INTEGERS:
        return of_integers(b, "subtract", b.constant(0), value)
    return b.let("negative", value)


def absolute(b: Builder, value: int) -> int:
    if kind_of(b, value) in INTEGERS:
        return b.let("choose", b.let("less", value, b.constant(0)), negative(b, value), value)
    return b.let("absolute", value)


def to_float(b: Builder, value: int) -> int:
    return value if b.type(value) == FLOAT else b.let("to_float", value)


def to_index(b: Builder, value: int) -> int:
    """An integer as Python's, for what indexes with it."""
    kind = kind_of(b, value)
    if kind is Kind.I64:
        return b.let("to_int", value)
    if b.type(value) != INT or b.type(value) == BOOL:
        raise Unsupported(f"an index that is {kind.value}")
    return value
