"""A symbolic CPython frame: runs a function's instructions on values instead of objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.guards import Guard
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.source import Source
from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.declined import why_declined
from npcompile.tracer.bytecode.decode import Handler, Instruction, Program
from npcompile.tracer.capture import Capture
from npcompile.tracer.forward import Forward
from npcompile.tracer.profitability import ELEMENTWISE_LIMIT, UNROLL_LIMIT
from npcompile.tracer.raising import Raises, set_context
from npcompile.tracer.restarts import Break, Restart
from npcompile.tracer.values import (
    NULL,
    UNASSIGNED,
    Cell,
    Constant,
    ErrorState,
    ExceptionValue,
    GradMode,
    Iterator,
    Lazy,
    Mapping,
    Method,
    Opaque,
    OutsideMapping,
    OutsideSequence,
    Sequence,
    Text,
    Truth,
    children,
)

INLINE_DEPTH = 24
CONTAINERS = (Sequence, Mapping, Method, Iterator)
USER_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)  # of the user's operands: Python raises its own
MOST_DECLINED = 16  # guards of what an instruction was given that is not captured
INSTRUCTION_LIMIT = 20_000  # of one capture; beyond it the program is cut where it stands


@dataclass(slots=True)
class Return:
    value: object


@dataclass(slots=True)
class Yielded(Return):
    """A generator gives an item. It goes on when it is asked for the next."""


@dataclass(slots=True)
class Stop:
    """The graph ends before the instruction at `index`, which runs natively."""

    index: int
    reason: Break


@dataclass(slots=True)
class Branch:
    """The next instruction depends on data: `condition` is a Truth; each arm is (index, stack)."""

    condition: Truth
    if_true: tuple[int, list[Any]]
    if_false: tuple[int, list[Any]]
    reason: Break


@dataclass(slots=True)
class Jump:
    """Go on at a Point: a loop header whose iterations are not unrolled."""

    index: int


@dataclass(slots=True)
class NextItem:
    """FOR_ITER over a real iterator, on top of the stack: done by the generated program."""

    index: int  # of the FOR_ITER
    iterator: Iterator | Opaque


class BodyDeclined(Exception):
    """The body of a loop, or the arm of a branch, cannot be captured for a node of the graph."""

    def __init__(self, decline: Decline):
        super().__init__(decline.reason)
        self.decline = decline


Outcome = Return | Stop | Branch | Jump | NextItem
Meaning = Callable[["Frame", Instruction], "int | Outcome | None"]  # None: go on with the next instruction
handler_of: Final[Forward[[str], Meaning | None]] = Forward()  # by its name in `bytecode.opcodes`


@dataclass(slots=True, eq=False)
class Frame:
    capture: Capture
    program: Program
    globals: dict[str, Any]
    globals_source: Source | None  # a name for the globals in the generated program; None: a library's, assumed constant
    locals: dict[str, Any]
    cells: dict[str, Cell] = field(default_factory=dict)
    stack: list[Any] = field(default_factory=list)
    index: int = 0
    parent: Frame | None = None
    contexts: list[tuple[int, ErrorState | GradMode]] = field(default_factory=list)  # entered `with` blocks
    visits: dict[int, int] = field(default_factory=dict)  # iterations of each loop in this capture
    before: dict[int, int] = field(default_factory=dict)  # loops unrolled beyond UNROLL_LIMIT -> nodes made before them
    passes: dict[int, int] = field(default_factory=dict)  # loops -> nodes made before they began the last time
    start: int = 0
    last_enterable: int = 0  # instruction, of those that were captured: native code can go on there
    loop_header: int | None = None  # of the loop whose body this runs once, for a node of the graph
    ends_at: int | None = None  # where the arm of a branch ends that this runs, for a node of the graph
    handled: list[ExceptionValue] = field(default_factory=list)  # of the outermost frame: what is handled, in all frames
    catches: bool = False  # does what the instruction calls handle exceptions: hasattr, getattr?
    unwound_at: int = 0  # of the outermost frame: where the latest exception that was caught was raised
    is_by_size: bool = False  # has a size that is not known decided a branch: for this call, by a guard?
    size_guards: list[Guard] = field(default_factory=list)  # what such branches assumed
    met: int = 0  # how much the capture had met before the current instruction
    calls_python: bool = True  # is what the instruction calls the user's Python, with nothing of a built-in around it?

    def __post_init__(self) -> None:
        self.capture.frames.append(self)

    def forget(self) -> None:
        """Let go of values: generators have frames among theirs, and are among those of frames."""
        for held in (self.stack, self.locals, self.cells):
            held.clear()

    # --- the stack

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        """The top value, as what it is."""
        return self.capture.realize(self.stack.pop())

    def pop_raw(self) -> Any:
        """The top value, possibly still Lazy: enough to pass it on."""
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Any]:
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    # --- running

    @property
    def root(self) -> Frame:
        frame = self
        while frame.parent is not None:
            frame = frame.parent
        return frame

    @property
    def is_in_body(self) -> bool:
        """Is this part of a loop's body, or of an arm of a branch, that is captured for a node?"""
        frame: Frame | None = self
        while frame is not None and frame.loop_header is None and frame.ends_at is None:
            frame = frame.parent
        return frame is not None

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def run(self) -> Outcome:
        """Interpret until the function returns or the graph has to end."""
        instructions = self.program.instructions
        capture = self.capture
        is_root = self.parent is None
        enterable = analyse(self.program.code).enterable if is_root else ()
        while True:
            index = self.index
            capture.frame = self
            if is_root and enterable[index]:
                self.last_enterable = index
            if index == self.ends_at:
                return Jump(index)
            if self.globals_source is not None:  # not NumPy's own lines
                capture.builder.location = self.program.location(index)
            if is_root:
                stop = capture.decisions.stops.get(index)
                if stop is not None:
                    self.require_enterable(stop)
                    return self.stop(index, stop)
                halt = capture.decisions.halt
                if halt is not None and halt[0] == capture.instructions:
                    capture.ask_levels(index)
                    return self.stop(index, halt[1])
            instruction = instructions[index]
            if self.loop_header is not None and index == instructions[self.loop_header].target:
                raise BodyDeclined(Decline("a long loop that ends early", "npc.while_loop can."))
            saved = self.stack.copy()
            self.met = len(capture.met)
            began = capture.instructions
            capture.instructions += 1
            try:
                if capture.instructions > INSTRUCTION_LIMIT:
                    raise Decline("the program is too long for one graph")
                handler = handler_of(instruction.opname)
                if handler is None:
                    why = why_declined(instruction.opname)
                    raise Decline(why.reason if why else f"the instruction {instruction.opname}")
                result = handler(self, instruction)
            except Decline as decline:
                self.stack = saved
                result = self.unwind(decline, began)
            except USER_ERRORS as error:
                self.stack = saved
                self.declined(index, Decline(f"{type(error).__name__}: {error}"), began)
            if result is None:
                self.index = index + 1
            elif isinstance(result, Yielded):
                if self.loop_header is not None:
                    raise BodyDeclined(Decline("a long loop that gives an item of a generator in each iteration"))
                self.index = index + 1
                return result
            elif isinstance(result, int):
                self.index = result
            else:
                if self.loop_header is not None:
                    if isinstance(result, Jump) and result.index == self.loop_header and not self.contexts:
                        return result
                    raise BodyDeclined(Decline("a long loop that ends early", "npc.while_loop can."))
                if isinstance(result, Return) or is_root:
                    if is_root and not isinstance(result, Return):
                        what = "a long loop" if isinstance(result, (Jump, NextItem)) else "a branch on array data"
                        self.require_enterable(self.why(index, Decline(f"{what} inside `with` or `except`")))
                    return result
                self.stack = saved
                self.declined(index, Decline(*describe(result)), began)

    def unwind(self, decline: Decline, began: int) -> int:
        """Where the handler of an exception begins that the program raises, with the stack as it finds it."""
        index, self.calls_python = self.index, True
        if not isinstance(decline, Raises) or self.capture.bodies:
            self.declined(index, decline, began)
        value, handler = decline.value, self.handler
        if handler is None:
            if self.is_called_in_try:
                raise Raises(value, decline.reason)  # anew: frames up to where this one is caught have it among their variables
            if self.parent is None and value.raised_at is not None:
                raise self.give_up(value.raised_at, self.why(index, decline))
            self.declined(index, decline, began)
        if value.raised_at is None:
            set_context(value, self.root.handled)
            value.raised_at, value.location = self.root.index, self.root.program.location(self.root.index)
        self.root.unwound_at = value.raised_at
        del self.stack[handler.depth :]
        self.stack += [Constant(index), value] if handler.push_lasti else [value]
        return handler.target

    def throw(self, error: Raises) -> None:
        """Go on with the handler of an exception that is raised at the `yield` where this generator stands."""
        self.index -= 1
        self.index = self.unwind(error, self.capture.instructions)

    @property
    def handler(self) -> Handler | None:
        """What handles an exception that is raised by the current instruction."""
        return self.program.instructions[self.index].handler

    @property
    def is_called_in_try(self) -> bool:
        """Would an exception that leaves this function come to a handler of the program, by calls that it ends at once?"""
        frame = self.parent
        while frame is not None and (frame.calls_python or frame.catches):
            if frame.handler is not None or frame.catches:
                return True
            frame = frame.parent
        return False

    def require_enterable(self, reason: Break) -> None:
        """The program may end here only if native code can go on here, else it ends earlier."""
        first = [index for index, _ in self.contexts[:1]]
        first += [error.raised_at for error in self.handled[:1] if error.raised_at is not None]
        state = analyse(self.program.code).states[self.index]
        if state is not None and state.handled and not first:  # what is left of an exception is on the stack
            first = [self.unwound_at]
        if not first and not analyse(self.program.code).enterable[self.index]:
            first = [self.last_enterable]  # a comprehension has another cell under some name
        if first:
            raise self.give_up(min(first), reason)

    def declined(self, index: int, decline: Decline, began: int) -> NoReturn:
        """End the graph before the instruction. What it did before it declined is undone by capturing again."""
        if any(map(self.is_text, self.stack)) and self.capture.fix_texts():
            raise Restart
        if self.is_in_body:
            raise BodyDeclined(decline)
        self.capture.decisions.declined |= dict.fromkeys(self.capture.met[self.root.met :][:MOST_DECLINED])
        known = self.capture.decisions.native_calls.get(index) if self.parent is None else None
        reason = known or self.why(index, decline)
        if self.parent is not None:
            call = self.root.index
            self.capture.decisions.native_calls[call] = reason
            raise Restart
        self.require_enterable(reason)
        self.capture.decisions.halt = began, reason
        raise Restart

    def is_text(self, value: Any) -> bool:
        """Is it a string that is an input, or does it hold one?"""
        if isinstance(value, Lazy):
            value = self.capture.realized.get(value.source)
        if isinstance(value, (OutsideSequence, OutsideMapping)) and not value.is_loaded:
            return False
        return isinstance(value, Text) or isinstance(value, CONTAINERS) and any(map(self.is_text, children(value)))

    def give_up(self, index: int, reason: Break) -> Restart:
        """End the graph before `index` in the next attempt."""
        self.capture.decisions.stops[index] = reason
        return Restart()

    def stop(self, index: int, reason: Break) -> Stop:
        return Stop(index, reason)

    def why(self, index: int, decline: Decline) -> Break:
        callers: list[Location] = []
        frame = self.parent
        while frame is not None:
            callers.insert(0, frame.program.location(frame.index))
            frame = frame.parent
        return Break(decline.reason, decline.hint, self.program.location(index), tuple(callers), decline.misuse)

    # --- variables

    def load(self, name: str) -> Any:
        value = self.locals.get(name, UNASSIGNED)
        if value is UNASSIGNED:
            raise Decline(f"local variable {name!r} has no value")
        return value

    # --- jumps

    def jump_back(self, header: int) -> int | Outcome:
        """A backward jump: the next iteration is captured too, unless the loop is long."""
        if header == self.loop_header:
            return Jump(header)
        if self.parent is None and header in self.capture.decisions.rolled_loops:
            return Jump(header)
        count = self.visits[header] = self.visits.get(header, 0) + 1
        if count > (UNROLL_LIMIT if header not in self.before else ELEMENTWISE_LIMIT):
            self.roll(header)
        return header

    def roll(self, header: int) -> None:
        """Capture again without unrolling this loop."""
        if self.parent is not None:
            raise Decline("a long loop in an inlined function", "It runs as a compiled function of its own.")
        self.capture.decisions.rolled_loops.add(header)
        raise Restart

    def follow(self, index: int) -> int:
        """Where control really goes from `index`: unconditional jumps are taken."""
        while self.program.instructions[index].traits.flow == "goto":
            index = self.program.instructions[index].target
        return index


def running(capture: Capture) -> Frame:
    """The Frame whose instruction is being captured."""
    assert isinstance(capture.frame, Frame), capture.frame
    return capture.frame


def describe(outcome: Outcome) -> tuple[str, str]:
    match outcome:
        case Branch():
            return "a branch on array data in an inlined function", "It runs as a compiled function of its own."
        case _:
            return "a loop over outside data in an inlined function", ""


__all__ = ["NULL", "Branch", "Frame", "Jump", "NextItem", "Return", "Stop", "handler_of"]
