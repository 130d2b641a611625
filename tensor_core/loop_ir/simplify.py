"""Blocks with fewer arguments and ops: arguments that are always the same value, equal ops, constants, ops that nobody reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from npcompile.tensor_core.loop_ir.flow import Flow, flow_of
from npcompile.tensor_core.loop_ir.forms import REGIONS, RESULTS, SUBSTITUTE, USES, regions, substitute_final, walk
from npcompile.tensor_core.loop_ir.ops import (
    Alloc,
    Branch,
    Cfg,
    Constant,
    For,
    Gather,
    If,
    Jump,
    Let,
    Load,
    NewList,
    Op,
    Program,
    Region,
    Size,
    View,
    Yield,
)
from npcompile.tensor_core.loop_ir.rows import ROWS, Rule, sets_flags
from npcompile.tensor_core.loop_ir.states import Literal
from npcompile.tensor_core.loop_ir.types import List, Type

Key: TypeAlias = tuple[str | int | Type, ...]


def simplify(program: Program) -> int:
    """Simplify a program of blocks. How many ops and arguments went."""
    (cfg,) = program.body
    assert isinstance(cfg, Cfg), cfg
    flow = flow_of(cfg)
    cfg.blocks = [flow.blocks[label] for label in flow.order]
    before = size_of(cfg)
    drop_arguments(program, cfg, flow)
    Numbering(program, flow).run()
    drop_unused(program, program.body)
    flow.find_edges()
    if (threaded := thread_jumps(cfg, flow)) is not None:
        drop_arguments(program, cfg, threaded)
    return before - size_of(cfg)


def size_of(cfg: Cfg) -> int:
    return sum(len(block.ops) + len(block.args) for block in cfg.blocks)


# --- arguments


def drop_arguments(program: Program, cfg: Cfg, flow: Flow) -> None:
    """An argument that has the same value on all ways in, or itself, is that value, where this stays in scope."""
    home = {param.value: flow.entry for param in program.params}
    for label, block in flow.blocks.items():
        home |= dict.fromkeys(block.args, label)
        for op in block.ops:
            for value in RESULTS[type(op)](op):
                home[value] = label
    new: dict[int, int] = {}
    changed = True
    while changed:
        changed = False
        for label in flow.order[1:]:
            args, edges = flow.blocks[label].args, flow.edges_to[label]
            for k in range(len(args) - 1, -1, -1):
                value = only_value(args[k], [edge.args[k] for edge in edges], new)
                if value >= 0 and flow.sees(label, home[value]):
                    new[args[k]], changed = value, True
                    del args[k]
                    for edge in edges:
                        del edge.args[k]
    substitute_final(program.body, new)
    flow.find_edges()  # substitution replaces lists
    drop_unused_arguments(cfg, flow)


def only_value(arg: int, given: list[int], new: dict[int, int]) -> int:
    """The one value that an argument is given besides itself. -1 where there are several."""
    found = -1
    for value in given:
        while value in new:
            value = new[value]
        if value != arg and value != found:
            if found >= 0:
                return -1
            found = value
    return found


def drop_unused_arguments(cfg: Cfg, flow: Flow) -> None:
    """Arguments that only go from block to block."""
    needed: set[int] = set()
    pending: list[int] = []
    for block in cfg.blocks:
        for op in walk(block.ops):
            if type(op) is not Jump:  # which hands them to a block
                pending += [op.condition] if type(op) is Branch else USES[type(op)](op)
    passed: dict[int, list[int]] = {}
    for label in flow.order:
        for k, arg in enumerate(flow.blocks[label].args):
            passed[arg] = [edge.args[k] for edge in flow.edges_to[label]]
    while pending:
        value = pending.pop()
        if value not in needed:
            needed.add(value)
            pending += passed.get(value, ())
    for label in flow.order:
        args = flow.blocks[label].args
        for k in range(len(args) - 1, -1, -1):
            if args[k] not in needed:
                del args[k]
                for edge in flow.edges_to[label]:
                    del edge.args[k]


def thread_jumps(cfg: Cfg, flow: Flow) -> Flow | None:
    """Who goes to a block that only jumps goes where that jumps to. The facts then; None where there are none.

    The end of an iteration stays: an inner loop ends there. So does a block whose arguments are read where it dominates.
    """
    jumps = {block.label: block.ops[0] for block in cfg.blocks if isinstance(block.ops[0], Jump)}
    onward = [label for label, jump in jumps.items() if flow.number[jump.target] > flow.number[label]]
    if not onward:
        return None
    read = {value for block in cfg.blocks if block.label not in jumps for op in walk(block.ops) for value in USES[type(op)](op)}
    read |= {value for label, jump in jumps.items() for value in jump.args if value not in flow.blocks[label].args}
    empty = {label: flow.blocks[label] for label in onward if not read.intersection(flow.blocks[label].args)}
    if not empty:
        return None

    def threaded(label: int, args: list[int]) -> tuple[int, list[int]]:
        while label in empty:
            new = dict(zip(empty[label].args, args, strict=True))
            jump = jumps[label]
            label, args = jump.target, [new.get(value, value) for value in jump.args]
        return label, list(args)

    for block in cfg.blocks:
        match block.ops[-1]:
            case Jump() as jump:
                jump.target, jump.args = threaded(jump.target, jump.args)
            case Branch() as branch:
                branch.then, branch.then_args = threaded(branch.then, branch.then_args)
                branch.orelse, branch.else_args = threaded(branch.orelse, branch.else_args)
    reached = flow_of(cfg)
    cfg.blocks = [reached.blocks[label] for label in reached.order]
    reached.blocks = {block.label: block for block in cfg.blocks}
    return reached


# --- equal ops

FOLDED: Final = frozenset((Let, Constant, Size, Alloc, View))


@dataclass(slots=True)
class Numbering:
    """Ops that compute what one before them, in a block that dominates theirs, has computed."""

    program: Program
    flow: Flow
    new: dict[int, int] = field(default_factory=dict)
    constants: dict[int, Literal] = field(default_factory=dict)
    sizes: dict[int, list[int]] = field(default_factory=dict)  # of arrays that are made, and views

    def run(self) -> None:
        known: dict[int, dict[Key, int]] = {}
        for label in self.flow.order:
            above = self.flow.dominator[label]
            inherited = known.get(above, {}) if label != above and self.flow.sees(label, above) else {}
            known[label] = self.block(self.flow.blocks[label].ops, dict(inherited))

    def block(self, ops: Region, known: dict[Key, int]) -> dict[Key, int]:
        kept: Region = []
        new = self.new
        for op in ops:
            kind = type(op)
            if new:
                SUBSTITUTE[kind](op, new)
            if kind not in FOLDED:
                for part in REGIONS[kind](op) if kind in REGIONS else ():
                    self.block(part, dict(known))
                kept.append(op)
                continue
            (result,), found = RESULTS[kind](op), self.folded(op)
            if found is None and (key := self.key(op)) is not None:
                found = known.setdefault(key, result)
            if found is None or found == result:
                kept.append(op)
            else:
                new[result] = found
        ops[:] = kept
        return known

    def folded(self, op: Op) -> int | None:
        """An older value that this op's result equals."""
        if isinstance(op, Let):
            return self.folded_let(op)
        if isinstance(op, Constant):
            self.constants[op.result] = op.value
        elif isinstance(op, Alloc | View):
            self.sizes[op.result] = op.sizes
        elif isinstance(op, Size) and op.array in self.sizes:
            return self.sizes[op.array][op.axis]
        return None

    def folded_let(self, op: Let) -> int | None:
        match op.op:
            case name if ROWS[name].rule is Rule.CONVERTED and self.is_alike(op, op.args[0]):
                return op.args[0]
            case "add" if self.is_zero(op.args[0]) and self.is_alike(op, op.args[1]):
                return op.args[1]
            case "add" | "subtract" if self.is_zero(op.args[1]) and self.is_alike(op, op.args[0]):
                return op.args[0]
        return None

    def is_alike(self, op: Let, value: int) -> bool:
        return self.program.types[value] == self.program.types[op.result]

    def is_zero(self, value: int) -> bool:
        return type(found := self.constants.get(value)) is int and found == 0

    def key(self, op: Op) -> Key | None:
        if isinstance(op, Let):
            return None if may_flag(self.program, op) else (op.op, *op.args)
        if isinstance(op, Constant):
            return ("constant", self.program.types[op.result], repr(op.value))
        if isinstance(op, Size) and not isinstance(self.program.types[op.array], List):
            return ("size", op.array, op.axis)
        return None


