"""np.bincount in native loops: one number after the other is computed and added, as NumPy adds them."""

from __future__ import annotations

import numpy as np

from npcompile.backends.cpu.array_expressions import Number, Part, Read, Tree, is_expensive, may_note
from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.elements import C_OF_KIND
from npcompile.backends.cpu.loops.array_loops import ArrayLoops
from npcompile.backends.cpu.loops.dependence import OWN
from npcompile.backends.cpu.loops.loop_nest import Function, Nest
from npcompile.backends.cpu.loops.scalar_loops import Fail
from npcompile.backends.cpu.primitives import c_type


class SerialNest(Nest):
    """Loops that are no vectors, in a function that writes to new memory only: it returns where an index is outside."""

    def checked(self, place: str, size: str) -> list[str]:
        return [f"if (UNLIKELY((uint64_t){place} >= (uint64_t){size})) return 1;"]


# Raises `most` to a number more than all places. 1 if one is negative, or too large.
MOST = """
static int npc_most_KIND(const char* data, int64_t stride, int64_t n, int64_t* most) {
  int64_t found = *most, bad = 0;
  if (stride == sizeof(C))
    for (int64_t k = 0; k < n; k++) {
      const int64_t place = ((const C*)data)[k];
      bad |= (uint64_t)place >= LIMITu;
      found = npc_max(found, place + 1);
    }
  else
    for (int64_t k = 0; k < n; k++) {
      const int64_t place = *(const C*)(data + k * stride);
      bad |= (uint64_t)place >= LIMITu;
      found = npc_max(found, place + 1);
    }
  *most = found;
  return bad != 0;
}
"""


def bincount(loops: ArrayLoops, places: Part, weights: Tree | None, least: str, most: int, fail: Fail) -> Part:
    """A new array: for each place the sum of its weights, or how often it is there. It has at least `least` elements.

    What vectors compute faster is computed before. Mostly no place is beyond `least`: only where one is, or `least` is 0, are
    all of them looked at first. The program is left where they ask for more than `most` elements.
    """
    code, count, kind = loops.code, places.sizes[0], places.dtype.str[1:]
    value = Number("1", np.dtype("i8")) if weights is None else weights
    if is_expensive(value):
        value = Read(loops.make(value, (count,), fail))
    size, are_seen, failed = code.room("int"), code.room("int"), code.room("int")
    code.line(f"{size} = {least};")
    code.leave_if(f"{size} < 0 || {size} > INT64_C({most}) || {count} == 0", fail)
    code.line(f"{are_seen} = 0;")
    code.line(f"if (!{size}) goto {size}_look;")
    code.line(f"{size}_add:;")
    slot = loops.room(value.dtype, [size])
    add = adding(loops, f"((npc_array*){slot})->data", size, value, places)
    loops.work([count])
    code.line(f"{failed} = {add.name}({add.texts});")
    code.line(f"if (!{failed}) goto {size}_made;")
    code.leave_if(are_seen, fail)
    code.line(f"{size}_look:;")
    loops.folds.setdefault(f"most of {kind}", filled(MOST, {"KIND": kind, "C": C_OF_KIND[kind], "LIMIT": str(most)}))
    code.line(f"{are_seen} = 1;")
    code.line(f"{failed} = npc_most_{kind}({places.data}, {places.strides[0]}, {count}, &{size});")
    code.leave_if(f"{failed} || {size} > INT64_C({most})", fail)
    code.line(f"goto {size}_add;")
    code.line(f"{size}_made:;")
    return loops.made_in(slot, value.dtype, [code.new("int", size)])


def adding(loops: ArrayLoops, to: str, size: str, value: Tree, places: Part) -> Function:
    """Sets `size` numbers to 0 and adds the values, one after the other as NumPy does. 1 where a place is beyond them."""
    f = Function(loops.name())
    nest = SerialNest(f, (places.sizes[0],))
    target, count, c = f.take(to, "char*"), f.take(size), c_type(value.dtype)
    at = nest.value(Read(places))
    added = nest.value(value)
    notes = may_note(value)
    add = [f"const int64_t to = {at};", *nest.checked("to", count), f"(({c}*){target})[to] += {added};"]
    lines = nest.loops(add)
    loops.functions += [
        f"CHAIN int {f.name}({f.signature}) {{",
        f"__builtin_memset({target}, 0, {count} * sizeof({c}));",
        *nest.begins,
        "int bad = 0;",
        *["npc_forget();"] * notes,
        *lines,
        *["bad |= npc_noted() != 0;"] * notes,
        "return bad;",
        "}",
    ]
    if (accesses := loops.code.accesses) is not None:
        accesses.origins[to] = OWN
        for text, (kind, _) in f.parameters.items():
            if kind == "char*":
                accesses.memory(text)
    return f
