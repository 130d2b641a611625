"""The variant of the Point at a function's start that runs the whole function as one program that aborts.

So run npc.fori_loop, while_loop and scan, which the program has written into it, and loops where no Python is to run. What the
program leaves, Python does again from the beginning: arguments are as before, and errors and warnings are Python's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from npcompile import trees
from npcompile.backends.background import NotYet
from npcompile.backends.loop_ir import target
from npcompile.backends.loop_ir.native import Taken, said_of
from npcompile.backends.passes import Pass
from npcompile.backends.registry import CompiledGraph
from npcompile.devices import has_loops, loop_gradients, runs_on_host_alone
from npcompile.logs import log
from npcompile.settings import config
from npcompile.tensor_core.events import COUNTS, moment
from npcompile.tensor_core.guards import All, Equals, Guard, Is, Keys, Length, OfType
from npcompile.tensor_core.loop_ir.activity import written_params
from npcompile.tensor_core.loop_ir.buffers import use_buffers
from npcompile.tensor_core.loop_ir.forms import uses, walk
from npcompile.tensor_core.loop_ir.fp_status import look_once
from npcompile.tensor_core.loop_ir.ops import For, FrameState, Policy, Program, Return, While
from npcompile.tensor_core.loop_ir.pipeline import differentiable, run_passes
from npcompile.tensor_core.loop_ir.states import TupleOf
from npcompile.tensor_core.loop_ir.types import Memref, Type
from npcompile.tensor_core.loop_ir.verifier import Stage, stage_of
from npcompile.tensor_core.source import NONE, UNBOUND, Literal, Name, Source, Written
from npcompile.tracer.assumptions import of_entry, of_function
from npcompile.tracer.bytecode.analysis import CodeFacts, loop_region
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.conditions import conditions
from npcompile.tracer.entry import plain_function
from npcompile.tracer.faults import is_fault, warn_of_fault
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.arguments import container_type, held_by, is_named, is_sequence, parts_of_partial, typed
from npcompile.tracer.loop_ir.asking import expression_of, guards_of_name, guards_of_type
from npcompile.tracer.loop_ir.beginning import Entry
from npcompile.tracer.loop_ir.builder import Tail
from npcompile.tracer.loop_ir.family import are_shared
from npcompile.tracer.loop_ir.front_end import Traced, trace
from npcompile.tracer.loop_ir.leaving import unchanged
from npcompile.tracer.point import Point
from npcompile.tracer.profitability import why_better_as_graph
from npcompile.tracer.resume import Ending
from npcompile.tracer.values import Lazy
from npcompile.tracer.variant import Variant

WITHOUT_PYTHON = "compiled without Python"  # in the account of `explain`
# Without fullgraph=True, which has nothing else to run:
MOST_ABORTS = 16  # one after another, before a program is not tried any more
MOST_PROGRAMS = 3  # for arguments of the same types, as what names stand for changes
Key = tuple[Hashable, ...]  # types of arguments, and what functions among them do


def aborting_function(function: Compiled[Point], point: Point, state: tuple[Any, ...], is_left: bool = False) -> Variant | None:
    """A variant of the Point at the start of a CompiledFunction. None where the loop IR has not all of the function.

    `is_left`: only of loops that no other compiler has, as far as is known, and in which no exception is handled. The Point may
    be at a loop then.
    """
    options, began = function.options, time.perf_counter()
    if not (point.is_start or is_left) or point.place is not None or options.falls_back or options.has_own_backend:
        return None
    is_free = config.native_loops and has_loops(options.backend) and runs_on_host_alone(options.backend)
    if not is_free or function.accuracy == "bitwise":
        return None
    try:
        return Aborting.of(function, point, state, is_left).variant(began)
    except (Unsupported, target.Unsupported) as reason:
        why = str(reason)
        log("loops", lambda: f"{function.code.co_qualname}: no program that aborts: {why}")
        if not is_left:
            function.declined[Pass(WITHOUT_PYTHON, f"the function at {point.location}", why)] = None
    except NotYet:  # the compiler is asked beside the program
        raise
    except Exception as error:
        if config.internal_errors == "raise" or not is_fault(error):
            raise
        warn_of_fault(error, f"compiling the loops of {function.code.co_qualname}", "They are captured as a graph.")
    return None


@dataclass(slots=True)
class Aborting:
    """A program, and what it is called with."""

    function: Compiled[Point]
    point: Point
    traced: Traced
    given: list[Any]  # examples of the params
    sources: list[Source]  # of these
    guards: list[Guard]
    key: Key
    state: Sequence[Any]
    held: int  # on the stack below
    is_left: bool

    @classmethod
    def of(cls, function: Compiled[Point], point: Point, state: Sequence[Any], is_left: bool) -> Aborting:
        """Raises Unsupported."""
        if is_left and handles_exceptions(function.facts):
            raise Unsupported("a handler of exceptions in or around a loop, which sees variables")
        entry = Entry.of(function, point, state)
        traced = trace(function.python, entry.arguments, Policy.ABORT, is_exact=True, of_state=True, goes_on=is_left, at=entry.at)
        if is_left and not traced.has_new_forms:
            raise Unsupported("loops that others may have")
        taken: list[tuple[Source, Any, Guard | None]] = [(UNBOUND, None, guard) for guard in entry.guards]
        taken += [(at, x, None) for at, x in entry.leaves_of_iterator(function)]
        taken += [part for at, x in entry.variables for part in parts_of(function, at, x)]
        leaves = [(source, x) for source, x, guard in taken if guard is None]
        key = (
            *(point.layout.index, *(type_of_param(x) for _, x in leaves)),
            *dict.fromkeys(fixed_part(x) for _, x, guard in taken if guard is not None),
        )
        if not function.options.fullgraph and function.aborting.get(key, 0) >= MOST_PROGRAMS:
            raise Unsupported("names stand for other values in each call, or calls end where Python goes on")
        outside = [(expression_of(function, source), source.read()) for source in traced.inputs]
        given = [x for _, x in (*leaves, *outside)]
        if why := why_better_as_graph(traced, given):
            raise Unsupported(why)
        guards = [guard for _, _, guard in taken if guard is not None]
        guards += [guard for same in traced.guards for guard in guards_of_name(function, same)]
        guards += [guard for source, x in (*leaves, *outside) for guard in guards_of_type(function, type_of_param(x), source)]
        return cls(
            function,
            point,
            traced,
            given,
            [source for source, _ in (*leaves, *outside)],
            guards,
            key,
            state,
            entry.at.held if entry.at else 0,
            is_left,
        )

    def variant(self, began: float) -> Variant:
        """Raises Unsupported, of a backend too."""
        function, program = self.function, self.traced.program
        require_sole_tuples(program)
        require_order(program, self.given)
        tails = {id(tail.op) for tail in self.traced.tails}
        for op in walk(program.body):
            if isinstance(op, Return) and id(op) not in tails:
                op.value = TupleOf((op.value,))  # a call gives no tuple where the program was left
        differentiable(program)
        if stage_of(program) is Stage.STRUCTURED:
            look_once(program, next(op.name for op in program.body if isinstance(op, FrameState)))
            use_buffers(program)
        ran = run_passes(program)
        written = written_params(program, len(self.given))
        compile_loops = loop_gradients()
        assert compile_loops is not None
        seconds = {"capture": time.perf_counter() - began}
        native = compile_loops(program, [Taken(type_of_param(x), w) for x, w in zip(self.given, written, strict=True)], ())
        COUNTS["loop_programs"] += 1
        function.aborting[self.key] = function.aborting.get(self.key, 0) + 1
        left = Left(function, self.point, self.key, native.call, self.is_left)
        compiled = CompiledGraph(
            native.call, native.source, ("npc_run",), {"compile": native.seconds}, passes=(*self.loops(), *said_of(ran))
        )
        asked = conditions(self.guards, function.name_constant, function.namespace)
        return Variant(
            tuple(self.guards),
            tuple(asked),
            tuple(self.lines(left)),
            None,
            compiled,
            None,
            seconds,
            aborts=True,
        )

    def lines(self, left: Left) -> Iterator[str]:
        """The end of the Point's function. A call of the program gives a tuple of the result, or anything else if it was left."""
        name = self.function.name_constant
        yield f"found = {name(left.call, 'loops_')}({', '.join(map(str, self.sources))})"
        yield "if type(found) is tuple:"
        yield f"    {name(left, 'left_')}.aborts = 0"
        yield "    if len(found) == 1:"
        yield f"        return {'' if self.point.is_start else 'None, '}found[0]"
        for number, tail in enumerate(self.traced.tails):
            yield f"    if found[1] == {number}:"
            yield f"        {self.going_on(tail)}"
        yield f"return {name(left, 'left_')}({', '.join(self.point.parameters)})"

    def going_on(self, tail: Tail) -> str:
        """A line that goes on in Python after the program."""
        function, names = self.function, self.point.layout.local_names
        ending, handed = Ending.at(function, self.point, self.state), iter(range(2, 2 + tail.depth + len(tail.slots)))
        held = self.held
        ending.frame.stack = [Lazy(Name(f"stack_{k}"), None) for k in range(held)]
        ending.frame.stack += [Lazy(Written(f"found[{next(handed)}]"), None) for _ in range(tail.depth)]
        given = unchanged(function.facts)
        ending.frame.locals = {n: Lazy(Name(at), None) for n, at in zip(names, self.point.local_parameters) if n in given}
        ending.frame.locals |= {function.facts.slots[k]: Lazy(Written(f"found[{next(handed)}]"), None) for k in tail.slots}
        return ending.run_natively_later(tail.index, ending.frame.stack)

    def loops(self) -> Iterator[Pass]:
        """Where loops are that run without Python: those of npc.fori_loop and its like at the lines of their calls."""
        lines = {op.at.line for op in walk(self.traced.program.body) if isinstance(op, For | While)}
        for line in sorted(lines):
            yield Pass(WITHOUT_PYTHON, f"the loop at line {line}")


