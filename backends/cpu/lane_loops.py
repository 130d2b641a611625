"""Loops of `pointwise_loops.py` in which an element needs nothing but itself: all iterations in registers, some lanes at a time.

Lanes behind the last element hold the first one of the others, so there is no rest to be done one by one, and no error that no
element has. Where nothing but the elements changes from iteration to iteration, and some iterations left them all as they were,
the others are not done: what masks select becomes less and less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from npcompile.backends.cpu.array_trees import Part, may_note, parts_of
from npcompile.backends.cpu.column_lanes import ColumnNumbers, numbered
from npcompile.backends.cpu.nest_statements import WORD, Group, Here, Loop, Row, Set, Write, held_in, key_of
from npcompile.backends.cpu.primitives import c_type

MOST_BYTES = 1280  # of all arrays in registers
FEWEST, FULL, MOST = 16, 64, 256  # lanes; a vector is full of 64 bytes
WIDEST = 256  # bytes of the lanes of one array
BETWEEN_LOOKS = 4  # iterations
DEFINITION = re.compile(r"const \S+ (t\d+) = ([^*]*);")  # of what is not read from memory
CALL = re.compile(r"\bnpc_\w+_[fc]\d+\(")


@dataclass(slots=True)
class Lanes(Row):
    """The elements of one loop nest, each array in an array of C's whose indices are lanes."""

    arrays: dict[object, str] = field(default_factory=dict)  # key of a part -> C array
    parts: dict[str, Part] = field(default_factory=dict)  # C array -> where it is from

    def element(self, part: Part) -> str:
        if key_of(part) not in self.arrays:
            name = self.arrays[key_of(part)] = f"lanes{len(self.arrays)}"
            self.parts[name] = part
        return f"{self.arrays[key_of(part)]}[i0]"


def has_lanes(loop: Loop, group: Group, constants: Iterable[str]) -> bool:
    """Does each element need only itself, and what stays where it is? All that an iteration leaves, the next one reads."""
    size, known = loop.statements[0].sizes, {*constants}
    parts = [p for s in loop.statements for p in parts_of(s.tree)]
    targets = [s.target for s in loop.statements if isinstance(s, Write)]
    inits = [c.init for c in loop.carried if c.init is not None]
    is_one = len(size) == 1 and all(p.sizes == size for p in [*parts, *targets])  # so the first ones are: it was asked
    if not is_one or not all(is_row(p, known) for p in [*parts, *targets, *inits]):
        return False
    read = {key_of(p) for p in parts}
    names = {name for s in loop.statements for name in held_in(s.tree)}
    left = {c.left for c in loop.carried}
    are_read = all(key_of(t) in read for t in targets) and all(c.entered in names and c.init is not None for c in loop.carried)
    are_kept = all(s.name in names or s.name in left or not may_note(s.tree) for s in loop.statements if isinstance(s, Set))
    return are_read and are_kept


def is_row(part: Part, known: set[str]) -> bool:
    """Are its elements numbers side by side, in memory that is the same in all iterations?"""
    stays = isinstance(part, ColumnNumbers) or {*WORD.findall(part.data)} - {"char"} <= known
    is_dense = part.strides == (str(part.dtype.itemsize),)
    return stays and is_dense and part.dtype.kind in "biuf" and part.dtype.itemsize <= 8


