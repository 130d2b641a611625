"""Which iterations of a loop see each other through memory: places as sums, and arrays that may share memory.

Two accesses of one array meet in different iterations unless their places differ in an axis that the loop does not go along, or
are the same in each iteration. Of two arrays it is asked when the program runs whether they are apart.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final, TypeAlias

from npcompile.tensor_core.loop_ir.affine import Affine, Ranges
from npcompile.tensor_core.loop_ir.forms import defined, walk
from npcompile.tensor_core.loop_ir.ops import (
    Alloc,
    Call,
    Constant,
    For,
    Let,
    Load,
    Op,
    Program,
    Region,
    Room,
    Scratch,
    Store,
    View,
)
from npcompile.tensor_core.loop_ir.report import Declined
from npcompile.tensor_core.loop_ir.types import INT, List, Memref


def places_of(program: Program) -> Ranges:
    """The integers of a program as sums, and between what they lie."""
    found = Ranges()
    learn(found, program, program.body)
    return found


def learn(found: Ranges, program: Program, region: Region) -> None:
    """Add the integers of a region."""
    for op in walk(region):
        if type(op) is Constant and type(op.value) is int:
            found.forms[op.result] = Affine(op.value)
        elif type(op) is For:
            found.atom(op.index, found.form(op.start), found.form(op.stop).plus(-1))
        elif type(op) is Let and program.types[op.result] == INT and (form := sum_of(found, op)) is not None:
            found.forms[op.result] = form


def sum_of(places: Ranges, op: Let) -> Affine | None:
    if op.op not in ("add", "subtract", "multiply"):
        return None
    a, b = map(places.form, op.args)
    if op.op == "multiply":
        return a * b.constant if not b.factors else b * a.constant if not a.factors else None
    return a + b if op.op == "add" else a - b


def along(places: Ranges, value: int, index: int) -> int:
    """By how much a value grows where `index` grows by 1, if it is a sum with it."""
    return places.form(value).factors.get(index, 0)


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
    return Fresh(
        {op.result for op in ops if type(op) is Scratch or type(op) is Room},
        {op.result for op in ops if type(op) is Alloc},
        params,
    )


def pairs_apart(loop: For, program: Program, places: Ranges, fresh: Fresh, own: Container[int] = ()) -> list[tuple[int, int]]:
    """The pairs of arrays that must be apart, so that no iteration sees what another stores. `own`: those of one iteration.

    Raises Declined where one does, whatever the arrays are.
    """
    ops = walk(loop.body)
    accesses = [op for op in ops if (type(op) is Load or type(op) is Store) and op.array not in own]
    inside = defined(ops)  # without the loop's own index
    if any(op.array in inside for op in accesses):
        raise Declined("an array that is another one from iteration to iteration")
    touched: dict[int, dict[Where, None]] = {}
    stored: dict[int, dict[Where, None]] = {}
    for op in accesses:
        touched.setdefault(op.array, {})[tuple(op.index)] = None
        if type(op) is Store:
            stored.setdefault(op.array, {})[tuple(op.index)] = None
    for array, where in read_by_routines(ops, program):
        if array not in own:
            touched.setdefault(array, {})[where] = None
    needed: dict[tuple[int, int], None] = {}
    for array, indices in stored.items():
        if not is_divided([*touched[array]], loop.index, inside, places) and not all(
            never_meet(one, other, loop.index, inside, places) for one in indices for other in touched[array]
        ):
            raise Declined("iterations that need what others store")
        for other in touched:
            if other != array and not isinstance(program.types[other], List) and not fresh.are_apart(array, other):
                needed[min(array, other), max(array, other)] = None
    return list(needed)


Part: TypeAlias = "tuple[int, int]"  # along an axis: where it begins, and how long it is
Where: TypeAlias = "tuple[int | Part, ...]"  # what of an array is accessed: an index along an axis, or a part
WHOLE: Final = (-1, -1)


def read_by_routines(ops: list[Op], program: Program) -> list[tuple[int, Where]]:
    """The arrays that Calls are given, and which part of each."""
    views = {op.result: op for op in ops if type(op) is View}
    found: list[tuple[int, Where]] = []
    for op in ops:
        for value in op.args if type(op) is Call else ():
            view = views.get(value)
            if view is None or view.array in views:
                while value in views:
                    value = views[value].array
                kind = program.types[value]
                assert isinstance(kind, Memref), kind
                found.append((value, (WHOLE,) * kind.rank))
            else:
                sizes = iter(view.sizes)
                parts = [(start, next(sizes)) if kept else start for start, kept in zip(view.starts, view.kept)]
                found.append((view.array, tuple(parts)))
    return found


def is_divided(indices: list[Where], index: int, inside: set[int], places: Ranges) -> bool:
    """Does each iteration have a part of the array for itself, as all indices along an axis are the same sum with the loop's?"""
    for along_axis in zip(*indices):
        if any(isinstance(x, tuple) for x in along_axis):
            continue
        form = places.form(along_axis[0])
        if index in form.factors and inside.isdisjoint(form.factors) and all(places.form(x) == form for x in along_axis):
            return True
    return False


TWIN: Final = -1  # the atom of a loop's index in another iteration


def never_meet(one: Where, other: Where, index: int, inside: set[int], places: Ranges) -> bool:
    """Are these accesses, in different iterations, always of different elements? One axis is enough to show it."""
    places.bounds[TWIN] = places.bounds[index]
    for a, b in zip(one, other, strict=True):
        if WHOLE in (a, b):
            continue
        (first, last), (low, high) = bounds_of(places, a), bounds_of(places, b)
        if any(not inside.isdisjoint(form.factors) for form in (first, last, low, high)):
            continue
        if first == last == low == high and index in first.factors:
            return True  # another element in each iteration
        low, high = (form.without(index) + Affine(0, {TWIN: 1}) * form.factors.get(index, 0) for form in (low, high))
        if is_above(places, first - high) or is_above(places, low - last):
            return True  # elements before, or after, all that the other goes to
    return False


def bounds_of(places: Ranges, x: int | Part) -> tuple[Affine, Affine]:
    """The first and the last index."""
    if isinstance(x, int):
        return places.form(x), places.form(x)
    first = places.form(x[0])
    return first, (first + places.form(x[1])).plus(-1)


def is_above(places: Ranges, form: Affine) -> bool:
    least = places.least(form)
    return not least.factors and least.constant > 0
