"""Calls: what runs while capturing, what becomes ops, what is inlined, and what ends the graph."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
import operator
import os
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.numpy_shim import flat, other_ufuncs
from npcompile.numpy_shim.registry import FUNCTIONS, METHODS, Captured
from npcompile.numpy_shim.ufunc_methods import UFUNC_METHODS
from npcompile.tensor_core.array import Array, fresh
from npcompile.tensor_core.decline import DataDecides, Decline
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import FLOAT_ERRORS
from npcompile.tensor_core.guards import HasAttribute, Is
from npcompile.tensor_core.known import depends_on_data
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import Source
from npcompile.tracer import raising
from npcompile.tracer.entry import plain_function, wrapped_behind
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import arithmetic, class_attributes, forward, generators, groups, operators, texts
from npcompile.tracer.python.inlining import inline, inline_closure, is_atomic
from npcompile.tracer.python.operators import evaluate, lift, lower, plain
from npcompile.tracer.tensor_values import as_array, as_tensor, holds_tensor, realized
from npcompile.tracer.values import (
    ArrayFlat,
    ArrayMethod,
    Closure,
    Comparison,
    Constant,
    ContextExit,
    ErrorState,
    ExceptionValue,
    Generator,
    Mapping,
    Method,
    Opaque,
    OutsideSequence,
    Partial,
    Record,
    Sequence,
    TensorMethod,
    Transform,
    is_hashable,
    is_named_tuple,
)

Arguments = list[Any]
Keywords = dict[str, Any]
NUMPY_DISPATCHER = type(np.sum)

# NumPy functions about dtypes and constants: evaluated while capturing when every argument is constant.
EVALUATED = {
    np.dtype, np.finfo, np.iinfo, np.result_type, np.promote_types, np.can_cast, np.min_scalar_type, np.issubdtype,
    np.broadcast_shapes, np.isscalar, np.lib.array_utils.normalize_axis_index, np.lib.array_utils.normalize_axis_tuple,
    operator.index, math.prod, os.fspath,
}  # fmt: skip
EVALUATED_TYPES = (int, float, complex, str, bytes, bool, np.dtype, np.finfo, np.iinfo)

# Modules of this package whose functions change what is the same for the process: they run, and are not read.
STATEFUL = ("compiler", "explain", "host_calls", "logs", "marks", "settings", "switch")
KEEP_STATE = frozenset(f"npcompile.{name}" for name in STATEFUL)


def call(frame: Frame, callee: Any, positional: Arguments, keywords: Keywords) -> Any:
    """`callee(*positional, **keywords)`"""
    capture = frame.capture
    if frame.parent is None and frame.index in capture.decisions.native_calls:
        reason = capture.decisions.native_calls[frame.index]
        raise Decline(reason.reason, reason.hint)
    match callee:
        case Transform():
            return call_transform(frame, callee, positional, keywords)
        case Constant(Transform() as made):
            inner = Transform(made.kind, Constant(made.function), made.options)
            return call_transform(frame, inner, positional, keywords)
        case Constant():
            return call_constant(frame, callee.value, positional, keywords)
        case ArrayMethod(owner, "item" | "tolist" | "tobytes") if not keywords and depends_on_data(owner.node):
            return forward.to_python(callee.name, capture, owner, lower_all(frame, positional))
        case ArrayMethod():
            return run_captured(frame, METHODS[callee.name], [callee.owner], positional, keywords)
        case Method(Generator() as made, None, name):
            return generators.call_method(made, name, positional, keywords)
        case Method(ExceptionValue() as error, None, name):
            return groups.call_method(frame, error, name, positional, keywords)
        case Method(owner, function, name):
            if function is None:
                return forward.container_method(frame, owner, name, positional, keywords)
            return call(frame, function, [owner, *positional], keywords)
        case Closure():
            return inline_closure(frame, callee, positional, keywords)
        case Partial():
            return forward.call_partial(frame, callee, positional, keywords)
        case Opaque() if type(callee.example) in CALLED_FROM_OUTSIDE:
            ask = CALLED_FROM_OUTSIDE[type(callee.example)]
            return ask(frame, callee.source, callee.example, positional, keywords)
        case Opaque() if callee.source in capture.varying:
            raise Decline("a function that changes from call to call is called", "It runs as a compiled function of its own.")
        case Opaque() if isinstance(callee.example, types.FunctionType):
            if callee.example in BUILTINS:
                capture.guard(Is(callee.source, capture.object_of(callee.example)))
                return call_constant(frame, callee.example, positional, keywords)
            return call_function(frame, callee.example, positional, keywords, callee.source)
        case Opaque() if isinstance(method := inspect.getattr_static(type(callee.example), "__call__", None), types.FunctionType):
            capture.guard_class(type(callee.example), "__call__")
            return call(frame, Constant(method), [callee, *positional], keywords)
        case Record() if isinstance(method := inspect.getattr_static(callee.kind, "__call__", None), types.FunctionType):
            capture.guard_class(callee.kind, "__call__")
            return call(frame, Constant(method), [callee, *positional], keywords)
        case TensorMethod():
            return forward.tensor_method(frame, callee, positional, keywords)
        case ContextExit(state):
            frame.contexts.pop()
            if isinstance(state, ErrorState):
                capture.builder.ignored = state.before
                if frame.parent is None:
                    capture.error_states.add(frame.index + 1)
            else:
                capture.grad_enabled = state.before
            return Constant(None)
        case _:
            raise Decline(f"a call of {operators.describe(callee)}")


Lowered = Callable[[Any, Any], Any]


def lower_all(frame: Frame, values: Arguments, lowered: Lowered = lower) -> list[Any]:
    return [lowered(frame.capture, v) for v in values]


def lower_named(frame: Frame, values: Keywords) -> dict[str, Any]:
    return {k: lower(frame.capture, v) for k, v in values.items()}


def finish(frame: Frame, result: Any) -> Any:
    """Lift what the shim gave; if it wrote into an outside array, that one must not overlap another."""
    frame.capture.require_no_overlap()
    return lift(result)


def run_captured(
    frame: Frame,
    captured: Captured,
    owner: list[Any],
    positional: Arguments,
    keywords: Keywords,
    lowered: Lowered = lower,
) -> Any:
    """A captured form's result. Declines arguments that it does not take: NumPy raises TypeError, or has newer ones."""
    arguments, named = [frame.capture.builder, *owner, *lower_all(frame, positional, lowered)], lower_named(frame, keywords)
    try:
        return finish(frame, captured(*arguments, **named))
    except TypeError:
        try:
            inspect.signature(captured).bind(*arguments, **named)
        except TypeError as error:
            raise Decline(str(error)) from None
        raise


