"""Between which integers a function's variables are, at each of its instructions.

Values are followed through the bytecode, from where a native program begins, before it is written: by the rules for integers
(`backends/cpu/loops/value_ranges.py`), what branches say, and what `range` and `len` give. Bounds hold for integers of Python
that fit 64 bits: with others the program leaves. Where integers come from sizes of arrays, and arrays are made of such sizes,
bounds are sums of these too (`affine.py`), which say of indices that they are within.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from npcompile.backends.cpu.loops.value_ranges import RULES, Integer
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.bytecode.decode import Instruction, Program
from npcompile.tracer.native import affine
from npcompile.tracer.native.affine import Linear, Sums
from npcompile.tracer.native.numbers import OPERATORS
from npcompile.tracer.native.states import names_set
from npcompile.tracer.native.types import Elements, Outside, Scalar, Steps

LEAST, MOST = -(2**63), 2**63 - 1
LONGEST = 2**62  # no range that native programs go over has items beyond
DOWN = (2, 1, 0, -1, -(2**32), LEAST)  # where bounds that loops widen come to a stop
UP = (2**32, 2**60, LONGEST, MOST)
MOST_STEPS = 20  # times that an instruction is followed, about
SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
# How functions of NumPy's say the shape of what they make.
MAKERS = dict.fromkeys(("zeros", "ones", "empty", "full"), "shape")
MAKERS |= dict.fromkeys(("zeros_like", "ones_like", "empty_like", "full_like", "copy"), "like")
CALLED = ("range", "len", "min", "max", "abs", "int")


@dataclass(frozen=True, slots=True)
class Value:
    """If it is an integer of Python's, it is between these. If it is an array, its sizes are no more than `most`."""

    least: int = LEAST
    most: int = MOST
    is_int: bool = False  # it is one
    name: str = ""  # the variable that has it
    goes_over: Value | None = None  # of a range, or an iterator over one: its items
    compared: tuple[str, Value, Value] | None = None  # of a truth value
    function: str = ""  # of Python's or NumPy's, which it is
    base: tuple[str, int] | None = None  # it is this variable, and so much more
    below: Sums = frozenset()  # it is no more than any of these
    above: Sums = frozenset()  # and no less than any of these
    sizes: tuple[Linear, ...] | None = None  # it is an array of these sizes
    items: tuple[Value, ...] | None = None  # it is a tuple of these

    @property
    def uppers(self) -> list[Linear]:
        return [*self.below, *[Linear((), self.most)] * (self.most < LONGEST)]

    @property
    def lowers(self) -> list[Linear]:
        return [*self.above, *[Linear((), self.least)] * (self.least > -LONGEST)]

    def between(self, above: Sequence[Linear], below: Sequence[Linear]) -> Value:
        """The integer, of which it is known that it is no less and no more than these sums."""
        least = max([self.least, *(x for a in above if (x := affine.least_of(a)) is not None)])
        most = min([self.most, *(x for a in below if (x := affine.most_of(a)) is not None)])
        if least > most:  # control does not come there
            return self
        lower, upper = affine.kept([*self.above, *above], -1), affine.kept([*self.below, *below], 1)
        return replace(self, least=least, most=most, above=lower, below=upper)


ANY = Value()


@dataclass(frozen=True, slots=True)
class State:
    stack: tuple[Value, ...] = ()
    variables: dict[str, Value] = field(default_factory=dict)


def value_of(found: Integer | None, is_int: bool) -> Value:
    if found is None:
        return Value(is_int=is_int)
    return Value(max(found.least, LEAST), min(found.most, MOST), is_int)


def joined(one: Value, other: Value) -> Value:
    if one == other:
        return one
    items = joined(one.goes_over, other.goes_over) if one.goes_over and other.goes_over else None
    parts = None
    if one.items is not None and other.items is not None and len(one.items) == len(other.items):
        parts = tuple(map(joined, one.items, other.items))
    return Value(
        min(one.least, other.least),
        max(one.most, other.most),
        one.is_int and other.is_int,
        one.name if one.name == other.name else "",
        items,
        base=one.base if one.base == other.base else None,
        below=affine.in_both(one.uppers, other.uppers, 1),
        above=affine.in_both(one.lowers, other.lowers, -1),
        sizes=one.sizes if one.sizes == other.sizes else None,
        items=parts,
    )


