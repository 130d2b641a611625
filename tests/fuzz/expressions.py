"""Random expressions: each function takes the Writer and the text of an operand, and returns text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.writer import Rejected, Writer, is_dyadic, kind

ARITHMETIC = ("+", "-", "*", "+", "-", "*", "/", "//", "%", "**")
BITWISE = ("&", "|", "^", "<<", ">>")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
EXACT_UNARY = (
    "np.negative",
    "np.absolute",
    "np.square",
    "np.sign",
    "np.floor",
    "np.isnan",
    "np.isfinite",
    "np.logical_not",
    "np.conjugate",
    "np.positive",
    "np.rint",
    "np.ceil",
    "np.trunc",
    "np.invert",
    "np.signbit",
    "np.reciprocal",
)
INEXACT_UNARY = (
    "np.sin",
    "np.exp",
    "np.tanh",
    "np.cos",
    "np.arctan",
    "np.expm1",
    "np.cbrt",
    "np.sqrt",
    "np.log1p",
    "np.square",
    "np.absolute",
    "np.negative",
    "np.conjugate",
    "np.exp2",
    "np.arcsinh",
    "np.deg2rad",
)
EXACT_BINARY = (
    "np.add",
    "np.subtract",
    "np.multiply",
    "np.maximum",
    "np.minimum",
    "np.fmax",
    "np.logical_and",
    "np.logical_xor",
    "np.floor_divide",
    "np.equal",
    "np.less",
    "np.divide",
    "np.remainder",
    "np.copysign",
    "np.greater_equal",
    "np.fmin",
    "np.bitwise_and",
    "np.left_shift",
    "np.gcd",
)
INEXACT_BINARY = ("np.add", "np.subtract", "np.multiply", "np.maximum", "np.arctan2", "np.hypot", "np.divide", "np.logaddexp")
DISCRETE = ("//", "%", "floor", "rint", "ceil", "trunc", "sign", "round", "isnan", "isfinite", "remainder", "<", ">", "==", "!=")


def scalar(w: Writer) -> str:
    names = w.numbers()
    if names and w.chance(3):
        return w.pick(names)
    return w.pick(
        ["2", "1", "3", "0.5", "-1", "2.0", "-2", "0", "True", "1.5", "np.float32(0.5)", "np.int8(3)", "1j", "np.float64(2)"]
    )


def atom(w: Writer, test: Callable[[Any], bool] = lambda x: True) -> str:
    return w.array(test)


def operand(w: Writer, x: str) -> str:
    """Something that an operator may combine with x."""
    choice = w.integer(0, 5)
    if choice <= 1:
        return scalar(w)
    shape = np.shape(w.value(x))

    def fits(y: Any) -> bool:
        try:
            np.broadcast_shapes(shape, np.shape(y))
        except ValueError:
            return False
        return True

    other = w.array(fits)
    return f"{other}{w.pick(['.T', '[::-1]', '.copy()', '[0]'])}" if choice == 5 else other


def arithmetic(w: Writer, x: str) -> str:
    other = operand(w, x)
    symbol = w.pick(ARITHMETIC if w.is_exact else ("+", "-", "*", "/"))
    if symbol == "**":
        other = w.pick(["2", "3", "1", "0", "2.0", "0.5", "-1", "True"] if not w.is_exact else ["2", "3", "1", "0"])
    return f"({x} {symbol} {other})" if w.chance(2) or symbol == "**" else f"({other} {symbol} {x})"


def bitwise(w: Writer, x: str) -> str:
    if kind(w.value(x)) not in "biu":
        raise Rejected
    other = w.array(lambda y: kind(y) in "biu") if w.chance(2) else w.pick(["1", "3", "True", "2"])
    return f"({x} {w.pick(BITWISE)} {other})"


def comparison(w: Writer, x: str) -> str:
    return f"({x} {w.pick(COMPARISONS)} {operand(w, x)})"


def unary(w: Writer, x: str) -> str:
    return f"({w.pick(['-', '+', '~', '-'])}{x})"


def ufunc(w: Writer, x: str) -> str:
    if w.chance(2):
        name = w.pick(EXACT_UNARY if w.is_exact else INEXACT_UNARY)
        arguments = [x]
    else:
        name = w.pick(EXACT_BINARY if w.is_exact else INEXACT_BINARY)
        arguments = [x, operand(w, x)]
    option = w.integer(0, 9)
    if option == 0:
        arguments.append(f"dtype={w.pick(['np.float64', 'np.float32', 'int', 'complex', 'bool'])}")
    elif option == 1:
        arguments.append(f"where={w.array(lambda y: kind(y) == 'b')}, out={out_array(w)}")
    elif option == 2:
        arguments.append(f"out={out_array(w)}")
    return f"{name}({', '.join(arguments)})"


def out_array(w: Writer) -> str:
    return w.array(lambda y: isinstance(y, np.ndarray) and y.flags.writeable)


def axis_of(w: Writer, x: str) -> str:
    ndim = np.ndim(w.value(x))
    choices = ["None", *map(str, range(-ndim, ndim))]
    return w.pick([*choices, "(0, -1)" if ndim > 1 else "0"])


def reduction(w: Writer, x: str) -> str:
    exact = ("sum", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "mean", "prod", "ptp", "count_nonzero")
    name = w.pick(exact if w.is_exact else ("sum", "mean", "std", "var", "prod", "max", "cumsum"))
    if w.is_exact and name in ("sum", "cumsum", "mean") and not is_dyadic(w.value(x)):
        raise Rejected
    if w.is_exact and name == "prod" and kind(w.value(x)) in "fc":
        raise Rejected
    if name in ("argmax", "argmin", "cumsum"):
        keywords = w.pick(["", "axis=0", "axis=-1", "0"])
    else:
        keywords = w.pick(["", f"axis={axis_of(w, x)}", axis_of(w, x), f"axis={axis_of(w, x)}, keepdims=True"])
    if name in ("sum", "prod") and w.chance(6):
        keywords = f"dtype={w.pick(['float', 'int', 'np.float32', 'complex'])}"
    if name in ("ptp", "count_nonzero") or w.chance(3):
        return f"np.{name}({x}{', ' if keywords else ''}{keywords})"
    return f"{x}.{name}({keywords})"


def ufunc_method(w: Writer, x: str) -> str:
    name = w.pick(["add", "maximum", "logical_or", "minimum", "bitwise_xor", "multiply"] if w.is_exact else ["add", "multiply"])
    if w.is_exact and name in ("add", "multiply") and not (is_dyadic(w.value(x)) and (name == "add" or kind(w.value(x)) in "bi")):
        raise Rejected
    method = w.pick(["reduce", "accumulate", "outer"])
    if method == "outer":
        return f"np.{name}.outer({x}, {w.array(lambda y: np.size(y) < 20)})"
    return f"np.{name}.{method}({x}{w.pick(['', ', axis=0', ', axis=-1'])})"


def index(w: Writer, shape: tuple[int, ...], basic: bool = False) -> str:
    """A subscript for an array of that shape."""
    parts = []
    arrays = 0
    for n in shape[: w.integer(0 if not shape else 1, len(shape))]:
        choice = w.integer(0, 9 if not basic else 6)
        if choice == 0:
            parts.append(w.pick(["0", "-1", "1", *w.numbers(int)]))
        elif choice <= 2:
            parts.append(":")
        elif choice <= 5:
            bound = ["", "", "1", "2", "-1", "0", "-2", "5", *w.numbers(int)]
            parts.append(f"{w.pick(bound)}:{w.pick(bound)}{w.pick(['', '', ':-1', ':2', ':-2'])}")
        elif choice == 6:
            parts.append("None")
        elif choice == 7 and n:
            parts.append(w.pick(["[0, -1]", "[0]", "[[0], [-1]]", "[-1, 0]", "np.array([0, 0, -1])"]))
            arrays += 1
        else:
            integers = w.arrays(lambda y: kind(y) in "iu" and np.size(y) and 0 <= np.min(y) and np.max(y) < n)
            parts.append(w.pick(integers) if integers else ":")
    if w.chance(6):
        parts.insert(w.integer(0, len(parts)), "...")
    if w.chance(8):
        parts.insert(w.integer(0, len(parts)), "None")
    return ", ".join(parts) or w.pick(["...", "()", "None"])


def mask(w: Writer, x: str) -> str:
    """A boolean index that fits x."""
    shape = np.shape(w.value(x))
    masks = w.arrays(lambda y: kind(y) == "b" and isinstance(y, np.ndarray) and y.ndim and y.shape == shape[: y.ndim])
    if masks and w.chance(2):
        return w.pick(masks)
    if not w.is_exact and kind(w.value(x)) in "fc":
        raise Rejected
    return f"{x} {w.pick(['>', '<', '=='])} {w.pick(['0', '1'])}"


def subscript(w: Writer, x: str) -> str:
    if w.breaks and w.chance(8):
        return f"{x}[{mask(w, x)}]"
    return f"{x}[{index(w, np.shape(w.value(x)))}]"


def view(w: Writer, x: str) -> str:
    shape = np.shape(w.value(x))
    ndim = len(shape)
    axes = [w.integer(-ndim, ndim - 1) for _ in range(2)] if ndim else [0, 0]
    return w.pick(
        [
            f"{x}.T",
            f"{x}.reshape(-1)",
            f"{x}.ravel()",
            f"{x}.reshape({x}.shape[::-1])",
            f"{x}.flatten()",
            f"{x}.real",
            f"{x}.imag",
            f"{x}[..., None]",
            f"{x}.squeeze()",
            f"{x}.swapaxes({axes[0]}, {axes[1]})",
            f"np.expand_dims({x}, {axes[0]})",
            f"{x}.reshape(-1, {shape[-1] if shape else 1})",
            f"np.broadcast_to({x}, (2, *{x}.shape))",
            f"np.moveaxis({x}, {axes[0]}, {axes[1]})",
            f"{x}.reshape(-1, order='F')",
            f"np.flip({x})",
            f"{x}.diagonal()",
            f"np.atleast_2d({x})",
            f"np.ravel({x}, order='K')",
            f"{x}.transpose()",
            f"{x}.view()",
            f"np.asarray({x})",
            f"np.ascontiguousarray({x})",
            f"np.asfortranarray({x})",
            f"np.reshape({x}, (1, -1))",
            f"{x}.view(np.{w.pick(['uint8', 'int64', 'float32'])})" if w.is_exact else f"{x}.T[::-1]",
        ]
    )


def copy(w: Writer, x: str) -> str:
    dtype = w.pick(["float", "np.float32", "np.int64", "np.int32", "bool", "complex", "np.float16"])
    if dtype in ("np.int64", "np.int32", "bool") and not is_convertible(w.value(x)):
        raise Rejected
    if not w.is_exact and dtype in ("np.int64", "np.int32", "bool", "np.float16"):
        dtype = "float"
    order = w.pick(["C", "F", "K", "A"])
    return w.pick(
        [
            f"{x}.copy()",
            f"{x}.astype({dtype})",
            f"np.array({x})",
            f"{x}.copy(order='{order}')",
            f"np.array({x}, order='{order}')",
            f"{x}.astype({dtype}, copy=False)",
            f"np.array({x}, dtype={dtype})",
            f"np.asarray({x}, {dtype})",
        ]
    )


def is_convertible(value: Any) -> bool:
    """Does C define what these numbers are as signed integers?"""
    x = np.asarray(value)
    return x.dtype.kind not in "fc" or bool(np.isfinite(x).all() and (np.abs(x) < 100).all())


def creation(w: Writer, x: str) -> str:
    shape = w.pick([f"{x}.shape", "3", "(2, 3)", "()", f"len({x})" if np.ndim(w.value(x)) else "0", f"{x}.ndim"])
    dtype = w.pick(["", "", ", dtype=int", ", dtype=bool", ", dtype=np.float32", ", dtype=complex"])
    size = w.pick([f"{x}.size", "4", *w.numbers(int)])
    return w.pick(
        [
            f"np.zeros({shape}{dtype})",
            f"np.ones({shape}{dtype})",
            f"np.full({shape}, {scalar(w)})",
            f"np.zeros_like({x}{dtype})",
            f"np.ones_like({x})",
            f"np.full_like({x}, {w.pick(['1', '2', '0'])})",
            f"np.arange({size}{dtype.replace('bool', 'int')})",
            f"np.arange(1, {size}, 2)",
            "np.eye(3)",
            f"np.linspace(0, 1, {w.pick(['5', '3'])})",
            f"np.array([{scalar(w)}, {scalar(w)}])",
            f"np.array([[1, 2], [3, {scalar(w)}]])",
            f"np.zeros_like({x}) + 1",  # what np.empty_like finds there may be NaN in a later round
            f"np.arange({size}).reshape(-1, 1)",
            f"np.identity({w.pick(['2', '3'])}){w.pick(['', '[0]'])}",
        ]
    )


def selection(w: Writer, x: str) -> str:
    y = operand(w, x)
    conditions = [f"{x} > 1", f"{x} == {y}"] if w.is_exact else []
    condition = w.pick([*conditions, *w.arrays(lambda v: kind(v) == "b"), "True"])
    return w.pick(
        [
            f"np.where({condition}, {x}, {y})",
            f"np.where({condition}, {y}, {x})",
            f"np.clip({x}, {scalar(w)}, {scalar(w)})",
            f"{x}.clip({w.pick(['0', '-1', 'None'])}, 2)",
            f"np.select([{condition}], [{x}], {scalar(w)})",
        ]
    )


def joining(w: Writer, x: str) -> str:
    same = w.array(lambda v: np.ndim(v) == np.ndim(w.value(x)))
    axis = w.pick(["", ", axis=-1", ", axis=0", ", axis=1"])
    return w.pick(
        [
            f"np.concatenate([{x}, {same}]{axis})",
            f"np.stack([{x}, {same}]{axis})",
            f"np.vstack(({x}, {same}))",
            f"np.hstack([{x}, {same}])",
            f"np.concatenate(({x}, {x}[:1], {same}))",
            f"np.array([{x}, {same}])",
            f"np.column_stack([{x}, {same}])",
            f"np.append({x}, {same})",
        ]
    )


def library(w: Writer, x: str) -> str:
    if not w.is_exact:
        return w.pick([f"np.outer({x}, {x})", f"np.roll({x}, 1)", f"np.diff({x})", f"np.dot({x}, {x})"])
    if not is_dyadic(w.value(x)):
        raise Rejected
    return w.pick(
        [
            f"np.roll({x}, {w.pick(['1', '-1'])})",
            f"np.diff({x})",
            f"np.sort({x})",
            f"np.argsort({x}, kind='stable')",
            f"np.trace({x})",
            f"np.tile({x}, 2)",
            f"np.repeat({x}, 2)",
            f"np.triu({x})",
            f"np.nonzero({x})",
            f"np.unique({x})",
            f"np.flatnonzero({x})",
            f"np.take({x}, [0], axis=0)",
            f"np.isclose({x}, 1)",
            f"np.nan_to_num({x})",
            f"np.allclose({x}, {x})",
            f"np.cross({x}, {x})",
            f"np.array_equal({x}, {w.array()})",
            f"np.pad({x}, 1)",
            f"np.rot90({x})",
            f"np.meshgrid({x}, {x})[0]",
            f"np.split({x}, 1)[0]",
            f"np.einsum('...i->...', {x})",
            f"np.searchsorted(np.arange(5), {x})",
            f"np.histogram({x}, bins=3)[0]",
            f"np.delete({x}, 0)",
            f"np.round({x}, 1)",
            f"np.isin({x}, [1, 2])",
            f"np.median({x})",
            f"np.average({x})",
            "np.ix_([0, 1], [1])[0]",
            f"np.cumsum({x}, axis=-1)",
            "np.tri(3)",
            f"np.diag({x})",
            f"np.kron({x}, np.ones(2))",
            f"np.bincount({x})",
            f"np.apply_along_axis(lambda r: r * 2, 0, {x})",
            f"np.vander({x}, 2)",
            "np.indices((2, 2))",
            f"np.swapaxes({x}, 0, -1)",
        ]
    )


def product(w: Writer, x: str) -> str:
    y = w.array()
    if w.is_exact and not (is_dyadic(w.value(x)) and is_dyadic(w.value(y))):
        raise Rejected
    return w.pick([f"({x} @ {y})", f"({x} @ {y}.T)", f"np.dot({x}, {y})", f"({x}.T @ {y})", f"np.outer({x}, {y})"])


EXPRESSIONS = (
    *[arithmetic] * 8,
    *[comparison] * 2,
    bitwise,
    unary,
    *[ufunc] * 5,
    *[reduction] * 4,
    ufunc_method,
    *[subscript] * 5,
    *[view] * 5,
    *[copy] * 2,
    *[creation] * 3,
    *[selection] * 2,
    joining,
    *[library] * 2,
    product,
)


def expression(w: Writer, depth: int = 2) -> str:
    """Text that gives an array or NumPy scalar where the program stands."""
    x = expression(w, depth - 1) if depth and w.chance(3) else atom(w)
    text = w.pick(EXPRESSIONS)(w, x)
    if not w.is_exact and (kind(w.value(x)) in "fc" and any(d in text for d in DISCRETE) or kind(w.value(text)) in "biu"):
        raise Rejected
    return text


def condition(w: Writer) -> str:
    """What a branch asks: of types and shapes, of numbers, of data."""
    x = w.array()
    ndim = np.ndim(w.value(x))
    texts = [
        f"{x}.ndim > 1",
        f"{x}.shape[0] > 2" if ndim else f"{x}.ndim == 0",
        f"{x}.size < 5",
        f"{x}.shape == (3, 2)",
        f"{x}.dtype == float",
        f"len({x}.shape) == 2",
        f"{x} is {w.array()}",
    ]
    for number in w.numbers()[-3:]:
        texts += [
            f"{number} > 1",
            f"{number} == 2",
            f"{number}",
            f"not {number}",
            f"{number} < {x}.size",
            f"{number} > 0 and {x}.ndim",
        ]
    if w.breaks and w.is_exact and is_dyadic(w.value(x)) and kind(w.value(x)) != "c":
        texts += [
            f"{x}.sum() > 0",
            f"{x}.any()",
            f"({x} == 1).all() or {x}.size > 3",
            f"{x}.max() > {x}.min()",
            f"not {x}.any()",
            f"{x}.min() < 0 and {x}.ndim < 2",
        ] * 2
    return w.pick(texts)
