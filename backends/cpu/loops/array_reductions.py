"""Reductions in native loops as C: of all elements of a tree, or along one axis.

Numbers are written to a block and combined there on several lanes, blocks in pairs: sums err no more than NumPy's. Those of a
short row are combined one by one, or in a vector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from npcompile.backends.cpu.array_trees import (
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
)
from npcompile.backends.cpu.loops.array_loops import GRAIN, PARALLEL_FROM, ArrayLoops, share_text
from npcompile.backends.cpu.loops.nests import Function, Nest, known_product, with_narrow_rows
from npcompile.backends.cpu.loops.scalar_loops import Fail
from npcompile.backends.cpu.primitives import c_type

ALONE = "static __attribute__((noinline))"  # where it is inlined, GCC no longer makes vectors of choices in such a function
ABREAST = 64  # columns whose best elements are looked for at a time
LANES, FEW = 8, 64  # of a vector in which the elements of a short row are combined; the most of these
INTEGERS = {4: "int32_t", 8: "int64_t"}  # by bytes
FOLD = r"""
static inline {T} npc_{name}_{K}(const {T}* x, int64_t n) {{
  {T} a[16], r = {identity};
  if (n < 8) {{ for (int64_t i = 0; i < n; i++) r = {last}; return r; }}
  for (int k = 0; k < 16; k++) a[k] = {identity};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k++) a[k] = {step};
  for (int k = 0; i < n; i++, k++) a[k] = {step1};
  for (int k = 0; k < 8; k++) a[k] = {pair8};
  for (int k = 0; k < 4; k++) a[k] = {pair4};
  for (int k = 0; k < 2; k++) a[k] = {pair2};
  return {pair1};
}}
"""
# Sums of floating-point numbers: two vectors of 64 bytes in as many registers as these take, then the halves of one. -0.0 changes
# no sum.
SUM = r"""
static inline {T} npc_sum_{K}(const {T}* x, int64_t n) {{
  typedef {T} whole __attribute__((vector_size(NPC_REGISTER), aligned(sizeof({T})), may_alias));
  typedef {T} half __attribute__((vector_size(32)));
  typedef {T} quarter __attribute__((vector_size(16)));
  enum {{ W = 64 / sizeof({T}), P = 64 / NPC_REGISTER, R = W / P, Q = W / 4 }};
  const {T}* const end = x + n;
  {T} rest = -0.0, sum;
  if (n < W) {{
    {T} a0 = rest, a1 = rest, a2 = rest, a3 = rest;
    for (; x + 4 <= end; x += 4) a0 += x[0], a1 += x[1], a2 += x[2], a3 += x[3];
    for (; x < end; x++) rest += *x;
    return ((a0 + a1) + (a2 + a3)) + rest;
  }}
  union {{ whole v[P]; half halves[2]; }} a;
  whole b[P];
  for (int p = 0; p < P; p++) a.v[p] = *(whole*)(x + p * R), b[p] = (whole){{0}};
  for (x += W; x + 2 * W <= end; x += 2 * W)
    for (int p = 0; p < P; p++) {{
      a.v[p] += *(whole*)(x + p * R);
      b[p] += *(whole*)(x + W + p * R);
    }}
  if (x + W <= end) {{
    for (int p = 0; p < P; p++) b[p] += *(whole*)(x + p * R);
    x += W;
  }}
  if (n >= 2 * W)
    for (int p = 0; p < P; p++) a.v[p] += b[p];
  union {{ half v; quarter quarters[2]; }} c = {{a.halves[0] + a.halves[1]}};
  const quarter d = c.quarters[0] + c.quarters[1];
  sum = Q == 2 ? d[0] + d[1] : (d[0] + d[2 % Q]) + (d[1] + d[3 % Q]);
  for (; x < end; x++) rest += *x;
  return sum + rest;
}}
"""


def fold(loops: ArrayLoops, name: str, dtype: np.dtype) -> str:
    """The C function that combines numbers in memory."""
    c, short = c_type(dtype), dtype.str[1:]
    key = f"npc_{name}_{short}"
    if key not in loops.folds and name == "sum" and dtype.kind == "f":
        loops.folds[key] = SUM.format(T=c, K=short)
    if key not in loops.folds:
        identity, pair = FOLD_OPS[name]
        start = identity if isinstance(identity, str) else identity(dtype)

        def text(a: str, x: str) -> str:
            return pair(dtype).format(a=a, x=x)

        loops.folds[key] = FOLD.format(
            T=c,
            K=short,
            name=name,
            identity=start,
            last=text("r", "x[i]"),
            step=text("a[k]", "x[i + k]"),
            step1=text("a[k]", "x[i]"),
            **{f"pair{w}": text("a[k]" if w > 1 else "a[0]", f"a[k + {w}]" if w > 1 else "a[1]") for w in (1, 2, 4, 8)},
        )
    return key


def from_zero(name: str, dtype: np.dtype, total: str) -> str:
    """NumPy's sums begin with 0.0, so that of -0.0 alone is 0.0."""
    return f"0 + {total}" if name == "sum" and dtype.kind == "f" else total


