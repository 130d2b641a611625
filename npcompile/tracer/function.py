"""Everything compiled for one Python function: its entry, its Points, and the capture of a variant."""

from __future__ import annotations

import builtins
import itertools
import linecache
import re
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any

from npcompile.backends.background import Job
from npcompile.backends.passes import Pass
from npcompile.backends.registry import CompiledGraph, FloatingPointSignal
from npcompile.devices import begin, has_loops, runs_on_host_alone
from npcompile.settings import config
from npcompile.tensor_core.events import COUNTS
from npcompile.tensor_core.garbage import without_collections
from npcompile.tensor_core.graph import Builder, Graph, Location
from npcompile.tensor_core.source import Object
from npcompile.tensor_core.transforms.partition import Split
from npcompile.tensor_core.user_warnings import warnings_held
from npcompile.tracer import beginning, captured, graph_variants, loop_variants  # noqa: F401  (the second defines it)
from npcompile.tracer.argument_kinds import Refusals
from npcompile.tracer.bytecode.analysis import CodeFacts, analyse, leaves_with
from npcompile.tracer.bytecode.decode import Program, decode
from npcompile.tracer.bytecode.layout import UNBOUND, Layout
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.bytecode.segment import make_segment
from npcompile.tracer.bytecode.tracebacks import generated_name, shown_name, uncounted
from npcompile.tracer.capture import Capture
from npcompile.tracer.entry import Current, as_found, compiled_function, copied, handing_on, make_entry, plain_function
from npcompile.tracer.faults import cannot_hold, text_of_fault, warn_of_fault
from npcompile.tracer.fresh_classes import are_compared, compared_text
from npcompile.tracer.host_fallback import Place, Touched, natively
from npcompile.tracer.point import Point, drive
from npcompile.tracer.profitability import Trial, is_too_long
from npcompile.tracer.recursion import is_deep
from npcompile.tracer.restarts import Arms, BegunIterator, Break, Decisions, Restart
from npcompile.tracer.resume import is_user_function
from npcompile.tracer.static_arguments import require_hashable, static_sources
from npcompile.tracer.values import LookedAt
from npcompile.tracer.variant import GraphBreakError, Options, Variant
from npcompile.tracer.variant_source import parameter_name

MOST_STAND_INS = 64  # for functions that are made anew, each of another code
SERIALS = itertools.count()
ATTEMPT_LIMIT = 100  # decisions of one capture
# What generated programs call their own variables and what is in their namespace: tests/conftest.py checks that nothing else is.
OURS = re.compile(
    r"^([acnstv]\d+|tuple\d+|\w+_\d+|(of|rest)_\w+|found|where|holds|item|hops|cells|kept|iteration|"
    r"G|np|UNBOUND|FloatingPointSignal|drive|is_deep|cannot_hold)$"
)


# Everything compiled and still in use, by identity: entries hold it. Other threads may add to it at any time.
ALIVE: weakref.WeakValueDictionary[int, CompiledFunction] = weakref.WeakValueDictionary()


