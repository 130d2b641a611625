"""Sums at places that are data, in native loops: one number after the other is computed and added, as NumPy adds them."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu.array_trees import Apply, Part, Read, Tree, may_fail, may_note
from npcompile.backends.cpu.loops.array_loops import ArrayLoops
from npcompile.backends.cpu.loops.nests import Function, Nest
from npcompile.backends.cpu.loops.scalar_loops import Fail
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.kernels.operations import EXPENSIVE


class SerialNest(Nest):
    """Loops that are no vectors, in a function that writes to new memory only: it returns where an index is outside."""

    def checked(self, place: str, size: str) -> list[str]:
        return [f"if (SELDOM((uint64_t){place} >= (uint64_t){size})) return 1;"]


def add_at(made: ArrayLoops, target: Part, places: Tree, value: Tree, sizes: Sequence[str], fail: Fail) -> None:
    """Zeros, and on them the values at the places, which are in `target`. What vectors compute faster is computed before."""
    if is_expensive(value):
        value = Read(made.make(value, tuple(sizes), fail))
    f = Function(made.name())
    nest = SerialNest(f, tuple(sizes))
    to, count, c = f.take(target.data, "char*"), f.take(target.sizes[0]), c_type(target.dtype)
    at = nest.value(places)
    added = nest.value(value)
    begin = [f"for (int64_t k = 0; k < {count}; k++) (({c}*){to})[k] = 0;", *nest.begins, "int bad = 0;"]
    notes = may_note(value)
    loops = nest.loops([f"(({c}*){to})[{at}] += {added};"])
    end = ["bad |= npc_noted() != 0;"] * notes + ["return bad;"]
    # Apart from its caller, whose variables would take the registers.
    made.functions += [
        f"static __attribute__((noinline)) int {f.name}({f.signature}) {{",
        *begin,
        *["npc_forget();"] * notes,
        *loops,
        *end,
        "}",
    ]
    made.call(f, "", fail, notes or may_fail(value), sizes)


def is_expensive(tree: Tree) -> bool:
    return isinstance(tree, Apply) and (tree.op in EXPENSIVE or any(map(is_expensive, tree.args)))
