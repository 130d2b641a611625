"""Reductions in native loops as C: of all elements of a tree, or along some of its axes.

Numbers are written to a block, or lie in one, and are combined there (`folds.py`). Those of a short row are combined one by one,
or in a vector. Floating-point numbers are added in NumPy's order, and multiplied one after another, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npcompile.backends.cpu.array_expressions import (
    Apply,
    Part,
    Read,
    Tree,
    flat_tree,
    has_one_rank,
    is_expensive,
    is_flat,
    may_fail,
    may_note,
    parts_of,
    takes_long,
    with_parts,
)
from npcompile.backends.cpu.extremes import has_order, in_vectors
from npcompile.backends.cpu.loops.array_loops import GRAIN, PARALLEL_FROM, ArrayLoops, share_text
from npcompile.backends.cpu.loops.folds import FOLD_OPS, NEEDS_SOME, SUMS, fold, is_ordered, is_sequential
from npcompile.backends.cpu.loops.loop_nest import Function, Nest, dense_strides, known_product, with_narrow_rows
from npcompile.backends.cpu.loops.reduction_vectors import (
    INTEGERS,
    any_vector_text,
    has_blocks,
    in_blocks,
    lanes_of,
    of_a_block,
    to_first,
    typedefs,
    vector_text,
)
from npcompile.backends.cpu.loops.scalar_loops import Fail
from npcompile.backends.cpu.primitives import c_type

ALONE = "static __attribute__((noinline))"  # where it is inlined, GCC no longer makes vectors of choices in such a function
LANES, FEW = 8, 64  # of a vector in which the elements of a short row are combined; the most of these
# What NumPy adds up: an array that it makes, in C order; memory, as its iterator goes over it; or memory that it converts first.
MADE, VIEW, CAST = "made", "view", "cast"
BUFFERS_VIEWS = int(np.lib.NumpyVersion(np.__version__) >= "2.3.0")


def from_zero(name: str, dtype: np.dtype, total: str) -> str:
    """NumPy's sums begin with 0.0, so that of -0.0 alone is 0.0."""
    return f"0 + {total}" if is_ordered(name, dtype) else total


def reduce(loops: ArrayLoops, name: str, tree: Tree, sizes: tuple[str, ...], fail: Fail, read: str = MADE) -> str:
    """All elements combined: a C variable of the tree's dtype. `name`: of FOLD_OPS."""
    code, dtype = loops.code, tree.dtype
    given = tree = computed(loops, name, tree, sizes, fail)
    work = sizes
    if len(sizes) > 1 and has_one_rank(tree, len(sizes)) and all(map(is_flat, parts_of(tree))):
        sizes = (code.new("int", known_product(sizes)),)
        tree = flat_tree(tree, sizes)
    f = Function(loops.name())
    result = code.room(dtype.str[1:])
    notes = notes_errors(name, tree)
    needs_order = len(sizes) > 1 and is_inexact(name, dtype) and not all(p.is_ordered for p in parts_of(tree))
    count = known_product([f.take(n) for n in sizes])
    begin = [f"if (!({count})) return 1;"] * (name in NEEDS_SOME)
    if needs_order:
        lines, tree, sizes = sorted_axes(f, tree, sizes)
        begin += lines
    helpers: list[str] = []
    if len(sizes) == 1 and not is_sequential(name, dtype):
        helpers, lines = one_row(loops, f, name, tree, sizes[0], read)
    else:
        loops.reads_alone(given)
        lines = folding(loops, f, name, tree, sizes, range(len(sizes)), read=read)
    end = ['__asm__ volatile("" : "+m"(*out) : : "memory");'] * notes
    head = f"static inline int {f.name}({', '.join(filter(None, [f.signature, f'{c_type(dtype)}* out']))}) {{"
    loops.functions += [
        *helpers,
        head,
        "int bad = 0;",
        *begin,
        *lines,
        f"*out = {from_zero(name, dtype, 'total')};",
        *end,
        "return bad;",
        "}",
    ]
    can_leave = needs_order or may_fail(tree) or name in NEEDS_SOME
    loops.call(f, f"&{result}", fail, can_leave, work, notes=notes, is_new=True)
    return result


