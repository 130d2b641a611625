"""Branches on data as nodes of the graph: both arms are captured up to where they meet, and the program runs one of them.

An arm may compute; what else it does, and what the two leave behind differently, ends the graph before the branch instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Iterator as AbstractIterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from npcompile.tensor_core.array import Array, ClosedWrite, Storage, reshaped
from npcompile.tensor_core.control import Trace, join_traces, truth
from npcompile.tensor_core.dim import Dim, same
from npcompile.tensor_core.graph import Builder, Node, topological
from npcompile.tensor_core.meta import Decline, TensorMeta
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.op import OPS
from npcompile.tracer.bytecode.analysis import CodeFacts, analyse
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.capture import Restart
from npcompile.tracer.frame import BodyDeclined, Branch, Frame, Jump, Outcome, Return
from npcompile.tracer.values import (
    Cell,
    Constant,
    Iterator,
    Lazy,
    Mapping,
    OutsideMapping,
    OutsideSequence,
    Record,
    SliceValue,
    TensorValue,
    children,
)
from npcompile.tracer.values import Sequence as SequenceValue

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
    if any(frame.program.instructions[k].opname == "YIELD_VALUE" for k in region.instructions):
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
        for outer in enclosing(frame):  # a graph cannot end in an arm
            decisions.branches.setdefault((outer.program.code, outer.index), reason)
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
            if facts.instructions[k].name.startswith("RETURN_") and not following:
                found = 1 << count
            found |= 1 << k
            if found != after[k]:
                after[k], is_changing = found, True
    result = {}
    for k, following in enumerate(facts.successors):
        others = after[k] & ~(1 << k)
        if len(following) > 1 and after[k] != everywhere and others:
            # The nearest is the one behind which all the others are.
            nearest = next((j for j in range(count) if others >> j & 1 and after[j] == others), EXIT)
            result[k] = nearest
    return result


# --- both arms


@dataclass(slots=True, eq=False)
class Arm:
    """One arm, captured."""

    builder: Builder
    inputs: list[Node]  # for the contents of the storages
    contents: list[Node]  # of the storages, in the end
    frame: Frame
    result: Any  # what it returns, where the arms meet at the exit


@dataclass(slots=True, eq=False)
class Junction:
    frame: Frame
    region: Region
    branch: Branch
    starts: list[tuple[int, list[Any]]]  # instruction and stack of each arm
    storages: list[Storage] = field(default_factory=list)  # made before, and written by an arm

    def capture(self) -> int | Outcome:
        while True:
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
            ends_at=self.region.meeting,
        )
        saved = [(s.node, s.builder) for s in self.storages]
        for storage, node in zip(self.storages, inputs):
            storage.node, storage.builder = node, inner
        try:
            with capture.within(inner):
                outcome = frame.run()
            contents = [s.node for s in self.storages]
        finally:
            for storage, (node, builder) in zip(self.storages, saved):
                storage.node, storage.builder = node, builder
        if before.is_changed() or frame.contexts != outer.contexts or not isinstance(outcome, (Jump, Return)):
            raise Decline("an arm changes more than arrays")
        return Arm(inner, inputs, contents, frame, outcome.value if isinstance(outcome, Return) else None)

    def node_after(self, arm: Arm, x: Array) -> Node:
        """The contents in the end of the arm."""
        return arm.contents[self.storages.index(x.storage)] if x.storage in self.storages else x.node

    def join(self, arms: list[Arm], before: Before) -> int | Outcome:
        frame, builder = self.frame, self.frame.capture.builder
        true, false = (arm.frame for arm in arms)
        pairs = Pairs(frame, arms, before)
        if self.region.meeting == EXIT:
            value = pairs.plan(arms[0].result, arms[1].result)
            stack, variables = [], {}
        else:
            live = analyse(frame.program.code).live_locals(self.region.meeting)
            if len(true.stack) != len(false.stack):
                raise Decline("the arms leave stacks of different depths")
            stack = [pairs.plan(a, b) for a, b in zip(true.stack, false.stack)]
            variables = {n: pairs.plan(true.locals[n], false.locals[n]) for n in live if pairs.is_bound(n)}
        pairs.require_old_is_gone()
        outputs = [[*arm.contents, *(self.node_after(arm, pair[k]) for pair in pairs.leaves)] for k, arm in enumerate(arms)]
        metas = [*(s.node.meta for s in self.storages), *(a.meta for a, _ in pairs.leaves)]
        for arm, results in zip(arms, outputs):
            require_seen_failures(arm.builder, results)
        traces = [Trace(arm.builder, arm.inputs, results, metas) for arm, results in zip(arms, outputs)]
        if self.branch.condition.negated:
            traces.reverse()
        predicate = truth(builder, reshaped(builder, self.branch.condition.array.node, ()))
        nodes = join_traces(builder, predicate, traces, [s.node for s in self.storages], metas) if metas else []
        for storage, node in zip(self.storages, nodes):
            storage.node = node
        pairs.made = [joined_array(builder, n, a.meta) for n, (a, _) in zip(nodes[len(self.storages) :], pairs.leaves)]
        if self.region.meeting == EXIT:
            return Return(value())
        frame.stack[:] = [make() for make in stack]
        frame.locals = {name: make() for name, make in variables.items()}
        meeting = self.region.meeting
        is_next_iteration = meeting <= self.frame.index and meeting in analyse(frame.program.code).loop_headers
        return frame.jump_back(meeting) if is_next_iteration else meeting


def joined_array(builder: Builder, node: Node, meta: TensorMeta) -> Array:
    return Array(Storage(builder, node, meta), (), meta)


def require_seen_failures(builder: Builder, results: Sequence[Node]) -> None:
    """What may raise for some data must be among what the program computes, and be what `cond` raises."""
    used = set(topological(results))
    for node in builder.made:
        if OPS[node.op].raises and (node not in used or not set(OPS[node.op].raises) <= set(FAILURES)):
            raise Decline(f"{node.op} may raise in an arm")


# --- what must be the same after an arm as before


@dataclass(slots=True, eq=False)
class Before:
    """Every object that the arms can reach and change, beside arrays, with what it holds."""

    holders: dict[int, tuple[Any, tuple[Any, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: Frame) -> Before:
        made = cls()
        own = [*frame.stack, *frame.locals.values()]
        for value in reachable([*own, *lasting(frame)]):
            made.holders[id(value)] = value, contents_of(value)
        return made

    def is_changed(self) -> bool:
        return any(found and not is_same_contents(found, contents_of(value)) for value, found in self.holders.values())


def lasting(frame: Frame) -> list[Any]:
    """What there is beside the frame's own variables and stack: of its callers, in cells, and in objects from outside."""
    capture = frame.capture
    found: list[Any] = [*capture.cells.values(), *capture.realized.values(), *frame.cells.values()]
    found += [v for effect in getattr(capture, "effects", ()) for v in effect.values]
    while frame.parent is not None:
        is_arm, frame = frame.ends_at is not None, frame.parent
        found += frame.cells.values()
        if not is_arm:  # of which this is a copy
            found += [*frame.stack, *frame.locals.values()]
    return found


