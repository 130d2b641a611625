"""Where execution may enter compiled code: Points, the variants compiled for them, and the trampoline between them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from npcompile.backends.array_guards import LIKENESS, kind_of
from npcompile.backends.background import NotYet, blocking, going_on
from npcompile.backends.entering import FastPaths
from npcompile.backends.errors import WrongSetting
from npcompile.backends.registry import NoDevice
from npcompile.settings import config
from npcompile.switch import is_plain_now, may_compile
from npcompile.tensor_core.events import COUNTS, WATCHERS, moment, stretch
from npcompile.tensor_core.garbage import without_collections
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.guards import HasKey
from npcompile.tensor_core.source import GLOBALS, Source
from npcompile.tensor_core.user_warnings import warn_once, warnings_held
from npcompile.tracer.assumptions import Seen
from npcompile.tracer.bytecode.layout import Layout
from npcompile.tracer.bytecode.tracebacks import is_raised_in, uncounted
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.conditions import UNLESS_IT_HOLDS
from npcompile.tracer.fast_paths import first_paths
from npcompile.tracer.faults import OF_DATA, is_fault, warn_of_fault
from npcompile.tracer.first_calls import is_first_of_kind
from npcompile.tracer.host_fallback import Place
from npcompile.tracer.left_to_python import LeftToPython, leave
from npcompile.tracer.misfits import is_misfit
from npcompile.tracer.parts import where_it_pays
from npcompile.tracer.plain_loops import NEVER, PlainLoop, rest_of_loop
from npcompile.tracer.profitability import BUDGET, LOOKED_AT_HOPS, Disturbances
from npcompile.tracer.recompiles import changed, count_capture, has_room, may_fit, warn_of_limit
from npcompile.tracer.restarts import BranchKey, Break
from npcompile.tracer.variant import GraphBreakError, Variant
from npcompile.tracer.variant_source import parameter_name
from npcompile.tracer.wrapping import ARRAY_FLAGS, MixedDevices

FEW_VARIANTS, FEW_WITHOUT_C = 8, 32  # those that are all tried in order, without asking the kind of a call first
MOST_BY_KIND = 512  # dispatches for kinds of calls
MOST_SIGNALS = 3  # calls in which NumPy runs again for errors of which some are ignored


@dataclass(slots=True, eq=False)
class Point:
    """An instruction at which compiled code may be entered, and the dispatch between its variants."""

    function: Compiled[Point]
    number: int
    layout: Layout
    place: Place | None = None  # the device that its programs run on; None: that of the arrays they meet
    variants: list[Variant] = field(default_factory=list)
    seen: Seen = field(default_factory=dict)
    fixed: dict[Source, frozenset[int]] = field(default_factory=dict)  # source of an integer -> the values it was fixed at
    enter: Callable[..., Any] = None  # type: ignore[assignment]
    rest: Callable[..., Any] | None = None  # what `native` runs
    by_kind: dict[Any, Callable[..., Any]] = field(default_factory=dict)  # kind of a call -> the dispatch for it
    generation: int = 0
    asks_levels: bool = False  # is a program only for sizes of which a function calls itself often?
    is_native: bool = False
    captured: Callable[[tuple[Any, ...]], Variant] | None = None  # what waited for a compiler: makes the variant after
    dropped: int = 0  # variants that were for what is gone
    misfits: int = 0  # those in a row that did not fit what they were made for
    idle: LeftToPython = field(default_factory=LeftToPython)  # for what nothing was worth compiling
    entered: int = 0  # how often a native program has left for Python
    iterations: int = 0  # that it has done before
    signals: int = 0  # calls in which NumPy ran for errors that may have been ignored ones
    patience: int = LOOKED_AT_HOPS  # hops of a call before the loop around it is looked at; see `plain_loops`
    plain: PlainLoop | None = None  # the loop around it that may run as it is
    beyond: Callable[..., Any] | None = None  # what runs it, from here to its end
    pays: dict[Any, bool] = field(default_factory=dict)  # kind of values -> does what is compiled pay? See `parts`
    left: Callable[..., Any] | None = None  # what runs where it does not
    fast_paths: FastPaths | None = None  # around `enter`, for the first variants
    source: str = ""
    _parameters: list[str] | None = None
    native_name: str = field(init=False)  # of the methods, in generated programs
    miss_name: str = field(init=False)

    def __post_init__(self) -> None:
        number = next(self.function.numbers)
        self.native_name, self.miss_name = f"native_{number}", f"miss_{number}"

    @property
    def is_start(self) -> bool:
        return self.number == 0

    @property
    def parameters(self) -> list[str]:
        if self._parameters is None:
            self._parameters = self.parameters_of_state()
        return self._parameters

    def parameters_of_state(self) -> list[str]:
        if self.is_start:
            return self.local_parameters
        stack = [f"stack_{k}" for k in range(self.layout.depth) if k not in self.layout.null_slots]
        cells = ["cells"] if self.function.has_cells else []
        kept = ["kept"] if self.layout.kept_names else []
        return [*cells, *stack, *self.local_parameters, *kept]

    @property
    def local_parameters(self) -> list[str]:
        """Names of the generated program for the locals that may be read; at the start they are what the user calls them."""
        if self.is_start and not self.function.has_our_names:
            return list(self.layout.local_names)
        slots = {name: k for k, name in enumerate(self.function.code.co_varnames)}
        return [parameter_name(n, slots.get(n, 0)) for n in self.layout.local_names]

    @property
    def users_names(self) -> dict[str, str]:
        """What the user calls its parameters."""
        stack = {f"stack_{k}": f"stack[{k}]" for k in range(self.layout.depth)}
        return stack | dict(zip(self.local_parameters, self.layout.local_names))

    # --- dispatch

    @uncounted
    def render(self) -> None:
        """Generate the dispatch between the variants, and make it what callers enter."""
        self.by_kind.clear()
        self.render_entered()

    @uncounted
    def render_entered(self) -> None:
        """The same, where the dispatches for other kinds than that of the present call stay."""
        self.source = self.dispatch_of(self.variants)
        text = self.dispatch_by_kind() if self.are_many else self.source
        self.enter = self.function.execute(text, f"point_{self.number}")
        paths = [] if self.are_many else first_paths(self.parameters, self.function.namespace, self.variants)
        self.fast_paths = FastPaths(self.enter, paths) if paths else None
        if self.left is not None:
            self.enter = where_it_pays(self.enter, self.left, self.pays)
        self.show()

    def apart(self, others: frozenset[int]) -> Callable[..., Any] | None:
        """The user's own code from here to the next Point at one of these instructions; None where parts need our cells."""
        if self.is_start and self.function.has_cells:
            return None
        inside = frozenset(range(len(self.function.program.instructions))) - others
        run = self.function.segment(self.layout, None, inside=inside)
        return driving(run) if self.is_start else run

    def leave_what_does_not_pay(self, others: frozenset[int]) -> None:
        """Run the user's own code for kinds of values for which that is quicker, up to the next Point of `others`."""
        self.left = None if all(self.pays.values()) else self.apart(others)
        self.render_entered()

    def run_compiled(self) -> None:
        """Run what is compiled for all values, whether it pays or not."""
        if self.left is not None:
            self.left = None
            self.render_entered()
        self.pays.clear()

    @property
    def are_many(self) -> bool:
        return len(self.variants) > (FEW_WITHOUT_C if LIKENESS.kind_of is None else FEW_VARIANTS)

    def dispatch_by_kind(self) -> str:
        """Text that asks the kind of a call, and enters the dispatch between the variants that may fit it."""
        n, state = self.number, ", ".join(self.parameters)
        self.function.namespace |= {f"by_kind_{n}": self.by_kind.get, f"of_kind_{n}": self.of_kind}
        ask = self.function.name_constant(LIKENESS.kind_of or kind_of)
        lines = [
            f"def point_{n}({state}):",
            f"    found = by_kind_{n}({ask}({', '.join([str(ARRAY_FLAGS), *self.parameters])}))",
            "    if found is None:",
            f"        found = of_kind_{n}({state})",
            f"    return found({state})",
        ]
        return "\n".join(lines) + "\n"

    def of_kind(self, *state: Any) -> Callable[..., Any]:
        """The dispatch for calls of the kind of this one, made when the first comes."""
        function = self.function
        with function.lock:
            text = self.dispatch_of(self.that_may_fit(dict(zip(self.parameters, state))))
            made = function.execute(text, f"point_{self.number} for kind {len(self.by_kind)}")
            if len(self.by_kind) >= MOST_BY_KIND:
                self.by_kind.clear()
            self.by_kind[self.kind(state)] = made
        return made

    def that_may_fit(self, values: dict[str, Any]) -> list[Variant]:
        """The variants that may fit arguments of the kinds of these."""
        scope = self.function.namespace | values
        try:
            return [v for v in self.variants if may_fit(v.guards, scope, values)]
        except Exception as error:
            if not self.function.hides_faults or not is_fault(error):
                raise
            warn_of_fault(error, f"choosing a program of {self.function.code.co_qualname}", "The call tries all of them.")
            return self.variants

    def kind(self, state: tuple[Any, ...]) -> Any:
        return (LIKENESS.kind_of or kind_of)(ARRAY_FLAGS, *state)

    def dispatch_of(self, variants: Sequence[Variant]) -> str:
        """Text that tries these variants in order."""
        function = self.function
        lines = [f"def point_{self.number}({', '.join(self.parameters)}):"]
        uncompiled = ("if is_deep():", f"    return {function.call_of_user(self.parameters)}") if self.is_start else ()
        for k, variant in enumerate(variants):
            lines.append(f"    # variant {k}")
            condition = "\n            and ".join(map(str, variant.conditions)) or "True"
            lines += ["    try:", f"        holds = ({condition})"]
            lines += [*(f"    {line}" for line in UNLESS_IT_HOLDS), "    if holds:"]
            lines += [f"        {line}" for line in (*(uncompiled if variant.reason else ()), *variant.body)]
        function.namespace |= {self.native_name: self.native, self.miss_name: self.miss}
        miss = self.native_name if self.is_native else self.miss_name
        generation = "" if self.is_native else f"{self.generation}, "
        if self.idle.run is not None and not self.is_native:
            lines += [f"    {line}" for line in self.leaving()]
            miss, generation = f"again_{self.number}", ""
        lines += [f"    {line}" for line in uncompiled]
        lines.append(f"    return {miss}({generation}{', '.join(self.parameters)})")
        return "\n".join(lines) + "\n"

    def show(self) -> None:
        """Let callers enter the dispatch."""
        if self.is_start:
            self.function.current.be(self.function, self.function)

    def leaving(self) -> list[str]:
        """Statements that run the user's code as it is, for values of types that were met before."""
        n, idle = self.number, self.idle
        self.function.namespace |= {f"types_{n}": idle.types, f"calls_{n}": idle.calls, f"again_{n}": self.again}
        run = f"{self.function.name_constant(idle.run, 'run_')}({', '.join(self.parameters)})"
        if self.is_start:
            run = self.function.call_of_user(self.parameters) if idle.is_whole else f"drive({run})"
        types = "".join(f"type({name}), " for name in self.parameters)
        return [f"if ({types}) in types_{n} and not next(calls_{n}, 1):", f"    return {run}"]

    @uncounted
    def again(self, *state: Any) -> Any:
        """The same for all others: capture is tried where it may find something to compile."""
        idle, function = self.idle, self.function
        if self.is_start and not function.is_current:  # renewed since the call
            return function.current.compiled.dispatch(*state)
        if not self.is_native and may_compile() and idle.is_to_be_tried(state):
            with warnings_held(), function.lock:
                if idle is self.idle and not self.is_native:
                    self.add_variant(state)
            return self.enter(*state)
        run, is_whole = idle.run, idle.is_whole  # a call within this one may leave it otherwise
        assert run is not None
        hop = run(*state)
        return drive(hop) if self.is_start and not is_whole else hop

    @uncounted
    def miss(self, generation: int, *state: Any) -> Any:
        """No variant fits: compile one, or another thread just has."""
        function = self.function
        if self.is_start and not function.is_current:  # renewed since the call
            return function.current.compiled.dispatch(*state)
        if not may_compile() or is_first_of_kind(self, state):
            return self.refuse(state)
        if self.is_to_wait():
            Disturbances.number += 1
            return function.trial.wait(self.native, state)
        with warnings_held(), function.lock:
            if self.generation == generation:
                self.add_variant(state)
            else:
                self.by_kind.pop(self.kind(state), None)  # made before another kind's variant, which may fit this one
        return self.enter(*state)

    def refuse(self, state: tuple[Any, ...]) -> Any:
        """Run a call as it is for which nothing may be compiled, or raise what `set_stance` asks for."""
        if config.stance == "fail_on_recompile":
            what = "; ".join(changed(self, state)) or "nothing, it is not compiled yet"
            raise RuntimeError(
                f"{self.function.code.co_qualname} is to be compiled at {self.location}, which the stance "
                f'"fail_on_recompile" forbids. What changed: {what}.'
            )
        return self.native(*state)

    def is_to_wait(self) -> bool:
        """Does the call run uncompiled because a unit is not ready, or enough time has gone into compiling?"""
        function = self.function
        if function.is_compiling:
            return not function.options.fullgraph
        if function.goes_on and blocking() is not None:
            return True
        return not function.is_asked and not function.trial.may_spend

    def add_variant(self, state: tuple[Any, ...]) -> None:
        Disturbances.number += 1
        before, began, self.function.compiling = [*self.variants], time.perf_counter(), None
        try:
            captured = self.captured or has_room(self, state) and partial(self.function.capture, self)
            if captured:  # for other values, it may be: its guards tell
                count_capture(self, state)
                with stretch("capture", self.function.code.co_qualname, self.location, self.function.code):
                    with going_on(self.function.goes_on), without_collections():
                        made = captured(state)
                    if self.captured is not None or not is_misfit(self, made, state):
                        self.add(made, state)
                        moment("program", subject=(self, made))
                self.captured = None
            else:
                self.is_native = True
                warn_of_limit(self, state)
            self.generation += 1
            if self.is_native or not {*map(id, before)} <= {*map(id, self.variants)}:
                self.by_kind.clear()
            self.by_kind.pop(self.kind(state), None)
            self.render_entered()
        except NotYet as waiting:
            self.function.compiling = waiting.job
            self.captured = waiting.goes_on or self.captured
        except (GraphBreakError, MixedDevices, WrongSetting, MemoryError):
            raise
        except NoDevice as missing:
            if self.function.options.fullgraph:
                raise
            self.is_native = True
            self.generation += 1
            self.render()
            warn_once(f"Functions compiled for a CUDA device run uncompiled: {missing}.")
        except Exception as error:  # noqa: BLE001  (raised again where it is asked for)
            self.function.raise_if_asked(error, "capturing")
            self.give_up(error, before)
        finally:
            seconds = time.perf_counter() - began
            COUNTS["capture_seconds"] += seconds
            if self.function.options.when_hot:
                known = {*map(id, before)}
                BUDGET.spend(seconds)
                if not self.function.is_compiling and not any(v.computes and id(v) not in known for v in self.variants):
                    self.function.trial.lose(seconds)

    # --- faults of ours

    def give_up(self, error: Exception, variants: list[Variant], doing: str = "capturing") -> None:
        """Compile nothing more here after a mistake of ours, and keep of what is compiled these variants."""
        self.is_native, self.variants, self.captured = True, variants, None
        self.generation += 1
        try:
            self.render()
        except Exception:  # noqa: BLE001  (it may be what has failed)
            self.enter = self.native
            self.show()
        name = self.function.code.co_qualname
        warn_of_fault(error, f"{doing} {name} at {self.location}", "From there, it will run uncompiled.")

    def may_run_again(self, expected: tuple[type[Exception], ...], assumed: tuple[BranchKey, ...] = ()) -> bool:
        """Does the user's own code run after the exception that a program has raised, which has changed nothing yet?

        So it does where that is expected, as where another arm of a branch is to be taken than was `assumed`. A mistake of ours
        takes the variants with it.
        """
        error = sys.exception()
        if isinstance(error, expected):
            if assumed:
                self.take_other_arm(assumed)
            return True
        if not isinstance(error, Exception) or not is_fault(error):
            return False
        if isinstance(error, OF_DATA) and self.function.hides_faults:  # most likely NumPy's, which raises it again
            return True
        self.function.raise_if_asked(error, "running")
        with warnings_held(), self.function.lock:
            self.give_up(error, [], "running")
        return True

    def take_other_arm(self, assumed: tuple[BranchKey, ...]) -> None:
        """What a program assumes of these branches does not hold for a call. After some calls graphs end there."""
        with self.function.lock:
            if not self.function.arms.fail(assumed):
                return
            kept = [v for v in self.variants if self.function.arms.varying.isdisjoint(v.assumed)]
            if len(kept) < len(self.variants):
                self.variants = kept
                self.generation += 1
                self.render()

    def add(self, made: Variant, state: tuple[Any, ...]) -> None:
        """Variants that compute come first, those that ask nothing last. A guard that a global exists tells no programs apart."""
        COUNTS["variants"] += 1
        computing = [v for v in self.variants if v.computes]
        if made.computes:
            self.variants.insert(0, made)
            return
        self.idle.meet(state)
        is_left = self.idle.run is not None or len(self.variants) - len(computing) >= config.recompile_limit
        if is_left and leave(self.idle, self):
            self.variants = computing
            return
        asks = not all(isinstance(guard, HasKey) and guard.source == GLOBALS and guard.answer for guard in made.guards)
        self.variants.insert(len(computing) if asks else len(self.variants), made)

    @property
    def location(self) -> Location:
        return self.function.program.location(self.layout.index)

    def lines_of_exit(self, name: str) -> tuple[str, ...]:
        """Count that a native program has left for Python, after as many iterations as it tells last. `name`: of this Point.

        Nothing is called here unless somebody watches: Python would see to signals then, and what their handlers raise would
        come before what the iterations have done to attributes.
        """
        counts, watchers = (self.function.name_constant(x, "events_") for x in (COUNTS, WATCHERS))
        counted = f"{name}.entered += 1", f"{name}.iterations += found[-1]", f"{counts}['side_exits'] += 1"
        return ("where = found[0]", *counted, f"if {watchers}:", f"    {name}.tell_exit()")

    def tell_exit(self) -> None:
        moment("side exit", self.function.code.co_qualname, self.location)

    @uncounted
    def native(self, *state: Any) -> Any:
        """The user's own code from here to its next iteration or its end, uncompiled."""
        function = self.function
        if self.rest is None:
            self.rest = function.whole() if self.is_start else function.segment(self.layout, self.place, at_loops=True)
        hop = self.rest(*state)
        return hop[1] if self.is_start else hop

    @uncounted
    def signalled(self, behind: Sequence[int], *state: Any) -> Any:
        """A program of both sides of the ends of np.errstate noted an error: of which of them nobody knows, so NumPy runs.

        After some calls graphs end at these instructions.
        """
        self.signals += 1
        if self.signals == MOST_SIGNALS:
            function = self.function
            with function.lock:
                why = "floating-point errors that np.errstate ignores are noted among others"
                function.stops |= {k: Break(why, "", function.program.location(k)) for k in behind}
                self.variants.clear()
                self.generation += 1
                self.render()
        return self.native(*state)

    def rest_of_loop(self, state: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What runs the loop around it, from here to its end, where that is better left to Python."""
        try:
            return rest_of_loop(self, state)
        except Exception as error:
            if not self.function.hides_faults or not is_fault(error):
                raise
            self.patience = NEVER
            warn_of_fault(error, f"looking at the loop at {self.location}", "The loop stays compiled.")
            return None

    @property
    def is_protected(self) -> bool:
        """Is there a handler of the user's for what is raised here?"""
        return self.function.facts.protected[self.layout.index]

    @uncounted
    def throw(self, error: BaseException, *state: Any) -> Any:
        """The user's own code from here, with an exception raised here."""
        cells, rest = state[: self.function.has_cells], state[self.function.has_cells :]
        return self.function.segment(self.layout, self.place, throws=True)(*cells, error, *rest)

    def on(self, place: Place) -> Point:
        """The Point at the same instruction whose programs run on a device."""
        return self if self.place == place else self.function.point_at(self.layout.index, self.layout.null_slots, place)


@uncounted
def driving(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *state: drive(run(*state))


@uncounted
def drive(hop: tuple[Point | None, Any]) -> Any:
    """Go from Point to Point until the function returns. The Python stack stays flat."""
    point, state = hop
    del hop  # nobody but the user's code holds what it made
    function = point.function if point is not None else None
    hops = function.hops if function is not None else 0
    try:
        while point is not None:
            hops += 1
            if is_plain_now():  # since the call: what ran uncompiled may have started a debugger or profiler
                point, state = point.native(*state)
                continue
            plain = point.rest_of_loop(state) if hops > point.patience else None
            point, state = point.enter(*state) if plain is None else plain(*state)
        if function is not None:
            function.hops = min(hops, LOOKED_AT_HOPS)
            function.calls += 1
        return state
    except BaseException as error:
        if point is None or not point.is_protected or is_raised_in(point.function.code, error):
            raise
        raised = error  # an interrupt, for one, while a block of the user's was captured: its handler has not seen it
    return drive(point.throw(raised, *state))
