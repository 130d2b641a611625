"""Calls: what runs while capturing, what becomes ops, what is inlined, and what ends the graph."""

from __future__ import annotations

import builtins
import inspect
import math
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.numpy_shim.registry import FUNCTIONS, METHODS, Captured
from npcompile.numpy_shim.ufunc_methods import UFUNC_METHODS
from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Number
from npcompile.tracer import operators
from npcompile.tracer.decode import decode
from npcompile.tracer.frame import INLINE_DEPTH, Frame, Return
from npcompile.tracer.operators import evaluate, lift, lower, plain
from npcompile.tracer.values import (
    ArrayMethod,
    Cell,
    Closure,
    Constant,
    ErrorState,
    ErrorStateExit,
    Iterator,
    Lazy,
    Mapping,
    Method,
    Opaque,
    RangeValue,
    Sequence,
    SliceValue,
    Truth,
)

Arguments = list[Any]
Keywords = dict[str, Any]
NUMPY_DISPATCHER = type(np.sum)

# NumPy functions about dtypes and constants: evaluated while capturing when every argument is constant.
EVALUATED = {
    np.dtype, np.finfo, np.iinfo, np.result_type, np.promote_types, np.can_cast, np.min_scalar_type, np.issubdtype,
    np.broadcast_shapes, np.isscalar, np.lib.array_utils.normalize_axis_index, np.lib.array_utils.normalize_axis_tuple,
    operator.index, math.prod,
}  # fmt: skip
EVALUATED_TYPES = (int, float, complex, str, bytes, bool, np.dtype, np.finfo, np.iinfo)


def call(frame: Frame, callee: Any, positional: Arguments, keywords: Keywords) -> Any:
    """`callee(*positional, **keywords)`"""
    capture = frame.capture
    if frame.parent is None and frame.index in capture.decisions.native_calls:
        reason = capture.decisions.native_calls[frame.index]
        raise Decline(reason.reason, reason.hint)
    match callee:
        case Constant():
            return call_constant(frame, callee.value, positional, keywords)
        case ArrayMethod():
            return run_captured(frame, METHODS[callee.name], [callee.owner], positional, keywords)
        case Method(owner, function, name):
            if function is None:
                return call_container_method(frame, owner, name, positional, keywords)
            return call(frame, function, [owner, *positional], keywords)
        case Closure():
            return inline_closure(frame, callee, positional, keywords)
        case Opaque() if isinstance(callee.example, types.FunctionType):
            return call_function(frame, callee.example, positional, keywords, callee.source)
        case ErrorStateExit(state):
            frame.contexts.pop()
            capture.builder.ignored = state.before
            return Constant(None)
        case _:
            raise Decline(f"a call of {operators.describe(callee)}")


def lower_all(frame: Frame, values: Arguments) -> list[Any]:
    return [lower(frame.capture, v) for v in values]


def lower_named(frame: Frame, values: Keywords) -> dict[str, Any]:
    return {k: lower(frame.capture, v) for k, v in values.items()}


def finish(frame: Frame, result: Any) -> Any:
    """Lift what the shim gave; if it wrote into an outside array, that one must not overlap another."""
    frame.capture.require_no_overlap()
    return lift(result)


def run_captured(frame: Frame, captured: Captured, owner: list[Any], positional: Arguments, keywords: Keywords) -> Any:
    """A captured form's result. Declines arguments that it does not take: NumPy raises TypeError, or has newer ones."""
    arguments, named = [frame.capture.builder, *owner, *lower_all(frame, positional)], lower_named(frame, keywords)
    try:
        return finish(frame, captured(*arguments, **named))
    except TypeError:
        try:
            inspect.signature(captured).bind(*arguments, **named)
        except TypeError as error:
            raise Decline(str(error)) from None
        raise


