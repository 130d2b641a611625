"""Two versions of a block that differ in whose numbers they have, Python's or NumPy's, as one, where their ops do the same.

`s = 0.0`, then `s += x[i]`: the loop has a version for the float, and one for the f64 that it is from the second iteration on. An
addition to an f64 does the same for both. What Python would see differs, so the joined version gets a truth value for each such
number: a recipe makes Python's float where it is true. Versions are equal as in a bisimulation: where their ops are, and where
those are that they jump to, pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.flow import edges_of
from npcompile.tensor_core.loop_ir.forms import FORMS, recipes, results, uses
from npcompile.tensor_core.loop_ir.ops import Block, Branch, Cfg, Constant, FrameState, Jump, Let, Op, Program, Return
from npcompile.tensor_core.loop_ir.states import Recipe, Slot, Tagged, TupleOf, Use, substituted
from npcompile.tensor_core.loop_ir.types import BOOL, F64, FLOAT


def join(program: Program) -> int:
    """Join versions of blocks in place, each with all arguments. How many blocks went."""
    (cfg,) = program.body
    assert isinstance(cfg, Cfg), cfg
    joined = 0
    while (pairs := next(candidates(program, cfg), None)) is not None:
        Joining(program, cfg, pairs).run()
        joined += len(pairs.of)
    return joined


@dataclass(slots=True)
class Pairs:
    """Blocks of Python's numbers, and the blocks of NumPy's that do the same."""

    of: dict[int, int] = field(default_factory=dict)  # labels
    differ: dict[int, list[int]] = field(default_factory=dict)  # by label of the second: which arguments have other types


def candidates(program: Program, cfg: Cfg) -> Iterator[Pairs]:
    blocks = {block.label: block for block in cfg.blocks}
    alike: dict[tuple[str, ...], list[Block]] = {}
    for block in cfg.blocks:
        alike.setdefault(shape_of(block), []).append(block)
    for group in alike.values():
        for one in group:
            for other in group:
                if any(types_differ(program, a, b) for a, b in zip(one.args, other.args)):
                    comparison = Comparison(program, blocks)
                    if comparison.same_blocks(one.label, other.label):
                        yield comparison.pairs


def shape_of(block: Block) -> tuple[str, ...]:
    return (str(len(block.args)), *(op.op if isinstance(op, Let) else type(op).__name__ for op in block.ops))


def types_differ(program: Program, one: int, other: int) -> bool:
    """Is one Python's float, and the other NumPy's?"""
    return program.types[one] == FLOAT and program.types[other] == F64


@dataclass(slots=True)
class Comparison:
    program: Program
    blocks: dict[int, Block]
    pairs: Pairs = field(default_factory=Pairs)
    same: dict[int, int] = field(default_factory=dict)  # values of the first blocks -> those of the second

    def same_blocks(self, one: int, other: int) -> bool:
        """Do two blocks do the same, if those that are being compared do?"""
        if one == other or self.pairs.of.get(one) == other:
            return True
        a, b = self.blocks[one], self.blocks[other]
        paired = {*self.pairs.of, *self.pairs.of.values()}
        if one in paired or other in paired or shape_of(a) != shape_of(b):
            return False
        self.pairs.of[one] = other
        self.pairs.differ[other] = [k for k, (x, y) in enumerate(zip(a.args, b.args)) if types_differ(self.program, x, y)]
        self.same |= zip(a.args, b.args)
        types = self.program.types
        if any(types[x] != types[y] and not types_differ(self.program, x, y) for x, y in zip(a.args, b.args)):
            return False
        return all(self.same_ops(x, y) for x, y in zip(a.ops, b.ops))

    def same_values(self, one: int, other: int) -> bool:
        return self.same.get(one, one) == other

    def same_ops(self, x: Op, y: Op) -> bool:
        if len(uses(x)) != len(uses(y)) or not all(map(self.same_values, uses(x), uses(y))):
            return False
        differ = any(types_differ(self.program, a, b) for a, b in zip(uses(x), uses(y)))
        if differ and not isinstance(x, Let | FrameState | Jump | Branch | Return):
            return False
        types = self.program.types
        if [types[value] for value in results(x)] != [types[value] for value in results(y)]:
            return False
        self.same |= zip(results(x), results(y))
        match x, y:
            case Return(), Return():
                return self.same_recipes(x, y)
            case Jump(), Jump():
                return self.same_blocks(x.target, y.target)
            case Branch(), Branch():
                return self.same_blocks(x.then, y.then) and self.same_blocks(x.orelse, y.orelse)
            case FrameState(), FrameState():
                self.same[-1 - x.name] = -1 - y.name
                same_slots = [slot.index for slot in x.locals] == [slot.index for slot in y.locals]
                return x.point == y.point and same_slots and self.same_recipes(x, y)
        return self.same_fields(x, y)

    def same_recipes(self, x: Op, y: Op) -> bool:
        return [substituted(recipe, self.same) for recipe in recipes(x)] == list(recipes(y))

    def same_fields(self, x: Op, y: Op) -> bool:
        """The fields that are neither values nor places: states, names, numbers."""
        form = FORMS[type(x)]
        for name, role in zip(form.names, form.roles):
            one, other = getattr(x, name), getattr(y, name)
            if role == "State":
                one, other = self.same.get(-1 - one, 0), -1 - other
            elif role in ("Value", "list[Value]", "Result", "list[Result]", "Recipe"):
                continue
            if one != other or type(one) is not type(other):
                return False
        return True


@dataclass(slots=True)
class Joining:
    program: Program
    cfg: Cfg
    pairs: Pairs
    tags: dict[int, int] = field(default_factory=dict)  # number -> the truth value that says whether it is Python's

    def run(self) -> None:
        blocks = {block.label: block for block in self.cfg.blocks}
        for label in self.pairs.of.values():
            block = blocks[label]
            for k in self.pairs.differ[label]:
                tag = self.tags[block.args[k]] = self.program.new(BOOL, "is_float")
                block.args.append(tag)
        for block in self.cfg.blocks:
            if block.label not in self.pairs.of:
                self.redirect(block)
        for label in self.pairs.of.values():
            for op in blocks[label].ops:
                match op:
                    case FrameState():
                        op.stack = [self.tagged(recipe) for recipe in op.stack]
                        op.locals = [Slot(slot.index, self.tagged(slot.recipe)) for slot in op.locals]
                    case Return():
                        op.value = self.tagged(op.value)
        self.cfg.blocks = [block for block in self.cfg.blocks if block.label not in self.pairs.of]

    def redirect(self, block: Block) -> None:
        """Let a block go to the joined versions, with the truth values that they take."""
        end = block.ops.pop()
        for edge in edges_of(Block(block.label, [], [end])):
            differ = self.pairs.differ.get(self.pairs.of.get(edge.target, edge.target), [])
            tags = []
            for k in differ:
                value = edge.args[k]
                tags.append(self.tags[value] if value in self.tags else self.constant(block, edge.target in self.pairs.of))
                if self.program.types[value] == FLOAT:
                    edge.args[k] = self.program.new(F64, self.program.names.get(value, ""))
                    block.ops.append(Let(edge.args[k], "to_f64", [value], end.at))  # type: ignore[attr-defined]
            edge.args += tags
        match end:
            case Jump():
                end.target = self.pairs.of.get(end.target, end.target)
            case Branch():
                end.then, end.orelse = self.pairs.of.get(end.then, end.then), self.pairs.of.get(end.orelse, end.orelse)
        block.ops.append(end)

    def constant(self, block: Block, value: bool) -> int:
        result = self.program.new(BOOL)
        block.ops.append(Constant(result, value))
        return result

    def tagged(self, recipe: Recipe) -> Recipe:
        match recipe:
            case Use(value) if value in self.tags:
                return Tagged(self.tags[value], value)
            case TupleOf(items):
                return TupleOf(tuple(map(self.tagged, items)))
        return recipe
