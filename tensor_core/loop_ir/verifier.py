"""Is a program well formed? Tests ask after the front end and after every pass; sabotage of any rule is found by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from npcompile.tensor_core.loop_ir.exactness import SPECULATED, verify_exactness
from npcompile.tensor_core.loop_ir.flow import Flow, flow_of
from npcompile.tensor_core.loop_ir.forms import inner, regions, results, uses, walk
from npcompile.tensor_core.loop_ir.invalid import Invalid, Rule
from npcompile.tensor_core.loop_ir.op_types import verify_types
from npcompile.tensor_core.loop_ir.ops import (
    OF_CFG,
    OF_STRUCTURED,
    TERMINATORS,
    Again,
    Alloc,
    Block,
    Break,
    Cfg,
    Check,
    For,
    FpCheck,
    FrameState,
    Guard,
    If,
    LoopKind,
    Op,
    Policy,
    Poll,
    Program,
    Region,
    Routine,
    Scope,
    SideExit,
    Speculate,
    While,
    Yield,
)

__all__ = ["Invalid", "Rule", "Stage", "stage_of", "verify"]


NOT_IN_BLOCKS = tuple(each for each in OF_STRUCTURED if each is not For)  # statements about arrays are loops there
ABORTING = (*SPECULATED, Check, SideExit, Alloc)  # ops of iterations that run at once, where a caller undoes all of them


class Stage(Enum):
    CFG = "cfg"
    STRUCTURED = "structured"


def stage_of(program: Program) -> Stage:
    return Stage.CFG if len(program.body) == 1 and isinstance(program.body[0], Cfg) else Stage.STRUCTURED


def verify(program: Program) -> None:
    """Raises Invalid, which names the rule, where a program breaks one of docs/architecture/loop-ir.md's rules."""
    verifier = Verifier(program)
    if program.policy is Policy.ABORT:
        verifier.parallel = ABORTING
    for param in program.params:
        verifier.define(param.value)
    verifier.region(program.body, ())
    verify_types(program)
    verify_exactness(program)


@dataclass(slots=True)
class Target:
    """What Break, Again or Yield must give: the values that take theirs."""

    op: type[Op]
    label: int
    takes: list[int]