def is_written_in_python(function: Any) -> bool:
    return isinstance(getattr(function, "_implementation", function), types.FunctionType)


def call_constant(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    if type(function) in STANDS_FOR_NUMPY:
        return STANDS_FOR_NUMPY[type(function)](frame, function, positional, keywords)
    capture = frame.capture
    name = function_name(function)
    if function is str and len(positional) == 1 and isinstance(error := capture.realize(positional[0]), ExceptionValue):
        return Constant(groups.text_of(error)) if groups.is_group(error.kind) else raising.text_of(capture, error)
    if function in (int, float, bool) and len(positional) == 1 and not keywords and isinstance(positional[0], Comparison):
        return arithmetic.of_comparison(capture, function, positional[0])
    if is_hashable(function):
        if len(positional) > MOST_GIVEN.get(function, len(positional)):
            raise Decline(f"{name} of {len(positional)} arguments")
        if function in BUILTINS:
            given = [capture.realize(p) for p in positional]
            if function not in TAKES_INTEGERS:
                given = [operators.without_integers(capture, p) for p in given]
            return BUILTINS[function](frame, given, keywords)
        if function in flat.REDUCED and any(isinstance(p, ArrayFlat) for p in positional[:1]):
            positional = [flat.elements(capture.builder, positional[0].owner), *positional[1:]]
        if is_numpy_function(function):
            joins = function in TO_ARRAY or function in JOINS
            if joins and positional and not capture.goes_through_gradients:
                require_few_parts(capture, capture.realize(positional[0]))
            arguments, named = realized(capture, positional), dict(zip(keywords, realized(capture, keywords.values())))
            if any(map(holds_tensor, [*arguments, *named.values()])):
                plain_named = {k: as_array(v) for k, v in named.items()}
                result = call_constant(frame, function, [as_array(a) for a in arguments], plain_named)
                return own_copy(capture, result) if function in TO_ARRAY else as_tensor(capture, result)
            if isinstance(function, NUMPY_DISPATCHER):
                forward.require_no_override(capture, function, [*arguments, *named.values()])
        captured = FUNCTIONS.get(function)
        if captured is None and capture.place is None:  # they take arrays on the host
            captured = other_ufuncs.form_of(function)
        if captured is not None:
            try:
                lowered = operators.lower_operand if isinstance(function, np.ufunc) else operators.lower
                return run_captured(frame, captured, [], positional, keywords, lowered)
            except Decline as decline:
                if isinstance(decline, DataDecides) or not is_written_in_python(function):
                    raise  # else NumPy's own code is inlined below: it knows every case that the captured form does not
        if function in EVALUATED or function in EVALUATED_TYPES or is_question_to_ufunc(function):
            return evaluate_call(frame, function, positional, keywords)
    if groups.is_group(function):
        return groups.make(frame, function, positional, keywords)
    if raising.is_exception(function):
        return raising.make(function, positional, keywords)
    if isinstance(function, type) and is_named_tuple(function):
        return named_tuple(function, positional, keywords)
    if isinstance(function, type) and is_plain_dataclass(function):
        return record(frame, function, positional, keywords)
    if isinstance(function, type) and forward.is_made_plainly(function):
        return forward.make(frame, function, positional, keywords)
    if isinstance(getattr(function, "__self__", None), np.ufunc) and function.__name__ in UFUNC_METHODS:
        return run_captured(frame, UFUNC_METHODS[function.__name__], [function.__self__], positional, keywords)
    if isinstance(function, NUMPY_DISPATCHER):
        inner = getattr(function, "_implementation", None)
        if isinstance(inner, types.FunctionType):
            if function in ITERATED and positional and not has_elements(capture.realize(positional[0])):
                raise Decline(f"{name} iterates over its argument before anything else")
            return inline(frame, inner, positional, keywords)
    if isinstance(function, types.FunctionType):
        return call_function(frame, function, positional, keywords)
    if isinstance(function, enum.EnumMeta) and "_missing_" not in vars(function):
        return evaluate_call(frame, function, positional, keywords)
    is_method = isinstance(function, (types.BuiltinMethodType, types.MethodWrapperType))
    if is_method and type(function.__self__) is str and function.__name__ == "format":
        made = texts.format_called(capture, function.__self__, positional, keywords)
        if made is not None:
            return made
    if is_method and type(function.__self__) is str or getattr(function, "__objclass__", None) is str:
        given = [capture.realize(p) for p in ((Constant(function.__self__), *positional) if is_method else positional)]
        made = texts.method_called(capture, function.__name__, given) if not keywords else NotImplemented
        if made is not NotImplemented:
            return made
    if is_method and isinstance(getattr(function, "__self__", None), operators.PURE_TYPES):
        positional = [forward.taken(capture, p) for p in positional]
        return evaluate_call(frame, function, positional, keywords)
    if isinstance(function, types.MethodDescriptorType) and function.__objclass__ is np.ndarray and positional:
        owner = capture.realize(positional[0])
        if isinstance(owner, Array) and function.__name__ in METHODS:
            return call(frame, ArrayMethod(owner, function.__name__), positional[1:], keywords)
    if isinstance(function, types.MethodType):
        return call(frame, Constant(function.__func__), [Constant(function.__self__), *positional], keywords)
    if type(function) in CALLED_BY_TYPE:
        return CALLED_BY_TYPE[type(function)](frame, function, positional, keywords)
    raise Decline(f"{name} is not captured", "Python runs it; the graph resumes after it.")


def is_question_to_ufunc(function: Any) -> bool:
    return isinstance(getattr(function, "__self__", None), np.ufunc) and function.__name__ == "resolve_dtypes"


ITERATED = frozenset([np.poly, np.roots])  # their dispatchers look for __array_function__ among the elements


def has_elements(value: Any) -> bool:
    if isinstance(value, Constant):
        return np.ndim(value.value) > 0
    return value.ndim > 0 if isinstance(value, Array) else not isinstance(value, (Dim, Number, Integer))


# These call __array__ of what they are given; other functions of NumPy dispatch on it.
TO_ARRAY = frozenset([np.asarray, np.array, np.asanyarray, np.ascontiguousarray, np.asfortranarray])
JOINS = frozenset([np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack])
MANY = 32


def require_few_parts(capture: Any, value: Any) -> None:
    """Decline to join a long list or tuple from outside: NumPy copies each part once, and no length is guarded."""
    if not isinstance(value, OutsideSequence) or value.is_loaded or len(value.example) <= MANY:
        return
    if all(isinstance(x, (int, float, np.generic)) for x in value.example):
        raise Decline("an array of a long list of numbers, each of which would be an input of the graph")
    if capture.may_break:
        raise Decline("a long list of arrays is joined, each of which would be an input of the graph")


def own_copy(capture: Any, x: Any) -> Any:
    """What __array__ gives: the memory of a Tensor on the CPU, a copy of one on a device."""
    is_shared = isinstance(x, Array) and x.storage.source in capture.on_device
    return fresh(x.builder, x.node) if is_shared else x


def is_numpy_function(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return function in FUNCTIONS or isinstance(function, (NUMPY_DISPATCHER, np.ufunc)) or isinstance(owner, np.ufunc)


def call_function(
    frame: Frame, function: types.FunctionType, positional: Arguments, keywords: Keywords, source: Source | None = None
) -> Any:
    if hasattr(function, "__npcompile_break__"):
        raise Decline(*function.__npcompile_break__)
    if getattr(function, "__module__", None) in KEEP_STATE and "<locals>" not in function.__qualname__:
        raise Decline(f"{function.__module__}.{function.__qualname__} is called")
    if (wrapped := wrapped_behind(function)) is not None:
        return inline(frame, wrapped, positional, keywords)
    if function.__code__ in CALLED_BY_CODE:
        return CALLED_BY_CODE[function.__code__](frame, function, positional, keywords)
    if (user := plain_function(function)) is not function:
        return inline(frame, user, positional, keywords, entry=function)
    return inline(frame, function, positional, keywords, source)


def named_tuple(kind: Any, positional: Arguments, keywords: Keywords) -> Sequence:
    """What collections.namedtuple or typing.NamedTuple made, called."""
    items = dict(zip(kind._fields, positional))
    if len(positional) > len(kind._fields) or any(k in items or k not in kind._fields for k in keywords):
        raise Decline(f"arguments that {kind.__qualname__} does not take")
    items = {**{k: lift(v) for k, v in kind._field_defaults.items() if is_atomic(v)}, **items, **keywords}
    if len(items) < len(kind._fields):
        raise Decline(f"{kind.__qualname__}() misses arguments")
    return Sequence(kind, [items[name] for name in kind._fields])


def is_plain_dataclass(kind: type) -> bool:
    """Does calling it nothing but set its fields?"""
    init: Any = vars(kind).get("__init__")
    return (
        "__dataclass_fields__" in vars(kind)
        and getattr(init, "__qualname__", "") == f"{kind.__qualname__}.__init__"
        and init.__code__.co_filename == "<string>"
        and not hasattr(kind, "__post_init__")
        and type(kind) is type
        and all(class_attributes.find(kind, name) is getattr(object, name) for name in hooks_of(kind))
        and all(f.init and is_atomic_default(f) for f in dataclasses.fields(kind))
        and not any(class_attributes.is_hidden(kind, f.name) for f in dataclasses.fields(kind))
    )


def hooks_of(kind: type) -> tuple[str, ...]:
    """Methods that would see the object made. The fields of a frozen one are set by object.__setattr__."""
    return ("__new__",) if kind.__dataclass_params__.frozen else ("__new__", "__setattr__")  # type: ignore[attr-defined]


def is_atomic_default(field: dataclasses.Field[Any]) -> bool:
    return field.default_factory is dataclasses.MISSING and (field.default is dataclasses.MISSING or is_atomic(field.default))


def record(frame: Frame, kind: Any, positional: Arguments, keywords: Keywords) -> Record:
    fields = dataclasses.fields(kind)
    names = [f.name for f in fields if not f.kw_only]
    given = dict(zip(names, positional))
    if len(positional) > len(names) or any(k in given or k not in {f.name for f in fields} for k in keywords):
        raise Decline(f"arguments that {kind.__qualname__} does not take")
    frame.capture.guard_class(kind, "__init__")
    for name in hooks_of(kind):
        class_attributes.on_class(frame.capture, kind, name)
    frame.capture.guard(HasAttribute(frame.capture.object_of(kind), "__post_init__", False))
    init = frame.capture.object_of(kind.__init__)
    for part in ("__code__", "__defaults__", "__kwdefaults__"):
        frame.capture.guard(Is(init.attribute(part), frame.capture.object_of(getattr(kind.__init__, part))))
    names = kind.__init__.__code__.co_varnames[: kind.__init__.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(kind.__init__.__defaults__ or ()))) | (kind.__init__.__kwdefaults__ or {})
    items = {name: lift(default) for name, default in defaults.items()} | given | keywords
    if len(items) < len(fields):
        raise Decline(f"{kind.__qualname__}() misses arguments")
    return Record(kind, {f.name: items[f.name] for f in fields})


def function_name(function: Any) -> str:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None) or repr(function)
    return f"{module}.{name}" if module and module != "builtins" else name


