"""Several rows of a nest of loops at a time, each some iterations behind the row before it.

Where an element is computed from the one before it in its row, each iteration waits for the last one. Rows that need no more
of the row before them than it has computed by then wait for each other no more: their chains run side by side. How far a row
has to keep behind follows from the distances between the elements that iterations read and store.

A band is a strip of whole rows: what it overwrites is kept before, and put back where a test says that something fails. Then
the rows run as strips do, one after another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from npcompile.backends.cpu.elements import C_OF_KIND
from npcompile.backends.cpu.loops.speculation import WORD, Strip, Way, c_of, size_of
from npcompile.backends.cpu.loops.strip_elements import Load, Outer, Store
from npcompile.backends.cpu.loops.strip_functions import LONGEST_PAUSE
from npcompile.backends.native_profiling import first_told, like, with_directives

ROWS = 4  # of a band: more chains than these are no longer what takes the time
FEWEST = 16  # steps in which all rows take part that are worth it
FARTHEST = 4  # iterations that a row may keep behind
KEPT = 8192  # elements that a band stores


CARRIED = re.compile(r"(before|read)\d+")  # C variables for what the iteration before has stored or read


class NoBand(Exception):
    """Rows may need each other in another order, or gain nothing."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How many rows and iterations later than one access another is at the same element. None: however many rows."""

    rows: int | None
    iterations: int


