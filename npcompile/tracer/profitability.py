"""Does it pay? Whether a function runs compiled or as it is, measured for each kind of arguments.

The first calls of a kind go one way and the other in turn, and their times are compared: each call is run once, so nothing is
done twice. Where plain Python is quicker the function steps aside: its entry gets the user's own code, with a count of calls
after which one is timed again. Where the types of arguments tell the way, that code also asks for them. The verdict falls within
the first calls and stays, so that answers whose last bits depend on it do not go back and forth; calls that take much longer
than those before (their arguments may have grown) are measured anew.
"""

from __future__ import annotations

import math
import resource
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from resource import getrusage
from time import perf_counter
from types import CodeType
from typing import Any, Protocol

import numpy as np

from npcompile.backends.background import blocking
from npcompile.logs import hint
from npcompile.tensor_core.events import COUNTS
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.tensor import Tensor
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.bytecode.tracebacks import uncounted
from npcompile.tracer.control_calls import calls_loops
from npcompile.tracer.entry import Current, overheads
from npcompile.tracer.parts import FEW, Parts, kind_of, parts_of, shares
from npcompile.tracer.restarts import Break
from npcompile.tracer.stopwatch import Stopwatch, aborts, compiling_seconds
from npcompile.tracer.variant import Options, Variant

COMPILED, PLAIN = "compiled", "as it is"
MANY = 8  # calls each way after which most verdicts fall; after FEW a clear one, after MOST_CALLS any
MOST_CALLS = 3 * MANY
BETTER = 0.95  # of the plain time: a larger share may be noise, and the user's own code costs nothing to enter
SURELY_BETTER = 0.85  # the same after MANY calls: what is not sure yet costs little either way
CLEAR = 1.4  # times as long: a smaller difference may be noise
SLICE = 2e-3  # seconds of work: the system gives the processor to others for about as long, and to longer calls always
GROWN = 4.0  # times as long as before: the arguments are others
SURE = 0.05  # seconds of a whole graph: its arrays are so large that NumPy's temporaries may not fit into memory
PER_NATIVE = 300.0  # seconds that Python may take for one of a compiled loop
MOST_TO_ASK = 0.02  # seconds that a plain call may take to find out, or half of what compiling took
PATIENCE = MOST_CALLS  # disturbed calls in a row after which one counts as others do
FORGOTTEN = 32  # calls of other kinds after which one that is open is not waited for
MOST_KINDS = 32  # of arguments that are measured, or that programs are made for up to the limit; others run compiled
HOT = 0.05  # seconds of calls, about as many as capturing a function and measuring it take
SHARE, LIKELY = 0.5, 0.2  # of the seconds of a package's functions, for compiling it; seconds that a first capture may take
IN_VAIN = 4  # captures that found nothing to compile, after which the seconds that a function is called for are to double
LOOKED_AT, SHORT = 400, 1e-3  # calls, and seconds of one: looking at more of them takes longer than code that is not looked at
BETWEEN = 0.05  # seconds of calls between those that are timed again
FEWEST, MOST = 16, 1 << 16  # the same as a number of calls
WORTH_A_HINT = 1e-3  # seconds of a call

# Estimates, for what is decided before there is a call to time: within one long call, and while a function is captured.
LONGEST_CODE = 150_000  # bytes, 4,000 statements or more: to compile it takes about ten seconds
UNASKED = 8  # times as much is such code of a package's function: only to read it takes longer than its calls, mostly
FIRST_SPAN, GROWTH = 64, 8  # calls after which capture is tried again where it found nothing; times as many for the next
LOOKED_AT_HOPS = 64  # hops from Point to Point, in one call or several, before a loop is looked at
HOP = 2.0  # microseconds from Point to Point
ARRAY, NUMBER = 0.5, 0.08  # that NumPy and Python take to do one thing to a small array, and to numbers
ITERATION = 0.2  # that Python takes for an iteration of a loop inside, at least
SMALL = 512  # elements of an array: as little work for NumPy as none
UNROLL_LIMIT = 16  # iterations of one loop captured in one graph; longer loops run one iteration a graph
ELEMENTWISE_LIMIT = 64  # the same of loops of a few elementwise operations, which become one kernel
MOST_UNROLLED = 300  # nodes of all iterations of such a loop
MOST_IN_NEST = 128  # elementwise operations of loops in loops, in all passes
LONG_VECTOR = 1 << 14  # elements, of arrays that whole statements in loops are about
LARGE_MATRIX = 64  # rows and columns


