"""The user's own code, entered at an instruction with a live stack and locals, and left at the next Points.

A segment is a prologue that puts stack and locals in place, the reachable part of the user's instructions inside the exception
regions they have, and at each exit, in its instruction's stead, a hand-over.
"""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from npcompile.tracer.bytecode.analysis import CodeFacts, State, analyse, flow
from npcompile.tracer.bytecode.assembler import (
    BUILD_LIST,
    BUILD_TUPLE,
    CALL,
    CHECKED_LOAD,
    COPY,
    COPY_FREE_VARS,
    DELETE_FAST,
    GET_ITER,
    IS_OP,
    JUMP_BACK,
    JUMP_FORWARD,
    JUMP_IF_FALSE,
    LOAD_FAST,
    LOAD_SPECIAL,
    MOVE_FAST,
    NOP,
    POP_TOP,
    PUSH_NULL,
    RAISE_VARARGS,
    RESUME,
    RETURN_VALUE,
    STORE_FAST,
    STORE_SUBSCR,
    SWAP,
    UNPACK_SEQUENCE,
    Assembly,
    written,
)
from npcompile.tracer.bytecode.decode import OF_LOCALS, Handler, Instruction, Positions
from npcompile.tracer.bytecode.layout import UNBOUND, Layout, check_entry, layout_at, state_at_entry
from npcompile.tracer.bytecode.tracebacks import uncounted
from npcompile.tracer.bytecode.versions import RUNNING


class Exit(list[Any]):
    """The object of an exit, alone in a list. Constants of code refer to it weakly: the garbage collector does not see these."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class Segment:
    """New code that enters the user's code at one instruction."""

    code: types.CodeType  # its free variables are the user's cells, then the user's free variables
    entry: Layout
    layouts: dict[int, Layout]  # what is handed over, for each exit that control can reach
    exits: tuple[Exit, ...]
    self_name: str | None  # the user's first parameter, passed before all others because super() looks for it there

    @uncounted
    def bind(self, user: types.FunctionType, cells: tuple[types.CellType, ...] = ()) -> Callable[..., tuple[Any, Any]]:
        """The function to call with the stack values that are not NULL, then the locals."""
        # All arguments are passed. As defaults the exits are held by the function, and are no variables of its frame.
        function = types.FunctionType(self.code, user.__globals__, user.__name__, self.exits, cells)
        if self.self_name is None:
            return function
        return lambda *state: function(self.self_in(cells, state), *state)

    def self_in(self, cells: tuple[types.CellType, ...], state: tuple[Any, ...]) -> Any:
        """The value of the user's first parameter."""
        names = self.entry.local_names
        if self.self_name in names:
            return state[names.index(self.self_name) - len(names) - bool(self.entry.kept_names)]
        if self.self_name in self.code.co_freevars:
            return cells[self.code.co_freevars.index(self.self_name)].cell_contents
        return UNBOUND


@uncounted
def make_segment(
    user: types.FunctionType,
    entry: int,
    null_slots: tuple[int, ...],
    local_names: tuple[str, ...],
    exits: Mapping[int, Any],
    throws: bool = False,
    kept_names: tuple[str, ...] = (),
) -> Callable[..., tuple[Any, Any]]:
    """A function that runs `user`'s code from instruction `entry` on.

    It is called with the stack values that are not NULL, then `local_names` (UNBOUND where one has no value), then a list of
    `kept_names` if there are any; with a tuple of the cells first when the code has cells. It returns `(exits[k], state)`
    when control reaches an exit `k`, where `state` is what the Point there is entered with, and `(None, value)` when the code
    returns. An exit in an exception region leaves the region without running its handler. One that `throws` takes an exception
    before the stack values, and raises it where the instruction stands.
    """
    code = user.__code__
    segment = assemble(code, entry, null_slots, local_names, exits, protected=True, throws=throws, kept_names=kept_names)
    if not (code.co_cellvars or code.co_freevars):
        return segment.bind(user)

    def with_cells(cells: tuple[types.CellType, ...], *state: Any) -> tuple[Any, Any]:
        point, left = segment.bind(user, cells)(*state)
        return (None, left) if point is None else (point, (cells, *left))

    return with_cells