def is_inexact(name: str, dtype: np.dtype) -> bool:
    """Does the order of the elements decide the last bits?"""
    return is_ordered(name, dtype) or is_sequential(name, dtype)


def computed(loops: ArrayLoops, name: str, tree: Tree, sizes: tuple[str, ...], fail: Fail) -> Tree:
    """The tree; what takes long is made in vectors first where what combines it has none."""
    tree = loops.once(tree, sizes, fail)
    return Read(loops.make(tree, sizes, fail)) if is_sequential(name, tree.dtype) and is_expensive(tree) else tree


def notes_errors(name: str, tree: Tree) -> bool:
    return may_note(tree) or is_inexact(name, tree.dtype)


def sorted_axes(f: Function, tree: Tree, sizes: tuple[str, ...]) -> tuple[list[str], Tree, tuple[str, ...]]:
    """Statements after which the axes are in the order of memory, as NumPy's iterator has them, and the tree and its sizes then.

    They leave where the tree's parts have several orders.
    """
    n, parts = len(sizes), list(dict.fromkeys(parts_of(tree)))
    if not have_axes(tree, sizes):
        return [f"if (!({in_order(f, tree)})) return 1;"], tree, sizes
    lines = [f"int perm[{n}];", f"const int64_t given[] = {{{', '.join(map(f.take, sizes))}}};"]
    renamed: dict[Part, Part] = {}
    new = tuple(f"n{k}" for k in range(n))
    for at, part in enumerate(parts):
        lines.append(f"const int64_t steps{at}[] = {{{', '.join(map(f.take, part.strides))}}};")
        given = f"{n}, given, steps{at}, perm"
        lines.append(f"if (!npc_has_order({given})) return 1;" if at else f"npc_sort_axes({given});")
        renamed[part] = replace(part, sizes=new, strides=tuple(f"s{at}_{k}" for k in range(n)))
    for k in range(n):
        lines.append(f"const int64_t n{k} = given[perm[{k}]];")
        lines += [f"const int64_t s{at}_{k} = steps{at}[perm[{k}]];" for at in range(len(parts))]
    f.own |= {*new, *(stride for part in renamed.values() for stride in part.strides)}
    return lines, with_parts(tree, lambda part: renamed[part]), new


def have_axes(tree: Tree, sizes: Sequence[str]) -> bool:
    """Has all that it reads these axes, none of which is broadcast?"""
    return has_one_rank(tree, len(sizes)) and all("1" not in p.sizes for p in parts_of(tree))


def in_order(f: Function, tree: Tree, is_turned: bool = False) -> str:
    """A condition: the strides of all that it reads become smaller from axis to axis, or larger."""
    conditions = []
    for part in dict.fromkeys(parts_of(tree)):
        sizes, strides = (f"(const int64_t[]){{{', '.join(map(f.take, texts)) or '0'}}}" for texts in (part.sizes, part.strides))
        axes = ", ".join(map(str, sorted(range(part.ndim), reverse=is_turned))) or "0"
        conditions.append(f"npc_has_order({part.ndim}, {sizes}, {strides}, (const int[]){{{axes}}})")
    return " && ".join(conditions)