def pays(work: float, hops: int) -> bool:
    """Is what Python and NumPy would take for the graphs of an iteration, in microseconds, as long as entering them takes?"""
    return work >= HOP * hops


def may_make_more(limit: int, computing: int, others: int) -> bool:
    """May a Point have another program, for values of new kinds? It has `computing` ones, and others that compute nothing."""
    return others <= limit and computing < MOST_KINDS * limit


def is_too_long(code: CodeType, is_asked: bool = True) -> bool:
    """Would it take longer to compile than it is likely to give back? Sooner where nobody asks for this function by its name."""
    return len(code.co_code) * (1 if is_asked else UNASKED) > LONGEST_CODE


def is_for_one_graph(nodes: int, iterations: int) -> bool:
    """May a graph have all iterations of a loop that each make so many nodes?"""
    return nodes * iterations <= MOST_UNROLLED


def is_nest_for_one_graph(operations: int, passes: int) -> bool:
    """May a graph have all passes through a loop inside of others, each of so many operations?"""
    return operations * passes <= MOST_IN_NEST


def is_better_compiled(loops_inside: int, subscripts: Collection[bool], has_form: bool) -> bool:
    """Is a loop of a few iterations better compiled than captured in a graph, which had a node for each element?

    `subscripts`: of each, whether it is of a single element. `has_form`: has a compiled loop all that it does?
    """
    return loops_inside > 0 and len(subscripts) > 0 and all(subscripts) and has_form


class Looping(Protocol):
    """What is asked of a function that may be compiled by its loops: those over other things than lists, and what is in them."""

    @property
    def has_loops(self) -> bool: ...
    @property
    def has_arrays(self) -> bool: ...  # statements about whole ones
    @property
    def has_products(self) -> bool: ...  # of matrices


def why_better_as_graph(looping: Looping, arguments: Iterable[Any]) -> str:
    """Why graphs, whose loops over elements are fused and whose products are BLAS's, take less time. Empty where they do not."""
    shapes = [x.shape for x in arguments if isinstance(x, np.ndarray) and x.ndim]
    if not looping.has_loops:
        return "loops over lists alone, which graphs unroll"
    if looping.has_arrays and any(min(shape) > LONG_VECTOR for shape in shapes):
        return "statements about long arrays"
    if looping.has_products and any(len(shape) > 1 and min(shape) > LARGE_MATRIX for shape in shapes):
        return "products of large matrices"
    return ""


def is_for_device(is_parallel: bool, there: float, here: float) -> bool:
    """Is a loop, whose arrays are on a device, quicker there than on the host with copies? The times are estimates."""
    return is_parallel and there <= here


@dataclass(slots=True)
class Times:
    """The calls with one kind of arguments, in seconds."""

    compiled: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    calls: int = 0  # that were measured
    last: int = 0  # the latest call of its kind, counted among those of all kinds
    was_plain: bool = False  # did the latest call run as it is, and does not count? It is not made again at once
    may_ask: bool = False  # is a plain call short enough to find out?
    parts: Parts | None = None  # of the function, while these are compared
    knows_parts: bool = False
    verdict: str | None = None
    why: str = ""

    def judge(self) -> None:
        """Find the verdict, if the times tell it. Of a function that calls itself each way may have met shorter calls."""
        number = min(len(self.compiled), len(self.plain))
        if number < FEW or not self.knows_parts:
            return
        found = shares(self.compiled, self.plain)
        is_clear = max(found) <= 1 / CLEAR or min(found) >= CLEAR
        is_close = SURELY_BETTER <= max(found) < BETTER and number < MOST_CALLS
        if is_clear or number >= MANY and not is_close:
            self.verdict = COMPILED if max(found) < BETTER else PLAIN
            self.why = f"compiled {in_words(min(self.compiled))}, as it is {in_words(min(self.plain))}"