@dataclass(slots=True)
class Left:
    """What runs where the program was left."""

    function: Compiled[Point]
    point: Point
    key: Key
    call: Callable[..., Any]  # of the program
    is_left: bool  # is there nothing better than Python without it?
    aborts: int = 0  # since it last had a result
    rest: Callable[..., Any] | None = None  # of a loop

    def __call__(self, *state: Any) -> Any:
        self.aborts += 1
        COUNTS["side_exits"] += 1
        moment("side exit", self.function.code.co_qualname, self.point.location)
        if self.aborts == MOST_ABORTS and not (self.function.options.fullgraph or self.is_left):
            with self.function.lock:
                self.function.aborting[self.key] = MOST_PROGRAMS
                self.drop()
        if self.point.is_start:
            return self.point.native(*state)
        if self.rest is None:  # Python does all of the loop: the next iteration would end where this one has
            layout, facts = self.point.layout, self.function.facts
            self.rest = self.function.segment(layout, None, inside=loop_region(facts, layout.index))
        return self.rest(*state)

    def drop(self) -> None:
        point = self.point
        point.variants = [v for v in point.variants if v.compiled is None or v.compiled.call is not self.call]
        point.generation += 1
        point.render()


def handles_exceptions(facts: CodeFacts) -> bool:
    """May an exception, that of a signal's handler for one, be seen in a loop, or right after it?"""
    inside = {index for header in facts.loop_headers for index in loop_region(facts, header)}
    handlers = {i.handler.target for i in facts.instructions if i.index in inside and i.handler is not None}
    return not all(only_puts_back(facts, target) for target in handlers)