def one_row(loops: ArrayLoops, f: Function, name: str, tree: Tree, size: str, read: str) -> tuple[list[str], list[str]]:
    """(functions, statements) that leave the elements of one axis combined in `total`.

    Few are combined where the statements are, more in functions of their own, so that what is left is inlined, and many in parts,
    on all threads.
    """
    c, n, combined = c_type(tree.dtype), f.take(size), fold(loops, name, tree.dtype)
    lines = folding(loops, f, name, tree, (size,), [0], ("first", "stop"))
    nest = Nest(f, (size,))
    few = few_elements(name, nest, nest.stored(tree), tree, combined, ("0", n))
    given = [text for _, text in f.parameters.values()]
    fields = " ".join(f"{ct} {text};" for ct, text in f.parameters.values())
    part = f"{f.name}_part({', '.join([*given, '0', n, '&bad'])})"
    passed = ", ".join(f"a->{text}" for text in given)
    head = ", ".join([*filter(None, [f.signature]), "int64_t first", "int64_t stop", "int* failed"])
    helpers = [
        f"static __attribute__((noinline)) {c} {f.name}_part({head}) {{",
        "int bad = 0;",
        *(line.replace("return 1;", "{ *failed = 1; return 0; }") for line in lines),
        "*failed |= bad;",
        "return total;",
        "}",
        f"struct {f.name}_task {{ {fields} const int64_t* starts; {c}* parts; int bad; }};",
        f"static void {f.name}_run(void* context, int64_t begin, int64_t end, int thread) {{",
        f"struct {f.name}_task* const a = context;",
        "int bad = 0;",
        f"for (int64_t k = begin; k < end; k++) a->parts[k] = {f.name}_part({passed}, a->starts[k], a->starts[k + 1], &bad);",
        "if (bad) NPC_TELL(a->bad, 1);",
        "}",
    ]
    form, at_once = combined.replace("npc_", "npc_walk_", 1), "NPC_BUFFER" if read == CAST else n
    walk = f"walk = {form}_from(&halves, {n}, {at_once}, {n}, {GRAIN})"
    join = combined.replace("npc_", "npc_join_", 1)
    helpers += [
        f"{ALONE} int {f.name}_many({', '.join([*filter(None, [f.signature]), f'{c}* total'])}) {{",
        "int bad = 0;",
        f"if ({n} < {'NPC_BUFFER' if read == CAST else PARALLEL_FROM}) {{ *total = {part}; return bad; }}",
        f"const int64_t most = {n} / {GRAIN // 4} + 3;",
        f"int64_t* const starts = rt->scratch(most * ({tree.dtype.itemsize} + (int64_t)sizeof(int64_t)));",
        "if (!starts) return -1;",
        f"struct {f.name}_task task = {{{', '.join([*given, 'starts', f'({c}*)(starts + most)', '0'])}}};",
        f"{form} walk; {combined.replace('npc_', 'npc_halves_', 1)} halves;",
        "int64_t count = 0, at = 0;",
        f"for ({walk}; at < {n}; {join}(&walk, &halves, 0)) starts[count++] = at, at += walk.next;",
        "starts[count] = at;",
        f"const int64_t share = {share_text(tree, n, 'count')};",
        f"const int stopped = rt->parallel({f.name}_run, &task, count, npc_max(share, 1));",
        f"{walk};",
        f"for (int64_t k = 0; k < count && !stopped; k++) {join}(&walk, &halves, task.parts[k]);",
        "*total = walk.total, rt->release(starts);",
        "return stopped ? -1 : task.bad;",
        "}",
    ]
    many = [f"{c} all;", f"const int left = {f.name}_many({', '.join([*given, '&all'])});", "if (left < 0) return -1;"]
    return helpers, [*nest.begins, f"{c} total;", *few, *many, "bad |= left, total = all;", "}"]


