"""Random NumPy programs, as source text of a plain function and of what makes its arguments.

A program grows statement by statement. Each candidate is tried by running the program so far with NumPy, so that the
next statement can be drawn knowing what every variable is; candidates that raise are dropped, and now and then kept as
the last statement of the program.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import npcompile as npc

SIZES = ((3, 2, 4), (5, 3, 2), (2, 6, 3), (4, 4, 4), (3, 4, 2), (1, 3, 2), (3, 0, 2), (6, 1, 5))  # what n, m, k are in a round
DTYPES = ("float64", "float64", "int64", "bool", "float32", "int32", "complex128", "int8", "uint8", "float16", "complex64", "uint32")
SHAPES = ("(n, m)", "(n,)", "(m,)", "(n, m)", "(n, m)", "(n,)", "(n, 1)", "(1, m)", "()", "(m, n)", "(k, n, m)", "(n, n)", "(0, m)")
ELEMENTS_LIMIT = 3000
printed: list[Any] = []


# --- what programs may call


def fill(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Small integers and halves, so that most arithmetic is exact."""
    rng = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    values = rng.integers(0 if kind == "u" else -6, 7, shape)
    if kind in "fc":
        values = values / 2
    return np.asarray(values + 0.5j * rng.integers(-3, 4, shape) if kind == "c" else values).astype(dtype)


def laid_out(shape: tuple[int, ...], dtype: str, seed: int, layout: str) -> np.ndarray:
    """An array of that shape in a memory layout."""
    ndim = len(shape)
    match layout:
        case "fortran":
            return np.asfortranarray(fill(shape, dtype, seed))
        case "strided":
            return fill(tuple(2 * n for n in shape), dtype, seed)[(slice(None, None, 2),) * ndim]
        case "reversed":
            return fill(shape, dtype, seed)[(slice(None, None, -1),) * ndim]
        case "rotated":
            axes = np.roll(range(ndim), 1)
            return fill(tuple(shape[a] for a in axes), dtype, seed).transpose(np.argsort(axes))
        case "offset":
            return fill(tuple(n + 1 for n in shape), dtype, seed)[(slice(1, None),) * ndim]
        case "broadcast":
            return np.broadcast_to(fill(shape[1:], dtype, seed), shape)
        case "read-only":
            x = fill(shape, dtype, seed)
            x.flags.writeable = False
            return x
        case _:
            return fill(shape, dtype, seed)


LAYOUTS = (*["contiguous"] * 7, "fortran", "strided", "fortran", "strided", "reversed", "rotated", "offset", "broadcast", "read-only")


@npc.disable
def record(*values: Any) -> None:
    """What `print` is to a program: an effect that must happen once, in order."""
    printed.append(tuple(np.array(v) if isinstance(v, np.ndarray) else v for v in values))


@npc.disable
def opaque(x: Any) -> Any:
    """A function that is not captured and returns its argument."""
    return x


NAMESPACE = {"np": np, "npc": npc, "laid_out": laid_out, "record": record, "opaque": opaque}


@dataclass(frozen=True)
class Program:
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    arguments: tuple[str, ...]  # lines that make the arguments from n, m, k and round
    sizes: tuple[tuple[int, int, int], ...]  # n, m, k of each round
    is_exact: bool
    dynamic: bool | None

    @property
    def source(self) -> str:
        return function_text("program", self.parameters, self.body)

    @property
    def arguments_source(self) -> str:
        lines = [*self.arguments, f"return [{', '.join(self.parameters)}]"]
        return function_text("arguments", ("n", "m", "k", "round"), lines)

    def __repr__(self) -> str:
        return f"\n{self.arguments_source}\n{self.source}\nsizes={self.sizes} dynamic={self.dynamic} is_exact={self.is_exact}\n"


def function_text(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    return "\n".join([f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in body)]) + "\n"


