"""Loops of `row_tiling.py` in which an element needs nothing but itself: all iterations in registers, some lanes at a time.

Where iterations read rows that lie elsewhere each time, these are long pieces of memory: as many lanes as a block has rows are in
the cache, and an iteration goes over them. There, and where functions are called, truth values are as wide as the narrowest
numbers beside them: compilers take vectors of one length, and lanes that no element needs take as long as others.

Lanes behind the last element hold the first one of the others, so there is no rest to be done one by one, and no error that no
element has. Where nothing but the elements changes from iteration to iteration, and some iterations left them all as they were,
the others are not done: what masks select becomes less and less.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from npcompile.backends.cpu.array_expressions import Apply, Part, Tree, may_note, parts_of
from npcompile.backends.cpu.loops.nest_statements import WORD, Group, Here, Loop, Row, Set, Write, held_in, key_of
from npcompile.backends.cpu.loops.vectorize_columns import ColumnNumbers, numbered
from npcompile.backends.cpu.primitives import c_type

MOST_BYTES = 1280  # of all arrays in registers
FEWEST, FULL, MOST = 16, 64, 256  # lanes; a vector is full of 64 bytes
WIDEST = 256  # bytes of the lanes of one array
LONG = 512  # lanes where rows are read from memory in each iteration
BETWEEN_LOOKS = 4  # iterations
DEFINITION = re.compile(r"const \S+ (t\d+) = ([^*]*);")  # of what is not read from memory
CALL = re.compile(r"\bnpc_\w+_[fc]\d+\(")


@dataclass(slots=True)
class Lanes(Row):
    """The elements of one loop nest, each array in an array of C's whose indices are lanes."""

    constants: frozenset[str] = frozenset()  # C variables that all iterations have
    truth: int = 1  # bytes of a truth value
    arrays: dict[object, str] = field(default_factory=dict)  # key of a part -> C array
    parts: dict[str, Part] = field(default_factory=dict)  # C array -> where it is from
    moving: dict[str, Part] = field(default_factory=dict)  # C pointer -> a row that each iteration has elsewhere

    def element(self, part: Part) -> str:
        if key_of(part) not in self.arrays:
            stays = is_fixed(part, self.constants)
            name = self.arrays[key_of(part)] = f"{'lanes' if stays else 'row_at'}{len(self.arrays)}"
            (self.parts if stays else self.moving)[name] = part
        return f"{self.arrays[key_of(part)]}[i0]"

    @property
    def has_few_lanes(self) -> bool:
        """Where functions take most of the time, or memory is read, more vectors at a time are no gain."""
        return bool(self.moving) or any(map(CALL.search, self.body))

    def type_of(self, part: Part) -> str:
        return f"uint{8 * self.truth}_t" if part.dtype.kind == "b" and self.truth > 1 else c_type(part.dtype)

    def size_of(self, part: Part) -> int:
        return self.truth if part.dtype.kind == "b" else part.dtype.itemsize

    def widened(self, line: str) -> str:
        """With truth values of so many bytes: there is nothing else of one."""
        return line if self.truth == 1 else re.sub(r"\buint8_t\b", f"uint{8 * self.truth}_t", line)


def has_lanes(loop: Loop, group: Group, constants: Iterable[str]) -> bool:
    """Does each element need only itself, and what stays where it is? All that an iteration leaves, the next one reads."""
    size, known = loop.statements[0].sizes, {*constants}
    parts = [p for s in loop.statements for p in parts_of(s.tree)]
    targets = [s.target for s in loop.statements if isinstance(s, Write)]
    inits = [c.init for c in loop.carried if c.init is not None]
    is_one = len(size) == 1 and all(p.sizes == size for p in [*parts, *targets])  # so the first ones are: it was asked
    if not is_one or not all(map(is_row, [*parts, *targets, *inits])):
        return False
    written = {t.root for t in targets}
    if not all(is_fixed(p, known) or p in parts and p.root not in written for p in [*parts, *targets, *inits]):
        return False
    read = {key_of(p) for p in parts}
    names = {name for s in loop.statements for name in held_in(s.tree)}
    left = {c.left for c in loop.carried}
    are_read = all(key_of(t) in read for t in targets) and all(c.entered in names and c.init is not None for c in loop.carried)
    are_kept = all(s.name in names or s.name in left or not may_note(s.tree) for s in loop.statements if isinstance(s, Set))
    return are_read and are_kept


def is_row(part: Part) -> bool:
    """Are its elements numbers side by side?"""
    return part.strides == (str(part.dtype.itemsize),) and part.dtype.kind in "biuf" and part.dtype.itemsize <= 8