def reduce(loops: ArrayLoops, name: str, tree: Tree, sizes: tuple[str, ...], fail: Fail) -> str:
    """All elements combined: a C variable of the tree's dtype. `name`: of FOLD_OPS."""
    code, dtype = loops.code, tree.dtype
    given = tree = loops.once(tree, sizes, fail)
    if len(sizes) > 1 and has_one_rank(tree, len(sizes)) and all(map(is_flat, parts_of(tree))):
        sizes = (code.new("int", known_product(sizes)),)
        tree = flat_tree(tree, sizes)
    f = Function(loops.name())
    result = code.room(dtype.str[1:])
    notes = notes_errors(name, tree)
    can_leave = notes or may_fail(tree) or name in NEEDS_SOME
    count = known_product([f.take(n) for n in sizes])
    begin = [f"if (!({count})) return 1;"] * (name in NEEDS_SOME)
    helpers, lines = one_row(loops, f, name, tree, sizes[0]) if len(sizes) == 1 else ([], [])
    if not lines:
        loops.reads_alone(given)
    lines = lines or folding(loops, f, name, tree, sizes, range(len(sizes) - 1))
    end = ['__asm__ volatile("" : "+m"(*out) : : "memory");'] * notes
    if is_doubted(name, tree):
        end += ["if (SELDOM(total != total)) {", *looking_for_infinities(f, tree, sizes), "}"]
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
    loops.call(f, f"&{result}", fail, can_leave, sizes, notes=notes, is_new=True)
    return result


def notes_errors(name: str, tree: Tree) -> bool:
    return may_note(tree) or (name in ("sum", "prod") and tree.dtype.kind == "f")


def is_doubted(name: str, tree: Tree) -> bool:
    """May NumPy, in its own order, note an invalid operation that is none here? Only where the result is NaN."""
    return name in ("sum", "prod") and tree.dtype.kind == "f"


def looking_for_infinities(f: Function, tree: Tree, sizes: tuple[str, ...]) -> list[str]:
    """Statements that leave where there is one. NaN alone note nothing in any order."""
    nest, integer = Nest(f, sizes), f"int{8 * tree.dtype.itemsize}_t"
    value = nest.value(tree)
    union = f"union {{ {c_type(tree.dtype)} x; {integer} bits; }}"
    loops = [f.loop(k, n) for k, n in enumerate(sizes)]
    look = [
        f"const {union} found = {{{value}}}, infinity = {{__builtin_inf()}};",
        "if (found.bits << 1 == infinity.bits << 1) return 1;",
    ]
    return [*nest.begins, *loops[:-1], *nest.rows, loops[-1], *nest.body, *look, *("}" for _ in sizes)]


