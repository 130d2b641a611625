"""How a captured graph becomes a variant: the graph is compiled, and the program that runs it and goes on is written."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from npcompile.backends.background import NotYet
from npcompile.backends.data_dependent_sizes import compile_measured
from npcompile.backends.eager import compile_eager, compiling_eager
from npcompile.backends.entering import FastPath
from npcompile.backends.errors import CompilerError, CompilerRefused, NoCompiler
from npcompile.backends.mask_reductions import without_compaction
from npcompile.backends.nan_checks import compile_checked, compiling_checked, looking_at_results
from npcompile.backends.registry import CompiledGraph, compiled_graph
from npcompile.devices import compile_here, compile_on_copies, compile_there, compiling_here
from npcompile.logs import log
from npcompile.settings import config
from npcompile.tensor_core.dim import hint_of
from npcompile.tensor_core.events import COUNTS, stretch
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.guards import Guard
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.simplify import simplify
from npcompile.tensor_core.source import Bound
from npcompile.tensor_core.user_warnings import warn_once
from npcompile.tracer.arrays.backward import Backward, BackwardProgram, with_backward
from npcompile.tracer.bytecode.tracebacks import uncounted
from npcompile.tracer.capture import Capture
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.conditions import conditions
from npcompile.tracer.fast_paths import NoFastPath, Steps
from npcompile.tracer.frame import Frame, Outcome, Return
from npcompile.tracer.host_fallback import Place
from npcompile.tracer.point import Point
from npcompile.tracer.restarts import BranchKey, Break
from npcompile.tracer.resume import Ending, repeated, why_split
from npcompile.tracer.value_words import words
from npcompile.tracer.variant import GraphBreakError, Variant, names_in
from npcompile.tracer.variant_source import Emitter, enough


def simplified(graph: Graph) -> Graph:
    """The graph simplified, unless that loses a node that raises for some data."""
    simpler = simplify(graph)
    before, after = (sum(bool(OPS[n.op].raises) for n in g.nodes) for g in (graph, simpler))
    return simpler if before == after else graph


def finish(function: Compiled[Point], point: Point, capture: Capture, frame: Frame, outcome: Outcome, seconds: float) -> Variant:
    """Compile the graph and generate the program that runs it and goes on."""
    if function.options.fullgraph and not isinstance(outcome, Return):
        why = why_split(outcome, function.program)
        raise GraphBreakError(f"fullgraph=True, but {function.code.co_qualname} breaks: {why}", why)
    emitter = Emitter(capture, capture.name_constant)
    ending = Ending(function, point, capture, frame, emitter)
    changes = [value for effect in capture.effects for value in effect.values]
    live = [*ending.live_values(outcome), *capture.grads.values(), *changes]
    label = re.sub(r"\W", "_", function.code.co_name)
    graph = emitter.graph_of(live, f"{label}_{len(function.graphs)}")
    backward, timings = None, {"capture": seconds}
    function.is_random |= bool(capture.draws.lines)
    native = f"{point.native_name}({', '.join(point.parameters)})"
    if apart := capture.error_states - function.stops.keys() if not function.options.fullgraph else ():
        native = f"{function.name_constant(point, 'point_')}.signalled({', '.join([str(sorted(apart)), *point.parameters])})"
    if (
        point.is_start
        and not isinstance(outcome, Return)
        and is_recorded(function, capture, why := why_split(outcome, function.program))
    ):
        return variant(function, point, capture, [f"return {native}"], None, None, why, timings)
    if graph is None:
        emitter.draw(native)
    else:
        fresh = {key: t.array.storage for key, t in emitter.tensors.items()}
        graph, backward = with_backward(capture, graph, {key: s.node for key, s in fresh.items()})
        emitter.saved = [f"saved_{k}" for k in range(len(backward.split.saved))] if backward else []
        with stretch("pass", "simplify"):
            graph = simplified(graph).with_(accuracy=function.accuracy)
        if backward is not None:
            attach_backward(function, backward, graph, capture, emitter)
        emitter.place_results(isinstance(outcome, Return))
    emitter.write_cells(capture.cells.values())
    emitter.count_writes()
    emitter.write_gradients(capture.grads)
    if not isinstance(outcome, Return):
        emitter.remember_lost(why_split(outcome, function.program), live)
    emitter.do_effects(capture.effects, live)
    ending.emit(outcome)
    following, emitter.lines = emitter.lines, []
    needed = names_in(following) if backward is None else None
    if graph is not None and graph.measured and needed is not None:
        graph = without_compaction(graph, needed)
    reason, repeating = getattr(outcome, "reason", None), ending if ending.is_repeated else None

    def compiled_variant() -> Variant:
        compiled = None
        if graph is not None:
            compiled = compile_graph(function, graph, timings, capture.place, needed, examples_of(function, capture, graph))
            called = function.name_constant(compiled.quickest, "graph_")
            emitter.call_graph(graph, compiled, called, native, function.name_constant(point, "point_"))
        lines = [*emitter.lines, *following]
        made = variant(function, point, capture, lines, graph, compiled, reason, timings, repeating)
        if isinstance(outcome, Return) and not emitter.saved and not apart:
            made.fast_path = fast_path_of_graph(function, point, emitter, made, following)
        return made

    try:
        return compiled_variant()
    except NotYet as waiting:
        if not capture.asks_levels:  # whose end looks at the values of this call
            waiting.goes_on = lambda _: compiled_variant()
        emitter.forget()
        raise


def is_recorded(function: Compiled[Point], capture: Capture, reason: Break) -> bool:
    """Does the whole function run on eager Tensors, so that gradients go through sizes that no one graph has?"""
    return bool(capture.leaves()) and hasattr(function.user, "records") and "data decides" in reason.reason


def variant(
    function: Compiled[Point],
    point: Point,
    capture: Capture,
    lines: Sequence[str],
    graph: Graph | None,
    compiled: CompiledGraph | None,
    reason: Break | None,
    timings: dict[str, float],
    repeating: Ending | None = None,
) -> Variant:
    if reason is not None:
        function.breaks.append(reason)
        reason.count()
    point.fixed |= capture.fixed_now()
    if capture.asks_levels:
        point.asks_levels = True
        for source in capture.examples:  # what it calls itself with is smaller: the first such size is one for itself
            point.seen.pop(("sizes of", source), None)
    guards = (*(known := capture.builder.env.guards), *declined(capture.decisions.declined, known))
    guards += (*capture.still_there(guards),)
    log("guards", lambda: "\n".join(words(guards, point.users_names)))
    asked = tuple(conditions(guards, function.name_constant, function.namespace))
    if repeating is not None:
        lines = repeated(lines, asked, repeating.changed, point.parameters, function.name_constant(point, "point_"))
    return Variant(guards, asked, tuple(lines), graph, compiled, reason, timings, tuple(capture.assumed))


def fast_path_of_graph(
    function: Compiled[Point], point: Point, emitter: Emitter, made: Variant, following: Sequence[str]
) -> FastPath | None:
    """All that a variant does with its graph, if nothing else goes on after that; None for other variants."""
    graph, compiled, capture = made.graph, made.compiled, emitter.capture
    if graph is None or compiled is None or not point.is_start:
        return None
    if capture.place is not None or capture.draws.lines or (graph.measured and graph.writes):
        return None
    try:
        steps = Steps(point.parameters, function.namespace)
        steps.ask(map(str, made.conditions))
        steps.ask(emitter.asked_before(graph))
        found = steps.run(compiled.quickest, emitter.arguments_of(graph))
        names = emitter.names_of_results(graph, compiled)
        if compiled.item is not None:
            steps.values[names[0]] = found
        else:
            steps.name_parts(found, names)
        steps.ask(map(enough, emitter.least_of(graph, compiled)))  # where it is not so the dispatch runs the graph again
        steps.follow(following)
        return steps.path(on_error=going_on_after(point, tuple(emitter.errors_of(graph)), tuple(capture.assumed)))
    except NoFastPath:
        return None


def going_on_after(point: Point, expected: tuple[type[Exception], ...], assumed: tuple[BranchKey, ...]) -> Callable[..., Any]:
    """What goes on after an exception of a graph that was called without the dispatch, as that does."""

    @uncounted
    def on_error(error: BaseException, *state: Any) -> Any:
        try:
            raise error
        except Exception:
            if not point.may_run_again(expected, assumed):
                raise
        finally:
            del error
        return point.native(*state)

    return on_error


def attach_backward(function: Compiled[Point], backward: Backward, graph: Graph, capture: Capture, emitter: Emitter) -> None:
    """Lines that make the Tensors which the program's gradients belong to."""
    function.splits += (backward.split,)
    place = capture.place

    def compile(gradients: Graph, values: Sequence[Any]) -> CompiledGraph:
        return compile_graph(function, simplify(gradients), {}, place, examples=values)

    arguments = capture.builder.arguments
    leaves = [str(t.source) for t in backward.leaves if t.source is not None]
    symbols = (*graph.symbols, *(name for name, _ in graph.measured))
    program = BackwardProgram(backward, compile, symbols)
    contents = [arguments[k] for k in backward.split.kept_inputs]
    kept = [str(source) for source, (t, _) in capture.tensors.items() if t.array.storage.source in contents]
    emitter.attach(function.name_constant(program, "backward_"), backward.results, leaves, kept, list(symbols))