def only_puts_back(facts: CodeFacts, index: int) -> bool:
    """Does a handler only give a comprehension's variable back to the function, and raise the exception again?"""
    while (traits := facts.instructions[index].traits).flow != "raise":
        if traits.stack not in ("swap", "drop") and (traits.place, traits.access) != ("local", "write"):
            return False
        index += 1
    return True


def parts_of(function: Compiled[Point], source: Source, x: Any) -> Iterator[tuple[Source, Any, Guard | None]]:
    """What params are for of an argument, in the order of `arguments.taken`, and with a guard each what else is asked of it."""
    kind = trees.kind_of(x)
    if x is None or is_named(x):
        yield source, x, Is(source, NONE if x is None else function.object_of(x))
    elif type(x) is str:
        yield source, x, All((OfType(source, function.object_of(str)), Equals(source, Literal(x))))
    elif isinstance(x, FunctionType):
        yield from parts_of_function(function, source, x)
    elif type(x) is partial:
        given, named = source.attribute("args"), source.attribute("keywords")
        yield source, x, OfType(source, function.object_of(partial))
        yield source, x, Length(given, "==", len(x.args))
        yield source, x, Keys(named, Literal([*x.keywords]))
        sources = [source.attribute("func"), *(given.item(k) for k in range(len(x.args))), *map(named.item, x.keywords)]
        for each, part in zip(sources, parts_of_partial(x), strict=True):
            yield from parts_of(function, each, part)
    elif kind is None:
        yield source, x, None
    else:
        if kind.fixed(x):
            raise Unsupported("an argument with static parts")
        yield source, x, OfType(source, function.object_of(type(x)))
        if is_sequence(x):
            yield source, x, Length(source, "==", len(x))
            yield source, x, None
        elif type(x) is dict:
            yield source, x, Keys(source, Literal([*kind.parts(x)]))
        elif not is_dataclass(x):
            raise Unsupported(f"an argument that is a {type(x).__name__}")
        for k, (key, part) in enumerate(kind.parts(x).items()):
            at = source.item(k) if is_sequence(x) else source.attribute(key) if is_dataclass(x) else source.item(key)
            yield from parts_of(function, at, part)


