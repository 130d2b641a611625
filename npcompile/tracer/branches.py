"""Branches on data as nodes of the graph: both arms are captured up to where they meet, and the program runs one of them.

An arm may compute; what else it does, and what the two leave behind differently, ends the graph before the branch instead.
"""

from __future__ import annotations

from collections.abc import Iterator as AbstractIterator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from npcompile.tensor_core.array import STEPS, Array, ClosedWrite, Storage, reshaped
from npcompile.tensor_core.control import Trace, join_traces, truth
from npcompile.tensor_core.float_errors import may_report
from npcompile.tensor_core.graph import Builder, Node, topological
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.op import OPS
from npcompile.tracer.branch_merge import Arm, Before, Pairs, require_unwritten
from npcompile.tracer.bytecode.analysis import CodeFacts, analyse
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import BodyDeclined, Branch, Frame, Jump, Outcome, Return
from npcompile.tracer.restarts import Restart
from npcompile.tracer.values import Lazy

EXIT = -1  # where arms meet that both return
MOST_NESTED = 12  # an early return has the rest of the function in its other arm
MOST_STORAGES = 16  # arrays made before that the arms write to
FAILURES = (IndexError,)  # what `cond` is known to raise


def capture_branch(frame: Frame, i: Instruction, branch: Branch, starts: tuple[int, int]) -> int | Outcome | None:
    """Where to go on with both arms in the graph, or None. `starts` are the arms' first instructions, the true one first."""
    decisions = frame.capture.decisions
    key = frame.program.code, i.index
    region = Region.of(frame.program.code, i.index)
    if key in decisions.branches or region is None or i.index in region.instructions:
        return None
    if frame.parent is None and not region.instructions.isdisjoint(decisions.stops):
        return None
    if any(frame.program.instructions[k].traits.flow == "yield" for k in region.instructions):
        return None
    if sum(1 for _ in enclosing(frame)) >= MOST_NESTED:
        decisions.branches[key] = "branches are nested too deeply"
        return None
    stacks = branch.if_true[1], branch.if_false[1]
    try:
        return Junction(frame, region, branch, [*zip(starts, stacks)]).capture()
    except ClosedWrite:
        raise
    except (Decline, BodyDeclined) as declined:
        decisions.branches[key] = reason = (declined.decline if isinstance(declined, BodyDeclined) else declined).reason
        outer = [(each.program.code, each.index) for each in enclosing(frame)]  # a graph cannot end in an arm
        decisions.branches |= {k: reason for k in outer if k not in decisions.branches}
        if isinstance(declined, BodyDeclined):
            decisions.with_effects |= {key, *outer}
        raise Restart from None


def enclosing(frame: Frame) -> AbstractIterator[Frame]:
    """The frames at the branches in whose arms this is."""
    each: Frame | None = frame
    while each is not None:
        if each.ends_at is not None and each.parent is not None:
            yield each.parent
        each = each.parent


def hint(frame: Frame, i: Instruction) -> str:
    """What to do about a branch that ends the graph, and why it does."""
    why = frame.capture.decisions.branches.get((frame.program.code, i.index))
    return f"{f'It is no node of the graph: {why}. ' if why else ''}np.where computes both arms in one graph."


# --- which part of the code the arms are


@dataclass(frozen=True, slots=True)
class Region:
    """The instructions of both arms, and where they meet."""

    meeting: int
    instructions: frozenset[int]

    @classmethod
    def of(cls, code: Any, index: int) -> Region | None:
        """Of the branch at `index`. None where no arm comes to an end."""
        facts = analyse(code)
        if code not in _meetings:
            _meetings[code] = meetings(facts)
        meeting = _meetings[code].get(index)
        if meeting is None:
            return None
        found: set[int] = set()
        pending = [*facts.successors[index]]
        while pending:
            k = pending.pop()
            if k != meeting and k not in found:
                found.add(k)
                pending += facts.successors[k]
        return cls(meeting, frozenset(found))


_meetings: WeakKeyDictionary[Any, dict[int, int]] = WeakKeyDictionary()


def meetings(facts: CodeFacts) -> dict[int, int]:
    """The immediate post-dominator of each branch: exceptions aside, control comes there from all its arms."""
    count = len(facts.instructions)
    everywhere = (1 << count + 1) - 1  # a bit for each instruction, and one for EXIT
    after = [everywhere] * count
    is_changing = True
    while is_changing:
        is_changing = False
        for k in range(count - 1, -1, -1):
            following = facts.successors[k]
            found = everywhere
            for s in following:
                found &= after[s]
            if facts.instructions[k].traits.flow == "return" and not following:
                found = 1 << count
            found |= 1 << k
            if found != after[k]:
                after[k], is_changing = found, True
    result = {}
    for k, following in enumerate(facts.successors):
        others = after[k] & ~(1 << k)
        if len(following) > 1 and after[k] != everywhere and others:
            # The nearest is the one after which all the others are.
            nearest = next((j for j in range(count) if others >> j & 1 and after[j] == others), EXIT)
            result[k] = nearest
    return result


# --- both arms


