"""Between which integers a function's variables are, at each of its instructions.

Values are followed through the bytecode, from where a native program begins, before it is written: by the rules for integers
(`backends/cpu/loops/integers.py`), what branches say, and what `range` and `len` give. Bounds hold for integers of Python that
fit 64 bits: with others the program leaves.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from npcompile.backends.cpu.loops.integers import RULES, Integer
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.bytecode.decode import Instruction, Program
from npcompile.tracer.native.kinds import Outside, Scalar, Steps
from npcompile.tracer.native.numbers import OPERATORS
from npcompile.tracer.native.states import names_set

LEAST, MOST = -(2**63), 2**63 - 1
LONGEST = 2**62  # no range that native programs go over has items beyond
DOWN = (2, 1, 0, -1, -(2**32), LEAST)  # where bounds that loops widen come to a stop
UP = (2**32, 2**60, LONGEST, MOST)
SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
POPS = frozenset({"POP_TOP", "STORE_SUBSCR", "STORE_SLICE", "END_FOR", "POP_ITER", "JUMP_FORWARD", "JUMP_BACKWARD"})
POPS |= {"JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "STORE_ATTR"}
TAKES_ONE = frozenset({"LOAD_ATTR", "LOAD_METHOD", "UNPACK_SEQUENCE"})
GIVES_ONE = frozenset(
    {"LOAD_CONST", "BINARY_OP", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT", "COMPARE_OP", "CALL", "LOAD_DEREF"}
)
GIVES_ONE |= {"BINARY_SUBSCR", "BINARY_SLICE", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SLICE", "PUSH_NULL", "IS_OP", "CALL_KW"}
CALLED = ("range", "len", "min", "max", "abs", "int")


@dataclass(frozen=True, slots=True)
class Value:
    """If it is an integer of Python's, it is between these."""

    least: int = LEAST
    most: int = MOST
    is_int: bool = False  # it is one
    name: str = ""  # the variable that has it
    goes_over: Value | None = None  # of a range, or an iterator over one: its items
    compared: tuple[str, Value, Value] | None = None  # of a truth value
    function: str = ""  # of Python's, which it is


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
    name = one.name if one.name == other.name else ""
    return Value(min(one.least, other.least), max(one.most, other.most), one.is_int and other.is_int, name, items)


def widened(old: Value, new: Value) -> Value:
    """The new value, whose bounds change only so often while loops are followed."""
    least = new.least if new.least >= old.least else next(x for x in DOWN if x <= new.least)
    most = new.most if new.most <= old.most else next(x for x in UP if x >= new.most)
    items = widened(old.goes_over, new.goes_over) if old.goes_over and new.goes_over else new.goes_over
    return replace(new, least=least, most=most, goes_over=items)


def at_entry(value: Any) -> Value:
    """What a program begins with."""
    if isinstance(value, Steps):
        return Value(goes_over=Value(-LONGEST, LONGEST, True))
    is_int = value.kind == "int" if isinstance(value, Scalar) else isinstance(value, Outside) and type(value.example) is int
    return Value(is_int=is_int)