@dataclass(slots=True, eq=False, weakref_slot=True)
class CompiledFunction:
    """Everything compiled for one Python function, until `renew` makes another: what runs then goes on with this one."""

    user: types.FunctionType
    options: Options
    compile_callee: Callable[[types.FunctionType, Options], types.FunctionType] | None = None
    is_switched: bool = True  # does it run as it is where npcompile.switch says so?
    known_entry: InitVar[types.FunctionType | None] = None
    current: Current = field(default_factory=Current)  # what the entry, and every function that was given its code, enters
    known_python: InitVar[types.FunctionType | None] = None
    numbers: Iterator[int] = field(default_factory=itertools.count)  # at the ends of names
    entry: types.FunctionType = field(init=False)
    python: types.FunctionType = field(init=False)  # a copy of `user` as it was: what runs uncompiled
    code: types.CodeType = field(init=False)
    parameters: Parameters = field(init=False)
    program: Program = field(init=False, repr=False)  # read at the first call, as the facts are
    facts: CodeFacts = field(init=False, repr=False)
    points: dict[tuple[int, tuple[int, ...], Place | None], Point] = field(default_factory=dict)
    namespace: dict[str, Any] = field(default_factory=dict)
    objects: dict[int, Object] = field(default_factory=dict)  # id of an object -> its name in the namespace, which keeps it
    lock: threading.RLock = field(default_factory=threading.RLock)
    breaks: list[Break] = field(default_factory=list)
    graphs: list[tuple[Graph, CompiledGraph]] = field(default_factory=list)
    splits: tuple[Split, ...] = ()  # of graphs with gradients
    callees: dict[tuple[Any, ...], types.FunctionType] = field(default_factory=dict)
    stand_ins: dict[tuple[Any, ...], types.FunctionType] = field(default_factory=dict)  # for functions made anew
    stops: dict[int, Break] = field(default_factory=dict)  # instructions that always end the graph
    arms: Arms = field(default_factory=Arms)  # of branches with effects
    aborting: dict[Any, int] = field(default_factory=dict)  # types of arguments -> programs that abort, made for them
    declined: dict[Pass, None] = field(default_factory=dict)  # why there is no program that aborts
    refusals: Refusals = field(default_factory=Refusals)  # of native programs; below 0: of others: of a device, or that abort
    hops: int = 0  # from Point to Point, up to those after which loops are looked at
    calls: int = 0  # that went from Point to Point to their end
    serial: int = field(default_factory=lambda: next(SERIALS))  # of the same code there may be several
    filenames: list[str] = field(init=False, repr=False)  # of the generated programs, as linecache knows them
    has_our_names: bool = False  # is a parameter named as something of the generated programs?
    is_random: bool = False  # does some program draw random numbers?
    is_frozen: bool = False  # nothing new is compiled
    is_left: bool = False  # does it run as it is? Its code is too long, or a mistake of ours came up when that was read
    compiling: Job[Any, Any] | None = None  # what is made of it beside the program
    _trial: Trial | None = None
    _plain: Callable[..., Any] | None = None

    def __post_init__(self, known_entry: types.FunctionType | None, known_python: types.FunctionType | None) -> None:
        self.python = copied(self.user) if known_python is None else known_python
        self.code = self.python.__code__
        self.parameters = Parameters.of(self.code)
        self.current.be(self, None)
        if known_entry is not None:
            self.entry = known_entry
            if self.current.stub is None:  # it was unpickled
                self.current.make_stub()
        else:
            self.entry = make_entry(self.user, self.parameters, self.current, self.is_switched)
        ALIVE[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """The function and how to compile it. As state: what the function calls may lead back here."""
        found = as_found(self.user)
        user = self.user if found is self.entry else found
        return (
            CompiledFunction.__new__,
            (CompiledFunction,),
            (user, self.options, self.compile_callee, self.is_switched, self.entry, self.current),
        )

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        user, *rest = state
        self.__init__(plain_function(user), *rest)  # type: ignore[misc]

    @property
    def has_cells(self) -> bool:
        return bool(self.code.co_cellvars or self.code.co_freevars)

    def call_of_user(self, values: Sequence[str]) -> str:
        """A call of the user's function with expressions for its parameters."""
        return f"{self.name_constant(self.python)}({self.parameters.handed_on(values)})"

    @property
    def dispatch(self) -> Callable[..., Any]:
        """What callers enter: the dispatch of the Point at the start, which is made at the first call, or the user's own code."""
        if self.is_left:
            return self.python if self.parameters.are_positional else partial(self.parameters.call, self.python)
        start = next(iter(self.points.values()), None)
        return self.first_call if start is None else start.enter

    @uncounted
    def first_call(self, *state: Any) -> Any:
        """Read the code, then enter the Point at the start; the user's own code where that is too long, or we make a mistake."""
        with warnings_held(), self.lock:
            if not self.points and not self.is_left:
                try:
                    with without_collections():
                        self.start()
                except Exception as error:  # noqa: BLE001  (raised again where it is asked for)
                    self.raise_if_asked(error, "reading the code of")
                    self.is_left = True
                    warn_of_fault(error, f"reading the code of {self.code.co_qualname}", "The function will run uncompiled.")
                self.current.be(self, self)
        return self.dispatch(*state)

    @property
    def is_too_long(self) -> bool:
        """Would it take longer to compile than it is likely to give back?"""
        return is_too_long(self.code, self.is_asked) and not self.options.fullgraph

    def leave(self) -> None:
        """Run as it is from now on, as the code is too long."""
        self.is_left = True
        where = Location(self.code.co_filename, self.code.co_firstlineno, self.code.co_qualname)
        hint = "Cut it in functions of fewer than 3,000 statements." if self.is_asked else "npcompile.compile takes longer ones."
        why = Break("the function is too long to compile", hint, where)
        self.breaks.append(why)
        why.count()

    def start(self) -> None:
        """Read the code and make the Point at the start. Nothing is compiled yet."""
        COUNTS["functions"] += 1
        if self.is_too_long:
            self.leave()
            return
        self.filenames = []
        weakref.finalize(self, drop_sources, self.filenames)
        self.program = decode(self.code)
        self.facts = analyse(self.code)
        self.namespace.update(
            G=self.python.__globals__,
            UNBOUND=UNBOUND,
            drive=drive,
            is_deep=is_deep,
            cannot_hold=cannot_hold,
            FloatingPointSignal=FloatingPointSignal,
            __builtins__=__builtins__,
        )
        self.namespace["np"] = __import__("numpy")
        layout = Layout(self.facts.start, 0, (), self.parameters.names)
        point = Point(self, 0, layout, is_native=self.is_frozen)
        self.has_our_names = any(OURS.match(n) or hasattr(builtins, n) for n in self.parameters.names)
        point.render()
        self.points[layout.index, (), None] = point

    @property
    def is_measured(self) -> bool:
        """May calls run as they are, to find out what pays? Not where the user has asked for what plain Python does not do."""
        options = self.options
        is_free = not (options.fullgraph or options.has_own_backend or options.static) and self.is_switched and not self.is_frozen
        is_asked = config.tiers == "measured" and config.fallback_random and not (config.check or config.check_nan)
        return is_asked and is_free and runs_on_host_alone(options.backend)

    @property
    def goes_on(self) -> bool:
        """Does the program go on while a compiler runs? What a whole package has is compiled so, and what the user asks for."""
        is_beside = config.compile == "background" or not self.is_asked
        return is_beside and not self.options.fullgraph and runs_on_host_alone(self.options.backend)

    @property
    def is_asked(self) -> bool:
        """Has the user named the function, and not only its package?"""
        return not self.options.when_hot or config.tiers == "always"

    @property
    def is_compiling(self) -> bool:
        return self.compiling is not None and self.compiling.is_alive()

    @property
    def trial(self) -> Trial:
        """What finds out whether it pays to run compiled."""
        if self._trial is None:
            self._trial = Trial(self)
        return self._trial

    @property
    def entered(self) -> Callable[..., Any]:
        """What the entry enters after something was compiled, or nothing yet."""
        if not self.is_measured:
            for point in [*self.points.values()]:
                point.run_compiled()
            return self.dispatch
        self.trial.is_due = True
        return self.trial

    @property
    def plain(self) -> Callable[..., Any]:
        """What calls the user's function with a value for each of its parameters."""
        if self._plain is None:
            self._plain = self.python if self.parameters.are_positional else handing_on(self.parameters)(self.python)
        return self._plain

    @property
    def is_current(self) -> bool:
        """Does the entry enter this one? Not once it is renewed."""
        return self.current.compiled is self

    def renew(self) -> None:
        """Let the entry enter another CompiledFunction, with nothing compiled. What runs keeps what it has."""
        fresh = CompiledFunction(
            self.user, self.options, self.compile_callee, self.is_switched, self.entry, self.current, self.python
        )
        self.current.be(fresh, self)  # nothing, if another thread or a handler of signals has just done it

    def freeze(self) -> None:
        """Compile nothing new from now on, of callees neither."""
        with self.lock:
            if self.is_frozen:
                return
            self.is_frozen = True
            for callee in self.callees.values():
                if (known := compiled_function(callee)) is not None:
                    known.freeze()
            for point in self.points.values():
                point.is_native = True
                point.generation += 1
                point.render()

    def stand_in(self, code: types.CodeType, namespace: dict[str, Any], defaults: tuple[Any, ...]) -> types.FunctionType:
        """The function that is compiled for all which are made of these parts alone."""
        key = code, id(namespace), tuple(map(compared_text, defaults))
        if key not in self.stand_ins:
            self.stand_ins[key] = types.FunctionType(code, namespace, argdefs=defaults or None)
        return self.stand_ins[key]

    def stand_in_of(self, user: Any) -> Any:
        """The same for a function that is made of its code, globals and plain defaults alone, else the function itself."""
        defaults = getattr(user, "__defaults__", None) or ()
        if type(user) is not types.FunctionType or user.__closure__ or user.__kwdefaults__ or user.__dict__:
            return user
        return self.stand_in(user.__code__, user.__globals__, defaults) if are_compared(defaults) else user

    def compiled(self, user: types.FunctionType) -> types.FunctionType:
        """What is compiled of a callee as it is now."""
        key = user, *(id(getattr(user, name)) for name in ("__code__", "__defaults__", "__kwdefaults__"))
        if key not in self.callees:
            assert self.compile_callee is not None
            compiled = self.callees[key] = self.compile_callee(user, self.options.of_callees)
            made = compiled_function(compiled)
            if made is not None:  # a function that calls itself, or its caller, is compiled once
                made.callees = self.callees
        return self.callees[key]

    @uncounted
    def compiled_of(self, user: Any) -> Any:
        """What is called for a function that is another in each call: compiled, if it is one of a few."""
        if not is_user_function(user):
            return user
        with self.lock:
            stand_in = self.stand_in_of(user) if len(self.stand_ins) < MOST_STAND_INS else user
            return user if stand_in is user else self.compiled(stand_in)

    # --- generated programs

    def object_of(self, value: Any, prefix: str = "k_") -> Object:
        """An object, and the name that the generated programs have for it."""
        known = self.objects.get(id(value))
        if known is None:
            label = re.sub(r"\W", "_", getattr(value, "__name__", type(value).__name__))
            known = self.objects[id(value)] = Object(f"{prefix}{label}_{next(self.numbers)}", value)
            self.namespace[known.name] = value
        return known

    def name_constant(self, value: Any, prefix: str = "k_") -> str:
        """A name for an object in the generated programs."""
        return self.object_of(value, prefix).name

    def execute(self, source: str, name: str) -> types.FunctionType:
        """Compile generated text; tracebacks and debuggers show its lines."""
        filename = generated_name(self.code, f"{name} ({self.serial})")
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        self.filenames.append(filename)
        scope: dict[str, Any] = {}
        exec(compile(source, filename, "exec"), self.namespace, scope)
        (made,) = scope.values()
        shown = shown_name(self.code, name)
        made.__code__ = made.__code__.replace(co_name=shown, co_qualname=shown)
        return made

    # --- segments and Points

    def point_at(self, index: int, null_slots: tuple[int, ...], place: Place | None = None) -> Point:
        point = self.points.get((index, null_slots, place))
        if point is None:
            depth = self.facts.depth[index]
            assert depth is not None
            layout = Layout(index, depth, null_slots, *self.facts.locals_at(index))
            point = Point(self, len(self.points), layout, place)
            point.is_native = self.is_frozen
            point.render()
            point = self.points.setdefault((index, null_slots, place), point)
        return point

    def is_point(self, index: int, nulls: tuple[tuple[int, ...] | None, ...]) -> bool:
        facts = self.facts
        return facts.enterable[index] and nulls[index] is not None and not leaves_with(facts.instructions, index)

    def exits_from(
        self, index: int, null_slots: tuple[int, ...], place: Place | None, is_on_device: bool, at_loops: bool, inside: Set[int]
    ) -> tuple[dict[int, Point], set[int]]:
        """The nearest instructions after `index` where capture can resume, and those that run before.

        `at_loops`: headers of loops alone, for code that was captured and reports what only NumPy does: what follows would
        report it again, one instruction further on. `inside`: instructions at which capture does not resume.
        """
        nulls = self.facts.nulls(index, null_slots)
        # What an attribute of a copy on the host gives, `x.flat` for one, is used there too: it would not see the device.
        is_attribute = is_on_device and self.program.instructions[index].traits.reads("attribute")
        most = self.facts.depth[index] if is_attribute else None
        found: dict[int, Point] = {}
        pending, visited = [index], set()
        while pending:
            k = pending.pop()
            if k in visited:
                continue
            visited.add(k)
            is_behind = most is None or (depth := self.facts.depth[k]) is not None and depth < most
            is_wanted = is_behind and (not at_loops or k in self.facts.loop_headers) and k not in inside
            if k != index and is_wanted and self.is_point(k, nulls):
                known = nulls[k]
                assert known is not None
                found[k] = self.point_at(k, known, place)
            else:
                handler = self.facts.instructions[k].handler
                pending += [*self.facts.successors[k], *([handler.target] if handler else [])]
        return found, visited - found.keys()

    def segment(
        self,
        layout: Layout,
        place: Place | None,
        is_on_device: bool = False,
        throws: bool = False,
        at_loops: bool = False,
        inside: Set[int] = frozenset(),
    ) -> Callable[..., Any]:
        """The user's own code from an instruction on, up to the next Points. May arrays of a device be on the stack?"""
        may_be_on_device = is_on_device or place is not None

        def to(exits: Mapping[int, Point]) -> Callable[..., Any]:
            entry = self.python, layout.index, layout.null_slots, layout.local_names
            return make_segment(*entry, exits, throws, layout.kept_names)

        try:
            exits, run = self.exits_from(layout.index, layout.null_slots, place, may_be_on_device, at_loops, inside)
            touched = None if throws else Touched.by(self.program, self.facts, run, layout)
            return natively(to(exits), touched, place, self.program.location(layout.index))
        except Exception as error:
            if place is not None or not self.hides_faults:
                raise
            where = self.program.location(layout.index)
            warn_of_fault(error, f"leaving compiled code of {self.code.co_qualname} at {where}", "This call ends in Python.")
            return to({})

    @property
    def hides_faults(self) -> bool:
        """Does the user's own code run where this package has made a mistake?"""
        options = self.options
        asks_for_errors = options.fullgraph and not options.falls_back or options.has_own_backend
        return not asks_for_errors and config.internal_errors != "raise"

    def raise_if_asked(self, error: Exception, doing: str) -> None:
        """Raise a mistake of ours again, unless the user's own code is to run: as GraphBreakError where the caller falls back."""
        if not self.hides_faults:
            try:
                raise error
            finally:
                del error
        if self.options.falls_back:
            raise GraphBreakError(text_of_fault(error, f"{doing} {self.code.co_qualname}")) from None

    def whole(self) -> Callable[..., Any]:
        """The user's function from its beginning to its end, called as a segment is."""
        names = [parameter_name(n, k) for k, n in enumerate(self.parameters.names)]
        source = f"def call({', '.join(names)}):\n    return None, {self.call_of_user(names)}\n"
        call = self.execute(source, "call")
        return natively(call, None, None, self.program.location(self.facts.start))

    # --- capture

    def capture(self, point: Point, state: tuple[Any, ...]) -> Variant:
        """Compile a variant of `point` for the values in `state`."""
        began = time.perf_counter()
        require_hashable(self, point, state)
        if point.place is None:
            begin(self.options.backend)
        if (native := loop_variants.before_graphs(self, point, state)) is not None:
            return native
        decisions = Decisions(stops=dict(self.stops))
        for _ in range(ATTEMPT_LIMIT):
            builder = Builder(is_bitwise=self.accuracy == "bitwise")
            capture = Capture(builder, decisions, point.seen, point.fixed, self.options.dynamic, self.object_of)
            capture.place, capture.may_break = point.place, not self.options.fullgraph
            capture.is_asked, capture.arms, capture.static = self.is_asked, self.arms, static_sources(self, point)
            capture.namespace, capture.arguments = self.namespace, dict(zip(point.parameters, state))
            capture.is_native, capture.may_ask_levels = partial(loop_variants.is_over_elements, self), not point.asks_levels
            capture.calls_itself = not point.is_start and any(p.asks_levels for p in self.points.values() if p.is_start)
            capture.came_after = self.breaks[-1] if self.breaks and not point.is_start else None
            frame = beginning.frame_at(self, capture, point, state)
            try:
                outcome = frame.run()
                if (native := loop_variants.native_function(self, point, state, frame, outcome, decisions)) is not None:
                    return native
                captured = time.perf_counter()
                return graph_variants.finish(self, point, capture, frame, outcome, captured - began)
            except Restart:
                continue
            except BegunIterator as begun:
                reason = "an iterator goes on after the graph ends"
                decisions.stops[begun.index] = Break(reason, "", self.program.location(begun.index))
            except LookedAt as looked:
                reason = "what is in a list or bytes made of array data is looked at"
                decisions.native_calls[looked.index] = Break(reason, "", self.program.location(looked.index))
            finally:
                capture.forget()
        raise AssertionError(f"capture of {self.code.co_qualname} found no end: {decisions}")

    @property
    def are_native_asked(self) -> bool:
        """Does the user want native programs?"""
        return config.native_loops and has_loops(self.options.backend) and not self.options.fullgraph

    @property
    def accuracy(self) -> str:
        return self.options.accuracy or config.accuracy

    def may_be_native(self, index: int, values: Iterable[Any]) -> bool:
        """Is the instruction the header of a loop that may run as one native program, with values of these kinds?"""
        return index in self.facts.loop_headers and self.are_native_asked and not self.refusals.are_enough(index, values)


def drop_sources(filenames: list[str]) -> None:
    for filename in filenames:
        linecache.cache.pop(filename, None)
    filenames.clear()
