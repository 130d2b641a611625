"""Iterations of a loop without inner loops that run first and are checked afterwards.

Indices that are sums of the loop's variable are within bounds for so many iterations as is computed before the first of them.
All else that C may not do exactly (an overflow, an error of floating-point numbers, an index that is data) is only noted,
without a jump, so that C compilers see a plain loop. If something was noted the strip is undone: what it stored is put back,
variables are as they were, and the same iterations run as the program does without strips, which stops before what fails.

An index that is not within bounds reads or writes the first element instead; a divisor that is 0 is 1. A number that is not
finite makes each sum, difference and product of it not finite, so only results at the end of such chains are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from npcompile.backends.cpu.elements import C_OF_KIND, ArrayInput
from npcompile.backends.cpu.integers import SMALL, Integer

LENGTH = 256  # iterations of a strip that stores
LONGEST = 4096  # of one that stores nothing
LONGEST_PAUSE = 1 << 16  # iterations between attempts, after strips that were in vain

STRIP_HELPERS = r"""
/* The sign is set if a number is not finite. */
static inline uint64_t npc_bits_double(double x) {
  uint64_t u;
  __builtin_memcpy(&u, &x, 8);
  return (u & 0x7fffffffffffffffu) + 0x0010000000000000u;
}
static inline uint32_t npc_bits_float(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return (u & 0x7fffffffu) + 0x00800000u;
}
"""


class Code(Protocol):
    """The program that the strip is part of."""

    lines: list[str]
    variables: dict[str, str]

    def line(self, text: str) -> None: ...
    def new(self, kind: str, text: str) -> str: ...
    def integer(self, text: str) -> Integer: ...


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
        return self.moves <= 0 and bool(self.terms) or self.high < 0


@dataclass(slots=True)
class Store:
    """Where the program stores: the element, and the same as each iteration of the strip has it, if that is known."""

    line: int
    element: str
    kind: str
    value: str
    array: ArrayInput
    places: list[str] | None


@dataclass(slots=True)
class Strip:
    """The C of one strip while it is written. `place` is the loop's own variable, which goes from `first` in `step`s."""

    name: str
    code: Code
    stays: frozenset[str]  # C variables that the loop does not set
    place: str | None = None
    first: str = "0"
    stop: str = "0"
    step: int = 1
    groups: dict[tuple[object, ...], Group] = field(default_factory=dict)
    small: dict[str, None] = field(default_factory=dict)  # variables that index sums are made of
    some: dict[str, None] = field(default_factory=dict)  # sizes that must not be 0
    stores: list[Store] = field(default_factory=list)
    assigned: dict[str, None] = field(default_factory=dict)
    unsettled: dict[str, str] = field(default_factory=dict)  # results that may not be finite -> kind
    is_straight: bool = True  # nothing was written yet that some iterations do not come to
    gives_up_early: bool = False
    has_bits: set[str] = field(default_factory=set)

    # --- what the body notes

    def note(self, condition: str) -> int:
        """Undo the strip if the condition holds. The number of the line that says so."""
        self.code.line(f"{self.name}_bad |= {condition};")
        return len(self.code.lines) - 1

    def not_finite(self, value: str, kind: str, carried: Sequence[str] = ()) -> None:
        """Look at a result. It is not finite if one of `carried` is not."""
        for each in carried:
            self.unsettled.pop(each, None)
        self.unsettled[value] = kind

    def settle(self) -> None:
        """Before the program branches."""
        for value, kind in self.unsettled.items():
            c = "float" if kind == "f4" else "double"
            self.has_bits.add(c)
            self.code.line(f"{self.name}_{c} |= npc_bits_{c}({value});")
        self.unsettled.clear()

    def give_up(self) -> str:
        """The label to go to from an instruction that has no form, or none for these numbers."""
        self.gives_up_early |= self.is_straight
        return f"{self.name}_undo"

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
        self.note(f"(uint64_t){text} >= (uint64_t){size}")
        return self.code.new("int", f"(uint64_t){text} < (uint64_t){size} ? {text} : 0"), None

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
            moves = dict(terms).get(self.place or "", 0) * self.step
            found = self.groups[key] = Group(f"{self.name}_g{len(self.groups)}", size, terms, moves, constant, constant)
        found.low, found.high = min(found.low, constant), max(found.high, constant)
        return found

    def store(self, array: ArrayInput, element: str, places: list[str | None], value: str) -> None:
        known = None if None in places or not self.is_straight else [p for p in places if p is not None]
        self.code.line("")  # written when it is known whether all stores are like this
        self.stores.append(Store(len(self.code.lines) - 1, element, array.kind, value, array, known))

    # --- what stands around the body

    def around(self, body: list[str], ways_out: Sequence[str], advance: str | None, header: str) -> list[str]:
        """The strip, between the label of the loop's header and {name}_slow, where the loop without strips begins.

        `body` ends each iteration at {name}_next. `ways_out` are the lines where the program leaves the loop.
        `advance` sets the loop's iterator, for {count} items that were taken.
        """
        n, is_counted = self.name, self.place is not None
        lines = [f"if (SELDOM({n}_pause)) {{ --{n}_pause; goto {n}_slow; }}"]
        lines.append(f"{n}_count = {self.count() if is_counted else self.longest};")
        if is_counted:
            lines.append(f"if ({n}_count <= 0) goto {n}_slow;")
            lines.append(f"if ({n}_count > {self.longest}) {n}_count = {self.longest};")
        lines += [f"if ({test}) goto {n}_vain;" for test in self.tests()]
        lines += self.bounds()
        lines += [f"{n}_was_{v} = {v};" for v in self.assigned]
        lines += [f"{n}_bad = 0;", *(f"{n}_{c} = 0;" for c in sorted(self.has_bits)), f"{n}_k = 0;"]
        if not self.is_regular:
            lines.append(f"{n}_stored = 0;")
        noted = " || ".join([f"{n}_bad", *(f"{n}_{c} >> {63 if c == 'double' else 31}" for c in sorted(self.has_bits))])
        lines += [f"{n}_body:;", *body, f"{n}_next:;"]
        lines += [f"if (++{n}_k < {n}_count) goto {n}_body;", f"if (SELDOM({noted})) {{ --{n}_k; goto {n}_undo; }}"]
        if advance:
            lines.append(advance.format(count=f"{n}_count"))
        lines += [f"fuel -= {n}_count;", f"{n}_waits = 0;", f"goto {header};"]
        for line in ways_out:
            lines.append(line.replace("{noted}", noted))
        lines += [f"{n}_undo:;", *self.undo(), *(f"{v} = {n}_was_{v};" for v in self.assigned)]
        lines += [f"{n}_pause = {n}_count;", f"{n}_vain:;", f"{n}_pause += {n}_waits;"]
        lines += [f"if ({n}_waits < {LONGEST_PAUSE}) {n}_waits += {n}_pause + 1;", f"goto {n}_slow;"]
        return lines

    @property
    def longest(self) -> int:
        return LENGTH if self.stores else LONGEST

    @property
    def is_regular(self) -> bool:
        """Is it known of every iteration where it stores?"""
        return not self.gives_up_early and all(s.places is not None for s in self.stores)

    def count(self) -> str:
        """Items left, if there are any."""
        distance = f"{self.stop} - {self.first}" if self.step > 0 else f"{self.first} - {self.stop}"
        by = abs(self.step)
        return distance if by == 1 else f"({distance} + {by - 1}) / {by}"

    def tests(self) -> list[str]:
        """Conditions under which the strip cannot be run."""
        texts = [self.first, self.stop] if self.place in self.small else []
        texts += [v for v in self.small if v != self.place]
        tests = [f"(uint64_t){t} + {SMALL} > {2 * SMALL}" for t in texts if not t.startswith("INT64_C")]
        return [f"!({size})" for size in self.some] + tests

    def bounds(self) -> list[str]:
        """Lines that shorten the strip to the iterations whose indices are known to be within bounds."""
        lines, n = [], self.name
        for g in self.groups.values():
            at = " + ".join([f"{f} * {self.first if t == self.place else t}" for t, f in g.terms if f] or ["0"])
            lines.append(f"{g.name}_at = {at};")
            low, high = f"{g.name}_at + INT64_C({g.low})", f"{g.name}_at + INT64_C({g.high})"
            if g.may_count_from_the_end:
                lines.append(f"{g.name}_from = {high} < 0 ? {g.size} : 0;")
                low, high = f"{low} + {g.name}_from", f"{high} + {g.name}_from"
            lines.append(f"if ({low} < 0 || {high} >= {g.size}) goto {n}_vain;")
            if g.moves:
                rest = f"{g.size} - 1 - ({high})" if g.moves > 0 else low
                by = "" if abs(g.moves) == 1 else f" / {abs(g.moves)}"
                lines.append(f"if (({rest}){by} < {n}_count) {n}_count = ({rest}){by} + 1;")
        return lines

    def undo(self) -> list[str]:
        """Lines that put back what was stored, the last first."""
        n = self.name
        if not self.stores:
            return []
        if not self.is_regular:
            at = f"{n}_at[{n}_stored], &{n}_old[{n}_stored]"
            sizes = {size_of(s.kind) for s in self.stores}
            copies = [f"if ({n}_size[{n}_stored] == {size}) __builtin_memcpy({at}, {size});" for size in sorted(sizes)]
            if len(sizes) == 1:
                copies = [f"__builtin_memcpy({at}, {sizes.pop()});"]
            return [f"while ({n}_stored) {{", f"--{n}_stored;", *copies, "}"]
        lines = [f"for (; {n}_k >= 0; --{n}_k) {{"]
        for j, s in reversed(list(enumerate(self.stores))):
            assert s.places is not None
            lines.append(f"{s.array.at([p.format(k=f'{n}_k') for p in s.places])} = {n}_old{j}[{n}_k];")
        return [*lines, "}"]

    def write_stores(self, lines: list[str]) -> None:
        """Write the statements that store, in `lines`: each keeps what was there."""
        n, sizes = self.name, {size_of(s.kind) for s in self.stores}
        for j, s in enumerate(self.stores):
            if self.is_regular:
                kept = f"{n}_old{j}[{n}_k] = {s.element};"
            else:
                size = f" {n}_size[{n}_stored] = {size_of(s.kind)};" if len(sizes) > 1 else ""
                kept = f"{n}_at[{n}_stored] = (char*)&{s.element}; __builtin_memcpy(&{n}_old[{n}_stored], &{s.element},"
                kept += f" {size_of(s.kind)});{size} ++{n}_stored;"
            lines[s.line] = f"{kept} {s.element} = {s.value};"

    def declarations(self) -> list[str]:
        n = self.name
        counts = [f"{n}_{what}" for what in ("count", "pause", "waits", "k", "bad", "stored")]
        counts += [f"{g.name}_{what}" for g in self.groups.values() for what in ("at", "from")]
        lines = [f"int64_t {', '.join(f'{c} = 0' for c in counts)};"]
        lines += [f"uint{64 if c == 'double' else 32}_t {n}_{c} = 0;" for c in sorted(self.has_bits)]
        lines += [f"{self.code.variables[v]} {n}_was_{v} = 0;" for v in self.assigned]
        if self.is_regular:
            return lines + [f"{C_OF_KIND[s.kind]} {n}_old{j}[{LENGTH}];" for j, s in enumerate(self.stores)]
        length = LENGTH * len(self.stores)
        return [*lines, f"char* {n}_at[{length}];", f"uint64_t {n}_old[{length}];", f"uint8_t {n}_size[{length}];"]


def size_of(kind: str) -> int:
    return int(kind[1:])
