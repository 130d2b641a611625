"""Elements of arrays that a mask selects, read and written, and their number, in native programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part, is_flat
from npcompile.backends.cpu.loops.loop_nest import known_product, require_shallow
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops
from npcompile.backends.cpu.loops.selections import COUNT, FILL, SELECT, SPREAD, text_of
from npcompile.tracer.native.arrays import copied, is_array, kind_of, memory, part_of, statements
from npcompile.tracer.native.types import Formula, Scalar


def helper(code: ScalarLoops, form: str, dtype: np.dtype) -> None:
    """Have one of the functions in the unit."""
    text = text_of(form, dtype)
    statements(code).folds.setdefault(text, text)


def touch(code: ScalarLoops, part: Part, is_written: bool = False) -> None:
    if is_written:
        code.write_to(part.root)
    if code.accesses is not None:
        code.accesses.memory(part.data, is_written=is_written)


def rows(parts: Sequence[Part]) -> tuple[list[str], list[str], str]:
    """(beginnings of loops over the rows of arrays of the same sizes, the first byte of each row, elements of a row)."""
    if all(map(is_flat, parts)):
        return [], [p.data for p in parts], f"({known_product(parts[0].sizes)})"
    require_shallow(parts[0].ndim)
    around = range(parts[0].ndim - 1)
    begins = [f"for (int64_t i{k} = 0; i{k} < {parts[0].sizes[k]}; i{k}++) {{" for k in around]
    return begins, ["".join([p.data, *(f" + i{k} * {p.strides[k]}" for k in around)]) for p in parts], parts[0].sizes[-1]


def step_of(part: Part) -> str:
    return part.strides[-1]


def count_nonzero(code: ScalarLoops, x: Any, fail: Fail) -> Scalar:
    """Of all elements."""
    part = memory(code, x, fail)
    statements(code).work(part.sizes)
    return Scalar("i8", counted(code, part))


def counted(code: ScalarLoops, part: Part) -> str:
    """A C variable: how many elements are not 0."""
    helper(code, COUNT, part.dtype)
    touch(code, part)
    total = code.room("i8")
    begins, (first,), size = rows([part])
    called = f"{total} += npc_nonzeros_{kind_of(part)}((const char*)({first}), {size}, {step_of(part)});"
    code.line(" ".join([*begins, called, *("}" for _ in begins)]))
    return total


def mask_of(code: ScalarLoops, key: Any, owner: Part, fail: Fail) -> Part:
    """The mask in memory, of as many elements along each of its axes as the array has."""
    mask = memory(code, key, fail)
    if mask.ndim > owner.ndim:
        raise NoForm("a mask of more axes than the array")
    for size, other in zip(mask.sizes, owner.sizes):
        if size != other:
            code.leave_if(f"{size} != {other}", fail)
    return mask


def getitem(code: ScalarLoops, owner: Any, key: Any, fail: Fail) -> Part:
    """A new array of the elements, or of the rows, that a mask selects."""
    part = memory(code, owner, fail)
    mask = mask_of(code, key, part, fail)
    if mask.ndim < part.ndim and (part.ndim != 2 or not part.is_ordered):
        raise NoForm("a mask of some axes of an array")
    made = statements(code)
    made.work(part.sizes)
    count = code.new("int", counted(code, mask))
    touch(code, part)
    if mask.ndim < part.ndim:
        return selected_rows(code, part, mask, count)
    found = made.fresh(part.dtype, [count])
    helper(code, SELECT, part.dtype)
    begins, (flags, first), size = rows([mask, part])
    c = C_OF_KIND[kind_of(part)]
    to = f"{found.data}_next"
    code.line(f"{c}* {to} = ({c}*){found.data};")
    given = f"{flags}, {size}, {step_of(mask)}, {first}, {step_of(part)}, {to}, ({c}*){found.data} + {count}"
    called = f"{to} = npc_selected_{kind_of(part)}({given});"
    code.line(" ".join([*begins, called, *("}" for _ in begins)]))
    return found


def selected_rows(code: ScalarLoops, part: Part, mask: Part, count: str) -> Part:
    found = statements(code).fresh(part.dtype, [count, part.sizes[1]])
    c = C_OF_KIND[kind_of(part)]
    element = f"*({c}*)({part.data} + k * {part.strides[0]} + j * {part.strides[1]})"
    copy = f"for (int64_t j = 0; j < {part.sizes[1]}; j++) (({c}*){found.data})[{found.data}_at++] = {element};"
    code.line(f"int64_t {found.data}_at = 0;")
    code.line(f"for (int64_t k = 0; k < {part.sizes[0]}; k++) if ({mask.data}[k * {mask.strides[0]}]) {copy}")
    return found


def setitem(code: ScalarLoops, owner: Any, key: Any, value: Any, fail: Fail) -> None:
    """A number, or as many elements as there are, written where a mask selects."""
    if isinstance(owner, Formula):
        raise NoForm("elements of what is not stored are set")
    target = part_of(owner)
    mask = mask_of(code, key, target, fail)
    if mask.ndim != target.ndim:
        raise NoForm("rows that a mask selects are set")
    made = statements(code)
    if mask.root == target.root or made.are_far(target, mask) is None:  # what is written must not change what is asked
        mask = memory(code, copied(code, mask, fail), fail)
    made.work(target.sizes)
    kind = kind_of(target)
    begins, (flags, first), size = rows([mask, target])
    given = f"{flags}, {size}, {step_of(mask)}, {first}, {step_of(target)}"
    if isinstance(value, Scalar):
        helper(code, FILL, target.dtype)
        stored = code.new(kind, code.stored(value.text, value.kind, kind, fail))
        called = f"npc_fill_{kind}({given}, {stored});"
    else:
        source = source_of(code, value, target, fail)
        code.leave_if(f"{source.sizes[0]} != {counted(code, mask)}", fail)
        helper(code, SPREAD, target.dtype)
        c, read = C_OF_KIND[kind], f"{source.data}_read{code.new_site()}"
        code.line(f"const {c}* {read} = (const {c}*){source.data};")
        called = f"{read} = npc_put_{kind}({given}, {read});"
    touch(code, mask)
    touch(code, target, is_written=True)
    code.line(" ".join([*begins, called, *("}" for _ in begins)]))


def source_of(code: ScalarLoops, value: Any, target: Part, fail: Fail) -> Part:
    """Numbers side by side that nothing else has, in an array that the program has made."""
    if not is_array(value):
        raise NoForm("what is stored where a mask selects is not a number")
    part = memory(code, value, fail)
    is_new = part.is_own and part.is_whole and part.root.startswith("made")
    if part.ndim != 1 or part.dtype != target.dtype or not is_new or part.root == target.root:
        raise NoForm("what is stored where a mask selects is of another type, or may be the same memory")
    return part
