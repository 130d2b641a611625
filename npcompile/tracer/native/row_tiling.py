"""Loops whose every iteration does the same to each row of their arrays: all iterations for a block of rows, then the next block.

The body is followed once more, with arrays that it makes as values without memory, and what it does to them is noted. It must
come back without a branch to the variables that it began with. What a mask selects (`x[mask]`) is the array, with ones where
the mask is false, and can only be combined with what the same mask selects, and be stored there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Apply, Held, Number, Part, Tree, may_fail, parts_of, with_parts
from npcompile.backends.cpu.elements import ArrayInput
from npcompile.backends.cpu.loops.loop_nest import known_product
from npcompile.backends.cpu.loops.nest_statements import Carried, Chosen, Loop, Set, Sizes, Statement, Write, held_in, types_of
from npcompile.backends.cpu.loops.row_tiling import FEWEST, written
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops
from npcompile.backends.registry import ErrorStates
from npcompile.tracer.native import arrays
from npcompile.tracer.native.blocks import Blocks, Left
from npcompile.tracer.native.instructions import advance, next_item
from npcompile.tracer.native.states import NoProgram, State, has_known_steps, number_of_items
from npcompile.tracer.native.types import Elements, Formula, Scalar, Slice, Steps, Walk

MOST_STATEMENTS = 100
CONVERTED = re.compile(r"^const \S+ (t\d+) = ((?:\(\w+\))+INT64_C\(-?\d+\));$")  # a number that the program knows
# Does NumPy say nothing about the floating-point errors that the processor notes?
_IGNORES = ErrorStates(lambda state: all(state[kind] == "ignore" for kind in ("divide", "over", "invalid")))
ERRORS_ARE_IGNORED = _IGNORES.known, _IGNORES.others, _IGNORES.holds  # as the runtime asks


@dataclass(slots=True)
class Pointwise:
    """What one iteration does to arrays, while its instructions are followed."""

    blocks: Blocks
    header: int
    statements: list[Statement] = field(default_factory=list)
    bases: dict[str, Part] = field(default_factory=dict)  # address -> the array with the same rows that it is of
    writes: dict[str, Part] = field(default_factory=dict)  # root -> array that is written to
    reads: dict[str, bool] = field(default_factory=dict)  # roots of what is read otherwise than row by row -> made here?
    same: dict[str, str] = field(default_factory=dict)  # sizes that must be the same
    masks: dict[Tree, str] = field(default_factory=dict)  # as it is `asked` -> the array that holds it
    selected: dict[str, Sizes] = field(default_factory=dict)  # number of what a mask selects -> the mask's sizes
    entered: dict[str, Sizes] = field(default_factory=dict)  # arrays that the iteration before left
    with_ones: int = 0  # statements about what a mask selects that compute with ones elsewhere
    lines: list[str] = field(default_factory=list)  # about numbers

    # --- sizes

    def size(self, text: str) -> str:
        while text in self.same:
            text = self.same[text]
        return text

    def sizes(self, texts: Sizes) -> Sizes:
        full = self.selected.get(texts[0], texts) if len(texts) == 1 else texts
        return tuple(map(self.size, full))

    def require_same(self, a: str, b: str) -> None:
        """The loop is not run like this where the sizes differ."""
        x, y = self.size(a), self.size(b)
        if x == y:
            return
        if (x.isdigit() and y.isdigit()) or {x, y} & self.selected.keys():
            raise NoForm("arrays of different sizes")
        self.require_outside(x, y)
        if x.isdigit():
            x, y = y, x
        self.same[x] = y

    def require_outside(self, *texts: str) -> None:
        outer = self.blocks.code.outer()
        if not all(t.isdigit() or t in outer for t in texts):
            raise NoForm("sizes that are computed in the loop")

    # --- arrays that the loop makes

    def hold(self, value: Formula) -> Formula:
        if (name := self.masks.get(self.asked(value.tree))) is not None:
            return Formula(Held(name, value.tree.dtype), value.sizes)
        if isinstance(value.tree, Held):
            return value
        made = self.fresh(value)
        if isinstance(made.tree, Held) and made.tree.dtype.kind == "b":
            self.masks[self.asked(value.tree)] = made.tree.name
        return made

    def fresh(self, value: Formula) -> Formula:
        arrays.require_order(value.tree, len(value.sizes))
        return Formula(self.set(value.tree, value.sizes), value.sizes)

    def set(self, tree: Tree, sizes: Sizes) -> Held:
        made = Set(f"h{len(self.statements)}", tree, self.sizes(sizes))
        self.add(made)
        return Held(made.name, tree.dtype)

    def add(self, statement: Statement) -> None:
        if may_fail(statement.tree):
            raise NoForm("elements at computed places")
        if len(self.statements) >= MOST_STATEMENTS:
            raise NoForm("many statements")
        self.statements.append(statement)

    def replace(self, owner: Formula, tree: Tree, sizes: Sizes) -> Formula:
        """Write to an array that the loop made: all its names have the new elements."""
        if not isinstance(owner.tree, Held) or self.sizes(sizes) != self.sizes(owner.sizes):
            raise NoForm("an operator in place of what is not stored")
        made = Formula(self.set(cast(tree, owner.tree.dtype), owner.sizes), owner.sizes)
        state = self.blocks.state
        state.stack[:] = [made if v == owner else v for v in state.stack]
        state.locals.update({n: made for n, v in state.locals.items() if v == owner})
        return made

    # --- memory

    def memory(self, value: Formula) -> Part:
        raise NoForm("a part of an array that a loop made")

    def roll(self, value: Formula, axis: int, front: str) -> Formula:
        raise NoForm("elements that are read elsewhere")

    def set_element(self, array: ArrayInput, places: list[str], value: str) -> None:
        raise NoForm("single elements that are set")

    def view(self, part: Part, items: list[Any], found: Part) -> None:
        """Remember whether a view has the rows of the array."""
        if items and items[0] == Slice(None, None, None) and found.data != part.data:
            self.bases[found.data] = self.bases.get(part.data, part)

    def store(self, target: Part, tree: Tree) -> None:
        self.blocks.code.write_to(target.root)
        base = self.bases.get(target.data, target)
        self.require_outside(base.data)
        if not base.is_dense and not (base.ndim == 1 and base.strides[0] == str(base.dtype.itemsize)):
            raise NoForm("an array that is written to and not in C order")
        if self.writes.setdefault(base.root, base) != base:
            raise NoForm("two arrays in one memory")
        self.require_rows(target, base)
        self.masks.clear()
        self.add(Write(target, cast(tree, target.dtype)))

    def require_rows(self, part: Part, base: Part) -> None:
        if not part.ndim or part.data != base.data and self.bases.get(part.data) != base:
            raise NoForm("elements that the loop writes to")
        if part.sizes[0] != base.sizes[0] or part.strides[0] != base.strides[0]:
            raise NoForm("rows in another order")

    # --- masks

    def mask(self, key: Any, sizes: Sizes) -> Held:
        tree, own = arrays.tree_of(key)
        if len(own) != len(sizes):
            raise NoForm("a mask of fewer axes")
        for a, b in zip(own, sizes):
            self.require_same(a, b)
        if isinstance(tree, Held):
            return tree
        if (asked := self.asked(tree)) not in self.masks:
            self.masks[asked] = self.set(tree, own).name
        return Held(self.masks[asked], tree.dtype)

    def asked(self, tree: Tree) -> Tree:
        """The same for a mask each time that it is written: names of its numbers differ."""
        return with_numbers(tree, {n: text for line in self.lines for n, text in CONVERTED.findall(line)})

    def select(self, owner: Any, key: Any) -> Formula:
        """owner[mask]"""
        tree, sizes = arrays.tree_of(owner)
        held = self.mask(key, sizes)
        count = f"count_{held.name}"
        self.selected[count] = self.sizes(sizes)
        return Formula(Apply("where", (held, tree, Number("1", tree.dtype)), tree.dtype), (count,))

    def put(self, code: ScalarLoops, owner: Any, key: Any, value: Any, fail: Fail) -> None:
        """owner[mask] = value"""
        tree, sizes = arrays.tree_of(owner)
        held = self.mask(key, sizes)
        if isinstance(value, Scalar):
            kind = tree.dtype.str[1:]
            new: Tree = arrays.number(code.stored(value.text, value.kind, kind, fail), kind)
        else:
            if not arrays.is_array(value):
                raise NoForm("what is stored where a mask selects is not a number")
            new, count = arrays.tree_of(value)
            if count != (f"count_{held.name}",):
                raise NoForm("what another mask selects")
        made = Chosen("where", (held, cast(new, tree.dtype), tree), tree.dtype)
        self.with_ones += made.has_ones
        if isinstance(owner, Formula):
            self.replace(owner, made, sizes)
        else:
            self.store(arrays.part_of(owner), made)

    # --- the end

    def arrive(self, index: int) -> None:
        if index != self.header:
            raise NoForm("a branch")

    def made(self) -> dict[str, Sizes]:
        """The sizes of arrays that the loop makes, in this iteration or in the one before."""
        sets = {s.name: s.sizes for s in self.statements if isinstance(s, Set)}
        return {name: self.sizes(sizes) for name, sizes in {**self.entered, **sets}.items()}

    def shapes(self) -> list[Sizes]:
        """Of the statements. Raises NoForm where one reads an array of other sizes that the loop made."""
        made, shapes = self.made(), [self.sizes(s.sizes) for s in self.statements]
        self.require_outside(*(n for shape in shapes for n in shape))
        for s, shape in zip(self.statements, shapes):
            if any(made.get(name, shape) != shape for name in held_in(s.tree)):
                raise NoForm("an array of other sizes that the loop made")
        return shapes

    def checked(self) -> Sizes:
        """The sizes of the first statement. Raises NoForm where a row needs other rows."""
        if not self.statements or not all(s.sizes for s in self.statements):
            raise NoForm("no statements about arrays")
        for s in self.statements:
            self.require_same(self.sizes(s.sizes)[0], self.sizes(self.statements[0].sizes)[0])
        shapes = self.shapes()
        for s, shape in zip(self.statements, shapes):
            for part in parts_of(s.tree):
                if part.root not in self.writes:
                    self.reads[part.root] = part.is_own
                    continue
                self.require_rows(part, self.writes[part.root])
                if part.ndim != len(shape) or self.size(part.sizes[0]) != shape[0]:
                    raise NoForm("rows that another row reads")
        if self.reads.keys() & self.writes.keys():
            raise NoForm("elements that the loop writes")
        return shapes[0]


def with_numbers(tree: Tree, texts: Mapping[str, str]) -> Tree:
    """The tree with these texts in place of the names of numbers."""
    match tree:
        case Number(text, dtype):
            return Number(texts.get(text, text), dtype)
        case Apply(_, args):
            return replace(tree, args=tuple(with_numbers(a, texts) for a in args))
    return tree


def cast(tree: Tree, dtype: np.dtype) -> Tree:
    return arrays.cast(tree, dtype.str[1:])


# --- the loop


def write(b: Blocks, index: int, region: frozenset[int]) -> bool:
    """Write the loop whose header is at `index` by blocks of rows, where it has that form. The loop as it is follows."""
    return write_as(PointwiseLoop, "row tiling", b, index, region)


def write_as(form: type[PointwiseLoop], name: str, b: Blocks, index: int, region: frozenset[int]) -> bool:
    iterator = b.state.stack[-1] if b.program.instructions[index].traits.flow == "next" else None
    if not isinstance(iterator, Steps | Walk) or not has_known_steps(iterator) or b.calls:
        return False
    state, lines = b.state, len(b.code.lines)
    try:
        form(b, index, region, iterator).write()
        b.noted(name, index)
        return True
    except NoProgram:
        raise
    except NoForm as reason:
        del b.code.lines[lines:]
        b.noted(name, index, str(reason))
        return False
    finally:
        b.state = state


@dataclass(slots=True)
class Way:
    """How a loop's iterations follow each other."""

    variables: dict[str, tuple[str, str]]  # numbers that it sets -> (C type, what they are at first)
    last: list[str] = field(default_factory=list)  # lines at the end of an iteration
    inits: dict[str, Part | None] = field(default_factory=dict)  # of the variables that are other arrays after each
    tests: list[str] = field(default_factory=list)  # what must hold before the first
    made: dict[str, Any] = field(default_factory=dict)  # what the variables are after the last


