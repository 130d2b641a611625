"""The pass that hands on what an iteration stores and the next one loads: `x[i] = x[i - 1] + ...` waits for no memory.

It takes innermost loops, and of their stores those that each iteration does, where no other store of the loop goes to that array.
What the first iteration loads is loaded before the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.affine import Affine, Ranges
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.dependence import Fresh, fresh_of, places_of
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import all_regions, inner, regions, results, substitute_all, walk
from npcompile.tensor_core.loop_ir.ops import Check, Constant, For, If, Let, Load, LoopKind, Op, Program, Region, Store, Yield
from npcompile.tensor_core.loop_ir.report import Declined, Report
from npcompile.tensor_core.loop_ir.slices import definers_of, outside_loops, slice_of
from npcompile.tensor_core.loop_ir.types import Scalar, zero_of


def forward_stores(program: Program) -> Report:
    """Let loops hand on what they store, in place."""
    pass_ = Forwarding(program)
    pass_.region(program.body)
    return pass_.report


@dataclass(slots=True)
class Forwarding:
    program: Program
    places: Ranges | None = None
    fresh: Fresh | None = None
    report: Report = field(default_factory=Report)

    def region(self, region: Region) -> bool:
        """Is there a loop in the region?"""
        made: Region = []
        found = False
        for op in region:
            inner_loops = [self.region(part) for part in regions(op)]
            has_loop = any(inner_loops)
            found |= has_loop or type(op) is For
            made += self.loop(op) if type(op) is For and not has_loop and op.kind is LoopKind.SERIAL else [op]
        region[:] = made
        return found

    def loop(self, op: For) -> Region:
        stores = [each for each in walk(op.body) if type(each) is Store]
        loaded = {each.array for each in walk(op.body) if type(each) is Load}
        if not any(each.array in loaded for each in stores):
            return [op]
        before: Region = []
        for store in (each for each in stores if each.array in loaded):
            try:
                self.require_alone(op, store, stores)
                before += self.forwarded(op, store)
                self.report.fire(op.at)
            except Declined as error:
                self.report.decline(op.at, error.reason)
        return [*before, op]

    def require_alone(self, op: For, store: Store, stores: list[Store]) -> None:
        """Each iteration does it, and no other store of the loop may go where it goes."""
        if self.fresh is None:
            self.fresh = fresh_of(self.program)
        others = [each.array for each in stores if each is not store]
        are_apart = all(each != store.array and self.fresh.are_apart(store.array, each) for each in others)
        if not are_apart or not any(each is store for each in op.body):
            raise Declined("a store that not all iterations do, or several to one array")

    def forwarded(self, op: For, store: Store) -> Region:
        """Let the loop hand on what it stores there. What stands before it."""
        inside = walk(op.body)
        own = {value for each in inside for value in (*results(each), *inner(each))} | set(op.args)
        kind = self.program.types[store.value]
        loads = [each for each in inside if type(each) is Load and self.is_just_stored(op, each, store, own)]
        if not loads:
            raise Declined("no iteration loads what the one before has stored")
        if any(self.program.types[each.result] != kind for each in loads) or not isinstance(kind, Scalar) or store.array in own:
            raise Declined("numbers that are converted where they are stored")
        tested = {each.condition for each in inside if type(each) is Check}
        if any(type(each) is Let and each.op == "is_index" and each.result in tested for each in inside):
            raise Declined("a check of an index in the loop")
        before, first = self.first(op, loads[0], kind)
        arg = self.program.new(kind, "stored")
        end = op.body[-1]
        assert isinstance(end, Yield), end
        op.args, op.initial, end.values = [*op.args, arg], [*op.initial, first], [*end.values, store.value]
        op.results = [*op.results, self.program.copy(arg)]
        gone = {id(each) for each in loads}
        for part in all_regions(op.body):
            part[:] = [each for each in part if id(each) not in gone]
        substitute_all(op.body, {each.result: arg for each in loads})
        return before

    def is_just_stored(self, op: For, load: Load, store: Store, own: set[int]) -> bool:
        """Does a load go where the store of the iteration before has gone?"""
        if load.array != store.array:
            return False
        if self.places is None:
            self.places = places_of(self.program)
        forms = [(self.places.form(a), self.places.form(b)) for a, b in zip(load.index, store.index)]
        steps = [there.factors.get(op.index, 0) for _, there in forms]
        if not any(steps) or any(atom in own for _, there in forms for atom in there.factors):
            return False
        return all(there - here == Affine(step) for (here, there), step in zip(forms, steps))

    def first(self, op: For, load: Load, kind: Scalar) -> tuple[Region, int]:
        """What the first iteration loads, if there is one."""
        made, some = Emitter(self.program, op.at), Emitter(self.program, op.at)
        number, zero, result = (self.program.new(kind) for _ in range(3))
        needs = slice_of(definers_of(outside_loops(op.body)), load.index, op.args)
        cloner = Cloner(self.program, self.program, {op.index: op.start})
        some.ops += cloner.region(needs)
        some.emit(Load(number, load.array, [cloner.values.get(value, value) for value in load.index], load.at))
        few: list[Op] = [Constant(zero, zero_of(kind.kind), op.at), Yield([zero], op.at)]
        made.emit(If(made.let("less", op.start, op.stop), [*some.ops, Yield([number], op.at)], few, [result], op.at))
        return made.ops, result