@dataclass(slots=True)
class Verifier:
    program: Program
    defined: set[int] = field(default_factory=set)  # anywhere
    visible: set[int] = field(default_factory=set)
    states: set[int] = field(default_factory=set)  # that are visible
    inside_cfg: bool = False
    parallel: tuple[type[Op], ...] = SPECULATED  # ops that iterations which run at once may hold

    def define(self, value: int) -> None:
        if value in self.defined:
            raise Invalid(Rule.DEFINED_ONCE, f"value {value} has two definitions")
        self.defined.add(value)
        self.visible.add(value)

    # --- regions

    def region(self, region: Region, targets: Sequence[Target]) -> None:
        """A region's ops, and that it has an end and nothing after it."""
        if not region:
            raise Invalid(Rule.ENDS, "a region has no ops")
        for op in region[:-1]:
            self.op(op, targets)
            if never_goes_on(op):
                raise Invalid(Rule.ENDS, f"ops follow {op}")
        self.op(region[-1], targets)
        if not never_goes_on(region[-1]):
            raise Invalid(Rule.ENDS, f"a region ends with {region[-1]}")

    def scoped(self, region: Region, values: Sequence[int], targets: Sequence[Target]) -> None:
        """A region that defines values for itself."""
        visible, states = set(self.visible), set(self.states)
        for value in values:
            self.define(value)
        self.region(region, targets)
        self.visible, self.states = visible, states

    def op(self, op: Op, targets: Sequence[Target]) -> None:
        self.stage(op)
        if hidden := [value for value in uses(op) if value not in self.visible]:
            raise Invalid(Rule.VISIBLE, f"{op} reads {hidden}, which are not defined where it stands")
        match op:
            case If():
                arm = Target(Yield, -1, op.results)
                for part in regions(op):
                    self.scoped(part, (), (*without_yield(targets), arm))
            case For():
                self.agree(op.initial, op.args, op)
                if op.kind is LoopKind.PARALLEL and (op.args or not all(isinstance(x, self.parallel) for x in walk(op.body))):
                    raise Invalid(Rule.PARALLEL, str(op))
                is_inside, self.inside_cfg = self.inside_cfg, False
                self.scoped(op.body, inner(op), (*without_yield(targets), Target(Yield, -1, op.args)))
                self.inside_cfg = is_inside
                self.agree(op.args, op.results, op)
            case Speculate():
                for part, taken in ((op.body, op.results), (op.undo, []), (op.slow, op.results)):
                    guarded = [Target(Guard, -1, [])] if part is op.body else []
                    self.scoped(part, (), (*without_yield(targets), *guarded, Target(Yield, -1, taken)))
            case While():
                self.agree(op.initial, op.args, op)
                self.scoped(op.body, inner(op), (*without_yield(targets), Target(Again, op.label, op.args)))
            case Scope():
                self.scoped(op.body, (), (*without_yield(targets), Target(Break, op.label, op.results)))
            case Cfg():
                self.cfg(op)
            case Break() | Again() | Yield():
                self.leave(op, targets)
            case Guard() if not any(target.op is Guard for target in targets):
                raise Invalid(Rule.TARGET, f"{op} has nothing to give up")
            case FrameState():
                self.states.add(op.name)
            case Check() | Poll() | FpCheck() | SideExit() | Routine() if op.state not in self.states:
                raise Invalid(Rule.KNOWN_STATE, f"{op} names a state that is not made where it stands")
        for value in results(op):
            self.define(value)

    def stage(self, op: Op) -> None:
        wrong = NOT_IN_BLOCKS if self.inside_cfg else OF_CFG
        if isinstance(op, wrong) or self.inside_cfg and isinstance(op, Cfg):
            raise Invalid(Rule.STAGE, f"{op} does not belong to this stage")

    def leave(self, op: Break | Again | Yield, targets: Sequence[Target]) -> None:
        label = -1 if isinstance(op, Yield) else op.target
        found = next((t for t in reversed(targets) if t.op is type(op) and t.label == label), None)
        if found is None:
            raise Invalid(Rule.TARGET, f"{op} has nothing to leave")
        self.agree(op.values, found.takes, op)

    def agree(self, given: Sequence[int], taken: Sequence[int], op: Op | Block) -> None:
        types = self.program.types
        if [types[value] for value in given] != [types[value] for value in taken]:
            raise Invalid(Rule.ARGUMENTS, f"{op} gives {list(given)} where {list(taken)} are taken")

    # --- blocks

    def cfg(self, op: Cfg) -> None:
        labels = [block.label for block in op.blocks]
        if len(set(labels)) != len(labels):
            raise Invalid(Rule.TARGET, "two blocks have one label")
        for block in op.blocks:
            if not block.ops or not isinstance(block.ops[-1], TERMINATORS):
                raise Invalid(Rule.ENDS, f"block {block.label} has no end")
        if unknown := {t for block in op.blocks for t in targets_of(block.ops[-1]) if t not in labels}:
            raise Invalid(Rule.TARGET, f"there are no blocks {unknown}")
        flow = flow_of(op)
        if op.blocks[0].args or unreached(op, flow):
            raise Invalid(Rule.TARGET, "the first block takes arguments, or a block is not reached")
        for label in flow.order:
            for edge in flow.edges_to[label]:
                self.agree(edge.args, flow.blocks[label].args, flow.blocks[label])
        self.inside_cfg = True
        self.blocks(flow)
        self.inside_cfg = False

    def blocks(self, flow: Flow) -> None:
        """A block sees what its dominators define."""
        seen = {flow.entry: (set(self.visible), set(self.states))}
        for label in flow.order:
            visible, states = seen[flow.dominator[label]]
            self.visible, self.states = set(visible), set(states)
            for value in flow.blocks[label].args:
                self.define(value)
            self.region(flow.blocks[label].ops, ())
            seen[label] = self.visible, self.states
        self.visible, self.states = set(), set()


def without_yield(targets: Sequence[Target]) -> Sequence[Target]:
    """A Yield belongs to the region that it stands in."""
    return [target for target in targets if target.op is not Yield]


def targets_of(op: Op) -> list[int]:
    return [getattr(op, name) for name in ("target", "then", "orelse") if hasattr(op, name)] if isinstance(op, OF_CFG) else []


def unreached(op: Cfg, flow: Flow) -> bool:
    return len(flow.order) != len(op.blocks)


def never_goes_on(op: Op) -> bool:
    """Does nothing after this op run?"""
    match op:
        case If():
            return not any(ends_with_yield(arm) for arm in (op.then, op.orelse))
        case Speculate(_, body):
            return not ends_with_yield(body)
        case Scope(label, body):
            return not breaks_to(body, label)
        case While() | Cfg():
            return True
    return isinstance(op, TERMINATORS)


def ends_with_yield(region: Region) -> bool:
    return bool(region) and isinstance(region[-1], Yield)


def breaks_to(region: Region, label: int) -> bool:
    found = any(isinstance(op, Break) and op.target == label for op in region)
    return found or any(breaks_to(part, label) for op in region for part in regions(op))
