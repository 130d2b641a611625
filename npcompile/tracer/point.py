"""Where execution may enter compiled code: Points, the variants compiled for them, and the trampoline between them."""

from __future__ import annotations

import linecache
import re
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from npcompile.backends.cpu.errors import CompilerError, NoCompiler
from npcompile.backends.cuda.arrays import array_kind
from npcompile.backends.eager import compile_eager
from npcompile.backends.registry import Backend, CompiledGraph, FloatingPointSignal
from npcompile.devices import compile_here, compile_there
from npcompile.logs import log
from npcompile.tensor_core.graph import Builder, Graph
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.simplify import simplify
from npcompile.tensor_core.transforms.partition import Split
from npcompile.tracer import control, draws, instructions, library, python_builtins, tensors, transformed
from npcompile.tracer.analysis import CodeFacts, analyse
from npcompile.tracer.backward import Backward, BackwardProgram, with_backward
from npcompile.tracer.calls import BUILTINS, is_library_code
from npcompile.tracer.capture import Break, Capture, Decisions, Restart
from npcompile.tracer.decode import Program, decode
from npcompile.tracer.emit import BegunGenerator, Emitter, parameter_name
from npcompile.tracer.frame import Branch, Frame, Jump, NextItem, Outcome, Return, Stop
from npcompile.tracer.instructions.jumps import PLAIN_ITERATORS
from npcompile.tracer.on_host import Place, Touched, decided, leaving, natively
from npcompile.tracer.segment import UNBOUND, Layout, make_segment
from npcompile.tracer.tracebacks import GENERATED, UNCOUNTED, hide_frames, uncounted
from npcompile.tracer.values import NULL, Cell, Constant, Iterator, Lazy, Opaque

VARIANT_LIMIT = 8  # programs compiled for one Point; past that it stays native
ATTEMPT_LIMIT = 100  # decisions of one capture
_OURS = re.compile(
    r"^(holds|FloatingPointSignal|np|[cstv]\d+|(saved|tensor|backward|drawn)_\d+|k_\w+|graph_\w+|point_\w+|miss_\d+|native_\d+|segment_\w+|UNBOUND|states|drive|item|cells)$"
)

