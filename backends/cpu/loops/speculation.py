"""Iterations of a loop without inner loops that run first and are checked afterwards.

Indices that are sums of the loop's variable are within bounds for so many iterations as is computed before the first of them.
All else that C may not do exactly (an overflow, an error of floating-point numbers, an index that is data) is only noted,
without a jump, so that C compilers see a plain loop. If something was noted the strip is undone: what it stored is put back,
variables are as they were, and the same iterations run as the program does without strips, which stops before what fails.

An index that is not within bounds reads or writes the first element instead; a divisor that is 0 is 1. A number that is not
finite makes each sum, difference and product of it not finite, so only results at the end of such chains are looked at.

Where an iteration needs what the one before it computed, compilers make no vectors, and what is noted would stand beside the one
chain that takes the time: there, tests jump to the end of the strip. Where all can stand before anything is stored, the strip
ends with the iteration before, and nothing has to be put back. An element that the iteration before has stored or read is not
read again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from npcompile.backends.cpu.elements import C_OF_KIND, INTEGER, ArrayInput
from npcompile.backends.cpu.loops.strip_elements import Group, Load, Outer, Place, Store
from npcompile.backends.cpu.loops.value_ranges import SMALL, Integer, constant, summed

LENGTH = 1024  # iterations of a strip times elements that each stores
LONGEST = 4096  # of one that stores nothing
LARGEST_INNER = 16  # factors of the variables of loops inside, and of the ends of these
FEW_INSIDE = 8  # iterations of such a loop that stores
ROOM = 1024  # what a strip with loops inside may store
LARGEST_ADDED = 1 << 40  # by an iteration to a variable that is tested before the strip

WORD = re.compile(r"[A-Za-z_]\w*")


class NoNest(Exception):
    """A loop that has others inside has no strip, or is not worth one."""


class Code(Protocol):
    """The program that the strip is part of."""

    lines: list[str]
    variables: dict[str, str]
    instruction: int  # of the bytecode that is being written

    def line(self, text: str) -> None: ...
    def new(self, kind: str, text: str) -> str: ...
    def integer(self, text: str) -> Integer: ...
    def outer(self) -> dict[str, str]: ...


@dataclass(slots=True)
class Way:
    """A variable of the loop's own, which goes from `first` to `stop`. The loop ends when one of them has no more."""

    first: str
    stop: str
    step: int
    is_range: bool = True  # else positions of an array's items
    place: str = ""  # the C variable of the body

    @property
    def count(self) -> str:
        """Items left; the function is called if there are any."""
        distance = f"{self.stop} - {self.first}" if self.step > 0 else f"{self.first} - {self.stop}"
        by = abs(self.step)
        return distance if by == 1 else f"({distance} + {by - 1}) / {by}"

    def has_fewer(self, count: int) -> str:
        """Are so few left that the loop as it is does them?"""
        return f"{self.first} + {(count - 1) * self.step} {'>=' if self.step > 0 else '<='} {self.stop}"


@dataclass(frozen=True, slots=True)
class Sum:
    """What a variable of the program was when the iteration began, and numbers of no more than `most` beside it."""

    variable: str
    most: int
    checks: tuple[int, ...] = ()  # lines that test additions for overflow


@dataclass(frozen=True, slots=True)
class Range:
    """Where the variable of a loop inside is: sums of what stays as it is."""

    least: Integer
    most: Integer

    @property
    def count(self) -> int:
        """Of items, where both ends are constants."""
        return self.most.constant - self.least.constant + 1