def reachable(roots: list[Any]) -> list[Any]:
    """These values and all that they hold, as far as it was looked at."""
    found: dict[int, Any] = {}
    pending = list(roots)
    while pending:
        value = pending.pop()
        if id(value) not in found and value is not None:
            found[id(value)] = value
            pending += parts_of(value)
    return list(found.values())


def parts_of(value: Any) -> list[Any]:
    if isinstance(value, (OutsideSequence, OutsideMapping)) and not value.is_loaded:
        return []
    written = getattr(value, "written", None)  # attributes of objects from outside
    return [*children(value), *(written.values() if isinstance(written, dict) else ())]


def contents_of(value: Any) -> tuple[Any, ...]:
    match value:
        case OutsideSequence() | OutsideMapping() if not value.is_loaded:
            return ()
        case Iterator():
            return (*value.parts, value.position)
        case Cell() | SequenceValue() | Mapping() | Record():
            keys = value.items.keys() if isinstance(value, (Mapping, Record)) else ()
            return (value, *keys, *parts_of(value))
    return ()


def is_same_contents(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(x is y or (type(x) is int and x == y) for x, y in zip(a, b))


# --- what is left behind


@dataclass(slots=True, eq=False)
class Pairs:
    """What the arms leave in the same places: values that are one value, and arrays that are results of the node."""

    frame: Frame
    arms: list[Arm]
    before: Before
    leaves: list[tuple[Array, Array]] = field(default_factory=list)
    made: list[Array] = field(default_factory=list)  # for the leaves
    plans: dict[tuple[int, int], Callable[[], Any]] = field(default_factory=dict)
    places: dict[tuple[int, int], int] = field(default_factory=dict)  # of pairs of arrays among the leaves
    partners: dict[int, int] = field(default_factory=dict)  # ids of what can be changed -> of its like in the other arm
    kept: list[Any] = field(default_factory=list)  # so that ids stay theirs
    unchanged: list[Any] = field(default_factory=list)  # values that are the same after both arms
    old: list[Storage] = field(default_factory=list)  # memory from before that an array of the leaves has

    def require_old_is_gone(self) -> None:
        """An array from before becomes another that is like it: nothing else may show its memory."""
        if not self.old:
            return
        for value in reachable([*self.unchanged, *lasting(self.frame)]):
            if isinstance(value, Array) and value.storage in self.old:
                raise Decline("an arm leaves an array made before, which is used elsewhere")
            if getattr(value, "advance", None) is not None:
                raise Decline("an arm leaves an array made before, beside a generator")

    def is_bound(self, name: str) -> bool:
        """Has the variable a value after the branch?"""
        true, false = (name in arm.frame.locals for arm in self.arms)
        if true is not false:
            raise Decline(f"{name!r} has a value after one arm only")
        return true

    def plan(self, a: Any, b: Any) -> Callable[[], Any]:
        """What makes the value that is `a` or `b`, once the node is made. One pair makes one value."""
        if a is not b and not (isinstance(a, Lazy) and isinstance(b, Lazy) and a.source == b.source):
            a, b = (self.frame.capture.realize(v) for v in (a, b))
        if a is b or isinstance(a, Lazy):
            self.unchanged.append(a)
            return lambda: a
        key = id(a), id(b)
        if key not in self.plans:
            self.kept += (a, b)
            self.plans[key] = once(self.new_plan(a, b))
        return self.plans[key]

    def new_plan(self, a: Any, b: Any) -> Callable[[], Any]:
        if is_equal(a, b):
            self.unchanged.append(a)
            return lambda: a
        match a, b:
            case Array(), Array():
                return self.plan_array(a, b)
            case TensorValue(), TensorValue() if a.source is None and b.source is None:
                array = self.plan_array(a.array, b.array)
                return lambda: TensorValue(array())
            case SequenceValue(), SequenceValue() if a.kind is b.kind and len(a.items) == len(b.items):
                self.require_own(a, b)
                items = [self.plan(x, y) for x, y in zip(a.items, b.items)]
                return lambda: SequenceValue(a.kind, [make() for make in items])
            case Mapping(), Mapping() if [*a.items] == [*b.items] and [*map(type, a.items)] == [*map(type, b.items)]:
                self.require_own(a, b)
                named = {k: self.plan(a.items[k], b.items[k]) for k in a.items}
                return lambda: Mapping({k: make() for k, make in named.items()})
            case Record(), Record() if a.kind is b.kind and a.items.keys() == b.items.keys():
                self.require_own(a, b)
                named = {k: self.plan(a.items[k], b.items[k]) for k in a.items}
                return lambda: Record(a.kind, {k: make() for k, make in named.items()})
        raise Decline("the arms leave different values")

    def plan_array(self, a: Array, b: Array) -> Callable[[], Any]:
        if not is_same_meta(a.meta, b.meta):
            raise Decline("the arms leave arrays of different dtype, shape or memory order")
        if a.meta.boxed:  # memory of its own, which the arm made
            for x, arm in zip((a, b), self.arms):
                if x.steps or x.storage.source is not None:
                    raise Decline("an arm leaves a view, or an array from outside")
                if x.storage.builder is not arm.builder:
                    self.old.append(x.storage)
            self.pair(a.storage, b.storage)
        key = (id(a.storage), id(b.storage)) if a.meta.boxed else (id(a), id(b))
        place = self.places.setdefault(key, len(self.leaves))
        if place == len(self.leaves):
            self.leaves.append((a, b))
        return lambda: self.made[place]

    def require_own(self, a: Any, b: Any) -> None:
        """Both are made by the arms: what was there before is not made again. Tuples may be."""
        if any(getattr(x, "source", None) is not None for x in (a, b)):
            raise Decline("an arm leaves an object from outside")
        if isinstance(a, SequenceValue) and a.plain_kind is tuple:
            return
        if any(id(x) in self.before.holders for x in (a, b)):
            raise Decline("an arm leaves an object made before")
        self.pair(a, b)

    def pair(self, a: Any, b: Any) -> None:
        """What is one object in one arm is one in the other."""
        if self.partners.setdefault(id(a), id(b)) != id(b) or self.partners.setdefault(id(b), id(a)) != id(a):
            raise Decline("what is one object after one arm is two after the other")
        self.kept += (a, b)


def once(make: Callable[[], Any]) -> Callable[[], Any]:
    found: list[Any] = []

    def get() -> Any:
        if not found:
            found.append(make())
        return found[0]

    return get


def is_equal(a: Any, b: Any) -> bool:
    """Are these the same value, whichever arm runs?"""
    match a, b:
        case Constant(), Constant():
            x, y = a.value, b.value
            return x is y or (type(x) is type(y) and isinstance(x, (int, float, str, bytes)) and repr(x) == repr(y))
        case Dim(), Dim():
            return same(a, b)
        case Number(), Number():
            return a.text == b.text
        case Array(), Array():
            return a.storage is b.storage and a.steps == b.steps
        case SliceValue(), SliceValue():
            return all(is_equal(x, y) or x is y for x, y in zip(children(a), children(b)))
    return a is b


def is_same_meta(a: TensorMeta, b: TensorMeta) -> bool:
    sizes = [*zip((*a.shape, *a.strides), (*b.shape, *b.strides))]
    return (
        (a.dtype, a.boxed, a.weak, a.writeable, len(a.shape)) == (b.dtype, b.boxed, b.weak, b.writeable, len(b.shape))
        and len(a.strides) == len(b.strides)
        and all(same(n, m) for n, m in sizes)
    )
