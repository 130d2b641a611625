"""Loops whose every iteration is a few statements over whole arrays, in which elements need their neighbours, as C.

All iterations are one parallel loop. Statements that may be done to each element when the others have been are one loop nest; the
rows of a nest are parts that threads take, each its own first, and a nest begins when all parts of the one before are done. Who
comes late delays nobody: others take their parts. An array that is read at other places than it is written has two pieces of
memory, which change their roles after each iteration. Arrays from before the loop are worked on in copies, and are written back
when no floating-point error was noted: else the loop runs statement by statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from npcompile.backends.cpu.array_expressions import (
    Apply,
    Held,
    Part,
    Read,
    Rolled,
    Tree,
    flat,
    has_one_rank,
    is_flat,
    may_note,
    parts_of,
)
from npcompile.backends.cpu.loops.loop_nest import dense_strides, known_product
from npcompile.backends.cpu.loops.nest_statements import (
    WORD,
    Carried,
    Group,
    Here,
    Loop,
    Row,
    Set,
    Sizes,
    Statement,
    Write,
    flattened,
    grouped,
    held_in,
    key_of,
)
from npcompile.backends.cpu.loops.row_tiling import FEWEST, LONGEST_PAUSE, MOST, PARALLEL_FROM, bytes_of_rows, operations
from npcompile.backends.cpu.primitives import c_type

Access = tuple[str, object]  # the memory's root or the array that the loop made; None where it is read element by element

GRAIN = 1 << 14  # operations on elements of 8 bytes that are worth a thread, in each nest
HELPERS = r"""
enum { NPC_PARTS = 64 };
/* The parts of loop nests that follow each other. Each number is in a cache line of its own. */
struct npc_team {
  int64_t parts, joined __attribute__((aligned(64)));
  int64_t done __attribute__((aligned(64)));  /* parts of all nests */
  int64_t nests __attribute__((aligned(64))); /* that are done */
  struct { int64_t taken __attribute__((aligned(64))); } part[NPC_PARTS]; /* in how many nests */
};
static inline int npc_claims(struct npc_team* team, int64_t part, int64_t nest) {
  int64_t taken = nest;
  return __atomic_load_n(&team->part[part].taken, __ATOMIC_RELAXED) == nest &&
         __atomic_compare_exchange_n(&team->part[part].taken, &taken, nest + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}
/* A part of a nest for the thread `mine` of those that joined; -1 when all are done. */
static int64_t npc_take(struct npc_team* team, int64_t nest, int64_t mine) {
  const int64_t parts = team->parts;
  if (__atomic_load_n(&team->nests, __ATOMIC_ACQUIRE) > nest) return -1;
  const int64_t joined = __atomic_load_n(&team->joined, __ATOMIC_RELAXED);
  for (int64_t part = mine * parts / joined; part < (mine + 1) * parts / joined; part++)
    if (npc_claims(team, part, nest)) return part;
  for (unsigned looked = 1; __atomic_load_n(&team->nests, __ATOMIC_ACQUIRE) <= nest; looked++) {
    if (looked % 64 == 0)
      for (int64_t part = 0; part < parts; part++)
        if (npc_claims(team, part, nest)) return part;
    if (looked > 1000) sched_yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }
  return -1;
}
static inline void npc_finish(struct npc_team* team, int64_t nest) {
  if (__atomic_add_fetch(&team->done, 1, __ATOMIC_ACQ_REL) == (nest + 1) * team->parts)
    __atomic_store_n(&team->nests, nest + 1, __ATOMIC_RELEASE);
}
/* The first of n rows of a part. */
static inline int64_t npc_first(int64_t n, int64_t part, int64_t parts) { return parts == 1 ? part * n : n * part / parts; }
/* One for a thread, and several where there is much to do: threads that are faster take more of them. */
static inline int64_t npc_parts(double grains, int64_t threads, int64_t most) {
  const int64_t one_each = npc_min(grains, threads), several = npc_min(grains / 16, threads * 4);
  return npc_max(1, npc_min(most, threads > 1 ? npc_max(one_each, several) : 1));
}
static inline int64_t npc_aligned(int64_t bytes) { return (bytes + 127) & ~(int64_t)63; } /* and a line apart */
static inline void npc_sort(int64_t* numbers, int count) {
  for (int k = 1; k < count; k++)
    for (int j = k; j > 0 && numbers[j - 1] > numbers[j]; j--) {
      int64_t larger = numbers[j - 1];
      numbers[j - 1] = numbers[j];
      numbers[j] = larger;
    }
}
"""


# --- what may be one nest


def accesses(tree: Tree) -> list[Access]:
    match tree:
        case Held(name):
            return [(name, None)]
        case Read(part):
            return [(part.root, key_of(part))]
        case Rolled(Held(name), fronts):
            return [(name, fronts)]
        case Rolled(Read(part), fronts):
            return [(part.root, (fronts, key_of(part)))]
        case Apply(_, args):
            return [each for a in args for each in accesses(a)]
    return []


@dataclass(slots=True)
class Step(Group):
    """Statements that are one loop nest, of which some read neighbours."""

    doubled: frozenset[str] = frozenset()  # roots of which what is read and what is written are two pieces of memory

    def is_apart(self, s: Statement) -> bool:
        targets = {each.target.root: key_of(each.target) for each in self.statements if isinstance(each, Write)}
        reads = accesses(s.tree)
        if any(key is not None and name in self.made or name in targets and key != targets[name] for name, key in reads):
            return False
        if not isinstance(s, Write):
            return True
        root, key = s.target.root, key_of(s.target)
        if targets.get(root, key) != key:
            return False
        before = [k for each in self.statements for name, k in accesses(each.tree) if name == root]
        return root in self.doubled or all(k == key for k in before)


def doubled_roots(statements: Sequence[Statement], stays: frozenset[str]) -> frozenset[str]:
    """Of arrays that statements write, always at the same places, when all has been read, and that are read at others."""
    writes: dict[str, list[int]] = {}
    for k, s in enumerate(statements):
        if isinstance(s, Write):
            writes.setdefault(s.target.root, []).append(k)
    found = set()
    for root, places in writes.items():
        targets = [s.target for s in statements if isinstance(s, Write) and s.target.root == root]
        reads = [(k, key) for k, s in enumerate(statements) for name, key in accesses(s.tree) if name == root]
        are_fixed = {w for t in targets for w in WORD.findall(t.data)} <= stays
        if are_fixed and all(k <= places[0] for k, _ in reads) and any(key != key_of(targets[0]) for _, key in reads):
            found.add(root)
    return frozenset(found)


def in_steps(statements: Sequence[Statement], doubled: frozenset[str]) -> list[Statement]:
    """With what a statement writes where it reads other elements computed by one of its own."""
    made: list[Statement] = []
    for s in statements:
        if isinstance(s, Write) and s.target.root not in doubled:
            root, key = s.target.root, key_of(s.target)
            if any(name == root and k != key for name, k in accesses(s.tree)):
                whole = Set(f"x{len(made)}", s.tree, s.sizes)
                made += [whole, Write(s.target, Held(whole.name, s.tree.dtype))]
                continue
        made.append(s)
    return made


# --- loop nests


@dataclass(frozen=True, slots=True)
class Stretch:
    """A row is done by so many elements at a time, the last of them together with some that are done already."""

    elements: int
    below: int = 0  # and not rows of so many or more


@dataclass(slots=True)
class Sweep(Row):
    """The elements of a nest, some of which are read elsewhere."""

    moved: Mapping[str, str] = field(default_factory=dict)  # root -> how far its memory is from where it was
    cuts: list[str] = field(default_factory=list)  # where rolled rows begin, along the innermost axis
    stretches: tuple[Stretch, ...] = ()  # of rows; where its elements may be done twice
    origins: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # addresses -> rows' beginnings and bytes behind these
    begun: dict[str, tuple[str, int]] = field(default_factory=dict)  # where rows begin -> a variable, how far behind
    shared: int = 0  # rows that are numbers behind others

    def at_work(self, part: Part) -> Part:
        return replace(part, data=f"({part.data} + {self.moved[part.root]})") if part.root in self.moved else part

    def element(self, part: Part) -> str:
        """Views of one row have one address, which they are numbers behind: else each takes a register, and is computed."""
        text = Row.element(self, self.at_work(part))
        row = f"r{self.made}"
        head = f"char* const {row} = "
        origin, behind = self.origins.get(part.data, (part.data, 0))
        begin = re.sub(rf"\b{re.escape(part.data)}\b", origin, self.rows[-1].removeprefix(head))
        other, at = self.begun.setdefault(begin, (row, behind))
        if other != row:
            self.rows[-1] = f"{head}{other} + {behind - at};"
            self.shared += 1
        return text

    def value(self, tree: Tree) -> str:
        if isinstance(tree, Rolled):
            if tree not in self.values:
                self.keep(tree, self.rolled(tree), tree.dtype)
            return self.values[tree]
        return Row.value(self, tree)

    def rolled(self, tree: Rolled) -> str:
        part = self.at_work(self.storage[tree.source.name] if isinstance(tree.source, Held) else tree.source.part)
        lead, last = len(self.sizes) - part.ndim, len(self.sizes) - 1
        self.made += 1
        row = f"r{self.made}"
        terms = []
        for k, (stride, front) in enumerate(zip(part.strides, tree.fronts), lead):
            n, stride = part.sizes[k - lead], f"({stride})"
            if n == "1" and self.sizes[k] != "1":
                continue
            if front == "0":
                terms += [f"i{k} * {stride}"] * (k != last)
            elif k == last:
                terms.append(f"(from >= {front} ? -{front} : {n} - {front}) * {stride}")
                if front not in self.cuts:
                    self.cuts.append(front)
            else:
                terms.append(f"(i{k} - {front} + (i{k} < {front} ? {n} : 0)) * {stride}")
        self.rows.append(f"char* const {row} = {' + '.join([f'(char*)({part.data})', *terms])};")
        text = f"*({c_type(part.dtype)}*)({row} + i{last} * ({part.strides[-1]}))"
        return f"({text} != 0)" if part.dtype.kind == "b" else text

    def lines(self, inner: Sequence[str], begin: str, end: str) -> list[str]:
        last = len(self.sizes) - 1
        outer = [(k, *((begin, end) if k == 0 else ("0", n))) for k, n in enumerate(self.sizes[:-1])]
        loops = [f"for (int64_t i{k} = {first}; i{k} < {stop}; i{k}++)" for k, first, stop in outer]
        first, stop = ("0", self.sizes[-1]) if last else (begin, end)
        row = [*self.rows, *self.row([*self.body, *inner])]
        if not self.cuts:
            return [*loops, "{", f"const int64_t from = {first}, to = {stop};", *row, "}"]
        lines = [f"int64_t cuts[] = {{0, {', '.join(self.cuts)}, {self.sizes[-1]}}};", f"npc_sort(cuts, {len(self.cuts) + 2});"]
        lines += [*loops, f"for (int cut = 0; cut < {len(self.cuts) + 1}; cut++) {{"]
        first, stop = "cuts[cut]", "cuts[cut + 1]"
        if not last:
            first, stop = f"npc_max({first}, {begin})", f"npc_min({stop}, {end})"
        return [*lines, f"const int64_t from = {first}, to = {stop};", "if (from >= to) continue;", *row, "}"]

    def row(self, body: Sequence[str]) -> list[str]:
        """The innermost loop, from `from` to `to`. A rest of a row is too little for a loop of vectors: others go with it."""
        i, lines, rest = f"i{len(self.sizes) - 1}", [], "#pragma GCC ivdep"
        for stretch in self.stretches:
            n = stretch.elements
            lines += [
                f"if (to - from >= {n}{f' && to - from < {stretch.below}' * bool(stretch.below)})",
                "for (int64_t at = from;;) {",
            ]
            lines += ["#pragma omp simd", f"for (int64_t {i} = at; {i} < at + {n}; {i}++) {{", *body, "}"]
            lines += [f"if ((at += {n}) >= to) break;", f"if (UNLIKELY(at > to - {n})) at = to - {n};", "}", "else"]
        if self.stretches and not self.stretches[-1].below:  # few are left, which are no loop of vectors
            rest, body = "#pragma GCC unroll 1", ['__asm__ volatile("");', *body]
        return [*lines, "{", rest, f"for (int64_t {i} = from; {i} < to; {i}++) {{", *body, "}", "}"]


# --- the loop


@dataclass(frozen=True, slots=True)
class Places:
    """The two pieces of memory of an array that the loop changes, or the one: C variables of threads, fields they begin with."""

    number: int
    part: Part  # of a carried array, its first result; of one from before the loop, the whole of it
    is_double: bool
    copies: bool  # are the first contents copied, before anything else?
    carried: Carried | None = None
    other: Part | None = None  # of a carried array, its second result

    @property
    def fields(self) -> tuple[str, str, str]:
        return f"given{self.number}", f"one{self.number}", f"two{self.number}"

    @property
    def now(self) -> str:
        return f"{self.carried.entered}_data" if self.carried is not None else f"old{self.number}"

    @property
    def next(self) -> str:
        return f"{self.carried.left}_data" if self.carried is not None else f"new{self.number}"

    @property
    def bytes(self) -> str:
        return known_product([*self.part.sizes, str(self.part.dtype.itemsize)])

    def begin(self) -> list[str]:
        """Where is the array in the first iteration?"""
        given, one, two = self.fields
        first = given
        if self.carried is not None and self.copies:
            first = two if self.is_double else one
        if self.carried is None and not self.is_double:
            first = one
        known = [f"char* const {name} = c->{name};" for name in self.fields[: 2 + self.is_double]]
        return [*known, f"char *{self.now} = {first}, *{self.next} = {one};"]

    def turn(self) -> list[str]:
        """And in the next?"""
        lines = [f"{self.now} = {self.next};"]
        if self.is_double:
            _, one, two = self.fields
            lines.append(f"{self.next} = {self.next} == {one} ? {two} : {one};")
        return lines


@dataclass(slots=True)
class Plan:
    """The nests of an iteration, and which arrays need two pieces of memory."""

    statements: Sequence[Statement]
    entered: Mapping[str, str]  # what an iteration begins with -> what it leaves there
    stays: frozenset[str]  # C variables that are set before the loop
    groups: list[Group] = field(default_factory=list)
    doubled: frozenset[str] = frozenset()  # roots, and names of what an iteration begins with

    def __post_init__(self) -> None:
        roots = doubled_roots(self.statements, self.stays)
        self.groups = grouped(in_steps(self.statements, roots), partial(Step, doubled=roots))
        found = set()
        for entered, left in self.entered.items():
            set_at = next((k for k, g in enumerate(self.groups) if left in g.made), len(self.groups))
            for k, group in enumerate(self.groups):
                reads = [key for s in group.statements for name, key in accesses(s.tree) if name == entered]
                if any(k > set_at or k == set_at and key is not None for key in reads):
                    found.add(entered)
        self.doubled = roots | found


@dataclass(slots=True)
class TimeLoop:
    """The function that all threads run, and its call."""

    loop: Loop
    plan: Plan
    places: Sequence[Places]
    origins: Mapping[str, tuple[str, int]]  # addresses of views -> where their rows begin, and how many bytes behind that
    storage: dict[str, Part] = field(default_factory=dict)  # of what the loop makes
    rooms: dict[str, str] = field(default_factory=dict)  # of what it makes and keeps no longer than an iteration -> bytes
    stretches: set[Stretch] = field(default_factory=set)  # of the rows of all nests
    shared: int = 0  # rows of all nests that are numbers behind others

    def __post_init__(self) -> None:
        sets = {s.name: s for g in self.plan.groups for s in g.statements if isinstance(s, Set)}
        reads = {access for g in self.plan.groups for s in g.statements for access in accesses(s.tree)}
        elsewhere = {name for name, key in reads if key is not None}
        elsewhere |= {n for g in self.plan.groups for s in g.statements for n in held_in(s.tree) if n not in g.made}
        carried = {c.left: c for c in self.loop.carried} | {c.entered: c for c in self.loop.carried}
        for name, c in carried.items():
            self.storage[name] = replace(c.result, data=f"{name}_data", root=name, is_dense=True, is_ordered=True)
        read = {name for name, _ in reads}
        for name, s in sets.items():
            if name not in carried and (name in elsewhere or name not in read and may_note(s.tree)):
                self.storage[name] = memory_of(name, s.tree, s.sizes)
                self.rooms[name] = known_product([*s.sizes, str(s.tree.dtype.itemsize)])

    # --- nests

    def nest(
        self, group: Sequence[Statement], stored: Mapping[str, Part], moved: Mapping[str, str], out: Mapping[str, str]
    ) -> list[str]:
        """One loop nest for a part's rows. `moved`: where arrays from before the loop are; `out`: where they are written."""
        sizes = group[0].sizes
        storage = {**self.storage, **stored}
        named = {n for s in group for n, _ in accesses(s.tree)} | {*stored}
        parts = [p for n, p in storage.items() if n in named] + [p for s in group for p in parts_of(s.tree)]
        parts += [s.target for s in group if isinstance(s, Write)]
        begin, end = (f"npc_first({sizes[0]}, {at}, parts)" for at in ("part", "part + 1"))
        statements = group
        if len(sizes) > 1 and all(map(is_flat, parts)) and all(has_one_rank(s.tree, len(sizes)) for s in group):
            begin, end = (f"{at} * ({known_product(sizes[1:])})" for at in (begin, end))
            sizes = (known_product(sizes),)
            statements = [flattened(s, sizes) for s in group]
            storage = {n: flat(p, sizes) if n in named else p for n, p in storage.items()}
            stored = {n: storage[n] for n in stored}
        stretches = stretches_of(parts) if sizes[-1] != "1" and self.may_repeat(group, moved, out) else ()
        self.stretches.update(stretches)
        row = Sweep(Here(""), sizes, storage=storage, moved=moved, stretches=stretches, origins=self.origins)
        targets: dict[object, str] = {}
        for s in statements:
            value = row.keep(s.name if isinstance(s, Set) else key_of(s.target), row.stored(s.tree), s.tree.dtype)
            if isinstance(s, Write):
                target = replace(s.target, data=f"({s.target.data} + {out[s.target.root]})")
                targets[key_of(s.target)] = f"{Row.element(row, replace(target, root=''))} = {value};"
            elif s.name in stored:
                targets[s.name] = f"{row.element(stored[s.name])} = {value};"
        lines = row.lines([*targets.values()], "begin", "end")
        self.shared += row.shared
        return [f"const int64_t begin = {begin}, end = {end};", *lines]

    def may_repeat(self, group: Sequence[Statement], moved: Mapping[str, str], out: Mapping[str, str]) -> bool:
        """Is the nest's result the same where it is done twice? So it is where it reads nothing that it writes."""
        read = {name for s in group for name, _ in accesses(s.tree)}
        roots = {s.target.root for s in group if isinstance(s, Write)}
        written = {root for root in roots if root not in self.plan.doubled or moved[root] == out[root]}
        made = {s.name for s in group if isinstance(s, Set)}
        written |= {c.entered for c in self.loop.carried if c.left in made and c.entered not in self.plan.doubled}
        return read.isdisjoint(written)

    def phase(self, lines: Sequence[str]) -> list[str]:
        return [
            "{",
            "int64_t part = alone ? 0 : npc_take(team, nest, mine);",
            "for (; part >= 0; part = npc_take(team, nest, mine)) {",
            *lines,
            "if (alone) break;",  # the errors are looked at after the iteration
            "if (UNLIKELY(npc_noted()) && !c->ignores) __atomic_store_n(&c->bad, 1, __ATOMIC_RELAXED);",
            "npc_finish(team, nest);",
            "}",
            "nest++;",
            "}",
        ]

    def nests(self) -> list[str]:
        """Those of an iteration."""
        before = {p.part.root: f"(old{p.number} - given{p.number})" for p in self.places if p.carried is None}
        after = {p.part.root: f"(new{p.number} - given{p.number})" for p in self.places if p.carried is None}
        moved, lines = dict(before), []
        for group in self.plan.groups:
            stored = {n: self.storage[n] for n in group.made if n in self.storage}
            lines += self.phase(self.nest(group.statements, stored, moved, after))
            moved |= {s.target.root: after[s.target.root] for s in group.statements if isinstance(s, Write)}
        return lines

    def copies(self) -> list[str]:
        """What is copied before the first iteration."""
        lines = []
        for p in self.places:
            given, one, two = p.fields
            if not p.copies:
                continue
            if p.carried is None:
                lines += [moved_rows(p.part, one, given)] + [moved_rows(p.part, two, given)] * p.is_double
            elif p.carried.init is not None:
                name = p.carried.entered
                to = replace(self.storage[name], data=two if p.is_double else one)
                copied = Set(name, Read(p.carried.init), p.part.sizes)
                lines += ["{", *self.nest([copied], {name: to}, {}, {}), "}"]
        return self.phase(lines) if lines else []

    # --- the unit

    def text(self, types: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """(the functions, the lines that run them and jump to {name}_slow when it was in vain). `types`: of C variables."""
        loop, name = self.loop, self.loop.name
        outside = [p for p in self.places if p.carried is None]
        body = [
            *self.copies(),
            "for (int64_t turn = 0; turn < c->turns; turn++) {",
            "if (__atomic_load_n(&c->bad, __ATOMIC_RELAXED)) return;",
            *loop.first,
            *self.nests(),
            *loop.last,
            *(line for p in self.places for line in p.turn()),
            "if (UNLIKELY(npc_noted()) && !c->ignores) goto undo;",
            "}",
            "if (__atomic_load_n(&c->bad, __ATOMIC_RELAXED)) return;",
            *(self.phase([moved_rows(p.part, f"given{p.number}", p.now) for p in outside]) if outside else []),
        ]
        named = {w for line in [*body, *loop.variables] for w in WORD.findall(line)}
        named |= {w for _, init in loop.variables.values() for w in WORD.findall(init)}
        constants = {w: c for w, c in types.items() if w in named and w not in loop.variables}
        fields = [f"{c.replace(' restrict', '')} {w};" for w, c in constants.items()]
        fields += [f"{c} {w}, {w}_out;" for w, (c, _) in loop.variables.items()]
        fields += [f"char *{', *'.join(p.fields)};" for p in self.places] + [f"char* {n}_data;" for n in self.rooms]
        functions = [
            f"struct {name} {{ {' '.join(fields)} int64_t turns; int ignores, bad, over; struct npc_team team; }};",
            f"static int64_t {name}_pause, {name}_waits;",
            f"static void {name}_run(void* context, int64_t first, int64_t behind, int thread) {{",
            f"struct {name}* const c = context;",
            "if (__atomic_load_n(&c->over, __ATOMIC_RELAXED)) return;",
            "struct npc_team* const team = &c->team;",
            "const int64_t mine = __atomic_fetch_add(&team->joined, 1, __ATOMIC_RELAXED);",
            "const int64_t parts = team->parts;",
            "const int alone = parts == 1;",
            "int64_t nest = 0;",
            *(f"{c.replace(' restrict', '')} const {w} = c->{w};" for w, c in constants.items()),
            *(f"char* const {n}_data = c->{n}_data;" for n in self.rooms),
            *(line for p in self.places for line in p.begin()),
            *(f"{c} {w} = c->{w};" for w, (c, _) in loop.variables.items()),
            *body,
            "if (!mine) {",
            *(f"c->{w}_out = {w};" for w in loop.variables),
            "}",
            "__atomic_store_n(&c->over, 1, __ATOMIC_RELAXED);",
            "return;",
            "undo: __atomic_store_n(&c->bad, 1, __ATOMIC_RELAXED);",
            "}",
        ]
        return functions, self.call(constants)

    def call(self, constants: Mapping[str, str]) -> list[str]:
        loop, name, c = self.loop, self.loop.name, f"{self.loop.name}_c"
        shape = max((s.sizes for s in self.plan.statements), key=lambda sizes: (len(sizes), -sizes.count("1")))
        elements = known_product(shape)
        itemsize = max(s.tree.dtype.itemsize for s in self.plan.statements)
        values = {w: f"{'(char*)' if t.startswith('char*') else ''}({w})" for w, t in constants.items()}
        values |= {w: init for w, (_, init) in loop.variables.items()}
        lines = [f"struct {name} {c};", *(f"{c}.{w} = {v};" for w, v in values.items())]
        lines += [f"{c}.ignores = {loop.ignores}; {c}.bad = {c}.over = 0;"]
        lines += [f"{c}.turns = npc_min({loop.count}, {MOST} / npc_max(1, {elements}) + {FEWEST});"]
        work = max(1, operations(loop)) * itemsize / 8 / len(self.plan.groups)
        lines += [f"const double {name}_work = (double)({elements}) * {work!r};"]
        lines += [f"fuel -= ({elements}) * {c}.turns;"]
        is_much = f"{name}_work * {c}.turns * {len(self.plan.groups)} >= {PARALLEL_FROM}"
        lines += [f"const int64_t {name}_threads = {is_much} ? rt->threads() : 1;"]
        rows = f"npc_min(NPC_PARTS, {shape[0]})"
        lines += [f"{c}.team.parts = npc_parts({name}_work / {GRAIN}, {name}_threads, {rows});"]
        lines += [f"{c}.team.joined = {c}.team.done = {c}.team.nests = 0;"]
        lines += [f"for (int k = 0; k < {c}.team.parts; k++) {c}.team.part[k].taken = 0;"]
        rooms = {f"{n}_data": size for n, size in self.rooms.items()}
        for p in self.places:
            given, one, two = p.fields
            if p.carried is None:
                lines += [f"{c}.{given} = (char*)({p.part.data});"]
                rooms |= {one: p.bytes} | ({two: p.bytes} if p.is_double else {})
            else:
                init = p.carried.init if p.carried.init is not None and not p.copies else p.part
                lines += [f"{c}.{given} = (char*)({init.data}); {c}.{one} = (char*)({p.part.data});"]
                lines += [f"{c}.{two} = (char*)({p.other.data});"] if p.other is not None else []
        if rooms:
            total = " + ".join(f"npc_aligned({size})" for size in rooms.values())
            lines += [f"char* {name}_room = rt->scratch({total});", f"if (!{name}_room) goto {loop.failing};"]
            offset = f"{name}_room"
            for n, size in rooms.items():
                lines += [f"{c}.{n} = {offset};"]
                offset += f" + npc_aligned({size})"
        lines += ["npc_forget();"]
        lines += [f"const int {name}_stopped = rt->parallel({name}_run, &{c}, npc_min({c}.team.parts, {name}_threads), 1);"]
        lines += [f"rt->release({name}_room);"] * bool(rooms)
        lines += [f"if ({name}_stopped) goto {loop.failing};", f"if (UNLIKELY(!{c}.over)) {{", f"{name}_pause = {name}_waits;"]
        lines += [f"if ({name}_waits < {LONGEST_PAUSE}) {name}_waits += {name}_waits + 1;", f"goto {name}_slow;", "}"]
        lines += [f"{name}_waits = 0;", *(f"{w} = {c}.{w}_out;" for w in loop.variables)]
        for p in self.places:
            if p.other is not None:
                a, b = p.part.root, p.other.root
                lines += [f"if (!({c}.turns & 1)) {{", f"PyObject* const other = {a}; {a} = {b}; {b} = other;"]
                lines += [f"const int64_t most = {a}_most; {a}_most = {b}_most; {b}_most = most;", "}"]
        return lines


def stretches_of(parts: Iterable[Part]) -> tuple[Stretch, ...]:
    """Of what vectors hold, and of less for short rows. Where vectors hold few elements, few are left of a long row.

    None where elements differ in size: compilers take vectors of one length, and of the narrowest a stretch would not fill one.
    """
    sizes = {p.dtype.itemsize for p in parts}
    if len(sizes) > 1:
        return ()
    size = sizes.pop()
    return (Stretch(4, below=16),) if size >= 8 else (Stretch(64 // size), Stretch(8 if size == 1 else 4))


def memory_of(name: str, tree: Tree, sizes: Sizes) -> Part:
    """An array that the loop makes, in C order."""
    strides = dense_strides(sizes, tree.dtype.itemsize)
    return Part(tree.dtype, f"{name}_data", sizes, strides, name, True, False, True, True)


def moved_rows(part: Part, to: str, of: str) -> str:
    """Copy a part's rows of a whole array."""
    row, at = bytes_of_rows(part), [f"npc_first({part.sizes[0]}, {k}, parts)" for k in ("part", "part + 1")]
    return f"__builtin_memcpy({to} + {at[0]} * {row}, {of} + {at[0]} * {row}, ({at[1]} - {at[0]}) * {row});"