def parts_of_function(function: Compiled[Point], source: Source, x: FunctionType) -> Iterator[tuple[Source, Any, Guard | None]]:
    """Of a function that is an argument: its code is asked, what it holds are params."""
    is_entry = plain_function(x) is not x
    for guard in [of_entry(source, x, function.object_of)] if is_entry else of_function(source, x, function.object_of):
        yield source, x, guard
    defaults, held = held_by(x)
    at = source.attribute("__defaults__")
    yield source, x, Length(at, "==", len(defaults)) if defaults else Is(at, NONE)
    yield source, x, Is(source.attribute("__kwdefaults__"), NONE)
    for k, part in enumerate(defaults):
        yield from parts_of(function, at.item(k), part)
    for k, part in enumerate(held):
        yield from parts_of(function, source.attribute("__closure__").item(k).attribute("cell_contents"), part)


def fixed_part(x: Any) -> Any:
    """What a program is for of an argument that is no param: the code of a function, a function that is known, a string."""
    if isinstance(x, FunctionType) and not is_named(x):
        return plain_function(x).__code__
    return x if is_named(x) or type(x) is str else type(x)


def type_of_param(x: Any) -> Type:
    return container_type(x) if is_sequence(x) else typed(x)


def require_sole_tuples(program: Program) -> None:
    """Raises Unsupported where a result holds one tuple twice: a program makes two, which Python's `is` tells apart."""
    if any(are_shared(op) for op in walk(program.body) if isinstance(op, Return)):
        raise Unsupported("a tuple that may be several variables'")


def require_order(program: Program, given: Sequence[Any]) -> None:
    """Raises Unsupported for results made of arguments in other orders than C's: NumPy keeps these, programs do not know them."""
    params = {param.value for param in program.params}
    returned = {value for op in walk(program.body) if isinstance(op, Return) for value in uses(op)} - params
    are_arrays = any(isinstance(program.types[value], Memref) for value in returned)
    if are_arrays and any(isinstance(x, np.ndarray) and x.ndim > 1 and not x.flags.c_contiguous for x in given):
        raise Unsupported("results whose order in memory is that of arguments")
