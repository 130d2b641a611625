"""functools and operator: functions made of functions, and the operators as functions."""

from __future__ import annotations

import builtins
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

from npcompile.tensor_core.guards import Is, Keeps
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.source import Bound, Call, Formula, Source
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import attributes, calls, forward, identity, inlining, iteration, operators, subscripts
from npcompile.tracer.python.calls import BUILTINS, CALLED_BY_TYPE, Arguments, Keywords, captures
from npcompile.tracer.python.introspection import type_of
from npcompile.tracer.python.operators import lift, plain
from npcompile.tracer.values import Closure, Constant, Lazy, Mapping, Method, Partial, Sequence

# --- objects that hold a function and arguments


def make_partial(kind: type, frame: Frame, positional: Arguments, keywords: Keywords) -> Partial:
    if not positional:
        raise Decline(f"{kind.__qualname__}() without arguments")
    inner = frame.capture.realize(positional[0])
    if kind is functools.partial and isinstance(inner, Partial) and inner.kind is kind:
        return Partial(kind, [*inner.positional, *positional[1:]], inner.keywords | keywords)
    return Partial(kind, list(positional), dict(keywords))


KINDS = (functools.partial, operator.itemgetter, operator.attrgetter, operator.methodcaller)
BUILTINS |= {kind: functools.partial(make_partial, kind) for kind in KINDS}


@forward.call_partial.defined
def call_partial(frame: Frame, held: Partial, positional: Arguments, keywords: Keywords) -> Any:
    capture, given = frame.capture, held.positional
    if held.kind is functools.partial:
        function = capture.realize(given[0])
        return calls.call(frame, function, [*given[1:], *positional], held.keywords | keywords)
    if len(positional) != 1 or keywords:
        raise Decline(f"arguments that an {held.kind.__qualname__} does not take")
    owner = capture.realize(positional[0])
    if held.kind is operator.methodcaller:
        method = attributes.load(frame, owner, plain(capture, given[0]))
        return calls.call(frame, capture.realize(method), list(given[1:]), held.keywords)
    if held.kind is operator.itemgetter:
        found = [subscripts.getitem(capture, owner, capture.realize(key)) for key in given]
    else:
        found = [attribute_of(frame, owner, plain(capture, name)) for name in given]
    return found[0] if len(found) == 1 else Sequence(tuple, found)