def define(source: str, name: str, filename: str) -> Any:
    """Execute a function's text; tracebacks show its lines."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace = dict(NAMESPACE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


# --- drawing

Draw = Callable[[int, int], int]  # an integer between two, the first where it does not matter


class Rejected(Exception):
    """A drawn statement makes no sense where it stands."""


@dataclass
class Writer:
    """The program so far, and what its variables are at the place where the next line goes."""

    draw: Draw
    parameters: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    sizes: tuple[tuple[int, int, int], ...] = ()
    indent: int = 0
    env: dict[str, Any] = field(default_factory=dict)
    is_exact: bool = True
    breaks: bool = True
    names: int = 0
    iterated: int = 0  # enclosing loops over a list: nothing grows inside, so that they end

    # --- choices

    def pick(self, choices: Sequence[Any]) -> Any:
        if not choices:
            raise Rejected
        return choices[self.integer(0, len(choices) - 1)]

    def integer(self, low: int, high: int) -> int:
        return self.draw(low, high)

    def chance(self, one_in: int) -> bool:
        return self.integer(1, one_in) == one_in

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def arrays(self, test: Callable[[Any], bool] = lambda x: True) -> list[str]:
        return [n for n, v in self.env.items() if isinstance(v, (np.ndarray, np.generic)) and test(v)]

    def array(self, test: Callable[[Any], bool] = lambda x: True) -> str:
        found = self.arrays(test)
        if not found:
            raise Rejected
        return self.pick(found[::-1])  # the latest is simplest: it makes long chains

    def numbers(self, *kinds: type) -> list[str]:
        return [n for n, v in self.env.items() if type(v) in (kinds or (int, float))]

    def value(self, expression: str) -> Any:
        """What an expression gives where the program stands."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return eval(expression, {**NAMESPACE, **{k: opened(v) for k, v in self.env.items()}})
            except Exception as error:
                raise Rejected from error

    # --- growing

    def probe(self, lines: Sequence[str], round: int = 0) -> dict[str, Any] | None:
        """The local variables after the program so far and these lines; None when execution does not come there."""
        here = "    " * self.indent
        body = [*self.body, *(here + line for line in lines), f"{here}return '<probe>', locals()"]
        program = Program(tuple(self.parameters), tuple(body), tuple(self.arguments), self.sizes, True, None)
        function = define(program.source, "program", "<probe>")
        make = define(program.arguments_source, "arguments", "<probe arguments>")
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*make(*self.sizes[round], round))
        return result[1] if isinstance(result, tuple) and result[:1] == ("<probe>",) else None

    def add(self, lines: Sequence[str]) -> bool:
        """Append lines that run; False when they raise or make something that programs should not hold."""
        try:
            env = self.probe(lines)
        except Exception:
            return False
        if env is not None:
            if not all(is_fair(v, self.env.get(k)) for k, v in env.items()):
                return False
            self.env = env
        self.body += ["    " * self.indent + line for line in lines]
        return True