def lines(loop: Loop, group: Group) -> tuple[list[str], int]:
    """(all iterations for the rows from `begin` to `end`, how many rows are done before anything is written)"""
    storage = {c.entered: c.result for c in loop.carried} | {c.left: c.result for c in loop.carried}
    row = Lanes(Here(""), loop.statements[0].sizes, storage=storage)
    left: dict[str, str] = {}  # C array -> what an iteration leaves in it
    for s in group.statements:
        text = row.value(s.tree)
        key = s.name if isinstance(s, Set) else key_of(s.target)
        value = row.keep(key, text, s.tree.dtype)
        if isinstance(s, Write):
            left[row.element(s.target)] = value
        elif s.name in storage:
            left[row.element(storage[s.name])] = value
    step = [*row.body, *(f"{e} = {v};" for e, v in left.items())]
    changed = [element.removesuffix("[i0]") for element in left]
    fewest, width = widths(row)
    made = [
        *(f"{c} {w} = c->{w};" for w, (c, _) in loop.variables.items()),
        f"for (int64_t at = begin; at < end; at += {width}) {{",
        "if (__atomic_load_n(&c->bad, __ATOMIC_RELAXED)) goto done;",
        f"const int64_t lanes = npc_min({width}, end - at);",
        *(f"{w} = c->{w};" for w in loop.variables),
    ]
    if fewest < width:
        made += [f"if (lanes <= {fewest}) {{", *in_vectors(loop, row, step, changed, fewest), "} else"]
    return [*made, "{", *in_vectors(loop, row, step, changed, width), "}", "}"], width


def in_vectors(loop: Loop, row: Lanes, step: Sequence[str], changed: Sequence[str], width: int) -> list[str]:
    """All iterations for so many lanes."""
    numbers = [*loop.first, *loop.last]
    turn = [*loop.first, *each(width, step), *loop.last]
    inits = {key_of(c.result): c.init for c in loop.carried if c.init is not None}
    return [
        *(line for name, p in row.parts.items() for line in taken(name, inits.get(key_of(p), p), width)),
        *(in_looks(row, changed, turn, numbers, width) if is_same(loop, row.body) else in_turns("c->turns", turn)),
        # The compiler may not do operations behind the look at their flags.
        f'__asm__ volatile("" : : {", ".join(f""""r"({name})""" for name in changed)} : "memory");',
        "if (SELDOM(npc_noted()) && !c->ignores) goto undo;",
        *(line for n in changed for line in given_back(n, row.parts[n], width)),
    ]


def widths(row: Lanes) -> tuple[int, int]:
    """(lanes for few elements, for all others): vectors of the narrowest ones are full, as compilers take vectors of one length.

    More lanes where they fit, as each iteration waits for the one before it.
    """
    sizes = [p.dtype.itemsize for p in row.parts.values()]
    fewest = max(FEWEST, FULL // min(sizes))
    most = fewest if any(map(CALL.search, row.body)) else min(MOST, WIDEST // max(sizes))
    fits = (n for n in (16, 32, 64, 128, 256) if n == fewest or fewest < n <= most and n * sum(sizes) <= MOST_BYTES)
    return fewest, max(fits)


def place(part: Part) -> str:
    return f"(char*)({part.data}) + at * {part.dtype.itemsize}"


def taken(name: str, part: Part, width: int) -> list[str]:
    if isinstance(part, ColumnNumbers):
        return numbered(name, part, width)
    c, at = c_type(part.dtype), place(part)
    return [
        f"{c} {name}[{width}];",
        f"if (lanes == {width}) __builtin_memcpy({name}, {at}, sizeof {name});",
        "else {",
        f"const {c} first = *({c}*)({at});",
        "#pragma omp simd",
        f"for (int k = 0; k < {width}; k++) {name}[k] = k < lanes ? (({c}*)({at}))[k] : first;",
        "}",
    ]


def given_back(name: str, part: Part, width: int) -> list[str]:
    """As `taken`, in whole vectors: single elements that are read as vectors, or the other way round, take long."""
    c, at = c_type(part.dtype), place(part)
    return [
        f"if (lanes == {width}) __builtin_memcpy({at}, {name}, sizeof {name});",
        "else {",
        "#pragma omp simd",
        f"for (int k = 0; k < {width}; k++) if (k < lanes) (({c}*)({at}))[k] = {name}[k];",
        "}",
    ]


def each(width: int, body: Iterable[str]) -> list[str]:
    return ["#pragma omp simd", f"for (int i0 = 0; i0 < {width}; i0++) {{", *body, "}"]


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
    bits = {name: f"uint{8 * row.parts[name].dtype.itemsize}_t" for name in changed}
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
