"""What happened when a function was compiled: graphs, breaks, guards, kernels, sources and seconds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import unwrap
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from npcompile.backends.registry import CompiledGraph
from npcompile.backends.transfers import Transfer, recorded
from npcompile.call_times import parts_of, timed, traffic_of
from npcompile.compiler import all_compiled, compile, compiled_function, compiled_with, why_not_captured
from npcompile.explanation import Explanation
from npcompile.switch import compiling
from npcompile.tensor_core.exactness import rounded_otherwise
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import For, While
from npcompile.tracer.bytecode.tracebacks import hide_frames
from npcompile.tracer.bytecode.versions import WHY_UNKNOWN
from npcompile.tracer.function import CompiledFunction
from npcompile.tracer.restarts import Break
from npcompile.tracer.value_words import words
from npcompile.transforms import TransformedFunction
from npcompile.trees import flatten

if TYPE_CHECKING:
    from npcompile.loop_gradients import Version

P = ParamSpec("P")


def explain(function: Callable[P, Any]) -> Callable[P, Explanation]:
    """A function that calls `function` compiled from scratch and tells what was captured.

    Where arrays are on a device, or `npcompile.device` moves them there, it also lists the copies between host and device.

    `function` may be plain or already compiled; its options are kept, what it has compiled is left alone. The call
    itself happens once, with its effects.

    >>> import numpy as np
    >>> print(explain(lambda x: np.sin(x) + 1)(np.arange(3.0)).breaks)
    ()
    """
    known = compiled_function(innermost(function))
    asked = None if known is None else known.options
    fresh = compile(function) if asked is None else compiled_with(replace(asked, fullgraph=False, falls_back=False), function)

    def run(*args: Any, **kwargs: Any) -> Explanation:
        try:
            if isinstance(function, TransformedFunction) and (found := function._of_loops(args, kwargs)) is not None:
                return of_loops(*found)
            with recorded() as transfers, compiling():
                result, seconds, events = timed(lambda: fresh(*args, **kwargs))
        except BaseException:
            hide_frames()
            raise
        compiled = compiled_function(innermost(fresh))
        if compiled is None:
            return of_plain(innermost(fresh), result)
        verdicts = "" if known is None or not known.is_measured else str(known.trial)
        programs = programs_of(compiled, bytes_around((args, kwargs, result)))
        parts = parts_of(events, compiled.code.co_qualname, programs, seconds) if events else ()
        told = account(compiled, result, transfers)
        if isinstance(function, TransformedFunction) and (user := getattr(unwrap(function.function), "__code__", None)):
            told = replace(told, place=Location(user.co_filename, user.co_firstlineno, user.co_qualname))
        return replace(told, verdicts=verdicts, parts=parts, call_seconds=seconds)

    return run


def of_plain(function: Any, result: Any) -> Explanation:
    """The account of a function of which nothing is compiled, whatever it is called with."""
    name, code = getattr(function, "__qualname__", repr(function)), getattr(unwrap(function), "__code__", None)
    if code is None:
        return Explanation(name, (), (), (), (), (), (), (), {}, result)
    place = Location(code.co_filename, code.co_firstlineno, code.co_qualname)
    why, hint = (WHY_UNKNOWN, "") if WHY_UNKNOWN else (why_not_captured(code), "Functions that it calls are compiled.")
    return Explanation(name, (), (), (Break(why, hint, place),) if why else (), (), (), (), (), {}, result, place=place)


def bytes_around(arguments_and_result: Any) -> int:
    """Of the arrays that a call is given and returns, each counted once."""
    arrays = {id(x): x.nbytes for x in flatten(arguments_and_result)[0] if isinstance(x, np.ndarray)}
    return sum(arrays.values())


def programs_of(compiled: CompiledFunction, around: int) -> dict[str, tuple[str, int, int]]:
    """By the name of the code that calls it: what runs there, its line, and the bytes that it reads and writes at least: of a
    function that is a compiled loop as a whole, those `around` the call."""
    numbers = {id(made): k for k, (_, made) in enumerate(compiled.graphs)}
    found = {}
    for point in compiled.points.values():
        graphs = [variant for variant in point.variants if variant.graph is not None]
        known = ", ".join(str(numbers[id(variant.compiled)]) for variant in graphs if id(variant.compiled) in numbers)
        name = f"graph {known}".rstrip() if graphs else "compiled loop"
        nodes = [node for variant in graphs if variant.graph is not None for node in variant.graph.nodes]
        line = min((node.location.line for node in nodes if node.location), default=point.location.line)
        alone = around if point.is_start and len(compiled.points) == 1 else 0
        traffic = max((traffic_of(variant.graph) for variant in graphs if variant.graph is not None), default=alone)
        found[f"point_{point.number}"] = name, line, traffic
    return found


def of_loops(result: Any, version: Version) -> Explanation:
    """The account of a gradient by a native program of loops."""
    program, code = version.program, version.key[0]
    lines = sorted({op.at.line for op in walk(program.body) if isinstance(op, For | While) and op.at.file == code.co_filename})
    at = f"{program.file.rsplit('/', 1)[-1]}:{code.co_firstlineno}"
    native = f"the gradient of {code.co_qualname} at {at}, with its loops at {', '.join(map(str, lines))}"
    return Explanation(
        code.co_qualname,
        (),
        (),
        (),
        (tuple(f"{guard.source.name} is what it was" for guard in version.guards),),
        (),
        (version.native.source,),
        (),
        version.seconds,
        result,
        natives=(native,),
        passes=version.passes,
    )


def innermost(function: Any) -> Any:
    """The function in a `functools.partial` or `lru_cache` object."""
    if isinstance(function, functools.partial):
        return innermost(function.func)
    return innermost(function.__wrapped__) if isinstance(function, functools._lru_cache_wrapper) else function


def account(compiled: CompiledFunction, result: Any, transfers: Sequence[Transfer] = ()) -> Explanation:
    found = [(point, v) for point in compiled.points.values() for v in reversed(point.variants)]
    variants = [v for _, v in found]
    native = [(point, v.compiled) for point, v in found if v.graph is None and v.compiled is not None]
    seconds: dict[str, float] = {}
    for variant in variants:
        phases = dict(variant.seconds)
        if variant.compiled is not None and variant.compiled.seconds:
            phases.pop("compile", None)
            phases |= variant.compiled.seconds
        for phase, value in phases.items():
            seconds[phase] = seconds.get(phase, 0.0) + value
    graphs = tuple(graph for graph, _ in compiled.graphs)
    return Explanation(
        compiled.code.co_qualname,
        graphs,
        tuple(sum(n.op != "input" for n in g.nodes) for g in graphs),
        tuple(compiled.breaks),
        tuple(words(v.guards, point.users_names) for point, v in found),
        tuple(name for _, c in compiled.graphs for name in c.kernels),
        (*(c.generated for _, c in compiled.graphs), *(program.generated for _, program in native)),
        tuple(p.source for p in compiled.points.values()),
        seconds,
        result,
        tuple(compiled.splits),
        tuple(transfers),
        tuple(f"the {'function' if point.is_start else 'loop'} at {point.location}" for point, _ in native),
        (
            *compiled.declined,
            *(p for v in variants if isinstance(v.compiled, CompiledGraph) for p in v.compiled.passes),
        ),
        () if compiled.accuracy == "bitwise" else rounded_otherwise(graphs),
        tuple(tuple(map(str, v.conditions)) for v in variants),
        devices=tuple(dict.fromkeys(point.place.name for point, _ in found if point.place is not None)),
        place=Location(compiled.code.co_filename, compiled.code.co_firstlineno, compiled.code.co_qualname),
    )


def compile_times() -> dict[str, float]:
    """Seconds spent in each phase of compiling, summed over every function of this process."""
    total: dict[str, float] = {}
    for compiled in all_compiled():
        for phase, value in account(compiled, None).seconds.items():
            total[phase] = total.get(phase, 0.0) + value
    return total