def evaluate_call(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    arguments = [plain(frame.capture, p) for p in positional]
    named = {k: plain(frame.capture, v) for k, v in keywords.items()}
    made = evaluate(lambda: function(*arguments, **named), frame.capture.builder.ignored)
    if isinstance(made, Constant) and not is_hashable(made.value):  # it can be changed: each call makes another
        if type(made.value) is not dict:
            raise Decline(f"a new {type(made.value).__name__} made by {function_name(function)}")
        return Mapping({k: lift(v) for k, v in made.value.items()})
    return made


# --- transformed functions: what each transform does is in transformed.py

# Nothing is reported: what was to be, has been. (A marker beside np.errstate's categories: see raising_branches.py.)
UNCHECKED = FLOAT_ERRORS | {"branches"}
TRANSFORMS: dict[str, Callable[[Frame, Transform, Arguments, Keywords], Any]] = {}


def call_transform(frame: Frame, transform: Transform, positional: Arguments, keywords: Keywords) -> Any:
    """The transformed function's result."""
    builder, ignored = frame.capture.builder, frame.capture.builder.ignored
    if "unchecked" in transform.options:
        builder.ignored |= UNCHECKED
    records, builder.records = builder.records, True
    loud = builder.loud.copy()  # what derivatives do without is not computed for the errors that it would report
    frame.capture.transforming += 1
    try:
        return TRANSFORMS[transform.kind](frame, transform, positional, keywords)
    finally:
        frame.capture.transforming -= 1
        builder.ignored, builder.records, builder.loud = ignored, records, loud


# --- Python's builtins: what each does on values is in python_builtins.py and introspection.py

TAKES_INTEGERS = {  # of any size, which others are given as constants
    *(abs, min, max, sum, divmod, round, isinstance, type),
    *(int, float, bool, str, repr, ascii, format, hex, bin, oct),
}
MOST_GIVEN = {**dict.fromkeys((abs, bool, any, all, callable, tuple, list, reversed), 1), sum: 2, enumerate: 2}
BUILTINS: dict[Any, Callable[[Frame, Arguments, Keywords], Any]] = {}
CALLED_BY_CODE: dict[types.CodeType, Callable[..., Any]] = {}  # of functions that a library makes of the user's
STANDS_FOR_NUMPY: dict[type, Callable[..., Any]] = {}  # by type of constants that are NumPy's functions over Tensors
CALLED_FROM_OUTSIDE: dict[type, Callable[..., Any]] = {}  # of callables from outside: (frame, source, callable, ...)
CALLED_BY_TYPE: dict[type, Callable[[Frame, Any, Arguments, Keywords], Any]] = {}  # of callables: (frame, callable, ...)


def captures(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(captured: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            BUILTINS[function] = captured
        return captured

    return add
