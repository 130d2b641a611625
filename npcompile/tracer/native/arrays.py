"""What Python's operators and NumPy's functions do to arrays in a native loop. NoForm where they do something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Apply, Gather, Number, Part, Read, Tree, has_form, is_same, parts_of
from npcompile.backends.cpu.elements import PART_OF_COMPLEX, ArrayInput
from npcompile.backends.cpu.loops import array_products
from npcompile.backends.cpu.loops.array_loops import ArrayLoops
from npcompile.backends.cpu.loops.column_packing import name_of
from npcompile.backends.cpu.loops.elementwise import is_numpys
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, LIMITS, Fail, NoForm, ScalarLoops, is_complex
from npcompile.backends.cpu.loops.value_ranges import Integer
from npcompile.backends.cpu.primitives import c_type
from npcompile.tracer.native.types import Elements, Formula, Items, Known, ReadOnly, Scalar, Slice, promoted

Array = (Elements, Part, Formula)
AXES = 6  # at most
# Functions whose loops over complex numbers are written here.
OF_COMPLEX = {np.add, np.subtract, np.multiply, np.divide, np.square, np.negative, np.positive, np.conjugate}
OF_COMPLEX |= {np.equal, np.not_equal, np.absolute}


def is_array(value: Any) -> bool:
    return isinstance(value, Array)


def statements(code: ScalarLoops) -> ArrayLoops:
    code.refuse_strip()
    if code.pointwise is not None:
        raise NoForm("a statement in which elements need others")
    if code.statements is None:
        code.statements = ArrayLoops(code)
    made: ArrayLoops = code.statements
    return made


# --- arrays as parts of memory, and as elements


def part_of(value: Elements | Part) -> Part:
    if isinstance(value, Part):
        return value
    a = value.input
    dtype = np.dtype(a.kind)
    sizes = tuple(f"{a.name}_n{k}" for k in range(a.ndim))
    return Part(
        dtype,
        a.name,
        sizes,
        strides_of(a),
        a.root,
        is_own=bool(a.made),
        is_whole=bool(a.made),
        is_dense=a.is_contiguous,
        is_ordered=a.is_contiguous or a.ndim == 1,
    )


def strides_of(a: ArrayInput) -> tuple[str, ...]:
    strides = [f"{a.name}_s{k}" for k in range(a.ndim)]
    if a.is_contiguous:
        strides[-1] = str(np.dtype(a.kind).itemsize)
    return tuple(strides)


def tree_of(value: Any) -> tuple[Tree, tuple[str, ...]]:
    """(the elements, the sizes)."""
    if isinstance(value, Formula):
        return value.tree, value.sizes
    part = part_of(value)
    return Read(part), part.sizes


def settled(code: ScalarLoops, value: Any, fail: Fail) -> Any:
    """The value, computed if it was not."""
    if not isinstance(value, Formula):
        return value
    if isinstance(value, ReadOnly):
        raise NoForm("a view that must not be written through")
    if code.pointwise is not None:
        return code.pointwise.hold(value)
    require_order(value.tree, len(value.sizes))
    return statements(code).make(value.tree, value.sizes, fail)


def reported(code: ScalarLoops, value: Any, fail: Fail) -> Any:
    """The value, of which no element is asked for: computed all the same, as NumPy does, for the errors that it may report."""
    return value if isinstance(value, ReadOnly) else settled(code, value, fail)


def require_order(tree: Tree, rank: int) -> None:
    """NoForm where NumPy's result may be in another order than C's: in that of what it is computed of."""
    if rank > 1 and not all(p.is_ordered for p in parts_of(tree)):
        raise NoForm("a result that may be in another order than C's")


def memory(code: ScalarLoops, value: Any, fail: Fail) -> Part:
    if isinstance(value, Formula) and code.pointwise is not None:
        made: Part = code.pointwise.memory(value)
        return made
    return part_of(settled(code, value, fail))


def kind_of(value: Any) -> str:
    if isinstance(value, Scalar):
        return value.kind
    return tree_of(value)[0].dtype.str[1:]


def is_complex_array(value: Any) -> bool:
    return is_array(value) and is_complex(kind_of(value))


def require_complex_ufunc(code: ScalarLoops, ufunc: np.ufunc, kinds: Sequence[str]) -> None:
    """NoForm where `kinds` has complex ones and the function of these is left to graphs and to NumPy."""
    if any(map(is_complex, kinds)) and (ufunc not in OF_COMPLEX or code.pointwise is not None):
        raise NoForm(f"{ufunc.__name__} of an array of complex numbers")


def require_real_blocks(code: ScalarLoops, *kinds: str) -> None:
    """Loops by blocks of rows compute nothing of complex numbers."""
    if code.pointwise is not None and any(map(is_complex, kinds)):
        raise NoForm("complex numbers in blocks of rows")


def number(text: str, kind: str) -> Number:
    dtype = np.dtype(kind)
    return Number(f"(({c_type(dtype)}){{__real__ {text}, __imag__ {text}}})" if is_complex(kind) else text, dtype)


def cast(tree: Tree, kind: str) -> Tree:
    dtype = np.dtype(kind)
    return tree if tree.dtype == dtype else Apply("cast", (tree,), dtype)


def integer_text(value: Scalar) -> str:
    """Digits where the integer is known."""
    return value.text.removeprefix("INT64_C(").removesuffix(")")


def known(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdigit() else None


def broadcast(code: ScalarLoops, shapes: Sequence[tuple[str, ...]], fail: Fail) -> tuple[str, ...]:
    """The common shape. The program leaves where sizes differ that it does not know to be 1."""
    rank = max(map(len, shapes))
    if rank > AXES:
        raise NoForm(f"arrays of {rank} axes")
    found = []
    for k in range(rank):
        sizes = [s[k - rank + len(s)] for s in shapes if k - rank + len(s) >= 0]
        others = [*dict.fromkeys(n for n in sizes if n != "1")]
        for n in others[1:]:
            require_same(code, n, others[0], fail)
        found.append(others[0] if others else "1")
    return tuple(found)


def require_same(code: ScalarLoops, size: str, other: str, fail: Fail) -> None:
    """Leave where they differ."""
    if size == other:
        return
    if code.pointwise is not None:
        code.pointwise.require_same(size, other)
    else:
        code.leave_if(f"{size} != {other}", fail)


# --- elementwise


def elementwise(code: ScalarLoops, ufunc: np.ufunc, arguments: Sequence[Any], fail: Fail) -> Formula:
    if ufunc in (np.power, np.float_power):
        raise NoForm("powers of arrays")
    return applied(code, ufunc, arguments, fail)


def applied(code: ScalarLoops, ufunc: np.ufunc, arguments: Sequence[Any], fail: Fail) -> Formula:
    """A ufunc that is to the elements what its primitive is."""
    kinds = []
    for x in arguments:
        if not (is_array(x) or isinstance(x, Scalar)):
            raise NoForm(f"{ufunc.__name__} of {type(x).__name__}")
        kinds.append(kind_of(x))
    require_complex_ufunc(code, ufunc, kinds)
    wanted, result = promoted(ufunc, tuple(kinds))
    trees: list[Tree] = []
    for x, kind in zip(arguments, wanted):
        if isinstance(x, Scalar):
            trees.append(number(code.converted(x.text, x.kind, kind, fail), kind))
        else:
            trees.append(cast(tree_of(x)[0], kind))
    if not has_form(ufunc.__name__, [t.dtype for t in trees]):
        raise NoForm(f"{ufunc.__name__} in {', '.join(wanted)}")
    if is_numpys(code, ufunc.__name__, wanted[0]):
        raise NoForm(f"{ufunc.__name__} of an array, with NumPy's last bits")
    sizes = broadcast(code, [tree_of(x)[1] for x in arguments if is_array(x)], fail)
    return Formula(Apply(ufunc.__name__, tuple(trees), np.dtype(result)), sizes)


def where(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Formula:
    condition, a, b = arguments
    if kind_of(condition) not in ("b1",) or not is_array(condition):
        raise NoForm("np.where of a condition that is not an array of booleans")
    require_real_blocks(code, kind_of(a), kind_of(b))
    wanted, _ = promoted(np.maximum, (kind_of(a), kind_of(b)))
    made: list[Tree] = [tree_of(condition)[0]]
    for x in (a, b):
        if isinstance(x, Scalar):
            made.append(number(code.converted(x.text, x.kind, wanted[0], fail), wanted[0]))
        else:
            made.append(cast(tree_of(x)[0], wanted[0]))
    sizes = broadcast(code, [tree_of(x)[1] for x in arguments if is_array(x)], fail)
    return Formula(Apply("where", tuple(made), np.dtype(wanted[0])), sizes)


# --- indices


def index_items(key: Any) -> list[Any]:
    return [*key.items] if isinstance(key, Items) else [key]


def is_partial(owner: Any, key: Any) -> bool:
    """Does the index give an array, not an element?"""
    items = index_items(key)
    return not all(isinstance(i, Scalar) for i in items) or len(items) != len(tree_of(owner)[1])


def as_index(x: Scalar) -> str:
    if x.kind not in ("int", *(k for k in LIMITS if k != "u8")):
        raise NoForm(f"an index of kind {x.kind}")
    return f"(int64_t){x.text}" if x.kind[0] == "u" else integer_text(x)


def view(code: ScalarLoops, part: Part, key: Any, fail: Fail) -> Part:
    """The part that an index of integers, slices, None and ... gives."""
    code.refuse_strip()
    part = by_columns(code, part)
    items = index_items(key)
    used = sum(not (isinstance(i, Known) and i.value in (None, Ellipsis)) for i in items)
    dots = [k for k, i in enumerate(items) if isinstance(i, Known) and i.value is Ellipsis]
    if used > part.ndim or len(dots) > 1:
        raise NoForm("an index with too many parts")
    rest: list[Any] = [Slice(None, None, None)] * (part.ndim - used)
    if dots:
        items[dots[0] : dots[0] + 1] = rest
    else:
        items += rest
    if all(i == Slice(None, None, None) for i in items):
        return replace(part, is_whole=False)
    axis, offsets, sizes, strides = 0, [], [], []
    places: list[Integer | None] = [None] * part.ndim
    for item in items:
        if isinstance(item, Known) and item.value is None:
            sizes.append("1")
            strides.append("0")
            continue
        n, s = part.sizes[axis], part.strides[axis]
        axis += 1
        if isinstance(item, Scalar):
            at = as_index(item)
            places[axis - 1] = code.integer(item.text)
            place = code.new("int", f"{at} < 0 ? {at} + {n} : {at}")
            code.leave_if(f"(uint64_t){place} >= (uint64_t){n}", fail)
            offsets.append(f"{place} * {s}")
        elif isinstance(item, Slice):
            start, count, step = sliced(code, item, n, fail)
            if start != "0":
                offsets.append(f"{start} * {s}")
            sizes.append(count)
            strides.append(times(code, s, step))
        else:
            raise NoForm(f"an index of {type(item).__name__}")
    if len(sizes) > AXES:
        raise NoForm(f"arrays of {len(sizes)} axes")
    data = code.new("data", " + ".join([part.data, *offsets])) if offsets else part.data
    if offsets and code.accesses is not None:
        given = next((a for a in code.arrays if a.name == part.data and part.strides == strides_of(a)), None)
        code.accesses.view(data, part.data, None if given is None else places)
    found = Part(part.dtype, data, tuple(sizes), tuple(strides), part.root, part.is_own, is_ordered=part.is_ordered)
    if code.pointwise is not None:
        code.pointwise.view(part, items, found)
    return found


def by_columns(code: ScalarLoops, part: Part) -> Part:
    """The same matrix in the copy of it that the loop has, if it has one."""
    if code.accesses is None or part.data not in code.accesses.columns:
        return part
    item = str(part.dtype.itemsize)
    return replace(part, data=name_of(part.data), strides=(item, f"({part.sizes[0]} * {item})"))


def times(code: ScalarLoops, stride: str, step: str) -> str:
    if step == "1":
        return stride
    a, b = known(stride), known(step)
    return str(a * b) if a is not None and b is not None else code.new("int", f"{stride} * {step}")


def sliced(code: ScalarLoops, item: Slice, n: str, fail: Fail) -> tuple[str, str, str]:
    """(start, number of items, step) of a slice of an axis of `n` items, as slice.indices has them."""
    step = "1" if item.step is None else as_index(item.step)
    amount = known(step)
    if amount == 0:
        raise NoForm("a slice with step 0")
    if amount is not None and abs(amount) >= 2**31:
        raise NoForm("a slice with such a step")
    if amount is None:
        step = code.new("int", step)
        code.leave_if(f"{step} == 0 || {step} > 2147483647 || {step} < -2147483647", fail)
        low, high = code.new("int", f"{step} < 0 ? -1 : 0"), code.new("int", f"{step} < 0 ? {n} - 1 : {n}")
        first, last = f"({step} < 0 ? {high} : {low})", f"({step} < 0 ? {low} : {high})"
    else:
        low, high = ("0", n) if amount > 0 else ("-1", f"({n} - 1)")
        first, last = (low, high) if amount > 0 else (high, low)

    def bound(x: Scalar | None, otherwise: str) -> str:
        if x is None:
            return otherwise
        text = as_index(x)
        if text == "0" and amount is not None and amount > 0:
            return "0"
        return code.new("int", f"npc_bound({text}, {n}, {low}, {high})")

    start, stop = bound(item.start, first), bound(item.stop, last)
    if amount == 1:
        if start == "0":
            return start, stop, step
        return start, code.new("int", f"npc_max({stop} - {start}, 0)"), step
    return code.new("int", start), code.new("int", f"npc_count({start}, {stop}, {step})"), step


def getitem(code: ScalarLoops, owner: Any, key: Any, fail: Fail) -> Any:
    """A view, a scalar of a part, or elements at computed places."""
    if is_array(key):
        require_real_blocks(code, kind_of(owner))
        places, sizes = tree_of(key)
        if places.dtype.kind == "b" and code.pointwise is not None:
            return code.pointwise.select(owner, key)
        if places.dtype.kind not in "iu" or places.dtype == np.uint64:
            raise NoForm(f"an index of {places.dtype}")
        part = memory(code, owner, fail)
        if part.ndim != 1:
            raise NoForm("rows at computed places")
        return Formula(Gather(part, cast(places, "i8")), sizes)
    part = memory(code, owner, fail)
    found = view(code, part, key, fail)
    if found.ndim:
        return found
    if any(isinstance(i, Known) for i in index_items(key)):
        raise NoForm("an array of no axes")
    if code.pointwise is not None:
        code.pointwise.reads[part.root] = None
    kind = part.dtype.str[1:]
    element = f"*({C_OF_KIND[kind]}*)({found.data})"
    if code.accesses is not None:
        code.accesses.memory(found.data)
    return Scalar(kind, code.new(kind, f"{element} != 0" if kind == "b1" else element))


def setitem(code: ScalarLoops, owner: Any, key: Any, value: Any, fail: Fail) -> None:
    if is_array(key) and kind_of(key) == "b1" and code.pointwise is not None:
        code.pointwise.put(code, owner, key, value, fail)
        return
    if isinstance(owner, Formula) or is_array(key):
        raise NoForm("elements at computed places are set")
    target = view(code, part_of(owner), key, fail)
    assign(code, target, value, fail)


def assign(code: ScalarLoops, target: Part, value: Any, fail: Fail) -> None:
    """Write a number or an array into memory, as NumPy's assignment casts and broadcasts."""
    kind = target.dtype.str[1:]
    if isinstance(value, Scalar):
        stored(code, target, number(code.stored(value.text, value.kind, kind, fail), kind), fail)
        return
    if not is_array(value):
        raise NoForm(f"{type(value).__name__} is stored")
    tree, sizes = tree_of(value)
    if tree.dtype != target.dtype:
        require_real_blocks(code, kind, kind_of(value))
        if tree.dtype.kind == "c" and target.dtype.kind != "c":
            raise NoForm("complex numbers stored as real ones")  # a warning
    if isinstance(tree, Read) and is_same(tree.part, target):
        return  # what an operator in place gives is written back
    if len(sizes) > target.ndim:
        raise NoForm("an array of more axes is stored")
    for n, size in zip(reversed(sizes), reversed(target.sizes)):
        if n != "1":
            require_same(code, n, size, fail)
    stored(code, target, tree, fail)


