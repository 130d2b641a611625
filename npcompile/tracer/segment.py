"""The user's own code, entered at an instruction with a live stack and locals, and left at the next Points.

The only file that assembles bytecode.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Mapping
from typing import Any

from bytecode import Bytecode, CellVar, FreeVar, Instr, Label, TryBegin, TryEnd

from npcompile.tracer.analysis import CodeFacts, analyse


class _Unbound:
    def __repr__(self) -> str:
        return "UNBOUND"


UNBOUND = _Unbound()  # stands for a local that has no value

PROLOGUE = ("RESUME", "MAKE_CELL", "COPY_FREE_VARS")
JUMP_IF_FALSE = "POP_JUMP_FORWARD_IF_FALSE" if "POP_JUMP_FORWARD_IF_FALSE" in dis.opmap else "POP_JUMP_IF_FALSE"
LOAD_CHECKED = "LOAD_FAST_CHECK" if "LOAD_FAST_CHECK" in dis.opmap else "LOAD_FAST"


def make_segment(
    user: types.FunctionType,
    entry: int,
    null_slots: tuple[int, ...],
    local_names: tuple[str, ...],
    exits: Mapping[int, Any],
) -> Callable[..., tuple[Any, Any]]:
    """A function that runs `user`'s code from instruction `entry` on.

    It is called with the stack values that are not NULL, then `local_names` (UNBOUND where one has no value); with a
    tuple of the cells first when the code has cells. It returns `(exits[k], state)` when control reaches an exit `k`,
    where `state` is what the Point there is entered with, and `(None, value)` when the code returns.
    """
    code = user.__code__
    facts = analyse(code)
    made = assemble(code, facts, entry, null_slots, local_names, exits)
    name, namespace = user.__name__, user.__globals__
    if not (code.co_cellvars or code.co_freevars):
        return types.FunctionType(made, namespace, name)

    def with_cells(cells: tuple[types.CellType, ...], *state: Any) -> tuple[Any, Any]:
        point, left = types.FunctionType(made, namespace, name, None, cells)(*state)
        return (None, left) if point is None else (point, (cells, *left))

    return with_cells


def assemble(
    code: types.CodeType,
    facts: CodeFacts,
    entry: int,
    null_slots: tuple[int, ...],
    local_names: tuple[str, ...],
    exits: Mapping[int, Any],
) -> types.CodeType:
    old = Bytecode.from_code(code)
    depth = facts.depth[entry]
    assert depth is not None, f"instruction {entry} of {code.co_qualname} is not reached"
    nulls = facts.nulls(entry, null_slots)
    stack_names = [f".stack{k}" for k in range(depth) if k not in null_slots]
    new = Bytecode()
    new.name, new.qualname = code.co_name, code.co_qualname
    new.filename, new.first_lineno = code.co_filename, code.co_firstlineno
    new.flags = code.co_flags & ~0x0C
    new.argnames = [*stack_names, *local_names]
    new.argcount = len(new.argnames)
    new.freevars = [*code.co_cellvars, *code.co_freevars]
    body = Body(facts, new.freevars)
    items = body.prologue(entry, depth, null_slots, local_names)
    opened: dict[TryBegin, None] = {}
    replaced: dict[TryBegin, TryBegin] = {}
    index = -1
    for item in old:
        if isinstance(item, TryBegin):
            opened[item] = None
        elif isinstance(item, TryEnd):
            opened.pop(item.entry, None)
            item = TryEnd(replaced.get(item.entry, item.entry))
        elif isinstance(item, Instr):
            index += 1
            if index in exits:
                known = nulls[index]
                assert known is not None
                items += body.leave(index, exits[index], known)
            if index == entry:
                # The landing gets exception regions of its own: control arrives from outside of the old ones.
                items += [TryEnd(t) for t in reversed(opened)]
                items.append(body.landing)
                for region in opened:
                    replaced[region] = TryBegin(region.target, region.push_lasti, region.stack_depth)
                    items.append(replaced[region])
            if item.name in PROLOGUE:
                continue
            items += body.rewritten(item)
            continue
        items.append(item)
    new.extend([*items, *body.handlers])
    return new.to_code()


class Body:
    """Pieces of a segment's code."""

    def __init__(self, facts: CodeFacts, cells: list[str]):
        self.facts, self.cells = facts, cells
        self.landing = Label()
        self.handlers: list[Any] = []

    def prologue(self, entry: int, depth: int, null_slots: tuple[int, ...], local_names: tuple[str, ...]) -> list[Any]:
        items: list[Any] = [Instr("COPY_FREE_VARS", len(self.cells))] if self.cells else []
        items.append(Instr("RESUME", 0))
        for name in local_names:
            if name not in self.facts.bound[entry]:
                bound = Label()
                items += [Instr("LOAD_FAST", name), Instr("LOAD_CONST", UNBOUND), Instr("IS_OP", 0)]
                items += [Instr(JUMP_IF_FALSE, bound), Instr("DELETE_FAST", name), bound]
        for slot in range(depth):
            items.append(Instr("PUSH_NULL") if slot in null_slots else Instr("LOAD_FAST", f".stack{slot}"))
        return [*items, Instr("JUMP_FORWARD", self.landing)]

    def leave(self, index: int, point: Any, null_slots: tuple[int, ...]) -> list[Any]:
        """Hand the live stack and locals to `point`."""
        depth = self.facts.depth[index]
        assert depth is not None
        slots = range(depth)
        # Storing a NULL leaves the local without a value; POP_TOP would follow the pointer.
        items: list[Any] = [Instr("STORE_FAST", f".stack{k}") for k in reversed(slots)]
        names = self.facts.live_locals(index)
        for name in names:
            if name not in self.facts.bound[index]:
                items += self.load_or_unbound(name)
        kept = [k for k in slots if k not in null_slots]
        items += [Instr("LOAD_CONST", point)]
        items += [Instr("LOAD_FAST", f".stack{k}") for k in kept]
        items += [Instr("LOAD_FAST", n if n in self.facts.bound[index] else f".{n}") for n in names]
        return [*items, Instr("BUILD_TUPLE", len(kept) + len(names)), Instr("BUILD_TUPLE", 2), Instr("RETURN_VALUE")]

    def load_or_unbound(self, name: str) -> list[Any]:
        """Put the local's value, or UNBOUND, into a local that always has one."""
        handler, done = Label(), Label()
        region = TryBegin(handler, False)
        self.handlers += [handler, Instr("PUSH_EXC_INFO"), Instr("POP_TOP"), Instr("POP_EXCEPT"), Instr("LOAD_CONST", UNBOUND)]
        self.handlers += [Instr("STORE_FAST", f".{name}"), Instr("JUMP_BACKWARD", done)]
        return [region, Instr(LOAD_CHECKED, name), Instr("STORE_FAST", f".{name}"), TryEnd(region), done]

    def rewritten(self, item: Instr) -> list[Any]:
        """Returns say that they are one; cells are free variables here."""
        if item.name == "RETURN_VALUE":
            line = {"location": item.location}
            return [Instr("LOAD_CONST", None, **line), Instr("SWAP", 2, **line), Instr("BUILD_TUPLE", 2, **line), item]
        if item.name == "RETURN_CONST":
            return [Instr("LOAD_CONST", (None, item.arg), location=item.location), Instr("RETURN_VALUE", location=item.location)]
        if isinstance(item.arg, CellVar):
            item = item.copy()
            item.arg = FreeVar(item.arg.name)
        return [item]
