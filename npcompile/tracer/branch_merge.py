"""What the two arms of a branch on data leave behind, as values that are one after the branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Iterator as AbstractIterator
from dataclasses import dataclass, field
from typing import Any

from npcompile.tensor_core.array import Array, Storage
from npcompile.tensor_core.dim import Dim, same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, TensorMeta
from npcompile.tensor_core.number import Integer, Number
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.fresh_classes import compared_text
from npcompile.tracer.restarts import Restart
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


@dataclass(slots=True, eq=False)
class Arm:
    """One arm, captured."""

    builder: Builder
    inputs: list[Node]  # for the contents of the storages
    contents: list[Node]  # of the storages, in the end
    frame: Frame
    result: object  # what it returns, where the arms meet at the exit


# --- arrays that are from before after one arm, and new after the other


@dataclass(frozen=True, slots=True, eq=False)
class Undecided:
    """An array whose memory data decides, or a scalar: which object. That cannot be seen as long as it is only read, and what it
    may be not written."""

    storage: Storage
    contents: tuple[tuple[Storage, Node], ...]  # of what it may be, where the branch ends
    branch: tuple[Any, int]  # its key in Decisions.branches


def require_unseen(capture: Capture, live: Sequence[Any]) -> None:
    """Arrays whose memory data decides may not leave the program: else their branches end the graph, in the next attempt."""
    if capture.undecided:
        require_unwritten(capture, capture.undecided)
        leaving = {id(v.storage) for v in reachable([*live]) if isinstance(v, Array)}
        refuse(capture, [each for each in capture.undecided if id(each.storage) in leaving])


def require_unwritten(capture: Capture, undecided: Sequence[Undecided]) -> None:
    refuse(capture, [each for each in undecided if any(storage.node is not node for storage, node in each.contents)])


def refuse(capture: Capture, seen: Sequence[Undecided]) -> None:
    for each in seen:
        capture.decisions.branches[each.branch] = "data decides whether an array is from before the branch, which shows later"
    if seen:
        raise Restart


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
    undecided: list[bool] = field(default_factory=list)  # of each of the leaves: does data decide whose memory it has?

    def decide(self) -> None:
        """What is from before becomes another that is like it where nothing else shows its memory, or which object it is."""
        others = reachable([*self.unchanged, *lasting(self.frame)])
        shown = {id(v.storage) for v in others if isinstance(v, Array)}
        has_generators = any(getattr(v, "advance", None) is not None for v in others)

        def may_show(x: Array, arm: Arm) -> bool:
            """May something else show the memory of what this arm leaves?"""
            if x.steps or x.storage.source is not None or x.storage.may_be:
                return True
            return x.storage.builder is not arm.builder and (has_generators or id(x.storage) in shown)

        for pair in self.leaves:
            is_undecided = any(map(may_show, pair, self.arms))
            self.undecided.append(is_undecided)
            if pair[0].meta.boxed and not is_undecided:
                self.pair(pair[0].storage, pair[1].storage)

    @property
    def metas(self) -> list[TensorMeta]:
        """Of the results for the leaves."""
        metas = (a.meta for a, _ in self.leaves)
        return [TensorMeta(m.shape, m.dtype) if is_undecided and m.boxed else m for m, is_undecided in zip(metas, self.undecided)]

    def make(self, nodes: Sequence[Node], branch: tuple[Any, int]) -> None:
        """The arrays that the results of the node are."""
        capture = self.frame.capture
        for node, (a, _) in zip(nodes, self.leaves):
            self.made.append(Array(Storage(capture.builder, node, a.meta), (), a.meta))
        for array, pair, is_undecided in zip(self.made, self.leaves, self.undecided):
            if is_undecided:
                array.storage.may_be = tuple(self.may_be(pair))
                contents = tuple((storage, storage.node) for storage in array.storage.may_be)
                capture.undecided.append(Undecided(array.storage, contents, branch))

    def may_be(self, pair: tuple[Array, Array]) -> AbstractIterator[Storage]:
        """Memory from before the branch, and what is new after it, that one of the leaves may show."""
        for k, x in enumerate(pair):
            for storage in (x.storage, *x.storage.may_be):
                yield storage
                for array, other in zip(self.made, self.leaves):
                    if other[k].storage is storage:
                        yield array.storage

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
        is_memory = a.meta.boxed and not a.steps and not b.steps
        key = (id(a.storage), id(b.storage)) if is_memory else (id(a), id(b))
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
            is_plain = type(x) is type(y) and isinstance(x, (int, float, str, bytes))
            return x is y or is_plain and compared_text(x) == compared_text(y)
        case Dim(), Dim():
            return same(a, b)
        case (Number(), Number()) | (Integer(), Integer()):
            return a.source == b.source
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
