"""Iterations of a loop without inner loops that run first and are checked afterwards.

Indices that are sums of the loop's variable are within bounds for so many iterations as is computed before the first of them.
All else that C may not do exactly (an overflow, an error of floating-point numbers, an index that is data) is only noted,
without a jump, so that C compilers see a plain loop. If something was noted the strip is undone: what it stored is put back,
variables are as they were, and the same iterations run as the program does without strips, which stops before what fails.

An index that is not within bounds reads or writes the first element instead; a divisor that is 0 is 1. A number that is not
finite makes each sum, difference and product of it not finite, so only results at the end of such chains are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from npcompile.backends.cpu.elements import C_OF_KIND, INTEGER, ArrayInput
from npcompile.backends.cpu.integers import SMALL, Integer

LENGTH = 1024  # iterations of a strip times elements that each stores
LONGEST = 4096  # of one that stores nothing
FEWEST = 4  # that are worth a call
LONGEST_PAUSE = 1 << 16  # iterations between attempts, after strips that were in vain

WORD = re.compile(r"[A-Za-z_]\w*")

STRIP_HELPERS = r"""
/* A function of its own, for its registers. Of straight code vectors make chains longer. */
#if defined(__GNUC__) && !defined(__clang__)
#define STRIP static __attribute__((noinline, optimize("no-tree-slp-vectorize")))
#define BRIEF __attribute__((optimize("O1")))
#else
#define STRIP static __attribute__((noinline))
#define BRIEF
#endif
enum { VAIN = 1, UNDONE, FIRST_WAY_OUT };
/* Twice the bits of a number's size: the larger, the larger, and LIMIT or more if it is not finite. */
static inline uint64_t npc_bits_double(double x) {
  uint64_t u;
  __builtin_memcpy(&u, &x, 8);
  return u << 1;
}
static inline uint32_t npc_bits_float(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return u << 1;
}
#define NPC_LIMIT_double 0xffe0000000000000u
#define NPC_LIMIT_float 0xff000000u
#define NPC_LARGER(a, b) ((a) > (b) ? (a) : (b))
"""


class Code(Protocol):
    """The program that the strip is part of."""

    lines: list[str]
    variables: dict[str, str]

    def line(self, text: str) -> None: ...
    def new(self, kind: str, text: str) -> str: ...
    def integer(self, text: str) -> Integer: ...
    def outer(self) -> dict[str, str]: ...


@dataclass(slots=True)
class Group:
    """Indices of an axis that differ by constants: `low` to `high` are added to the value of `terms`."""

    name: str  # of C variables: {name}_at is the value of the terms in the first iteration, {name}_from what is added to all
    size: str
    terms: tuple[tuple[str, int], ...]
    moves: int  # from one iteration to the next
    low: int
    high: int

    @property
    def may_count_from_the_end(self) -> bool:
        return self.moves <= 0 if self.terms else self.low < 0


@dataclass(slots=True)
class Store:
    """Where the program stores: the element, and the same as each iteration of the strip has it, if that is known."""

    line: int
    element: str
    kind: str
    value: str
    array: ArrayInput
    places: list[str] | None

    def iteration(self, k: str) -> list[str]:
        """The position in an iteration of the strip."""
        assert self.places is not None
        return [place.format(k=k) for place in self.places]

    @property
    def first(self) -> str:
        return self.array.at(self.iteration("0"))

    @property
    def stays(self) -> bool:
        """Is it the same element in all iterations? It is kept once."""
        return self.places is not None and not any("{k}" in place for place in self.places)


@dataclass(slots=True)
class Way:
    """A variable of the loop's own, which goes from `first` to `stop`. The loop ends when one of them has no more."""

    first: str
    stop: str
    step: int
    place: str = ""  # the C variable of the body

    @property
    def count(self) -> str:
        """Items left; the function is called if there are any."""
        distance = f"{self.stop} - {self.first}" if self.step > 0 else f"{self.first} - {self.stop}"
        by = abs(self.step)
        return distance if by == 1 else f"({distance} + {by - 1}) / {by}"

    @property
    def is_short(self) -> str:
        """Are so few left that the loop as it is does them?"""
        return f"{self.first} + {(FEWEST - 1) * self.step} {'>=' if self.step > 0 else '<='} {self.stop}"