def folding(
    loops: ArrayLoops,
    f: Function,
    name: str,
    tree: Tree,
    sizes: tuple[str, ...],
    axes: Sequence[int],
    span: tuple[str, str] | None = None,
    read: str = MADE,
) -> list[str]:
    """Statements that leave the elements of `axes`, the last ones, combined in `total`.

    `span`: of many elements of one axis, those that are meant.
    """
    dtype, combined = tree.dtype, fold(loops, name, tree.dtype)
    c = c_type(dtype)
    nest = Nest(f, sizes)
    value = nest.stored(tree)
    last = len(sizes) - 1
    begin, n = span or ("0", f.take(sizes[last]))
    outer, closing = [f.loop(k, sizes[k]) for k in axes[:-1]], ["}" for _ in axes[:-1]]
    if is_sequential(name, dtype):
        inner = [
            *nest.rows,
            f"for (int64_t i{last} = {begin}; i{last} < {n}; i{last}++) {{",
            *nest.body,
            f"total *= {value};",
            "}",
        ]
        return [*nest.begins, f"{c} total = 1;", *outer, *inner, *closing]
    walk, join = combined.replace("npc_", "npc_walk_", 1), combined.replace("npc_", "npc_join_", 1)
    count = known_product([f.take(sizes[k]) for k in axes]) if not span else f"{n} - {begin}"
    few = [] if len(axes) > 1 or span else few_elements(name, nest, value, tree, combined, (begin, n))
    row, is_row = contiguous_row(nest, tree), row_test(f, tree)
    at_once = "NPC_FOLDED" if row else "NPC_STORED"
    head = [
        *nest.begins,
        f"{c} total;",
        *few,
        f"int64_t chunk = {count}, span = chunk;",
        *chunks(f, name, tree, sizes, axes, read),
        f"{combined.replace('npc_', 'npc_halves_', 1)} halves;",
        f"{walk} walk = {walk}_from(&halves, {count}, chunk, span, {at_once} / {LANES // SUMS.get(name, LANES)});",
        *outer,
        *nest.rows,
    ]
    tail = [*closing, "total = walk.total;", *["}"] * bool(few)]
    if row and not is_row and len(axes) == 1:  # read where they are
        step = f"{join}(&walk, &halves, {combined}({row} + at, count));"
        return [*head, f"for (int64_t at = {begin}, count; at < {n}; at += count) {{", "count = walk.next;", step, "}", *tail]
    there = ["const int64_t count = walk.next;", f"{join}(&walk, &halves, {combined}({row} + at, count));", "at += count;"]
    whole = [f"if (!filled && {n} - at >= walk.next{is_row}) {{", *there, "continue;", "}"] if row else []
    stored = combined.replace("npc_", "npc_stored_", 1) if is_ordered(name, dtype) else combined
    return [
        f"{c} room[{at_once}] __attribute__((aligned(64)));",
        "int64_t filled = 0;",
        *head,
        f"for (int64_t at = {begin}; at < {n};) {{",
        *whole,
        f"const int64_t end = npc_min({n}, at + walk.next - filled);",
        f"{c}* const to = room + filled - at;",
        f"for (int64_t i{last} = at; i{last} < end; i{last}++) {{",
        *nest.body,
        f"to[i{last}] = {value};",
        "}",
        "filled += end - at; at = end;",
        "if (filled == walk.next) {",
        f"const {c} part = {stored}(room, filled);",
        f"if (filled == {count}) walk.total = part;",
        f"else {join}(&walk, &halves, part);",
        "filled = 0;",
        "}",
        "}",
        *tail,
    ]


def chunks(f: Function, name: str, tree: Tree, sizes: Sequence[str], axes: Sequence[int], read: str) -> list[str]:
    """Statements that find how much NumPy adds up at once of memory that is not a single row, or that it converts."""
    if read == MADE or not is_ordered(name, tree.dtype) or read == VIEW and len(axes) == 1:
        return []
    is_made = read == CAST and isinstance(tree, Apply) and isinstance(tree.args[0], Apply)  # what is converted is in C order
    strides = dense_strides(sizes, 1) if is_made else parts_of(tree)[0].strides
    counts, steps = (", ".join(f.take(texts[k]) for k in axes) for texts in (sizes, strides))
    given = f"{len(axes)}, (const int64_t[]){{{counts}}}, (const int64_t[]){{{steps}}}, {int(read == CAST)}, {BUFFERS_VIEWS}"
    is_needed = "if (chunk > NPC_BUFFER) " * (BUFFERS_VIEWS or read == CAST)
    return [f"{is_needed}npc_find_chunks({given}, &chunk, &span);"]