def stored(code: ScalarLoops, target: Part, tree: Tree, fail: Fail) -> None:
    if code.pointwise is not None:
        code.pointwise.store(target, tree)
    else:
        statements(code).store(target, tree, fail)


def in_place(code: ScalarLoops, operate: Callable[[Any, Any], Formula], owner: Any, value: Any, fail: Fail) -> Any:
    """An operator such as +=, of an array: the array."""
    if isinstance(owner, Formula):
        return replaced(code, operate, owner, value)
    target = part_of(owner)
    made = operate(target, value)
    if not np.can_cast(made.tree.dtype, target.dtype, "same_kind"):
        raise NoForm(f"an operator in place gives {made.tree.dtype}")
    assign(code, target, made, fail)
    return owner


def replaced(code: ScalarLoops, operate: Callable[[Any, Any], Formula], owner: Formula, value: Any) -> Formula:
    """The same of an array that is not in memory."""
    if code.pointwise is None:
        raise NoForm("an operator in place of what is not stored")
    made = operate(owner, value)
    if not np.can_cast(made.tree.dtype, owner.tree.dtype, "same_kind"):
        raise NoForm(f"an operator in place gives {made.tree.dtype}")
    if isinstance(owner.tree, Apply):  # nothing else has what an index gave
        return Formula(cast(made.tree, owner.tree.dtype.str[1:]), owner.sizes)
    found: Formula = code.pointwise.replace(owner, made.tree, made.sizes)
    return found


