"""Python numbers made of array data: bool(x), int(x) and float(x), which stay in the graph until a real one is needed.

And lists and bytes made of it, of which nothing is known but that they are made when the program has run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.numpy_shim import operators as array_operators
from npcompile.numpy_shim.indexing import getitem
from npcompile.tensor_core.array import Array, cast, fresh, reshaped
from npcompile.tensor_core.dim import Dim, same
from npcompile.tensor_core.meta import Decline, TensorMeta, product
from npcompile.tensor_core.number import Number
from npcompile.tracer.capture import Capture
from npcompile.tracer.python import arithmetic, forward, operators
from npcompile.tracer.values import Constant, Converted, PythonNumber, Truth

# Whose Python number is known to be the element as int64 or float64.
CONVERTED = {int: "bi", float: "biuf"}
EXACT = 2**53  # integers up to here are floats


def made_of(capture: Capture, kind: type, x: Any) -> PythonNumber | Truth | None:
    """kind(x) of array data; None where that is not captured."""
    if kind is bool:
        return operators.either(capture, [Truth(x)], "logical_or")
    is_element = isinstance(x, Array) and not x.ndim and x.dtype.kind in CONVERTED.get(kind, "")
    if not is_element or capture.goes_through_gradients or capture.bodies:
        return None
    node = cast(capture.builder, x.node, np.dtype(kind))
    return PythonNumber(fresh(capture.builder, node, boxed=False), kind)


@forward.to_python.defined
def to_python(method: str, capture: Capture, x: Array, arguments: list[Any]) -> Any:
    """x.item(), x.tolist() and x.tobytes(), by the method's name."""
    if method == "item" or method == "tolist" and not x.ndim and not arguments:
        return item(capture, x, arguments)
    return converted(method, capture, x, arguments)


def item(capture: Capture, x: Array, place: list[Any]) -> PythonNumber | Truth:
    """x.item() of one element, or x.item(place) of the one that is there."""
    x = element(capture, x, place)
    kind = {"b": bool, "i": int, "u": int, "f": float}.get(x.dtype.kind)
    kind = None if x.dtype.char == "g" else kind  # of a longdouble it is the longdouble
    made = None if kind is None or x.ndim else made_of(capture, kind, x)
    if made is None:
        raise Decline("a Python number made of array data", "A NumPy scalar stays in the graph.")
    return made


def element(capture: Capture, x: Array, place: Sequence[Any]) -> Array:
    """One integer counts in C order; several, or a tuple of them, are one for each axis."""
    if not place:
        return getitem(capture.builder, x, (0,) * x.ndim) if x.ndim and all(same(n, 1) for n in x.shape) else x
    place = place[0] if len(place) == 1 and isinstance(place[0], tuple) else place
    if not all(isinstance(k, (int, Dim)) and not isinstance(k, bool) for k in place):
        raise Decline("the place of an item that is not a Python integer")
    if len(place) == 1 and x.ndim != 1:
        x = fresh(capture.builder, reshaped(capture.builder, x.node, (product(x.shape),)))
    if len(place) != x.ndim:
        raise Decline("incorrect number of indices for array")
    return getitem(capture.builder, x, tuple(place)) if place else x


def converted(method: str, capture: Capture, x: Array, arguments: list[Any]) -> Converted:
    """x.tolist() or x.tobytes(), of what x holds now."""
    if arguments not in ([], ["C"]) or method == "tolist" and arguments:
        raise Decline(f"{method} with arguments")
    if method == "tobytes" and x.dtype.char in "gG":
        raise Decline("the bytes between longdoubles, which are not part of them")
    if capture.goes_through_gradients or capture.bodies:
        raise Decline(f"{method} in a loop or branch of the graph, or where gradients go through")
    index = capture.stands_at
    is_native = index in capture.decisions.native_calls  # it is made there, for another reason or by another call
    return Converted(fresh(capture.builder, x.node, TensorMeta(x.shape, x.dtype)), method, None if is_native else index)


def square_root(capture: Capture, x: Any) -> PythonNumber | None:
    """math.sqrt(x): NumPy's, where that raises nothing. The program asks at its end whether x was negative."""
    number = x if isinstance(x, PythonNumber) else made_of(capture, float, x)
    if not isinstance(number, PythonNumber) or number.kind is not float:
        return None
    builder, node = capture.builder, number.array.node
    builder.apply("require_none", builder.apply("less", node, builder.constant(0.0, node.dtype)))
    return PythonNumber(fresh(builder, builder.apply("sqrt", node), boxed=False), float)


def as_operand(number: PythonNumber | Truth, capture: Capture) -> Array:
    """A scalar, of which only the type counts in promotions (NEP 50). A bool counts as NumPy's."""
    if isinstance(number, Truth):
        return operators.either(capture, [number], "logical_or").array
    x = number.array
    return Array(x.storage, x.steps, x.meta.with_(weak=True))


