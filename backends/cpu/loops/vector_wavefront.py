"""Bands whose rows are lanes of vectors: each step computes one element of every row.

What a row needs of the row before it is in the lane beside its own, one step later. Loads and statements of the strip's body
become vectors here, where each has a form; else there is no such band.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from npcompile.backends.cpu.c_squares import square_text
from npcompile.backends.cpu.elements import C_OF_KIND
from npcompile.backends.cpu.loops.strip_elements import Load, Store
from npcompile.backends.cpu.loops.wavefront import Band, NoBand

LANES = 8  # as many numbers of 64 bits as fill the widest vectors: the sides of a square that is turned over

LANE_HELPERS = """
/* Vectors of one element of each row, masks of -1 where something holds. */
#ifdef __AVX512F__
#define LANE_COUNT 8
#else
#define LANE_COUNT 4 /* others than fill a register would be in memory */
#endif
#define LANES(c) typedef c lanes_##c __attribute__((vector_size(LANE_COUNT * sizeof(c))));
LANES(int64_t) LANES(uint64_t) LANES(double) LANES(int32_t) LANES(uint32_t) LANES(float)
LANES(int16_t) LANES(uint16_t) LANES(int8_t) LANES(uint8_t)
#define OF_ALL(c, x) ((c)(x) - (lanes_##c){})
#define CONVERTED(c, x) __builtin_convertvector(x, lanes_##c)
#define CHOSEN(c, mask, x, y) \\
  ((lanes_##c)(((lanes_int64_t)(mask) & (lanes_int64_t)(x)) | (~(lanes_int64_t)(mask) & (lanes_int64_t)(y))))
#if defined(__AVX512F__) && !defined(__clang__)
#define EXTREME_int64_t(op, x, y) \
  ((lanes_int64_t)__builtin_ia32_p##op##sq512_mask((whole)(x), (whole)(y), (whole)(x), (char)-1))
#define EXTREME_double(op, x, y) __builtin_ia32_##op##pd512_mask(x, y, x, (char)-1, 4)
typedef long long whole __attribute__((vector_size(64)));
#else
#define BELOW_min <
#define BELOW_max >
#define EXTREME_int64_t(op, x, y) CHOSEN(int64_t, (x) BELOW_##op (y), x, y)
#define EXTREME_double(op, x, y) CHOSEN(double, (x) BELOW_##op (y), x, y)
#endif
#define SIZES_OF(x) ((lanes_double)((lanes_int64_t)(x) & INT64_C(0x7fffffffffffffff)))
#if defined(__clang__) || __GNUC__ >= 12
#define BEHIND(c, x, first) __builtin_shufflevector(x, (lanes_##c){first}, 8, 0, 1, 2, 3, 4, 5, 6)
#else
#define BEHIND(c, x, first) __builtin_shuffle(x, (lanes_##c){first}, (lanes_int64_t){8, 0, 1, 2, 3, 4, 5, 6})
#endif
"""

MASK = "mask"  # the type of a comparison's result
NUMBERS = {"int64_t": r"INT64_C\(-?\d+\)", "double": r"-?0x[\d.a-f]+p[+-]\d+"}
A, B, C = (rf"(?P<{x}>(?:\(\w+\))?(?:{'|'.join(NUMBERS.values())}|[A-Za-z_]\w*))" for x in "abc")
COMPARED = r"(?P<op><=|>=|<|>|==|!=)"
DEFINITION = re.compile(r"const (\w+) (\w+) = (.*);")
CAST = re.compile(r"\((\w+)\)(.*)")


@dataclass(slots=True)
class Lanes:
    """What is known of vectors while a step is written."""

    outer: dict[str, str]  # variables of the program, the same in all rows
    known: dict[str, tuple[str, str]] = field(default_factory=dict)  # numbers -> (vector, C's type of its elements, or MASK)
    comparisons: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # masks -> (operand, operator, operand)

    def operand(self, text: str) -> tuple[str, str]:
        """(vector, type)"""
        if cast := CAST.fullmatch(text):
            return self.converted(*self.operand(cast[2]), cast[1])
        if text in self.known:
            return self.known[text]
        kinds = [c for c, number in NUMBERS.items() if re.fullmatch(number, text)]
        if not kinds and text in self.outer:
            kinds = [self.outer[text]]
        if not kinds or kinds[0] not in ("int64_t", "double"):
            raise NoBand
        return f"OF_ALL({kinds[0]}, {text})", kinds[0]

    def converted(self, vector: str, known: str, to: str) -> tuple[str, str]:
        if known == MASK:
            vector, known = f"(-{vector})", "int64_t"
        if known == to:
            return vector, to
        if known in ("double", "float") and to not in ("double", "float"):
            raise NoBand
        return f"CONVERTED({to}, {vector})", to

    def alike(self, *texts: str) -> tuple[list[str], str]:
        found = [self.operand(text) for text in texts]
        if len({c for _, c in found}) != 1:
            raise NoBand
        return [vector for vector, _ in found], found[0][1]

    def define(self, c: str, name: str, vector: str) -> str:
        self.known[name] = name, c
        return f"const lanes_{'int64_t' if c == MASK else c} {name} = {vector};"


def summed(lanes: Lanes, found: re.Match[str]) -> tuple[str, str]:
    (a, b), c = lanes.alike(found["a"], found["b"])
    if c == MASK and found["op"] in "+-*/" or c in ("int8_t", "uint8_t", "int16_t", "uint16_t"):
        raise NoBand  # C computes with wider ones
    return f"{a} {found['op']} {b}", c


def compared(lanes: Lanes, found: re.Match[str]) -> tuple[str, str]:
    (a, b), _ = lanes.alike(found["a"], found["b"])
    return f"CONVERTED(int64_t, {a} {found['op']} {b})", MASK


def chosen(lanes: Lanes, found: re.Match[str]) -> tuple[str, str]:
    mask, (values, c) = lanes.operand(found["a"]), lanes.alike(found["b"], found["c"])
    x, op, y = lanes.comparisons.get(found["a"], ("", "", ""))
    if {found["b"], found["c"]} != {x, y} or op not in ("<", ">") or c not in ("int64_t", "double"):
        return choice(mask, values, c)
    name = "min" if (op == "<") == (found["b"] == x) else "max"
    return f"EXTREME_{c}({name}, {', '.join(values)})", c


def extreme(lanes: Lanes, found: re.Match[str]) -> tuple[str, str]:
    """np.maximum or np.minimum"""
    (a, b), c = lanes.alike(found["a"], found["b"])
    return choice((f"(({a} {found['op']} {b}) | ({a} != {a}))", MASK), (a, b), c)


def choice(mask: tuple[str, str], values: Sequence[str], c: str) -> tuple[str, str]:
    if mask[1] != MASK or c not in ("int64_t", "double"):
        raise NoBand
    return f"CHOSEN({c}, {', '.join([mask[0], *values])})", c


def negative(lanes: Lanes, found: re.Match[str]) -> tuple[str, str]:
    vector, c = lanes.operand(found["a"])
    if c != "double":
        raise NoBand
    return f"-{vector}", c


def size(lanes: Lanes, found: re.Match[str]) -> tuple[str, str]:
    vector, c = lanes.operand(found["a"])
    if c != "double":
        raise NoBand
    return f"SIZES_OF({vector})", c


def size_of_integer(lanes: Lanes, found: re.Match[str]) -> tuple[str, str]:
    (a, b, c), kind = lanes.alike(found["a"], found["b"], found["c"])
    return choice((f"({a} < 0)", MASK), (b, c), kind)


def itself(lanes: Lanes, found: re.Match[str]) -> tuple[str, str]:
    return lanes.operand(found["a"])


EXPRESSIONS: dict[str, Callable[[Lanes, re.Match[str]], tuple[str, str]]] = {
    A: itself,
    rf"{A} (?P<op>[-+*/&|^]) {B}": summed,
    rf"\(\w+\)\({A} (?P<op>[-+*]) {B}\)": summed,
    rf"NPC_ROUNDED\({A} (?P<op>\*) {B}\)": summed,
    rf"{A} {COMPARED} {B}": compared,
    rf"{A} \? {B} : {C}": chosen,
    rf"\({A} {COMPARED} {B} \|\| (?P=a) != (?P=a) \? (?P=a) : (?P=b)\)": extreme,
    rf"{A} < 0 \? {B} : {C}": size_of_integer,
    rf"-{A}": negative,
    rf"fabs\({A}\)": size,
}
COMPARISON = re.compile(rf"{A} {COMPARED} {B}")
FORMS = [(re.compile(text), form) for text, form in EXPRESSIONS.items()]
POSITIVE = re.compile(rf"signs \|= (?P<x>~?){A} & (?P<y>~?){B};")  # additions of numbers that are not negative
OVERFLOW = re.compile(rf"bad \|= __builtin_(?P<op>add|sub)_overflow_p\({A}, {B}, \(int64_t\)0\);")
FINITE = re.compile(r"\{ const double sum = (?P<sum>[\w +]+); bits_double \|= .*\}")


def vector_of(lanes: Lanes, text: str) -> tuple[str, str]:
    """(vector, type) of an expression. Raises NoBand if there is none."""
    for pattern, form in FORMS:
        if found := pattern.fullmatch(text):
            return form(lanes, found)
    raise NoBand


def noted(lanes: Lanes, text: str) -> str:
    """A line that notes something, for all rows: in sign bits, or in any bit."""
    if found := POSITIVE.fullmatch(text):
        (a, b), c = lanes.alike(found["a"], found["b"])
        if c != "int64_t":
            raise NoBand
        return f"signs |= {found['x']}{a} & {found['y']}{b};"
    if found := OVERFLOW.fullmatch(text):
        (a, b), c = lanes.alike(found["a"], found["b"])
        if c != "int64_t":
            raise NoBand
        sign, differs = ("+", "") if found["op"] == "add" else ("-", "~")
        return f"signs |= ({a} ^ ({a} {sign} {b})) & {differs}({b} ^ ({a} {sign} {b}));"
    if found := FINITE.fullmatch(text):
        return not_finite(" + ".join(lanes.alike(*found["sum"].split(" + "))[0]))
    raise NoBand


def not_finite(vector: str) -> str:
    return f"{{ const lanes_double sum = {vector}; bits |= (lanes_int64_t)(sum - sum); }}"


@dataclass(slots=True)
class LaneBand(Band):
    """A band whose rows are lanes."""

    rows: ClassVar[int] = LANES
    kind: ClassVar[str] = "lanes"
    helpers: ClassVar[str] = LANE_HELPERS + square_text(64, 8)
    condition: ClassVar[str] = "defined(__AVX512F__)"  # where a vector is a register

    once: list[str] = field(default_factory=list)  # before the steps
    step: list[str] = field(default_factory=list)  # that all rows take

    def gains(self) -> bool:
        stores = self.strip.stores
        is_once = all(map(self.strip.is_only_store, stores))
        return is_once and any(map(self.strip.stored_before, stores)) and all(s.kind in ("f8", "i8") for s in stores)

    def prepare(self) -> None:
        s, way = self.strip, self.way
        lanes = Lanes(s.code.outer())
        first = ", ".join(f"{self.outer.variable} + {row} * {self.outer.step}" for row in range(self.rows))
        if self.outer.variable:
            self.once.append(f"const lanes_int64_t rows = {{{first}}};")
            lanes.known[self.outer.variable] = "rows", "int64_t"
        loads = {load.line: load for load in s.loads.values()}
        stores = {store.line: (j, store) for j, store in enumerate(s.stores)}
        ahead = ", ".join(f"{self.ahead(row) * way.step}" for row in range(self.rows))
        for line, text in enumerate(self.lines):
            if line in loads:
                self.load(lanes, loads[line])
            elif line in stores:
                self.store(lanes, *stores[line])
            elif (found := DEFINITION.fullmatch(text)) and found[2] == way.place:
                place = f"OF_ALL(int64_t, {way.first} + i * {way.step}) + (lanes_int64_t){{{ahead}}}"
                self.step.append(lanes.define("int64_t", way.place, place))
            elif found:
                vector, c = vector_of(lanes, found[3])
                self.step.append(lanes.define(c, found[2], vector))
                if comparison := COMPARISON.fullmatch(found[3]):
                    lanes.comparisons[found[2]] = comparison["a"], comparison["op"], comparison["b"]
            elif text not in ("", "goto next;"):
                self.step.append(noted(lanes, text))
        self.step += [f"read{j} = {new.value};" for j, (_, new) in enumerate(s.read_before())]

    @property
    def by_rows(self) -> list[tuple[int, Store]]:
        return [(j, store) for j, store in enumerate(self.strip.stores) if self.is_by_rows(store)]

    def steps(self) -> list[str]:
        looked_at = [not_finite(text) for text in self.strip.last]
        rooms = [f"lanes_{C_OF_KIND[store.kind]} room{j}[{LANES}];" for j, store in self.by_rows]
        return [
            "lanes_int64_t signs = {}, bits = {};",
            *rooms,
            *self.once,
            "int64_t i = 0;",
            f"for (; i < count - {self.ahead(0)}; ++i) {{",
            *self.step,
            *self.turned(),
            "}",
            *self.left(),
            *looked_at,
            "bits |= signs < 0;",
            f"for (int r = 0; r < {self.rows}; ++r) if (UNLIKELY(bits[r])) goto undo;" if self.strip.may_fail else "",
        ]

    # --- elements

    def load(self, lanes: Lanes, load: Load) -> None:
        vector = self.loaded(load)
        self.step.append(lanes.define(C_OF_KIND[load.kind], load.value, vector))

    def loaded(self, load: Load) -> str:
        """The vector of what each row reads."""
        s, c = self.strip, C_OF_KIND[load.kind]
        if load.kind == "b1":
            raise NoBand
        first = self.element(load, "0", f"(i + {self.ahead(0)})")
        for j, store in enumerate(s.stores):
            if load in s.stored_before(store):
                return self.carried(f"before{j}", load)
        for j, (old, _) in enumerate(s.read_before()):
            if load is old:
                return self.carried(f"read{j}", load)
        if load.value in self.handed_on():
            return f"BEHIND({c}, before{self.handed_on()[load.value]}, {first})"
        groups = [place.group for place in load.places]
        if any(load.array is store.array for store in s.stores):
            raise NoBand
        if not any(group.moves for group in groups):
            self.once.append(f"const lanes_{c} all_{load.value} = {self.each(load, 0)};")
            return f"all_{load.value}"
        if any(map(self.outer.moves, groups)) or self.lag != 1:
            raise NoBand  # gathered from as many rows
        # Each row reads what the row before has read in the step before.
        self.once.append(f"lanes_{c} next_{load.value} = {self.each(load, -1)};")
        return f"next_{load.value} = BEHIND({c}, next_{load.value}, {first})"

    def carried(self, name: str, load: Load) -> str:
        line = f"lanes_{C_OF_KIND[load.kind]} {name} = {self.each(load, 0)};"
        if line not in self.once and not any(each.split(" = ")[0] == line.split(" = ")[0] for each in self.once):
            self.once.append(line)
        return name

    def each(self, access: Load, later: int) -> str:
        """What the rows read in the first step, or so many steps later. Rows that would read before all others: nothing."""
        elements = [self.element(access, str(row), str(self.ahead(row) + later)) for row in range(self.rows)]
        if later < 0:
            elements[-1] = "0"  # the last row begins at its first iteration
        return f"{{{', '.join(elements)}}}"

    # --- stores

    def store(self, lanes: Lanes, j: int, store: Store) -> None:
        vector, _ = lanes.operand(store.value)
        self.step.append(f"const lanes_{C_OF_KIND[store.kind]} new{j} = {vector};")
        if self.is_by_rows(store):
            self.step.append(f"room{j}[i & {LANES - 1}] = new{j};")
        else:
            self.step += [f"{self.element(store, str(r), f'(i + {self.ahead(r)})')} = new{j}[{r}];" for r in range(self.rows)]
        if self.strip.stored_before(store):
            self.step.append(f"before{j} = new{j};")

    def is_by_rows(self, store: Store) -> bool:
        """Do rows store elements that lie side by side? Those of some steps are turned over, and stored as vectors."""
        moves = [place.group.moves for place in store.places or ()]
        return store.array.is_contiguous and moves[-1] == 1 and not any(moves[:-1])

    def turned(self) -> list[str]:
        """Lines that store, at the end of a step."""
        lines = []
        for j, store in self.by_rows:
            first, second = (f"(char*)&{self.element(store, str(r), f'(i - {LANES - 1} + {self.ahead(r)})')}" for r in (0, 1))
            call = f"npc_square64_8({first}, {second} - {first}, (const char*)room{j}, sizeof *room{j});"
            lines.append(f"if ((i & {LANES - 1}) == {LANES - 1}) {call}")
        return lines

    def left(self) -> list[str]:
        """Lines that store what the last steps have left."""
        last = f"(i & {LANES - 1})"
        at = f"(i - {last} + k + ({self.rows - 1} - r) * {self.lag})"
        stores = [f"{self.element(store, 'r', at)} = room{j}[k][r];" for j, store in self.by_rows]
        return [f"for (int k = 0; k < {last}; ++k) for (int r = 0; r < {self.rows}; ++r) {{ {' '.join(stores)} }}"] * bool(stores)
