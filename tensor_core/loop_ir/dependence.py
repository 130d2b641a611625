"""Which iterations of a loop see each other through memory: places as sums, and arrays that may share memory.

Two accesses of one array meet in different iterations unless their places differ in an axis that the loop does not go along, or
are the same in each iteration. Of two arrays it is asked when the program runs whether they are apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.affine import Affine, atom_of
from npcompile.tensor_core.loop_ir.forms import inner, results, walk
from npcompile.tensor_core.loop_ir.ops import Alloc, Constant, For, Let, Load, Program, Scratch, Store
from npcompile.tensor_core.loop_ir.report import Declined
from npcompile.tensor_core.loop_ir.types import INT, List


@dataclass(slots=True)
class Places:
    """The integers of a program as sums. What is not made by adding is an atom."""

    forms: dict[int, Affine] = field(default_factory=dict)

    def form(self, value: int) -> Affine:
        found = self.forms.get(value)
        if found is None:
            found = self.forms[value] = atom_of(value)
        return found

    def along(self, value: int, index: int) -> int:
        """By how much it grows where `index` grows by 1, if it is a sum with it."""
        return self.form(value).factors.get(index, 0)


def places_of(program: Program) -> Places:
    found = Places()
    for op in walk(program.body):
        if type(op) is Constant and type(op.value) is int:
            found.forms[op.result] = Affine(op.value)
        elif type(op) is Let and program.types[op.result] == INT and (form := sum_of(found, op)) is not None:
            found.forms[op.result] = form
    return found


def sum_of(places: Places, op: Let) -> Affine | None:
    if op.op not in ("add", "subtract", "multiply"):
        return None
    a, b = map(places.form, op.args)
    if op.op == "multiply":
        return a * b.constant if not b.factors else b * a.constant if not a.factors else None
    return a + b if op.op == "add" else a - b


@dataclass(slots=True)
class Fresh:
    """Arrays that the program makes: two of these share no memory, nor does one with an argument."""

    scratch: set[int]
    made: set[int]
    params: set[int]

    def are_apart(self, one: int, other: int) -> bool:
        if one in self.scratch or other in self.scratch:
            return True
        return one in self.made and other in self.made | self.params or other in self.made and one in self.params


def fresh_of(program: Program) -> Fresh:
    ops = walk(program.body)
    params = {param.value for param in program.params}
    return Fresh({op.result for op in ops if type(op) is Scratch}, {op.result for op in ops if type(op) is Alloc}, params)


def pairs_apart(loop: For, program: Program, places: Places, fresh: Fresh) -> list[tuple[int, int]]:
    """The pairs of arrays that must be apart, so that no iteration sees what another stores.

    Raises Declined where one does, whatever the arrays are.
    """
    ops = walk(loop.body)
    accesses = [op for op in ops if isinstance(op, Load | Store)]
    inside = {value for op in ops for value in (*results(op), *inner(op))}  # without the loop's own index
    if any(op.array in inside for op in accesses):
        raise Declined("an array that is another one from iteration to iteration")
    needed: dict[tuple[int, int], None] = {}
    for store in accesses:
        if type(store) is not Store:
            continue
        for other in accesses:
            if other.array == store.array:
                if not never_meet(store.index, other.index, loop.index, inside, places):
                    raise Declined("iterations that need what others store")
            elif not isinstance(program.types[other.array], List) and not fresh.are_apart(store.array, other.array):
                needed[min(store.array, other.array), max(store.array, other.array)] = None
    return list(needed)


def never_meet(one: list[int], other: list[int], index: int, inside: set[int], places: Places) -> bool:
    """Are accesses at these indices, in different iterations, always of different elements? One axis is enough to show it."""
    for a, b in zip(one, other, strict=True):
        form, difference = places.form(a), places.form(a) - places.form(b)
        if difference.factors or not inside.isdisjoint(form.factors):
            continue
        if difference.constant == 0 if index in form.factors else difference.constant != 0:
            return True  # another element in each iteration, the same of both; or always another row
    return False