def met(capture: Capture, number: Any, other: Any) -> Any:
    """The array, of NumPy or traced, that a number made of data meets; else None. Declines where it may not hold an integer."""
    array = arithmetic.plain_number(other)
    if not isinstance(number, (PythonNumber, Truth)) or not isinstance(array, (Array, np.ndarray, np.generic)):
        return None
    if isinstance(array, Array) and array.meta.weak:
        raise Decline("two Python numbers made of array data")
    if isinstance(number, PythonNumber) and number.kind is int and array.dtype.kind in "biu" and array.dtype != np.int64:
        raise Decline("a Python integer made of array data in an array of another dtype")
    return array


def operands_of(capture: Capture, left: Any, right: Any) -> tuple[Any, Any] | None:
    """What NumPy's operator is given, where an array takes part."""
    if (array := met(capture, left, right)) is not None:
        return as_operand(left, capture), array
    if (array := met(capture, right, left)) is not None:
        return array, as_operand(right, capture)
    return None


@forward.number_binary.defined
def binary(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    """NumPy's where an array takes part; Python's on floats where that is the same and raises nothing."""
    if (operands := operands_of(capture, left, right)) is not None:
        return operators.lift(array_operators.BINARY[symbol](capture.builder, *operands))
    if not any(isinstance(v, PythonNumber) for v in (left, right)):
        return NotImplemented
    a, b = float_operand(capture, left), float_operand(capture, right)
    is_float = any(getattr(v, "kind", type(arithmetic.plain_number(v))) is float or isinstance(v, Number) for v in (left, right))
    divides = symbol == "/" and isinstance(right, Constant) and right.value != 0
    if not is_float or symbol not in ("+", "-", "*") and not divides:
        raise Decline(f"{symbol} of Python numbers made of array data", "NumPy scalars stay in the graph.")
    result = array_operators.BINARY[symbol](capture.builder, a, b)
    return PythonNumber(fresh(capture.builder, result.node, boxed=False), float)


def float_operand(capture: Capture, value: Any) -> Array:
    """A Python number as a float64, which it is exactly."""
    if isinstance(value, PythonNumber):
        node = value.array.node
        if value.kind is int:
            raise Decline("a Python integer made of array data in arithmetic")
        return fresh(capture.builder, node, boxed=False)
    if isinstance(value, Number) and value.type is float:
        return fresh(capture.builder, value.node(capture.builder), boxed=False)
    number = arithmetic.plain_number(value)
    if type(number) is float or type(number) is int and abs(number) <= EXACT:
        return fresh(capture.builder, capture.builder.constant(float(number), np.dtype(float)), boxed=False)
    raise Decline("arithmetic of a Python number made of array data")


@forward.number_compare.defined
def compare(capture: Capture, symbol: str, left: Any, right: Any) -> Any:
    if (operands := operands_of(capture, left, right)) is not None:
        return operators.lift(array_operators.COMPARE[symbol](capture.builder, *operands))
    if not any(isinstance(v, PythonNumber) for v in (left, right)):
        return NotImplemented
    if symbol in ("==", "!=") and any(operators.is_none(v) for v in (left, right)):
        return Constant(symbol == "!=")
    a, b = constant_integer(capture, left), constant_integer(capture, right)
    if a is None or b is None:
        a, b = float_operand(capture, left), float_operand(capture, right)
    return Truth(array_operators.COMPARE[symbol](capture.builder, a, b))


def constant_integer(capture: Capture, value: Any) -> Array | None:
    """An integer as int64, None for what is not one."""
    if isinstance(value, PythonNumber) and value.kind is int:
        return value.array
    if isinstance(value, Constant) and type(value.value) is int and abs(value.value) < 2**63:
        return fresh(capture.builder, capture.builder.constant(value.value, np.dtype(np.int64)), boxed=False)
    return None


@forward.number_unary.defined
def unary(capture: Capture, symbol: str, x: Any) -> Any:
    if not isinstance(x, PythonNumber):
        return NotImplemented
    if x.kind is not float or symbol not in ("-", "+"):
        raise Decline(f"{symbol} of a Python number made of array data")
    result = array_operators.UNARY[symbol](capture.builder, x.array)
    return PythonNumber(fresh(capture.builder, result.node, boxed=False), float)


@forward.number_truth.defined
def truth(capture: Capture, x: Any) -> Any:
    return Truth(x.array) if isinstance(x, PythonNumber) else NotImplemented


@forward.number_lowered.defined
def lowered(capture: Capture, x: Any) -> Any:
    """As an argument of a NumPy function: an integer must fit into what it meets, which is not known here."""
    if isinstance(x, Truth) or isinstance(x, PythonNumber) and x.kind is float:
        return as_operand(x, capture)
    return NotImplemented