def opened(value: Any) -> Any:
    """A copy that an expression under trial may change."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return list(value) if isinstance(value, list) else value


def is_fair(value: Any, before: Any) -> bool:
    if value is before:
        return True
    if isinstance(value, (list, tuple)):
        return len(value) < 20 and all(is_fair(v, None) for v in value)
    if isinstance(value, dict):
        return len(value) < 20 and all(is_fair(v, None) for v in value.values())
    if isinstance(value, np.ndarray):
        return value.size <= ELEMENTS_LIMIT and value.ndim <= 5 and value.dtype.kind in "biufc" and value.dtype.char not in "gG"
    if isinstance(value, (int, float)):
        return abs(value) < 1e6
    return True


def is_dyadic(value: Any) -> bool:
    """Are sums of these numbers exact in their type, in any order?"""
    x = np.asarray(value)
    if x.dtype.kind == "c":
        return is_dyadic(x.real) and is_dyadic(x.imag)
    if x.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        if not np.isfinite(wide).all():
            return False
        bits = np.finfo(x.dtype).nmant
        return any((np.abs(wide * 2**s % 1).sum() == 0) and np.abs(wide * 2**s).sum() < 2 ** (bits - 3) for s in (0, 2, 6, 12))


def kind(value: Any) -> str:
    return np.asarray(value).dtype.kind


# --- expressions. Each takes the Writer and returns text.

ARITHMETIC = ("+", "-", "*", "+", "-", "*", "/", "//", "%", "**")
BITWISE = ("&", "|", "^", "<<", ">>")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
EXACT_UNARY = ("np.negative", "np.absolute", "np.square", "np.sign", "np.floor", "np.isnan", "np.isfinite", "np.logical_not",
               "np.conjugate", "np.positive", "np.rint", "np.ceil", "np.trunc", "np.invert", "np.signbit", "np.reciprocal")  # fmt: skip
INEXACT_UNARY = ("np.sin", "np.exp", "np.tanh", "np.cos", "np.arctan", "np.expm1", "np.cbrt", "np.sqrt", "np.log1p", "np.square",
                 "np.absolute", "np.negative", "np.conjugate", "np.exp2", "np.arcsinh", "np.deg2rad")  # fmt: skip
EXACT_BINARY = ("np.add", "np.subtract", "np.multiply", "np.maximum", "np.minimum", "np.fmax", "np.logical_and", "np.logical_xor",
                "np.floor_divide", "np.equal", "np.less", "np.divide", "np.remainder", "np.copysign", "np.greater_equal", "np.fmin",
                "np.bitwise_and", "np.left_shift", "np.gcd")  # fmt: skip
INEXACT_BINARY = ("np.add", "np.subtract", "np.multiply", "np.maximum", "np.arctan2", "np.hypot", "np.divide", "np.logaddexp")
DISCRETE = ("//", "%", "floor", "rint", "ceil", "trunc", "sign", "round", "isnan", "isfinite", "remainder", "<", ">", "==", "!=")


def scalar(w: Writer) -> str:
    names = w.numbers()
    if names and w.chance(3):
        return w.pick(names)
    return w.pick(["2", "1", "3", "0.5", "-1", "2.0", "-2", "0", "True", "1.5", "np.float32(0.5)", "np.int8(3)", "1j", "np.float64(2)"])


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
    return w.pick([
        f"{x}.T", f"{x}.reshape(-1)", f"{x}.ravel()", f"{x}.reshape({x}.shape[::-1])", f"{x}.flatten()", f"{x}.real", f"{x}.imag",
        f"{x}[..., None]", f"{x}.squeeze()", f"{x}.swapaxes({axes[0]}, {axes[1]})", f"np.expand_dims({x}, {axes[0]})",
        f"{x}.reshape(-1, {shape[-1] if shape else 1})", f"np.broadcast_to({x}, (2, *{x}.shape))", f"np.moveaxis({x}, {axes[0]}, {axes[1]})",
        f"{x}.reshape(-1, order='F')", f"np.flip({x})", f"{x}.diagonal()", f"np.atleast_2d({x})", f"np.ravel({x}, order='K')",
        f"{x}.transpose()", f"{x}.view()", f"np.asarray({x})", f"np.ascontiguousarray({x})", f"np.asfortranarray({x})",
        f"np.reshape({x}, (1, -1))", f"{x}.view(np.{w.pick(['uint8', 'int64', 'float32'])})" if w.is_exact else f"{x}.T[::-1]",
    ])  # fmt: skip


def copy(w: Writer, x: str) -> str:
    dtype = w.pick(["float", "np.float32", "np.int64", "np.int32", "bool", "complex", "np.float16"])
    if dtype in ("np.int64", "np.int32", "bool") and not is_convertible(w.value(x)):
        raise Rejected
    if not w.is_exact and dtype in ("np.int64", "np.int32", "bool", "np.float16"):
        dtype = "float"
    order = w.pick(["C", "F", "K", "A"])
    return w.pick([f"{x}.copy()", f"{x}.astype({dtype})", f"np.array({x})", f"{x}.copy(order='{order}')", f"np.array({x}, order='{order}')",
                   f"{x}.astype({dtype}, copy=False)", f"np.array({x}, dtype={dtype})", f"np.asarray({x}, {dtype})"])  # fmt: skip


def is_convertible(value: Any) -> bool:
    """Does C define what these numbers are as signed integers?"""
    x = np.asarray(value)
    return x.dtype.kind not in "fc" or bool(np.isfinite(x).all() and (np.abs(x) < 100).all())


def creation(w: Writer, x: str) -> str:
    shape = w.pick([f"{x}.shape", "3", "(2, 3)", "()", f"len({x})" if np.ndim(w.value(x)) else "0", f"{x}.ndim"])
    dtype = w.pick(["", "", ", dtype=int", ", dtype=bool", ", dtype=np.float32", ", dtype=complex"])
    size = w.pick([f"{x}.size", "4", *w.numbers(int)])
    return w.pick([
        f"np.zeros({shape}{dtype})", f"np.ones({shape}{dtype})", f"np.full({shape}, {scalar(w)})", f"np.zeros_like({x}{dtype})",
        f"np.ones_like({x})", f"np.full_like({x}, {w.pick(['1', '2', '0'])})", f"np.arange({size}{dtype.replace('bool', 'int')})",
        f"np.arange(1, {size}, 2)", "np.eye(3)", f"np.linspace(0, 1, {w.pick(['5', '3'])})", f"np.array([{scalar(w)}, {scalar(w)}])",
        f"np.array([[1, 2], [3, {scalar(w)}]])", f"np.empty_like({x}) * 0 + 1" if kind(w.value(x)) in "biu" else f"np.zeros_like({x})",
        f"np.arange({size}).reshape(-1, 1)", f"np.identity({w.pick(['2', '3'])}){w.pick(['', '[0]'])}",
    ])  # fmt: skip


def selection(w: Writer, x: str) -> str:
    y = operand(w, x)
    conditions = [f"{x} > 1", f"{x} == {y}"] if w.is_exact else []
    condition = w.pick([*conditions, *w.arrays(lambda v: kind(v) == "b"), "True"])
    return w.pick([f"np.where({condition}, {x}, {y})", f"np.where({condition}, {y}, {x})", f"np.clip({x}, {scalar(w)}, {scalar(w)})",
                   f"{x}.clip({w.pick(['0', '-1', 'None'])}, 2)", f"np.select([{condition}], [{x}], {scalar(w)})"])  # fmt: skip


def joining(w: Writer, x: str) -> str:
    same = w.array(lambda v: np.ndim(v) == np.ndim(w.value(x)))
    axis = w.pick(["", ", axis=-1", ", axis=0", ", axis=1"])
    return w.pick([f"np.concatenate([{x}, {same}]{axis})", f"np.stack([{x}, {same}]{axis})", f"np.vstack(({x}, {same}))",
                   f"np.hstack([{x}, {same}])", f"np.concatenate(({x}, {x}[:1], {same}))", f"np.array([{x}, {same}])",
                   f"np.column_stack([{x}, {same}])", f"np.append({x}, {same})"])  # fmt: skip


def library(w: Writer, x: str) -> str:
    if not w.is_exact:
        return w.pick([f"np.outer({x}, {x})", f"np.roll({x}, 1)", f"np.diff({x})", f"np.dot({x}, {x})"])
    if not is_dyadic(w.value(x)):
        raise Rejected
    return w.pick([
        f"np.roll({x}, {w.pick(['1', '-1'])})", f"np.diff({x})", f"np.sort({x})", f"np.argsort({x}, kind='stable')", f"np.trace({x})",
        f"np.tile({x}, 2)", f"np.repeat({x}, 2)", f"np.triu({x})", f"np.nonzero({x})", f"np.unique({x})", f"np.flatnonzero({x})",
        f"np.take({x}, [0], axis=0)", f"np.isclose({x}, 1)", f"np.nan_to_num({x})", f"np.allclose({x}, {x})", f"np.cross({x}, {x})",
        f"np.array_equal({x}, {w.array()})", f"np.pad({x}, 1)", f"np.rot90({x})", f"np.meshgrid({x}, {x})[0]", f"np.split({x}, 1)[0]",
        f"np.einsum('...i->...', {x})", f"np.searchsorted(np.arange(5), {x})", f"np.histogram({x}, bins=3)[0]", f"np.delete({x}, 0)",
        f"np.round({x}, 1)", f"np.isin({x}, [1, 2])", f"np.median({x})", f"np.average({x})", f"np.ix_([0, 1], [1])[0]",
        f"np.cumsum({x}, axis=-1)", f"np.tri(3)", f"np.diag({x})", f"np.kron({x}, np.ones(2))", f"np.bincount({x})",
        f"np.apply_along_axis(lambda r: r * 2, 0, {x})", f"np.vander({x}, 2)", f"np.indices((2, 2))", f"np.swapaxes({x}, 0, -1)",
    ])  # fmt: skip


def product(w: Writer, x: str) -> str:
    y = w.array()
    if w.is_exact and not (is_dyadic(w.value(x)) and is_dyadic(w.value(y))):
        raise Rejected
    return w.pick([f"({x} @ {y})", f"({x} @ {y}.T)", f"np.dot({x}, {y})", f"({x}.T @ {y})", f"np.outer({x}, {y})"])


EXPRESSIONS = (
    *[arithmetic] * 8, *[comparison] * 2, bitwise, unary, *[ufunc] * 5, *[reduction] * 4, ufunc_method, *[subscript] * 5, *[view] * 5,
    *[copy] * 2, *[creation] * 3, *[selection] * 2, joining, *[library] * 2, product,
)  # fmt: skip


def expression(w: Writer, depth: int = 2) -> str:
    """Text that gives an array or NumPy scalar where the program stands."""
    x = expression(w, depth - 1) if depth and w.chance(3) else atom(w)
    text = w.pick(EXPRESSIONS)(w, x)
    if not w.is_exact and (kind(w.value(x)) in "fc" and any(d in text for d in DISCRETE) or kind(w.value(text)) in "biu"):
        raise Rejected
    return text


# --- statements. Each appends lines to the Writer, and raises Rejected when it cannot.


def require(condition: object) -> None:
    if not condition:
        raise Rejected


def assign(w: Writer) -> None:
    target = w.pick(w.arrays()) if w.chance(5) else w.name()
    require(w.add([f"{target} = {expression(w)}"]))


def alias(w: Writer) -> None:
    require(w.add([f"{w.name()} = {w.pick(list(w.env))}"]))


def inplace(w: Writer) -> None:
    x = w.array()
    symbol = w.pick([*ARITHMETIC[:6], "/", *BITWISE[:3]] if w.is_exact else ["+", "-", "*", "/"])
    require(w.add([f"{x} {symbol}= {right_side(w, x)}"]))


def right_side(w: Writer, x: str) -> str:
    """What may be stored into x without leaving what C defines."""
    choice = w.integer(0, 3)
    text = scalar(w) if choice == 0 else operand(w, x) if choice == 1 else expression(w, 1)
    require(kind(w.value(x)) not in "biu" or is_convertible(w.value(text)))
    require(kind(w.value(x)) not in "u" or np.all(np.asarray(w.value(text)) >= 0) or kind(w.value(text)) in "iu")
    return text


def writeable(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.flags.writeable


def setitem(w: Writer) -> None:
    x = w.array(writeable) if not w.chance(15) else w.array()
    shape = np.shape(w.value(x))
    key = mask(w, x) if w.chance(5) else index(w, shape)
    symbol = w.pick(["=", "=", "=", "+=", "*=", "-="])
    require(w.add([f"{x}[{key}] {symbol} {right_side(w, x)}"]))


def write_through(w: Writer) -> None:
    x = w.array(writeable)
    target = w.pick([f"{x}.T", f"{x}[::-1]", f"{x}.real", f"{x}.flat", f"{x}.reshape(-1)", f"{x}[...]"])
    require(w.add([f"{target}[{w.pick([':', '0', '...', '1:', '::2', '-1'])}] {w.pick(['=', '+='])} {right_side(w, x)}"]))


def call_with_out(w: Writer) -> None:
    x, out = w.array(), out_array(w)
    require(kind(w.value(out)) != "u")
    name = w.pick(EXACT_BINARY[:6] if w.is_exact else INEXACT_BINARY)
    where = f", where={w.array(lambda y: kind(y) == 'b')}" if w.chance(3) and w.arrays(lambda y: kind(y) == "b") else ""
    casting = w.pick(["", "", "", ", casting='unsafe'"]) if is_convertible(w.value(x)) else ""
    lines = [f"{name}({x}, {operand(w, x)}, out={out}{where}{casting})"]
    if w.is_exact and not is_dyadic(w.value(x)):
        raise Rejected
    if w.chance(3):
        lines = [w.pick([f"{x}.sum(axis=0, out={out})", f"np.copyto({out}, {x})", f"{out}.fill({scalar(w)})", f"{out}.sort()",
                         f"np.cumsum({x}, axis=0, out={out})", f"np.add.at({out}, 0, 1)", f"np.fill_diagonal({out}, 2)",
                         f"np.put({out}, [0], 3)", f"np.putmask({out}, {out} == 1, 2)"])]  # fmt: skip
        require(w.is_exact)
    require(w.add(lines))


def container(w: Writer) -> None:
    names = [n for n, v in w.env.items() if isinstance(v, (np.ndarray, np.generic, int, float))]
    require(names)
    items = [w.pick(names) for _ in range(w.integer(1, 3))]
    lists = [n for n, v in w.env.items() if type(v) is list and v]
    tables = [n for n, v in w.env.items() if type(v) is dict and v]
    tuples = [n for n, v in w.env.items() if type(v) is tuple and v]
    v = w.name()
    lines = [f"{v} = [{', '.join(items)}]", f"{v} = ({', '.join(items)},)",
             f"{v} = {{{', '.join(f'{k!r}: {x}' for k, x in zip('abc', items))}}}", f"{', '.join(f'{v}_{k}' for k in range(len(items)))}, = {', '.join(items)},"]  # fmt: skip
    if lists and not w.iterated:
        x = w.pick(lists)
        lines += [f"{x}.append({items[0]})", f"{x} += [{items[0]}]", f"{x}.extend(({items[0]},))", f"{x}.insert(0, {items[0]})"]
    if lists:
        x = w.pick(lists)
        lines += [f"{x}[0] = {items[0]}", f"{v} = {x}[-1]", f"{v} = {x}.pop()", f"{v} = {x}[1:]", f"*{v}, {v}_l = {x}",
                  f"{v} = [p for p in {x}]", f"{v} = [p * 2 for p in {x}]", f"{v} = len({x})", f"{x}.reverse()",
                  f"{x}[0] += 1", f"{v} = {x} * 2", f"{v} = {x} + [1]", f"del {x}[0]",
                  f"{v} = tuple({x})", f"{v} = sum({x})"]  # fmt: skip
    if tuples:
        x = w.pick(tuples)
        lines += [f"{v}, *{v}_r = {x}", f"{v} = {x}[0]", f"{v} = list({x})", f"{v} = {x}[::-1]"]
    if tables:
        x = w.pick(tables)
        lines += [f"{v} = {x}['a']", f"{x}['d'] = {items[0]}", f"{x}['a'] += 1", f"{v} = [*{x}.values()]", f"{v} = {{**{x}, 'e': {items[0]}}}",
                  f"{v} = {{p: q for p, q in {x}.items()}}", f"{v} = {x}.get('b', 2)", f"{x}.update(a={items[0]})", f"{v} = list({x})",
                  f"{v} = {x}.pop('a')"]  # fmt: skip
    require(w.add([w.pick(lines)]))


def swap(w: Writer) -> None:
    a, b = w.array(), w.array()
    require(w.add([w.pick([f"{a}, {b} = {b}, {a}", f"{a} = {b} = {b}", f"{a}[...], {b} = {b}, {a}"])]))


def python_number(w: Writer) -> None:
    x = w.array()
    ndim = np.ndim(w.value(x))
    texts = [f"{x}.ndim", f"{x}.size", f"{x}.shape[0]" if ndim else "2", f"len({x})" if ndim else "3", "1"]
    for number in w.numbers(int)[-2:]:
        texts += [f"{number} + 1", f"{number} // 2", f"{number} % 3", f"-{number}", f"min({number}, 3)", f"max({number}, {x}.ndim)", f"abs({number})"]
    for number in w.numbers(float)[-2:]:
        texts += [f"{number} * 2", f"{number} - 1", f"abs({number})", f"{number} / 2", f"-{number}"]
    if w.breaks and w.is_exact and is_dyadic(w.value(x)) and kind(w.value(x)) != "c":
        texts += [f"float({x}.sum())", f"int({x}.sum())", f"{x}.sum().item()", f"{x}.max().item()", f"bool({x}.any())"]
    require(w.add([f"{w.name()} = {w.pick(texts)}"]))


def block(w: Writer, header: Sequence[str], count: int = 2, statements: Sequence[Callable[[Writer], None]] = ()) -> None:
    """A compound statement: its header, and statements drawn where it stands."""
    outer, body = w.env, list(w.body)
    w.body += ["    " * w.indent + line for line in header]
    w.indent += 1
    try:
        env = w.probe([])
    except Exception as error:
        raise Rejected from error
    w.env = env if env is not None else outer
    length = len(w.body)
    for _ in range(w.integer(1, count)):
        grow(w, statements or SIMPLE)
    if len(w.body) == length:
        w.body += ["    " * w.indent + "pass"]
    w.indent -= 1
    added = w.body
    w.env, w.body = outer, body
    prefix = "    " * w.indent
    if not w.add([line.removeprefix(prefix) for line in added[len(body) :]]):
        raise Rejected


def loop(w: Writer) -> None:
    x = w.array()
    p, q = w.name(), w.name()
    containers = [n for n, v in w.env.items() if type(v) in (list, tuple) and v]
    headers = [f"for {p} in range({w.pick(['3', '1', '2', *w.numbers(int)])}):", f"for {p} in {x}:", f"for {p}, {q} in enumerate({x}):",
               f"for {p}, {q} in zip({x}, {w.array()}):", f"for {p} in range({w.pick(['20', '18'])}):", f"for {p} in range({x}.ndim - 1, -1, -1):"]  # fmt: skip
    if containers:
        c = w.pick(containers)
        headers += [f"for {p} in {c}:", f"for {p}, {q} in enumerate({c}):", f"for {p}, {q} in zip({c}, range(5)):", f"for {p} in reversed({c}):"]
    header = w.pick(headers)
    if not w.breaks and ("18" in header or "20" in header):
        raise Rejected
    over_list = any(c in header for c in containers)
    w.iterated += over_list
    try:
        block(w, [header], 3, (*SIMPLE, *SIMPLE, leave_loop))
    finally:
        w.iterated -= over_list


def leave_loop(w: Writer) -> None:
    require(w.add([f"if {condition(w)}:", f"    {w.pick(['break', 'continue'])}"]))


def condition(w: Writer) -> str:
    x = w.array()
    ndim = np.ndim(w.value(x))
    texts = [f"{x}.ndim > 1", f"{x}.shape[0] > 2" if ndim else f"{x}.ndim == 0", f"{x}.size < 5", f"{x}.shape == (3, 2)", f"{x}.dtype == float",
             f"len({x}.shape) == 2", f"{x} is {w.array()}"]  # fmt: skip
    for number in w.numbers()[-3:]:
        texts += [f"{number} > 1", f"{number} == 2", f"{number}", f"not {number}", f"{number} < {x}.size", f"{number} > 0 and {x}.ndim"]
    if w.breaks and w.is_exact and is_dyadic(w.value(x)) and kind(w.value(x)) != "c":
        texts += [f"{x}.sum() > 0", f"{x}.any()", f"({x} == 1).all() or {x}.size > 3", f"{x}.max() > {x}.min()", f"not {x}.any()",
                  f"{x}.min() < 0 and {x}.ndim < 2"] * 2  # fmt: skip
    return w.pick(texts)


def while_loop(w: Writer) -> None:
    v = w.name()
    limit = w.pick(["2", "3", *w.numbers(int)[-1:], f"min({w.array()}.ndim, 3)"])
    require(w.add([f"{v} = 0"]))
    block(w, [f"while {v} < {limit}:", f"    {v} += 1"], 2)


def branch(w: Writer) -> None:
    outer = dict(w.env)
    body = list(w.body)
    block(w, [f"if {condition(w)}:"], 2)
    if w.chance(2):
        env, first, w.env = w.env, w.body, outer
        try:
            w.body = [*first, "    " * w.indent + "else:"]
            w.indent += 1
            length = len(w.body)
            for _ in range(w.integer(1, 2)):
                grow(w, (assign, setitem, inplace))
            if len(w.body) == length:
                w.body.append("    " * w.indent + "pass")
        finally:
            w.indent -= 1
        added, w.body, w.env = w.body, body, outer
        prefix = "    " * w.indent
        if not w.add([line.removeprefix(prefix) for line in added[len(body) :]]):
            w.body, w.env = first, env


def function(w: Writer) -> None:
    """An inner function with a closure, called at once."""
    f, p = f"f{w.names}", w.name()
    x = w.array()
    outer = w.array()
    lines = w.pick([
        [f"def {f}({p}):", f"    return {p} + {outer}"],
        [f"def {f}({p}, q=2, *rest, **named):", f"    return {p} * q + len(rest)"],
        [f"{f} = lambda {p}, q={outer}: ({p}, q)"],
        [f"def {f}({p}):", f"    {p}[...] = 1", f"    return {outer}"],
        [f"def {f}({p}):", f"    nonlocal {outer}", f"    {outer} = {p}", f"    return {p}.T"],
        [f"def {f}({p}):", f"    if {p}.ndim > 1:", f"        return {p}[0]", f"    return {p}"],
        [f"def {f}({p}):", "    total = 0", f"    for r in range(3):", f"        total = total + {p} * r", "    return total"],
        [f"def {f}({p}):", f"    def g(r):", f"        return r * {p}", f"    return g({outer})"],
        [f"def {f}({p}):", f"    record({p})", f"    return {p} * 2"] if w.breaks else [f"def {f}({p}):", f"    return {p} * 2"],
        [f"def {f}({p}):", f"    if {p}.any():", f"        return {p} * 2", f"    return {p}"] if w.breaks else [f"def {f}({p}):", f"    return {p}"],
    ])  # fmt: skip
    if not w.is_exact and "any" in " ".join(lines):
        raise Rejected
    call = w.pick([f"{w.name()} = {f}({x})", f"{w.name()} = {f}({x}) if {x}.ndim else {f}({outer})", f"{w.name()} = [{f}(r) for r in ({x}, {outer})]"])
    require(w.add([*lines, call]))


def leave_graph(w: Writer) -> None:
    require(w.breaks)
    x, v = w.array(), w.name()
    texts = [f"record({x}.shape)", f"record({x})", f"{v} = opaque({x})", "npc.graph_break()", f"{v} = {x} + opaque({scalar(w)})",
             f"{v} = opaque([{x}, {w.array()}])", f"{v} = [{x} * 2, opaque({x})]", f"{v} = ({x} + 1, opaque({x}) , {x} - 1)"]  # fmt: skip
    require(w.add([w.pick(texts)]))


def guarded(w: Writer) -> None:
    """try and with blocks."""
    x = w.array()
    choice = w.integer(0, 3)
    if choice == 0:
        block(w, ["with np.errstate(all='ignore'):"], 2)
    else:
        v = w.name()
        failing = w.pick([f"{v} = {x}[100]", f"{v} = {x} + np.ones(17)", f"{v} = {x}.reshape(7, 11, 13)", f"{v} = {x}.sum(axis=9)", f"{v} = {x} * 2"])
        handler = w.pick([["except (IndexError, ValueError):", f"    {v} = {x}"], ["except Exception as error:", f"    {v} = str(error)"],
                          ["except TypeError:", f"    {v} = 1", "finally:", f"    {v}_f = {x} * 1"]])  # fmt: skip
        require(w.add(["try:", f"    {failing}", *handler]))


def multiple_return(w: Writer) -> None:
    """Leave early, for a reason that may hold in some rounds only."""
    require(w.add([f"if {w.pick(w.arrays())}.size > {w.pick(['10', '100', '4'])}:", f"    return {w.pick(list(w.env))}"]))


SIMPLE = (*[assign] * 5, *[inplace] * 3, *[setitem] * 3, write_through, call_with_out, *[container] * 2, python_number, swap, leave_graph)
STATEMENTS = (*SIMPLE * 2, alias, *[loop] * 4, while_loop, *[branch] * 3, *[function] * 2, leave_graph, guarded, multiple_return)


def grow(w: Writer, statements: Sequence[Callable[[Writer], None]] = STATEMENTS) -> bool:
    """Draw one statement; False when it was rejected."""
    saved = list(w.body), w.env, w.indent
    try:
        w.pick(statements)(w)
    except Rejected:
        w.body, w.env, w.indent = saved
        return False
    return True


# --- programs


def add_arguments(w: Writer) -> None:
    for position in range(w.integer(1, 3)):
        name = "xyz"[position]
        shape = w.pick(SHAPES)
        text = f"laid_out({shape}, {w.pick(DTYPES)!r}, {w.integer(0, 5)} + round, {w.pick(LAYOUTS)!r})"
        if position and w.chance(4):
            other = w.pick(w.parameters)
            text = w.pick([other, f"{other}[1:]", f"{other}[::-1]", f"{other}.T", f"{other}[...]", f"{other}.reshape(-1)", f"{other}.copy()"])
            if w.chance(3):
                text += " if round != 1 else np.ones(3)"
        w.arguments.append(f"{name} = {text}")
        w.parameters.append(name)
    extra = ["2 + round", "3", "1.5 * (round + 1)", "-0.5", "True", "round > 0", "np.float32(1.5)", "np.int64(round)", "0", "(x, 2)", "[x, x]",
             "{'a': x}", "None", "'abc'", "x[0] if x.size and x.ndim else x", "slice(None, None, -1)", "1 + 2j"]  # fmt: skip
    for position in range(w.integer(0, 2)):
        name = "ab"[position]
        w.arguments.append(f"{name} = {w.pick(extra)}")
        w.parameters.append(name)


def draw_program(draw: Draw, breaks: bool = True) -> Program:
    w = Writer(draw, breaks=breaks)
    w.is_exact = not w.chance(5)
    first = w.pick(SIZES[:5]) if not w.chance(5) else w.pick(SIZES)
    second = w.pick(SIZES)
    w.sizes = (first, second, w.pick([first, second, *SIZES]))
    add_arguments(w)
    try:
        env = w.probe([])
    except Exception:  # the view of another argument does not exist
        w.arguments = [a if " if round" not in a and a.count("laid_out") else f"{a.split(' = ')[0]} = laid_out((n,), 'float64', 1 + round, '')" for a in w.arguments]
        env = w.probe([])
    assert env is not None
    w.env = env
    wanted = w.integer(1, 9)
    for _ in range(3 * wanted):
        wanted -= grow(w)
        if not wanted:
            break
    names = list(w.env)
    returned = names[-8:] if w.chance(2) else [w.pick(names[::-1]) for _ in range(w.integer(1, 4))]
    last = f"return {', '.join(returned)}"
    if w.chance(10):
        last = f"return {w.pick(w.arrays() or names)}{w.pick(['[77]', ' + np.ones(23)', '.sum(axis=5)', '.reshape(-7, 3)', '.nothing', '[(0,) * 9]'])}"
    dynamic = w.pick([None, None, None, True, False])
    return Program(tuple(w.parameters), (*w.body, last), tuple(w.arguments), w.sizes, w.is_exact, dynamic)
