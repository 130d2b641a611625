"""Functions of single numbers: NumPy's, of Python, of the module math. Each chooses NumPy's loop, and converts its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.loop_ir.rows import ROWS, Rule
from npcompile.tensor_core.loop_ir.types import DTYPES, FLOATING, INTEGERS, KINDS, LIMITS, Kind, dtype_of
from npcompile.tensor_core.op import OPS, Op
from npcompile.tensor_core.transforms.decompose import composition
from npcompile.tracer.loop_ir import numbers
from npcompile.tracer.loop_ir.abstract import Abstract, Named, Raises, Unsupported, Value, in_words
from npcompile.tracer.loop_ir.builder import Builder

UFUNCS: Final = (
    *("sqrt", "exp", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
    *("exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "floor", "ceil", "trunc", "rint", "sign"),
    *("add", "subtract", "multiply", "divide", "negative", "power", "arctan2", "hypot", "maximum", "minimum"),
)
OF_MATH: Final = {
    **{
        name: name
        for name in ("sqrt", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "log", "log1p", "expm1", "log2", "log10")
    },
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
PYTHON_TYPES = {Kind.INT: int, Kind.FLOAT: float, Kind.COMPLEX: complex}  # as resolve_dtypes has weak numbers
Arguments: TypeAlias = Sequence[Abstract]
Function: TypeAlias = Callable[[Builder, Sequence[Abstract]], Abstract]


def value_of(x: Abstract) -> int:
    if not isinstance(x, Value):
        raise Unsupported(f"an argument that is {in_words(x)}")
    return x.value


def require_count(args: Arguments, low: int, high: int) -> None:
    """A call with other numbers of arguments is not known: it may have an `out`, or be wrong."""
    if not low <= len(args) <= high:
        raise Unsupported(f"a call with {len(args)} arguments")


def only(args: Arguments) -> Abstract:
    require_count(args, 1, 1)
    return args[0]


def of_number(rule: Callable[[Builder, int], int]) -> Function:
    def call(b: Builder, args: Arguments) -> Abstract:
        x = only(args)
        return Value(rule(b, value_of(x)))

    return call


def ufunc(op: str, function: np.ufunc) -> Function:
    """One of NumPy's, of numbers."""

    def rule(b: Builder, values: list[int]) -> int:
        values = operands(b, function, values)
        return b.let(op, *values) if numbers.kind_of(b, values[0]) in FLOATING else of_words(b, op, values)

    return lambda b, args: Value(rule(b, [value_of(x) for x in args]))


def operands(b: Builder, function: np.ufunc, values: Sequence[int]) -> list[int]:
    """The numbers as those of the function's loop that NumPy chooses."""
    kinds = [numbers.kind_of(b, value) for value in values]
    weak = any(kind in DTYPES for kind in kinds)  # else all are made arrays first
    types = [PYTHON_TYPES[kind] if weak and kind in PYTHON_TYPES else dtype_of(kind) for kind in kinds]
    try:
        found = function.resolve_dtypes((*types, *(None,) * function.nout))
    except TypeError:  # there is no loop
        found = ()
    loop = [kind for each in found[: function.nin] if (kind := KINDS.get(each)) in FLOATING | INTEGERS]
    if len(loop) < len(values):
        raise Unsupported(f"{function.__name__} of {', '.join(kind.value for kind in kinds)}")
    return [numbers.as_f64(b, x) if kind is Kind.F64 else numbers.converted(b, x, kind) for x, kind in zip(values, loop)]


def of_words(b: Builder, op: str, values: list[int]) -> int:
    """A ufunc of NumPy's integers: what wraps around without a word is left to Python."""
    match op, values:
        case "add" | "subtract" | "multiply", [x, y]:
            return numbers.of_integers(b, op, x, y)
        case "negative", [x]:
            return numbers.negative(b, x)
        case "absolute", [x]:
            return numbers.absolute(b, x)
        case "square", [x]:
            return numbers.of_integers(b, "multiply", x, x)
        case "maximum" | "minimum" | "fmax" | "fmin", [x, y]:
            return b.let("choose", b.let("greater" if "max" in op else "less", x, y), x, y)
        case "floor" | "ceil" | "trunc", [x]:
            return x
        case "sign", [x]:
            zero, one = (numbers.number(b, numbers.kind_of(b, x), value) for value in (0, 1))
            negative = numbers.negative(b, one) if LIMITS[numbers.kind_of(b, x)][0] else one
            below = b.let("choose", b.let("less", x, zero), negative, zero)
            return b.let("choose", b.let("greater", x, zero), one, below)
    raise Unsupported(f"{op} of integers")


def of_python(op: str) -> Function:
    """One of the module `math`: a result that is not finite raises there, or is left to Python."""

    def rule(b: Builder, value: int) -> int:
        result = b.let(op, numbers.to_float(b, numbers.floating(b, value)))
        b.check(b.let("is_finite", result))
        return result

    return of_number(rule)


def extreme(symbol: str) -> Function:
    """Python's min or max of numbers of one kind, which are compared from left to right."""

    def call(b: Builder, args: Arguments) -> Abstract:
        values = [value_of(x) for x in args]
        if len(values) < 2 or len({b.type(value) for value in values}) > 1:
            raise Unsupported("min or max of numbers of several kinds, or of an array")
        best, *rest = values
        for value in rest:
            best = b.let("choose", numbers.compare(b, symbol, value, best), value, best)
        return Value(best)

    return call