def part_of_complex(code: ScalarLoops, x: Any, name: str, fail: Fail) -> Part:
    """The attribute `real` or `imag` of an array of complex numbers: a view."""
    require_real_blocks(code, kind_of(x))
    code.refuse_strip()
    whole, dtype = part_of(settled(code, x, fail)), np.dtype(PART_OF_COMPLEX[kind_of(x)])
    data = whole.data if name == "real" else code.new("data", f"{whole.data} + {dtype.itemsize}")
    if code.accesses is not None and data != whole.data:
        code.accesses.view(data, whole.data, None)
    return Part(dtype, data, whole.sizes, whole.strides, whole.root, whole.is_own, is_ordered=whole.is_ordered)


# --- products


def product(code: ScalarLoops, a: Any, b: Any, fail: Fail) -> Any:
    """a @ b of vectors and matrices."""
    if not (is_array(a) and is_array(b)):
        raise NoForm("a product with a number")
    _, result = promoted(np.multiply, (kind_of(a), kind_of(b)))
    dtype = np.dtype(result)
    if code.is_bitwise and dtype.kind in "fc":
        raise NoForm("a product of arrays, with NumPy's last bits")
    x, y = (memory(code, converted(v, dtype), fail) for v in (a, b))
    if not array_products.has_form(dtype, x.ndim, y.ndim):
        raise NoForm("a product of these")
    inner = x.sizes[-1], y.sizes[0]
    if inner[0] != inner[1]:
        code.leave_if(f"{inner[0]} != {inner[1]}", fail)
    made = statements(code)
    if x.ndim == y.ndim == 2:
        return array_products.matrices(made, x, y, fail)
    if x.ndim == y.ndim == 1:
        return Scalar(result, array_products.vectors(made, x, y, fail))
    return array_products.matrix_vector(made, *((transposed(y), x) if y.ndim == 2 else (x, y)), fail)