def widened(old: Value, new: Value) -> Value:
    """The new value, whose bounds change only so often while loops are followed."""
    least = new.least if new.least >= old.least else next(x for x in DOWN if x <= new.least)
    most = new.most if new.most <= old.most else next(x for x in UP if x >= new.most)
    items = widened(old.goes_over, new.goes_over) if old.goes_over and new.goes_over else new.goes_over
    below, above = affine.widened(old.below, new.below, 1), affine.widened(old.above, new.above, -1)
    return replace(new, least=least, most=most, goes_over=items, below=below, above=above)


def at_entry(value: Any, name: str = "") -> Value:
    """What a program begins with, in a variable."""
    if isinstance(value, Steps):
        return Value(goes_over=Value(-LONGEST, LONGEST, True))
    example = value.example if isinstance(value, Outside) else None
    rank, itemsize = 0, 1
    if isinstance(value, Elements):
        rank, itemsize = value.input.ndim, int(value.input.kind[1:])
    elif isinstance(example, np.ndarray) and type(example) is np.ndarray:
        rank, itemsize = example.ndim, max(example.itemsize, 1)
    if name and rank:
        return Value(most=MOST // itemsize, sizes=tuple(affine.size(name, axis) for axis in range(rank)))
    is_int = value.kind == "int" if isinstance(value, Scalar) else type(example) is int
    return equal(affine.given(name)) if is_int and name else Value(is_int=is_int)


def equal(known: Linear, most: int = MOST) -> Value:
    """An integer that is a sum."""
    both = affine.kept([known], 1)
    return Value(LEAST, most, True, below=both, above=both).between([known], [known])


def sum_of(value: Value) -> Linear | None:
    """The sum that an integer is."""
    if not value.is_int or value.least == value.most:
        return Linear((), value.least) if value.is_int else None
    return min(value.below & value.above, default=None)


@dataclass(slots=True)
class Ranges:
    """What is known in front of each instruction that control comes to from `header`."""

    program: Program
    facts: CodeFacts
    globals: dict[str, Any]
    region: frozenset[int]
    counters: dict[str, Integer]
    states: dict[int, State] = field(default_factory=dict)
    follows_one: frozenset[int] = frozenset()  # instructions that control comes to from one other

    def follow(self, header: int, stack: list[Any], variables: dict[str, Any]) -> None:
        if any(self.facts.protected[k] for k in self.region):
            return
        edges = Counter(s for k in self.region for s in {*self.facts.successors[k]})
        self.follows_one = frozenset(k for k, times in edges.items() if times == 1 and k != header)
        self.states[header] = State(tuple(map(at_entry, stack)), {n: at_entry(v, n) for n, v in variables.items()})
        pending, steps = {header}, 0
        while pending:
            k = min(pending)
            pending.remove(k)
            steps += 1
            if steps > MOST_STEPS * len(self.region):
                self.states.clear()  # nothing is known
                return
            for successor, reached in self.after(self.program.instructions[k], self.states[k]):
                if successor in self.region and self.arrives(k, successor, reached):
                    pending.add(successor)

    def arrives(self, k: int, successor: int, state: State) -> bool:
        """Is that something new there?"""
        depth = self.facts.depth[successor] or 0
        stack = (*state.stack[:depth], *(ANY,) * (depth - len(state.stack)))
        old = self.states.get(successor)
        if old is None or successor in self.follows_one:
            self.states[successor] = State(stack, state.variables)
            return old != self.states[successor]
        merge = (lambda a, b: widened(a, joined(a, b))) if successor <= k else joined
        names = old.variables.keys() & state.variables.keys()
        variables = {n: merge(old.variables[n], state.variables[n]) for n in names}
        new = State(tuple(merge(a, b) for a, b in zip(old.stack, stack)), variables)
        self.states[successor] = new
        return new != old

    def variable(self, index: int, name: str) -> Value:
        state = self.states.get(index)
        return ANY if state is None else state.variables.get(name, ANY)

    def item(self, index: int) -> Value:
        """What the loop whose header is there takes next."""
        state = self.states.get(index)
        return state.stack[-1].goes_over or ANY if state is not None and state.stack else ANY

    def within(self, index: int) -> frozenset[int]:
        """The axes on which the subscript there is known to be no less than 0, and less than the array's size."""
        state = self.states.get(index)
        if state is None or len(state.stack) < 2:
            return frozenset()
        container, key = state.stack[-2:]
        keys = (key,) if key.items is None else key.items
        if container.sizes is None or len(keys) != len(container.sizes):
            return frozenset()
        return frozenset(axis for axis, (k, n) in enumerate(zip(keys, container.sizes)) if is_within(k, n))

    # --- instructions

    def after(self, i: Instruction, state: State) -> Iterator[tuple[int, State]]:
        """Where control goes, and with what."""
        stack = state.stack
        successors = self.facts.successors[i.index]
        if i.traits.flow == "next":
            items = stack[-1].goes_over or ANY
            for successor in successors:
                pushed = (*stack, items) if successor == i.index + 1 else stack[:-1]
                yield successor, State(pushed, state.variables)
        elif i.traits.is_of_truth:
            taken_if = i.traits.flow == "if true"
            for successor in successors:
                is_true = taken_if == (successor != i.index + 1)
                is_told = len(successors) == 2 and successors[0] != successors[1]
                told = refined(state.variables, stack[-1], is_true) if is_told else state.variables
                if told is not None:
                    yield successor, State(stack[:-1], told)
        else:
            following = self.step(i, state)
            for successor in successors:
                yield successor, following

    def step(self, i: Instruction, state: State) -> State:
        stack, variables, traits = state.stack, state.variables, i.traits
        if traits.reads("local"):
            return State((*stack, self.read(variables, i.argval)), variables)
        if traits.writes("local"):
            return self.stored(state, i.argval)
        if names := names_set(i):  # variables without a value, or that functions share
            return State((ANY,) * self.depth_after(i), {n: v for n, v in variables.items() if n not in names})
        if traits.stack == "copy":
            return State((*stack, stack[-i.arg]), variables)
        if traits.stack == "swap":
            swapped = [*stack]
            swapped[-1], swapped[-i.arg] = swapped[-i.arg], swapped[-1]
            return State(tuple(swapped), variables)
        if traits.stack in ("nothing", "iterator") or traits.operator == "truth" or traits.flow == "start":
            return state
        depth = self.depth_after(i)
        if traits.gives is None and traits.takes is None:
            return State((ANY,) * depth, variables)
        first = depth - (traits.gives or 0) if traits.takes is None else len(stack) - traits.takes
        made = (self.made(i, stack[first:]),) * (depth - first)
        parts = stack[-1].items if traits.takes and not traits.access else None  # of what is unpacked
        return State((*stack[:first], *(made if parts is None or len(parts) != len(made) else reversed(parts))), variables)

    def depth_after(self, i: Instruction) -> int:
        return (self.facts.depth[i.index] or 0) + self.facts.effects[i.index].change

    def read(self, variables: dict[str, Value], name: str) -> Value:
        value = variables.get(name, ANY)
        if (known := self.counters.get(name)) is not None:
            value = replace(value, least=max(value.least, known.least), most=min(value.most, known.most))
        return replace(value, name=name, base=(name, 0), compared=None, function="")

    def stored(self, state: State, name: str) -> State:
        value = state.stack[-1]
        stack = tuple(without(v, name) for v in state.stack[:-1])
        return State(stack, state.variables | {name: replace(value, name="", base=None, compared=None, function="")})

    def global_value(self, name: str) -> Value:
        """On which side of it NULL is depends on the version: calls look at both places."""
        if name in self.globals:
            return Value(function="numpy") if self.globals[name] is np else ANY
        return Value(function=name) if name in CALLED and hasattr(builtins, name) else ANY

    def attribute(self, owner: Value, name: str) -> Value:
        if owner.function == "numpy" and name in MAKERS:
            return Value(function=name)
        if owner.sizes is None:
            return ANY
        if name == "copy":
            return replace(owner, function="copied")
        if name == "size" and len(owner.sizes) == 1:
            return equal(owner.sizes[0], owner.most)
        return Value(items=tuple(equal(n, owner.most) for n in owner.sizes)) if name == "shape" else ANY

    def made(self, i: Instruction, operands: tuple[Value, ...]) -> Value:
        """What an instruction leaves in place of its operands."""
        traits = i.traits
        if traits.is_constant:
            items = range_of(i.argval) if type(i.argval) is tuple else None
            if items is not None:
                return Value(goes_over=Value(min(items), max(items), True))
            is_int = type(i.argval) is int and LEAST <= i.argval <= MOST
            return Value(i.argval, i.argval, True) if is_int else ANY
        if traits.reads("attribute"):
            return self.attribute(operands[0], str(i.argval))
        if traits.reads("global"):
            return self.global_value(str(i.argval))
        if traits.operator:
            return self.result(i, operands)
        if traits.builds is tuple:
            return Value(items=tuple(replace(v, name="", base=None, compared=None) for v in operands))
        if traits.reads("element") and operands[0].items is not None and operands[1].least == operands[1].most:
            place, parts = operands[1].least, operands[0].items
            return parts[place] if operands[1].is_int and -len(parts) <= place < len(parts) else ANY
        if traits.call:
            first = len(operands) - i.arg
            function = max((v for v in operands[:first]), key=lambda v: v.function, default=ANY)
            names = i.argval
            if function.function in MAKERS:
                return array_of(function.function, operands[first : len(operands) - len(names)], names)
            if function.function == "copied":
                return replace(function, function="")
            return called(function.function, operands[first:]) if not names else ANY
        return ANY

    def result(self, i: Instruction, operands: tuple[Value, ...]) -> Value:
        """What an operator gives."""
        match i.traits.operator:
            case "binary" if (sign := i.argval.removesuffix("=")) in OPERATORS:
                rule = RULES.get(OPERATORS[sign].__name__)
                a, b = (Integer(v.least, v.most) for v in operands)
                found = value_of(rule(a, b), all(v.is_int for v in operands)) if rule is not None else ANY
                return related(OPERATORS[sign].__name__, found, *operands)
            case "unary" if i.traits.sign == "-":
                return Value(-operands[0].most, min(-operands[0].least, MOST), operands[0].is_int)
            case "compare" if i.argval in SWAPPED:
                return Value(compared=(i.argval, operands[0], operands[1]))
            case "not" if operands[0].compared is not None:
                sign, left, right = operands[0].compared
                return Value(compared=(OPPOSITE[sign], left, right))
        return ANY


def is_within(key: Value, size: Linear) -> bool:
    last = affine.added(size, Linear((), 1), -1)
    return key.is_int and key.least >= 0 and any(affine.is_at_most(most, last) for most in key.uppers)


def array_of(maker: str, arguments: tuple[Value, ...], keywords: tuple[str, ...]) -> Value:
    """What a function of NumPy's makes. Where a size is negative it raises."""
    if not 0 < len(arguments) < 4 or "shape" in keywords:
        return ANY
    if MAKERS[maker] == "like":
        return Value(sizes=arguments[0].sizes)
    sizes = [sum_of(v) for v in ((arguments[0],) if arguments[0].items is None else arguments[0].items)]
    known = [n for n in sizes if n is not None]
    return Value(sizes=tuple(known)) if known and len(known) == len(sizes) else ANY


def related(operation: str, result: Value, a: Value, b: Value) -> Value:
    """The result of an operation on two integers, with what their sums say of it."""
    if not (a.is_int and b.is_int and result.is_int):
        return result
    below, above, base = list[Linear](), list[Linear](), None
    match operation:
        case "floor_divide" | "multiply" | "remainder" if not (a.below or a.above or b.below or b.above):
            pass  # the rules for bounds say it all
        case "add":
            below = [affine.added(x, y) for x in a.uppers for y in b.uppers]
            above = [affine.added(x, y) for x in a.lowers for y in b.lowers]
            of, other = (a, b) if a.base is not None else (b, a)
            base = (of.base[0], of.base[1] + other.least) if of.base is not None and other.least == other.most else None
        case "subtract":
            below = [affine.added(x, y, -1) for x in a.uppers for y in b.lowers]
            above = [affine.added(x, y, -1) for x in a.lowers for y in b.uppers]
            base = (a.base[0], a.base[1] - b.least) if a.base is not None and b.least == b.most else None
        case "multiply" if b.least == b.most > 0 or a.least == a.most > 0:
            many, by = (a, b.least) if b.least == b.most > 0 else (b, a.least)
            below, above = [affine.scaled(x, by) for x in many.uppers], [affine.scaled(x, by) for x in many.lowers]
        case "floor_divide" if b.least == b.most > 0:
            below = [found for x in a.uppers if (found := affine.divided(x, b.least)) is not None]
            above = [found for x in a.lowers if (found := affine.divided(x, b.least)) is not None]
            below += a.uppers if a.least >= 0 else []
        case "remainder" if b.least >= 0:
            below = [affine.added(x, Linear((), 1), -1) for x in b.uppers]
            below += a.uppers if a.least >= 0 else []
    return replace(result, base=base).between(above, below)


def without(value: Value, name: str) -> Value:
    """The value when the variable has been set to something else."""
    if value.name == name:
        value = replace(value, name="")
    if value.base is not None and value.base[0] == name:
        value = replace(value, base=None)
    if value.compared is not None and any(name in (v.name, (v.base or ("",))[0]) for v in value.compared[1:]):
        value = replace(value, compared=None)
    return value


def called(name: str, values: tuple[Value, ...]) -> Value:
    """What a function of Python's gives."""
    are_ints = bool(values) and all(v.is_int for v in values)
    match name:
        case "len":
            sizes = values[0].sizes if len(values) == 1 else None
            return Value(0, MOST, True) if sizes is None else equal(sizes[0], values[0].most)
        case "int":
            return replace(values[0], name="", compared=None) if are_ints and len(values) == 1 else Value(is_int=True)
        case "abs" if are_ints and values[0].least >= 0:
            return replace(values[0], name="", compared=None)
        case "min" if are_ints and len(values) > 1:
            found = Value(min(v.least for v in values), min(v.most for v in values), True)
            return found.between([*joined_all(values).above], [x for v in values for x in v.below])
        case "max" if are_ints and len(values) > 1:
            found = Value(max(v.least for v in values), max(v.most for v in values), True)
            return found.between([x for v in values for x in v.above], [*joined_all(values).below])
        case "range" if values:
            return Value(goes_over=items_of(values))
    return ANY


def joined_all(values: tuple[Value, ...]) -> Value:
    return reduce(joined, values)


def items_of(values: tuple[Value, ...]) -> Value:
    """The items of a range of these."""
    ends = [v if v.is_int else ANY for v in values]
    start, stop = (Value(0, 0, True), ends[0]) if len(ends) == 1 else ends[:2]
    least, most = -LONGEST, LONGEST
    above, below = list[Linear](), list[Linear]()
    if len(ends) < 3 or ends[2].least > 0:
        least, most = max(least, start.least), min(most, stop.most - 1)
        above, below = start.lowers, [affine.added(x, Linear((), 1), -1) for x in stop.uppers]
    elif ends[2].most < 0:
        least, most = max(least, stop.least + 1), min(most, start.most)
        above, below = [affine.added(x, Linear((), 1)) for x in stop.lowers], start.uppers
    return Value(least, max(most, least), True).between(above, below)


def range_of(items: Sequence[Any]) -> range | None:
    """The range that has the items of a tuple, if these are integers of Python's that are equally far from each other."""
    if not items or any(type(x) is not int or abs(x) >= LONGEST // 2 for x in items):
        return None
    step = items[1] - items[0] if len(items) > 1 else 1
    made = range(items[0], items[-1] + step, step) if 0 < abs(step) < 2**31 else range(0)
    return made if [*made] == [*items] else None


def refined(variables: dict[str, Value], truth: Value, is_true: bool) -> dict[str, Value] | None:
    """The variables where a branch has gone one way. None: it does not."""
    zero = Value(0, 0, True)
    compared = truth.compared or (("!=", truth, zero) if truth.name else None)
    if compared is None:
        return variables
    sign, left, right = compared if is_true else (OPPOSITE[compared[0]], *compared[1:])
    told = dict(variables)
    for value, relation, other in ((left, sign, right), (right, SWAPPED[sign], left)):
        if value.name and other.is_int:
            old = told.get(value.name, ANY)
            inside = replace(value, least=max(value.least, old.least), most=min(value.most, old.most))
            least, most = between(inside, relation, other)
            if least > most and value.is_int:
                return None
            if least <= most:
                told[value.name] = replace(old, least=least, most=most)
        if value.base is not None and value.is_int and other.is_int and value.base[0] in told:
            name, more = value.base
            told[name] = told[name].between(*sums_beside(other, relation, more))
    return told


def sums_beside(other: Value, sign: str, more: int) -> tuple[list[Linear], list[Linear]]:
    """No less and no more than what an integer is that is so related to the other when `more` is added to it."""
    above, below = list[Linear](), list[Linear]()
    if sign in (">", ">=", "=="):
        above = [affine.added(x, Linear((), (sign == ">") - more)) for x in other.lowers]
    if sign in ("<", "<=", "=="):
        below = [affine.added(x, Linear((), -(sign == "<") - more)) for x in other.uppers]
    return above, below


def between(value: Value, sign: str, other: Value) -> tuple[int, int]:
    least, most = value.least, value.most
    if sign in (">", ">=", "=="):
        least = max(least, other.least + (sign == ">"))
    if sign in ("<", "<=", "=="):
        most = min(most, other.most - (sign == "<"))
    if sign == "!=" and other.least == other.most:
        least, most = least + (least == other.least), most - (most == other.most)
    return least, most