def one_row(loops: ArrayLoops, f: Function, name: str, tree: Tree, size: str) -> tuple[list[str], list[str]]:
    """(functions, statements) that leave the elements of one axis combined in `total`.

    Few are combined where the statements are, more in a function of its own, and many in parts, on all threads.
    """
    c, n = c_type(tree.dtype), f.take(size)
    lines = folding(loops, f, name, tree, (size,), (), ("first", "stop"))
    nest = Nest(f, (size,))
    few = few_elements(name, nest, nest.stored(tree), tree, fold(loops, name, tree.dtype), ("0", n))
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
        f"struct {f.name}_task {{ {fields} {c}* parts; int64_t count; int bad; }};",
        f"static void {f.name}_run(void* context, int64_t begin, int64_t end, int thread) {{",
        f"struct {f.name}_task* const a = context;",
        "int bad = 0;",
        "for (int64_t k = begin; k < end; k++)",
        f"a->parts[k] = {f.name}_part({passed}, k * {GRAIN}, npc_min(a->count, (k + 1) * {GRAIN}), &bad);",
        "if (bad) NPC_TELL(a->bad, 1);",
        "}",
    ]
    many = [
        *nest.begins,
        f"{c} total;",
        *few,
        f"if ({n} >= {PARALLEL_FROM}) {{",
        f"const int64_t parts = ({n} + {GRAIN - 1}) / {GRAIN};",
        f"struct {f.name}_task task = {{{', '.join([*given, f'rt->scratch(parts * (int64_t)sizeof({c}))', n, '0'])}}};",
        "if (!task.parts) return -1;",
        f"const int64_t share = {share_text(tree, n, 'parts')};",
        f"const int stopped = rt->parallel({f.name}_run, &task, parts, npc_max(share, 1));",
        f"total = stopped ? 0 : {fold(loops, name, tree.dtype)}(task.parts, parts);",
        "rt->release(task.parts);",
        "if (stopped) return -1;",
        "bad |= task.bad;",
        f"}} else total = {part};",
        "}",
    ]
    return helpers, many


def folding(
    loops: ArrayLoops,
    f: Function,
    name: str,
    tree: Tree,
    sizes: tuple[str, ...],
    around: Sequence[int],
    span: tuple[str, str] | None = None,
) -> list[str]:
    """Statements that leave the elements of the last axis and of those `around` it combined in `total`.

    `span`: of many elements, those that are meant.
    """
    dtype, combined = tree.dtype, fold(loops, name, tree.dtype)
    c = c_type(dtype)
    identity, pair = FOLD_OPS[name]
    start = identity if isinstance(identity, str) else identity(dtype)
    join = pair(dtype).format(a="tree[level]", x="part")
    nest = Nest(f, sizes)
    value = nest.stored(tree)
    last = len(sizes) - 1
    begin, n = span or ("0", f.take(sizes[last]))
    outer, closing = [], []
    for k in around:
        outer.append(f.loop(k, sizes[k]))
        closing.append("}")
    climb = [
        "int level = 0;",
        f"for (int64_t bits = blocks++; bits & 1; bits >>= 1, level++) part = {join};",
        "tree[level] = part;",
    ]
    flush = [f"{c} part = {combined}(room, filled);", *climb, "filled = 0;"]
    whole = []
    if isinstance(tree, Read) and dtype.kind != "b" and tree.part.strides[-1:] == (str(dtype.itemsize),):  # read where they are
        there = f"{c} part = {combined}((const {c}*)(r{nest.made} + at * {dtype.itemsize}), NPC_FOLDED);"
        whole = [f"if (!filled && {n} - at >= NPC_FOLDED) {{", there, *climb, "at += NPC_FOLDED;", "continue;", "}"]
    few = [] if around or span else few_elements(name, nest, value, tree, combined, (begin, n))
    return [
        *nest.begins,
        f"{c} total;",
        *few,
        f"{c} room[NPC_FOLDED] __attribute__((aligned(64))), tree[48];",
        "int64_t filled = 0, blocks = 0;",
        *outer,
        *nest.rows,
        f"for (int64_t at = {begin}; at < {n};) {{",
        *whole,
        f"const int64_t end = npc_min({n}, at + NPC_FOLDED);",
        f"if (filled + (end - at) > NPC_FOLDED) {{ {' '.join(flush)} }}",
        f"{c}* const to = room + filled - at;",
        f"for (int64_t i{last} = at; i{last} < end; i{last}++) {{",
        *nest.body,
        f"to[i{last}] = {value};",
        "}",
        "filled += end - at; at = end;",
        "}",
        *closing,
        f"total = filled ? {combined}(room, filled) : {'0' if name == 'sum' else start};",
        "{ int level = 0;",
        f"for (int64_t bits = blocks; bits; bits >>= 1, level++) if (bits & 1) {{ {c} part = total; total = {join}; }} }}",
        *["}"] * bool(few),
    ]