# They register what is captured, and how.
assert control and draws and instructions and library and python_builtins and tensors and transformed


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked of `compile`."""

    backend: Backend
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str = "default"
    accuracy: str = "numpy"


class GraphBreakError(RuntimeError):
    """`fullgraph=True` and the function cannot be captured as one graph."""


@dataclass(slots=True, eq=False)
class Variant:
    """What was compiled for a Point under one set of guards. Holds no arrays."""

    guards: tuple[str, ...]
    body: tuple[str, ...]  # lines of the generated program
    graph: Graph | None
    compiled: CompiledGraph | None
    reason: Break | None  # why the graph ended, None when the function returned
    seconds: dict[str, float]


@dataclass(slots=True, eq=False)
class Point:
    """An instruction at which compiled code may be entered, and the dispatch between its variants."""

    function: CompiledFunction
    number: int
    layout: Layout
    place: Place | None = None  # the device that its programs run on; None: that of the arrays they meet
    variants: list[Variant] = field(default_factory=list)
    seen: dict[str, list[tuple]] = field(default_factory=dict)
    fixed: dict[str, frozenset[int]] = field(default_factory=dict)  # source of an integer -> the values it was fixed at
    enter: Callable[..., Any] = None  # type: ignore[assignment]
    generation: int = 0
    is_native: bool = False
    source: str = ""

    @property
    def is_start(self) -> bool:
        return self.number == 0

    @property
    def parameters(self) -> list[str]:
        if self.is_start:
            names = self.function.argument_names
            return [parameter_name(n, k) for k, n in enumerate(names)] if self.function.is_forwarded else list(names)
        stack = [f"stack_{k}" for k in range(self.layout.depth) if k not in self.layout.null_slots]
        slots = {name: k for k, name in enumerate(self.function.code.co_varnames)}
        cells = ["cells"] if self.function.has_cells else []
        return [*cells, *stack, *(parameter_name(n, slots.get(n, 0)) for n in self.layout.local_names)]

    # --- dispatch

    @uncounted
    def render(self) -> None:
        """Generate the dispatch between the variants, and make it what callers enter."""
        function = self.function
        name = f"point_{self.number}"
        has_signature = self.is_start and not function.is_forwarded
        lines = [f"def {name}({function.signature if has_signature else ', '.join(self.parameters)}):"]
        for k, variant in enumerate(self.variants):
            lines.append(f"    # variant {k}")
            condition = "\n            and ".join(variant.guards) or "True"
            lines += ["    try:", f"        holds = ({condition})"]
            lines += ["    except (AttributeError, KeyError, IndexError, TypeError, ValueError):  # an attribute or item is gone"]
            lines += ["        holds = False", "    if holds:"]
            lines += [f"        {line}" for line in variant.body]
        function.namespace |= {f"native_{self.number}": self.native, f"miss_{self.number}": self.miss}
        miss = f"{'native' if self.is_native else 'miss'}_{self.number}"
        generation = "" if self.is_native else f"{self.generation}, "
        lines.append(f"    return {miss}({generation}{', '.join(self.parameters)})")
        if self.is_start:
            lines[1:] = function.hiding_frames(lines[1:])
        self.source = "\n".join(lines) + "\n"
        made = function.execute(self.source, name)
        self.enter = made
        if has_signature:
            function.set_entry(made)
            self.enter = lambda *state: call_with(function.entry, *function.call_arguments(state))
        elif self.is_start:
            function.namespace["point_start"] = made

    @uncounted
    def miss(self, generation: int, *state: Any) -> Any:
        """No variant fits: compile one, or another thread just has."""
        function = self.function
        with function.lock:
            if self.generation == generation:
                if len(self.variants) >= VARIANT_LIMIT:
                    self.is_native = True
                    self.warn_of_limit(state)
                else:
                    self.variants.insert(0, function.capture(self, state))
                self.generation += 1
                self.render()
        return self.enter(*state)

    def warn_of_limit(self, state: tuple[Any, ...]) -> None:
        location = self.function.program.location(self.layout.index)
        changing = self.changing_guards()
        message = (
            f"{self.function.code.co_qualname} was compiled {VARIANT_LIMIT} times at {location} and runs natively from now on "
            f"there for other arguments. What kept changing: {'; '.join(changing) or 'unknown'}."
        )
        log("recompiles", lambda: message)
        warnings.warn(message, RuntimeWarning, stacklevel=4)

    def changing_guards(self) -> list[str]:
        """Guards that only one variant has: what made each new one necessary."""
        if len(self.variants) < 2:
            return []
        latest, previous = self.variants[0].guards, set(self.variants[1].guards)
        return [g for g in latest if g not in previous][:3]

    @uncounted
    def native(self, *state: Any) -> Any:
        """The user's own code from here, uncompiled; its later Points are compiled as before."""
        function = self.function
        if self.is_start:
            return function.run_user(state)
        return function.segment(self.layout, self.place)(*state)

    def on(self, place: Place) -> Point:
        """The Point at the same instruction whose programs run on a device."""
        return self if self.place == place else self.function.point_at(self.layout.index, self.layout.null_slots, place)


@uncounted
def call_with(function: Callable[..., Any], positional: list[Any], keywords: dict[str, Any]) -> Any:
    return function(*positional, **keywords)


def simplified(graph: Graph) -> Graph:
    """The graph simplified, unless that loses a node that raises for some data."""
    simpler = simplify(graph)
    before, after = (sum(bool(OPS[n.op].raises) for n in g.nodes) for g in (graph, simpler))
    return simpler if before == after else graph


@uncounted
def drive(hop: tuple[Point | None, Any]) -> Any:
    """Go from Point to Point until the function returns. The Python stack stays flat."""
    point, state = hop
    while point is not None:
        point, state = point.enter(*state)
    return state