def contiguous_row(nest: Nest, tree: Tree) -> str:
    """The address of the elements of the last axis, where they may lie side by side in memory."""
    if not isinstance(tree, Read) or tree.dtype.kind == "b":
        return ""
    step = tree.part.strides[-1:]
    is_known = step == (str(tree.dtype.itemsize),)
    return f"(const {c_type(tree.dtype)}*)r{nest.made}" if is_known or step and step[0] in nest.function.own else ""


def row_test(f: Function, tree: Tree) -> str:
    """A condition more, that they do."""
    step = tree.part.strides[-1:] if isinstance(tree, Read) else ()
    return f" && {step[0]} == {tree.dtype.itemsize}" if step and step[0] in f.own else ""


def few_elements(name: str, nest: Nest, value: str, tree: Tree, combined: str, span: tuple[str, str]) -> list[str]:
    """Statements for short rows, one element after the other, as NumPy adds them, or in lanes; they end with the `else`."""
    (begin, end), dtype, c = span, tree.dtype, c_type(tree.dtype)
    n = end if begin == "0" else f"{end} - {begin}"
    identity, pair = FOLD_OPS[name]
    start = identity if isinstance(identity, str) else identity(dtype)

    def one_by_one(first: str, pair: str = pair(dtype)) -> list[str]:
        place, element = f"i{len(nest.sizes) - 1}", f"const {c} x = {value};"
        lines = [*nest.rows, f"for (int64_t {place} = {first}; {place} < {end}; {place}++) {{", *nest.body, element]
        return [*lines, f"total = {pair.format(a='total', x='x')};", "}"]

    in_order = one_by_one(begin, in_vectors(name, pair(dtype), dtype))
    order_zeros = ["if (UNLIKELY(total == 0)) {", *in_order, "}"] if has_order(name, dtype) else []
    lines = [f"if ({n} < {SUMS.get(name, LANES)}) {{", f"total = {start};", *one_by_one(begin), *order_zeros]
    if (row := contiguous_row(nest, tree)) and is_ordered(name, dtype) and not row_test(nest.function, tree):
        lines += [f"}} else if ({n} <= NPC_FOLDED - {LANES}) {{", *nest.rows, f"total = {combined}({row} + {begin}, {n});"]
    elif dtype.kind in "fiu" and dtype.itemsize in INTEGERS and SUMS.get(name, LANES) == LANES:
        any_of = combined.replace("npc_", "npc_any_", 1) if has_order(name, dtype) else combined
        total = f"total = {any_of}((const {c}*)&all, {LANES});"
        # Eight divisions in a vector take as long as four of one number, and wait until what was just stored can be read.
        has_rest = is_ordered(name, dtype) or takes_long(tree) and not is_expensive(tree)
        lines += [f"}} else if ({n} <= {FEW}) {{", *in_lanes(name, nest, value, dtype, start, span, has_rest), total]
        lines += ["{", *one_by_one(f"{begin} + ({n}) / {LANES} * {LANES}"), "}"] if has_rest else []
        lines += order_zeros
    return [*lines, "} else {"]


def in_lanes(name: str, nest: Nest, value: str, dtype: np.dtype, start: str, span: tuple[str, str], has_rest: bool) -> list[str]:
    """Statements that combine a row in the vector `all`, each lane every so many elements.

    The last ones are those of a whole vector too, without the lanes that the one before it had: a loop for what is left would
    take longer. Where the caller `has_rest`, it has that loop, and only whole vectors are taken here.
    """
    (begin, end), c, integer = span, c_type(dtype), INTEGERS[dtype.itemsize]
    numbers = ", ".join(map(str, range(LANES)))
    body = [line.replace("bad |=", "outside[lane] |=") for line in nest.body]
    outside = body != nest.body
    return [
        *typedefs(dtype, LANES * dtype.itemsize),
        f"npc_vector all = {{{', '.join([start] * LANES)}}}, none = all;",
        *[f"{integer} outside[{LANES}] = {{0}};"] * outside,
        *nest.rows,
        f"for (int64_t at = {begin}; at{f' + {LANES} <=' if has_rest else ' <'} {end}; at += {LANES}) {{",
        f"const int64_t first = {'at' if has_rest else f'npc_min(at, {end} - {LANES})'};",
        f"{c} elements[{LANES}];",
        *lanes_of(nest, body, f"elements[lane] = {value};", str(LANES)),
        f"const npc_places is_new = (npc_places){{{numbers}}} >= ({integer})(at - first);",
        "const npc_vector now = (npc_vector)((*(npc_places*)elements & is_new) | ((npc_places)none & ~is_new));",
        f"all = {any_vector_text(name)};",
        "}",
        *[f"for (int lane = 0; lane < {LANES}; lane++) bad |= outside[lane] != 0;"] * outside,
    ]


