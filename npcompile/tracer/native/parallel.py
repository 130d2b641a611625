"""Loops whose iterations are independent, written a second time as functions that threads run chunks of.

What a variable holds must not come from the iteration before, nor may what an array holds (`backends/cpu/loops/dependence.py`).
All that has no form there, or leaves the program, only ends the chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.column_packing import helper, name_of
from npcompile.backends.cpu.loops.dependence import MADE_BEFORE, Accesses, Inner, Origin, index_of
from npcompile.backends.cpu.loops.fp_status import IN_CHUNK, with_fewer_looks
from npcompile.backends.cpu.loops.parallel_loops import Spread, Sum, is_whole
from npcompile.backends.cpu.loops.scalar_loops import NoForm, ScalarLoops
from npcompile.backends.cpu.loops.value_ranges import Integer
from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.native.accumulations import Ordered, are_ordered, site
from npcompile.tracer.native.blocks import Blocks
from npcompile.tracer.native.loop_versions import staying, ways
from npcompile.tracer.native.states import NoProgram, State, has_known_steps, key_of
from npcompile.tracer.native.trip_counts import are_few
from npcompile.tracer.native.types import Items, Outside, Scalar, Steps, Together, Walk
from npcompile.tracer.native.variables import Variables, set_always

CALLED = re.compile(r"\brt->(\w+)")
# What bodies of parallel loops may call of the runtime.
IN_BODIES = frozenset(
    ("parallel", "parallel_in_pieces", "threads", "scratch", "release", "watch", "poll", "hold", "empty", "incref", "decref")
)


@dataclass(slots=True)
class Apart:
    """The loop whose chunk is being written."""

    spread: Spread
    header: int
    region: frozenset[int]
    key: tuple[Any, ...]  # of the block at its header
    once: frozenset[str]  # variables that one instruction of the loop sets
    slots: tuple[str, ...]
    held: frozenset[str]  # C variables of arrays that were made before
    comes_back: bool = False
    sums: dict[str, Sum] = field(default_factory=dict)  # variables that iterations only add to
    items: dict[str, str] = field(default_factory=dict)  # the loop's own variables -> C variables of their values
    inner: dict[str, Inner | None] = field(default_factory=dict)  # those of loops inside

    def at_header(self, index: int) -> list[str]:
        return self.spread.at_header() if index == self.header else []

    def go(self, code: ScalarLoops, index: int, key: tuple[Any, ...], copies: Iterable[tuple[str, str, str]]) -> None:
        """To a block of the loop, with variables that are set before: (variable, value, kind)."""
        if index == self.header:
            if key != self.key:
                raise NoProgram("an iteration begins with other types than the one before")
            self.comes_back = True
        copies = [c for c in copies if c[0] != c[1]]
        if any(kind == "object" and target in self.held for target, _, kind in copies):
            raise NoProgram("arrays that change their names")
        for target, value, kind in copies:
            self.set(code, target, value, kind)

    def store(self, b: Blocks, name: str, value: Any) -> Any:
        """What a variable of the loop holds when the instruction has set it."""
        if not isinstance(value, Ordered):
            if name in self.sums:
                raise NoProgram(f"{name} of the iteration before")
            return value
        if name != value.name or not value.steps or b.inside is not None:
            raise NoProgram(f"{value.name} of the iteration before")
        made = site(b.code, value, self.sums[name])
        values = [x.text for step in value.steps for x in step.operands if x is not None]
        for line in self.spread.set(self.sums[name], made, values):
            b.code.line(line)
        return Ordered(name, value.kind)

    def item(self, code: ScalarLoops, variable: str, place: str) -> None:
        """`place` is what the loop takes from its range or array, `variable` is its C variable."""
        if variable in self.items and code.strip is None:
            code.line(f"{self.items[variable]} = {place};")
            code.integers[place] = Integer(-(2**62), 2**62, ((self.items[variable], 1),))
        elif (inner := self.inner.get(variable)) is not None and code.strip is None:
            self.spread.accesses.inner[place] = inner

    def begin(self, code: ScalarLoops, inner: Steps, start: str) -> None:
        """A loop inside begins."""
        index = index_of(code.integer(start))
        made = Inner(inner.next, index) if index is not None and (inner.step or 0) > 0 else None
        if self.inner.setdefault(inner.next, made) != made:
            self.spread.accesses.are_known = False

    def set(self, code: ScalarLoops, target: str, value: str, kind: str) -> None:
        """A C variable that other blocks read is set."""
        if kind == "data":
            self.spread.accesses.moved(target, value)
        elif kind in ("int", "i8") and target[0] == "L":
            name, known = self.slots[int(target[1:].partition("_")[0])], code.integer(value)
            if name in self.once and known.terms is not None:
                code.integers[target] = known
            if name in self.once and value in self.spread.accesses.inner:
                self.spread.accesses.inner[target] = self.spread.accesses.inner[value]


def write_parallel(b: Blocks, index: int, label: str) -> None:
    """Write the chunks of the loop whose header is at `index`, where its iterations are independent."""
    iterator = b.state.stack[-1] if b.program.instructions[index].traits.flow == "next" else None
    if not isinstance(iterator, Steps | Walk | Together) or not has_known_steps(iterator):
        return
    region = loop_region(b.facts, index)
    found = ways(iterator)
    variables = Variables.of(b.facts, index, region)
    if any(isinstance(v, Outside) and n in variables.stored for n, v in b.state.locals.items()):
        return  # nothing is known of a variable yet
    sums = sums_of(b, index, region, variables.carried)
    if sums is None:
        b.noted("parallelize", index, f"{', '.join(sorted(variables.carried))} of the iteration before")
        return
    held = frozenset(p.root for p in parts_in(b.state))
    state = b.state
    b.state = State(state.stack, state.locals | {n: Ordered(n, s.kind) for n, s in sums.items()})

    def apart_with(columns: frozenset[str]) -> Apart:
        name = f"spread_{label}"
        accesses = Accesses(b.code.arrays, {f"{name}_at{k}": way.step for k, way in enumerate(found)}, columns=columns)
        spread = Spread(name, found, accesses, variables.has_results, sums=[*sums.values()])
        items = {way.first: spread.moving(k) for k, way in enumerate(found)}
        return Apart(spread, index, region, key_of(index, b.state), variables.once, b.facts.slots, held, sums=sums, items=items)

    code, before = b.code, Before.of(b.code)
    try:
        apart = apart_with(frozenset())
        functions, conditions = written(b, apart, label)
        if columns := columns_of(apart):
            before.restore(code)
            apart = apart_with(columns)
            functions, conditions = written(b, apart, label)
            code.functions += [text for text in dict.fromkeys(map(helper, apart.spread.columns)) if text not in code.functions]
    except NoForm as reason:
        before.restore(code)
        if index not in b.parallel:
            b.noted("parallelize", index, str(reason))
        return
    finally:
        b.state = state
    code.integers = before.integers
    code.copied |= apart.spread.accesses.columns & apart.spread.accesses.in_lanes
    code.functions += functions
    code.declarations = before.declarations + apart.spread.declarations()
    code.lines += [*apart.spread.call(conditions, code.failing()), f"{apart.spread.name}_slow:;"]
    b.parallel[index] = region
    b.noted("parallelize", index)
    b.noted("columns side by side", index, None if apart.spread.columns else "no matrix whose columns a loop inside reads")


@dataclass(frozen=True, slots=True)
class Before:
    """What the program has before the loop is written as chunks."""

    functions: list[str]
    declarations: list[str]
    integers: dict[str, Integer]
    apart: set[tuple[str, str]]
    statements: list[str]  # functions of statements over arrays

    @classmethod
    def of(cls, code: ScalarLoops) -> Before:
        made = code.statements.functions.copy() if code.statements is not None else []
        return cls(code.functions.copy(), code.declarations.copy(), code.integers.copy(), code.apart.copy(), made)

    def restore(self, code: ScalarLoops) -> None:
        code.functions, code.declarations = self.functions.copy(), self.declarations.copy()
        code.integers, code.apart = self.integers.copy(), self.apart.copy()
        if code.statements is not None:
            code.statements.functions = self.statements.copy()


def columns_of(apart: Apart) -> frozenset[str]:
    """The matrices that are worth a copy by columns, which a loop inside reads, others in each iteration or in lanes."""
    return frozenset() if apart.sums or not apart.inner else frozenset(a.name for a in apart.spread.accesses.in_columns())


def sums_of(b: Blocks, header: int, region: frozenset[int], carried: frozenset[str]) -> dict[str, Sum] | None:
    """The variables, where iterations only add to those of the one before."""
    always = set_always(b.facts, header, region)
    made: dict[str, Sum] = {}
    for name in sorted(carried):
        value = b.state.locals.get(name)
        if not isinstance(value, Scalar) or value.text not in b.code.variables:
            return None
        made[name] = Sum(f"sum{len(made)}", value.kind, value.text, name in always)
    return made if are_ordered(b.facts, header, region, carried) else None


def written(b: Blocks, apart: Apart, label: str) -> tuple[list[str], list[str]]:
    """(the functions, under which conditions they may run). Raises NoForm."""
    code, spread = b.code, apart.spread
    outer = code.lines, code.declarations, b.labels, b.pending, b.refused, b.clean, b.at, b.came_back.copy(), b.returns
    state = b.state
    declared, had = len(code.declarations), len(code.statements.functions) if code.statements is not None else 0
    code.lines, b.labels, b.pending, b.refused = [], {apart.key: label}, [], []
    b.apart, code.accesses = apart, spread.accesses
    try:
        begin(b, apart)
        b.pending.append((apart.header, state.copy(), label))
        b.write_pending()
        if not apart.comes_back:
            raise NoForm("no iteration is followed by another")
        writes = spread.accesses.written()
        if writes is None:
            raise NoForm("elements that several iterations may touch")
        if spread.has_results and is_whole(writes):
            raise NoForm("an iteration that cannot be put back alone")
        body, declarations = code.lines, code.declarations[declared:]
        made = code.statements.functions[had:] if code.statements is not None else []
        if not made and are_few(b, apart.region):
            raise NoForm("few iterations")
        if any(name not in IN_BODIES for line in [*body, *made] for name in CALLED.findall(line)):
            raise NoForm("what only one thread may do")
        body = with_fewer_looks(body, code.floats(), IN_CHUNK)
        functions = spread.functions(body, declarations, given(code, spread), apart.held)
        are_apart = code.keep_apart({w.array.name for w in writes}, spread.kinds)
        plain = [f"!rt->overlaps_itself({w.array.name}_array)" for w in writes if not w.array.is_contiguous]
        return functions, [*are_apart, *plain]
    finally:
        code.lines, code.declarations, b.labels, b.pending, b.refused, b.clean, b.at, b.came_back, b.returns = outer
        b.state = state
        b.apart = code.accesses = None
        code.computed.clear()


def given(code: ScalarLoops, spread: Spread) -> dict[str, str]:
    own = {*spread.accesses.moving, *map(name_of, spread.accesses.columns)}
    return {name: c for name, c in code.outer().items() if name not in own}


def begin(b: Blocks, apart: Apart) -> None:
    """What is known of the loop's variables, and of memory, before its first iteration."""
    code = b.code
    for text in staying(b, apart.header, apart.region):
        if text in code.variables and code.variables[text] == "int64_t":
            code.integers[text] = Integer(-(2**63), 2**63 - 1, ((text, 1),))
    for part in parts_in(b.state):
        array = next((a for a in code.arrays if part.root == f"(PyObject*){a.name}_array"), None)
        if array is not None:
            apart.spread.accesses.origins[part.data] = Origin(array.name, (None,) * array.ndim)
        elif part.is_own:
            apart.spread.accesses.origins[part.data] = Origin(MADE_BEFORE, ())
    for name in apart.spread.accesses.columns:
        apart.spread.accesses.origins[name_of(name)] = Origin(name, (None, None))


def parts_in(state: State) -> Iterable[Part]:
    pending = [*state.stack, *state.locals.values()]
    while pending:
        match pending.pop():
            case Part() as part:
                yield part
            case Walk(_, elements):
                pending.append(elements)
            case Items(items):
                pending += items
            case Together(_, parts):
                pending += parts