def call_constant(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    capture = frame.capture
    name = function_name(function)
    if is_hashable(function):
        if function in BUILTINS:
            return BUILTINS[function](frame, [capture.realize(p) for p in positional], keywords)
        if function in FUNCTIONS:
            return run_captured(frame, FUNCTIONS[function], [], positional, keywords)
        if function in EVALUATED or function in EVALUATED_TYPES:
            return evaluate_call(frame, function, positional, keywords)
    if isinstance(getattr(function, "__self__", None), np.ufunc) and function.__name__ in UFUNC_METHODS:
        return run_captured(frame, UFUNC_METHODS[function.__name__], [function.__self__], positional, keywords)
    if isinstance(function, NUMPY_DISPATCHER):
        inner = getattr(function, "_implementation", None)
        if isinstance(inner, types.FunctionType):
            return inline(frame, inner, positional, keywords)
    if isinstance(function, types.FunctionType):
        return call_function(frame, function, positional, keywords)
    if isinstance(getattr(function, "__self__", None), operators.PURE_TYPES) and isinstance(function, types.BuiltinMethodType):
        return evaluate_call(frame, function, positional, keywords)
    if isinstance(function, types.MethodDescriptorType) and function.__objclass__ is np.ndarray and positional:
        owner = capture.realize(positional[0])
        if isinstance(owner, Array) and function.__name__ in METHODS:
            return call(frame, ArrayMethod(owner, function.__name__), positional[1:], keywords)
    if isinstance(function, types.MethodType):
        return call(frame, Constant(function.__func__), [Constant(function.__self__), *positional], keywords)
    raise Decline(f"{name} is not captured", "It runs natively; the graph resumes after it.")


def call_function(
    frame: Frame, function: types.FunctionType, positional: Arguments, keywords: Keywords, source: str | None = None
) -> Any:
    if hasattr(function, "__npcompile_break__"):
        raise Decline(*function.__npcompile_break__)
    if hasattr(function, "__npcompile_original__"):
        return inline(frame, function.__npcompile_original__, positional, keywords)
    return inline(frame, function, positional, keywords, source)


def is_hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


def function_name(function: Any) -> str:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None) or repr(function)
    return f"{module}.{name}" if module and module != "builtins" else name


