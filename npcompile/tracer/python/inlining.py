"""Python functions that are inlined where they are called: how arguments are bound, and what is guarded; and `import`."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.guards import HasKey, Is, Length
from npcompile.tensor_core.source import Literal, Source
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.frame import INLINE_DEPTH, Frame, Return
from npcompile.tracer.profitability import is_too_long
from npcompile.tracer.python import generators
from npcompile.tracer.python.operators import lift, plain
from npcompile.tracer.recursion_depth import MOST_BY_SIZE, asked_of, levels_by_size
from npcompile.tracer.values import Cell, Closure, Constant, Lazy, Mapping, Sequence

Arguments = list[Any]
Keywords = dict[str, Any]


def inline(
    frame: Frame,
    function: types.FunctionType,
    positional: Arguments,
    keywords: Keywords,
    source: Source | None = None,
    entry: types.FunctionType | None = None,
) -> Any:
    """Run a Python function's instructions as part of the captured program. `source` gives it, when it is no constant.

    What is called instead of a compiled function, its `entry`, has defaults of its own.
    """
    capture = frame.capture
    is_constant, source = source is None, source or capture.object_of(function)
    code = function.__code__
    root = frame.root
    if function.__globals__ is root.globals:
        globals_source = root.globals_source
    elif is_library_code(function.__globals__):
        globals_source = None
    else:
        globals_source = capture.object_of(function.__globals__)
    owner, owner_source = (function, source) if entry is None else (entry, capture.object_of(entry))
    if entry is not None:  # another function's may be put in its place: what it was made of goes with it
        capture.guard_entry(owner_source, entry)
    defaults = [lift(d) if is_constant and is_atomic(d) else Lazy(owner_source.attribute("__defaults__").item(k), d)
                for k, d in enumerate(owner.__defaults__ or ())]  # fmt: skip
    named = {
        k: lift(d) if is_constant and is_atomic(d) else Lazy(owner_source.attribute("__kwdefaults__").item(k), d)
        for k, d in (owner.__kwdefaults__ or {}).items()
    }
    variables = bind_arguments(code, defaults, named, positional, keywords)
    if not is_library_code(function.__globals__):
        if is_constant:  # the code of other functions is guarded where they are met
            capture.guard_code(source, function)
        guard_defaults(capture, owner_source, owner, defaults, named, [*variables.values()])
    cells = [capture.cell(source.attribute("__closure__").item(k), cell) for k, cell in enumerate(function.__closure__ or ())]
    callee = Lazy(source, function)
    given = positional, keywords
    return run_inlined(frame, callee, code, function.__globals__, globals_source, variables, cells, given)


def guard_defaults(
    capture: Any, source: Source, function: types.FunctionType, positional: list[Any], named: dict[str, Any], given: list[Any]
) -> None:
    """Guard those of the defaults that are among the values `given` to the parameters. Lazy ones are when they are read."""
    used = [k for k, d in enumerate(positional) if any(d is v for v in given)]
    if used:
        capture.guard(Length(source.attribute("__defaults__"), "==", len(positional)))
    values, named_values = function.__defaults__ or (), function.__kwdefaults__ or {}
    asked: list[tuple[Source, Any, Any]] = []
    asked += [(source.attribute("__defaults__").item(k), positional[k], values[k]) for k in used]
    used_names = [k for k, d in named.items() if any(d is v for v in given)]
    asked += [(source.attribute("__kwdefaults__").item(k), named[k], named_values[k]) for k in used_names]
    for name in used_names:
        if isinstance(named[name], Lazy):  # it may be only passed on
            capture.guard(HasKey(source.attribute("__kwdefaults__"), Literal(name)))
    for where, value, default in asked:
        if not isinstance(value, Lazy):
            capture.guard(Is(where, capture.object_of(default)))


def is_atomic(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(is_atomic, value))
    return isinstance(value, (type(None), bool, int, float, str, bytes, type, np._globals._NoValueType, type(Ellipsis)))


def is_library_code(namespace: dict[str, Any]) -> bool:
    """Code whose globals are assumed constant: NumPy, SciPy and the standard library."""
    module = str(namespace.get("__name__", "")).split(".")[0]
    return module in ("numpy", "scipy") or module in sys.stdlib_module_names and module != "__main__"


def inline_closure(frame: Frame, closure: Closure, positional: Arguments, keywords: Keywords) -> Any:
    defaults = list(closure.defaults.items) if closure.defaults is not None else []
    named = dict(closure.kwdefaults.items) if closure.kwdefaults is not None else {}
    variables = bind_arguments(closure.code, defaults, named, positional, keywords)
    given = positional, keywords
    namespace_source = closure.globals_source or None
    return run_inlined(frame, closure, closure.code, closure.globals, namespace_source, variables, closure.cells, given)


def run_inlined(
    frame: Frame,
    function: Any,
    code: types.CodeType,
    namespace: dict[str, Any],
    globals_source: Source | None,
    variables: dict[str, Any],
    cells: list[Cell],
    arguments: tuple[Arguments, Keywords],
) -> Any:
    """`function` and `arguments` are what is called, and with what, for a generator that native code has to make."""
    capture = frame.capture
    if code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        raise Decline(f"{code.co_qualname} is a coroutine")
    if is_too_long(code, capture.is_asked) and capture.may_break:
        raise Decline(f"{code.co_qualname} is too long to compile")
    if frame.depth >= INLINE_DEPTH:
        raise Decline("calls are nested too deeply")
    levels = levels_by_size(frame, code)
    is_called = capture.calls_itself and frame.parent is None and frame.program.code is code
    is_deep = len(levels) >= MOST_BY_SIZE
    if (is_called or is_deep) and capture.may_break and not capture.transforming and not capture.bodies:
        said = f"{code.co_qualname} calls itself as often as a size says", "It is called, and compiled for all sizes."
        if is_deep:
            capture.decisions.levels[frame.root.index] = asked_of(levels)
        else:  # called as one that was tried
            capture.decisions.native_calls.setdefault(frame.index, frame.why(frame.index, Decline(*said)))
        raise Decline(*said)
    inner = Frame(capture, decode(code), namespace, globals_source, variables, parent=frame)
    inner.cells = dict(zip(code.co_freevars, cells))
    if code.co_flags & CO_GENERATOR:
        return generators.generator(frame, inner, function, *arguments)
    outcome = inner.run()
    assert isinstance(outcome, Return), outcome
    capture.frame = frame
    return outcome.value


CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR = 0x20, 0x80, 0x200


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
    depth, wanted = plain(frame.capture, level), plain(frame.capture, names)
    found = name
    if depth:  # of a package, in its own code
        package = str(frame.globals.get("__package__")).rsplit(".", depth - 1)[0]
        found = f"{package}.{name}" if name else package
    if found not in sys.modules or depth and not (wanted and is_library_code(frame.globals)):
        raise Decline(f"import {name}")
    module = sys.modules[found] if wanted else sys.modules[found.split(".")[0]]
    if is_library_code(frame.globals):
        return Constant(module)
    for each in dict.fromkeys((found, module.__name__)):
        frame.capture.guard_name(sys.modules, each)
    return Constant(module, frame.capture.object_of(module))
