"""Products of matrices and vectors in native loops as C: those with vectors by `vector_products.py`, others by `product.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.dots import TAGS
from npcompile.backends.cpu.loops.array_loops import ArrayLoops
from npcompile.backends.cpu.loops.loop_nest import Function
from npcompile.backends.cpu.loops.scalar_loops import Fail
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.vector_products import vector_products_text


def has_form(dtype: np.dtype, ndim: int, other: int) -> bool:
    """Of arrays of so many axes. Those of complex numbers are matrices."""
    return {ndim, other} <= {1, 2} and (dtype.str[1:] in TAGS or dtype.kind == "c" and ndim == other == 2)


def helpers(loops: ArrayLoops, dtype: np.dtype) -> str:
    """The functions for this dtype, once. Its short name."""
    tag = dtype.str[1:]
    loops.folds.setdefault(f"vectors {tag}", vector_products_text(tag))
    return tag


def vectors(loops: ArrayLoops, x: Part, y: Part, fail: Fail) -> str:
    """The product of two vectors of one size: a C variable."""
    f, tag = Function(loops.name()), helpers(loops, x.dtype)
    result = loops.code.room(tag)
    sides = [f"{f.take(p.data, 'char*')}, {f.take(p.strides[0])}" for p in (x, y)]
    n = f.take(x.sizes[0])
    infinite = " || ".join(f"npc_has_infinity_{tag}({p}, 1, 0)" for p in (side.replace(", ", f", {n}, ") for side in sides))
    lines = [f"*out = npc_dot_{tag}({', '.join(sides)}, {n});"]
    lines.append(f"if (UNLIKELY(npc_not_finite_{tag}(out, 1)) && ({infinite})) return 1;")
    finish(loops, f, lines, fail, x.sizes, f"{c_type(x.dtype)}* out", f"&{result}")
    return result


def matrix_vector(loops: ArrayLoops, a: Part, x: Part, fail: Fail) -> Part:
    """a @ x."""
    f, tag = Function(loops.name()), helpers(loops, x.dtype)
    target = loops.fresh(x.dtype, [a.sizes[0]])
    matrix, rows, inner = f.take(a.data, "char*"), *map(f.take, a.strides)
    vector, step, out, m, n = f.take(x.data, "char*"), f.take(x.strides[0]), f.take(target.data, "char*"), *map(f.take, a.sizes)
    infinite = f"npc_has_infinity_{tag}({matrix}, {m}, {rows}, {n}, {inner})"
    infinite += f" || npc_has_infinity_{tag}({vector}, {n}, {step}, 1, 0)"
    lines = [f"if (npc_matvec_{tag}({matrix}, {rows}, {inner}, {vector}, {step}, {out}, {m}, {n})) return -1;"]
    lines.append(f"if (UNLIKELY(npc_not_finite_{tag}((const {c_type(x.dtype)}*){out}, {m})) && ({infinite})) return 1;")
    finish(loops, f, lines, fail, a.sizes, matrix=a.root)
    return target


def matrices(loops: ArrayLoops, a: Part, b: Part, fail: Fail) -> Part:
    """a @ b."""
    f, tag = Function(loops.name()), a.dtype.str[1:]
    target = loops.fresh(a.dtype, [a.sizes[0], b.sizes[1]])
    given = [p for part in (target, a, b) for p in (f.take(part.data, "char*"), *map(f.take, part.strides))]
    given += [f.take(n) for n in (a.sizes[0], b.sizes[1], a.sizes[1])]
    finish(loops, f, [f"if (rt->product_{tag}({', '.join(given)}, (int64_t)1 << 62)) return -1;"], fail, (*a.sizes, b.sizes[1]))
    return target


def finish(
    loops: ArrayLoops,
    f: Function,
    lines: list[str],
    fail: Fail,
    work: Sequence[str],
    extra: str = "",
    passed: str = "",
    matrix: str = "",
) -> None:
    """The function and its call. It leaves where NumPy's product may report an error: BLAS notes infinities in its own way."""
    out = ['__asm__ volatile("" : "+m"(*out) : : "memory");'] * bool(extra)
    head = f"static int {f.name}({', '.join(filter(None, [f.signature, extra]))}) {{"
    loops.functions += [head, *lines, *out, "return 0;", "}"]
    loops.call(f, passed, fail, True, work, matrix=matrix, notes=True, is_new=True)