def few_elements(name: str, nest: Nest, value: str, tree: Tree, combined: str, span: tuple[str, str]) -> list[str]:
    """Statements for short rows, one element after the other, as NumPy adds them, or in lanes; they end with the `else`."""
    (begin, end), dtype = span, tree.dtype
    n = end if begin == "0" else f"{end} - {begin}"
    identity, pair = FOLD_OPS[name]
    start = identity if isinstance(identity, str) else identity(dtype)

    def one_by_one(first: str) -> list[str]:
        place, element = f"i{len(nest.sizes) - 1}", f"const {c_type(dtype)} x = {value};"
        lines = [*nest.rows, f"for (int64_t {place} = {first}; {place} < {end}; {place}++) {{", *nest.body, element]
        return [*lines, f"total = {pair(dtype).format(a='total', x='x')};", "}"]

    lines = [f"if ({n} < {LANES}) {{", f"total = {start};", *one_by_one(begin)]
    if dtype.kind in "fiu" and dtype.itemsize in INTEGERS:
        total = f"total = {combined}((const {c_type(dtype)}*)&all, {LANES});"
        # Eight divisions in a vector take as long as four of one number, and wait until what was just stored can be read.
        is_divided = takes_long(tree) and not is_expensive(tree)
        lines += [f"}} else if ({n} <= {FEW}) {{", *in_lanes(name, nest, value, dtype, start, span, has_rest=is_divided), total]
        lines += ["{", *one_by_one(f"{begin} + ({n}) / {LANES} * {LANES}"), "}"] if is_divided else []
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
        f"all = {vector_text(name)};",
        "}",
        *[f"for (int lane = 0; lane < {LANES}; lane++) bad |= outside[lane] != 0;"] * outside,
    ]


def reduce_axis(loops: ArrayLoops, name: str, tree: Tree, sizes: tuple[str, ...], axis: int, fail: Fail) -> Part:
    """The elements along an axis combined: a new array."""
    rest = sizes[:axis] + sizes[axis + 1 :]
    tree = loops.once(tree, sizes, fail)
    loops.reads_alone(tree)
    target = loops.fresh(tree.dtype, rest)
    f = Function(loops.name())
    order = [k for k in range(len(sizes)) if k != axis]
    dtype = tree.dtype
    c = c_type(dtype)
    notes = notes_errors(name, tree)
    can_leave = notes or may_fail(tree) or name in NEEDS_SOME
    to = f.take(target.data, "char*")
    count = f.take(sizes[axis])
    place = {k: f.take(s) for k, s in zip(order, target.strides)}
    element = f"*({c}*)({to}{''.join(f' + i{k} * {s}' for k, s in place.items())})"
    begin = [f"if (!{count}) return 1;"] * (name in NEEDS_SOME)
    if axis == len(sizes) - 1:
        lines = [*["#pragma GCC ivdep"] * (len(order) == 1), *(f.loop(k, sizes[k]) for k in order)]
        doubt = [f"in_doubt |= {count} >= {LANES} && total != total;"] * is_doubted(name, tree)
        lines += folding(loops, f, name, tree, sizes, ())
        lines += [f"{element} = {from_zero(name, dtype, 'total')};", *doubt, *("}" for _ in order)]
        if doubt:
            lines = ["int in_doubt = 0;", *lines, "if (SELDOM(in_doubt)) {", *looking_for_infinities(f, tree, sizes), "}"]
    else:
        lines = columns(loops, f, name, tree, sizes, axis, element)
    body = ["int bad = 0;", *begin, *lines, "return bad;"]
    if axis == len(sizes) - 1:
        loops.functions += with_narrow_rows(f.name, f.signature, body, f, parts_of(tree), {})
    else:
        loops.functions += [f"{ALONE} int {f.name}({f.signature}) {{", *body, "}"]
    loops.call(f, "", fail, can_leave, sizes, notes=notes, is_new=True)
    return target