def converted(value: Any, dtype: np.dtype) -> Any:
    tree, sizes = tree_of(value)
    return value if tree.dtype == dtype else Formula(cast(tree, dtype.str[1:]), sizes)


# --- arrays that are made


def filled(code: ScalarLoops, kind: str, sizes: Sequence[str], value: str | None, fail: Fail) -> Part:
    if not 1 <= len(sizes) <= AXES:
        raise NoForm(f"an array of {len(sizes)} axes")
    made = statements(code).fresh(np.dtype(kind), sizes)
    if value is not None and is_complex(kind):
        fill(code, made, value)
    elif value is not None:
        statements(code).store(made, number(value, kind), fail, is_new=True)
    return made


def fill(code: ScalarLoops, part: Part, value: str) -> None:
    """The elements of a new array, which lie side by side."""
    size = code.new("int", " * ".join(part.sizes))
    statements(code).work([size])
    code.line(f"for (int64_t k = 0; k < {size}; k++) (({C_OF_KIND[kind_of(part)]}*){part.data})[k] = {value};")


def copied(code: ScalarLoops, x: Any, fail: Fail) -> Part | Formula:
    tree, sizes = tree_of(x)
    if isinstance(tree, Read) and not is_dense(tree.part):
        raise NoForm("a copy in another order than C's")
    if code.pointwise is not None:
        return code.pointwise.fresh(Formula(tree, sizes))
    return statements(code).make(tree, sizes, fail)


def rows_of(code: ScalarLoops, part: Part, fail: Fail) -> list[Part]:
    """Of an array of which it is known how many there are."""
    return [view(code, part, Scalar("int", f"INT64_C({k})"), fail) for k in range(int(part.sizes[0]))]


def is_dense(part: Part) -> bool:
    """Is a copy surely in C order?"""
    return part.ndim == 1 or part.is_dense


def transposed(part: Part) -> Part:
    return Part(part.dtype, part.data, part.sizes[::-1], part.strides[::-1], part.root, part.is_own)