@dataclass(slots=True)
class Band:
    """The C of a band of rows: those of `strip`, whose body is `lines`."""

    rows: ClassVar[int] = ROWS
    kind: ClassVar[str] = "band"  # last part of the function's name
    helpers: ClassVar[str] = ""  # C that it needs
    condition: ClassVar[str] = ""  # what the C compiler has to define

    strip: Strip
    outer: Outer
    lines: list[str]
    lag: int = 0  # iterations that a row keeps behind the one before it

    def __post_init__(self) -> None:
        s = self.strip
        is_plain = s.is_chain and s.is_straight and s.is_regular and not (s.gives_up or s.ways_out or s.assigned or s.comes_round)
        if not is_plain or len(s.ways) != 1 or not s.ways[0].is_range or any(x.stays for x in s.stores):
            raise NoBand
        if not self.gains() or s.scattered.intersection(x.array.name for x in s.stores):
            raise NoBand
        self.lag = max([0, *self.lags()])
        if self.lag > FARTHEST:
            raise NoBand
        self.prepare()
        s.finish(self.lines, keeps=False)

    def gains(self) -> bool:
        """Do rows wait for their chains? Those of integers are as short as what stands beside them."""
        return any(x.kind[0] == "f" and self.strip.stored_before(x) for x in self.strip.stores)

    def prepare(self) -> None:
        """What is made of the lines as they are before stores are written in them."""

    @property
    def name(self) -> str:
        return f"{self.strip.name}_{self.kind}"

    @property
    def way(self) -> Way:
        return self.strip.ways[0]

    # --- what rows need of each other

    def distance(self, first: Load | Store, second: Load | Store) -> Distance | None:
        """None: the accesses have no element in common."""
        rows: set[int] = set()
        iterations: set[int] = set()
        for one, other in zip(first.places or (), second.places or ()):
            group = one.group
            if group is not other.group or group.moves and self.outer.moves(group):
                raise NoBand
            apart, by = one.constant - other.constant, group.moves or self.outer.moves(group)
            if apart % by if by else apart:
                return None
            if by:
                (iterations if group.moves else rows).add(apart // by)
        if len(rows) > 1 or len(iterations) > 1:
            return None
        if not iterations:
            raise NoBand
        return Distance(rows.pop() if rows else None, iterations.pop())

    def lags(self) -> Iterator[int]:
        """What a row has to keep behind so that its iterations come after those of earlier rows at the same element."""
        accesses: list[Load | Store] = [*self.strip.loads.values(), *self.strip.stores]
        for first, second in product(accesses, accesses):
            if first.array is not second.array or isinstance(first, Load) and isinstance(second, Load):
                continue
            found = self.distance(first, second)
            rows = 0 if found is None else 1 if found.rows is None else found.rows
            if found is not None and 0 < rows < self.rows:
                yield -((found.iterations - 1) // rows)

    def handed_on(self) -> dict[str, int]:
        """Loads of what the row before has stored in the step before -> which store that was."""
        s = self.strip
        known = {x.value for store in s.stores for x in s.stored_before(store)} | {old.value for old, _ in s.read_before()}
        return {
            load.value: j
            for load, (j, store) in product(s.loads.values(), enumerate(s.stores))
            if load.array is store.array and load.value not in known and s.stored_before(store)
            if self.distance(store, load) == Distance(1, 1 - self.lag)
        }

    # --- the function

    def function(self) -> tuple[str, dict[str, str]]:
        """(the C function, its parameters and their types): it returns 0, or 1 where all is as it was."""
        if self.lag:
            # Before all rows can take part in a step, and after the last such step.
            lines = [
                "for (int side = 0; side < 2; ++side) {",
                *("if (side) {", *self.steps(), "}"),
                f"for (int64_t r = side; r < {self.rows - 1} + side; ++r) {{",
                f"int64_t i = side ? count - r * {self.lag} : 0;",
                f"const int64_t end = side ? count : ({self.rows - 1} - r) * {self.lag};",
                *self.begun("r", "i", ""),
                *("for (; i < end; ++i) {", *self.body("r", "i", ""), "}"),
                *self.finished(""),
                *("}", "}"),
            ]
        else:
            lines = self.steps()
        lines = [*self.tests(), *self.kept(), *lines, "return 0;"]
        if self.strip.may_fail:
            lines += ["undo:;", *self.put_back(), "return 1;"]
        given = self.strip.parameters(lines)
        head = f"BAND int {self.name}({', '.join(f'{c} {name}' for name, c in given.items())}) {{"
        return "\n".join(with_directives([like(first_told(self.lines), head), *lines, "}"])), given

    def tests(self) -> list[str]:
        """Conditions under which the band cannot be run."""
        lines = [f"const int64_t count = {self.way.count};"]
        lines += [f"if ({test}) return 1;" for test in self.strip.tests()]
        for g in self.strip.groups.values():
            lines.append(f"const int64_t {g.name}_at = {self.strip.beginning(g)}, {g.name}_from = 0;")
            by_row = self.outer.moves(g) * (self.rows - 1)
            low = f"{g.name}_at + INT64_C({g.low + min(by_row, 0)}) + {min(g.moves, 0)} * (count - 1)"
            high = f"{g.name}_at + INT64_C({g.high + max(by_row, 0)}) + {max(g.moves, 0)} * (count - 1)"
            lines.append(f"if ({low} < 0 || {high} >= {g.size}) return 1;")
        return lines

    def steps(self) -> list[str]:
        """In each, all rows take part, the last first: what the others have stored before is still in registers."""
        lines = [line for row in range(self.rows) for line in self.begun(str(row), str(self.ahead(row)), f"_{row}")]
        lines.append(f"for (int64_t i = 0; i < count - {self.ahead(0)}; ++i) {{")
        for row in reversed(range(self.rows)):
            lines += ["{", *self.body(str(row), f"(i + {self.ahead(row)})", f"_{row}", f"_{row - 1}" if row else None), "}"]
        return [*lines, "}", *(line for row in range(self.rows) for line in self.finished(f"_{row}"))]

    def ahead(self, row: int) -> int:
        """Iterations that a row is ahead of the last."""
        return (self.rows - 1 - row) * self.lag

    def body(self, row: str, iteration: str, suffix: str, above: str | None = None) -> list[str]:
        """An iteration of a row. Variables that are carried have the suffix, those of the row before it `above`."""
        lines = self.lines.copy()
        for value, j in self.handed_on().items() if above is not None else ():
            load = self.strip.loads[value]
            lines[load.line] = f"const {C_OF_KIND[load.kind]} {value} = above{j};"
        texts = {"k": iteration, self.outer.variable: f"({self.outer.variable} + {row} * {self.outer.step})"}
        texts |= {f"above{j}": f"before{j}{above}" for j in range(len(self.strip.stores))}

        def text(word: re.Match[str]) -> str:
            return word[0] + suffix if CARRIED.fullmatch(word[0]) else texts.get(word[0], word[0])

        return [like(line, WORD.sub(text, line)) for line in lines if line not in ("", "goto next;")]

    def begun(self, row: str, iteration: str, suffix: str) -> list[str]:
        """What is carried to an iteration."""
        s = self.strip
        carried = [(f"before{j}", x) for j, store in enumerate(s.stores) for x in s.stored_before(store)[:1]]
        carried += [(f"read{j}", old) for j, (old, _) in enumerate(s.read_before())]
        return [f"{C_OF_KIND[x.kind]} {name}{suffix} = {self.element(x, row, iteration)};" for name, x in carried]

    def finished(self, suffix: str) -> list[str]:
        """What is looked at after the last iteration."""
        last = self.strip.last.items()
        return [f"if (UNLIKELY(!npc_is_finite_{c_of(kind)}({text}{suffix}))) goto undo;" for text, kind in last]

    def element(self, access: Load | Store, row: str, iteration: str) -> str:
        places = [
            f"({g.name}_at + INT64_C({place.constant}) + {iteration} * {g.moves} + {row} * {self.outer.moves(g)})"
            for place in access.places or ()
            for g in (place.group,)
        ]
        return access.array.at(places)

    # --- what is overwritten

    def kept(self) -> list[str]:
        if not self.strip.may_fail:
            return []
        stores = list(enumerate(self.strip.stores))
        lines = [f"{C_OF_KIND[s.kind]} old{j}[{self.most * self.rows}];" for j, s in stores]
        return lines + self.all_rows([self.copied(s, f"old{j}", is_back=False) for j, s in stores])

    def put_back(self) -> list[str]:
        return self.all_rows([self.copied(s, f"old{j}", is_back=True) for j, s in enumerate(self.strip.stores)])

    def all_rows(self, lines: list[str]) -> list[str]:
        return [f"for (int64_t r = 0; r < {self.rows}; ++r) {{", *lines, "}"]

    def copied(self, store: Store, old: str, is_back: bool) -> str:
        """Copy what the row r stores, or back."""
        moves = [place.group.moves for place in store.places or ()]
        if store.array.is_contiguous and moves[-1] == 1 and not any(moves[:-1]):
            sides = (f"&{self.element(store, 'r', '0')}", f"{old} + r * count")
            to, source = sides if is_back else sides[::-1]
            return f"__builtin_memcpy({to}, {source}, count * {size_of(store.kind)});"
        sides = (self.element(store, "r", "i"), f"{old}[r * count + i]")
        to, source = sides if is_back else sides[::-1]
        return f"for (int64_t i = 0; i < count; ++i) {to} = {source};"

    @property
    def most(self) -> int:
        """Iterations of a row whose elements are kept."""
        return KEPT // (self.rows * len(self.strip.stores))

    # --- the call

    def call(self, parameters: dict[str, str], header: str, are_apart: Sequence[str]) -> list[str]:
        """Lines that run a band and go on, from the label of the loop's header to the strip."""
        n, way, outer = self.name, self.way, self.outer
        sign = "<" if outer.step > 0 else ">"
        begins = [f"{way.first} == {outer.start}", f"{outer.next} + {(self.rows - 2) * outer.step} {sign} {outer.stop}"]
        done = [f"{way.first} += count * {way.step};", f"{outer.next} += {(self.rows - 1) * outer.step};"]
        if outer.variable:
            done.append(f"{outer.variable} = {outer.next} - {outer.step};")
        return [
            f"if ({' && '.join([*begins, *are_apart])}) {{",
            f"const int64_t count = {way.count};",
            f"if (UNLIKELY({n}_pause)) --{n}_pause;",
            f"else if (count >= {FEWEST + self.ahead(0)} && count <= {self.most}) {{",
            f"if (!{n}({', '.join(parameters)})) {{",
            f"{n}_waits = 0; fuel -= {self.rows} * count; {' '.join(done)} goto {header};",
            "}",
            f"{n}_pause = {n}_waits;",
            f"if ({n}_waits < {LONGEST_PAUSE}) {n}_waits += {n}_waits + 1;",
            *("}", "}"),
        ]

    def declarations(self) -> list[str]:
        return [f"int64_t {self.name}_pause = 0, {self.name}_waits = 0;"]
