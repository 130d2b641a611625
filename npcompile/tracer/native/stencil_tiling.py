"""Loops over whole arrays in which an element needs its neighbours, followed as one iteration after another of all elements.

The body is followed as in `pointwise.py`. What it makes may be rolled and sliced: it is memory then, in C order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from npcompile.backends.cpu.array_expressions import Held, Part, Read, Rolled, Tree, parts_of
from npcompile.backends.cpu.elements import ArrayInput
from npcompile.backends.cpu.loops.loop_nest import dense_strides, known_product
from npcompile.backends.cpu.loops.nest_statements import WORD, Carried, Set, Sizes, Write, key_of, types_of
from npcompile.backends.cpu.loops.scalar_loops import PURE, NoForm
from npcompile.backends.cpu.loops.stencil_tiling import HELPERS, Places, Plan, TimeLoop
from npcompile.tracer.native import arrays
from npcompile.tracer.native.blocks import Blocks
from npcompile.tracer.native.row_tiling import Pointwise, PointwiseLoop, resized_part, write_as
from npcompile.tracer.native.types import Elements, Formula

DEFINITION = re.compile(r"const (\S+) (t\d+) = (.*);")
START = re.compile(r"npc_bound\((\d+), (\w+), 0, \2\)")  # of a slice: this number, where the axis is so long
ALONG_ROWS = re.compile(r"(.*) \+ (\w+) \* (\d+)")  # an address: where the row begins, how many elements of so many bytes behind
FUNCTIONS = {"npc_bound", "npc_max", "npc_count", "npc_mod", "int64_t", "INT64_C"}


def write(b: Blocks, index: int, region: frozenset[int], label: str) -> bool:
    """Write the loop whose header is at `index`, and at `label`, so, where it has that form. The loop as it is follows.

    It is written where the loop is entered and after its iterations: not for what single statements leave, which is rare.
    """
    if index in b.steps and label not in b.steps[index] and b.origins.get(label) in region:
        return False
    return write_as(TimeSteps, "stencil tiling", b, index, region)


@dataclass(slots=True)
class Iteration(Pointwise):
    """What one iteration does to arrays."""

    viewed: set[str] = field(default_factory=set)  # arrays that the loop made of which there are views
    views: set[str] = field(default_factory=set)  # addresses that the loop computes, of views

    # --- what stays the same in all iterations

    def stays(self) -> dict[str, str]:
        """C variables that are set before the loop, or by lines of it that could stand there -> those lines."""
        b = self.blocks
        found = dict.fromkeys(b.code.constants, "") | {name: "" for _, name in b.code.numbers}
        for value in b.state.locals.values():
            if isinstance(value, Part):
                found |= {t: "" for t in (value.data, *value.sizes, *value.strides) if t in b.code.variables}
        for line in self.lines:
            made = DEFINITION.fullmatch(line)
            if made is not None and PURE.fullmatch(made[3]) and {*WORD.findall(made[3])} - FUNCTIONS <= found.keys():
                found[made[2]] = line
        return found

    def require_outside(self, *texts: str) -> None:
        stays = self.stays()
        if not all({*WORD.findall(t)} <= stays.keys() for t in texts):
            raise NoForm("sizes that are computed in the loop")

    # --- arrays that the loop makes

    def memory(self, value: Formula) -> Part:
        tree = self.hold(value).tree
        if not isinstance(tree, Held):
            raise NoForm("a view of what is not stored")
        self.viewed.add(tree.name)
        sizes = tuple(map(self.size, value.sizes))
        strides = dense_strides(sizes, tree.dtype.itemsize)
        return Part(tree.dtype, f"{tree.name}_data", sizes, strides, tree.name, True, False, True, True)

    def roll(self, value: Formula, axis: int, front: str) -> Formula:
        tree = value.tree
        if not isinstance(tree, Read | Held | Rolled):
            tree = self.hold(value).tree
        fronts = [*tree.fronts] if isinstance(tree, Rolled) else ["0"] * len(value.sizes)
        source = tree.source if isinstance(tree, Rolled) else tree
        assert isinstance(source, Read | Held)
        if fronts[axis] != "0":
            front = self.blocks.code.new("int", f"npc_mod({fronts[axis]} + {front}, {value.sizes[axis]})")
        fronts[axis] = front
        return Formula(Rolled(source, tuple(fronts)), value.sizes)

    def replace(self, owner: Formula, tree: Tree, sizes: Sizes) -> Formula:
        if isinstance(owner.tree, Held) and owner.tree.name in self.viewed:
            raise NoForm("an operator in place of what there are views of")
        return Pointwise.replace(self, owner, tree, sizes)

    # --- memory from before the loop

    def view(self, part: Part, items: list[Any], found: Part) -> None:
        if part.data in self.views or self.whole(part) is not None:
            self.views.add(found.data)

    def set_element(self, array: ArrayInput, places: list[str], value: str) -> None:
        base = arrays.part_of(Elements(array))
        offsets = [f"{place} * {stride}" for place, stride in zip(places, base.strides)]
        data = self.blocks.code.new("data", " + ".join([base.data, *offsets]))
        self.views.add(data)
        itemsize = str(base.dtype.itemsize)
        target = Part(base.dtype, data, ("1",), (itemsize,), base.root, base.is_own, is_ordered=True)
        self.store(target, arrays.number(value, array.kind))

    def whole(self, part: Part) -> Part | None:
        """The array that a part is, or is at the beginning of."""
        for a in self.blocks.code.arrays:
            whole = arrays.part_of(Elements(a))
            if whole.root == part.root:
                return whole if whole.data == part.data else None
        for value in self.blocks.state.locals.values():
            if isinstance(value, Part) and value.is_whole and value.root == part.root and value.data == part.data:
                return value
        return None

    def base(self, part: Part) -> Part:
        for a in self.blocks.code.arrays:
            whole = arrays.part_of(Elements(a))
            if whole.root == part.root:
                return whole
        for value in self.blocks.state.locals.values():
            if isinstance(value, Part) and value.is_whole and value.root == part.root:
                return value
        raise NoForm("an array of which only a view is known")

    def store(self, target: Part, tree: Tree) -> None:
        self.blocks.code.write_to(target.root)
        base = self.base(target)
        self.require_outside(base.data)
        if not base.is_dense and not (base.ndim == 1 and base.strides[0] == str(base.dtype.itemsize)):
            raise NoForm("an array that is written to and not in C order")
        self.writes.setdefault(base.root, base)
        self.masks.clear()
        self.add(Write(target, arrays.cast(tree, target.dtype.str[1:])))

    def checked(self) -> Sizes:
        """The sizes of the largest statement. Raises NoForm where memory is read that is not known."""
        if not all(s.sizes for s in self.statements) or all({*s.sizes} == {"1"} for s in self.statements):
            raise NoForm("no statements about arrays")
        made, shapes = self.made(), self.shapes()
        for s in self.statements:
            targets = [] if isinstance(s, Set) else [s.target]
            for part in [*parts_of(s.tree), *targets]:
                if part.root in self.writes:
                    if part.data not in self.views and self.whole(part) is None:
                        raise NoForm("a view from before the loop of an array that is written to")
                elif part.root not in made:
                    self.reads[part.root] = part.is_own
        if self.reads.keys() & (self.writes.keys() | made.keys()):
            raise NoForm("elements that the loop writes")
        return max(shapes, key=len)


@dataclass(slots=True)
class TimeSteps(PointwiseLoop):
    noted: type[Pointwise] = Iteration

    def at_entry(self, name: str, before: Any, after: Any) -> Any:
        entered = PointwiseLoop.at_entry(self, name, before, after)
        value = self.initial(before)
        if isinstance(entered, Formula) and isinstance(value, Elements | Part):
            return Formula(entered.tree, arrays.part_of(value).sizes)
        return entered

    def emit(self, found: Pointwise, before: dict[str, Any], after: dict[str, Any], sizes: Sizes) -> None:
        code = self.blocks.code
        assert isinstance(found, Iteration)
        way = self.way(found, before, after)
        stays = found.stays()
        self.lines = [line for line in self.lines if line not in stays.values()]
        statements = arrays.statements(code)
        name = f"steps{statements.made}"
        statements.made += 1
        loop = self.loop(name, found, [], way)
        entered = {f"in_{n}": after[n].tree.name for n in way.inits}
        plan = Plan(loop.statements, entered, frozenset(stays))
        code.lines += [line for line in stays.values() if line]
        nonempty = [f"{known_product([*map(found.size, s.sizes)])} > 0" for s in loop.statements]
        origins, are_starts = origins_of(stays)
        code.lines.append(f"if (!({' && '.join(dict.fromkeys([*way.tests, *nonempty, *are_starts]))})) goto {name}_slow;")
        types = code.outer() | {name: line.split()[1] for name, line in stays.items() if line}
        places: list[Places] = []
        for n, part in way.inits.items():
            shape = found.sizes(after[n].sizes)
            is_double = f"in_{n}" in plan.doubled
            one, *other = [statements.fresh(after[n].tree.dtype, shape) for _ in range(1 + is_double)]
            for result in (one, *other):
                types |= types_of(result)
            carried = Carried(f"in_{n}", after[n].tree.name, part, one)
            copies = part is not None and not part.is_dense
            places.append(Places(len(places), one, is_double, copies, carried, *other))
        for base in found.writes.values():
            is_double = base.root in plan.doubled
            is_whole = key_of(resized_part(base, found)) in [key_of(s.target) for s in loop.statements if isinstance(s, Write)]
            places.append(Places(len(places), base, is_double, copies=not (is_double and is_whole)))
        loop = replace(loop, carried=[p.carried for p in places if p.carried is not None])
        made = TimeLoop(loop, plan, places, origins)
        functions, lines = made.text(types)
        self.blocks.noted("whole vectors at row ends", self.header, None if made.stretches else "nothing may be done twice")
        self.blocks.noted("rows at one address", self.header, count=made.shared)
        statements.functions += [HELPERS] * (HELPERS not in statements.functions) + functions
        code.lines += lines
        for n, place in zip(way.inits, places):
            data = code.new("data", f"((npc_array*){place.part.root})->data")
            way.made[n] = replace(place.part, data=data)
        behind = self.finish(name, before, way)
        self.blocks.steps.setdefault(self.header, set()).add(behind)


def origins_of(stays: Mapping[str, str]) -> tuple[dict[str, tuple[str, int]], list[str]]:
    """(where views begin -> where the rows do that they are parts of, and how many bytes behind; what must hold for this).

    A slice starts at the number that the program gives, unless the axis is shorter.
    """
    lines = {name: made[3] for name, line in stays.items() if (made := DEFINITION.fullmatch(line)) is not None}
    starts = {name: start[1] for name, text in lines.items() if (start := START.fullmatch(text)) is not None}
    found: dict[str, tuple[str, int]] = {}
    used: dict[str, str] = {}
    for name, text in lines.items():
        along = ALONG_ROWS.fullmatch(text)
        if along is not None and along[2] in starts:
            used[along[2]] = starts[along[2]]
            found[name] = along[1], int(starts[along[2]]) * int(along[3])
        else:
            found[name] = text, 0
    return found, [f"{name} == {start}" for name, start in used.items()]