def attribute_of(frame: Frame, owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = attributes.load(frame, frame.capture.realize(owner), name)
    return owner


def call_partial_from_outside(frame: Frame, source: Source, example: Any, positional: Arguments, keywords: Keywords) -> Any:
    """A partial that came from outside; the others are constants, guarded by identity: nobody can change them."""
    capture = frame.capture
    function = Lazy(source.attribute("func"), example.func)
    given = [Lazy(source.attribute("args").item(k), a) for k, a in enumerate(example.args)]
    named = capture.read(source.attribute("keywords"), example.keywords)
    if not isinstance(named, Mapping):
        raise Decline("a partial with keywords that are not plain")
    return call_partial(frame, Partial(functools.partial, [function, *given], dict(named.items)), positional, keywords)


def call_held(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    if isinstance(function, functools.partial):
        return call_partial_from_outside(frame, frame.capture.object_of(function), function, positional, keywords)
    made: tuple[Any, Any] = function.__reduce__()
    (kind, given), named = made, {}
    if isinstance(kind, functools.partial):  # of a methodcaller with keywords
        given, named = kind.args, kind.keywords
        kind = kind.func
    held = Partial(kind, [lift(v) for v in given], {k: lift(v) for k, v in named.items()})
    return call_partial(frame, held, positional, keywords)


CALLED_BY_TYPE |= dict.fromkeys(KINDS, call_held)


# --- functions of functools


@captures(functools.reduce)
def call_reduce(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    function, items, *start = positional
    capture = frame.capture
    rest = iter(iteration.iterate(capture, capture.realize(items)))
    total = start[0] if start else next(rest, None)
    if total is None or keywords or len(start) > 1:
        raise Decline("reduce() of nothing")
    for item in rest:
        total = forward.call_function(capture, function, [total, item])
    return total


@captures(functools.update_wrapper)
def call_update_wrapper(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """Of a function made in the program: real ones are changed, natively."""
    wrapper, *given = positional
    (wrapped,) = given or [keywords.get("wrapped")]
    if not isinstance(wrapper, Closure) or wrapped is None or keywords.keys() - {"wrapped"}:
        raise Decline("update_wrapper of a function from outside, or with a choice of attributes")
    wrapped = frame.capture.realize(wrapped)
    frame.capture.require_no_body("a function gets attributes")
    if isinstance(wrapped, Closure):
        wrapper.attributes |= wrapped.attributes
    wrapper.attributes["__wrapped__"], wrapper.is_renamed = wrapped, True
    return wrapper


@captures(types.MethodType)
def call_method_type(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    """A function bound to an object."""
    if len(positional) != 2 or keywords:
        raise Decline("arguments that MethodType does not take")
    function, owner = positional
    real = function.value if isinstance(function, Constant) else getattr(function, "example", None)
    if not isinstance(function, Closure) and not isinstance(real, types.FunctionType):
        raise Decline("a method of what is not a function")
    return Method(owner, function, getattr(real, "__name__", ""))


@captures(functools.wraps)
def call_wraps(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) != 1 or keywords:
        raise Decline("wraps() with a choice of attributes")
    return Partial(functools.partial, [Constant(functools.update_wrapper)], {"wrapped": positional[0]})


def key_of_comparison(compare: Any) -> Any:
    """functools.cmp_to_key, in Python."""

    def key(item: Any) -> Any:
        return Compared(compare, item)

    return key


class Compared:
    __module__ = "functools"  # an object of the library's, not one of ours

    def __init__(self, compare: Any, item: Any):
        self.compare, self.item = compare, item

    def __lt__(self, other: Any) -> Any:
        return self.compare(self.item, other.item) < 0


@captures(functools.cmp_to_key)
def call_cmp_to_key(frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    return calls.call(frame, Constant(key_of_comparison), positional, keywords)


DISPATCHES: types.CodeType = vars(functools)["singledispatch"](lambda x: x).__code__


def call_dispatching(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    """A function of functools.singledispatch: which one it calls depends on the first argument's type."""
    if not positional:
        raise Decline("a dispatching function without arguments")
    kind = type_of(frame.capture.realize(positional[0]))
    chosen = function.dispatch(kind)
    of = frame.capture.object_of
    frame.capture.guard(Is(Call(of(function).attribute("dispatch"), of(kind)), of(chosen)))
    return calls.call(frame, lift(chosen), positional, keywords)


# --- functions that remember what they gave


def call_remembering(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    """A function under functools.lru_cache. It is called where the guards are checked, and remembers that.

    So nothing may have happened that it could see, and its arguments are known then.
    """
    capture = frame.capture
    inner = function.__wrapped__
    if isinstance(inner, types.FunctionType) and inlining.is_library_code(inner.__globals__):
        return calls.evaluate_call(frame, function, positional, keywords)
    is_written = any(a.storage.is_written for _, a in capture.by_identity.values())
    is_changed = capture.effects or is_written or any(c.is_written for c in capture.cells.values()) or capture.bodies
    if is_changed and not sees_arguments_alone(inner):
        raise Decline(f"{calls.function_name(function)} remembers its results, and may see what was changed before")
    given = [plain(capture, p) for p in positional]
    named = {k: plain(capture, v) for k, v in keywords.items()}
    if not all(isinstance(v, operators.PURE_TYPES) for v in (*given, *named.values())):
        raise Decline(f"arguments of {calls.function_name(function)}, which remembers its results")
    try:
        result = function(*given, **named)
    except Exception as error:  # noqa: BLE001  (it runs again natively, and raises there)
        raise Decline(f"{type(error).__name__}: {error}") from None
    arguments = [*map(capture.object_of, given), *(Formula(f"{k}={{}}", capture.object_of(v)) for k, v in named.items())]
    call = Call(capture.object_of(function), *arguments)
    known = capture.remembered.setdefault(call, Bound(f"known_{len(capture.remembered)}"))
    capture.guard(Keeps(call, known.name))
    return Lazy(known, result)


def sees_arguments_alone(function: Any) -> bool:
    """Does the function read nothing but what it is given, and Python's own names?"""
    if not isinstance(function, types.FunctionType) or function.__closure__:
        return False
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    is_fixed = all(isinstance(v, operators.PURE_TYPES) for v in defaults)
    return is_fixed and reads_only_builtins(function.__code__, function.__globals__)


def reads_only_builtins(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    for i in decode(code).instructions:
        traits = i.traits
        if traits.reads("global"):
            if i.argval in namespace or getattr(builtins, i.argval, None) not in SEE_ARGUMENTS_ALONE:
                return False
        elif traits.reads("attribute"):
            if str(i.argval).startswith("__"):  # __globals__, __subclasses__
                return False
        elif traits.place == "global" or traits.defines in ("class", "import"):
            return False
    return all(reads_only_builtins(c, namespace) for c in code.co_consts if isinstance(c, types.CodeType))


SEE_ARGUMENTS_ALONE = {v for v in vars(builtins).values() if isinstance(v, type)} | {
    *(
        abs,
        all,
        any,
        ascii,
        bin,
        chr,
        divmod,
        format,
        hash,
        hex,
        isinstance,
        issubclass,
        iter,
        len,
        max,
        min,
        next,
        oct,
        ord,
        pow,
    ),
    *(repr, round, sorted, sum),
}

CALLED_BY_TYPE[functools._lru_cache_wrapper] = call_remembering


# --- the operators as functions


def operate(ask: Callable[..., Any], count: int, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    if len(positional) != count or keywords:
        raise Decline("arguments that the operator does not take")
    return ask(frame.capture, *map(frame.capture.realize, positional))


def answer(ask: Callable[..., bool]) -> Callable[..., Constant]:
    return lambda *operands: Constant(ask(*operands))


BINARY_NAMES = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
COMPARE_NAMES = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
UNARY_NAMES = {"neg": "-", "pos": "+", "invert": "~", "inv": "~", "abs": "abs"}


def opposite(capture: Any, value: Any) -> Constant:
    said = operators.truth(capture, value)
    if not isinstance(said, Constant):
        raise Decline("not_() of array data")
    return Constant(not said.value)


def concat(capture: Any, left: Any, right: Any) -> Any:
    if not isinstance(left, Sequence) or not isinstance(right, Sequence):
        raise Decline("concat() of what are not sequences")
    return operators.binary(capture, "+", left, right)


OPERATORS: dict[str, tuple[Callable[..., Any], int]] = {
    **{name: (lambda c, a, b, s=s: operators.binary(c, s, a, b), 2) for name, s in BINARY_NAMES.items()},
    **{f"i{name.strip('_')}": (lambda c, a, b, s=s: operators.inplace(c, f"{s}=", a, b), 2) for name, s in BINARY_NAMES.items()},
    **{name: (lambda c, a, b, s=s: operators.compare(c, s, a, b), 2) for name, s in COMPARE_NAMES.items()},
    **{name: (lambda c, a, s=s: operators.unary(c, s, a), 1) for name, s in UNARY_NAMES.items() if name != "abs"},
    "getitem": (subscripts.getitem, 2),
    "setitem": (subscripts.setitem, 3),
    "delitem": (subscripts.delitem, 2),
    "contains": (answer(operators.contains), 2),
    "is_": (answer(lambda c, a, b: identity.is_same_object(a, b, c)), 2),
    "is_not": (answer(lambda c, a, b: not identity.is_same_object(a, b, c)), 2),
    "truth": (operators.truth, 1),
    "not_": (opposite, 1),
    "concat": (concat, 2),
}


def call_operator(ask: Callable[..., Any], count: int, frame: Frame, positional: Arguments, keywords: Keywords) -> Any:
    result = operate(ask, count, frame, positional, keywords)
    return Constant(None) if result is None else result


BUILTINS |= {getattr(operator, name): functools.partial(call_operator, *row) for name, row in OPERATORS.items()}
BUILTINS[operator.abs] = BUILTINS[abs]
calls.CALLED_FROM_OUTSIDE[functools.partial] = call_partial_from_outside
calls.CALLED_BY_CODE[DISPATCHES] = call_dispatching