def columns(loops: ArrayLoops, f: Function, name: str, tree: Tree, sizes: tuple[str, ...], axis: int, element: str) -> list[str]:
    """Row after row added to the result, as NumPy does."""
    dtype = tree.dtype
    nest = Nest(f, sizes)
    value = nest.stored(tree)
    _, pair = FOLD_OPS[name]
    identity = FOLD_OPS[name][0]
    start = "0" if name == "sum" else identity if isinstance(identity, str) else identity(dtype)
    before, behind, last = range(axis), range(axis + 1, len(sizes)), len(sizes) - 1

    def loop(k: int) -> str:
        return f.loop(k, sizes[k])

    joined = pair(dtype).format(a="before", x="x")
    c = c_type(dtype)
    lines = [*(loop(k) for k in behind), f"{element} = {start};", *("}" for _ in behind)]
    row = ["#pragma GCC ivdep", loop(behind[-1]), *nest.body, f"const {c} x = {value};"]
    lines += [loop(k) for k in (axis, *behind[:-1])] + nest.rows + [f"if (i{axis}) {{"]
    lines += [*row, f"const {c} before = {element};", f"{element} = {joined};", "}"]
    lines += ["} else {", *row, f"{element} = {from_zero(name, dtype, 'x')};", "}", "}", *("}" for _ in behind)]
    if len(behind) == 1 and has_blocks(tree):
        step = [f"if (i{axis}) all = {vector_text(name)};", f"else all = {from_zero(name, dtype, 'now')};"]
        block = [f"npc_vector all = {{0}}; all += ({c}){start};", *rows_of_a_block(nest, axis, value, dtype), *step, "}"]
        store = f"*(npc_vector*){to_first(element, last)} = all;"
        lines = in_blocks(dtype, f.take(sizes[last]), [*block, store], lines)
    return [*nest.begins, *(loop(k) for k in before), *lines, *("}" for _ in before)]


def has_blocks(tree: Tree) -> bool:
    """May columns be computed twice, by vectors?"""
    return tree.dtype.kind in "fiu" and tree.dtype.itemsize in (4, 8) and not may_fail(tree)


def in_blocks(dtype: np.dtype, size: str, block: Sequence[str], others: Sequence[str]) -> list[str]:
    """The statements about a block of columns from `first`, for each, where there are not many; else the others."""
    lanes = f"NPC_REGISTER / {dtype.itemsize}"
    return [
        f"if ({size} >= {lanes} && {size} <= {ABREAST}) {{",
        *typedefs(dtype, "NPC_REGISTER"),
        f"for (int64_t first = 0; first < {size}; first += {lanes}) {{",
        f"first = npc_min(first, {size} - {lanes}); /* the last block begins in the one before */",
        *block,
        "}",
        "} else {",
        *others,
        "}",
    ]


def rows_of_a_block(nest: Nest, axis: int, value: str, dtype: np.dtype) -> list[str]:
    """The beginning of a loop over the rows of a block, whose elements are `now`. (Arrays stay in memory from row to row.)"""
    last, lanes = len(nest.sizes) - 1, f"NPC_REGISTER / {dtype.itemsize}"
    rows = [nest.function.loop(axis, nest.sizes[axis]), *nest.rows]
    if not nest.body and re.fullmatch(rf"\*\(\w+\*\)\(r\d+ \+ i{last} \* {dtype.itemsize}\)", value):
        return [*rows, f"const npc_vector now = *(npc_vector*){to_first(value, last)};"]
    lines = lanes_of(nest, nest.body, f"elements[lane] = {value};", lanes)
    return [*rows, f"{c_type(dtype)} elements[{lanes}];", *lines, "const npc_vector now = *(npc_vector*)elements;"]