@dataclass(slots=True)
class Ranges:
    """What is known in front of each instruction that control comes to from `header`."""

    program: Program
    facts: CodeFacts
    globals: dict[str, Any]
    region: frozenset[int]
    counters: dict[str, Integer]
    states: dict[int, State] = field(default_factory=dict)

    def follow(self, header: int, stack: list[Any], variables: dict[str, Any]) -> None:
        if any(self.facts.protected[k] for k in self.region):
            return
        self.states[header] = State(tuple(map(at_entry, stack)), {n: at_entry(v) for n, v in variables.items()})
        pending = {header}
        while pending:
            k = min(pending)
            pending.remove(k)
            for successor, reached in self.after(self.program.instructions[k], self.states[k]):
                if successor in self.region and self.arrives(k, successor, reached):
                    pending.add(successor)

    def arrives(self, k: int, successor: int, state: State) -> bool:
        """Is that something new there?"""
        depth = self.facts.depth[successor] or 0
        stack = (*state.stack[:depth], *(ANY,) * (depth - len(state.stack)))
        old = self.states.get(successor)
        if old is None:
            self.states[successor] = State(stack, state.variables)
            return True
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

    # --- instructions

    def after(self, i: Instruction, state: State) -> Iterator[tuple[int, State]]:
        """Where control goes, and with what."""
        stack = state.stack
        successors = self.facts.successors[i.index]
        if i.opname == "FOR_ITER":
            items = stack[-1].goes_over or ANY
            for successor in successors:
                pushed = (*stack, items) if successor == i.index + 1 else stack[:-1]
                yield successor, State(pushed, state.variables)
        elif "POP_JUMP" in i.opname and i.opname.endswith(("_IF_TRUE", "_IF_FALSE")):
            taken_if = i.opname.endswith("TRUE")
            for successor in successors:
                is_true = taken_if == (successor != i.index + 1)
                is_told = len(successors) == 2 and successors[0] != successors[1]
                told = refined(state.variables, stack[-1], is_true) if is_told else state.variables
                yield successor, State(stack[:-1], told)
        else:
            following = self.step(i, state)
            for successor in successors:
                yield successor, following

    def step(self, i: Instruction, state: State) -> State:
        stack, variables = state.stack, state.variables
        name = i.opname
        if name in ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST"):
            names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
            return State((*stack, *(self.read(variables, n) for n in names)), variables)
        if name in ("STORE_FAST", "STORE_FAST_STORE_FAST"):
            for stored in i.argval if isinstance(i.argval, tuple) else (i.argval,):
                state = self.stored(state, stored)
            return state
        if name == "STORE_FAST_LOAD_FAST":
            state = self.stored(state, i.argval[0])
            return State((*state.stack, self.read(state.variables, i.argval[1])), state.variables)
        if "FAST" in name or name == "STORE_DEREF":  # variables without a value, or that functions share
            return State((ANY,) * self.depth_after(i), {n: v for n, v in variables.items() if n not in names_set(i)})
        if name == "COPY":
            return State((*stack, stack[-i.arg]), variables)
        if name == "SWAP":
            swapped = [*stack]
            swapped[-1], swapped[-i.arg] = swapped[-i.arg], swapped[-1]
            return State(tuple(swapped), variables)
        if name in ("PRECALL", "NOP", "RESUME", "KW_NAMES", "GET_ITER", "TO_BOOL"):
            return state
        depth = self.depth_after(i)
        if name in POPS:
            return State(stack[:depth], variables)
        if name in TAKES_ONE:
            return State((*stack[:-1], *(ANY,) * (depth - len(stack) + 1)), variables)
        if name == "LOAD_GLOBAL":
            return State((*stack, *(self.global_value(str(i.argval)),) * (depth - len(stack))), variables)
        if name in GIVES_ONE:
            return State((*stack[: depth - 1], self.made(i, stack[depth - 1 :])), variables)
        return State((ANY,) * depth, variables)

    def depth_after(self, i: Instruction) -> int:
        return (self.facts.depth[i.index] or 0) + self.facts.instructions[i.index].effect

    def read(self, variables: dict[str, Value], name: str) -> Value:
        value = variables.get(name, ANY)
        if (known := self.counters.get(name)) is not None:
            value = replace(value, least=max(value.least, known.least), most=min(value.most, known.most))
        return replace(value, name=name, compared=None, function="")

    def stored(self, state: State, name: str) -> State:
        value = state.stack[-1]
        stack = tuple(without(v, name) for v in state.stack[:-1])
        return State(stack, state.variables | {name: replace(value, name="", compared=None, function="")})

    def global_value(self, name: str) -> Value:
        """On which side of it NULL is depends on the version: calls look at both places."""
        is_known = name in CALLED and name not in self.globals and hasattr(builtins, name)
        return Value(function=name) if is_known else ANY

    def made(self, i: Instruction, operands: tuple[Value, ...]) -> Value:
        """What an instruction leaves in place of its operands."""
        match i.opname:
            case "LOAD_CONST":
                items = range_of(i.argval) if type(i.argval) is tuple else None
                if items is not None:
                    return Value(goes_over=Value(min(items), max(items), True))
                is_int = type(i.argval) is int and LEAST <= i.argval <= MOST
                return Value(i.argval, i.argval, True) if is_int else ANY
            case "BINARY_OP" if (sign := i.argrepr.removesuffix("=")) in OPERATORS:
                rule = RULES.get(OPERATORS[sign].__name__)
                a, b = (Integer(v.least, v.most) for v in operands)
                return value_of(rule(a, b), all(v.is_int for v in operands)) if rule is not None else ANY
            case "UNARY_NEGATIVE":
                return Value(-operands[0].most, min(-operands[0].least, MOST), operands[0].is_int)
            case "COMPARE_OP":
                sign = str(i.argval).removeprefix("bool(").removesuffix(")").strip()
                return Value(compared=(sign, operands[0], operands[1])) if sign in SWAPPED else ANY
            case "UNARY_NOT" if operands[0].compared is not None:
                sign, left, right = operands[0].compared
                return Value(compared=(OPPOSITE[sign], left, right))
            case "CALL" if all(self.program.instructions[i.index - k].opname != "KW_NAMES" for k in (1, 2)):
                first = len(operands) - i.arg
                function = max([v.function for v in operands[:first]], default="")
                return called(function, operands[first:])
        return ANY