def may_flag(program: Program, op: Let) -> bool:
    return sets_flags(op.op, program.types[op.result])


# --- ops that nobody reads

PURE: Final = frozenset((Let, Constant, Load, Gather, Size, View, Alloc, NewList))


def drop_unused(program: Program, region: Region, is_reported: bool = True) -> int:
    """Ops without an effect whose results are read nowhere, and what inner loops hand on to themselves alone. How many ops went.

    One that may set a flag is kept, where such are reported: NumPy reports it.
    """
    return Unread(program, is_reported).drop(region)


@dataclass(slots=True)
class Unread:
    program: Program
    is_reported: bool
    needed: set[int] = field(default_factory=set)
    depth: int = 0  # of regions: who reads results of the outermost ops is not known

    def drop(self, region: Region) -> int:
        """From the end on: a value is defined before it is used, also where blocks are in their order."""
        kept: Region = []
        dropped = 0
        for op in reversed(region):
            kind = type(op)
            if kind in PURE and op.result not in self.needed:  # type: ignore[attr-defined]
                if kind is not Let or not self.is_reported or not may_flag(self.program, op):  # type: ignore[arg-type]
                    dropped += 1
                    continue
            elif kind in REGIONS:
                if self.depth and isinstance(op, For):
                    self.hand_on_less(op)
                elif self.depth and isinstance(op, If):
                    self.choose_less(op)
                self.depth += 1
                for part in reversed(REGIONS[kind](op)):
                    dropped += self.drop(part)
                self.depth -= 1
            kept.append(op)
            self.needed.update(USES[kind](op))
        if len(kept) < len(region):
            region[:] = kept[::-1]
        return dropped

    def hand_on_less(self, op: For) -> None:
        """Leave out what the loop hands from one iteration to the next, where nobody reads it but what computes it."""
        end = op.body[-1]
        assert isinstance(end, Yield), end
        unread = {k for k, result in enumerate(op.results) if result not in self.needed}
        while unread:
            needed = self.needed_in(op.body[:-1], {value for k, value in enumerate(end.values) if k not in unread})
            still = {k for k in unread if op.args[k] not in needed}
            if still == unread:
                break
            unread = still
        for values in (op.args, op.initial, op.results, end.values) if unread else ():
            values[:] = [value for k, value in enumerate(values) if k not in unread]

    def choose_less(self, op: If) -> None:
        """Leave out what nobody reads of what a choice gives."""
        unread = {k for k, result in enumerate(op.results) if result not in self.needed}
        ends = [arm[-1] for arm in (op.then, op.orelse)]
        for values in (op.results, *(end.values for end in ends if isinstance(end, Yield))) if unread else ():
            values[:] = [value for k, value in enumerate(values) if k not in unread]

    def needed_in(self, region: Region, needed: set[int]) -> set[int]:
        """What a region reads that hands on these values."""
        for op in reversed(region):
            kind = type(op)
            if isinstance(op, If):
                read = [k for k, result in enumerate(op.results) if result in needed]
                for *arm, end in (op.then, op.orelse):
                    found = {end.values[k] for k in read} if isinstance(end, Yield) else {*USES[type(end)](end)}
                    needed |= self.needed_in(arm, found)
                needed.add(op.condition)
                continue
            is_kept = kind is Let and self.is_reported and may_flag(self.program, op)  # type: ignore[arg-type]
            if kind not in PURE or is_kept or op.result in needed:  # type: ignore[attr-defined]
                needed.update(USES[kind](op), *(USES[type(each)](each) for part in regions(op) for each in walk(part)))
        return needed