@dataclass(slots=True)
class Strip:
    """The C of one strip while it is written."""

    name: str
    code: Code
    stays: frozenset[str]  # C variables that the loop does not set
    ways: list[Way] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)  # C variables -> those of `stays` that hold the same
    groups: dict[tuple[object, ...], Group] = field(default_factory=dict)
    small: dict[str, None] = field(default_factory=dict)  # variables that index sums are made of
    some: dict[str, None] = field(default_factory=dict)  # sizes that must not be 0
    stores: list[Store] = field(default_factory=list)
    assigned: dict[str, set[str]] = field(default_factory=dict)  # variables of the program -> values
    sums: dict[str, Sum] = field(default_factory=dict)  # integers -> the variable that they are a sum of
    terms: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # -> what they were, sign, what was added
    counters: dict[str, None] = field(default_factory=dict)  # of the variables, those that become as large as can be told before
    unsettled: dict[str, str] = field(default_factory=dict)  # results that may not be finite -> kind
    is_straight: bool = True  # nothing was written yet that some iterations do not come to
    gives_up: bool = False  # at an instruction
    gives_up_early: bool = False
    copies: dict[str, str] = field(default_factory=dict)  # C variables of the body -> of the program, as they were read
    loads: dict[str, Load] = field(default_factory=dict)  # and elements
    scattered: set[str] = field(default_factory=set)  # arrays of which elements are read at places that are not known before
    carried: dict[str, frozenset[str]] = field(default_factory=dict)  # result -> what it is not finite with
    last: dict[str, str] = field(default_factory=dict)  # what is looked at after the strip: texts -> kind
    ways_out: int = 0  # where the body leaves the loop
    has_bits: set[str] = field(default_factory=set)
    comes_round: set[str] = field(default_factory=set)  # variables of the program that an iteration sets for the next
    jumps: dict[int, str] = field(default_factory=dict)  # lines as they are where tests jump
    checks: set[int] = field(default_factory=set)  # of these, the tests
    stores_anywhere: bool = False  # at places that are data
    reads: dict[str, int] = field(default_factory=dict)  # arrays -> the last line that reads an element
    end: int = -1  # the line at the end of an iteration, before variables are set
    outer: Outer | None = None  # the loop whose iterations run in one call, where they may
    inner: dict[int, frozenset[int]] = field(default_factory=dict)  # loops inside: headers -> instructions
    few: set[int] = field(default_factory=set)  # those that are known to have few iterations
    has_while: bool = False  # such that are not over ranges
    ranges: dict[str, Range | None] = field(default_factory=dict)  # of loops inside: C variables of their iterators
    ranges_of: dict[int, Range | None] = field(default_factory=dict)  # and their headers
    turning: list[int] = field(default_factory=list)  # lines that count their iterations

    # --- what the body notes

    def note(self, condition: str) -> int:
        """Undo the strip if the condition holds. The number of the line that says so."""
        return self.either(f"bad |= {condition};", f"if (UNLIKELY({condition})) goto undo;")

    def either(self, noting: str, jumping: str) -> int:
        """A line, and the same where tests jump. Its number."""
        self.code.line(noting)
        self.checks.add(len(self.code.lines) - 1)
        self.jumps[len(self.code.lines) - 1] = jumping
        return len(self.code.lines) - 1

    def note_overflow(self, op: str, c: str, a: str, b: str, made: str, a_is_positive: bool, b_is_positive: bool) -> int:
        """Undo the strip if a sum, difference or product of integers overflows, which the line before has made.

        Signs tell it where one of them is known.
        """
        jumping = f"if (UNLIKELY(__builtin_{INTEGER[op]}_overflow({a}, {b}, &{made}))) goto undo;"
        self.jumps[len(self.code.lines) - 1] = f"{c} {made};"
        if op == "add" and c[0] != "u" and (a_is_positive or b_is_positive):
            return self.either(f"signs |= ~{a if b_is_positive else b} & {made};", jumping)
        if op == "subtract" and c[0] != "u" and b_is_positive:
            return self.either(f"signs |= {a} & ~{made};", jumping)
        return self.either(f"bad |= __builtin_{INTEGER[op]}_overflow_p({a}, {b}, ({c})0);", jumping)

    def note_sum(self, op: str, a: str, b: str, made: str, x: Integer, y: Integer, *checks: int) -> None:
        """A sum or difference whose overflow these lines test; x and y are what is known of a and b."""
        if op == "add" and self.sum_of(a) is None:
            a, b, x, y = b, a, y, x
        found, most = self.sum_of(a), max(-y.least, y.most)
        if op in ("add", "subtract") and found is not None and found.most + most <= LARGEST_ADDED:
            self.sums[made] = Sum(found.variable, found.most + most, (*found.checks, *checks))
            self.terms[made] = a, "+" if op == "add" else "-", b

    def choice(self, condition: str, a: str, b: str) -> str:
        """a where the condition holds, else b. What is only added to b is chosen instead: vectors of such sums are quicker."""
        for made, other, term in ((a, b, "{} : 0"), (b, a, "0 : {}")):
            if made in self.terms and self.terms[made][0] == other:
                _, sign, added = self.terms[made]
                return f"{other} {sign} ({condition} ? {term.format(added)})"
        return f"{condition} ? {a} : {b}"

    def note_choice(self, a: str, b: str, made: str) -> None:
        """One of two sums of a variable and small numbers is such a sum."""
        one, other = self.sum_of(a), self.sum_of(b)
        if one is not None and other is not None and one.variable == other.variable:
            self.sums[made] = Sum(one.variable, max(one.most, other.most), (*one.checks, *other.checks))

    def sum_of(self, value: str) -> Sum | None:
        variable = self.copies.get(value)
        return self.sums.get(value) if variable is None else Sum(variable, 0)

    def finish_counters(self) -> None:
        """Variables to which iterations only add small numbers: they are tested once, before the strip."""
        for variable, values in self.assigned.items():
            found = [self.sum_of(value) for value in values]
            if all(each is not None and each.variable == variable for each in found):
                self.counters[variable] = None
                self.small[variable] = None
        for each in self.sums.values():
            if each.variable in self.counters:
                for line in each.checks:
                    self.forget(line)

    def forget(self, line: int) -> None:
        """An overflow that `note_overflow` tests in that line cannot happen."""
        self.code.lines[line] = ""
        self.checks.discard(line)
        self.jumps.pop(line, None)
        self.jumps.pop(line - 1, None)

    def not_finite(self, value: str, kind: str, carried: Sequence[str] = ()) -> None:
        """Look at a result. It is not finite if one of `carried` is not."""
        for each in carried:
            self.unsettled.pop(each, None)
        self.unsettled[value] = kind
        self.carried[value] = frozenset(carried).union(*(self.carried.get(each, ()) for each in carried))

    def is_not_finite_with(self, value: str, kind: str, other: str) -> None:
        """Look at a number instead of another, of which it is the size or the negative."""
        if other in self.unsettled:
            self.not_finite(value, kind, [other])

    def settle_sums(self, values: Sequence[tuple[str, str, str]]) -> None:
        """At the end of each iteration, which sets variables to values: (variable, value, kind).

        A variable or element that each iteration adds to what it was is looked at once, after the last.
        """
        self.comes_round |= {variable for variable, value, _ in values if variable != value}
        if not self.is_straight or self.gives_up_early:
            return
        sums = {}
        for variable, value, _ in values:
            if value in self.unsettled and any(self.copies.get(x) == variable for x in self.carried[value]):
                sums[value] = variable
        for j, s in enumerate(self.stores):
            if s.value not in self.unsettled or not self.is_only_store(s):
                continue
            read = [self.loads[x] for x in self.carried[s.value] if x in self.loads]
            if s.stays and any(x.array is s.array and x.places == s.places for x in read):
                sums[s.value] = s.iteration("0")
            elif any(x in read for x in self.stored_before(s)):
                sums[s.value] = f"before{j}"
        if self.may_stop and (self.jumps or len(sums) < len(self.unsettled)):
            return
        for value, text in sums.items():
            self.last[text] = self.unsettled.pop(value)

    def end_iteration(self) -> None:
        """Before variables are set for the next one."""
        self.code.line("")
        self.end = len(self.code.lines) - 1

    def is_only_store(self, store: Store) -> bool:
        return sum(store.array is other.array for other in self.stores) == 1

    def stored_before(self, store: Store) -> list[Load]:
        """Loads that read what the store has stored an iteration before."""
        if store.places is None or store.stays or not self.is_only_store(store):
            return []
        places = store.places
        return (
            []
            if self.is_nest
            else [x for x in self.loads_of(store) if all(new.follows(old) for new, old in zip(places, x.places))]
        )

    def loads_of(self, store: Store) -> list[Load]:
        """Of the same array, before the program stores there."""
        return [x for x in self.loads.values() if x.array is store.array and x.line < store.line]

    def read_before(self) -> list[tuple[Load, Load]]:
        """(a load, another that has read the same element an iteration before), where loads are not in vectors."""
        if not self.is_chain or not self.is_straight or self.end < 0:
            return []
        stored = [x for s in self.stores for x in self.stored_before(s)]
        found = []
        for old in self.loads.values():
            if any(old is x for x in stored) or any(s.array is old.array and not s.is_never_at(old) for s in self.stores):
                continue
            found += [(old, new) for new in self.loads.values() if new.follows(old)][:1]
        return found

    @property
    def is_nest(self) -> bool:
        return bool(self.inner)

    @property
    def is_chain(self) -> bool:
        """Does an iteration need what the one before it computed? Then tests jump."""
        if self.ways_out and self.is_regular and not all(s.stays for s in self.stores):
            return False  # what all iterations store is kept beforehand, and they may be few
        is_summed = any(s.stays and any(x.places == s.places for x in self.loads_of(s)) for s in self.stores)
        carried = self.comes_round - self.counters.keys()
        return is_summed or not carried.isdisjoint(self.copies.values()) or any(map(self.stored_before, self.stores))

    def settle(self) -> None:
        """Before the program branches."""
        if self.is_nest and any(kind[0] == "c" for kind in self.unsettled.values()):
            raise NoNest  # complex numbers are looked at themselves
        if self.is_nest:  # the processor's flags tell it
            self.code.lines += [f"COMPUTED({value});" for value in self.unsettled]
            self.unsettled.clear()
        for c in ("double", "float"):
            values = [v for v, kind in self.unsettled.items() if c_of(kind) == c]
            if not values:
                continue
            self.has_bits.add(c)
            together = " + ".join(values)  # not finite if one of them is not
            jumping = f"if (UNLIKELY(!npc_is_finite_{c}({together}))) goto undo;"
            self.either(f"{{ const {c} sum = {together}; bits_{c} |= npc_bits_{c}(sum - sum); }}", jumping)
        self.unsettled.clear()

    def give_up(self) -> str:
        """The label to go to from an instruction that has no form, or none for these numbers."""
        self.gives_up_early |= self.is_straight
        self.gives_up = True
        return "undo"

    @property
    def may_stop(self) -> bool:
        """Can all that an iteration stores be stored at its end? What is noted before then ends the strip."""
        is_regular = self.is_chain and self.is_straight and self.is_regular and not (self.gives_up or self.is_nest)
        is_read = any(self.reads.get(s.array.name, -1) > s.line for s in self.stores)
        return is_regular and not is_read and not all(s.stays for s in self.stores)

    @property
    def stops(self) -> bool:
        return self.may_stop and self.end >= 0 and bool(self.jumps) and not self.last

    # --- elements

    def index(self, array: ArrayInput, axis: int, text: str) -> tuple[str, Place | None]:
        """(the position on an axis, the same in every iteration if that is known)"""
        known, size = self.code.integer(text), f"{array.name}_n{axis}"
        if known.terms is not None and self.is_bounded(known):
            return self.known_index(array.name, size, known, text)
        if known.is_reduced and known.least >= 0:
            group = self.group((array.name, size, "reduced"), size, (), known.most)
            assert not group.moves
            return text, None
        self.some[size] = None
        fits = self.code.new("bool", f"(uint64_t){text} < (uint64_t){size}")
        self.either(f"fit &= {fits};", f"if (UNLIKELY(!{fits})) goto undo;")
        place = self.code.new("int", f"{text} & -(int64_t){fits}")
        self.jumps[len(self.code.lines) - 1] = f"const int64_t {place} = {text};"
        return place, None

    def known_index(self, array: str, size: str, known: Integer, text: str) -> tuple[str, Place | None]:
        assert known.terms is not None
        for line in known.checks:
            self.forget(line)
        for name, _ in known.terms:
            self.small.update(dict.fromkeys(self.names_of(name)))
        sign = None if known.terms else known.constant < 0
        group = self.group((array, size, known.terms, sign), size, known.terms, known.constant)
        return f"({text}{group.begin})", None if group.least else Place(group, known.constant)

    # --- loops inside

    def begin_inner(self, iterator: str, start: Integer, stop: Integer, step: int | None) -> None:
        """A loop inside goes over a range."""
        least, behind = (start, stop) if step == 1 else (stop, start)
        shift = constant(-1 if step == 1 else 1)
        ends = (least, summed(behind, shift, 1)) if step == 1 else (summed(least, shift, 1), behind)
        is_known = step in (1, -1) and all(self.stays_within(end) for end in ends)
        made = Range(*(Integer(-(2**62), 2**62, end.terms, end.constant) for end in ends)) if is_known else None
        if self.ranges.setdefault(iterator, made) != made:
            raise NoNest
        self.ranges_of[self.code.instruction + 1] = made
        self.turning.append(len(self.code.lines) - 1)
        if made is not None and not made.least.terms and not made.most.terms and made.count <= FEW_INSIDE:
            self.few.add(self.code.instruction + 1)

    @property
    def is_counted(self) -> bool:
        """Is it known before the strip how many iterations loops inside have?"""
        return self.is_nest and not self.has_while and all(self.ranges_of.get(k) is not None for k in self.inner)

    def turns(self, outer: int | None = None) -> str:
        """Iterations of loops inside, or of those inside of one of them, for each of the strip, as C, where they are counted."""
        around = {k: [j for j, region in self.inner.items() if k in region and j != k] for k in self.inner}
        outermost = [k for k in self.inner if around[k] == ([] if outer is None else [outer, *around[outer]])]
        return " + ".join([f"{self.count_of(k)} * (1 + {self.turns(k)})" for k in outermost] or ["0"])

    def count_of(self, header: int) -> str:
        found = self.ranges_of[header]
        assert found is not None
        return f"npc_max(npc_min({text_of(found.most)} - ({text_of(found.least)}) + 1, POLL), 0)"

    def stays_within(self, end: Integer) -> bool:
        """Is it known before the strip, and far from 64 bits with the factors that indices have?"""
        names = [name for name, _ in end.terms or ()]
        own = {way.place for way in self.ways} | self.ranges.keys()
        return end.terms is not None and own.isdisjoint(names) and has_small_factors(end)

    def inner_item(self, iterator: str) -> Integer:
        """What is known of the variable of a loop inside. The iterator stands for it."""
        return Integer(-(2**62), 2**62, None if self.ranges.get(iterator) is None else ((iterator, 1),))

    def is_bounded(self, known: Integer) -> bool:
        return has_small_factors(known) or not any(name in self.ranges for name, _ in known.terms or ())

    def names_of(self, name: str) -> list[str]:
        """The variables that a term is a sum of."""
        if (found := self.ranges.get(name)) is None:
            return [name]
        return [n for end in (found.least, found.most) for n, _ in end.terms or ()]

    def refuse_stores(self) -> None:
        """Loops inside that store are better off with strips of their own, but for a few iterations."""
        if any(self.code.instruction in region and header not in self.few for header, region in self.inner.items()):
            raise NoNest

    def inner_ends(self, terms: tuple[tuple[str, int], ...]) -> tuple[str, str]:
        """The least and the most that loops inside add to an index, as C."""
        low, high = "", ""
        for name, factor in terms:
            if (found := self.ranges.get(name)) is not None:
                ends = [f" + {factor} * ({text_of(end)})" for end in (found.least, found.most)]
                low, high = low + ends[factor < 0], high + ends[factor > 0]
        return low, high

    def group(self, key: tuple[object, ...], size: str, terms: tuple[tuple[str, int], ...], at: int) -> Group:
        found = self.groups.get(key)
        if found is None:
            moves = sum(dict(terms).get(way.place, 0) * way.step for way in self.ways)
            ends = self.inner_ends(terms)
            found = self.groups[key] = Group(f"g{len(self.groups)}", size, terms, moves, at, at, *ends)
        found.low, found.high = min(found.low, at), max(found.high, at)
        return found

    def load(self, array: ArrayInput, places: list[Place | None], value: str) -> None:
        """The line before reads an element."""
        self.reads[array.name] = len(self.code.lines) - 1
        known = [p for p in places if p is not None]
        if len(known) == len(places):
            self.loads[value] = Load(len(self.code.lines) - 1, value, array.kind, array, known)
        else:
            self.scattered.add(array.name)

    def store(self, array: ArrayInput, element: str, places: list[Place | None], value: str) -> None:
        self.stores_anywhere |= None in places
        is_regular = None not in places and (self.is_straight or self.is_nest)
        known = [p for p in places if p is not None] if is_regular else None
        self.code.line("")  # written when it is known whether all stores are like this
        self.stores.append(Store(len(self.code.lines) - 1, element, array.kind, value, array, known))

    # --- what is known when the body is written

    def repeat(self, outer: Outer | None) -> None:
        """Run the next rows of `outer` too, one after another, if what is known of the first is known of them."""
        is_plain = self.is_chain and self.is_straight and not (self.ways_out or self.assigned or self.comes_round)
        if outer is not None and is_plain and not any(g.moves and outer.moves(g) for g in self.groups.values()):
            self.outer = outer

    def parameters(self, lines: list[str]) -> dict[str, str]:
        """What the function is given: the variables, numbers, arrays and sizes that it names -> their types."""
        named = {word for line in lines for word in WORD.findall(line)}
        return {name: c for name, c in self.code.outer().items() if name in named}

    @property
    def noted(self) -> str:
        last = [f"!npc_is_finite_{c_of(kind)}({text})" for text, kind in self.last.items()]
        last += ["npc_noted()"] * self.is_nest
        return " || ".join(["bad", "!fit", "signs < 0", *(f"bits_{c}" for c in sorted(self.has_bits)), *last])

    @property
    def may_fail(self) -> bool:
        """Can it be that the strip is undone?"""
        return bool(self.jumps or self.last or self.gives_up or self.is_nest)

    @property
    def kept(self) -> list[Store]:
        """Stores that are undone then."""
        return self.stores if self.may_fail and not self.stops else []

    @property
    def is_kept_before(self) -> bool:
        """Is all that the strip will store kept before it? A test may then jump from anywhere."""
        return bool(self.kept and self.jumps) and self.is_chain and self.is_regular and not self.is_nest

    @property
    def words(self) -> int:
        """Of 8 bytes, in which an old element is kept."""
        return max([1, *(size_of(s.kind) // 8 for s in self.kept)])

    @property
    def old(self) -> str:
        """Where the element is kept that is stored next, where that is not known before."""
        return "&old[stored]" if self.words == 1 else f"&old[stored * {self.words}]"

    @property
    def longest(self) -> int:
        return max(LENGTH // len(self.kept), 1) if self.kept and (self.is_regular or not self.is_nest) else LONGEST

    @property
    def is_gain(self) -> bool:
        """Is it better than the loop as it is? Where there are no floating-point results to look at, only vectors are."""
        if self.carried or self.is_nest:
            return True
        are_plain = bool(self.ways) and not self.ways_out and not self.stores_anywhere
        carried = self.assigned.keys() - self.counters.keys()
        return are_plain and (self.is_straight or carried.isdisjoint(self.copies.values()))

    @property
    def is_regular(self) -> bool:
        """Is it known of every iteration where it stores? Of one with loops inside: where it may store, which it keeps first."""
        return (self.is_nest or not self.gives_up_early) and all(s.places is not None for s in self.stores)

    def tests(self) -> list[str]:
        """Conditions under which the strip cannot be run."""
        first = {way.place: way.first for way in self.ways}  # the others are not far
        texts = [first.get(v, v) for v in self.small]
        tests = [f"(uint64_t){t} + {SMALL} > {2 * SMALL}" for t in texts if not t.startswith("INT64_C")]
        return [f"!({size})" for size in self.some] + tests

    def beginning(self, group: Group) -> str:
        """The value of a group's terms in the first iteration."""
        first = {way.place: way.first for way in self.ways}
        return " + ".join([f"{f} * {first.get(t, t)}" for t, f in group.terms if f and t not in self.ranges] or ["0"])

    def finish(self, lines: list[str], keeps: bool = True) -> None:
        """Write in `lines` what is known only now: the statements that store, keeping what was there, and the tests."""
        if self.is_chain or self.is_nest:
            for line, text in self.jumps.items():
                lines[line] = text
        if self.is_counted:
            for line in self.turning:
                lines[line] = ""
        for j, s in enumerate(self.stores):
            size = size_of(s.kind)
            kept = [f"at[stored] = (char*)&{s.element};", f"__builtin_memcpy({self.old}, &{s.element}, {size});"]
            kept.append(f"size[stored++] = {size};")
            if self.is_nest:
                kept.insert(0, f"if (UNLIKELY(stored == {ROOM})) goto undo;")
            if self.is_regular or not self.kept:
                is_kept = s.stays or self.is_kept_before or self.is_nest or not self.kept or not keeps
                kept = [] if is_kept else [f"old{j}[k] = {s.element};"]
            read = self.stored_before(s)
            for x in read:
                lines[x.line] = f"const {C_OF_KIND[x.kind]} {x.value} = before{j};"
            line = self.end if self.stops else s.line
            lines[line] += " ".join([*kept, f"{s.element} = {s.value};", *[f"before{j} = {s.value};"] * bool(read)])
        for j, (old, new) in enumerate(self.read_before()):
            lines[old.line] = f"const {C_OF_KIND[old.kind]} {old.value} = read{j};"
            lines[self.end] += f" read{j} = {new.value};"


def c_of(kind: str) -> str:
    return "float" if kind == "f4" else "double"


def size_of(kind: str) -> int:
    return int(kind[1:])


def has_small_factors(known: Integer) -> bool:
    return sum(abs(factor) for _, factor in known.terms or ()) <= LARGEST_INNER


def text_of(known: Integer) -> str:
    """A sum as C."""
    return " + ".join([*(f"{factor} * {name}" for name, factor in known.terms or ()), f"INT64_C({known.constant})"])
