"""Python's operators on numbers, with the Checks under which a word or a division is exact.

What a word does not hold is left to Python: it has longer integers, and NumPy warns.
"""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.ops import Constant
from npcompile.tensor_core.loop_ir.states import Literal
from npcompile.tensor_core.loop_ir.types import (
    DTYPES,
    FLOAT,
    FLOATING,
    INTEGERS,
    LIMITS,
    NUMPYS,
    TRUTHS,
    Kind,
    Scalar,
    dtype_of,
    kind_in_words,
    promoted,
)
from npcompile.tracer.loop_ir.abstract import Raises, Unsupported
from npcompile.tracer.loop_ir.builder import Builder

ROWS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder"}
BITWISE = {"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "left_shift", ">>": "right_shift"}
OF_TRUTHS = {"add": "bitwise_or", "multiply": "bitwise_and"}  # of NumPy's
COMPARED = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal"}
DOUBLES = (Kind.FLOAT, Kind.F64)  # are not converted to each other: versions with either then have the same ops
WORDS = (Kind.INT, Kind.I64)  # nor are these
EXACT = 2**53  # integers up to here are doubles
LARGE = 1e30  # floats between this and its reciprocal are rounded without an error
MOST_FACTORS = 8  # of a power of an integer that is multiplied out


def kind_of(b: Builder, value: int) -> Kind:
    kind = b.type(value)
    if not isinstance(kind, Scalar):
        raise Unsupported(f"an operator of {kind_in_words(kind)}")
    return kind.kind


def numpys_kind_of(b: Builder, value: int) -> Kind:
    kind = kind_of(b, value)
    return NUMPYS.get(kind, kind)


def real_kind_of(b: Builder, value: int) -> Kind:
    kind = kind_of(b, value)
    if kind not in FLOATING | INTEGERS | TRUTHS:
        raise Unsupported("a complex number that is converted to a real one")
    return kind


def number(b: Builder, kind: Kind, value: Literal) -> int:
    """A constant of this kind, which it is exactly."""
    result = b.new(Scalar(kind))
    b.emit(Constant(result, value, b.at))
    b.constants[result] = value
    return result


# --- conversions


def converted(b: Builder, value: int, kind: Kind) -> int:
    """The number as this kind, as NumPy converts operands: an integer that is not in its range is left to Python."""
    old = real_kind_of(b, value)
    if old is kind:
        return value
    if kind in INTEGERS:
        if old in FLOATING:
            return truncated(b, value, kind)
        check_range(b, value, kind)
    if kind is Kind.F32 and old in INTEGERS and dtype_of(old).itemsize > 2:
        value = floating(b, value)  # NumPy rounds twice
    return folded(b, value, kind) or b.let(f"to_{kind.value}", value)


def folded(b: Builder, value: int, kind: Kind) -> int | None:
    """A constant, where one is converted without an error to a kind that no version joins with another."""
    found = b.constants.get(value)
    if found is None or kind in DOUBLES or kind not in DTYPES or isinstance(found, complex):
        return None
    least, greatest = LIMITS.get(kind, (-LARGE, LARGE))
    if kind not in TRUTHS and not least <= found <= greatest or kind is Kind.F32 and 0 < abs(found) < 1 / LARGE:
        return None
    return number(b, kind, DTYPES[kind].type(found).item())


def check_range(b: Builder, value: int, kind: Kind) -> None:
    """Leaves where an integer is not in a word's range."""
    old = kind_of(b, value)
    if old in TRUTHS:
        return
    (least, greatest), (lowest, highest) = LIMITS[kind], LIMITS[old]
    if isinstance(found := b.constants.get(value), int):
        lowest = highest = found
    wide = value if old in (Kind.INT, Kind.U64) else b.let("to_int", value)
    own = kind_of(b, wide)
    for limit, name, is_wider in ((least, "greater_equal", lowest < least), (greatest, "less_equal", highest > greatest)):
        if is_wider:
            b.check(b.let(name, wide, number(b, own, limit)))


def truncated(b: Builder, value: int, kind: Kind) -> int:
    """A floating-point number as an integer of a word. The limits are powers of 2, and so are doubles."""
    least, greatest = LIMITS[kind]
    wide = floating(b, value)
    b.check(b.let("greater_equal", wide, b.constant(float(least))))
    b.check(b.let("less", wide, b.constant(float(greatest + 1))))
    return b.let(f"to_{kind.value}", wide)


def floating(b: Builder, value: int) -> int:
    """The number rounded to a double, as Python and NumPy round integers."""
    kind = real_kind_of(b, value)
    if kind in DOUBLES:
        return value
    if kind not in DTYPES and (found := b.constants.get(value)) is not None:
        return b.constant(float(found.real))
    return b.let("to_f64" if kind in DTYPES else "to_float", value)


def as_f64(b: Builder, value: int) -> int:
    """The number as NumPy's. An op also where it is one already: versions with other numbers then have the same ops."""
    return b.let("to_f64", floating(b, value))


def stored(b: Builder, value: int, element: Kind) -> int:
    """The number as an array keeps it."""
    real_kind_of(b, value)
    if element is Kind.F64:
        return b.let("to_f64", value)  # as in as_f64
    if element is Kind.B1 and kind_of(b, value) not in TRUTHS:
        value = b.let("truth", value)
    return converted(b, value, element)


def exact_float(b: Builder, value: int) -> int:
    """The number as a double, where that changes nothing: Python compares and divides integers exactly."""
    if kind_of(b, value) in WORDS and not abs(int(b.constants.get(value, EXACT + 1).real)) <= EXACT:
        b.check(b.let("less_equal", value, b.constant(EXACT)))
        b.check(b.let("greater_equal", value, b.constant(-EXACT)))
    return floating(b, value)


def to_float(b: Builder, value: int) -> int:
    real_kind_of(b, value)
    return value if b.type(value) == FLOAT else b.let("to_float", value)


def to_index(b: Builder, value: int) -> int:
    """An integer as Python's, for what indexes with it."""
    kind = kind_of(b, value)
    if kind not in INTEGERS:
        raise (Raises if kind in FLOATING else Unsupported)(f"an index that is {kind.value}")
    return converted(b, value, Kind.INT)


def to_int(b: Builder, value: int) -> int:
    """`int(value)`."""
    return converted(b, value, Kind.INT)


def truth(b: Builder, value: int) -> int:
    """Python's truth value of a number."""
    return value if kind_of(b, value) is Kind.BOOL else b.let("truth", value)


# --- operators


def binary(b: Builder, symbol: str, left: int, right: int) -> int:
    """`left symbol right`."""
    symbol = symbol.removesuffix("=")
    if symbol == "**":
        return power(b, left, right)
    op = ROWS.get(symbol) or BITWISE.get(symbol)
    kinds = kind_of(b, left), kind_of(b, right)
    common = promoted(*kinds)
    if common in FLOATING and symbol in BITWISE:
        raise Raises(f"the operator {symbol} of a floating-point number")
    if op is None or common not in FLOATING | INTEGERS | TRUTHS:
        raise Unsupported(f"the operator {symbol} of {kinds[0].value} and {kinds[1].value}")
    if common is Kind.BOOL and symbol not in "&|^":
        common = Kind.INT
    if common in TRUTHS:
        return of_truths(b, symbol, op, left, right)
    if common in FLOATING:
        return of_floating(b, op, common, left, right)
    if not set(kinds) <= set(WORDS):
        left, right = converted(b, left, common), converted(b, right, common)
    return of_integers(b, op, left, right)


def of_truths(b: Builder, symbol: str, op: str, left: int, right: int) -> int:
    """Of NumPy's, and of Python's where that makes no integers of them."""
    if op == "divide":
        return of_floating(b, op, Kind.F64, left, right)
    if op not in OF_TRUTHS and symbol not in "&|^":
        raise (Raises if symbol == "-" else Unsupported)(f"the operator {symbol} of truth values")
    return b.let(OF_TRUTHS.get(op, op), left, right)


def of_floating(b: Builder, op: str, common: Kind, left: int, right: int) -> int:
    left, right = (floating(b, x) if common in DOUBLES else converted(b, x, common) for x in (left, right))
    of_python = kind_of(b, left) is kind_of(b, right) is Kind.FLOAT
    if op in ("floor_divide", "remainder") or op == "divide" and (b.merges or of_python):
        b.check(b.let("not_equal", right, number(b, kind_of(b, right), 0.0)))
    return b.let(op, left, right)


def of_integers(b: Builder, op: str, left: int, right: int) -> int:
    """Of two integers of one word."""
    if op == "divide":
        left, right = exact_float(b, left), exact_float(b, right)
        b.check(b.let("not_equal", right, b.constant(0.0)))
        return b.let(op, left, right)
    if op in ("floor_divide", "remainder"):
        b.check(b.let("greater", right, number(b, kind_of(b, right), 0)))
        return b.let(op, left, right)
    if op in ("left_shift", "right_shift"):
        b.check(b.let("is_index", converted(b, right, Kind.INT), b.constant(8 * dtype_of(kind_of(b, left)).itemsize - 1)))
    if op in ("add", "subtract", "multiply") or op == "left_shift" and kind_of(b, left) is Kind.INT:
        b.check_not(b.let(f"{op}_overflows", left, right))
    return b.let(op, left, right)


def power(b: Builder, left: int, right: int) -> int:
    """`left ** right` of floating-point numbers; of integers where the second is a small constant."""
    kinds = kind_of(b, left), kind_of(b, right)
    common = promoted(*kinds)
    found = b.constants.get(right)
    if common in INTEGERS and type(found) is int and 1 <= found <= MOST_FACTORS:
        base = result = converted(b, left, common)
        for _ in range(found - 1):
            result = of_integers(b, "multiply", result, base)
        return result
    if type(found) is int and found in (1, 2) and kinds[0] in FLOATING and not b.is_exact:
        return left if found == 1 else b.let("multiply", left, left)
    if common not in FLOATING:
        raise Unsupported(f"the operator ** of {kinds[0].value} and {kinds[1].value}")
    left, right = (floating(b, x) if common in DOUBLES else converted(b, x, common) for x in (left, right))
    result = b.let("power", left, right)
    if b.merges or b.type(result) == FLOAT:  # Python raises, or gives a complex number
        b.check(b.let("is_finite", result))
    return result


def compare(b: Builder, symbol: str, left: int, right: int) -> int:
    kinds = kind_of(b, left), kind_of(b, right)
    common = promoted(*kinds)
    if symbol not in COMPARED or not set(kinds) <= FLOATING | INTEGERS | TRUTHS or common is None:
        raise Unsupported(f"the comparison {symbol} of {kinds[0].value} and {kinds[1].value}")
    if set(kinds) & FLOATING:
        if common is Kind.F32:
            left, right = converted(b, left, common), converted(b, right, common)
        else:
            left, right = exact_float(b, left), exact_float(b, right)
    elif Kind.U64 in kinds:
        left, right = converted(b, left, Kind.U64), converted(b, right, Kind.U64)
    else:  # NumPy compares integers exactly
        left, right = (x if kind in WORDS else converted(b, x, word_of(kind)) for x, kind in zip((left, right), kinds))
    return b.let(COMPARED[symbol], left, right)


def word_of(kind: Kind) -> Kind:
    """The word of 64 bits, Python's or NumPy's, for this kind's numbers."""
    return Kind.I64 if kind in DTYPES else Kind.INT


def negative(b: Builder, value: int) -> int:
    value = without_truths(b, value)
    kind = kind_of(b, value)
    if kind in INTEGERS:
        return of_integers(b, "subtract", b.constant(0) if kind in WORDS else number(b, kind, 0), value)
    return b.let("negative", value)


def absolute(b: Builder, value: int) -> int:
    if kind_of(b, value) is Kind.B1:
        return value
    value = without_truths(b, value)
    kind = kind_of(b, value)
    if kind not in INTEGERS:
        return b.let("absolute", value)
    if not LIMITS[kind][0]:
        return value
    return b.let("choose", b.let("less", value, number(b, kind, 0)), negative(b, value), value)


def inverted(b: Builder, value: int) -> int:
    """`~value`."""
    if kind_of(b, value) is Kind.B1:
        return b.let("bitwise_xor", value, number(b, Kind.B1, True))
    if kind_of(b, value := without_truths(b, value)) not in INTEGERS:
        raise Raises("the operator ~ of a floating-point number")
    return b.let("invert", value)


def without_truths(b: Builder, value: int) -> int:
    """Python's truth values are integers in arithmetic; NumPy's have none of a sign."""
    kind = kind_of(b, value)
    if kind is Kind.B1:
        raise Raises("an operator of NumPy's truth value")
    return converted(b, value, Kind.INT) if kind is Kind.BOOL else value