def lanes_of(nest: Nest, body: Sequence[str], last: str, lanes: str) -> list[str]:
    """The innermost loop of a nest for a vector of elements from `first` on."""
    place = f"const int64_t i{len(nest.sizes) - 1} = first + lane;"
    return ["#pragma omp simd", f"for (int64_t lane = 0; lane < {lanes}; lane++) {{", place, *body, last, "}"]


def typedefs(dtype: np.dtype, size: int | str) -> list[str]:
    """Vectors of so many bytes: of a dtype, and of integers as long."""
    aligned = f"vector_size({size}), aligned({dtype.itemsize}), may_alias"
    return [
        f"typedef {c_type(dtype)} npc_vector __attribute__(({aligned}));",
        f"typedef {INTEGERS[dtype.itemsize]} npc_places __attribute__(({aligned}));",
    ]


def to_first(element: str, last: int) -> str:
    """The address of the element in the first column of a block."""
    return f"(&{element})".replace(f"i{last} ", "first ")


def vector_text(name: str) -> str:
    """C text that combines the vectors `all` and `now`."""
    if name not in ("max", "min"):
        return FOLD_OPS[name][1](np.dtype("i8")).format(a="all", x="now")
    kept = f"((all {'>' if name == 'max' else '<'} now) | (all != all))"
    return f"(npc_vector)(((npc_places)all & {kept}) | ((npc_places)now & ~{kept}))"


def position(loops: ArrayLoops, name: str, tree: Tree, sizes: tuple[str, ...], axis: int | None, fail: Fail) -> str | Part:
    """Where the largest or smallest element is, the first of them, or NaN: of all, or along an axis."""
    dtype = tree.dtype
    c, sign = c_type(dtype), ">" if name == "argmax" else "<"
    loops.reads_alone(tree)
    f = Function(loops.name())
    nest = Nest(f, sizes)
    value = nest.stored(tree)
    notes = may_note(tree)
    better = f"(x {sign} best)" + (" | ((x != x) & (best == best))" if dtype.kind == "f" else "")
    index = np.dtype(np.int64)
    inner = range(len(sizes)) if axis is None else [axis]
    order = [k for k in range(len(sizes)) if k not in inner]
    target = loops.fresh(index, [sizes[k] for k in order]) if order else None
    result = "" if target else loops.code.room("int")
    begin = [f"if (!({known_product([f.take(sizes[k]) for k in inner])})) return 1;", *nest.begins]

    def loop(k: int) -> str:
        return f.loop(k, sizes[k])

    if target is None:
        lines = one_position(c, better, [loop(k) for k in inner], [*nest.rows, *nest.body, f"const {c} x = {value};"])
        lines.append("*out = found;")
    else:
        to = f.take(target.data, "char*")
        element = f"*(int64_t*)({to}{''.join(f' + i{k} * {f.take(s)}' for k, s in zip(order, target.strides))})"
        if order[-1] > inner[0]:
            *outer, last = order
            lines, axes = [loop(k) for k in outer], (inner[0], last, f.take(sizes[last]))
            given = f"const {c} x = {value};"
            wide = [
                *positions_of_columns(nest, loop(inner[0]), axes, c, given, better),
                f"{element} = found[i{last} - first];",
                "}",
                "}",
            ]
            if has_blocks(tree) and dtype.itemsize == index.itemsize:
                block = positions_of_block(rows_of_a_block(nest, inner[0], value, dtype), inner[0], sign)
                store = f"*(npc_places*){to_first(element, last)} = found;"
                wide = in_blocks(dtype, axes[2], [*block, store], wide)
            lines += [*wide, *("}" for _ in outer)]
        else:
            lines = [loop(k) for k in order]
            lines += one_position(c, better, [loop(k) for k in inner], [*nest.rows, *nest.body, f"const {c} x = {value};"])
            lines += [f"{element} = found;", *("}" for _ in order)]
    signature = f.signature if target else ", ".join(filter(None, [f.signature, "int64_t* out"]))
    loops.functions += [f"{ALONE} int {f.name}({signature}) {{", "int bad = 0;", *begin, *lines, "return bad;", "}"]
    loops.call(f, "" if target else f"&{result}", fail, True, sizes, notes=notes, is_new=True)
    return target or result


