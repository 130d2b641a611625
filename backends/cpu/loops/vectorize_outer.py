"""Strips with loops inside whose iterations are lanes of vectors: all of them go through the loops inside together.

So it is where an iteration needs nothing of those before it, nothing is read that is stored, and loops inside begin and end in
all iterations at the same places. What does not depend on the iteration is computed once for all lanes. They store when it is
known that nothing failed, in the order of the program: there is nothing to put back. The last lanes begin among those before, and
some compute and store the same again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from npcompile.backends.cpu.elements import C_OF_KIND
from npcompile.backends.cpu.loops.column_packing import name_of
from npcompile.backends.cpu.loops.speculation import WORD, Strip
from npcompile.backends.cpu.loops.strip_elements import Store
from npcompile.backends.cpu.loops.strip_functions import MOST_TURNS
from npcompile.backends.cpu.loops.vector_wavefront import DEFINITION, LANE_HELPERS, MASK, A, Lanes, vector_of
from npcompile.backends.cpu.loops.wavefront import NoBand

LANE_NEST_HELPERS = (
    LANE_HELPERS
    + """
#if defined(__AVX2__) && defined(__FMA__) && !defined(__clang__)
#define NPC_LANE_NESTS
#define ANYWHERE(c) typedef c anywhere_##c __attribute__((vector_size(LANE_COUNT * sizeof(c)), aligned(8), may_alias));
ANYWHERE(double) ANYWHERE(int64_t)
#define FIRST(x) x##_first /* what a number is in the first lane */
#define SIDE_BY_SIDE(c, p) (*(anywhere_##c*)(p))
#define FROM(c, p, by, k) *(const c*)((p) + (k) * (by))
#define ARE_ALL ((1 << LANE_COUNT) - 1)
#define LANES_COMPUTED(x) __asm__ volatile("" : : "v"(x))
#ifdef __AVX512F__
#define FOLLOWING(by) (lanes_int64_t){0, by, 2 * (by), 3 * (by), 4 * (by), 5 * (by), 6 * (by), 7 * (by)}
#define EACH(c, p, by) \
  (lanes_##c){FROM(c, p, by, 0), FROM(c, p, by, 1), FROM(c, p, by, 2), FROM(c, p, by, 3), \
              FROM(c, p, by, 4), FROM(c, p, by, 5), FROM(c, p, by, 6), FROM(c, p, by, 7)}