@dataclass(slots=True)
class PointwiseLoop:
    blocks: Blocks
    header: int
    region: frozenset[int]
    iterator: Steps | Walk
    entered: dict[str, Any] = field(default_factory=dict)  # variables that change, as the iteration begins
    lines: list[str] = field(default_factory=list)  # about numbers
    noted: type[Pointwise] = Pointwise

    def write(self) -> None:
        before = self.blocks.state.locals.copy()
        first, after = self.follow(before)
        changed = self.changes(before, after)
        self.entered = {n: self.at_entry(n, before.get(n), value) for n, value in changed.items()}
        variables = {n: v for n, v in before.items() if n not in changed} | {
            n: v for n, v in self.entered.items() if not isinstance(v, Formula) or self.initial(before.get(n)) is not None
        }
        found, after = self.follow(variables)
        again = self.changes(variables, after)
        if again.keys() - changed.keys() or found.writes != first.writes:
            raise NoForm("what an iteration changes depends on the iteration")
        sizes = found.checked()
        if any(isinstance(v, Formula) and v.sizes[0] in found.selected for v in again.values()):
            raise NoForm("a variable for what a mask selects")  # its elements are chosen, not side by side
        for n, value in again.items():
            if kind_of(found, value) != kind_of(found, self.entered[n]):
                raise NoForm(f"{n} becomes something else")
        if any(n not in again for n, v in self.entered.items() if isinstance(v, Formula)):
            raise NoForm("an array that only the first iteration makes")
        self.emit(found, before, again, sizes)

    def follow(self, variables: dict[str, Any]) -> tuple[Pointwise, dict[str, Any]]:
        """Follow the body: (what it does, the variables after it)."""
        b, made = self.blocks, self.noted(self.blocks, self.header)
        outer, state = b.code.lines, b.state
        b.code.lines = self.lines = made.lines = []
        made.entered = {v.tree.name: v.sizes for v in variables.values() if isinstance(v, Formula) and isinstance(v.tree, Held)}
        b.code.pointwise, b.pointwise = made, made.arrive
        b.state = State(state.stack.copy(), variables.copy())
        try:
            b.push(next_item(b, self.iterator, b.fail()))
            advance(b, self.iterator)
            index = self.header + 1
            while index != self.header:
                if index not in self.region:
                    raise NoForm("a way out")
                following = b.step(b.program.instructions[index])
                index = index + 1 if following is None else following
        except Left:
            pass
        finally:
            found, b.state = b.state, state
            b.code.lines = outer
            b.code.pointwise = b.pointwise = None
        if len(found.stack) != len(state.stack):
            raise NoForm("a way out")
        return made, found.locals

    def changes(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        """The variables that somebody reads after the iteration and that it sets to something else."""
        live = self.blocks.facts.live[self.header]
        names = [n for n in {**before, **after} if n in live]
        changed = {n: after.get(n) for n in names if after.get(n) not in (before.get(n), self.initial(before.get(n)))}
        held = []
        for n, value in changed.items():
            if isinstance(value, Formula) and isinstance(value.tree, Held):
                held.append(value.tree.name)
            elif not isinstance(value, Scalar):
                raise NoForm(f"{n} becomes another object")
        if len(held) != len({*held}):
            raise NoForm("two names of one array")
        return changed

    def at_entry(self, name: str, before: Any, after: Any) -> Any:
        """What a variable that the loop changes is when an iteration begins."""
        if isinstance(after, Scalar):
            slots = {n: k for k, n in enumerate(self.blocks.facts.slots)}
            return Scalar(after.kind, self.blocks.code.variable(f"L{slots[name]}_{after.kind}", after.kind))
        return Formula(Held(f"in_{name}", after.tree.dtype), after.sizes)

    def initial(self, before: Any) -> Any:
        """A variable's value in front of the loop, if it has one."""
        return None if before is None else self.blocks.realize(before)

    def emit(self, found: Pointwise, before: dict[str, Any], after: dict[str, Any], sizes: Sizes) -> None:
        code, way = self.blocks.code, self.way(found, before, after)
        elements = known_product([*map(found.size, sizes)])
        statements = arrays.statements(code)
        name = f"pointwise{statements.made}"
        statements.made += 1
        code.lines.append(f"if (!({' && '.join([*way.tests, f'{elements} > 0'])})) goto {name}_slow;")
        types = code.outer()
        carried: list[Carried] = []
        for n, part in way.inits.items():
            result = statements.fresh(after[n].tree.dtype, found.sizes(after[n].sizes))
            types |= types_of(result)
            carried.append(Carried(f"in_{n}", after[n].tree.name, part, result))
            way.made[n] = result
        functions, lines, (few, rows) = written(self.loop(name, found, carried, way), types)
        self.blocks.noted("ones outside masks", self.header, count=found.with_ones)
        why_not = None if rows else "blocks in memory"
        self.blocks.noted("lanes in registers", self.header, why_not, f"{rows} rows of the loop", few)
        statements.functions += functions
        code.lines += lines
        self.finish(name, before, way)

    def way(self, found: Pointwise, before: dict[str, Any], after: dict[str, Any]) -> Way:
        """What is carried from iteration to iteration, and what must hold before."""
        way = Way(variables={self.iterator.next: ("int64_t", self.iterator.next)})
        roots = found.reads | {root: part.is_own for root, part in found.writes.items()}
        for n, entered in self.entered.items():
            value = self.initial(before.get(n))
            if isinstance(entered, Scalar):
                if value is not None and (not isinstance(value, Scalar) or value.kind != entered.kind):
                    raise NoForm(f"{n} becomes something else")
                left = after.get(n, entered)
                way.variables[entered.text] = C_OF_KIND[entered.kind], "0" if value is None else value.text
                way.last.append(f"const {C_OF_KIND[entered.kind]} next_{entered.text} = {left.text};")
                way.made[n] = entered
                continue
            if value is not None and not isinstance(value, Elements | Part):
                raise NoForm(f"{n} becomes an array")
            part = way.inits[n] = None if value is None else arrays.part_of(value)
            if part is not None:
                if part.dtype != entered.tree.dtype or part.ndim != len(entered.sizes):
                    raise NoForm(f"{n} becomes another array")
                for x, y in zip(part.sizes, entered.sizes):
                    found.require_same(x, y)
                roots[part.root] = part.is_own
        way.last += [f"{v.text} = next_{v.text};" for v in self.entered.values() if isinstance(v, Scalar)]
        for n in way.inits:  # an array that is another's of the iteration before
            if isinstance(tree := after[n].tree, Held) and tree.name.startswith("in_"):
                after[n] = found.fresh(Formula(tree, after[n].sizes))
        if found.writes.keys() & {p.root for p in way.inits.values() if p is not None}:
            raise NoForm("an array that is written to and another of its name")
        way.tests = [f"{self.count} >= {FEWEST}", *(f"{x} == {y}" for x, y in found.same.items())]
        overlaps = may_overlap(found.writes, roots)
        way.tests += [f"npc_are_far({x}, {y})" for x, y in overlaps]
        self.blocks.noted("overlap check elimination", self.header, "arrays that are given and written" if overlaps else None)
        return way

    def loop(self, name: str, found: Pointwise, carried: list[Carried], way: Way) -> Loop:
        ignores = ignores_errors(self.blocks)
        statements = [resized(s, found) for s in found.statements]
        written = [*found.writes.values()]
        failing, last = self.blocks.code.failing(), way.last
        return Loop(name, statements, carried, written, self.lines, last, self.count, way.variables, ["1"], ignores, failing)

    def finish(self, name: str, before: dict[str, Any], way: Way) -> str:
        """Go on where the loop's header is asked again, at the label that is returned, and where it was in vain."""
        b = self.blocks
        kept = {n: v for n, v in before.items() if n not in self.entered}
        b.state = State(b.state.stack.copy(), kept | way.made)
        b.code.by_blocks |= self.region
        b.go(self.header)
        label = b.code.lines[-1].removeprefix("goto ").removesuffix(";")
        b.code.label(f"{name}_slow")
        return label

    @property
    def count(self) -> str:
        """Iterations that are left."""
        if isinstance(self.iterator, Walk):
            return f"({number_of_items(self.iterator.elements)} - {self.iterator.next})"
        step = self.iterator.step
        assert step is not None
        rest = f"({self.iterator.stop} - {self.iterator.next})"
        return rest if step == 1 else f"(({rest} + {step - 1 if step > 0 else step + 1}) / {step})"


def may_overlap(writes: Iterable[str], roots: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Pairs of roots (-> did the program make it?), the first of which is written to, whose memory may be the same."""
    written = [*writes]
    others = [y for y in roots if y not in written]
    pairs = [(x, y) for k, x in enumerate(written) for y in [*others, *written[:k]]]
    return [(x, y) for x, y in pairs if roots[x] == roots[y] and not (x.startswith("made") and y.startswith("made"))]


def ignores_errors(b: Blocks) -> str:
    """The number that says whether NumPy ignores floating-point errors."""
    question = b.object_of(ERRORS_ARE_IGNORED)
    if question not in b.inputs:
        b.inputs.append(question)
        b.code.number("state")
    return b.code.numbers[b.inputs.index(question)][1]


def resized(s: Statement, found: Pointwise) -> Statement:
    """With one text for sizes that are the same."""
    tree = with_parts(s.tree, lambda part: resized_part(part, found))
    if isinstance(s, Set):
        return Set(s.name, tree, found.sizes(s.sizes))
    return Write(resized_part(s.target, found), tree)


def resized_part(p: Part, found: Pointwise) -> Part:
    return replace(p, sizes=tuple(map(found.size, p.sizes)))


def kind_of(found: Pointwise, value: Any) -> Any:
    """What must stay the same of a variable from iteration to iteration."""
    if isinstance(value, Scalar):
        return value.kind
    return value.tree.dtype, found.sizes(value.sizes)
