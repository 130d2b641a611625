"""Loops whose iterations are independent: chunks of them run on all threads, as functions of their own.

A chunk stops at the first iteration that has to leave the program: for an error, a warning, a number that is none of C's. Then
no later iterations are begun, all earlier ones are finished, and what later ones stored is put back: each chunk keeps the
old contents of what it is about to write. Where the program has use for variables as an iteration leaves them, the last one
that was finished is put back too, and the program does it again. Of a variable that each iteration adds to, threads keep what is
added, and the sum is made in order after them. An addition that has to leave the program stops the loop as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from npcompile.backends.cpu.elements import C_OF_KIND, ArrayInput
from npcompile.backends.cpu.loops.column_packing import bytes_of, copied, name_of
from npcompile.backends.cpu.loops.dependence import Accesses, Written
from npcompile.backends.cpu.loops.speculation import Way, size_of
from npcompile.backends.cpu.loops.value_ranges import SMALL

WORTH = 30_000  # units of fuel, of about a nanosecond each, from which a loop runs on threads
WORTH_WHOLE = 120_000  # where arrays are kept whole before that, which is another turn of all threads
GRAIN = 8_000  # that one thread takes at once
LOOK = 512  # units of fuel before it is asked again whether the others are worth it
LOOK_FOR_COPIES = 64  # where one thread is worth it
PIECES = 4  # at least, for each thread
WORTH_COPIES = 1_000  # from which it runs alone on what lanes read by columns
FEWEST_THREADS = 2
VAIN = -2  # nothing was done
MANY_LEAVES = 30  # ways out of a chunk whose compile time counts: the loops that take the time are functions of their own
MOST_KEPT = 1 << 30  # bytes of old contents
KEPT_BYTES = 8.0  # that are worth keeping for a unit of fuel
WORTH_KEEPING = 8.0  # units of fuel of an iteration of which terms are kept
TO_AND_FRO = 100.0  # units of fuel of an element that is written, below which threads should not share lines of the cache
COPIED = 1.0  # elements of matrices that are worth copying for a unit of fuel
LONGEST_PAUSE = 1 << 16  # visits of the loop's header between attempts, after such as were in vain

WORD = re.compile(r"[A-Za-z_]\w*")
SIZES = {"double": 8, "float": 4, "npc_z8": 8, "npc_z16": 16} | {
    c: int(c.strip("uint_")) // 8 for c in C_OF_KIND.values() if c.endswith("_t")
}
CONSTANT = re.compile(r"(?:INT64_C\(-?\d+\)|-?0x[\d.a-f]+p[-+]\d+|\d+)")

SPREAD_HELPERS = r"""
/* What runs once for many iterations: it would take longer to compile than it could save. */
#if defined(__GNUC__) && !defined(__clang__)
#define ONCE static __attribute__((noinline, optimize("Os")))
#else
#define ONCE static __attribute__((noinline))
#endif
/* What the iterations of a loop write: parts of this shape, each `step` bytes from the one before. */
struct npc_places {
  char* data;
  int64_t step, bytes; /* of one part */
  int nd;
  const int64_t *sizes, *strides;
  int64_t itemsize;
  char* room; /* for the old contents */
};
/* What all threads know of a loop. */
struct npc_spread {
  int64_t n, limit; /* the first iteration that stopped */
  struct npc_places* places;
  int count;
  int64_t grain, before; /* of iterations; so many less are the first grain's */
  int is_whole; /* are the places whole arrays, which are kept before the loop? */
  char* kept; /* of each grain: are there old contents? */
};
/* Iterations that write beside each other, each in its own column of a matrix: so many share their lines of the cache. */
struct npc_lines {
  int64_t n, before; /* which share the first one's, before it */
};
/* `first` is where the first iteration writes, and `step` the bytes from there to the next one's. */
ONCE void npc_line_up(struct npc_lines* lines, const char* first, int64_t step) {
  const int64_t bytes = __builtin_llabs(step), offset = (int64_t)((uintptr_t)first % 64);
  if (!bytes || 64 % bytes || 64 / bytes <= lines->n) return;
  lines->n = 64 / bytes;
  lines->before = step > 0 ? offset / bytes : (63 - offset) / bytes;
}
/* The grain in whole lines, unless it would be too large then to be shared out evenly. */
ONCE int64_t npc_whole_lines(int64_t grain, int64_t most, struct npc_lines* lines) {
  const int64_t whole = (grain + lines->n - 1) / lines->n * lines->n;
  if (whole <= most) return whole;
  lines->before = 0;
  return grain;
}
static inline int64_t npc_number(const struct npc_spread* s, int64_t at) { return (at + s->before) / s->grain; }
static inline int64_t npc_begin(const struct npc_spread* s, int64_t number) { return npc_max(number * s->grain - s->before, 0); }
static inline int64_t npc_end(const struct npc_spread* s, int64_t number) {
  return npc_min((number + 1) * s->grain - s->before, s->n);
}
static inline void npc_items(char* data, int64_t stride, char* room, int64_t n, int64_t itemsize, int is_kept) {
  if (stride == itemsize)
    __builtin_memcpy(is_kept ? room : data, is_kept ? data : room, n * itemsize);
  else if (itemsize == 8 && is_kept)
    for (int64_t i = 0; i < n; i++) __builtin_memcpy(room + i * 8, data + i * stride, 8);
  else
    for (int64_t i = 0; i < n; i++, data += stride, room += itemsize)
      __builtin_memcpy(is_kept ? room : data, is_kept ? data : room, itemsize);
}
/* To `room` or back: the parts of n iterations, without the first `skip` of them. Where their elements lie side by side, so they
   do in the room. */
