"""Chains of slow operations in stages: while a vector waits for its division, others are in the stages before and after it.

A processor finds what it can do among some hundreds of instructions ahead. One vector's way through an option's price, two
divisions, a root, a logarithm and an exponential one after another, is longer than two of its vectors fill that room, so units
stand idle. Cut after each slow operation, with the stages of one turn of the loop in different vectors, all that is in the room
can be done at once (software pipelining). Values go from stage to stage through rows that stay in the nearest cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npcompile.backends.cpu.c_functions import VECTORISED
from npcompile.backends.cpu.primitives import NUMPY_LIBM, kind
from npcompile.backends.kernels.index import is_number, split_linear, symbols_in
from npcompile.backends.kernels.kernel import Let, Load, Loop, Position, Statement, Store, Value
from npcompile.backends.kernels.operations import is_costly, op_cost, short
from npcompile.tensor_core.op import Cost

MOST_STAGES = 5
MOST_ROWS = 64
LATENCY = {Cost.DIVISION: 6, Cost.FUNCTION: 20}  # beside 1 of a quick operation
LONG = 40  # the same of operations one after another that are worth stages
QUICK = 10  # quick operations one after another that are a step as a slow one is
FEWEST = 256  # elements: fewer are not worth it
VECTOR = 64  # bytes of the widest vectors

Made = Let | Load | Position


@dataclass(slots=True)
class Stage:
    """What is done to an element in one turn. It reads `taken` from rows of the stages before, and leaves `left` in others."""

    statements: list[Made | Store] = field(default_factory=list)
    taken: list[Value] = field(default_factory=list)
    left: list[Value] = field(default_factory=list)


@dataclass(slots=True)
class Pipeline:
    """An innermost parallel loop, whole and in stages."""

    axis: str
    body: list[Made | Store]
    stages: list[Stage]

    @property
    def rows(self) -> list[Value]:
        return [v for stage in self.stages for v in stage.left]

    @property
    def step(self) -> int:
        """The elements of a turn: a vector of the widest."""
        return VECTOR // max(v.dtype.itemsize for s in self.body for v in ([s.value] if isinstance(s, Store) else [s.target]))


def pipeline_of(loop: Loop) -> Pipeline | None:
    """The stages of an innermost parallel loop, where there is something to gain and no order to keep."""
    body = independent(loop.body)
    made = [s for s in body if not isinstance(s, Store) and not is_free(s, loop.axis)]
    if isinstance(loop.size, int) and loop.size < FEWEST or longest(made) < LONG:
        return None
    steps = steps_of(made)
    count = min(max(steps.values()), MOST_STAGES)
    homes = {name: (step - 1) * count // max(steps.values()) for name, step in steps.items()}
    stages = [Stage() for _ in range(count)]
    for s in body:
        if isinstance(s, Store):
            stages[-1].statements.append(s)
        elif s.target.name in homes:
            stages[homes[s.target.name]].statements.append(s)
    free = {s.target.name: s for s in body if not isinstance(s, Store) and s.target.name not in homes}
    for k, stage in enumerate(stages):
        read = {v.name: v for s in stage.statements for v in operands(s)}
        stage.taken = [v for name, v in read.items() if homes.get(name, k) < k]
        for v in stage.taken:
            home = stages[homes[v.name]]
            home.left += [v] * (v not in home.left)
        stage.statements[:0] = [free[name] for name in read if name in free]
    found = Pipeline(loop.axis, body, stages)
    return found if len(found.rows) <= MOST_ROWS else None


def independent(body: Sequence[Statement]) -> list[Made | Store]:
    """The statements, where all of it is done in vectors, and nothing read where the loop writes; else none."""
    values = {s.target.name for s in body if isinstance(s, (Let, Load))}
    found: list[Made | Store] = []
    for s in body:
        match s:
            case Let(target, op):
                is_fit = not is_costly(op) or NUMPY_LIBM.get(op) in VECTORISED.get(short(target.dtype), "").split()
            case Load(target, _, index, mask):
                is_fit = not mask and not symbols_in(index) & values
            case Position(target, index) | Store(_, index, target):
                is_fit = not symbols_in(index) & values
            case _:
                return []
        if not is_fit or kind(target.dtype) not in "biuf":
            return []
        found.append(s)
    written = {s.buffer for s in found if isinstance(s, Store)}
    return [] if any(isinstance(s, Load) and s.buffer in written for s in found) else found


def operands(s: Made | Store) -> Sequence[Value]:
    return s.args if isinstance(s, Let) else [s.value] if isinstance(s, Store) else ()


def is_free(s: Made, axis: str) -> bool:
    """Is it quicker to have it again in each stage that needs it than to leave it in a row?"""
    if isinstance(s, Load):
        linear = split_linear(s.offset, axis)
        return linear is not None and any(is_number(linear[0], step) for step in (0, s.target.dtype.itemsize))
    return isinstance(s, Position) or not s.args


def latency(s: Made) -> int:
    """How long the result comes after the operands, as a multiple of what an addition takes."""
    return LATENCY.get(op_cost(s.op), 1) if isinstance(s, Let) and s.target.dtype.kind == "f" else 1


def longest(made: Sequence[Made]) -> int:
    """The latency of all operations that wait for each other."""
    found: dict[str, int] = {}
    for s in made:
        found[s.target.name] = latency(s) + max((found.get(v.name, 0) for v in operands(s)), default=0)
    return max(found.values(), default=0)


def steps_of(made: Sequence[Made]) -> dict[str, int]:
    """In which step, from 1 on, each value is made. A slow operation ends a step, or some quick ones after another.

    What is not waited for comes as late as it may, where that does not keep several values instead of one.
    """
    early: dict[str, int] = {}  # how many ends of steps there are before a value, or with it
    waited: dict[str, int] = {}  # quick operations since
    ends: set[str] = set()
    readers: dict[str, list[str]] = {s.target.name: [] for s in made}
    for s in made:
        name, before = s.target.name, [v.name for v in operands(s) if v.name in early]
        early[name] = max((early[v] for v in before), default=0)
        waited[name] = 1 + max((waited[v] for v in before if early[v] == early[name]), default=0)
        if latency(s) > 1 or waited[name] == QUICK:
            early[name], waited[name] = early[name] + 1, 0
            ends.add(name)
        for v in before:
            readers[v].append(name)
    deepest = max(early.values())
    late: dict[str, int] = {}
    last: dict[str, int] = {}  # the last step that may be ended by what this value is made of
    for s in reversed(made):
        name = s.target.name
        after = [last[r] if name in ends else late[r] for r in readers[name]]
        is_alone = len({v.name for v in operands(s)} & early.keys()) < 2
        late[name] = max(early[name], 1, min(after, default=deepest) if is_alone else 0)
        is_waited_for = name in ends or any(last[r] < late[r] == late[name] for r in readers[name])
        last[name] = late[name] - is_waited_for
    return late