@dataclass(slots=True, eq=False, weakref_slot=True)
class CompiledFunction:
    """Everything compiled for one Python function."""

    user: types.FunctionType
    options: Options
    entry: Any = None
    code: types.CodeType = field(init=False)
    program: Program = field(init=False)
    facts: CodeFacts = field(init=False)
    points: dict[tuple[int, tuple[int, ...], Place | None], Point] = field(default_factory=dict)
    namespace: dict[str, Any] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # id of an object -> its name in the namespace, which keeps it
    lock: threading.RLock = field(default_factory=threading.RLock)
    breaks: list[Break] = field(default_factory=list)
    graphs: list[tuple[Graph, CompiledGraph]] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)  # of graphs with gradients
    callees: dict[tuple[Any, ...], types.FunctionType] = field(default_factory=dict)
    stops: dict[int, Break] = field(default_factory=dict)  # instructions that always end the graph
    filenames: list[str] = field(default_factory=list)  # of the generated programs, as linecache knows them
    is_forwarded: bool = False
    is_random: bool = False  # does some program draw random numbers?
    compile_callee: Callable[[types.FunctionType, Options], types.FunctionType] | None = None

    def __post_init__(self) -> None:
        self.code = self.user.__code__
        weakref.finalize(self, drop_sources, self.filenames)
        self.program = decode(self.code)
        self.facts = analyse(self.code)
        self.prepare()

    def prepare(self) -> None:
        """Everything as before the first call."""
        self.namespace.update(
            G=self.user.__globals__,
            UNBOUND=UNBOUND,
            drive=drive,
            FloatingPointSignal=FloatingPointSignal,
            __builtins__=__builtins__,
        )
        self.namespace["np"] = __import__("numpy")
        self.start()

    # --- the entry, with the user's signature

    @property
    def has_cells(self) -> bool:
        return bool(self.code.co_cellvars or self.code.co_freevars)

    @property
    def argument_names(self) -> tuple[str, ...]:
        code = self.code
        flags = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags]

    @property
    def signature(self) -> str:
        code = self.code
        names = list(self.argument_names)
        positional, names = names[: code.co_argcount], names[code.co_argcount :]
        only, names = names[: code.co_kwonlyargcount], names[code.co_kwonlyargcount :]
        parts = positional[: code.co_posonlyargcount]
        parts += ["/"] * bool(parts) + positional[code.co_posonlyargcount :]
        if code.co_flags & 0x04:
            parts.append(f"*{names.pop(0)}")
        elif only:
            parts.append("*")
        parts += only
        if code.co_flags & 0x08:
            parts.append(f"**{names.pop(0)}")
        return ", ".join(parts)

    def call_arguments(self, state: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
        """The values of the parameters as arguments of a call with the user's signature."""
        code = self.code
        values = list(state)
        positional, values = values[: code.co_argcount], values[code.co_argcount :]
        only, values = values[: code.co_kwonlyargcount], values[code.co_kwonlyargcount :]
        keywords = dict(zip(code.co_varnames[code.co_argcount :], only))
        if code.co_flags & 0x04:
            positional += values.pop(0)
        if code.co_flags & 0x08:
            keywords |= values.pop(0)
        return positional, keywords

    def start(self) -> None:
        """Make the entry: the user's signature, and nothing compiled yet."""
        layout = Layout(self.facts.start, 0, (), self.argument_names)
        point = self.points[layout.index, (), None] = Point(self, 0, layout)
        self.is_forwarded = any(_OURS.match(n) for n in self.argument_names) or "G" in self.argument_names
        body = self.hiding_frames([f"    return point_start({', '.join(self.argument_names)})"])
        forwarder = self.execute("\n".join([f"def entry({self.signature}):", *body, ""]), "entry")
        if self.entry is None:
            self.entry = types.FunctionType(forwarder.__code__, self.namespace, self.user.__name__, self.user.__defaults__)
            self.entry.__kwdefaults__ = self.user.__kwdefaults__
        self.set_entry(forwarder)
        point.render()

    def set_entry(self, made: types.FunctionType) -> None:
        """Give the entry, whose identity the user holds, new code."""
        self.entry.__code__ = made.__code__.replace(co_name=self.code.co_name, co_qualname=self.code.co_qualname)

    def forget(self) -> None:
        """Drop everything compiled; the entry stays the same function."""
        with self.lock:
            for made in (self.points, self.namespace, self.names, self.breaks, self.graphs, self.splits, self.callees):
                made.clear()
            drop_sources(self.filenames)
            self.prepare()

    def freeze(self) -> None:
        """Compile nothing new from now on."""
        with self.lock:
            for point in self.points.values():
                point.is_native = True
                point.generation += 1
                point.render()

    # --- generated programs

    def name_constant(self, value: Any, prefix: str = "k_") -> str:
        """A name for an object in the generated programs."""
        known = self.names.get(id(value))
        if known is None:
            label = re.sub(r"\W", "_", getattr(value, "__name__", type(value).__name__))
            known = self.names[id(value)] = f"{prefix}{label}_{len(self.names)}"
            self.namespace[known] = value
        return known

    def hiding_frames(self, body: list[str]) -> list[str]:
        """The body of an entry, out of which exceptions come as they do out of the user's function."""
        hide = self.name_constant(hide_frames)
        return ["    try:", *(f"    {line}" for line in body), "    except BaseException:", f"        {hide}()", "        raise"]

    def execute(self, source: str, name: str) -> types.FunctionType:
        """Compile generated text; tracebacks and debuggers show its lines."""
        filename = f"{GENERATED}{self.code.co_qualname} {name} {id(self):x}, {UNCOUNTED}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        self.filenames.append(filename)
        scope: dict[str, Any] = {}
        exec(compile(source, filename, "exec"), self.namespace, scope)
        (made,) = scope.values()
        return made

    # --- segments and Points

    def point_at(self, index: int, null_slots: tuple[int, ...], place: Place | None = None) -> Point:
        point = self.points.get((index, null_slots, place))
        if point is None:
            depth = self.facts.depth[index]
            assert depth is not None
            layout = Layout(index, depth, null_slots, self.facts.live_locals(index))
            point = self.points[index, null_slots, place] = Point(self, len(self.points), layout, place)
            point.render()
        return point

    def is_point(self, index: int, nulls: tuple[tuple[int, ...] | None, ...]) -> bool:
        facts = self.facts
        return facts.enterable[index] and not facts.protected[index] and nulls[index] is not None

    def exits_from(
        self, index: int, null_slots: tuple[int, ...], place: Place | None, is_on_device: bool
    ) -> tuple[dict[int, Point], set[int]]:
        """The nearest instructions after `index` where capture can resume, and those that run before."""
        nulls = self.facts.nulls(index, null_slots)
        # What an attribute of a copy on the host gives, `x.flat` for one, is used there too: it would not see the device.
        is_attribute = is_on_device and self.program.instructions[index].opname in ("LOAD_ATTR", "LOAD_METHOD")
        most = self.facts.depth[index] if is_attribute else None
        found: dict[int, Point] = {}
        pending, visited = [index], set()
        while pending:
            k = pending.pop()
            if k in visited:
                continue
            visited.add(k)
            is_behind = most is None or (depth := self.facts.depth[k]) is not None and depth < most
            if k != index and is_behind and self.program.entry_of(k) == k and self.is_point(k, nulls):
                known = nulls[k]
                assert known is not None
                found[k] = self.point_at(k, known, place)
            else:
                handler = self.facts.instructions[k].handler
                pending += [*self.facts.successors[k], *([handler.target] if handler else [])]
        return found, visited - found.keys()

    def segment(self, layout: Layout, place: Place | None, is_on_device: bool = False) -> Callable[..., Any]:
        """The user's own code from an instruction on, up to the next Points. May arrays of a device be on the stack?"""
        exits, run = self.exits_from(layout.index, layout.null_slots, place, is_on_device or place is not None)
        made = make_segment(self.user, layout.index, layout.null_slots, layout.local_names, exits)
        touched = Touched.by(self.program, self.facts, run, layout)
        return natively(made, touched, place, self.program.location(layout.index))

    @uncounted
    def run_user(self, state: tuple[Any, ...]) -> Any:
        """The user's function, natively."""

        def call(*state: Any) -> Any:
            return None, call_with(self.user, *self.call_arguments(state))

        return natively(call, None, None, self.program.location(self.facts.start))(*state)[1]

    # --- capture

    def capture(self, point: Point, state: tuple[Any, ...]) -> Variant:
        """Compile a variant of `point` for the values in `state`."""
        began = time.perf_counter()
        decisions = Decisions(stops=dict(self.stops))
        for _ in range(ATTEMPT_LIMIT):
            capture = Capture(Builder(), decisions, point.seen, point.fixed, self.options.dynamic, self.name_constant)
            capture.place = point.place
            capture.came_after = self.breaks[-1] if self.breaks and not point.is_start else None
            frame = self.frame_at(capture, point, state)
            try:
                outcome = frame.run()
                captured = time.perf_counter()
                return self.finish(point, capture, frame, outcome, captured - began)
            except Restart:
                continue
            except BegunGenerator as begun:
                reason = "a generator goes on after the graph ends"
                decisions.stops[begun.index] = Break(reason, "", self.program.location(begun.index))
        raise AssertionError(f"capture of {self.code.co_qualname} found no end: {decisions}")

    def frame_at(self, capture: Capture, point: Point, state: tuple[Any, ...]) -> Frame:
        layout, code = point.layout, self.code
        frame = Frame(capture, self.program, self.user.__globals__, "G", {}, index=layout.index, start=layout.index)
        values = dict(zip(point.parameters, state))
        if not point.is_start:
            frame.stack = [
                NULL if k in layout.null_slots else Lazy(f"stack_{k}", values[f"stack_{k}"]) for k in range(layout.depth)
            ]
        names = point.parameters[len(point.parameters) - len(layout.local_names) :]
        for local, name in zip(layout.local_names, names):
            if local not in self.facts.bound[layout.index]:
                capture.guard(f"{name} is {'' if values[name] is UNBOUND else 'not '}UNBOUND")
            if values[name] is not UNBOUND:
                frame.locals[local] = Lazy(name, values[name])
        self.place_cells(capture, frame, point, values)
        assert code is frame.program.code
        return frame

    def place_cells(self, capture: Capture, frame: Frame, point: Point, values: dict[str, Any]) -> None:
        code = self.code
        if point.is_start:
            for name in code.co_cellvars:
                frame.cells[name] = Cell(frame.locals.pop(name, None))
            real = dict(zip(code.co_freevars, self.user.__closure__ or ()))
            where = {n: f"{self.name_constant(self.user)}.__closure__[{k}]" for k, n in enumerate(code.co_freevars)}
        else:
            real = dict(zip((*code.co_cellvars, *code.co_freevars), values.get("cells", ())))
            where = {n: f"cells[{k}]" for k, n in enumerate(real)}
        for name, cell in real.items():
            frame.cells[name] = capture.cell(where[name], cell)

    def finish(self, point: Point, capture: Capture, frame: Frame, outcome: Outcome, seconds: float) -> Variant:
        """Compile the graph and generate the program that runs it and goes on."""
        if self.options.fullgraph and not isinstance(outcome, Return):
            raise GraphBreakError(f"fullgraph=True, but {self.code.co_qualname} breaks: {why_split(outcome, self.program)}")
        emitter = Emitter(capture, self.name_constant)
        ending = Ending(self, point, capture, frame, emitter)
        changes = [value for effect in capture.effects for value in effect.values]
        live = [*ending.live_values(outcome), *capture.grads.values(), *changes]
        label = re.sub(r"\W", "_", self.code.co_name)
        graph = emitter.graph_of(live, f"{label}_{len(self.graphs)}")
        compiled, timings = None, {"capture": seconds}
        self.is_random |= bool(capture.draws.lines)
        native = f"native_{point.number}({', '.join(point.parameters)})"
        if graph is None:
            emitter.draw(native)
        else:
            fresh = {key: t.array.storage for key, t in emitter.tensors.items()}
            graph, backward = with_backward(capture, graph, {key: s.node for key, s in fresh.items()})
            emitter.saved = [f"saved_{k}" for k in range(len(backward.split.saved))] if backward else []
            graph = simplified(graph)
            compiled = self.compile_graph(graph, timings, capture.place)
            emitter.call_graph(graph, self.name_constant(compiled.call, "graph_"), native)
            if backward is not None:
                self.attach_backward(backward, graph, capture, emitter)
            emitter.place_results(isinstance(outcome, Return))
        emitter.write_cells(capture.cells.values())
        emitter.count_writes()
        emitter.write_gradients(capture.grads)
        if not isinstance(outcome, Return):
            emitter.remember_lost(why_split(outcome, self.program), live)
        emitter.do_effects(capture.effects, live)
        ending.emit(outcome)
        reason = getattr(outcome, "reason", None)
        if reason is not None:
            self.breaks.append(reason)
            log("graph_breaks", lambda: str(reason))
        point.fixed |= capture.fixed_now()
        guards = tuple(capture.builder.env.guards)
        log("guards", lambda: "\n".join(guards))
        if len(point.variants):
            log(
                "recompiles",
                lambda: f"{self.code.co_qualname} at {self.program.location(point.layout.index)}: {'; '.join(guards[:4])}",
            )
        return Variant(guards, tuple(emitter.lines), graph, compiled, reason, timings)

    def attach_backward(self, backward: Backward, graph: Graph, capture: Capture, emitter: Emitter) -> None:
        """Lines that make the Tensors which the program's gradients belong to."""
        self.splits.append(backward.split)
        place = capture.place

        def compile(gradients: Graph) -> CompiledGraph:
            return self.compile_graph(simplify(gradients), {}, place)

        arguments = capture.builder.arguments
        leaves = [t.source for t in backward.leaves if t.source is not None]
        program = BackwardProgram(backward, compile, graph.symbols)
        contents = [arguments[k] for k in backward.split.kept_inputs]
        kept = [source for source, (t, _) in capture.tensors.items() if t.array.storage.source in contents]
        emitter.attach(self.name_constant(program, "backward_"), backward.results, leaves, kept, list(graph.symbols))

    def compile_graph(self, graph: Graph, timings: dict[str, float], place: Place | None = None) -> CompiledGraph:
        log("graph_code", lambda: str(graph))
        began = time.perf_counter()
        examples = [None] * len(graph.inputs)
        try:
            backend = self.options.backend
            mode = self.options.mode
            graph = replace(graph, accuracy=self.options.accuracy)
            made = compile_here(backend, graph, mode) if place is None else compile_there(backend, graph, place.number, mode)
        except (NoCompiler, CompilerError) as error:
            warn_once(f"{error} NumPy runs the captured graphs; `python -m npcompile.doctor` tells how to get a compiler.")
            made = compile_eager(graph, examples)
        compiled = made if isinstance(made, CompiledGraph) else CompiledGraph(made)
        timings["compile"] = time.perf_counter() - began
        log("output_code", lambda: compiled.source)
        self.graphs.append((graph, compiled))
        return compiled


def drop_sources(filenames: list[str]) -> None:
    for filename in filenames:
        linecache.cache.pop(filename, None)
    filenames.clear()


def why_split(outcome: Stop | Branch | Jump | NextItem, program: Program) -> Break:
    """Why the program is more than one graph."""
    if isinstance(outcome, (Stop, Branch)):
        return outcome.reason
    return Break("a loop too long to unroll", "Whole-array operations stay in the graph.", program.location(outcome.index))


_warned: set[str] = set()


def warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=6)


