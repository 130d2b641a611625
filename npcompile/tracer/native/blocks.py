"""The instructions of loops, and of what is around them, followed with the kinds of values and written as a native program.

A block is written once for each combination of kinds that it is reached with, so a variable may be Python's 0 in the first
iteration and a scalar of NumPy's from then on. An instruction that the program cannot do, or not for these numbers, leaves
it: stack and variables are handed over as they are before that instruction, and Python goes on there.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.elements import ArrayInput
from npcompile.backends.cpu.loops.loop_unit import GIVEN
from npcompile.backends.cpu.loops.parallel_loops import Spread
from npcompile.backends.cpu.loops.scalar_loops import INPUT, Fail, NoForm, ScalarLoops
from npcompile.backends.cpu.loops.side_exits import Handed, failed
from npcompile.backends.cpu.loops.speculation import Strip
from npcompile.backends.cpu.loops.value_ranges import Integer
from npcompile.backends.native_profiling import PROFILERS, Told, line_of, told
from npcompile.tensor_core.source import GLOBALS, Name, Object, Source
from npcompile.tracer.bytecode.analysis import CodeFacts, loop_region
from npcompile.tracer.bytecode.decode import Instruction, Program
from npcompile.tracer.forward import Forward
from npcompile.tracer.native import arrays, outside, swapped_buffers
from npcompile.tracer.native.accumulations import is_ordered
from npcompile.tracer.native.induction_variables import counters_of
from npcompile.tracer.native.states import (
    Attributes,
    Exit,
    NoProgram,
    Placing,
    State,
    is_attribute,
    is_object,
    key_of,
    lists_in,
    named,
    names_of,
    names_set,
    over_items,
    shared_objects,
    still_needed,
)
from npcompile.tracer.native.types import CellOf, Elements, Items, Known, NumberList, Outside, Scalar, Steps, Walk
from npcompile.tracer.native.value_ranges import Ranges

MOST_BLOCKS = 200
TEMPORARY = re.compile(r"t\d+")  # C variables of a block


Meaning = Callable[["Blocks", Instruction, Callable[[], str]], "int | None"]
# What an instruction does. It is given the label of the exit before the instruction, as a function.
meaning_of: Final[Forward[[Instruction], Meaning | None]] = Forward()


class Left(Exception):
    """The block ends here."""


@dataclass(slots=True)
class Inside:
    """The loop whose strip is being written."""

    strip: Strip
    header: int
    region: frozenset[int]
    key: tuple[Any, ...]  # of the block at its header
    comes_back: bool = False
    left: list[tuple[int, State]] = field(default_factory=list)  # where it is left, and for which instruction
    branches: frozenset[int] = frozenset()  # that are no choices between numbers
    chooses: int = -1  # the branch whose arms are being written
    chosen: set[int] = field(default_factory=set)  # branches that are choices
    labels: dict[tuple[Any, ...], str] = field(default_factory=dict)  # of its blocks
    widened: dict[int, frozenset[str]] = field(default_factory=dict)  # headers of loops inside -> variables: see `widening`
    sums: dict[str, Any] = field(default_factory=dict)  # C variables -> the sums that they are set to, or None
    once: frozenset[str] = frozenset()  # variables that one instruction sets, in each iteration before they are read

    def set(self, code: ScalarLoops, name: str, target: str, value: str, kind: str) -> None:
        """A C variable of a variable is set that other blocks of the iteration read."""
        if name not in self.once or kind not in ("int", "i8"):
            return
        known = code.integer(value, kind)
        found = None if known.terms is None else (known.terms, known.constant)
        if self.sums.setdefault(target, found) != found:
            raise NoProgram("a variable that blocks set to other sums")
        if found is not None:
            code.integers[target] = known


class Chunks(Protocol):
    """What is asked of the loop whose chunks are being written: of an Apart, whose class is above."""

    spread: Spread
    header: int
    region: frozenset[int]

    def at_header(self, index: int) -> list[str]: ...
    def go(self, code: ScalarLoops, index: int, key: tuple[Any, ...], copies: Iterable[tuple[str, str, str]]) -> None: ...
    def store(self, b: Blocks, name: str, value: Any) -> Any: ...
    def item(self, code: ScalarLoops, variable: str, place: str) -> None: ...
    def begin(self, code: ScalarLoops, inner: Steps, start: str) -> None: ...


@dataclass(slots=True)
class Blocks:
    """Writes the program that begins at `header`, of a loop or of the function."""

    program: Program
    facts: CodeFacts
    globals: dict[str, Any]
    header: int
    guard: Callable[..., None]  # with a guard: `checked` when the native program asks it
    object_of: Callable[[Any], Source]
    is_start: bool = False  # it begins where the function does
    code: ScalarLoops = field(default_factory=ScalarLoops)
    loops: dict[int, frozenset[int]] = field(default_factory=dict)  # their headers -> their instructions
    around: dict[int, int] = field(default_factory=dict)  # instructions in loops -> the header of the outermost
    set_in_loops: frozenset[str] = frozenset()  # variables
    lent: dict[str, int] = field(default_factory=dict)  # arrays of elements -> the loop in which they are such: its header
    kept: dict[str, ArrayInput] = field(default_factory=dict)  # by the C variables of the objects: made outside of loops
    region: frozenset[int] = frozenset()
    leaders: frozenset[int] = frozenset()
    labels: dict[tuple[Any, ...], str] = field(default_factory=dict)
    pending: list[tuple[int, State, str]] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    realized: dict[Source, Any] = field(default_factory=dict)
    inputs: list[Source] = field(default_factory=list)  # of numbers, in the order of `code.numbers`
    arrays: list[Source] = field(default_factory=list)  # of arrays
    objects: dict[Source, str] = field(default_factory=dict)  # and of what is only handed on -> C variable
    state: State = field(default_factory=lambda: State([], {}))
    clean: tuple[int, State] | None = None  # the last instruction before which all values could be handed over
    at: int = -1  # the first instruction of the block that is being written
    came_back: set[int] = field(default_factory=set)  # headers that are reached again
    returns: bool = False  # does the program come to the function's end?
    returns_list: bool = False  # and is what it returns a list?
    refused: list[str] = field(default_factory=list)  # why paths leave
    globals_source: Source = GLOBALS
    comprehensions: int = 0  # that are written
    site: str = ""  # of lists that a comprehension makes: where it is
    suffix: str = ""  # of C variables and labels: those of a comprehension are its own
    own_cells: frozenset[str] = frozenset()  # variables that the code shares with functions that it makes
    cells: dict[str, CellOf] = field(default_factory=dict)  # of the variables that the code shares with other functions
    contents: dict[int, tuple[Source, Name]] = field(default_factory=dict)  # id of a cell -> (its source, a name for what it has)
    attributes: Attributes = field(default_factory=Attributes)
    given: list[Steps | Walk] = field(default_factory=list)  # iterators from before the loop that others may have
    calls: list[Any] = field(default_factory=list)  # functions that are being written where they are called
    home: tuple[Program, CodeFacts] | None = None  # of the function that the loop is in
    inside: Inside | None = None  # the loop whose strip is being written
    pointwise: Callable[[int], None] | None = None  # what arrives at instructions of the loop that is followed by elements
    write_strip: Callable[[Blocks, int, str], None] | None = None  # between the label of a loop's header and the loop
    write_parallel: Callable[[Blocks, int, str], None] | None = None  # before that
    origins: dict[str, int] = field(default_factory=dict)  # labels -> the first instruction of the block that came there first
    steps: dict[int, set[str]] = field(default_factory=dict)  # headers of time loops -> labels after all their iterations
    apart: Chunks | None = None  # the loop whose chunks are being written
    parallel: dict[int, frozenset[int]] = field(default_factory=dict)  # loops that have chunks: header -> region
    trip_counts: dict[int, int] = field(default_factory=dict)  # headers -> how many iterations, where that is a constant
    ranges: Ranges | None = None
    counters_of_codes: dict[types.CodeType, dict[str, Integer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = self.program, self.facts
        self.loops = {k: loop_region(self.facts, k) for k in self.facts.loop_headers if self.facts.states[k] is not None}
        for k in sorted(self.loops, key=lambda k: len(self.loops[k])):
            self.around |= dict.fromkeys(self.loops[k], k)
        self.set_in_loops = frozenset(n for k in self.around for n in names_set(self.program.instructions[k]))
        self.region = self.ahead()
        targets = {i.target for i in self.program.instructions if i.index in self.region and i.target >= 0}
        edges = [(k, s) for k in self.region for s in self.facts.successors[k]]
        ends = {s for k, s in edges if any((k in loop) != (s in loop) for loop in self.loops.values())}
        self.leaders = frozenset({self.header, *targets, *ends, *self.facts.jump_targets})

    def ahead(self) -> frozenset[int]:
        """The loop, and what follows outside of other loops, of handlers and of `with`, up to the function's end."""
        own = self.loops.get(self.header, frozenset())
        if self.facts.protected[self.header] or self.around.get(self.header, self.header) != self.header:
            return own
        found, pending = {self.header}, [self.header]
        while pending:
            for k in self.facts.successors[pending.pop()]:
                if k not in found and not self.facts.protected[k]:
                    found.add(k)
                    pending.append(k)
        return own | found

    def write(self, state: State) -> None:
        """The whole program, entered at the header."""
        self.ranges = Ranges(self.program, self.facts, self.globals, self.region, self.counters)
        self.ranges.follow(self.header, state.stack, state.locals)
        self.state = state
        self.code.failing = self.failing
        self.go(self.header)
        self.write_pending()
        comprehends = self.comprehensions > 0
        reached = {index for index, *_ in self.labels} & self.loops.keys() if self.is_start else {self.header}
        without_loops = self.is_start and not self.loops and (comprehends or not self.refused)
        is_whole = reached <= self.came_back if reached else without_loops
        if not is_whole:
            raise NoForm("; ".join(dict.fromkeys(self.refused)) or "the loop does not come back to its beginning")

    def write_pending(self) -> None:
        while self.pending:
            index, state, label = self.pending.pop()
            self.code.label(label)
            self.at, self.state = index, state
            if index in self.facts.loop_headers:
                self.note_clean(index)
                self.poll(index)
                is_shared = any(self.program.instructions[k].traits.writes("cell") for k in self.loops.get(index, ()))
                is_inside = any(index in region and index != header for header, region in self.parallel.items())
                if self.apart is not None:
                    self.code.lines += self.apart.at_header(index)
                elif self.write_parallel is not None and not is_inside and not is_shared:
                    self.write_parallel(self, index, label)
                if self.write_strip is not None and not is_shared:
                    self.write_strip(self, index, label)
            self.block(index)

    def note_clean(self, index: int) -> None:
        """Python can go on at the instruction, if nothing is in the way."""
        if all(map(is_object, [*self.state.stack, *named(self.state)])):
            self.clean = index, self.state.copy()
            self.code.clean_at = len(self.code.lines)

    def poll(self, index: int) -> None:
        """Seldom, let the user interrupt the loop. Where attributes have to be set before that, Python goes on here."""
        if self.apart is None and any(map(is_attribute, self.state.locals)):
            self.code.poll(self.leave(index, self.state), throws=self.facts.protected[index])
        else:
            self.code.poll()

    def failing(self) -> str:
        """The label where an exception is set: before the statement, if there is what handlers of the user's, or others, see."""
        if self.clean is None or (self.apart, self.inside, self.pointwise) != (None, None, None):
            return failed()
        index, state = self.clean
        assert self.home is not None
        _, facts = self.home
        is_seen = facts.protected[index] or any(map(is_attribute, state.locals))
        return self.leave(index, state, throws=True) if is_seen and facts.enterable[index] else failed()

    def noted(self, name: str, index: int, why_not: str | None = None, what: str = "loop", count: int | None = None) -> None:
        """Note that a pass was tried at the loop whose header is at `index`, and why it did not fire, if so."""
        self.code.passes.note(name, f"the {what} at line {self.program.instructions[index].line}", why_not, count)

    # --- blocks

    def block(self, index: int) -> None:
        first = index
        self.clean = None
        while True:
            if index != first and (index in self.leaders or index not in self.region):
                self.go(index)
                return
            instruction = self.program.instructions[index]
            self.note_clean(index)
            try:
                is_summing = is_ordered(self.state.stack)
                following = self.step(instruction)
            except NoProgram:
                raise
            except NoForm as reason:
                if is_summing:
                    raise NoProgram(str(reason)) from None
                self.refused.append(f"{reason} (line {instruction.line})")
                self.code.passes.note("left to Python", f"{reason}, at line {instruction.line}")
                self.code.jump(self.inside.strip.give_up() if self.inside is not None else self.back_out(is_refused=True))
                return
            except Left:
                return
            index = index + 1 if following is None else following
            if following is not None:
                first = following  # whatever else comes there has a block of its own

    def go(self, index: int) -> None:
        """To the block at `index`, with what is on the stack and in the variables where that block has it."""
        if self.calls:
            self.code.settle()
            self.follow(index)
            return
        if self.pointwise is not None:
            self.pointwise(index)
            return
        inside = self.inside
        if inside is not None and index not in inside.region:
            self.code.settle()
            self.leave_strip(inside, index)
            return
        if self.apart is not None and index not in self.apart.region:
            raise NoProgram("a loop that is left before its end")
        if index not in self.region:
            self.settle(self.fail())
            self.code.jump(self.leave(index, self.state, is_end=True))
            return
        self.settle(self.fail())
        live = self.facts.live[index]
        copies: list[tuple[str, str, str]] = []
        slots = {name: k for k, name in enumerate(self.facts.slots)}
        kept = still_needed(self.state.locals, live | self.own_cells)
        kept = swapped_buffers.returned(self, kept, index)
        for name in inside.widened.get(index, ()) if inside is not None else ():
            if isinstance(value := kept.get(name), Scalar) and value.kind == "float":
                kept[name] = Scalar("f8", value.text)
        there = Placing(self.code, copies).all(State(self.state.stack, kept), {n: slots.get(n, n[1:]) for n in kept})
        owners = {target for target, _, kind in copies if kind == "object"}
        variables, lending_lines = swapped_buffers.lend(self, there.locals, index)
        owners |= {v.input.made for v in variables.values() if isinstance(v, Elements)}
        state = State(there.stack, variables)
        key = key_of(index, state)
        is_back = inside is not None and index == inside.header
        if inside is not None and is_back and key == inside.key:
            inside.strip.settle_sums(copies)
        self.code.settle()
        if inside is None and self.apart is not None:
            self.apart.go(self.code, index, key, copies)
        if inside is not None and is_back and key != inside.key:  # as another block, which has a strip of its own
            self.leave_strip(inside, index)
            return
        if inside is not None and is_back:
            inside.strip.end_iteration()
        copies = [c for c in copies if c[0] != c[1]]
        for target, text, kind in copies:
            slot = target[1:].partition("_")[0]
            if inside is not None and target[0] == "L" and slot.isdigit() and int(slot) < len(slots):
                inside.set(self.code, self.facts.slots[int(slot)], target, text, kind)
        handed = self.handed_over(copies) if inside is None else {}
        # All are read before one is set.
        texts = [self.code.new(kind, text) if text in self.code.variables else text for _, text, kind in copies]
        for (target, _, kind), text in zip(copies, texts):
            if kind == "object" and target not in handed:
                self.code.line(f"rt->incref({text});")
        for (target, _, kind), text in zip(copies, texts):
            if target in handed:
                self.code.noted("reuse of memory")
                self.code.line(f"npc_hand_over(&{target}, &{handed[target]}, &{handed[target]}_most);")
                continue
            if kind == "object":
                self.code.line(f"rt->decref({target});")
            self.code.set(target, text)
        self.code.lines += lending_lines
        if inside is None:
            self.release_others(owners)
            if self.at in self.loops.get(index, ()):
                self.came_back.add(index)
        elif any(kind == "object" for _, _, kind in copies):
            raise NoProgram("arrays that change their names in a strip")
        elif is_back:
            inside.comes_back = True
            self.code.jump("next")
            return
        self.code.jump(self.label_of(key, state))

    def handed_over(self, copies: list[tuple[str, str, str]]) -> dict[str, str]:
        """Variables that alone are given an array which the block made: the next one may take the memory of what they had."""
        rooms = self.code.statements.rooms if self.code.statements is not None else {}
        given = [text for _, text, kind in copies if kind == "object"]
        is_alone = {text for text in given if text in rooms and text not in self.kept and given.count(text) == 1}
        return {target: text for target, text, kind in copies if kind == "object" and text in is_alone}

    def leave_strip(self, inside: Inside, index: int) -> None:
        """To an instruction after the loop: numbers are handed out in variables."""

        def out(value: Any) -> Any:
            if not isinstance(value, Scalar) or not TEMPORARY.fullmatch(value.text):
                return value
            name = self.code.variable(f"{inside.strip.name}_v{len(inside.strip.assigned)}", value.kind)
            self.code.set(name, value.text)
            return Scalar(value.kind, name)

        change = over_items(out)
        needed = still_needed(self.state.locals, self.facts.live[index] | self.own_cells)
        variables = {n: change(v) for n, v in needed.items()}
        inside.left.append((index, State([*map(change, self.state.stack)], variables)))
        self.code.jump(f"out{len(inside.left) - 1}")

    def follow(self, index: int) -> None:
        """Write a called function from an instruction on, up to its return."""
        while index not in self.facts.loop_headers:
            try:
                following = self.step(self.program.instructions[index])
            except Left:
                return
            index = index + 1 if following is None else following
        raise NoForm("a loop in a function that is called")

    def note_write(self) -> None:
        """An array or a list is changed. In a call, nothing goes back to before it then: Python would call the function again."""
        if self.calls:
            self.clean = None

    def release_others(self, owners: set[str]) -> None:
        """Arrays that the program made and nobody names any more."""
        for name, c in self.code.variables.items():
            if c == "PyObject*" and name[0] in "LS" and name not in owners:
                self.code.line(f"if ({name}) {{ rt->decref({name}); {name} = 0; }}")

    def label_of(self, key: tuple[Any, ...], state: State) -> str:
        label = self.labels.get(key)
        if label is None:
            if len(self.labels) >= MOST_BLOCKS:
                raise NoProgram("too many combinations of types")
            prefix = "" if self.inside is None else f"{self.inside.strip.name}_"
            label = self.labels[key] = f"{prefix}block{len(self.labels)}_{key[0]}"
            self.origins[label] = self.at
            self.pending.append((key[0], state, label))
        return label

    def leave(self, index: int, state: State, is_end: bool = False, throws: bool = False) -> str:
        """The label of an exit to Python at an instruction. It `throws` an exception there, which is set.

        Python would look for signals before it is there: where there is a handler the exit does, and another throws.
        """
        if self.apart is not None:
            return "stopped"
        assert self.home is not None
        program, facts = self.home
        if not facts.enterable[index]:
            raise NoProgram(f"Python cannot go on at instruction {index}")
        live = facts.live[index]
        state = State(state.stack.copy(), still_needed(state.locals, live | self.own_cells))
        if not all(map(is_object, [*state.stack, *named(state)])):
            raise NoProgram("a list that is needed where Python goes on")
        made = Exit(index, state, is_end, throws)
        for value in [*state.stack, *state.locals.values()]:
            made.hand_over(value)
        for iterator in self.given:
            if not any(iterator.name in names_of(v) for v in state.stack):
                made.given.append(iterator)
                made.values.append(Scalar("int", iterator.next))
        asks = facts.protected[index] and not throws
        self.exits.append(made)
        if throws or asks:
            self.code.passes.note("errors to handlers", f"the statement at line {program.instructions[index].line}")
        if asks:
            self.exits.append(replace(made, is_end=False, throws=True))
        return self.code.exit([self.handed(v) for v in made.values], throws, asks)

    def give(self, value: Any, fail: Fail) -> None:
        """The function returns a value."""
        if self.apart is not None:
            raise NoProgram("a loop that is left before its end")
        if self.given:
            raise NoForm("an iterator that others may have has to be set")
        if len(lists := lists_in(value)) > len(set(lists)):
            raise NoForm("a list that is returned twice")
        if shared_objects(State([value], {})):
            raise NoForm("a view or tuple that is returned twice")
        if any(map(is_attribute, self.state.locals)):
            raise NoForm("an attribute has to be set")
        text = self.object_text(self.all_settled(value, fail))
        end = "given"
        if not self.is_start:
            text = f"rt->tuple_of(2, {self.object_text(Known(None))}, {text})"
        elif isinstance(value, NumberList):
            text, end = f'rt->leave({GIVEN}, "l", {value.objects(self.code)})', "done"
            self.returns_list = True
        self.returns = True
        self.code.line(f"result = {text};")
        self.code.jump(end)

    def all_settled(self, value: Any, fail: Fail) -> Any:
        if isinstance(value, Items):
            return Items(tuple(self.all_settled(item, fail) for item in value.items))
        return arrays.settled(self.code, value, fail)

    def object_text(self, value: Any) -> str:
        """A C expression of a new reference. Raises NoForm where only Python could make the object."""
        match value:
            case Part():
                return arrays.statements(self.code).object_text(value)
            case Scalar(kind, text):
                given = self.given_object(value)
                return self.code.boxed(kind, text) if given is None else self.object_text(given)
            case Items(items):
                return f"rt->tuple_of({', '.join([str(len(items)), *map(self.object_text, items)])})"
            case Elements(array) if array.made:
                return self.object_text(arrays.part_of(value))
            case NumberList():
                return f"rt->list_of({value.objects(self.code)})"
            case Outside(source) | Elements(_, source) | Known(_, source):
                name = self.name_of_object(source)
                return f"(rt->incref({name}), {name})"
        raise NoForm(f"a {type(value).__name__.lower()} is returned")

    def handed(self, value: Scalar | Part | NumberList) -> Handed:
        """The same object, as an exit hands it over."""
        if isinstance(value, NumberList):
            return "l", value.objects(self.code)
        if isinstance(value, Part):
            return arrays.statements(self.code).handed(value)
        given = self.given_object(value)
        return self.code.handed(value.kind, value.text) if given is None else ("o", self.name_of_object(given.source))

    def given_object(self, value: Scalar) -> Outside | None:
        """The argument that a number is, if it is one. Of another type, it is that number only in C."""
        k = int(value.text[2:]) if INPUT.fullmatch(value.text) else -1
        if k < 0 or self.code.numbers[k][0] != value.kind or not isinstance(self.inputs[k], Name | Object):
            return None
        return Outside(self.inputs[k], None)

    def name_of_object(self, source: Source) -> str:
        return self.objects.get(source) or self.objects.setdefault(source, self.code.object())

    # --- what comes from outside

    def realize(self, value: Any) -> Any:
        if not isinstance(value, Outside):
            return value
        if value.source not in self.realized:
            self.realized[value.source] = outside.wrapped(self, value.source, value.example)
        return self.realized[value.source]

    def shared_value(self, name: str) -> Any:
        """Of a variable that the code shares with other functions."""
        return outside.cell_value(self, name)

    # --- what is known of integers

    @property
    def counters(self) -> dict[str, Integer]:
        """What is known of variables of the function that is being written."""
        code = self.program.code
        if code not in self.counters_of_codes:
            self.counters_of_codes[code] = counters_of(self.program, self.facts)
        return self.counters_of_codes[code]

    def bound(self, text: str, name: str = "") -> None:
        """Use what is known of a variable's integer, or of the next item of a loop's range, at the present instruction."""
        if self.ranges is None or self.calls or self.pointwise is not None or not TEMPORARY.fullmatch(text):
            return
        index = self.code.instruction
        if self.inside is not None and name:  # both arms are computed there: what is known is what was known before
            if self.code.copies.get(text) not in self.inside.strip.stays:
                return
            index = self.inside.header
        known = self.ranges.variable(index, name) if name else self.ranges.item(index)
        self.code.bound(text, known.least, known.most)

    def note_within(self, i: Instruction, container: Any, key: Any) -> None:
        """Which indices of the subscript are known to be within bounds."""
        if self.ranges is None or self.calls or self.pointwise is not None or self.inside is not None:
            return
        keys = key.items if isinstance(key, Items) else (key,)
        if isinstance(container, Elements) and all(isinstance(k, Scalar) and k.kind == "int" for k in keys):
            axes = self.ranges.within(i.index)
            self.code.within = {(container.input.name, axis, keys[axis].text) for axis in axes}

    # --- instructions

    def step(self, i: Instruction) -> int | None:
        """Write one instruction. The index of the next where that is not the one after it."""
        meaning = meaning_of(i)
        if meaning is None:
            raise NoForm(f"instruction {i.opname}")
        self.code.instruction, self.code.where = i.index, i.positions
        self.code.within = set()
        if not self.calls:
            self.code.loop = self.around.get(i.index, -1)
        if PROFILERS.are_told:
            return self.step_for_profilers(i, meaning)
        return meaning(self, i, self.fail())

    def step_for_profilers(self, i: Instruction, meaning: Meaning) -> int | None:
        """The same, where what is written knows the line that it is of."""
        of = self.code.of = line_of(self.program.code.co_filename, i.line)
        before = len(self.code.statements.functions) if self.code.statements is not None else 0
        following = meaning(self, i, self.fail())
        if self.code.statements is not None:
            functions = self.code.statements.functions
            functions[before:] = [line if isinstance(line, Told) else told(line, of) for line in functions[before:]]
        return following

    def fail(self) -> Fail:
        """What gives the label of an exit before the present instruction, made when it is asked for."""
        label: list[str] = []

        def made() -> str:
            if self.inside is not None:
                return self.inside.strip.give_up()
            if self.pointwise is not None:
                return "undo"
            if not label:
                label.append(self.back_out())
            return label[0]

        return made

    def back_out(self, is_refused: bool = False) -> str:
        """The label of an exit where all is as before the statement, or what of it has no effects."""
        if self.clean is None and self.calls:
            raise NoForm("a function that may leave for Python after it has written to an array")
        if self.clean is None:
            raise NoProgram("a block that begins with what cannot be handed over")
        index, state = self.clean
        return self.leave(index, state, is_end=is_refused and index not in self.around)

    def settle(self, fail: Fail, below: int = 0) -> None:
        """Compute what stands on the stack, under the topmost values: something is about to be written."""
        stack = self.state.stack
        for k in range(len(stack) - below):
            stack[k] = arrays.settled(self.code, stack[k], fail)

    def store(self, name: str, value: Any) -> None:
        """Into a variable. An array that was made outside of loops, for a variable that they do not set, stays where it is."""
        is_new = isinstance(value, Part) and value.is_own and value.is_whole and value.root.startswith("made")
        if is_new and not self.calls and self.inside is None and self.code.loop < 0 and name not in self.set_in_loops:
            if value.root not in self.kept:
                self.kept[value.root] = self.code.stay(value.dtype, value.data, value.sizes, value.strides, value.root)
            value = Elements(self.kept[value.root], Name(self.kept[value.root].name))
        self.state.locals[name] = value if self.apart is None or self.calls else self.apart.store(self, name, value)

    def push(self, value: Any) -> None:
        self.state.stack.append(value)

    def pop(self) -> Any:
        return self.realize(self.state.stack.pop())

    def values_in_use(self) -> list[Any]:
        return [*self.state.stack, *self.state.locals.values()]

    def branch(self, condition: str, index: int, before: Callable[[], None] | None = None) -> None:
        """To `index` if the condition holds, when `before` has written what is done for that, else on."""
        if self.pointwise is not None or self.inside is not None and self.inside.chooses >= 0:
            raise NoForm("a branch")
        after = self.state.copy()
        self.code.settle()
        if self.inside is not None:
            self.inside.strip.is_straight = False
        for call in self.calls:  # those around it have as many ways through them
            call.branches = True
        self.code.line(f"if ({condition}) {{")
        if before is not None:
            before()
        clean = self.clean
        self.go(index)
        self.code.line("}")
        self.state, self.clean = after, clean


class NotChosen(Exception):
    """A branch of a strip is no choice between numbers: the strip is written anew."""

    def __init__(self, index: int):
        self.index = index