class Budget:
    """The seconds that may be spent on compiling what nobody has asked for by name: a share of those that it takes as it is.

    Calls within calls are not counted again. A function of a package may run as long as the program does: what it has taken
    so far counts.
    """

    def __init__(self) -> None:
        self.spent = self.taken = 0.0
        self.began: float | None = None  # the outermost of the calls that are being counted, later by what was compiled within

    def spend(self, seconds: float) -> None:
        self.spent += seconds
        if self.began is not None:
            self.began += seconds

    def allows(self) -> bool:
        running = 0.0 if self.began is None else perf_counter() - self.began
        return self.spent + LIKELY <= SHARE * (self.taken + running)


BUDGET = Budget()


class Disturbances:
    """How often something was compiled, or a call measured, in this process: a call during which that happened tells little."""

    number = 0


class Usage:
    """What has happened to this thread so far, for a call that begins now."""

    def __init__(self) -> None:
        self.number = Disturbances.number
        self.used = None if OF_THREAD is None else getrusage(OF_THREAD)

    def is_disturbed(self) -> bool:
        """Was something compiled since, or a call measured?"""
        return Disturbances.number != self.number

    def is_interrupted(self) -> bool:
        """Did other programs get the processor in a short call?"""
        if self.used is None:
            return False
        now, before = getrusage(OF_THREAD), self.used  # type: ignore[arg-type]
        seconds = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
        return now.ru_nivcsw != before.ru_nivcsw and seconds < SLICE


OF_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)  # Linux alone has it


class Left(Protocol):
    """What is asked of a Point: from where its program runs as it is, if it does, and what was compiled for it."""

    left: Callable[..., Any] | None
    variants: list[Variant]

    @property
    def location(self) -> Location: ...


class Tried(Protocol):
    """What is asked of the CompiledFunction that is tried, whose class is above."""

    options: Options
    parameters: Parameters
    lock: threading.RLock
    current: Current
    breaks: list[Break]
    code: CodeType

    @property
    def points(self) -> Mapping[Any, Left]: ...
    @property
    def is_current(self) -> bool: ...
    @property
    def is_compiling(self) -> bool: ...
    @property
    def plain(self) -> Callable[..., Any]: ...
    @property
    def dispatch(self) -> Callable[..., Any]: ...