def without(value: Value, name: str) -> Value:
    """The value when the variable has been set to something else."""
    if value.name == name:
        value = replace(value, name="")
    if value.compared is not None and any(v.name == name for v in value.compared[1:]):
        value = replace(value, compared=None)
    return value


def called(name: str, values: tuple[Value, ...]) -> Value:
    """What a function of Python's gives."""
    are_ints = bool(values) and all(v.is_int for v in values)
    match name:
        case "len":
            return Value(0, MOST, True)
        case "int":
            return replace(values[0], name="", compared=None) if are_ints and len(values) == 1 else Value(is_int=True)
        case "abs" if are_ints and values[0].least >= 0:
            return replace(values[0], name="", compared=None)
        case "min" if are_ints and len(values) > 1:
            return Value(min(v.least for v in values), min(v.most for v in values), True)
        case "max" if are_ints and len(values) > 1:
            return Value(max(v.least for v in values), max(v.most for v in values), True)
        case "range" if values:
            return Value(goes_over=items_of(values))
    return ANY


def items_of(values: tuple[Value, ...]) -> Value:
    """The items of a range of these."""
    ends = [v if v.is_int else ANY for v in values]
    start, stop = (Value(0, 0, True), ends[0]) if len(ends) == 1 else ends[:2]
    least, most = -LONGEST, LONGEST
    if len(ends) < 3 or ends[2].least > 0:
        least, most = max(least, start.least), min(most, stop.most - 1)
    elif ends[2].most < 0:
        least, most = max(least, stop.least + 1), min(most, start.most)
    return Value(least, max(most, least), True)


def range_of(items: Sequence[Any]) -> range | None:
    """The range that has the items of a tuple, if these are integers of Python's that are equally far from each other."""
    if not items or any(type(x) is not int or abs(x) >= LONGEST // 2 for x in items):
        return None
    step = items[1] - items[0] if len(items) > 1 else 1
    made = range(items[0], items[-1] + step, step) if 0 < abs(step) < 2**31 else range(0)
    return made if [*made] == [*items] else None


def refined(variables: dict[str, Value], truth: Value, is_true: bool) -> dict[str, Value]:
    """The variables where a branch has gone one way."""
    zero = Value(0, 0, True)
    compared = truth.compared or (("!=", truth, zero) if truth.name else None)
    if compared is None:
        return variables
    sign, left, right = compared if is_true else (OPPOSITE[compared[0]], *compared[1:])
    told = dict(variables)
    for value, relation, other in ((left, sign, right), (right, SWAPPED[sign], left)):
        if value.name and other.is_int:
            old = told.get(value.name, ANY)
            least, most = between(
                replace(value, least=max(value.least, old.least), most=min(value.most, old.most)), relation, other
            )
            if least <= most:
                told[value.name] = replace(old, least=least, most=most)
    return told


def between(value: Value, sign: str, other: Value) -> tuple[int, int]:
    least, most = value.least, value.most
    if sign in (">", ">=", "=="):
        least = max(least, other.least + (sign == ">"))
    if sign in ("<", "<=", "=="):
        most = min(most, other.most - (sign == "<"))
    if sign == "!=" and other.least == other.most:
        least, most = least + (least == other.least), most - (most == other.most)
    return least, most