ONCE void npc_move(const struct npc_places* p, int axis, char* data, char** room, int64_t n, int64_t skip, int is_kept) {
  if (axis == p->nd) {
    npc_items(data + skip * p->step, p->step, *room + skip * p->itemsize, n - skip, p->itemsize, is_kept);
    *room += n * p->itemsize;
  } else if (axis == p->nd - 1 && n == 1) {
    npc_items(data, p->strides[axis], *room, p->sizes[axis], p->itemsize, is_kept);
    *room += p->sizes[axis] * p->itemsize;
  } else {
    for (int64_t i = 0; i < p->sizes[axis]; i++) npc_move(p, axis + 1, data + i * p->strides[axis], room, n, skip, is_kept);
  }
}
ONCE void npc_move_grain(const struct npc_spread* s, int64_t number, int64_t first, int is_kept) {
  const int64_t begin = npc_begin(s, number), n = npc_end(s, number) - begin;
  for (int k = 0; k < s->count; k++) {
    const struct npc_places* p = s->places + k;
    char *data = p->data + begin * p->step, *room = p->room + begin * p->bytes;
    if (p->step == p->itemsize || p->step == -p->itemsize) {
      npc_move(p, 0, data, &room, n, first - begin, is_kept);
    } else {
      for (int64_t i = first; i < begin + n; i++) {
        room = p->room + i * p->bytes;
        npc_move(p, 0, p->data + i * p->step, &room, 1, 0, is_kept);
      }
    }
  }
}
/* Whole arrays, to their rooms by rows on all threads: one alone copies for as long as all of them compute. */
struct npc_moving {
  const struct npc_places* places;
  int is_kept;
};
ONCE void npc_move_rows(void* context, int64_t begin, int64_t end, int thread) {
  const struct npc_moving* const moving = context;
  const struct npc_places* const p = moving->places;
  char *data = p->data + begin * p->strides[0], *room = p->room + p->bytes / p->sizes[0] * begin;
  if (p->nd == 1)
    npc_items(data, p->strides[0], room, end - begin, p->itemsize, moving->is_kept);
  else
    for (; begin < end; begin++, data += p->strides[0]) npc_move(p, 1, data, &room, 1, 0, moving->is_kept);
}
ONCE int npc_keep_whole(const struct npc_spread* s) {
  for (int k = 0; k < s->count; k++) {
    const struct npc_places* const p = s->places + k;
    struct npc_moving moving = {p, 1};
    if (p->bytes && rt->parallel(npc_move_rows, &moving, p->sizes[0], npc_max(1, (1 << 17) * p->sizes[0] / p->bytes))) return -1;
  }
  return 0;
}
ONCE void npc_put_whole_back(const struct npc_spread* s) {
  for (int k = 0; k < s->count; k++) {
    struct npc_moving moving = {s->places + k, 0};
    if (s->places[k].bytes) npc_move_rows(&moving, 0, s->places[k].sizes[0], 0);
  }
}
static void npc_keep(struct npc_spread* s, int64_t begin, int64_t end) {
  if (s->is_whole) return;
  for (int64_t number = npc_number(s, begin); npc_begin(s, number) < end; number++) {
    npc_move_grain(s, number, npc_begin(s, number), 1);
    s->kept[number] = 1;
  }
}
ONCE void npc_put_back(struct npc_spread* s, int64_t first) {
  for (int64_t number = npc_number(s, first); first < s->n; first = npc_end(s, number++))
    if (s->kept[number]) npc_move_grain(s, number, first, 0);
}
static void npc_stop(struct npc_spread* s, int64_t at) {
  int64_t limit = __atomic_load_n(&s->limit, __ATOMIC_RELAXED);
  while (at < limit && !__atomic_compare_exchange_n(&s->limit, &limit, at, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}
/* The iterations that are done, less `again`; -1 if the user interrupted them. Those behind are undone. `fold` adds up what so
   many iterations have kept, and tells how many it could. */
ONCE int64_t npc_spread(npc_body body, struct npc_spread* s, int again, int64_t (*fold)(struct npc_spread*, int64_t)) {
  const int64_t n = s->n, parts = s->is_whole ? 1 : n;
  const int64_t marks = ((n + s->before) / s->grain + 64) / 64 * 64, end = n + s->before;
  int64_t bytes = marks;
  for (int k = 0; k < s->count; k++) bytes += (s->places[k].bytes * parts + 63) / 64 * 64;
  char* room = rt->scratch(bytes);
  if (!room) return -1;
  s->kept = room;
  __builtin_memset(room, 0, marks);
  room += marks;
  for (int k = 0; k < s->count; k++) {
    s->places[k].room = room;
    room += (s->places[k].bytes * parts + 63) / 64 * 64;
  }
  if (s->is_whole && npc_keep_whole(s)) {
    rt->release(s->kept);
    return -1;
  }
  const int is_interrupted = rt->parallel(body, s, end, s->grain) || (end <= s->grain && rt->error());
  if (fold && !is_interrupted) s->limit = fold(s, s->limit);
  int64_t done = is_interrupted ? 0 : npc_max(s->limit - again, 0);
  if (!s->is_whole) {
    npc_put_back(s, done);
  } else if (done < n) {
    done = 0;
    npc_put_whole_back(s);
  }
  rt->release(s->kept);
  return is_interrupted ? -1 : done;
}
"""


@dataclass(slots=True)
class Site:
    """A statement that sets such a variable: the terms that it keeps, and the lines that combine them with it."""

    number: int
    kinds: list[str]
    names: list[str]  # C variables of the terms where they are combined
    fixed: dict[str, str]  # those that are the same in all iterations -> C expressions
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Sum:
    """A variable that iterations only add to, or the like."""

    name: str  # of C variables
    kind: str
    variable: str  # the program's C variable
    is_always: bool  # does every iteration set it?
    sites: dict[object, Site] = field(default_factory=dict)

    @property
    def is_one(self) -> bool:
        """Does every iteration set it by the same statement?"""
        return self.is_always and len(self.sites) == 1

    def site(self, at: int, terms: Sequence[tuple[str, str]]) -> Site:
        """Of terms: (kind, C text)"""
        fixed = tuple(text if CONSTANT.fullmatch(text) else "" for _, text in terms)
        key = (at, *fixed, *(kind for kind, _ in terms))
        if key not in self.sites:
            number = len(self.sites)
            names = [f"{self.name}_{number}_{k}" for k in range(len(terms))]
            known = {name: text for name, text in zip(names, fixed) if text}
            self.sites[key] = Site(number, [kind for kind, _ in terms], names, known)
        return self.sites[key]

    @property
    def rooms(self) -> list[tuple[str, str]]:
        """(C variable, type) of what is kept of each iteration."""
        sites = self.sites.values()
        kept = [(n, C_OF_KIND[k]) for s in sites for n, k in zip(s.names, s.kinds) if n not in s.fixed]
        return [*kept, (f"{self.name}_which", "uint8_t")]

    def fold(self) -> list[str]:
        """Lines that do to the variable what iteration k did to it."""
        cases = []
        for s in self.sites.values():
            own = [f"const {C_OF_KIND[k]} {n} = {s.fixed.get(n, f'{n}_kept[k]')};" for n, k in zip(s.names, s.kinds)]
            cases.append(["{", *own, *s.lines, "}"])
        if self.is_one:
            return cases[0]
        numbered = [line for k, lines in enumerate(cases, 1) for line in (f"case {k}:", *lines, "break;")]
        return [f"switch ({self.name}_which_kept[k]) {{", *numbered, "}"]


@dataclass(slots=True)
class Spread:
    """The C of a loop whose iterations run on all threads, while it is written."""

    name: str
    ways: list[Way]
    accesses: Accesses
    has_results: bool  # is anything that it sets read after the loop?
    kinds: dict[str, str] = field(default_factory=dict)  # of what its functions are given: C types
    sums: list[Sum] = field(default_factory=list)

    @property
    def may_be_alone(self) -> bool:
        """Is it worth one thread as well? Then nothing is put back, as iterations would read none of what they have stored."""
        accesses = self.accesses
        return not accesses.columns.isdisjoint(accesses.in_lanes) and not self.sums and not accesses.reads_what_it_writes()

    @property
    def columns(self) -> list[ArrayInput]:
        return [a for a in self.accesses.arrays if a.name in self.accesses.columns]

    @property
    def counter(self) -> Way:
        """What the loop goes over that says how many iterations there are: a range, if there is one."""
        return next((w for w in self.ways if w.is_range), self.ways[0])

    @property
    def iteration(self) -> str:
        """The number of the iteration that comes next."""
        way = self.counter
        distance = f"({way.first} - shared->{way.first})"
        return distance if way.step == 1 else f"{distance} / {way.step}"

    def moving(self, k: int) -> str:
        """The C variable that is the loop's k-th item."""
        return f"{self.name}_at{k}"

    def at_header(self) -> list[str]:
        limit = "__atomic_load_n(&shared->spread.limit, __ATOMIC_RELAXED)"
        ends = [] if self.counter.is_range else [f"if ({self.iteration} >= end) goto done;"]
        return [f"if (UNLIKELY({self.iteration} > {limit})) goto done;", *ends]

    def set(self, variable: Sum, site: Site, values: Sequence[str]) -> list[str]:
        """Lines with which an iteration sets such a variable."""
        at = f"{self.iteration} - 1"
        pairs = [(n, C_OF_KIND[k], v) for n, k, v in zip(site.names, site.kinds, values) if n not in site.fixed]
        lines = [f"(({c}*)shared->{n})[{at}] = {value};" for n, c, value in pairs]
        return [*lines, f"((uint8_t*)shared->{variable.name}_which)[{at}] = {site.number + 1};"]

    def functions(self, body: Sequence[str], declarations: Sequence[str], outer: dict[str, str], held: Set[str]) -> list[str]:
        """The functions: of a chunk, and of all iterations. The latter gives how many are done, or VAIN.

        `outer` are the program's variables, `held` those of arrays that it made before.
        """
        n = self.name
        written = self.accesses.written()
        assert written is not None
        whole = self.whole(written)
        spread_out = f"npc_spread({n}_chunk, &shared.spread, {int(self.has_results)}, 0)"
        start = copied(self.columns, spread_out) if self.columns else [f"return {spread_out};"]
        named = {word for line in [*body, *declarations, *whole, *start] for word in WORD.findall(line)}
        named |= {way.first for way in self.ways}
        own = [name for name, c in outer.items() if c == "PyObject*" and name in named and name not in held]
        given = {name: c.replace(" restrict", "") for name, c in outer.items() if name in named and name not in own}
        self.kinds = given
        fields = "".join(f" {c} {name};" for name, c in given.items())
        leaves = sum("goto stopped;" in line for line in body)
        brief = "BRIEF " if declarations and leaves > MANY_LEAVES else ""
        fields += "".join(f" char* {name_of(a.name)};" for a in self.columns)
        fields += "".join(f" char* {room};" for s in self.sums for room, _ in s.rooms)
        fields += "".join(f" {C_OF_KIND[s.kind]} {s.name}, {s.name}_found;" for s in self.sums)
        chunk = [
            f"typedef struct {{ struct npc_spread spread; int64_t folded;{fields} }} {n}_shared;",
            f"{brief}STRIP void {n}_chunk(void* context, int64_t begin, int64_t end, int thread) {{",
            f"{n}_shared* const shared = context;",
            "end -= shared->spread.before, begin = npc_max(begin - shared->spread.before, 0);",
            "if (begin > __atomic_load_n(&shared->spread.limit, __ATOMIC_RELAXED)) return;",
            "npc_keep(&shared->spread, begin, end);",
            *(f"{c} {name} = shared->{name};" for name, c in given.items()),
            *(f"const char* const {name_of(a.name)} = shared->{name_of(a.name)};" for a in self.columns),
            *(f"{way.first} += begin * {way.step};" for way in self.ways),
            *(f"{way.stop} = {way.first} + (end - begin) * {way.step};" for way in self.ways if way.is_range),
            *(f"int64_t {self.moving(k)} = 0;" for k in range(len(self.ways))),
            *(f"PyObject* {name} = 0;" for name in own),
            "const int apart = 1;",
            "int64_t fuel = POLL, elements = 0;",
            *declarations,
            *body,
            "failed:;",
            "stopped:;",
            f"npc_stop(&shared->spread, {self.iteration} - 1);",
            "done:;",
            *(f"rt->decref({name});" for name in own),
            "}",
        ]
        sums = {f"{s.name}_set": f"{C_OF_KIND[s.kind]}*" for s in self.sums}
        parameters = ", ".join(f"{c} {name}" for name, c in {**given, **sums}.items())
        head = f"ONCE int64_t {n}({', '.join(filter(None, ['int64_t left', 'double cost', parameters]))}) {{"
        grain = f"npc_max(1, npc_min((int64_t)({GRAIN} / (cost + 1)), left / ({PIECES} * threads)))"
        grain = self.unless_alone(f"npc_whole_lines({grain}, left / ({PIECES} * threads + 1), &lines)", "left")
        whole_arrays = self.unless_alone(str(int(is_whole(written))), "0")
        spread = f"{{left, left, places, count, grain, {self.unless_alone('lines.before', '0')}, {whole_arrays}, 0}}"
        values = ", ".join([f".spread = {spread}", *(f".{v} = {v}" for v in given)])
        run = [
            f"const int64_t grain = {grain};",
            f"{n}_shared shared = {{{values}}};",
            *(self.with_sums() if self.sums else start),
            "}",
        ]
        return [*chunk, *self.fold(), head, *whole, *run]

    def fold(self) -> list[str]:
        """The function that combines the terms of the first iterations with the variables, and tells how many it could."""
        n = self.name
        if not self.sums:
            return []
        rooms = [room for s in self.sums for room in s.rooms]
        return [
            f"STRIP int64_t {n}_fold(struct npc_spread* spread, int64_t count) {{",
            f"{n}_shared* const shared = ({n}_shared*)spread;",
            "int64_t k = 0;",
            "if (shared->folded == count) return count;",
            *(f"{C_OF_KIND[s.kind]} {s.name} = shared->{s.name};" for s in self.sums),
            *(f"const {c}* const {room}_kept = (const {c}*)shared->{room};" for room, c in rooms),
            "for (; k < count; ++k) {",
            *(line for s in self.sums for line in s.fold()),
            "}",
            *(f"shared->{s.name}_found = {s.name};" for s in self.sums),
            "return shared->folded = k;",
            "stop: __attribute__((unused));",
            "shared->folded = -1;",
            "return k;",
            "}",
        ]

    def with_sums(self) -> list[str]:
        """Lines that run the iterations, and set the variables."""
        n = self.name
        rooms = sorted((size, room) for s in self.sums for room, c in s.rooms for size in [SIZES[c]])[::-1]
        lines = [
            f"const int64_t kept_bytes = {sum(size for size, _ in rooms)};",
            f"if (left > {MOST_KEPT} / kept_bytes) return {VAIN};",
            "char* const rooms = rt->scratch(left * kept_bytes);",
            "if (!rooms) return -1;",
        ]
        before = 0
        for size, room in rooms:
            lines.append(f"shared.{room} = rooms + left * {before};")
            before += size
        lines += [f"__builtin_memset(shared.{s.name}_which, 0, left);" for s in self.sums]
        lines += [f"shared.{s.name} = *{s.name}_set;" for s in self.sums]
        return [
            *lines,
            "shared.folded = -1;",
            f"const int64_t done = npc_spread({n}_chunk, &shared.spread, {int(self.has_results)}, {n}_fold);",
            f"if (done > 0 && {n}_fold(&shared.spread, done) == done) {{",
            *(f"*{s.name}_set = shared.{s.name}_found;" for s in self.sums),
            "}",
            "rt->release(rooms);",
            "return done;",
        ]

    def whole(self, written: Sequence[Written]) -> list[str]:
        """Lines that find out whether iterations are apart, and where they write."""
        worth = WORTH_WHOLE if is_whole(written) else WORTH
        alone = f"threads < {FEWEST_THREADS} || cost * left < {worth}"
        way_out = f"const int is_alone = {alone};" if self.may_be_alone else f"if ({alone}) return {VAIN};"
        lines = ["const int threads = rt->threads();", way_out]
        terms = [i.terms for w in written for i in (*w.places, *w.others, *w.own.values()) if i is not None]
        first = {self.moving(k): way.first for k, way in enumerate(self.ways)}
        names = dict.fromkeys(first.get(name, name) for each in terms for name, _ in each)
        lines += [f"if ((uint64_t){name} + {SMALL} > {2 * SMALL}) return {VAIN};" for name in names]
        lines += [
            f"if (left > {SMALL}) return {VAIN};",
            "int64_t bytes = 0;",
            f"struct npc_places places[{max(len(written), 1)}];",
            "struct npc_lines lines = {1, 0};",
        ]
        for k, w in enumerate(written):
            lines += self.places(k, w, is_whole(written))
        lines += [
            f"const int count = {self.unless_alone(str(len(written)), '0')};",
            f"const double kept = (double)bytes * {'1' if is_whole(written) else 'left'};",
            f"if (count && (kept > {MOST_KEPT}.0 || kept > {KEPT_BYTES} * (cost + 1) * left)) return {VAIN};",
        ]
        for a in self.columns:  # a copy is one pass over the matrix
            size = bytes_of(a)
            copied = f"(double){a.name}_n0 * {a.name}_n1"
            lines.append(f"if ({size} > {MOST_KEPT} || {copied} > {COPIED} * (cost + 1) * left) return {VAIN};")
        return lines

    def unless_alone(self, text: str, otherwise: str) -> str:
        return f"is_alone ? {otherwise} : {text}" if self.may_be_alone and text != otherwise else text

    def places(self, k: int, w: Written, kept_whole: bool) -> list[str]:
        a = w.array
        first = {self.moving(j): way.first for j, way in enumerate(self.ways)}
        last = {self.moving(j): f"{way.first} + (left - 1) * {way.step}" for j, way in enumerate(self.ways)}
        lines = [f"char* data{k} = {a.name};", f"int64_t step{k} = 0;"]
        rest = [axis for axis, index in enumerate(w.places) if index is None or kept_whole]
        known = {axis: index for axis, index in enumerate(w.places) if index is not None}
        for axis, index in (w.own if kept_whole else known).items():
            size, stride = f"{a.name}_n{axis}", f"{a.name}_s{axis}"
            lines += [
                "{",
                f"int64_t begin = {index.text(first)}, end = {index.text(last)};",
                f"if (begin < 0 && end < 0) {{ begin += {size}; end += {size}; }}",
                f"if (begin < 0 || end < 0 || begin >= {size} || end >= {size}) return {VAIN};",
            ]
            if w.is_of_pairs:
                lines.append(f"if ({index.text(first)} < 0) return {VAIN};")
            if axis in w.own:
                for other in w.others:
                    lines += [
                        f"{{ int64_t at = {other.text({})};",
                        f"at += at < 0 ? {size} : 0;",
                        f"if (at >= npc_min(begin, end) && at <= npc_max(begin, end)) return {VAIN}; }}",
                    ]
            step = index.step(self.accesses.moving)
            if len(w.places) > 1:
                others = " * ".join(f"{a.name}_n{other}" for other in range(len(w.places)) if other != axis)
                beside = f"npc_line_up(&lines, {a.name} + begin * {stride}, {step} * {stride});"
                lines.append(f"if (cost < {TO_AND_FRO} * {others}) {beside}")
            if not kept_whole:
                lines += [f"data{k} += begin * {stride};", f"step{k} += {step} * {stride};"]
            lines.append("}")
        sizes = "".join(f", {a.name}_n{axis}" for axis in rest)
        strides = "".join(f", {a.name}_s{axis}" for axis in rest)
        item = size_of(a.kind)
        lines += [
            f"const int64_t sizes{k}[] = {{{sizes[2:] or 0}}}, strides{k}[] = {{{strides[2:] or 0}}};",
            f"const int64_t bytes{k} = {' * '.join([str(item), *(f'{a.name}_n{axis}' for axis in rest)])};",
            f"places[{k}] = (struct npc_places){{data{k}, step{k}, bytes{k}, {len(rest)}, sizes{k}, strides{k}, {item}, 0}};",
            f"bytes += bytes{k};",
        ]
        return lines

    def call(self, conditions: Iterable[str], failing: str) -> list[str]:
        """Lines at the loop's header that run the iterations where it pays. The loop as it is follows.

        `failing`: the label where an exception is set.

        What the iterations since the last visit took tells what the others will take. A loop that is begun anew has to go by
        what it took when it was run before.
        """
        n, way = self.name, self.counter
        worth, look = (min(WORTH, WORTH_COPIES), LOOK_FOR_COPIES) if self.may_be_alone else (WORTH, LOOK)
        named = ", ".join([f"{n}_left", f"{n}_cost", *self.kinds, *(f"&{s.variable}" for s in self.sums)])
        moved = f"({way.first} - {n}_seen)"
        forward = f"{moved} {'>' if way.step > 0 else '<'} 0"
        lines = [
            f"if ({forward} && (uint64_t)({n}_fuel - fuel) < {look}) goto {n}_slow;",
            f"if ({n}_pauses) {{ --{n}_pauses; goto {n}_slow; }}",
            f"if ({forward}) {n}_cost = (double)(fuel < {n}_fuel ? {n}_fuel - fuel : POLL / 2) * {way.step} / (double){moved};",
            f"{n}_seen = {way.first};",
            f"{n}_fuel = fuel;",
            f"if ({n}_cost * (double)({way.stop} - {way.first}) < {worth}.0 * {way.step}) goto {n}_slow;",
        ]
        if self.sums:
            lines.insert(-1, f"if ({n}_cost < {WORTH_KEEPING}) goto {n}_slow;")
        if way.step < 0:
            lines[-1] = f"if ({n}_cost * (double)({way.first} - {way.stop}) < {worth}.0 * {-way.step}) goto {n}_slow;"
        lines.append(f"{n}_left = {way.count};")
        lines += [f"if ({w.count} < {n}_left) {n}_left = {w.count};" for w in self.ways if w is not way]
        lines.append(f"if ({n}_left < 2) goto {n}_slow;")
        lines += [
            f"{n}_done = {' && '.join([*conditions, '1'])} ? {n}({named}) : {VAIN};",
            f"if ({n}_done == -1) goto {failing};",
            f"{n}_waits = {n}_done >= {n}_left - 1 ? 0 : npc_min(2 * {n}_waits + 1, {LONGEST_PAUSE});",
            f"{n}_pauses = {n}_waits;",
            *(f"if ({n}_done > 0) {w.first} += {n}_done * {w.step};" for w in self.ways),
            f"{n}_seen = {way.first};",
            f"if ({n}_done > 0) {n}_fuel = fuel -= (int64_t)({n}_done * {n}_cost < POLL ? {n}_done * {n}_cost : POLL);",
        ]
        return lines

    def declarations(self) -> list[str]:
        n = self.name
        beyond = "INT64_C(1) << 62" if self.counter.step > 0 else "-(INT64_C(1) << 62)"
        return [
            f"static int64_t {n}_pauses, {n}_waits; /* between calls */",
            f"int64_t {n}_seen = {beyond}, {n}_fuel = 0, {n}_left = 0, {n}_done = 0;",
            f"double {n}_cost = 0;",
        ]


def is_whole(written: Sequence[Written]) -> bool:
    """Is what an iteration writes scattered over an array, so that all of it is kept?"""
    return any(w.is_of_pairs for w in written)