@dataclass(slots=True, eq=False)
class Trial:
    """What an entry enters while it is open, or differs by kind, whether its function runs compiled."""

    function: Tried = field(repr=False)
    kinds: dict[Any, Times] = field(default_factory=dict)
    is_running: bool = False  # is a call being timed? Those that it makes of the same function are part of it
    is_aside: bool = False  # has the function stepped aside, but for a call that is timed again?
    is_due: bool = False  # is what the entry enters to be chosen again? Something was compiled, or enough calls were made
    is_cold: bool = True  # does it run as it is so far, whatever the arguments?
    patience: int = PATIENCE  # calls in a row that may be disturbed
    interruptions: int = 0  # calls that did not count since the latest verdict, as other programs got the processor
    longer: int = 0  # calls in a row that took much longer than before
    between: int = FEWEST  # calls from one that is timed again to the next
    calls: int = 0  # that came here
    waited: float = 0.0  # seconds of calls that ran as they are before something is compiled
    captures: int = 0  # that found nothing to compile
    lost: float = 0.0  # their seconds
    skipped: int = 0  # calls of those that nobody looks at, until the next
    is_told: bool = False  # has the user been told that nothing was gained?

    @uncounted
    def __call__(self, *state: Any) -> Any:
        if self.is_cold and self.has_to_wait:
            return self.wait(self.function.plain, state)
        self.is_cold = False
        kind = kind_of(state)
        times = self.kinds.get(kind)
        if times is None:
            if len(self.kinds) >= MOST_KINDS:
                return self.function.dispatch(*state)
            times = self.kinds[kind] = Times()
            if any(isinstance(v, Tensor) or hasattr(type(v), "__cuda_array_interface__") for v in state):
                times.verdict, times.why = COMPILED, "Tensors and arrays on a device"
        self.calls = times.last = self.calls + 1
        if self.is_running:
            return (self.function.plain if times.verdict is PLAIN else self.function.dispatch)(*state)
        if times.verdict is None and self.has_to_wait:
            self.is_cold = not any(each.verdict is COMPILED for each in self.kinds.values())
            return self.wait(self.function.plain, state)
        if times.verdict is None:
            return self.measure(times, state)
        if self.is_due:  # no call is timed again while others are open, which may be within it
            self.settle()
        elif self.is_aside and times.verdict is PLAIN:
            return self.look_again(kind, times, state)
        return (self.function.plain if times.verdict is PLAIN else self.function.dispatch)(*state)

    @uncounted
    def timed(self, run: Callable[..., Any], state: tuple[Any, ...]) -> tuple[Any, float]:
        """The result of a call, and its seconds; infinite where it was disturbed, unless that never ends."""
        self.is_running, usage = True, Usage()
        began = perf_counter()
        try:
            result = run(*state)
            took = perf_counter() - began
        finally:
            self.is_running = False
        is_interrupted = usage.is_interrupted() and self.interruptions < PATIENCE
        self.interruptions += is_interrupted
        is_disturbed = is_interrupted or usage.is_disturbed()
        self.patience = self.patience - 1 if is_disturbed else PATIENCE
        return result, math.inf if is_disturbed and self.patience >= 0 else took

    @property
    def around_plain(self) -> float:
        """Seconds that `CompiledFunction.plain` adds to the user's function."""
        return 0.0 if self.function.parameters.are_positional else overheads()[1]

    @property
    def has_to_wait(self) -> bool:
        """Is nothing compiled now? Compilers are at work, or it may take longer than it is worth so far."""
        function = self.function
        if function.is_compiling or not function.options.when_hot:
            return function.is_compiling
        return blocking() is not None or not self.may_spend

    @property
    def needed(self) -> float:
        """Seconds of calls after which something is compiled."""
        return HOT + self.lost / SHARE * 2.0 ** min(self.captures // IN_VAIN, 30)

    @property
    def may_spend(self) -> bool:
        return self.waited >= self.needed and BUDGET.allows()

    def lose(self, seconds: float) -> None:
        """A capture found nothing to compile."""
        self.captures += 1
        self.lost += seconds

    @uncounted
    def wait(self, run: Callable[..., Any], state: tuple[Any, ...]) -> Any:
        """A call, or the rest of one, as it is, whose seconds count."""
        if self.is_running:
            return run(*state)
        is_outermost, spent, began = BUDGET.began is None, BUDGET.spent, perf_counter()
        self.is_running = True
        if is_outermost:
            BUDGET.began = began
        try:
            return run(*state)
        finally:
            took = max(perf_counter() - began - (BUDGET.spent - spent), 1e-9)
            self.is_running = False
            self.calls += 1
            seconds = took * (1 + self.skipped)
            self.waited += seconds
            if is_outermost:
                BUDGET.began = None
                BUDGET.taken += seconds
            self.skip(took)

    def skip(self, took: float) -> None:
        """Step aside for some calls where nothing is compiled yet and looking at all would take long."""
        self.skipped = 0
        if self.is_cold and took < SHORT and self.calls >= LOOKED_AT and self.function.is_current:
            left = self.needed - self.waited if self.function.options.when_hot else 0.0
            skipped = min(calls_between(took), int(left / took)) if left > 0 else calls_between(took)
            if skipped and self.function.current.step_aside(self.function, skipped):
                self.skipped = skipped

    @uncounted
    def measure(self, times: Times, state: tuple[Any, ...]) -> Any:
        """A call one way or the other. The first two, which something may be compiled in, are compiled."""
        function, times.calls = self.function, times.calls + 1
        if times.parts is not None:
            result, took = self.compare_parts(times, times.parts, state)
        elif times.may_ask and not times.was_plain and len(times.plain) < len(times.compiled):
            result, took = self.timed(function.plain, state)
            times.was_plain = took == math.inf
            times.plain += [max(took - self.around_plain, 1e-9)] * (took < math.inf)
        elif times.calls == 1 or times.may_ask:
            times.was_plain = False
            result, took = self.timed(function.dispatch, state)
            times.compiled += [took + overheads()[0]] * (took < math.inf and times.may_ask)
        else:
            with Stopwatch(function) as watch:
                result, took = self.timed(function.dispatch, state)
            if took < math.inf and watch.is_alone:
                is_sure = calls_in_python(function) or took > SURE and not function.breaks
                most = max(MOST_TO_ASK, compiling_seconds(function) / 2, took)
                times.may_ask = not is_sure and PER_NATIVE * watch.seconds < most
                times.compiled.append(took + overheads()[0])
                if not times.may_ask:
                    times.verdict, times.why = COMPILED, f"{in_words(took)}, of which loops {in_words(watch.seconds)}"
        Disturbances.number += 1  # to the calls that this one is part of
        if not times.knows_parts and times.parts is None and min(len(times.compiled), len(times.plain)) >= FEW:
            times.parts = parts_of(function)
            times.knows_parts = times.parts is None
        if times.verdict is None:
            times.judge()
        if times.verdict is not None:
            self.settle()
        return result

    @uncounted
    def compare_parts(self, times: Times, parts: Parts, state: tuple[Any, ...]) -> tuple[Any, float]:
        """A call from Point to Point, and its seconds. After some of them, Points that do not pay are left to Python."""
        with parts.next() as stretches:
            result, took = self.timed(self.function.dispatch, state)
        if took < math.inf:
            parts.keep(stretches)
        if parts.is_enough:
            times.parts, times.knows_parts = None, True
            with self.function.lock:
                if parts.settle():  # what is called may be quicker now, too
                    times.compiled.clear()
                    times.plain.clear()
        return result, took

    def settle(self) -> None:
        """Where all kinds of arguments go one way the entry goes it without asking, where types tell the way it asks these."""
        function = self.function
        used = {kind: times for kind, times in self.kinds.items() if times.verdict or self.calls - times.last < FORGOTTEN}
        self.is_due = any(times.verdict is None for times in used.values())
        plain, compiled = ({kind[0]: None for kind, each in used.items() if each.verdict is v} for v in (PLAIN, COMPILED))
        if self.is_due or not function.is_current or plain.keys() & compiled or (compiled and not function.current.asks_types):
            return
        calls = calls_between(min(min(times.plain or times.compiled, default=BETWEEN) for times in used.values()))
        with function.lock:
            self.is_aside, self.longer, self.interruptions = not compiled, 0, 0
            if not compiled:
                self.between = calls
                COUNTS["steps_aside"] += function.current.step_aside(function, calls)
            else:
                function.current.lead_to(function, function.dispatch)
                if plain or function.breaks:  # else a small array costs what is around one graph at most
                    COUNTS["steps_aside"] += function.current.step_aside(function, calls, (*plain,))
        if not compiled:
            self.tell(max(min(times.plain, default=0.0) for times in used.values()))

    def tell(self, seconds: float) -> None:
        """Say once that nothing was gained, where, and what may be done. Short calls are not worth anybody's time."""
        function = self.function
        if self.is_told or seconds < WORTH_A_HINT or function.options.when_hot:
            return
        self.is_told = True
        where = Location(function.code.co_filename, function.code.co_firstlineno)
        why = str(function.breaks[0]) if function.breaks else "NumPy's own functions take the time, or each call does little"
        hint(f"{function.code.co_qualname} ({where}) was no faster compiled, and runs as plain Python now: {why}")

    @uncounted
    def look_again(self, kind: Any, times: Times, state: tuple[Any, ...]) -> Any:
        """A call of a function that has stepped aside, timed as those were that the verdict is from."""
        result, took = self.timed(self.function.plain, state)
        if took < math.inf:
            self.longer = self.longer + 1 if took - self.around_plain > GROWN * min(times.plain) else 0
        if self.longer == FEW:
            self.is_aside, self.kinds[kind] = False, Times()
        elif not self.longer or took == math.inf:
            with self.function.lock:
                self.function.current.step_aside(self.function, self.between)
        return result

    def __str__(self) -> str:
        told = [f"{times.verdict or 'open'} ({times.why or f'{times.calls} calls'})" for times in self.kinds.values()]
        places = [str(point.location) for point in [*self.function.points.values()] if point.left is not None]
        told += [f"as it is from {place}" for place in places]
        return "; ".join(dict.fromkeys(told)) or "not called"


def calls_between(seconds: float) -> int:
    """How many calls are not looked at, if each takes so long."""
    return min(max(int(BETWEEN / max(seconds, 1e-9)), FEWEST), MOST)


def in_words(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def calls_in_python(function: Any) -> bool:
    """Is it a program of npc.fori_loop and its like, which call functions in Python where there is none?"""
    return aborts(function) and calls_loops(function.python)