def clip(b: Builder, args: Arguments) -> Abstract:
    """Of three numbers."""
    require_count(args, 3, 3)
    x, low, high = operands(b, np._core.umath.clip, [value_of(x) for x in args])  # type: ignore[attr-defined]
    if numbers.kind_of(b, x) in FLOATING:
        return Value(b.let("minimum", b.let("maximum", x, low), high))
    return Value(of_words(b, "minimum", [of_words(b, "maximum", [x, low]), high]))


def numpys_truth(rule: Callable[..., int]) -> Function:
    """What is a truth value of NumPy's, also of Python's numbers."""

    def call(b: Builder, args: Arguments) -> Abstract:
        return Value(numbers.converted(b, rule(b, *map(value_of, args)), Kind.B1))

    return call


def comparison(symbol: str) -> Callable[[Builder, int, int], int]:
    return lambda b, x, y: numbers.compare(b, symbol, x, y)


def logical(op: str) -> Callable[[Builder, int, int], int]:
    return lambda b, x, y: b.let(op, numbers.truth(b, x), numbers.truth(b, y))


def whole(op: str) -> Callable[[Builder, int], int]:
    """A number rounded to an integer of Python's."""

    def rule(b: Builder, value: int) -> int:
        if numbers.kind_of(b, value) is Kind.B1 and op in ("rint", "trunc"):
            raise Raises("a truth value of NumPy's that is rounded")
        if numbers.kind_of(b, value) in FLOATING:
            value = b.let(op, numbers.to_float(b, value))
        return numbers.to_int(b, value)

    return rule


WHOLE: Final = {math.floor: "floor", math.ceil: "ceil", math.trunc: "trunc", round: "rint"}


def constructor(kind: Kind) -> Callable[[Builder, int], int]:
    """`np.float32(x)`."""

    def rule(b: Builder, value: int) -> int:
        if kind is Kind.B1:
            return numbers.stored(b, value, kind)
        old = numbers.kind_of(b, value)
        if kind in INTEGERS and old in INTEGERS and old in DTYPES:  # it wraps around
            return b.let(f"to_{kind.value}", value)
        return numbers.as_f64(b, value) if kind is Kind.F64 else numbers.converted(b, value, kind)

    return rule


OF_NUMBERS: Final[dict[Named, Function]] = {
    float: of_number(numbers.to_float),
    int: of_number(numbers.to_int),
    bool: of_number(numbers.truth),
    **{dtype.type: of_number(constructor(kind)) for kind, dtype in DTYPES.items()},
    max: extreme(">"),
    min: extreme("<"),
    np.square: ufunc("square", np.square),
    np.clip: clip,
    np.isnan: numpys_truth(lambda b, x: b.let("not_equal", x, x)),
    np.isfinite: numpys_truth(lambda b, x: b.let("is_finite", numbers.floating(b, x))),
    math.isnan: of_number(lambda b, x: b.let("not_equal", *[numbers.to_float(b, x)] * 2)),
    math.isfinite: of_number(lambda b, x: b.let("is_finite", numbers.to_float(b, x))),
    **{function: of_number(whole(op)) for function, op in WHOLE.items()},
    **{getattr(np, op): numpys_truth(comparison(symbol)) for symbol, op in numbers.COMPARED.items()},
    **{getattr(np, f"logical_{op}"): numpys_truth(logical(f"bitwise_{op}")) for op in ("and", "or", "xor")},
    np.logical_not: numpys_truth(lambda b, x: b.let("logical_not", x)),
    **{function: ufunc("absolute", function) for function in (np.abs, np.fabs)},
    **{getattr(np, name): ufunc(name, getattr(np, name)) for name in UFUNCS},
    **{getattr(math, name): of_python(row) for name, row in OF_MATH.items()},
}


def of_row(op: Op) -> Function:
    """A function of float64 that the op table has, of numbers that are converted to these: its primitives one after another."""

    def rule(b: Builder, values: list[int]) -> int:
        is_ufunc = isinstance(op.numpy, np.ufunc)
        if op.name in ROWS and len(values) != ROWS[op.name].arity:
            raise Unsupported(f"a call with {len(values)} arguments")
        values = operands(b, op.numpy, values) if is_ufunc else [numbers.as_f64(b, value) for value in values]
        kinds = [numbers.kind_of(b, value) for value in values]
        if not all(kind in FLOATING for kind in kinds):
            raise Unsupported(f"{op.name} of integers")
        graph = composition(op.name, tuple(map(dtype_of, kinds)))
        made = dict(zip(graph.inputs, values, strict=True))
        for node in graph.nodes[len(values) :]:
            made[node] = number_of(b, node, made)
        return made[graph.outputs[0]]

    return lambda b, args: Value(rule(b, [value_of(x) for x in args]))


def number_of(b: Builder, node: Node, made: Mapping[Node, int]) -> int:
    if node.op == "constant":
        if node.dtype == np.float32:
            return numbers.number(b, Kind.F32, float(np.float32(node.params["value"])))
        return b.constant(float(node.params["value"]))
    if node.op not in ROWS:
        raise Unsupported(f"{node.op} of single numbers")
    return b.let(node.op, *(made[x] for x in node.inputs))


def add_row(op: Op) -> None:
    is_primitive = op.name in ROWS and ROWS[op.name].rule is Rule.FLOATING and isinstance(op.numpy, np.ufunc)
    if op.numpy not in OF_NUMBERS and (is_primitive or op.kind == "elementwise" and op.decomposition is not None):
        OF_NUMBERS[op.numpy] = of_row(op)


OPS.for_each(add_row)