def is_fixed(part: Part, known: Collection[str]) -> bool:
    """Is its memory the same in all iterations?"""
    return isinstance(part, ColumnNumbers) or {*WORD.findall(part.data)} - {"char"} <= {*known}


def bytes_of_truth(trees: Iterable[Tree]) -> int:
    """The size of the narrowest numbers beside truth values, if there are others than these."""

    def sizes(tree: Tree) -> set[int]:
        below = {size for a in tree.args for size in sizes(a)} if isinstance(tree, Apply) else set()
        return below if tree.dtype.kind == "b" else below | {tree.dtype.itemsize}

    return min({size for tree in trees for size in sizes(tree)}, default=1)


def lines(loop: Loop, group: Group, constants: Iterable[str]) -> tuple[list[str], tuple[int, int]]:
    """(all iterations for the rows from `begin` to `end`, how many rows are done before a write: the few, the most)"""
    storage = {c.entered: c.result for c in loop.carried} | {c.left: c.result for c in loop.carried}
    row = Lanes(Here(""), loop.statements[0].sizes, storage=storage, constants=frozenset(constants))
    left: dict[str, str] = {}  # C array -> what an iteration leaves in it
    for s in group.statements:
        text = row.stored(s.tree)
        key = s.name if isinstance(s, Set) else key_of(s.target)
        value = row.keep(key, text, s.tree.dtype)
        if isinstance(s, Write):
            left[row.element(s.target)] = value
        elif s.name in storage:
            left[row.element(storage[s.name])] = value
    if row.has_few_lanes:
        row.truth = bytes_of_truth(s.tree for s in loop.statements)
    step = [row.widened(line) for line in [*row.body, *(f"{e} = {v};" for e, v in left.items())]]
    changed = [element.removesuffix("[i0]") for element in left]
    fewest, most = widths(row)
    width = LONG if row.moving else most
    made = [
        *(f"{c} {w} = c->{w};" for w, (c, _) in loop.variables.items()),
        f"for (int64_t at = begin; at < end; at += {width}) {{",
        "if (__atomic_load_n(&c->bad, __ATOMIC_RELAXED)) goto done;",
        f"const int64_t lanes = npc_min({width}, end - at);",
        *(f"{w} = c->{w};" for w in loop.variables),
    ]
    if row.moving:
        step = in_pieces(row, fewest, step)
        made.append(f"const int64_t filled = (lanes + {fewest - 1}) / {fewest} * {fewest};")
        return [*made, *in_vectors(loop, row, step, changed, width), "}"], (width, width)
    if fewest < width:
        made += [f"if (lanes <= {fewest}) {{", *in_vectors(loop, row, each(fewest, step), changed, fewest), "} else"]
    return [*made, "{", *in_vectors(loop, row, each(width, step), changed, width), "}", "}"], (fewest, width)


def in_vectors(loop: Loop, row: Lanes, step: Sequence[str], changed: Sequence[str], width: int) -> list[str]:
    """All iterations for so many lanes. `step` is one for all of them."""
    numbers = [*loop.first, *loop.last]
    turn = [*loop.first, *step, *loop.last]
    inits = {key_of(c.result): c.init for c in loop.carried if c.init is not None}
    may_stay = is_same(loop, row.body) and not row.moving
    return [
        *(line for name, p in row.parts.items() for line in taken(row, name, inits.get(key_of(p), p), width)),
        *(in_looks(row, changed, turn, numbers, width) if may_stay else in_turns("c->turns", turn)),
        # The compiler may not do operations after the look at their flags.
        f'__asm__ volatile("" : : {", ".join(f""""r"({name})""" for name in changed)} : "memory");',
        "if (UNLIKELY(npc_noted()) && !c->ignores) goto undo;",
        *(line for n in changed for line in given_back(row, n, width)),
    ]