def compile_graph(
    function: Compiled[Point],
    graph: Graph,
    timings: dict[str, float],
    place: Place | None = None,
    needed: set[str] | None = None,
    examples: Sequence[Any] = (),
) -> CompiledGraph:
    """`needed`: sizes that data decides, where not all are asked for. `examples`: for backends of the user's."""
    log("graph_code", lambda: str(graph))
    began = time.perf_counter()
    try:
        backend = function.options.backend
        mode = function.options.mode
        graph = graph.with_(accuracy=function.accuracy)
        with stretch("compile graph", graph.name):
            if config.check_nan and not function.options.has_own_backend:
                made = checked_graph(graph, place, config.check_nan == "inf", needed)
            elif place is not None:
                made = compile_there(backend, graph, place.kind, place.number, mode, examples)
            elif graph.measured:
                made = compile_measured(graph, lambda piece: compiling_here(backend, piece, mode, alike(function, piece)), needed)
            else:
                made = compile_here(backend, graph, mode, examples)
    except (NoCompiler, CompilerError) as error:
        if isinstance(error, CompilerRefused) and config.internal_errors == "raise":
            raise
        warn_once(f"{error} NumPy runs the captured graphs; `python -m npcompile.doctor` tells how to get a compiler.")
        made = compile_measured(graph, compiling_eager) if graph.measured else compile_eager(graph, ())
    compiled = compiled_graph(made)
    if config.check_nan and function.options.has_own_backend:
        compiled = looking_at_results(compiled, graph, config.check_nan == "inf")
    timings["compile"] = time.perf_counter() - began
    log("output_code", lambda: compiled.generated)
    function.graphs.append((graph, compiled))
    COUNTS["graphs"] += 1
    COUNTS["kernels"] += len(compiled.kernels)
    return compiled