def reduce_axes(
    loops: ArrayLoops, name: str, tree: Tree, sizes: tuple[str, ...], axes: Sequence[int], fail: Fail, read: str = MADE
) -> Part:
    """The elements along some axes, but not all, combined: a new array."""
    order = [k for k in range(len(sizes)) if k not in axes]
    tree = computed(loops, name, tree, sizes, fail)
    loops.reads_alone(tree)
    target = loops.fresh(tree.dtype, [sizes[k] for k in order])
    f = Function(loops.name())
    given = list(target.strides)
    to = f.take(target.data, "char*")
    count = known_product([f.take(sizes[k]) for k in axes])
    begin = [f"if (!({count})) return 1;"] * (name in NEEDS_SOME)
    lines, leaves = along(loops, f, name, tree, sizes, axes, (to, given), read)
    if is_ordered(name, tree.dtype) and not all(p.is_ordered for p in parts_of(tree)):
        turned: list[str] = []  # NumPy goes along the columns
        if have_axes(tree, sizes):
            turned, _ = along(loops, f, name, with_parts(tree, transposed), sizes[::-1], [1 - axes[0]], (to, given), read)
            turned = [f"if ({in_order(f, tree, is_turned=True)}) {{", *turned, "return bad;", "}"]
        lines = [f"if (!({in_order(f, tree)})) {{", *turned, "return 1;", "}", *lines]
        leaves = True
    body = ["int bad = 0;", *begin, *lines, "return bad;"]
    if list(innermost(sizes, axes)) == list(axes):
        loops.functions += with_narrow_rows(f.name, f.signature, body, f, parts_of(tree), {})
    else:
        loops.functions += [f"{ALONE} int {f.name}({f.signature}) {{", *body, "}"]
    can_leave = leaves or may_fail(tree) or name in NEEDS_SOME
    loops.call(f, "", fail, can_leave, sizes, notes=notes_errors(name, tree), is_new=True)
    return target


def transposed(part: Part) -> Part:
    return replace(part, sizes=part.sizes[::-1], strides=part.strides[::-1], is_dense=False, is_ordered=True)


def along(
    loops: ArrayLoops,
    f: Function,
    name: str,
    tree: Tree,
    sizes: tuple[str, ...],
    axes: Sequence[int],
    target: tuple[str, list[str]],
    read: str,
) -> tuple[list[str], bool]:
    """Statements that combine the elements along some axes, and whether they may leave. The target: its address, and strides."""
    order = [k for k in range(len(sizes)) if k not in axes]
    to, c = target[0], c_type(tree.dtype)
    place = {k: f" + i{k} * {f.take(s)}" for k, s in zip(order, target[1])}
    element = f"*({c}*)({to}{''.join(place.values())})"
    if list(innermost(sizes, axes)) == list(axes):
        lines = [*["#pragma GCC ivdep"] * (len(order) == 1), *(f.loop(k, sizes[k]) for k in order)]
        lines += folding(loops, f, name, tree, sizes, axes, read=read)
        return [*lines, f"{element} = {from_zero(name, tree.dtype, 'total')};", *("}" for _ in order)], False
    lines = columns(loops, f, name, tree, sizes, axes, element, read)
    inside = [f.take(sizes[k]) for k in order if k > axes[0]]
    if not is_ordered(name, tree.dtype) or all(n.isdigit() and n != "1" for n in inside):
        return lines, False
    if len(axes) > 1 or not has_one_rank(tree, len(sizes)):
        return [f"if ({' || '.join(f'{n} == 1' for n in inside)}) return 1;", *lines], True
    # NumPy adds along the axis where those inside have one element each.
    element = f"*({c}*)({to}{''.join(text for k, text in place.items() if k < axes[0])})"
    narrow = column(loops, f, name, tree, sizes, axes[0], element, read)
    return [f"if ({known_product(inside)} == 1) {{", *narrow, "return bad;", "}", *lines], False


