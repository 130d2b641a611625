"""Loops whose every iteration does the same to each row of their arrays, as C: blocks of rows outside, the iterations inside.

A block's rows stay in the cache through all iterations, and blocks run on all threads. Statements of one shape that follow each
other are one loop nest. Nothing is looked at in between but the processor's flags: where one is up, or an operation cannot be
done exactly, what was written is put back, and the loop runs statement by statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from npcompile.backends.cpu.array_expressions import Apply, Part, Read, Tree, flat, has_one_rank, is_flat, may_note, parts_of
from npcompile.backends.cpu.loops import vectorize_registers
from npcompile.backends.cpu.loops.loop_nest import dense_strides, known_product
from npcompile.backends.cpu.loops.nest_statements import (
    WORD,
    Group,
    Here,
    Loop,
    Row,
    Set,
    Write,
    flattened,
    grouped,
    held_in,
    key_of,
)
from npcompile.backends.cpu.loops.scalar_loops import NoForm
from npcompile.backends.cpu.loops.vectorize_columns import widened

BLOCK = 512  # elements of an array that a block has, about
FEWEST = 2  # iterations
MOST = 1 << 24  # iterations of a run times elements of a block: then the next look for signals
PARALLEL_FROM = 1 << 17  # operations on elements
LONGEST_PAUSE = 1 << 10  # runs of the loop between attempts that were in vain


def as_one_row(loop: Loop) -> Loop:
    """The same with each element as a row, where all arrays are of one shape and dense: rows may be long, and few."""
    shapes = {s.sizes for s in loop.statements}
    shape = shapes.pop()
    parts = [p for s in loop.statements for p in parts_of(s.tree)] + [*loop.written]
    parts += [p for c in loop.carried for p in (c.init, c.result) if p is not None]
    parts += [s.target for s in loop.statements if isinstance(s, Write)]
    is_one = all(p.ndim == len(shape) and is_flat(p) for p in parts)
    if shapes or len(shape) == 1 or not is_one or not all(has_one_rank(s.tree, len(shape)) for s in loop.statements):
        return loop
    size = (known_product(shape),)
    return replace(
        loop,
        statements=[flattened(s, size) for s in loop.statements],
        carried=[replace(c, init=c.init and flat(c.init, size), result=flat(c.result, size)) for c in loop.carried],
        written=[flat(p, size) for p in loop.written],
    )


def written(loop: Loop, types: Mapping[str, str]) -> tuple[list[str], list[str], tuple[int, int]]:
    """(functions, lines that run them and jump to {name}_slow in vain, few and most rows in registers). `types`: of all names."""
    loop = in_lanes(loop, types.keys() - loop.variables.keys())
    name = loop.name
    body, room, unkept = body_of(loop, types.keys() - loop.variables.keys())
    named = {w for line in [*body, *loop.variables] for w in WORD.findall(line)} | {
        w for _, init in loop.variables.values() for w in WORD.findall(init)
    }
    given = {w: types[w] for w in types if w in named}
    constants = {w: c for w, c in given.items() if w not in loop.variables}
    fields = [f"{c.replace(' restrict', '')} {w};" for w, c in constants.items()]
    fields += [f"{c} {w}, {w}_out;" for w, (c, _) in loop.variables.items()]
    fields += ["char* kept;", *(f"char* keep{k};" for k in range(len(loop.written)))]
    functions = [
        f"struct {name} {{ {' '.join(fields)} int64_t block, turns; int ignores, bad; }};",
        f"static int64_t {name}_pause, {name}_waits;",
        f"static void {name}_run(void* context, int64_t from, int64_t to, int thread) {{",
        f"struct {name}* const c = context;",
        *(f"{c.replace(' restrict', '')} const {w} = c->{w};" for w, c in constants.items()),
        *room,
        "for (int64_t begin = from, end; begin < to; begin = end) {",
        "end = npc_min(to, begin + c->block);",
        *body,
        "if (!begin) {",
        *(f"c->{w}_out = {w};" for w in loop.variables),
        "}",
        "}",
        "goto done;",
        "undo: NPC_TELL(c->bad, 1);",
        "done:;",
        "rt->release(room);" if room else "",
        "}",
    ]
    return functions, call(loop, constants, unkept[1]), unkept


def in_lanes(loop: Loop, constants: Iterable[str]) -> Loop:
    """The loop by elements where these need no others, else by rows."""
    by_elements = as_one_row(widened(loop))
    groups = grouped(by_elements.statements)
    if len(groups) == 1 and vectorize_registers.has_lanes(by_elements, groups[0], constants):
        return by_elements
    return as_one_row(loop)


def body_of(loop: Loop, constants: Iterable[str]) -> tuple[list[str], list[str], tuple[int, int]]:
    """(what is done to a block of rows, lines that get memory for it, how many rows are written only where all went well)"""
    groups = grouped(loop.statements)
    if len(groups) == 1 and vectorize_registers.has_lanes(loop, groups[0], constants):
        lines, lanes = vectorize_registers.lines(loop, groups[0], constants)
        return ["if (c->kept) {", *keeping(loop), "}", *lines], [], lanes
    return *Body(loop).lines(), (0, 0)


def keeping(loop: Loop) -> list[str]:
    """Keep what the block has before anything is written to it."""
    lines = [copied(part, f"c->keep{k}", f"(char*)({part.data})") for k, part in enumerate(loop.written)]
    return lines + ["c->kept[begin / c->block] = 1;"] * bool(lines)


def call(loop: Loop, constants: Mapping[str, str], unkept: int) -> list[str]:
    """The lines that run the functions. So few rows as `unkept` need not be put back."""
    name, c = loop.name, f"{loop.name}_c"
    rows = loop.statements[0].sizes[0]
    inner = widest(loop)
    lines = [f"if (UNLIKELY({name}_pause > 0)) {{ --{name}_pause; goto {name}_slow; }}"]
    lines += [f"if (!({' && '.join(loop.tests)})) goto {name}_slow;"]
    values = [*constants, *(init for _, init in loop.variables.values())]
    fields = [*constants, *loop.variables]
    inits = [f".{f} = {'(char*)' if constants.get(f, '').startswith('char*') else ''}({v})" for f, v in zip(fields, values)]
    lines += [f"struct {name} {c} = {{{', '.join(inits)}}};", f"{c}.ignores = {loop.ignores};"]
    lines += [f"{c}.block = npc_max(1, {BLOCK} / npc_max(1, {inner}));"]
    lines += [f"{c}.turns = npc_min({loop.count}, {MOST} / npc_min({c}.block, {rows}) / npc_max(1, {inner}) + {FEWEST});"]
    blocks = f"(({rows}) / {c}.block + 1)"
    places = " + ".join([blocks, *(f"{bytes_of_rows(p)} * ({rows})" for p in loop.written)])
    if loop.written:
        lines += [f"if (({rows}) > {unkept}) {{", f"if (!({c}.kept = rt->scratch({places}))) goto {loop.failing};"]
        lines += [f"__builtin_memset({c}.kept, 0, {blocks});"]
        offset = f"{c}.kept + {blocks}"
        for k, part in enumerate(loop.written):
            lines.append(f"{c}.keep{k} = {offset};")
            offset += f" + {bytes_of_rows(part)} * ({rows})"
        lines.append("}")
    work = f"({rows}) * ({inner}) * {c}.turns"
    lines += ["npc_forget();", f"const int64_t {name}_work = {work};", f"fuel -= {name}_work;"]
    grain = f"{name}_work * {max(1, operations(loop))} < {PARALLEL_FROM} ? ({rows}) : {c}.block"
    lines += [f"const int {name}_stopped = rt->parallel({name}_run, &{c}, {rows}, {grain});"]
    lines += [f"{c}.bad |= {name}_stopped || (npc_noted() && !{c}.ignores);"]
    if loop.written:
        lines += [f"for (int64_t at = 0; {c}.bad && {c}.kept && at < {blocks}; at++) if ({c}.kept[at]) {{"]
        lines += [f"const int64_t begin = at * {c}.block, end = npc_min({rows}, begin + {c}.block);"]
        lines += [copied(part, f"(char*)({part.data})", f"{c}.keep{k}") for k, part in enumerate(loop.written)]
        lines += ["}", f"rt->release({c}.kept);"]
    lines += [f"if ({name}_stopped) goto {loop.failing};", f"if (UNLIKELY({c}.bad)) {{", f"{name}_pause = {name}_waits;"]
    lines += [f"if ({name}_waits < {LONGEST_PAUSE}) {name}_waits += {name}_waits + 1;", f"goto {name}_slow;", "}"]
    return [*lines, f"{name}_waits = 0;", *(f"{w} = {c}.{w}_out;" for w in loop.variables)]


def bytes_of_rows(part: Part) -> str:
    return f"({known_product([*part.sizes[1:], str(part.dtype.itemsize)])})"


def copied(part: Part, to: str, of: str) -> str:
    """The rows from `begin` to `end` of an array."""
    row = bytes_of_rows(part)
    return f"__builtin_memcpy({to} + begin * {row}, {of} + begin * {row}, (end - begin) * {row});"


def widest(loop: Loop) -> str:
    """Elements of a row of the largest statement, as far as is known."""
    rows = {s.sizes[1:] for s in loop.statements}
    return known_product(max(rows, key=len))


def operations(loop: Loop) -> int:
    def count(tree: Tree) -> int:
        return 1 + sum(map(count, tree.args)) if isinstance(tree, Apply) else 0

    return sum(count(s.tree) for s in loop.statements)


@dataclass(slots=True)
class Body:
    """What is done to a block of rows."""

    loop: Loop
    storage: dict[str, Part] = field(default_factory=dict)

    def lines(self) -> tuple[list[str], list[str]]:
        """(the lines, those that get memory for what they hold)"""
        loop = self.loop
        groups = grouped(loop.statements)
        for carried in loop.carried:
            behind = False
            for group in groups:
                if behind and carried.entered in group.used:
                    raise NoForm("an array of the iteration before that is read when there is a new one")
                behind |= carried.left in group.made
        room = self.place(groups)
        begin = keeping(loop)
        for carried in loop.carried:
            if carried.init is not None:
                held = Set(carried.entered, Read(carried.init), carried.result.sizes)
                begin += self.nest(Group([held]), {carried.entered})
        begin += [f"{c} {w} = c->{w};" for w, (c, _) in loop.variables.items()]
        inside = [line for g in groups for line in self.nest(g, {n for n in g.made if n in self.storage})]
        return [
            *begin,
            "for (int64_t turn = 0; turn < c->turns; turn++) {",
            "if (__atomic_load_n(&c->bad, __ATOMIC_RELAXED)) goto done;",
            *loop.first,
            *inside,
            *loop.last,
            "if (UNLIKELY(npc_noted()) && !c->ignores) goto undo;",
            "}",
        ], room

    def place(self, groups: Sequence[Group]) -> list[str]:
        """Give memory to what one nest makes and another uses, or what nobody reads and may have errors that NumPy reports."""
        sets = [s for g in groups for s in g.statements if isinstance(s, Set)]
        read = {name for g in groups for s in g.statements for name in held_in(s.tree)}
        results = {c.left: c.result for c in self.loop.carried}
        self.storage = {c.entered: c.result for c in self.loop.carried} | results
        used = {name for g in groups for name in g.used}
        others = [s for s in sets if s.name not in results]
        others = [s for s in others if s.name in used or (s.name not in read and may_note(s.tree))]
        row_bytes = [known_product([*s.sizes[1:], str(s.tree.dtype.itemsize)]) for s in others]
        for k, (s, n) in enumerate(zip(others, row_bytes)):
            place = " + ".join([f"c->block * ({m})" for m in row_bytes[:k]]) or "0"
            data = f"room + {place} - begin * ({n})"
            strides = dense_strides(s.sizes, s.tree.dtype.itemsize)
            self.storage[s.name] = Part(s.tree.dtype, data, s.sizes, strides, s.name, True, False, True, True)
        if not others:
            return []
        total = " + ".join(f"c->block * ({n})" for n in row_bytes)
        return [f"char* const room = rt->scratch({total});", "if (!room) { NPC_TELL(c->bad, 1); return; }"]

    def nest(self, group: Group, stored: set[str]) -> list[str]:
        """The loop nest of some statements, which leave what is to be `stored` in its memory."""
        statements = group.statements
        sizes = statements[0].sizes
        storage = {n: self.storage[n] for n in {*group.used, *stored} if n in self.storage}
        parts = [*storage.values(), *(p for s in statements for p in parts_of(s.tree))]
        parts += [s.target for s in statements if isinstance(s, Write)]
        is_one = all(has_one_rank(s.tree, len(sizes)) for s in statements)
        begin, end = "begin", "end"
        if len(sizes) > 1 and is_one and all(map(is_flat, parts)):
            begin, end = (f"{at} * ({known_product(sizes[1:])})" for at in (begin, end))
            size = (known_product(sizes),)
            statements = [flattened(s, size) for s in statements]
            storage = {n: flat(p, size) for n, p in storage.items()}
            sizes = size
        row = Row(Here(""), sizes, storage=storage)
        targets: dict[object, str] = {}
        for s in statements:
            text = row.stored(s.tree)
            key = s.name if isinstance(s, Set) else key_of(s.target)
            value = row.keep(key, text, s.tree.dtype)
            if isinstance(s, Write):
                targets[key] = f"{row.element(s.target)} = {value};"
            elif s.name in stored:
                targets[key] = f"{row.element(storage[s.name])} = {value};"
        return ["{", *row.loops([*targets.values()], begin, end, "#pragma GCC ivdep"), "}"]