def one_position(c: str, better: str, loops: list[str], element: list[str]) -> list[str]:
    """`found`, of the elements `x` of these loops."""
    lines = [f"int64_t found = 0, here = 0; {c} best = 0;", *loops, *element]
    return [*lines, f"if (!here || {better}) {{ best = x; found = here; }}", "here++;", *("}" for _ in loops)]


def positions_of_columns(nest: Nest, rows: str, axes: tuple[int, int, str], c: str, element: str, better: str) -> list[str]:
    """`found` of each column of a block, where `rows` begins their loop, and the beginning of a loop over the columns."""
    axis, last, size = axes
    columns = f"for (int64_t i{last} = first; i{last} < stop; i{last}++) {{"
    lines = [f"for (int64_t first = 0; first < {size}; first += {ABREAST}) {{"]
    lines.append(f"const int64_t stop = npc_min(first + {ABREAST}, {size});")
    lines += [f"{c} all_best[{ABREAST}] = {{0}};", f"int64_t found[{ABREAST}] = {{0}};"]
    lines += [rows, *nest.rows, "#pragma GCC ivdep", columns, *nest.body, element, f"const int64_t k = i{last} - first;"]
    lines += [f"const {c} best = all_best[k];", f"const int is_better = !i{axis} | {better};"]
    lines += ["all_best[k] = is_better ? x : best;", f"found[k] = is_better ? i{axis} : found[k];"]
    return [*lines, "}", "}", columns]


def positions_of_block(rows: list[str], axis: int, sign: str) -> list[str]:
    """`found` of each lane of a block of columns."""
    better = f"(npc_places)((now {sign} best) | ((now != now) & (best == best)))"
    return [
        "npc_vector best = {0}; npc_places found = {0};",
        *rows,
        "npc_places is_better = {0};",
        f"if (i{axis}) is_better = {better};",
        "else is_better = ~is_better;",
        "best = (npc_vector)(((npc_places)best & ~is_better) | ((npc_places)now & is_better));",
        f"found = (found & ~is_better) | (i{axis} & is_better);",
        "}",
    ]


# --- what combines numbers: (the identity, C text that combines {a} and {x})


def lowest(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return "-__builtin_inf()"
    return f"({c_type(dtype)}){int(np.iinfo(dtype).min) + 1} - 1" if dtype.kind == "i" else "0"


def highest(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return "__builtin_inf()"
    return "1" if dtype.kind == "b" else f"({c_type(dtype)}){np.iinfo(dtype).max}u"


def largest(sign: str) -> Callable[[np.dtype], str]:
    return lambda dtype: f"({{a}} {sign} {{x}}{' || {a} != {a}' if dtype.kind == 'f' else ''} ? {{a}} : {{x}})"


FOLD_OPS: dict[str, tuple[str | Callable[[np.dtype], str], Callable[[np.dtype], str]]] = {
    "sum": (lambda dtype: "-0.0" if dtype.kind == "f" else "0", lambda dtype: "({a} + {x})"),
    "prod": ("1", lambda dtype: "({a} * {x})"),
    "max": (lowest, largest(">")),
    "min": (highest, largest("<")),
    "any": ("0", lambda dtype: "({a} | {x})"),
    "all": ("1", lambda dtype: "({a} & {x})"),
}
NEEDS_SOME = ("max", "min")