def assemble(
    code: types.CodeType,
    entry: int,
    null_slots: tuple[int, ...],
    local_names: tuple[str, ...],
    exits: Mapping[int, Any],
    *,
    protected: bool = False,
    throws: bool = False,
    kept_names: tuple[str, ...] = (),
) -> Segment:
    """The segment of `code` from `entry` to `exits`. ValueError says why an instruction cannot be one of these.

    The first instruction runs in any case: an exit at `entry` means arriving there again.
    """
    facts = analyse(code)
    check_entry(code, facts, entry, null_slots, local_names)
    depth = facts.depth[entry]
    assert depth is not None
    layout = Layout(entry, depth, null_slots, local_names, kept_names)
    states = flow(facts, entry, state_at_entry(facts, layout), exits)
    layouts = {index: layout_at(code, facts, index, states[index], protected) for index in exits if index in states}
    return Writer(facts, layout, states, layouts, exits, throws, code=code).write()


ENTRY: Final = -1  # the first label of ours
SELF: Final = ".self"  # a variable of the name that the cell has
AGAIN: Final = ".again"  # the variable of the user's first parameter, where it is passed before all others too
KEPT: Final = ".kept"  # the variable of the list of locals that nothing reads
THROWN: Final = ".thrown"  # the variable of the exception that is raised at the entry