#define ALL_LANES (unsigned char)-1
#define ROOTS(x) __builtin_ia32_sqrtpd512_mask(x, x, ALL_LANES, 4)
#define FUSED(x, y, z) __builtin_ia32_vfmaddpd512_mask(x, y, z, ALL_LANES, 4)
#define ARE_DIFFERENT(x, y) __builtin_ia32_cmppd512_mask(x, y, 4, ALL_LANES, 4)
#define ARE_BELOW(x, y) __builtin_ia32_ucmpq512_mask((whole)(x), (whole)(y), 1, ALL_LANES)
#define WITH_SIGN(x, of) (lanes_double)__builtin_ia32_pternlogq512_mask((whole)(x), (whole)(of), ALL_SIGNS, 0xf8, ALL_LANES)
#define ALL_SIGNS ((whole){} - INT64_C(0x7fffffffffffffff) - 1)
#define ONE_OF(x, lane) ((lanes_double)__builtin_ia32_compressdf512_mask(x, x, lane))[0]
#define WITH(x, lane, y) (lanes_double)__builtin_ia32_blendmpd_512_mask(x, OF_ALL(double, y), lane)
#else
#define FOLLOWING(by) (lanes_int64_t){0, by, 2 * (by), 3 * (by)}
#define EACH(c, p, by) (lanes_##c){FROM(c, p, by, 0), FROM(c, p, by, 1), FROM(c, p, by, 2), FROM(c, p, by, 3)}
#define ROOTS(x) __builtin_ia32_sqrtpd256(x)
#define FUSED(x, y, z) __builtin_ia32_vfmaddpd256(x, y, z)
#define ARE_DIFFERENT(x, y) (unsigned)__builtin_ia32_movmskpd256((lanes_double)((x) != (y)))
#define ARE_BELOW(x, y) (unsigned)__builtin_ia32_movmskpd256((lanes_double)((lanes_uint64_t)(x) < (lanes_uint64_t)(y)))
#define WITH_SIGN(x, of) (lanes_double)((lanes_int64_t)(x) | ((lanes_int64_t)(of) & ~INT64_C(0x7fffffffffffffff)))
#define ONE_OF(x, lane) (x)[__builtin_ctz(lane)]
#define WITH(x, lane, y) CHOSEN(double, ((lanes_int64_t){1, 2, 4, 8} & (int64_t)(lane)) != 0, OF_ALL(double, y), x)
#endif
/* Are those items, `by` bytes from each other, no part of the vector at `run`? All have 8 bytes. */
static inline int npc_are_beside(const char* run, const char* items, int64_t by) {
  const char* const last = items + (LANE_COUNT - 1) * by;
  return (by < 0 ? items : last) + 8 <= run || run + LANE_COUNT * 8 <= (by < 0 ? last : items);
}
static __attribute__((noinline)) lanes_double npc_doubtful_squares(lanes_double x, lanes_double squares, unsigned doubtful,
                                                                   unsigned outside) {
  do {
    const unsigned lane = doubtful & -doubtful;
    const double one = ONE_OF(x, lane);
    squares = WITH(squares, lane, UNLIKELY(outside & lane) ? npc_libm_pow_of(one, 2) : rt->square_by_pow(one));
  } while (doubtful &= doubtful - 1);
  return squares;
}
/* Squares as pow makes them: x * x where it is not near the middle of two numbers. */
static inline __attribute__((always_inline)) lanes_double npc_squares_by_pow(lanes_double x) {
  const lanes_double squares = x * x;
#ifdef NPC_POWER_ERROR
  const lanes_double rest = FUSED(x, x, -squares);
  const lanes_double error = WITH_SIGN(OF_ALL(double, NPC_POWER_ERROR), rest), farther = squares + FUSED(error, squares, rest);
  const lanes_int64_t within = (lanes_int64_t)squares - ((int64_t)(1023 - 32) << 52), end = OF_ALL(int64_t, (int64_t)64 << 52);
  const unsigned outside = ARE_ALL & ~ARE_BELOW(within, end), doubtful = ARE_DIFFERENT(farther, squares) | outside;
#else
  const unsigned outside = ARE_ALL, doubtful = outside;
#endif
  return UNLIKELY(doubtful) ? npc_doubtful_squares(x, squares, doubtful, outside) : squares;
}
#endif
"""
)

TURNS_AT_ONCE = 4  # that take as long as one of a loop by itself

ASSIGNMENT = re.compile(r"(\w+) (\+?=) ([^=]*);")
LABEL = re.compile(r"(\w+):;")
GOTO = re.compile(r"goto (\w+);")
UNLESS = re.compile(r"if \(!\((\w+ [<>] \w+)\)\) \{")
COMPUTED = re.compile(r"COMPUTED\((\w+)\);")
DENSE = re.compile(r"\(\((\w+)\*\)(\w+)\)\[(.*)\]")
SPACED = re.compile(r"\*\((\w+)\*\)\((\w+) \+ (.*)\)")
IN_MATRIX = re.compile(r"(?P<row>\([^()]*\)|\w+) \* (?P<array>\w+)_n1 \+ (?P<column>\([^()]*\)|\w+) \* 1")
LAST = re.compile(r"(?P<rest>.*?)(?P<last>\([^()]*\)|\w+) \* 1")
ADVANCED = re.compile(r"(?:\(int64_t\))?\(?(?P<lane>\w+)(?P<added>(?: [-+] (?:\w+|INT64_C\(-?\d+\)))*)\)?")
SQUARE = re.compile(rf"npc_libm_pow\({A}, 0x1\.0000000000000p\+1\)")
ROOT = re.compile(rf"sqrt\({A}\)")


@dataclass(slots=True)
class LaneNest:
    """The C of a strip whose body is `body`, as it is before stores are written in it. NoBand where there is no such form."""

    strip: Strip
    body: list[str]
    varying: set[str] = field(default_factory=set)  # C variables that are different in each lane
    advancing: set[str] = field(default_factory=set)  # of these, those that advance from lane to lane as the loop does
    lanes: Lanes = field(init=False)
    made: list[str] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)  # stores that were come to
    behind: set[str] = field(default_factory=set)  # what a loop inside has defined that has ended
    in_columns: set[str] = field(default_factory=set)  # matrices of which lanes read columns

    def __post_init__(self) -> None:
        s = self.strip
        is_plain = s.is_counted and s.is_regular and not (s.gives_up or s.ways_out)
        if not is_plain or len(s.ways) != 1 or not s.ways[0].is_range:
            raise NoBand
        if any(store.array.name in s.reads for store in s.stores) or any(store.kind not in ("f8", "i8") for store in s.stores):
            raise NoBand
        self.body = [s.jumps.get(k, line) if k not in s.turning else "" for k, line in enumerate(self.body)]
        self.lanes = Lanes(s.code.outer() | s.code.variables)
        self.find_varying()
        known = set[str]()
        self.write(0, len(self.body), known)
        if not self.varying.intersection(s.assigned) <= known:
            raise NoBand  # an iteration may leave what another has set

    # --- what is different in each lane

    def sets(self, begin: int = 0, end: int | None = None) -> Iterator[tuple[str, str, str]]:
        """(type, C variable, expression) of all lines that set one. A variable of the program has its type elsewhere."""
        for line in self.body[begin:end]:
            if found := DEFINITION.fullmatch(line):
                yield found[1], found[2], found[3]
            elif found := ASSIGNMENT.fullmatch(line):
                yield "", found[1], f"{found[1]} + {found[3]}" if found[2] == "+=" else found[3]

    def find_varying(self) -> None:
        self.varying = {self.strip.ways[0].place}
        while found := {name for _, name, text in self.sets() if self.varies(text)} - self.varying:
            self.varying |= found
        self.advancing = {self.strip.ways[0].place}
        while found := {name for _, name, text in self.sets() if self.advances(text)} - self.advancing:
            self.advancing |= found
        others = {name for _, name, text in self.sets() if name != self.strip.ways[0].place and not self.advances(text)}
        while self.advancing & others:
            self.advancing -= others
            others = {name for _, name, text in self.sets() if name != self.strip.ways[0].place and not self.advances(text)}

    def varies(self, text: str) -> bool:
        return not self.varying.isdisjoint(WORD.findall(text))

    def advances(self, text: str) -> bool:
        found = ADVANCED.fullmatch(text)
        return found is not None and found["lane"] in self.advancing and not self.varies(found["added"])

    # --- lines

    def write(self, begin: int, end: int, known: set[str]) -> None:
        """Lines of the body. `known`: variables of the program that the iteration has set."""
        stores = {store.line: j for j, store in enumerate(self.strip.stores)}
        k = begin
        while k < end:
            line = self.body[k]
            if k in stores:
                self.keep(stores[k])
            elif (found := GOTO.fullmatch(line)) and self.body[k + 1 : k + 2] == [f"{found[1]}:;"]:
                k = self.loop(k + 2, found[1], known) - 1
            elif line == "goto next;" and k == end - 1 == len(self.body) - 1:
                pass
            elif line:
                self.statement(line, known)
            k += 1

    def loop(self, begin: int, label: str, known: set[str]) -> int:
        """A loop, or a label to which only the line before it goes. Where it ends."""
        found = UNLESS.fullmatch(self.body[begin])
        backward = [k for k in range(begin, len(self.body)) if self.body[k] == f"goto {label};"]
        if found is None or len(backward) != 1:
            if backward:
                raise NoBand
            return begin
        behind = GOTO.fullmatch(self.body[begin + 1])
        if behind is None or self.body[begin + 2] != "}" or self.body[backward[0] + 1] != f"{behind[1]}:;":
            raise NoBand
        self.require_known(found[1], known)
        if self.varies(found[1]):
            raise NoBand
        stores = len(self.kept)
        self.made.append(f"while ({found[1]}) {{")
        self.write(begin + 3, backward[0], {*known})
        self.made.append("}")
        if len(self.kept) > stores:
            raise NoBand
        self.behind |= {name for c, name, _ in self.sets(begin, backward[0]) if c}
        return backward[0] + 2

    def require_known(self, text: str, known: set[str]) -> None:
        """Is all that the text names set by then, in this iteration?"""
        own = {name for c, name, _ in self.sets() if not c}
        words = {*WORD.findall(text)}
        if not own & words <= known or self.behind & words:
            raise NoBand

    def statement(self, line: str, known: set[str]) -> None:
        if found := DEFINITION.fullmatch(line):
            self.require_known(found[3], known)
            self.define(found[1], found[2], found[3], line)
            return
        if found := ASSIGNMENT.fullmatch(line):
            self.require_known(found[3], known)
            if found[2] == "+=":
                self.require_known(found[1], known)
                if found[1] in self.varying:
                    raise NoBand
            self.assign(found[1], found[3], line)
            known.add(found[1])
            return
        self.require_known(line, known)
        if (found := COMPUTED.fullmatch(line)) and found[1] in self.varying:
            self.made.append(f"LANES_{line}")
        else:
            if self.varies(line) or not (COMPUTED.fullmatch(line) or re.fullmatch(r"if \(UNLIKELY\(.*\)\) goto undo;", line)):
                raise NoBand
            self.made.append(line)

    def define(self, c: str, name: str, text: str, line: str) -> None:
        way = self.strip.ways[0]
        if name not in self.varying:
            self.lanes.outer[name] = c
            self.made.append(line)
            return
        if name == way.place:
            vector, kind = f"OF_ALL(int64_t, {way.first} + at * {way.step}) + FOLLOWING({way.step})", "int64_t"
        else:
            vector, kind = self.vector(text)
        if kind != c and c in ("double", "int64_t"):
            vector, kind = self.lanes.converted(f"({vector})", kind, c)
        if kind not in (c, MASK):
            raise NoBand
        self.made.append(self.lanes.define(kind, name, vector))
        if name in self.advancing:
            first = f"{way.first} + at * {way.step}" if name == way.place else self.in_first_lane(text)
            self.made.append(f"const int64_t FIRST({name}) = {first};")

    def assign(self, name: str, text: str, line: str) -> None:
        if name not in self.varying:
            self.made.append(line)
            return
        vector, kind = self.vector(text)
        if kind != self.strip.code.variables[name]:
            raise NoBand
        self.lanes.known[name] = f"{name}_lanes", kind
        self.made.append(f"{name}_lanes = {vector};")
        if name in self.advancing:
            self.made.append(f"FIRST({name}) = {self.in_first_lane(text)};")

    def in_first_lane(self, text: str, behind: str = "") -> str:
        """The text with what numbers are in the first lane, or so far behind it."""
        first = f"(FIRST({{}}){behind})" if behind else "FIRST({})"
        return WORD.sub(lambda word: first.format(word[0]) if word[0] in self.advancing else word[0], text)

    @property
    def step(self) -> int:
        """From one lane to the next."""
        return self.strip.ways[0].step

    def vector(self, text: str) -> tuple[str, str]:
        if found := SQUARE.fullmatch(text):
            return f"npc_squares_by_pow({self.doubles(found['a'])})", "double"
        if found := ROOT.fullmatch(text):
            return f"ROOTS({self.doubles(found['a'])})", "double"
        for form in (DENSE, SPACED):
            if found := form.fullmatch(text):
                return self.load(text, found[1], found[2], found[3], form is DENSE), found[1]
        return vector_of(self.lanes, text)

    def doubles(self, text: str) -> str:
        vector, kind = self.lanes.operand(text)
        if kind != "double":
            raise NoBand
        return vector

    def load(self, element: str, c: str, array: str, index: str, is_dense: bool) -> str:
        """The vector of an element's values. Indices are sums of products with one position."""
        words = self.varying.intersection(WORD.findall(index))
        if c not in ("double", "int64_t") or not words <= self.advancing or not re.fullmatch(r"[\w +*()-]*", index):
            raise NoBand
        last = LAST.fullmatch(index)
        first = self.in_first_lane(element)
        if is_dense and self.step == 1 and last and not self.varies(last["rest"]) and self.advances(last["last"].strip("()")):
            return f"SIDE_BY_SIDE({c}, &{first})"
        at = IN_MATRIX.fullmatch(index) if is_dense and self.step == 1 else None
        if at is not None and self.advances(at["row"].strip("()")) and not self.varies(at["column"]):
            self.in_columns.add(array)
            if name_of(array) in self.lanes.outer:
                place = f"{at['column']} * {array}_n0 + {self.in_first_lane(at['row'])}"
                return f"SIDE_BY_SIDE({c}, (const {c}*){name_of(array)} + {place})"
        following = self.in_first_lane(element, f" + {self.step}")
        name = f"from{len(self.made)}"
        self.made.append(f"const char* const {name} = (const char*)&{first};")
        return f"EACH({c}, {name}, (const char*)&{following} - {name})"

    def keep(self, j: int) -> None:
        store = self.strip.stores[j]
        vector, kind = self.lanes.operand(store.value)
        if kind != C_OF_KIND[store.kind]:
            raise NoBand
        self.made.append(f"const lanes_{kind} new{j} = {vector};")
        self.kept.append(j)

    def stores(self) -> list[str]:
        """Lines that store what was kept: of one array in the order of the program."""
        lines = []
        for array in {store.array.name: store.array for store in self.strip.stores}.values():
            of_array = [(j, store) for j, store in enumerate(self.strip.stores) if store.array is array]
            if len(of_array) == 1 and self.is_side_by_side(of_array[0][1]):
                ((j, store),) = of_array
                lines.append(f"SIDE_BY_SIDE({C_OF_KIND[array.kind]}, &{store.iteration('at')}) = new{j};")
                continue
            for j, store in of_array:
                lines.append(f"char* const to{j} = (char*)&{store.iteration('at')};")
                lines.append(f"const int64_t by{j} = (char*)&{store.iteration('(at + 1)')} - to{j};")
            c = C_OF_KIND[array.kind]
            each = {j: f"*({c}*)(to{j} + lane * by{j}) = new{j}[lane];" for j, _ in of_array}
            together = f"for (int lane = 0; lane < LANE_COUNT; ++lane) {{ {' '.join(each.values())} }}"
            if run := [j for j, store in of_array if self.is_side_by_side(store)][:1]:
                (first,) = run
                beside = " && ".join(f"npc_are_beside(to{first}, to{j}, by{j})" for j in each if j != first)
                others = " ".join(text for j, text in each.items() if j != first)
                lines += [f"if ({beside}) {{", f"SIDE_BY_SIDE({c}, to{first}) = new{first};"]
                lines += [f"for (int lane = 0; lane < LANE_COUNT; ++lane) {{ {others} }}", f"}} else {together}"]
            else:
                lines.append(together)
        return lines

    def is_side_by_side(self, store: Store) -> bool:
        moves = [place.group.moves for place in store.places or ()]
        return store.array.is_contiguous and moves[-1] == 1 and not any(moves[:-1])

    # --- the whole

    def lines(self) -> list[str]:
        """Lines of the strip's function that run it where there are enough iterations."""
        s = self.strip
        if self.kept != list(range(len(s.stores))):
            raise NoBand
        left = [v for v in s.assigned if v in self.varying]
        own = {name: s.code.variables[name] for c, name, _ in self.sets() if not c and name in self.varying}
        copies = [n for n in map(name_of, sorted(self.in_columns)) if n in self.lanes.outer]  # 0 outside of a loop that has them
        return [
            "#ifdef NPC_LANE_NESTS",
            f"if ({' && '.join(['count >= LANE_COUNT', *copies])}) {{",
            f"count = npc_min(count, npc_max(LANE_COUNT, {MOST_TURNS} / (turns + 1)));",
            *(f"lanes_{c} {name}_lanes = {{}};" for name, c in own.items()),
            *(f"lanes_{own[v]} {v}_before = {{}};" for v in left),
            *(f"int64_t FIRST({name}) = 0;" for name in own if name in self.advancing),
            "k = -1;",
            "for (int64_t block = 0; block * LANE_COUNT < count; ++block) {",
            "const int64_t at = npc_min(block * LANE_COUNT, count - LANE_COUNT);",
            *self.made,
            f"if (UNLIKELY({s.noted})) {{",
            "if (!block) goto undo;",
            "count = block * LANE_COUNT;",
            "break;",
            "}",
            *self.stores(),
            *(f"{v}_before = {v}_lanes;" for v in left),
            "}",
            *(f"{v} = {v}_before[LANE_COUNT - 1];" for v in left),
            *(f"out->{v} = {v};" for v in s.assigned),
            "out->count = count;",
            f"out->turns = turns * count / {TURNS_AT_ONCE};",
            "return 0;",
            "}",
            "#endif",
        ]