def examples_of(function: Compiled[Point], capture: Capture, graph: Graph) -> list[Any]:
    """What a backend of the user's is shown: what this call gives the graph, arrays themselves, and an int for each symbol."""
    if not function.options.has_own_backend:
        return []
    hints = capture.builder.env.hints
    scope = function.namespace | capture.arguments | hints
    found = []
    for source, like in zip(capture.builder.arguments, alike(function, graph)):
        example = capture.examples.get(source) if source is not None else None
        if example is None and source is not None and scope.keys() >= {*source.names()}:
            example = eval(str(source), scope)  # a number
        found.append(like if example is None else example)
    return [*found, *(hints[name] for name in graph.symbols)]


def alike(function: Compiled[Point], graph: Graph) -> list[Any]:
    """Arrays and numbers as those that the graph takes, where there are none yet: what the program finds on its way."""
    if not function.options.has_own_backend:
        return []
    made = [np.ones(tuple(map(hint_of, node.meta.shape)), node.dtype) for node in graph.inputs]
    sizes = [graph.env.hints[name] for name in graph.symbols] if graph.env is not None else []
    return [*(x if node.meta.boxed else x[()] for x, node in zip(made, graph.inputs)), *sizes]


def checked_graph(graph: Graph, place: Place | None, has_infinities: bool, needed: set[str] | None) -> CompiledGraph:
    """One that looks at each result, with NumPy; arrays of a device are copied to the host and back."""
    if place is not None:
        return compile_on_copies(compile_checked(graph, has_infinities), graph, place.kind, place.number)
    if graph.measured:
        return compile_measured(graph, lambda piece: compiling_checked(piece, has_infinities), needed)
    return compile_checked(graph, has_infinities)


def declined(met: Iterable[Guard], guards: Collection[Guard]) -> list[Guard]:
    """The guards of what instructions met that were not captured, where these say all that they need."""
    bound = {name for guard in guards for name in guard.gives()}
    return [guard for guard in met if guard not in guards and bound.issuperset(bound_in(guard))]


def bound_in(guard: Guard) -> list[str]:
    """Variables that it reads, and other guards give their values."""
    return [source.name for source in guard.walk() if isinstance(source, Bound)]
