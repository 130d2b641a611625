"""The captured forms under their names, and calls of each, drawn from the signature of the NumPy function."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import Parameter
from typing import Any

import numpy as np

import npcompile.numpy_shim  # noqa: F401  (fills the registry)
from npcompile.numpy_shim.registry import ATTRIBUTES, FUNCTIONS, METHODS
from npcompile.numpy_shim.ufunc_methods import UFUNC_METHODS
from tests.shim.keywords.draws import DTYPES, JUNK, Drawing
from tests.shim.keywords.parameters import BY_FUNCTION, BY_NAME, DTYPE, HIDDEN, LAST, Strategy, axes, axis, einsum_operands, value
from tests.shim.keywords.whole_functions import WHOLE

# Of C functions that do not tell.
SIGNATURES = {
    "correlate": "(a, v, mode=0)",
    "correlate2": "(a, v, mode=0)",
    "interp": "(x, xp, fp, left=None, right=None)",
    "_place": "(input, mask, vals, /)",
}

# Entries that no call is drawn for, and why. They have tests of their own.
NOT_DRAWN = {
    "_array_converter": "an object of NumPy's own code with methods: functions that use it are drawn",
    "_makearray": "gives a function of NumPy's own: functions of numpy.linalg that use it are drawn",
    "_quantile": "NumPy's own code hands it a copy that it may sort: test_quantiles.py draws what calls it",
    "_nanmedian": "np.nanmedian hands it arrays alone: tests/gradients/test_without_nan.py calls that",
    "_nanquantile_ureduce_func": "np.nanquantile and np.nanpercentile, which call it, are drawn",
    "_quantile_is_valid": "its truth is asked, in np.quantile alone",
    "zero_or_multiply": "a row that derivatives have, no function of NumPy's",
    "zero_or_divide": "the same",
    "_median_nancheck": "it may change the result that NumPy's own code hands it: np.median is drawn in test_quantiles.py",
}


@dataclass(frozen=True)
class Entry:
    """One captured form: `numpy(*args, **kwargs)` is what it captures as `captured(builder, *args, **kwargs)`."""

    name: str
    numpy: Callable[..., Any]
    captured: Callable[..., Any]
    parameters: tuple[tuple[Parameter, Strategy], ...]
    function: Any = None


@dataclass(frozen=True)
class Call:
    entry: Entry
    args: list[Any]
    keywords: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [*map(shown, self.args), *(f"{k}={shown(v)}" for k, v in self.keywords.items())]
        return f"{self.entry.name}({', '.join(parts)})"


def shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        text = f"np.array({value.tolist()}, {value.dtype.char!r})"
        return (
            text if value.flags.c_contiguous and value.flags.writeable else f"{text} <{value.strides}, {value.flags.writeable}>"
        )
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}[{', '.join(map(shown, value))}]"
    return repr(value)


# --- entries


@cache
def entries() -> dict[str, Entry]:
    """Every function, method and attribute of the registry, and the methods of ufuncs."""
    inner = {getattr(f, "_implementation", None) for f in FUNCTIONS if not isinstance(f, type)}
    found: dict[str, Entry] = {}
    for function, captured in FUNCTIONS.items():
        name = function.__name__ if function is not np._core.umath.clip else "umath.clip"
        if name in NOT_DRAWN or (not isinstance(function, type) and function in inner):
            continue
        if isinstance(function, np.ufunc):
            entry = Entry(name, function, captured, ufunc_parameters(function), function)
        else:
            entry = Entry(name, function, captured, parameters(name, function), function)
        assert name not in found, name
        found[name] = entry
    for name, captured in METHODS.items():
        label = f"ndarray.{name}"
        found[label] = Entry(label, partial(call_method, name), captured, parameters(label, getattr(np.ndarray, name)))
    for name, captured in ATTRIBUTES.items():
        label = f"ndarray.{name}"
        itself = (Parameter("self", Parameter.POSITIONAL_ONLY), BY_NAME["self"])
        found[label] = Entry(label, partial(read_attribute, name), captured, (itself,))
    for name, captured in UFUNC_METHODS.items():
        label = f"ufunc.{name}"
        found[label] = Entry(label, partial(call_ufunc_method, name), captured, method_parameters(name))
    return found


def call_method(name: str, self: Any, *args: Any, **keywords: Any) -> Any:
    return getattr(self, name)(*args, **keywords)


def read_attribute(name: str, self: Any) -> Any:
    return getattr(self, name)


def call_ufunc_method(name: str, ufunc: np.ufunc, *args: Any, **keywords: Any) -> Any:
    return getattr(ufunc, name)(*args, **keywords)


def parameters(name: str, function: Any) -> tuple[tuple[Parameter, Strategy], ...]:
    """Each parameter with its strategy: KeyError names what has none."""
    found = []
    for parameter in signature(name, function).parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD:
            hidden = HIDDEN[name].items()
            found += [(Parameter(k, Parameter.KEYWORD_ONLY, default=None), strategy) for k, strategy in hidden]
        elif name == "ndarray.view" and parameter.kind is Parameter.VAR_POSITIONAL:
            continue
        else:
            found.append((parameter, strategy_of(name, parameter.name)))
    return tuple(found)


def strategy_of(function: str, parameter: str) -> Strategy:
    known = BY_FUNCTION | WHOLE
    own = known.get(function) or known.get(function.removeprefix("ndarray."), {})
    return own[parameter] if parameter in own else BY_NAME[parameter]


def signature(name: str, function: Any) -> inspect.Signature:
    if name not in SIGNATURES:
        return inspect.signature(function)
    scope: dict[str, Any] = {}
    exec(f"def function{SIGNATURES[name]}: pass", scope)
    return inspect.signature(scope["function"])


def ufunc_parameters(ufunc: np.ufunc) -> tuple[tuple[Parameter, Strategy], ...]:
    """Of NumPy 2.5 they can be asked for; older ones have the same."""
    products = {"matmul", "vecdot", "matvec", "vecmat"}
    names = ["x1", "x2", "x3"][: ufunc.nin]
    strategies = [BY_NAME["a"], *[BY_NAME["b" if ufunc.__name__ in products else "x2"]] * 2][: ufunc.nin]
    found = [(Parameter(n, Parameter.POSITIONAL_ONLY), s) for n, s in zip(names, strategies)]
    keywords = ["out", *([] if ufunc.signature else ["where"]), "casting", "order", "dtype", "subok", "signature"]
    return (*found, *((Parameter(k, Parameter.KEYWORD_ONLY, default=None), BY_NAME[k]) for k in keywords))


UFUNCS = [f for f in FUNCTIONS if isinstance(f, np.ufunc) and not f.signature]


def any_ufunc(c: Drawing) -> np.ufunc:
    c.arguments["ufunc"] = ufunc = c.choice([np.add, np.multiply, np.maximum, np.logical_or, *UFUNCS])
    return ufunc


OF_UFUNC_METHODS: dict[str, dict[str, Strategy]] = {
    "reduce": {"array": BY_NAME["array"], "axis": axes, "dtype": DTYPE, "out": BY_NAME["out"], "keepdims": BY_NAME["keepdims"],
               "initial": BY_NAME["initial"], "where": BY_NAME["where"]},
    "accumulate": {"array": BY_NAME["array"], "axis": axis, "dtype": DTYPE, "out": BY_NAME["out"]},
    "outer": {"A": BY_NAME["A"], "B": value, "out": BY_NAME["out"], "dtype": DTYPE,
              "casting": BY_NAME["casting"], "order": BY_NAME["order"]},
    "at": {"a": BY_NAME["a"], "indices": BY_NAME["indices"], "b": value},
    "reduceat": {"array": BY_NAME["array"], "indices": BY_NAME["indices"], "axis": axis, "dtype": DTYPE, "out": BY_NAME["out"]},
}  # fmt: skip
REQUIRED = {"array", "A", "B", "a", "indices", "b"}


def method_parameters(name: str) -> tuple[tuple[Parameter, Strategy], ...]:
    """Of a method of a ufunc, the ufunc first."""
    found = [(Parameter("ufunc", Parameter.POSITIONAL_ONLY), any_ufunc)]
    for keyword, strategy in OF_UFUNC_METHODS[name].items():
        if keyword in REQUIRED:
            found.append((Parameter(keyword, Parameter.POSITIONAL_ONLY), strategy))
        else:
            kind = Parameter.KEYWORD_ONLY if name == "outer" else Parameter.POSITIONAL_OR_KEYWORD
            found.append((Parameter(keyword, kind, default=None), strategy))
    return tuple(found)


# --- calls


def draw_call(entry: Entry, integer: Callable[[int, int], int]) -> Call:
    """A call whose arguments are mostly what the function takes; each is left out when it may be, and now and then wrong."""
    c = Drawing(integer)
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    late: list[str] = []
    is_positional = True
    optional = sum(p.default is not Parameter.empty for p, _ in entry.parameters)
    share = 30 if optional > 2 else 50
    for parameter, strategy in entry.parameters:
        if parameter.name == "operands":
            args += einsum_operands(c)
            is_positional = False
            continue
        if parameter.kind is Parameter.VAR_POSITIONAL:
            args += [strategy(c) for _ in range(c.integer(1, 3))]
            is_positional = False
            continue
        if parameter.default is not Parameter.empty and not c.chance(share):
            is_positional = False
            continue
        drawn = c.choice(JUNK) if c.chance(2) and parameter.name not in ("ufunc", "self") else strategy(c)
        c.arguments[parameter.name] = drawn
        if drawn is LAST:
            late.append(parameter.name)
        if parameter.kind is Parameter.POSITIONAL_ONLY and is_positional:
            args.append(drawn)
        elif parameter.kind is Parameter.POSITIONAL_OR_KEYWORD and is_positional and c.chance(50):
            args.append(drawn)
        elif parameter.kind is Parameter.POSITIONAL_ONLY:
            continue  # one before it was left out
        else:
            keywords[parameter.name] = drawn
            is_positional = False
    for name in late:
        resolve_late(c, entry, args, keywords, name)
    return Call(entry, args, keywords)


def resolve_late(c: Drawing, entry: Entry, args: list[Any], keywords: dict[str, Any], name: str) -> None:
    """Put in an output that mostly fits the result, or the mean that the call has without it."""
    if name == "mean":
        value = fitting_mean(c, keywords)
    else:
        value = fitting_output(c, entry, [a for a in args if a is not LAST], {k: v for k, v in keywords.items() if v is not LAST})
    if name in keywords:
        keywords[name] = value
    elif any(a is LAST for a in args):
        args[next(i for i, a in enumerate(args) if a is LAST)] = value


def fitting_mean(c: Drawing, keywords: dict[str, Any]) -> Any:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return np.asarray(np.mean(c.main, axis=keywords.get("axis"), keepdims=True))
    except (TypeError, ValueError):
        return 0.5


def fitting_output(c: Drawing, entry: Entry, args: list[Any], keywords: dict[str, Any]) -> Any:
    result: Any = None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = entry.numpy(*args, **keywords)
    except Exception:  # whatever it is: NumPy does not take the call without an output either
        result = None
    if isinstance(result, tuple):
        whole = tuple(one_output(c, r) for r in result)
        return whole if c.chance(80) else c.choice([whole[0], (*whole[:-1], None), whole[:1], (None,) * len(whole)])
    out = one_output(c, result)
    return (out,) if c.chance(10) else out


def one_output(c: Drawing, result: Any) -> Any:
    shape, dtype = (
        (np.shape(result), np.asarray(result).dtype) if isinstance(result, (np.ndarray, np.generic)) else ((3,), np.dtype("d"))
    )
    if dtype.char not in "?bBhHiIlLefdgFD":
        return None
    kind = c.integer(0, 19)
    if kind >= 18:
        return c.choice([None, ..., np.float64(1.0), 0.5, "text", [1.0]])
    if kind == 17:
        return c.array(DTYPES, [(2, *shape), (), shape[:-1], (1, *shape)])
    if kind >= 14:
        return c.array(DTYPES, [shape])
    if kind >= 12 and isinstance(c.main, np.ndarray):
        return c.main
    return c.laid_out(c.contents(shape, dtype)) if c.chance(30) else c.contents(shape, dtype)