def evaluate_call(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    arguments = [plain(frame.capture, p) for p in positional]
    named = {k: plain(frame.capture, v) for k, v in keywords.items()}
    return evaluate(lambda: function(*arguments, **named))


# --- inlining Python functions


def inline(
    frame: Frame, function: types.FunctionType, positional: Arguments, keywords: Keywords, source: str | None = None
) -> Any:
    """Run a Python function's instructions as part of the captured program. `source` gives it, when it is no constant."""
    capture = frame.capture
    source = source or capture.name_constant(function)
    code = function.__code__
    root = frame.root
    if function.__globals__ is root.globals:
        globals_source = root.globals_source
    elif is_library_code(function.__globals__):
        globals_source = None
    else:
        globals_source = capture.name_constant(function.__globals__)
    defaults = [Constant(d) if is_atomic(d) else Lazy(f"{source}.__defaults__[{k}]", d)
                for k, d in enumerate(function.__defaults__ or ())]  # fmt: skip
    named = {
        k: Constant(d) if is_atomic(d) else Lazy(f"{source}.__kwdefaults__[{k!r}]", d)
        for k, d in (function.__kwdefaults__ or {}).items()
    }
    cells = [capture.cell(f"{source}.__closure__[{k}]", cell) for k, cell in enumerate(function.__closure__ or ())]
    return run_inlined(frame, code, function.__globals__, globals_source, defaults, named, cells, positional, keywords)


def is_atomic(value: Any) -> bool:
    return isinstance(value, (type(None), bool, int, float, str, bytes, type, np._globals._NoValueType, type(Ellipsis)))


def is_library_code(namespace: dict[str, Any]) -> bool:
    """Code whose globals are assumed constant: NumPy, SciPy and the standard library."""
    module = str(namespace.get("__name__", "")).split(".")[0]
    return module in ("numpy", "scipy") or module in sys.stdlib_module_names and module != "__main__"


def inline_closure(frame: Frame, closure: Closure, positional: Arguments, keywords: Keywords) -> Any:
    defaults = list(closure.defaults.items) if closure.defaults is not None else []
    named = dict(closure.kwdefaults.items) if closure.kwdefaults is not None else {}
    return run_inlined(
        frame, closure.code, closure.globals, closure.globals_source or None, defaults, named, closure.cells, positional, keywords
    )


def run_inlined(
    frame: Frame,
    code: types.CodeType,
    namespace: dict[str, Any],
    globals_source: str | None,
    defaults: list[Any],
    named_defaults: dict[str, Any],
    cells: list[Cell],
    positional: Arguments,
    keywords: Keywords,
) -> Any:
    is_expression = code.co_name == "<genexpr>" and code.co_flags & 0x20
    if code.co_flags & (0x20 | 0x80 | 0x200) and not is_expression:
        raise Decline(f"{code.co_qualname} is a generator or coroutine")
    if frame.depth >= INLINE_DEPTH:
        raise Decline("calls are nested too deeply")
    variables = bind_arguments(code, defaults, named_defaults, positional, keywords)
    inner = Frame(frame.capture, decode(code), namespace, globals_source, variables, parent=frame)
    inner.cells = dict(zip(code.co_freevars, cells))
    outcome = inner.run()
    assert isinstance(outcome, Return), outcome
    if is_expression:
        return Iterator("sequence", [Sequence(tuple, inner.yielded)])
    return outcome.value


def bind_arguments(
    code: types.CodeType, defaults: list[Any], named_defaults: dict[str, Any], positional: Arguments, keywords: Keywords
) -> dict[str, Any]:
    """CPython's binding of arguments to parameters. Declines where CPython raises TypeError."""
    count, kwonly = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames[:count]
    only = code.co_varnames[count : count + kwonly]
    rest = iter(code.co_varnames[count + kwonly :])
    variables: dict[str, Any] = dict(zip(names, positional))
    extra = positional[count:]
    if code.co_flags & 0x04:
        variables[next(rest)] = Sequence(tuple, list(extra))
    elif extra:
        raise Decline(f"{code.co_name}() takes {count} positional arguments")
    unknown: dict[str, Any] = {}
    for key, value in keywords.items():
        if key in only or key in names[code.co_posonlyargcount :]:
            if key in variables:
                raise Decline(f"{code.co_name}() got multiple values for argument {key!r}")
            variables[key] = value
        else:
            unknown[key] = value
    if code.co_flags & 0x08:
        variables[next(rest)] = Mapping(unknown)
    elif unknown:
        raise Decline(f"{code.co_name}() got an unexpected keyword argument")
    first_default = count - len(defaults)
    for k, name in enumerate(names):
        if name not in variables:
            if k < first_default:
                raise Decline(f"{code.co_name}() misses argument {name!r}")
            variables[name] = defaults[k - first_default]
    for name in only:
        if name not in variables:
            if name not in named_defaults:
                raise Decline(f"{code.co_name}() misses argument {name!r}")
            variables[name] = named_defaults[name]
    return variables


def import_module(frame: Frame, name: str, names: Any, level: Any) -> Any:
    """An import of a module that is already loaded has no effects."""
    if plain(frame.capture, level) != 0 or name not in sys.modules:
        raise Decline(f"import {name}")
    module = sys.modules[name]
    return Constant(module if plain(frame.capture, names) else sys.modules[name.split(".")[0]])


# --- methods of lists, tuples and dicts


def call_container_method(frame: Frame, owner: Any, name: str, positional: Arguments, keywords: Keywords) -> Any:
    if keywords:
        raise Decline(f"{name} with keywords")
    capture = frame.capture
    changes = name in ("append", "extend", "insert", "reverse", "pop", "update", "setdefault")
    if changes and owner.source is not None:
        raise Decline("a container from outside is changed")
    if isinstance(owner, Mapping):
        return call_dict_method(capture, owner, name, positional)
    match name, positional:
        case "append", [item]:
            owner.items.append(item)
        case "extend", [items]:
            owner.items.extend(operators.iterate(capture, capture.realize(items)))
        case "insert", [index, item]:
            owner.items.insert(plain(capture, index), item)
        case "reverse", []:
            owner.items.reverse()
        case "pop", _ if owner.items:
            index = plain(capture, positional[0]) if positional else -1
            if not isinstance(index, int) or not -len(owner.items) <= index < len(owner.items):
                raise Decline("pop index out of range")
            return owner.items.pop(index)
        case "copy", []:
            return Sequence(owner.kind, list(owner.items))
        case (("index" | "count"), _):
            return evaluate(lambda: getattr(plain(capture, owner), name)(*(plain(capture, p) for p in positional)))
        case _:
            raise Decline(f"{owner.kind.__name__}.{name}")
    return Constant(None)


def call_dict_method(capture: Any, owner: Mapping, name: str, positional: Arguments) -> Any:
    keys = (
        [operators.constant_key(capture, capture.realize(p)) for p in positional[:1]]
        if name in ("get", "pop", "setdefault")
        else []
    )
    match name, positional:
        case "get", [_, *default]:
            return owner.items.get(keys[0], default[0] if default else Constant(None))
        case "items", []:
            return Sequence(tuple, [Sequence(tuple, [lift(k), v]) for k, v in owner.items.items()])
        case "keys", []:
            return Sequence(tuple, [lift(k) for k in owner.items])
        case "values", []:
            return Sequence(tuple, list(owner.items.values()))
        case "pop", [_, *default] if default or keys[0] in owner.items:
            return owner.items.pop(keys[0], default[0] if default else None)
        case "setdefault", [_, default]:
            return owner.items.setdefault(keys[0], default)
        case "copy", []:
            return Mapping(dict(owner.items))
        case "update", [other]:
            other = capture.realize(other)
            if isinstance(other, Mapping):
                owner.items.update(other.items)
                return Constant(None)
    raise Decline(f"dict.{name}")


# --- Python's builtins

BUILTINS: dict[Any, Callable[[Frame, Arguments, Keywords], Any]] = {}


def captures(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(captured: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            BUILTINS[function] = captured
        return captured

    return add


def no_keywords(name: str, keywords: Keywords) -> None:
    if keywords:
        raise Decline(f"{name} with keywords")


@captures(len)
def call_len(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [Array() as x]:
            if not x.ndim:
                raise Decline("len() of unsized object")
            return lift(x.shape[0])
        case [Sequence() | Mapping() as x]:
            return Constant(len(x.items))
        case [RangeValue() as x] if x.step == 1:
            start, stop = operators.plain_number(x.start), operators.plain_number(x.stop)
            return lift(stop - start if stop > start else 0)
    return operators.evaluate_pure(frame.capture, len, *positional)


@captures(range)
def call_range(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords("range", keywords)
    if not 1 <= len(positional) <= 3 or not all(isinstance(p, (Constant, Dim)) for p in positional):
        raise Decline("range() of an object that is not an integer")
    parts = [
        p if isinstance(p, Dim) else Constant(operator.index(p.value)) if hasattr(p.value, "__index__") else None
        for p in positional
    ]
    if None in parts:
        raise Decline("range() of an object that is not an integer")
    step = plain(frame.capture, parts[2]) if len(parts) == 3 else 1
    if step == 0:
        raise Decline("range() arg 3 must not be zero")
    start, stop = (Constant(0), parts[0]) if len(parts) == 1 else parts[:2]
    return RangeValue(start, stop, step)


@captures(isinstance, issubclass)
def call_isinstance(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    value, kinds = positional[0], plain(frame.capture, positional[1])
    if isinstance(value, Constant) and isinstance(value.value, type):
        return evaluate(lambda: issubclass(value.value, kinds) or isinstance(value.value, kinds) and value.value is None)
    return evaluate(lambda: issubclass(type_of(value), kinds))


@captures(type)
def call_type(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) != 1:
        raise Decline("type() with three arguments")
    return Constant(type_of(positional[0]))


def type_of(value: Any) -> type:
    match value:
        case Array():
            return np.ndarray if value.meta.boxed else value.dtype.type
        case Dim():
            return int
        case Number():
            return value.type
        case Sequence():
            return value.kind
        case Mapping():
            return dict
        case SliceValue():
            return slice
        case RangeValue():
            return range
        case Constant():
            return type(value.value)
        case Opaque():
            return type(value.example)
        case Closure():
            return types.FunctionType
        case Truth():
            return bool
        case _:
            raise Decline(f"the type of {operators.describe(value)}")


for _kind in (tuple, list):

    def _make(frame: Frame, positional: Arguments, keywords: Keywords, kind: type = _kind) -> Any:
        no_keywords(kind.__name__, keywords)
        return Sequence(kind, operators.iterate(frame.capture, positional[0]) if positional else [])

    BUILTINS[_kind] = _make


@captures(dict)
def call_dict(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    items: dict[Any, Any] = {}
    if positional:
        if isinstance(positional[0], Mapping):
            items.update(positional[0].items)
        else:
            for pair in operators.iterate(frame.capture, positional[0]):
                key, value = operators.iterate(frame.capture, frame.capture.realize(pair))
                items[operators.constant_key(frame.capture, key)] = value
    items.update(keywords)
    return Mapping(items)


@captures(iter)
def call_iter(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) != 1:
        raise Decline("iter() with two arguments")
    return operators.iterator_of(frame.capture, positional[0])


@captures(next)
def call_next(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if not isinstance(positional[0], Iterator):
        raise Decline("next() of an iterator from outside")
    item = operators.next_item(frame.capture, positional[0])
    if item is None:
        if len(positional) < 2:
            raise Decline("StopIteration")
        return positional[1]
    return item


@captures(enumerate)
def call_enumerate(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    start = keywords.get("start", positional[1] if len(positional) > 1 else Constant(0))
    inner = operators.iterator_of(frame.capture, positional[0])
    if not isinstance(inner, Iterator):
        raise Decline("enumerate() over an outside iterator")
    return Iterator("enumerate", [inner], start=plain(frame.capture, start))


@captures(zip)
def call_zip(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords("zip", keywords)
    parts = [operators.iterator_of(frame.capture, p) for p in positional]
    if not parts or not all(isinstance(p, Iterator) for p in parts):
        raise Decline("zip() over an outside iterator")
    return Iterator("zip", parts)


@captures(reversed)
def call_reversed(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if isinstance(positional[0], RangeValue):
        span = plain(frame.capture, positional[0])[::-1]
        return Iterator("range", [RangeValue(Constant(span.start), Constant(span.stop), span.step)])
    if not isinstance(positional[0], Sequence):
        raise Decline("reversed() of something that is not a list, tuple or range")
    return Iterator("reversed", [positional[0]], start=len(positional[0].items) - 1)


@captures(map)
def call_map(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    function, *parts = positional
    columns = [operators.iterate(frame.capture, p) for p in parts]
    return Iterator("sequence", [Sequence(tuple, [call(frame, function, list(row), {}) for row in zip(*columns)])])


@captures(sum)
def call_sum(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    total = keywords.get("start", positional[1] if len(positional) > 1 else Constant(0))
    for item in operators.iterate(frame.capture, positional[0]):
        total = operators.binary(frame.capture, "+", frame.capture.realize(total), frame.capture.realize(item))
    return total


@captures(abs)
def call_abs(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    x = positional[0]
    if isinstance(x, Array):
        return lift(operators.array_operators.UNARY["abs"](frame.capture.builder, x))
    if isinstance(x, Dim):
        return abs(x)
    if isinstance(x, Number):
        return Number(x.env, f"abs({x.text})", abs(x.hint))
    return operators.evaluate_pure(frame.capture, abs, x)


@captures(min)
def call_min(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return extreme(frame, "<", min, positional, keywords)


@captures(max)
def call_max(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return extreme(frame, ">", max, positional, keywords)


def extreme(frame: Frame, symbol: str, function: Callable[..., Any], positional: Arguments, keywords: Keywords) -> Any:
    no_keywords(function.__name__, keywords)
    items = positional if len(positional) > 1 else operators.iterate(frame.capture, positional[0])
    items = [frame.capture.realize(v) for v in items]
    if not items or not all(operators.is_number(v) for v in items):
        return operators.evaluate_pure(frame.capture, lambda *v: function(v), *items)
    best = items[0]
    for item in items[1:]:
        if operators.compare(frame.capture, symbol, item, best).value:
            best = item
    return best


for _function, _stops_at in ((any, True), (all, False)):

    def _ask(frame: Frame, positional: Arguments, keywords: Keywords, stops_at: bool = _stops_at) -> Any:
        for item in operators.iterate(frame.capture, positional[0]):
            answer = operators.truth(frame.capture, item)
            if not isinstance(answer, Constant):
                raise Decline("any() or all() over array data")
            if bool(answer.value) == stops_at:
                return Constant(stops_at)
        return Constant(not stops_at)

    BUILTINS[_function] = _ask


@captures(bool)
def call_bool(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    answer = operators.truth(frame.capture, positional[0]) if positional else Constant(False)
    if not isinstance(answer, Constant):
        raise Decline("bool() of array data", "np.where and masks stay in the graph.")
    return answer


@captures(int)
def call_int(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) == 1 and isinstance(positional[0], Dim):
        return positional[0]
    return conversion(frame, int, positional, keywords)


@captures(float)
def call_float(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    match positional:
        case [Number() as x] if x.type is float:
            return x
        case [Dim() as n]:
            return Number(frame.capture.builder.env, f"float({n})", float(n.hint))
    return conversion(frame, float, positional, keywords)


def conversion(frame: Frame, kind: type, positional: Arguments, keywords: Keywords) -> Any:
    if any(isinstance(p, Array) and frame.capture.known_contents(p) is None for p in positional):
        raise Decline(f"{kind.__name__}() of array data", "A NumPy scalar or 0-D array stays in the graph.")
    return evaluate_call(frame, kind, positional, keywords)


@captures(hasattr)
def call_hasattr(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    owner, name = positional[0], plain(frame.capture, positional[1])
    match owner:
        case Array():
            return Constant(hasattr(np.ndarray if owner.meta.boxed else owner.dtype.type, name))
        case Constant() | Sequence() | Dim() | Number() | Mapping():
            holder = owner.value if isinstance(owner, Constant) else type_of(owner)
            return Constant(hasattr(holder, name))
        case _:
            raise Decline(f"hasattr of {operators.describe(owner)}")


@captures(callable)
def call_callable(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return Constant(
        callable(type_of(positional[0])) if not isinstance(positional[0], Constant) else callable(positional[0].value)
    )


@captures(slice)
def call_slice(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    none = Constant(None)
    match positional:
        case [stop]:
            return SliceValue(none, stop, none)
        case [start, stop]:
            return SliceValue(start, stop, none)
        case [start, stop, step]:
            return SliceValue(start, stop, step)
    raise Decline("slice() without arguments")


@captures(sorted)
def call_sorted(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    no_keywords("sorted", keywords)
    return evaluate(lambda: sorted(plain(frame.capture, Sequence(list, operators.iterate(frame.capture, positional[0])))))


@captures(np.errstate)
def call_errstate(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    settings = {k: plain(frame.capture, v) for k, v in keywords.items()}
    if positional or any(v not in ("ignore", "warn") for k, v in settings.items()):
        raise Decline("np.errstate that raises, calls, prints or logs")
    return ErrorState(settings)


for _name in ("repr", "str", "round", "ord", "chr", "hash", "divmod", "pow", "format"):
    _builtin = getattr(builtins, _name)

    def _pure(frame: Frame, positional: Arguments, keywords: Keywords, function: Any = _builtin) -> Any:
        no_keywords(function.__name__, keywords)
        return operators.evaluate_pure(frame.capture, function, *positional)

    BUILTINS[_builtin] = _pure

# math functions of a traced float: guarded to stay where Python's math raises nothing.
MATH_DOMAINS: dict[str, str] = {
    "sqrt": "0.0 <= {x} < 1e308",
    "exp": "-1e308 < {x} < 700.0",
    "log": "5e-324 <= {x} < 1e308",
    "log2": "5e-324 <= {x} < 1e308",
    "log10": "5e-324 <= {x} < 1e308",
    "log1p": "-0.999 < {x} < 1e308",
    "expm1": "-1e308 < {x} < 700.0",
    "floor": "-2147483647 < {x} < 2147483647",
    "ceil": "-2147483647 < {x} < 2147483647",
    "sin": "-1e308 < {x} < 1e308",
    "cos": "-1e308 < {x} < 1e308",
    "tan": "-1e308 < {x} < 1e308",
    "atan": "-1e308 < {x} < 1e308",
    "tanh": "-1e308 < {x} < 1e308",
    "asin": "-1.0 <= {x} <= 1.0",
    "acos": "-1.0 <= {x} <= 1.0",
    "sinh": "-700.0 < {x} < 700.0",
    "cosh": "-700.0 < {x} < 700.0",
    "erf": "-1e308 < {x} < 1e308",
    "fabs": "-1e308 < {x} < 1e308",
}

for _name, _domain in MATH_DOMAINS.items():

    def _math(
        frame: Frame, positional: Arguments, keywords: Keywords, function: Any = getattr(math, _name), domain: str = _domain
    ) -> Any:
        x = positional[0] if len(positional) == 1 else None
        if not isinstance(x, (Dim, Number)):
            return evaluate_call(frame, function, positional, keywords)
        text, value = operators.number_text(x), operators.hint(x)
        condition = domain.format(x=text)
        if not in_domain(domain, value):
            raise Decline(f"math.{function.__name__} out of its domain")
        frame.capture.guard(condition)
        result = function(value)
        expression = f"{frame.capture.name_constant(function)}({text})"
        if isinstance(result, int):
            return traced_integer(frame, expression, result)
        return Number(frame.capture.builder.env, expression, result)

    BUILTINS[getattr(math, _name)] = _math


def in_domain(domain: str, value: Any) -> bool:
    """Does the number satisfy the condition, which is a chain of comparisons on {x}?"""
    return not isinstance(value, complex) and bool(eval(domain.format(x="x"), {}, {"x": value}))


def traced_integer(frame: Frame, expression: str, hint: int) -> Any:
    """A traced integer that is the value of an expression."""
    env = frame.capture.builder.env
    name = f"s{len(env.hints)}"
    frame.capture.guard(f"(({name} := {expression}) is not None)")
    return env.symbol(name, hint)