def innermost(sizes: Sequence[str], axes: Sequence[int]) -> Sequence[int]:
    """Those of `axes` that are the last ones of an array."""
    first = len(sizes)
    while first - 1 in axes:
        first -= 1
    return range(first, len(sizes))


def column(
    loops: ArrayLoops, f: Function, name: str, tree: Tree, sizes: tuple[str, ...], axis: int, element: str, read: str
) -> list[str]:
    """The same where the axes after `axis` have one element each: without these."""

    def without(part: Part) -> Part:
        return replace(part, sizes=part.sizes[: axis + 1], strides=part.strides[: axis + 1], is_dense=False)

    folded = folding(loops, f, name, with_parts(tree, without), sizes[: axis + 1], [axis], read=read)
    loops_around = [f.loop(k, sizes[k]) for k in range(axis)]
    return [*loops_around, *folded, f"{element} = {from_zero(name, tree.dtype, 'total')};", *("}" for _ in loops_around)]


def columns(
    loops: ArrayLoops, f: Function, name: str, tree: Tree, sizes: tuple[str, ...], axes: Sequence[int], element: str, read: str
) -> list[str]:
    """Row after row added to the result, as NumPy does; or what is along the innermost axes combined."""
    dtype = tree.dtype
    nest = Nest(f, sizes)
    value = nest.stored(tree)
    identity, pair = FOLD_OPS[name]
    start = "0" if name in SUMS else identity if isinstance(identity, str) else identity(dtype)
    before, last = range(axes[0]), len(sizes) - 1
    after = [k for k in range(axes[0] + 1, len(sizes)) if k not in axes]

    def loop(k: int) -> str:
        return f.loop(k, sizes[k])

    joined = in_vectors(name, pair(dtype), dtype).format(a="before", x="x")
    c = c_type(dtype)
    lines = [*(loop(k) for k in after), f"{element} = {start};", *("}" for _ in after)]
    if inner := innermost(sizes, axes):
        around = range(axes[0], inner[0])
        step = [f"const {c} x = total, before = {element};", f"{element} = {joined};"]
        lines += [*map(loop, around), *folding(loops, f, name, tree, sizes, inner, read=read), *step, *("}" for _ in around)]
        return [*(loop(k) for k in before), *lines, *("}" for _ in before)]
    row = ["#pragma GCC ivdep", loop(last), *nest.body, f"const {c} x = {value};"]
    around = range(axes[0], last)
    lines += [*map(loop, around), *nest.rows, f"if ({' | '.join(f'i{k}' for k in axes)}) {{"]
    lines += [*row, f"const {c} before = {element};", f"{element} = {joined};", "}"]
    lines += ["} else {", *row, f"{element} = {from_zero(name, dtype, 'x')};", "}", "}", *("}" for _ in around)]
    if last - axes[0] == 1 and has_blocks(tree):
        loops.code.noted("columns as lanes")
        (axis,) = axes
        step = [f"if (i{axis}) all = {vector_text(name)};", f"else all = {from_zero(name, dtype, 'now')};"]
        began, store = f"npc_vector all = {{0}}; all += ({c}){start};", f"*(npc_vector*){to_first(element, last)} = all;"
        block = [[began], [*of_a_block(nest, value, dtype), *step], [store]]
        lines = in_blocks(dtype, f.take(sizes[last]), [loop(axis), *nest.rows], block, lines)
    return [*nest.begins, *(loop(k) for k in before), *lines, *("}" for _ in before)]