@dataclass(slots=True)
class Strip:
    """The C of one strip while it is written."""

    name: str
    code: Code
    stays: frozenset[str]  # C variables that the loop does not set
    ways: list[Way] = field(default_factory=list)
    groups: dict[tuple[object, ...], Group] = field(default_factory=dict)
    small: dict[str, None] = field(default_factory=dict)  # variables that index sums are made of
    some: dict[str, None] = field(default_factory=dict)  # sizes that must not be 0
    stores: list[Store] = field(default_factory=list)
    assigned: dict[str, None] = field(default_factory=dict)
    unsettled: dict[str, str] = field(default_factory=dict)  # results that may not be finite -> kind
    is_straight: bool = True  # nothing was written yet that some iterations do not come to
    gives_up_early: bool = False
    copies: dict[str, str] = field(default_factory=dict)  # C variables of the body -> of the program, as they were read
    loaded: dict[str, tuple[str, list[str | None]]] = field(default_factory=dict)  # and elements: array, positions
    carried: dict[str, frozenset[str]] = field(default_factory=dict)  # result -> what it is not finite with
    last: dict[str, str] = field(default_factory=dict)  # what is looked at behind the strip: texts -> kind
    ways_out: int = 0  # where the body leaves the loop
    has_bits: set[str] = field(default_factory=set)

    # --- what the body notes

    def note(self, condition: str) -> int:
        """Undo the strip if the condition holds. The number of the line that says so."""
        self.code.line(f"bad |= {condition};")
        return len(self.code.lines) - 1

    def note_overflow(self, op: str, c: str, a: str, b: str, made: str, a_is_positive: bool, b_is_positive: bool) -> int:
        """Undo the strip if a sum, difference or product of integers overflows. Signs tell it where one of them is known."""
        if op == "add" and c[0] != "u" and (a_is_positive or b_is_positive):
            self.code.line(f"signs |= ~{a if b_is_positive else b} & {made};")
        elif op == "subtract" and c[0] != "u" and b_is_positive:
            self.code.line(f"signs |= {a} & ~{made};")
        else:
            return self.note(f"__builtin_{INTEGER[op]}_overflow_p({a}, {b}, ({c})0)")
        return len(self.code.lines) - 1

    def not_finite(self, value: str, kind: str, carried: Sequence[str] = ()) -> None:
        """Look at a result. It is not finite if one of `carried` is not."""
        for each in carried:
            self.unsettled.pop(each, None)
        self.unsettled[value] = kind
        self.carried[value] = frozenset(carried).union(*(self.carried.get(each, ()) for each in carried))

    def settle_sums(self, values: Sequence[tuple[str, str, str]]) -> None:
        """At the end of each iteration, which sets variables to values: (variable, value, kind).

        A variable or element that each iteration adds to what it was is looked at once, behind the last.
        """
        if not self.is_straight or self.gives_up_early:
            return
        for variable, value, _ in values:
            if value in self.unsettled and any(self.copies.get(x) == variable for x in self.carried[value]):
                self.last[variable] = self.unsettled.pop(value)
        for s in self.stores:
            is_only = sum(s.array.name == other.array.name for other in self.stores) == 1
            is_carried = any(self.loaded.get(x) == (s.array.name, s.places) for x in self.carried.get(s.value, ()))
            if s.stays and is_only and is_carried and s.value in self.unsettled:
                self.last[s.first] = self.unsettled.pop(s.value)

    def settle(self) -> None:
        """Before the program branches."""
        for c in ("double", "float"):
            values = [v for v, kind in self.unsettled.items() if c_of(kind) == c]
            if not values:
                continue
            self.has_bits.add(c)
            together = " + ".join(values)  # not finite if one of them is not
            self.code.line(f"{{ const {self.largest(c)} bits = npc_bits_{c}({together}); ")
            self.code.line(f"bits_{c} = NPC_LARGER(bits_{c}, bits); }}")
        self.unsettled.clear()

    def largest(self, c: str) -> str:
        return f"uint{64 if c == 'double' else 32}_t"

    def give_up(self) -> str:
        """The label to go to from an instruction that has no form, or none for these numbers."""
        self.gives_up_early |= self.is_straight
        return "undo"

    # --- elements

    def index(self, array: ArrayInput, axis: int, text: str) -> tuple[str, str | None]:
        """(the position on an axis, the same in the first iteration and with {k} iterations more if that is known)"""
        known, size = self.code.integer(text), f"{array.name}_n{axis}"
        if known.terms is not None:
            return self.known_index(array.name, size, known, text)
        if known.is_reduced and known.least >= 0:
            group = self.group((array.name, size, "reduced"), size, (), known.most)
            assert not group.moves
            return text, None
        self.some[size] = None
        fits = self.code.new("int", f"-(int64_t)((uint64_t){text} < (uint64_t){size})")
        self.code.line(f"fit &= {fits};")
        return self.code.new("int", f"{text} & {fits}"), None

    def known_index(self, array: str, size: str, known: Integer, text: str) -> tuple[str, str]:
        assert known.terms is not None
        for line in known.checks:
            self.code.lines[line] = ""
        self.small.update(dict.fromkeys(n for n, _ in known.terms))
        sign = None if known.terms else known.constant < 0
        group = self.group((array, size, known.terms, sign), size, known.terms, known.constant)
        begin = f" + {group.name}_from" if group.may_count_from_the_end else ""
        moved = f" + {{k}} * {group.moves}" if group.moves else ""
        return f"({text}{begin})", f"({group.name}_at + INT64_C({known.constant}){begin}{moved})"

    def group(self, key: tuple[object, ...], size: str, terms: tuple[tuple[str, int], ...], constant: int) -> Group:
        found = self.groups.get(key)
        if found is None:
            moves = sum(dict(terms).get(way.place, 0) * way.step for way in self.ways)
            found = self.groups[key] = Group(f"g{len(self.groups)}", size, terms, moves, constant, constant)
        found.low, found.high = min(found.low, constant), max(found.high, constant)
        return found

    def store(self, array: ArrayInput, element: str, places: list[str | None], value: str) -> None:
        known = None if None in places or not self.is_straight else [p for p in places if p is not None]
        self.code.line("")  # written when it is known whether all stores are like this
        self.stores.append(Store(len(self.code.lines) - 1, element, array.kind, value, array, known))

    # --- what stands around the body

    def function(self, body: list[str]) -> tuple[str, dict[str, str]]:
        """(the C function of the strip, its parameters and their types)

        It returns 0 at the end, VAIN, UNDONE, or FIRST_WAY_OUT and more where the loop is left. `body` ends each iteration at the
        label `next`. The result holds the variables that were set, and how many iterations were begun.
        """
        noted = self.noted
        kept = [f"out->{v} = {v};" for v in self.assigned]
        lines = [*self.locals(), f"count = {self.longest};"]
        lines += [f"if ({way.count} < count) count = {way.count};" for way in self.ways]
        lines += [f"if ({test}) return VAIN;" for test in self.tests()] + self.bounds()
        lines += [f"old{j} = {s.first};" for j, s in enumerate(self.stores) if self.is_regular and s.stays]
        lines += ["body:;", *body, "next:;", "if (++k < count) goto body;"]
        lines += [f"if (SELDOM({noted})) {{ --k; goto undo; }}", *kept, "out->count = count;", "return 0;"]
        for j in range(self.ways_out):
            lines += [f"out{j}:;", f"if (SELDOM({noted})) goto undo;", *kept, "out->count = k + 1;"]
            lines.append(f"return FIRST_WAY_OUT + {j};")
        lines += ["undo:;", "out->count = count;", *self.undo(), "return UNDONE;"]
        fields = "".join(f" {self.code.variables[v]} {v};" for v in self.assigned)
        given = self.parameters(lines)
        parameters = ", ".join(f"{c} {name}" for name, c in given.items())
        head = f"STRIP int {self.name}({self.name}_result* restrict out, {parameters}) {{"
        return "\n".join([f"typedef struct {{ int64_t count;{fields} }} {self.name}_result;", head, *lines, "}"]), given

    def parameters(self, lines: list[str]) -> dict[str, str]:
        """What the function is given: the variables, numbers, arrays and sizes that it names -> their types."""
        named = {word for line in lines for word in WORD.findall(line)}
        return {name: c for name, c in self.code.outer().items() if name in named}

    def call(self, parameters: dict[str, str], header: str, is_apart: bool) -> list[str]:
        """Lines that run a strip and go on, from the label of the loop's header to {name}_slow: the loop without strips."""
        n = self.name
        lines = [f"if (SELDOM({n}_pause)) {{ --{n}_pause; goto {n}_slow; }}"]
        lines += [f"if ({way.is_short}) goto {n}_slow;" for way in self.ways]
        if is_apart:
            lines.append(f"if (SELDOM(!apart)) goto {n}_slow;")
        lines.append(f"{n}_status = {n}({', '.join([f'&{n}_found', *parameters])});")
        lines += [f"if (SELDOM({n}_status == VAIN || {n}_status == UNDONE)) {{"]
        lines += [f"{n}_pause = {n}_waits + ({n}_status == UNDONE ? {n}_found.count : 0);"]
        lines += [f"if ({n}_waits < {LONGEST_PAUSE}) {n}_waits += {n}_pause + 1;", f"goto {n}_slow;", "}"]
        lines += [f"{n}_waits = 0;", f"fuel -= {n}_found.count;", *(f"{v} = {n}_found.{v};" for v in self.assigned)]
        lines += [f"{way.first} += {n}_found.count * {way.step};" for way in self.ways]
        lines += [f"if ({n}_status == FIRST_WAY_OUT + {j}) goto {n}_out{j};" for j in range(self.ways_out)]
        return [*lines, f"goto {header};"]

    def declarations(self) -> list[str]:
        n = self.name
        return [f"int64_t {n}_pause = 0, {n}_waits = 0;", f"int {n}_status = 0;", f"{n}_result {n}_found;"]

    @property
    def noted(self) -> str:
        last = [f"npc_bits_{c}({text}) >= NPC_LIMIT_{c}" for text, kind in self.last.items() for c in [c_of(kind)]]
        return " || ".join(["bad", "!fit", "signs < 0", *(f"bits_{c} >= NPC_LIMIT_{c}" for c in sorted(self.has_bits)), *last])

    @property
    def longest(self) -> int:
        return max(LENGTH // len(self.stores), 1) if self.stores else LONGEST

    @property
    def is_regular(self) -> bool:
        """Is it known of every iteration where it stores?"""
        return not self.gives_up_early and all(s.places is not None for s in self.stores)

    def tests(self) -> list[str]:
        """Conditions under which the strip cannot be run."""
        first = {way.place: way.first for way in self.ways}  # the others are not far
        texts = [first.get(v, v) for v in self.small]
        tests = [f"(uint64_t){t} + {SMALL} > {2 * SMALL}" for t in texts if not t.startswith("INT64_C")]
        return [f"!({size})" for size in self.some] + tests

    def bounds(self) -> list[str]:
        """Lines that shorten the strip to the iterations whose indices are known to be within bounds."""
        lines = []
        first = {way.place: way.first for way in self.ways}
        for g in self.groups.values():
            at = " + ".join([f"{f} * {first.get(t, t)}" for t, f in g.terms if f] or ["0"])
            lines.append(f"{g.name}_at = {at};")
            low, high = f"{g.name}_at + INT64_C({g.low})", f"{g.name}_at + INT64_C({g.high})"
            if g.may_count_from_the_end:
                lines.append(f"{g.name}_from = {high} < 0 ? {g.size} : 0;")
                low, high = f"{low} + {g.name}_from", f"{high} + {g.name}_from"
            lines.append(f"if ({low} < 0 || {high} >= {g.size}) return VAIN;")
            if g.moves:
                rest = f"{g.size} - 1 - ({high})" if g.moves > 0 else low
                by = "" if abs(g.moves) == 1 else f" / {abs(g.moves)}"
                lines.append(f"if (({rest}){by} < count) count = ({rest}){by} + 1;")
        return lines

    def undo(self) -> list[str]:
        """Lines that put back what was stored, the last first."""
        if not self.is_regular:
            sizes = {size_of(s.kind) for s in self.stores}
            copy = "if (size[stored] == {0}) __builtin_memcpy(at[stored], &old[stored], {0});"
            return ["while (stored) {", "--stored;", *(copy.format(size) for size in sorted(sizes)), "}"]
        moving = [(j, s) for j, s in reversed(list(enumerate(self.stores))) if not s.stays]
        lines = [f"{s.array.at(s.iteration('k'))} = old{j}[k];" for j, s in moving]
        lines = ["for (; k >= 0; --k) {", *lines, "}"] if lines else []
        return lines + [f"{s.first} = old{j};" for j, s in enumerate(self.stores) if s.stays]

    def write_stores(self, lines: list[str]) -> None:
        """Write the statements that store, in `lines`: each keeps what was there."""
        for j, s in enumerate(self.stores):
            size = size_of(s.kind)
            kept = [f"at[stored] = (char*)&{s.element};", f"__builtin_memcpy(&old[stored], &{s.element}, {size});"]
            kept.append(f"size[stored++] = {size};")
            if self.is_regular:
                kept = [] if s.stays else [f"old{j}[k] = {s.element};"]
            lines[s.line] = " ".join([*kept, f"{s.element} = {s.value};"])

    def locals(self) -> list[str]:
        counts = ["count", "k", "bad", "signs", *["stored"] * (not self.is_regular)]
        counts += [f"{g.name}_{what}" for g in self.groups.values() for what in ("at", "from")]
        lines = [f"int64_t fit = -1, {', '.join(f'{c} = 0' for c in counts)};"]
        lines += [f"{self.largest(c)} bits_{c} = 0;" for c in sorted(self.has_bits)]
        if self.is_regular:
            stores = enumerate(self.stores)
            return lines + [f"{C_OF_KIND[s.kind]} old{j}{'' if s.stays else f'[{self.longest}]'};" for j, s in stores]
        length = self.longest * len(self.stores)
        return [*lines, f"char* at[{length}];", f"uint64_t old[{length}];", f"uint8_t size[{length}];"]


def c_of(kind: str) -> str:
    return "float" if kind == "f4" else "double"


def size_of(kind: str) -> int:
    return int(kind[1:])