@dataclass(slots=True, eq=False)
class Ending:
    """How a variant hands over to what comes next."""

    function: CompiledFunction
    point: Point
    capture: Capture
    frame: Frame
    emitter: Emitter

    def live_values(self, outcome: Outcome) -> list[Any]:
        """Every value that must be a real object when the variant ends."""
        frame = self.frame
        cells = [c for c in frame.cells.values() if c.source is None] + self.escaped_cells()
        match outcome:
            case Return(value):
                return [value, *self.escaped_cells()]
            case Branch(condition, (true, true_stack), (false, false_stack)):
                return [condition.array, *true_stack, *false_stack, *self.locals_at(true), *self.locals_at(false), *cells]
            case NextItem():
                after = self.function.program.after_loop(outcome.index)
                return [*frame.stack, *self.locals_at(outcome.index + 1), *self.locals_at(after), *cells]
            case Stop() | Jump():
                found = [*frame.stack, *self.locals_at(outcome.index), *cells]
                if isinstance(outcome, Jump) and self.loop_iterator(outcome.index) is not None:
                    found += self.locals_at(outcome.index + 1) + self.locals_at(self.function.program.after_loop(outcome.index))
                return found

    def escaped_cells(self) -> list[Any]:
        return [c.content for c in self.capture.cells.values() if c.is_written]

    def locals_at(self, index: int) -> list[Any]:
        return [self.frame.locals.get(n) for n in self.function.facts.live_locals(index) if n in self.frame.locals]

    def state_text(self, index: int, stack: list[Any], top: str | None = None) -> str:
        """The arguments of the Point at `index`."""
        text = self.emitter.text
        parts = [self.cells_text()] if self.function.has_cells else []
        parts += [text(v) for v in stack if v is not NULL]
        if top is not None:
            parts.append(top)
        for name in self.function.facts.live_locals(index):
            parts.append(text(self.frame.locals[name]) if name in self.frame.locals else "UNBOUND")
        return f"({''.join(f'{p}, ' for p in parts)})"

    def cells_text(self) -> str:
        code = self.function.code
        if not self.point.is_start:
            return "cells"
        cells = [self.frame.cells[n] for n in (*code.co_cellvars, *code.co_freevars)]
        return f"({''.join(f'{self.emitter.text(c)}, ' for c in cells)})"

    def go(self, index: int, stack: list[Any], top: str | None = None) -> str:
        """A return statement that continues at `index`."""
        nulls = tuple(k for k, v in enumerate(stack) if v is NULL)
        function = self.function
        entry = function.program.entry_of(index)
        if not function.is_point(entry, function.facts.nulls(entry, nulls)):
            return self.run_natively(entry, stack, top)
        target = function.name_constant(function.point_at(entry, nulls, self.capture.place), "point_")
        hop = f"({target}, {self.state_text(entry, stack, top)})"
        return f"return drive({hop})" if self.point.is_start else f"return {hop}"

    def run_natively(self, index: int, stack: list[Any], top: str | None = None) -> str:
        """A return statement that runs the user's code from `index` to the next Points."""
        function = self.function
        nulls = tuple(k for k, v in enumerate(stack) if v is NULL)
        layout = Layout(index, len(stack) + (top is not None), nulls, function.facts.live_locals(index))
        is_on_device = any(isinstance(v, Lazy) and array_kind(type(v.example)) is not None for v in stack)
        segment = function.name_constant(function.segment(layout, self.capture.place, is_on_device), "segment_")
        call = f"{segment}(*{self.state_text(index, stack, top)})"
        return f"return drive({call})" if self.point.is_start else f"return {call}"

    def emit(self, outcome: Outcome) -> None:
        lines, text = self.emitter.lines, self.emitter.text
        match outcome:
            case Return(value):
                result = self.result_text(value)
                lines.append(f"return {result}" if self.point.is_start else f"return None, {result}")
            case Stop(index):
                self.compile_callee(index)
                lines.append(self.run_natively(index, self.frame.stack))
            case Jump(index):
                iterator = self.loop_iterator(index)
                if iterator is None:
                    lines.append(self.go(index, self.frame.stack))
                else:
                    self.next_item(index, text(iterator))
            case NextItem(index, iterator):
                self.next_item(index, text(iterator))
            case Branch(condition, if_true, if_false, reason):
                test = text(condition.array)
                if self.capture.place is not None:
                    test = f"{self.emitter.name_constant(decided)}({test}, {self.emitter.name_constant(reason.location)})"
                test = f"{'not ' if condition.negated else ''}{test}"
                self.arm(f"if {test}:", *if_true)
                lines.append(self.arm_text(*if_false)[-1])

    def result_text(self, value: Any) -> str:
        """What was made natively on the way goes to the device that arrays came on."""
        place, result = self.capture.place, self.emitter.text(value)
        if place is None or not place.gives_arrays or self.point.is_start:
            return result
        return f"{self.emitter.name_constant(leaving)}({result}, {self.emitter.name_constant(place)})"

    def loop_iterator(self, index: int) -> Any | None:
        """The iterator of a `for` loop at `index` when the generated program may ask it for the next item."""
        if self.function.program.instructions[index].opname != "FOR_ITER":
            return None
        value = self.capture.realize(self.frame.stack[-1])
        if isinstance(value, Iterator) and value.kind in ("range", "sequence", "array"):
            return value
        return value if isinstance(value, Opaque) and type(value.example) in PLAIN_ITERATORS else None

    def next_item(self, index: int, iterator: str) -> None:
        lines = self.emitter.lines
        after = self.function.program.after_loop(index)
        natively = self.run_natively(index, self.frame.stack)  # what it hands over is made before the try
        lines += ["try:", f"    item = next({iterator}, UNBOUND)", "except RuntimeError:  # a dict has another size now"]
        lines.append(f"    {natively}")
        exhausted = self.go(after, self.frame.stack[:-1])
        following = self.go(index + 1, self.frame.stack, top="item")
        lines += ["if item is UNBOUND:", f"    {exhausted}", following]

    def arm(self, header: str, index: int, stack: list[Any]) -> None:
        body = self.arm_text(index, stack)
        self.emitter.lines += [header, *(f"    {line}" for line in body)]

    def arm_text(self, index: int, stack: list[Any]) -> list[str]:
        return [self.go(index, stack)]

    def compile_callee(self, index: int) -> None:
        """A Python function that could not be inlined is called through its own compiled entry."""
        function = self.function
        calls = [k for k in self.capture.decisions.native_calls if function.program.entry_of(k) == index]
        if not calls or function.compile_callee is None:
            return
        for position, value in enumerate(self.frame.stack):
            if isinstance(value, Lazy) and not is_user_function(value.example):
                continue
            callee = self.capture.realize(value)
            if isinstance(callee, Constant) and is_user_function(callee.value):
                self.frame.stack[position] = Constant(self.compiled_callee(callee.value))

    def compiled_callee(self, user: types.FunctionType) -> types.FunctionType:
        """The callee compiled as it is now: guarded, as a compiled function has a copy of these parts."""
        function = self.function
        parts = {name: getattr(user, name) for name in ("__code__", "__defaults__", "__kwdefaults__")}
        for name, part in parts.items():
            self.capture.guard(f"{function.name_constant(user)}.{name} is {function.name_constant(part)}")
        key = user, *map(id, parts.values())
        if key not in function.callees:
            assert function.compile_callee is not None
            function.callees[key] = function.compile_callee(user, function.options)
        return function.callees[key]


def is_user_function(value: Any) -> bool:
    is_plain = isinstance(value, types.FunctionType) and value.__closure__ is None and value not in BUILTINS
    is_compiled = hasattr(value, "__npcompile_original__")
    return is_plain and not is_compiled and not is_library_code(value.__globals__) and not is_ours(value.__globals__)


def is_ours(namespace: dict[str, Any]) -> bool:
    return str(namespace.get("__name__")).split(".")[0] == "npcompile"