def widths(row: Lanes) -> tuple[int, int]:
    """(lanes for few elements, for all others): vectors of the narrowest ones are full, as compilers take vectors of one length.

    More lanes where they fit, as each iteration waits for the one before it.
    """
    sizes = [row.size_of(p) for p in [*row.parts.values(), *row.moving.values()]]
    fewest = max(FEWEST, FULL // min(sizes))
    most = fewest if row.has_few_lanes else min(MOST, WIDEST // max(sizes))
    fits = (n for n in (16, 32, 64, 128, 256) if n == fewest or fewest < n <= most and n * sum(sizes) <= MOST_BYTES)
    return fewest, max(fits)


def place(part: Part) -> str:
    return f"(char*)({part.data}) + at * {part.dtype.itemsize}"


def taken(row: Lanes, name: str, part: Part, width: int) -> list[str]:
    if isinstance(part, ColumnNumbers):
        return numbered(name, part, width)
    c, stored, at = row.type_of(part), c_type(part.dtype), place(part)
    limit = "filled" if row.moving else width
    truth = " != 0" * (c != stored)
    filled = [
        f"const {c} first = *({stored}*)({at}){truth};",
        "#pragma omp simd",
        f"for (int64_t k = 0; k < {limit}; k++) {name}[k] = k < lanes ? (({stored}*)({at}))[k]{truth} : first;",
    ]
    copied = f"if (lanes == {width}) __builtin_memcpy({name}, {at}, sizeof {name}); else"
    return [f"{c} {name}[{width}];", f"{copied if c == stored else ''} {{", *filled, "}"]


def given_back(row: Lanes, name: str, width: int) -> list[str]:
    """As `taken`, in whole vectors: single elements that are read as vectors, or the other way round, take long."""
    part = row.parts[name]
    stored, at = c_type(part.dtype), place(part)
    limit = "filled" if row.moving else width
    copied = f"if (lanes == {width}) __builtin_memcpy({at}, {name}, sizeof {name}); else"
    return [
        f"{copied if row.type_of(part) == stored else ''} {{",
        "#pragma omp simd",
        f"for (int64_t k = 0; k < {limit}; k++) if (k < lanes) (({stored}*)({at}))[k] = {name}[k];",
        "}",
    ]


def each(width: int, body: Iterable[str]) -> list[str]:
    return ["#pragma omp simd", f"for (int i0 = 0; i0 < {width}; i0++) {{", *body, "}"]


def in_pieces(row: Lanes, width: int, body: Iterable[str]) -> list[str]:
    """An iteration for all lanes, some at a time, without reading after the rows that lie in memory."""
    begins = ["const int64_t rest = lanes - piece;"]
    for name, part in row.moving.items():
        c, stored = row.type_of(part), c_type(part.dtype)
        value = f"(({stored}*)({place(part)}))[k < rest ? piece + k : 0]{' != 0' * (c != stored)}"
        copied = ["#pragma omp simd", f"for (int k = 0; k < {width}; k++) {name}_piece[k] = {value};"]
        copied.append(f"{name} = {name}_piece - piece;")
        begins += [f"const {c}* {name};", f"{c} {name}_piece[{width}];"]
        if c == stored:
            copied = [f"if (rest >= {width}) {name} = ({c}*)({place(part)});", "else {", *copied, "}"]
        begins += copied
    pieces = ["#pragma omp simd", f"for (int k = 0; k < {width}; k++) {{", "const int64_t i0 = piece + k;", *body, "}"]
    return [f"for (int64_t piece = 0; piece < lanes; piece += {width}) {{", *begins, *pieces, "}"]


def in_turns(turns: str, step: Iterable[str]) -> list[str]:
    return ["#pragma GCC unroll 1", f"for (int64_t turn = 0; turn < {turns}; turn++) {{", *step, "}"]


def is_same(loop: Loop, body: Iterable[str]) -> bool:
    """Does an iteration do to equal elements what the one before has done?"""
    varying = {*loop.variables}
    for line in loop.first:
        made = DEFINITION.fullmatch(line)
        words = {*WORD.findall(line)}
        if made is None or words & varying:
            varying |= words if made is None else {made[1]}
    return varying.isdisjoint(w for line in body for w in WORD.findall(line))


def in_looks(row: Lanes, changed: Iterable[str], step: Iterable[str], numbers: Iterable[str], width: int) -> list[str]:
    """With a look now and then whether elements change. Where some iterations do not change them, as many more do not either."""
    bits = {name: f"uint{8 * row.size_of(row.parts[name])}_t" for name in changed}
    return [
        f"int64_t turns = (c->turns - 1) % {BETWEEN_LOOKS} + 1;",
        f"for (int64_t done = 0; done < c->turns; turns = {BETWEEN_LOOKS}) {{",
        *(f"{t} old_{n}[{width}]; __builtin_memcpy(old_{n}, {n}, sizeof {n});" for n, t in bits.items()),
        *in_turns("turns", step),
        "done += turns;",
        "int is_changed = 0;",
        *(line for n, t in bits.items() for line in look(n, t, width)),
        "if (!is_changed) {",
        "for (; done < c->turns; done++) {",
        *numbers,
        "}",
        "}",
        "}",
    ]


def look(name: str, bits: str, width: int) -> list[str]:
    differ = f"different |= (({bits}*){name})[i0] ^ old_{name}[i0];"
    return [f"{{ {bits} different = 0;", *each(width, [differ]), "is_changed |= different != 0; }"]