@dataclass
class Writer(Assembly):
    """Writes the code of one segment."""

    facts: CodeFacts
    layout: Layout  # at the entry
    states: dict[int, State]  # at each reachable instruction
    layouts: dict[int, Layout]  # at each reachable exit
    exits: Mapping[int, Any]
    throws: bool = False  # raise an exception at the entry instead of running the instruction there
    cold: list[tuple[int, int, Positions]] = field(default_factory=list)  # handlers of loads that may find nothing

    def __post_init__(self) -> None:
        Assembly.__post_init__(self)
        code = self.code
        self.cells = (*code.co_cellvars, *code.co_freevars)
        self.stack_names = [f".stack{k}" for k in range(self.layout.depth) if k not in self.layout.null_slots]
        kept = [KEPT] if self.layout.kept_names else []
        parameters = [*[THROWN] * self.throws, *self.stack_names, *self.layout.local_names, *kept]
        self.self_name = code.co_varnames[0] if "__class__" in code.co_freevars and code.co_argcount else None
        if self.self_name is not None:
            stand_in = SELF if self.self_name in self.cells else self.self_name
            parameters = [stand_in, *(AGAIN if name == self.self_name else name for name in parameters)]
        self.argcount = len(parameters)
        own = [name for name in self.facts.slots if name not in self.cells]
        self.variables = list(dict.fromkeys([*parameters, *own, *self.temporaries()]))
        self.left = {index: Exit([self.exits[index]]) for index in self.layouts}
        self.slot_of = {name: slot for slot, name in enumerate([*self.variables, *self.cells])}
        self.new_slot = [self.slot_of[name] for name in self.facts.slots]

    def temporaries(self) -> list[str]:
        """Variables for the stack above a NULL, which BUILD_TUPLE must not see."""
        return [f".stack{k}" for layout in self.layouts.values() for k in above_null(self.slots(layout))]

    def slots(self, layout: Layout) -> list[int | None]:
        """What CPython's stack has: places in the layout, None for a NULL."""
        hidden, place = self.facts.instructions[layout.index].hidden, 0
        found: list[int | None] = []
        while place < layout.depth or hidden >> len(found):
            if hidden >> len(found) & 1:
                found.append(None)
            else:
                found.append(None if place in layout.null_slots else place)
                place += 1
        return found

    def write(self) -> Segment:
        entry = self.layout.index
        self.prologue()
        instructions = self.facts.instructions
        copied = {entry} | (self.states.keys() - self.layouts.keys())
        ends = {i.target - 1 for k in copied if (i := instructions[k]).traits.flow == "next" and i.target - 1 not in copied}
        for index in sorted({entry, *self.states} | {k for k in ends if instructions[k].traits.flow == "loop end"}):
            if index in self.layouts:
                self.hand_over(self.layouts[index])
            if index == entry:
                self.place(ENTRY)
            if index == entry or index not in self.layouts:
                self.copy(instructions[index])
        self.write_cold()
        return Segment(self.finished(), self.layout, self.layouts, tuple(self.left.values()), self.self_name)

    # --- pieces

    def prologue(self) -> None:
        entry = self.layout.index
        self.positions = self.facts.instructions[entry].positions
        if self.cells:
            self.add(COPY_FREE_VARS, len(self.cells))
        self.add(RESUME)
        if AGAIN in self.slot_of:
            self.add(DELETE_FAST, self.slot_of[AGAIN])
        given = [n for n in (self.self_name, *self.layout.local_names) if n is not None and n not in self.cells]
        for name in dict.fromkeys(given):
            if name not in self.facts.bound[entry]:
                self.unbind(self.slot_of[name])
        for slot in self.slots(self.layout):
            if slot is None:
                self.add(PUSH_NULL)
                continue
            for opcode in MOVE_FAST:
                self.add(opcode, self.slot_of[f".stack{slot}"])
        if self.layout.kept_names:
            self.take_kept()
        if self.throws:
            self.handler = self.facts.instructions[entry].handler
            for opcode in MOVE_FAST:
                self.add(opcode, self.slot_of[THROWN])
            self.add(RAISE_VARARGS, 1)
            self.handler = None
        elif entry != min({entry, *self.states}) or entry in self.layouts:
            self.add(JUMP_FORWARD, label=ENTRY)

    def take_kept(self) -> None:
        """Locals out of the list, which holds nothing then."""
        names = self.layout.kept_names
        self.add(LOAD_FAST, self.slot_of[KEPT])
        self.add(UNPACK_SEQUENCE, len(names))
        for name in names:
            self.add(STORE_FAST, self.slot_of[name])
        self.load_constant((UNBOUND,) * len(names))
        for opcode in MOVE_FAST:
            self.add(opcode, self.slot_of[KEPT])
        self.load_constant(slice(None))
        self.add(STORE_SUBSCR)
        for name in names:
            self.unbind(self.slot_of[name])

    def unbind(self, slot: int) -> None:
        """Leave the local without a value if UNBOUND was passed."""
        bound = self.new_label()
        self.add(LOAD_FAST, slot)
        self.load_constant(UNBOUND)
        self.add(IS_OP, 0)
        self.add(JUMP_IF_FALSE, label=bound)
        self.add(DELETE_FAST, slot)
        self.place(bound)

    def copy(self, instruction: Instruction) -> None:
        """The user's instruction; returns say that they are one, and cells are free variables."""
        index, traits = instruction.index, instruction.traits
        self.positions, self.handler = instruction.positions, instruction.handler
        if traits.flow == "loop end":  # raises nothing: its handler may not be written
            self.place(index)
            self.items += [replace(item, handler=None) for item in written(self.facts.instructions, instruction)]
            return
        if index == self.facts.start or index < self.facts.start and traits.defines == "cells":  # done by the prologue
            self.place(index)
            return
        # Where a Python function called by an instruction raises, CPython 3.13 looks for a handler of the word before that
        # instruction, so this word must be in the region that it is in when the user's code is complete.
        before = self.facts.instructions[index - 1].handler if index else None
        if before == self.handler != self.items[-1].handler:
            self.add(NOP)
        self.place(index)
        if traits.flow == "return":
            self.load_constant(None)
            self.add(SWAP, 2)
            self.add(BUILD_TUPLE, 2)
            self.add(RETURN_VALUE)
        elif traits.stack == "manager" and RUNNING.has_split_exit:
            self.enter_with()
        elif traits.stack == "iterator" and RUNNING.has_split_iterator:
            self.call_with_top(iter)
            self.add(GET_ITER)
        else:
            for item in written(self.facts.instructions, instruction):
                if item.opcode in OF_LOCALS:
                    item.arg = self.new_slot[item.arg]
                self.items.append(item)

    def enter_with(self) -> None:
        """`with`, with __exit__ bound to its object, so that the slot above it is NULL."""
        for opcode, arg in (COPY, 1), (LOAD_SPECIAL, 1), (POP_TOP, 0), (POP_TOP, 0), (COPY, 1):  # raises as the user's code does
            self.add(opcode, arg)
        self.call_with_top(bound_exit)
        for opcode, arg in (SWAP, 2), (PUSH_NULL, 0), (SWAP, 2), (LOAD_SPECIAL, 0), (CALL, 0):
            self.add(opcode, arg)

    def call_with_top(self, function: Callable[[Any], Any]) -> None:
        """The top of the stack becomes what the function gives for it."""
        self.load_constant(function)
        for opcode, arg in (SWAP, 2), (PUSH_NULL, 0), (SWAP, 2), (CALL, 1):
            self.add(opcode, arg)

    def hand_over(self, layout: Layout) -> None:
        """Return the exit's object, the stack, and the locals: in a list those that nothing reads."""
        state = self.states[layout.index]
        self.positions, self.handler = self.facts.instructions[layout.index].positions, None
        self.place(layout.index)
        moved = above_null(self.slots(layout))
        for slot in reversed(moved):
            self.add(STORE_FAST, self.slot_of[f".stack{slot}"])  # Storing a NULL leaves the local without a value.
        for slot in moved:
            if slot is not None:
                self.add(LOAD_FAST, self.slot_of[f".stack{slot}"])
        height = layout.depth - len(layout.null_slots)
        for name in layout.local_names:
            self.load_or_unbound(name, state, height)
            height += 1
        if layout.kept_names:
            for k, name in enumerate(layout.kept_names):
                self.load_or_unbound(name, state, height + k)
            self.add(BUILD_LIST, len(layout.kept_names))
            height += 1
        self.add(BUILD_TUPLE, height)
        self.load_constant(weakref.proxy(self.left[layout.index]))
        self.add(UNPACK_SEQUENCE, 1)  # a call would look for signals here
        self.add(SWAP, 2)
        self.add(BUILD_TUPLE, 2)
        self.add(RETURN_VALUE)

    def load_or_unbound(self, name: str, state: State, height: int) -> None:
        bit = 1 << self.facts.slots.index(name)
        if state.bound & bit:
            self.add(LOAD_FAST, self.slot_of[name])
        elif not state.maybe_bound & bit:
            self.load_constant(UNBOUND)
        else:
            failed, done = self.new_label(), self.new_label()
            self.handler = Handler(failed, height, False, height)
            self.add(CHECKED_LOAD, self.slot_of[name])
            self.handler = None
            self.place(done)
            self.cold.append((failed, done, self.positions))

    def write_cold(self) -> None:
        """A local that a hand-over finds without a value becomes UNBOUND."""
        self.handler = None
        for failed, done, positions in self.cold:
            self.positions = positions
            self.place(failed)
            self.add(POP_TOP)
            self.load_constant(UNBOUND)
            self.add(JUMP_BACK, label=done)

    # --- assembly

    def finished(self) -> types.CodeType:
        code = self.code
        heights = [len(self.slots(x)) + len(x.local_names) + len(x.kept_names) + 2 for x in self.layouts.values()]
        return self.assembled(
            co_argcount=self.argcount,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
            co_nlocals=len(self.variables),
            co_varnames=tuple(self.self_name or name if name == SELF else name for name in self.variables),
            co_cellvars=(),
            co_freevars=self.cells,
            co_stacksize=max([code.co_stacksize + 4, len(self.slots(self.layout)) + 3 + len(self.layout.kept_names), *heights]),
        )


def above_null(slots: list[int | None]) -> list[int | None]:
    """The stack from the lowest NULL up."""
    return slots[slots.index(None) :] if None in slots else []


def bound_exit(manager: Any) -> Any:
    """What `with` calls when it ends, as a bound method. It is there: CPython has looked."""
    kind = type(manager)
    found = next(vars(each)["__exit__"] for each in kind.__mro__ if "__exit__" in vars(each))
    get = getattr(type(found), "__get__", None)
    return found if get is None else get(found, manager, kind)