@dataclass(slots=True, eq=False)
class Junction:
    frame: Frame
    region: Region
    branch: Branch
    starts: list[tuple[int, list[Any]]]  # instruction and stack of each arm
    storages: list[Storage] = field(default_factory=list)  # made before, and written by an arm

    def capture(self) -> int | Outcome:
        undecided = len(self.frame.capture.undecided)
        while True:
            del self.frame.capture.undecided[undecided:]
            before = Before.of(self.frame)
            try:
                arms = [self.run(start, stack, before) for start, stack in self.starts]
            except BodyDeclined as declined:
                storage = declined.decline.storage if isinstance(declined.decline, ClosedWrite) else None
                if storage is None or storage.source is not None or storage in self.storages or before.is_changed():
                    raise
                if storage.builder is not self.frame.capture.builder:  # made outside of the arm that this is in
                    raise declined.decline from None
                if len(self.storages) >= MOST_STORAGES:
                    raise
                self.storages.append(storage)
            else:
                return self.join(arms, before)

    def run(self, start: int, stack: list[Any], before: Before) -> Arm:
        outer, capture = self.frame, self.frame.capture
        inner = Builder(env=capture.builder.env, location=capture.builder.location, ignored=capture.builder.ignored)
        inputs = [inner.input(s.node.meta.with_(strides=(), writeable=False)) for s in self.storages]
        frame = Frame(
            capture,
            outer.program,
            outer.globals,
            outer.globals_source,
            dict(outer.locals),
            cells=outer.cells,
            stack=stack.copy(),
            index=start,
            parent=outer,
            contexts=outer.contexts.copy(),
            visits=dict(outer.visits),
            before=outer.before,
            ends_at=self.region.meeting,
        )
        saved = [(s.node, s.builder) for s in self.storages]
        for storage, node in zip(self.storages, inputs):
            storage.node, storage.builder = node, inner
        try:
            undecided = len(capture.undecided)
            with capture.within(inner):
                outcome = frame.run()
            require_unwritten(capture, capture.undecided[undecided:])  # what is left of them is undecided after the branch too
            del capture.undecided[undecided:]
            contents = [s.node for s in self.storages]
        finally:
            for storage, (node, builder) in zip(self.storages, saved):
                storage.node, storage.builder = node, builder
        if before.is_changed() or frame.contexts != outer.contexts or not isinstance(outcome, (Jump, Return)):
            raise BodyDeclined(Decline("an arm changes more than arrays"))
        return Arm(inner, inputs, contents, frame, outcome.value if isinstance(outcome, Return) else None)

    def node_after(self, arm: Arm, x: Array) -> Node:
        """The contents in the end of the arm."""
        if x.storage not in self.storages:
            return x.node
        node = arm.contents[self.storages.index(x.storage)]
        for step in x.steps:
            node = STEPS[step.kind].read(arm.builder, node, step.param)
        return node

    def join(self, arms: list[Arm], before: Before) -> int | Outcome:
        pairs = Pairs(self.frame, arms, before)
        try:
            return self.join_pairs(arms, pairs)
        finally:
            pairs.plans.clear()  # they refer to the pairs, and would keep the arguments of this call

    def join_pairs(self, arms: list[Arm], pairs: Pairs) -> int | Outcome:
        frame, builder = self.frame, self.frame.capture.builder
        true, false = (arm.frame for arm in arms)
        if self.region.meeting == EXIT:
            value = pairs.plan(arms[0].result, arms[1].result)
            stack, variables = [], {}
        else:
            live = analyse(frame.program.code).live_locals(self.region.meeting)
            if len(true.stack) != len(false.stack):
                raise Decline("the arms leave stacks of different depths")
            stack = [pairs.plan(a, b) for a, b in zip(true.stack, false.stack)]
            variables = {n: pairs.plan(true.locals[n], false.locals[n]) for n in live if pairs.is_bound(n)}
        pairs.decide()
        outputs = [[*arm.contents, *(self.node_after(arm, pair[k]) for pair in pairs.leaves)] for k, arm in enumerate(arms)]
        metas = [*(s.node.meta for s in self.storages), *pairs.metas]
        for arm, results in zip(arms, outputs):
            require_seen_failures(frame.capture, arm.builder, results)
        traces = [Trace(arm.builder, arm.inputs, results, metas) for arm, results in zip(arms, outputs)]
        if self.branch.condition.negated:
            traces.reverse()
        predicate = truth(builder, reshaped(builder, self.branch.condition.array.node, ()))
        nodes = join_traces(builder, predicate, traces, [s.node for s in self.storages], metas) if metas else []
        for storage, node in zip(self.storages, nodes):
            storage.node = node
        pairs.make(nodes[len(self.storages) :], (frame.program.code, frame.index))
        if self.region.meeting == EXIT:
            return Return(value())
        frame.stack[:] = [make() for make in stack]
        unread = {n: v for n, v in true.locals.items() if isinstance(v, Lazy) and false.locals.get(n) is v}
        frame.locals = unread | {name: make() for name, make in variables.items()}
        meeting = self.region.meeting
        is_next_iteration = meeting <= self.frame.index and meeting in analyse(frame.program.code).loop_headers
        return frame.jump_back(meeting) if is_next_iteration else meeting


def require_seen_failures(capture: Capture, builder: Builder, results: Sequence[Node]) -> None:
    """What may raise for some data must be among what the program computes, and be what `cond` raises.

    What reports a floating-point error must be among it too, where these are reported.
    """
    used = set(topological(results))
    for node in builder.made:
        if OPS[node.op].raises and (node not in used or not set(OPS[node.op].raises) <= set(FAILURES)):
            raise Decline(f"{node.op} may raise in an arm")
    if capture.place is not None or capture.goes_through_gradients:
        return
    for node in builder.made:
        if node not in used and node in builder.loud and may_report(node):
            raise Decline(f"{node.op} may report an error in an arm, and nothing uses its result")
