"""Places of elements that are not 0, in native programs: np.nonzero, np.flatnonzero and np.argwhere of vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part, Read
from npcompile.backends.cpu.loops.dependence import OWN
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops
from npcompile.backends.cpu.nonzero import HELPERS, text_of
from npcompile.tracer.native.arrays import is_array, memory, statements
from npcompile.tracer.native.types import Items


def nonzero(code: ScalarLoops, x: Any, fail: Fail) -> Items:
    """A tuple of one vector: as NumPy's a view, of a column."""
    return Items((flatnonzero(code, x, fail),))


def flatnonzero(code: ScalarLoops, x: Any, fail: Fail) -> Part:
    if not is_array(x):
        raise NoForm("np.nonzero of a number")
    part = memory(code, x, fail)
    if part.ndim != 1:
        raise NoForm("np.nonzero of other than vectors")
    kind, made = part.dtype.str[1:], statements(code)
    made.folds.setdefault("places", HELPERS)
    made.folds.setdefault(f"places of {kind}", text_of(kind))
    slot = code.variable(f"made{code.new_site()}", "object")
    if code.accesses is not None:
        code.accesses.memory(part.data)
    given = [f"&{slot}", f"npc_dtypes[{code.dtype(np.dtype(np.intp))}]", part.data, part.sizes[0], part.strides[0]]
    code.line(f"NPC_COMPUTED({part.sizes[0]});")
    code.line(f"if (npc_places_{kind}({', '.join(given)})) goto {code.failing()};")
    data, size = code.new("data", f"((npc_array*){slot})->data"), code.new("int", f"((npc_array*){slot})->dimensions[0]")
    if code.accesses is not None:
        code.accesses.origins[data] = OWN
    return Part(np.dtype(np.intp), data, (size,), ("8",), slot, True, False, True, True)


def argwhere(code: ScalarLoops, x: Any, fail: Fail) -> Part:
    """np.argwhere of a vector: as NumPy's a row of places, transposed."""
    found = flatnonzero(code, x, fail)
    (size,) = found.sizes
    made = statements(code).fresh(found.dtype, ["1", size])
    column = replace(made, sizes=(size, "1"), strides=made.strides[::-1], is_whole=False, is_dense=False, is_ordered=False)
    statements(code).store(column, Read(replace(found, sizes=(size, "1"), strides=("8", "8"))), fail, is_new=True)
    return column
