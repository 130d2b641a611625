"""Symbolic integers: sizes and strides that a compiled program does not fix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Union

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.guards import Guard, Keeps, compared
from npcompile.tensor_core.source import Bound, Compared, Formula, Literal, Source, builtin
from npcompile.tensor_core.source import Call as Called

Size = Union[int, "Dim"]
Atom = Union[str, "Call"]  # a symbol's name, or an integer function that a polynomial cannot express
Monomial = tuple[Atom, ...]
LONGEST_EXPRESSION = 100  # characters of one without a name
MOST_STEPS = 3  # calls that are replaced by what they lie between, to bound a size
HIGHEST_DEGREE = 4  # of a polynomial whose bound is looked for
DEEPEST = 2  # maxima and minima of maxima and minima in a size


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """`fn(a, b)` with fn one of `floordiv mod max min`. Its text says what it is: comparing its arguments would ask."""

    fn: str
    args: tuple[Size, Size]
    text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{self.fn}({self.args[0]}, {self.args[1]})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:  # by which terms are sorted
        return self.text


@dataclass(eq=False, slots=True)
class ShapeEnv:
    """The symbols of one capture: the value each had (its hint) and what was assumed of them (guards).

    A question about a symbolic size is answered for the hint, and the answer becomes a guard, so that the
    compiled program is used only where the answer is the same.
    """

    hints: dict[str, int] = field(default_factory=dict)
    lower: dict[Atom, int] = field(default_factory=dict)  # what symbols and calls are known to be at least
    bounds: dict[tuple[Any, int], int | None] = field(default_factory=dict)  # of polynomials, found before
    guards: dict[Guard, None] = field(default_factory=dict)  # what was assumed, in order
    fixed: set[str] = field(default_factory=set)  # symbols whose value became part of the program
    changed: set[str] = field(default_factory=set)  # symbols that were fixed before, at another value
    changing: set[str] = field(default_factory=set)  # those of them that are not to be fixed again
    names: dict[Source, Bound] = field(default_factory=dict)  # of long expressions of Python numbers
    unknown: set[str] = field(default_factory=set)  # names of random values: they are not there when guards are checked
    kept: dict[str, Callable[[], Exception]] = field(default_factory=dict)  # those that may not be fixed -> what to raise then
    measured: set[str] = field(default_factory=set)  # symbols of sizes that data decides: known when the graph runs
    shown: set[str] = field(default_factory=set)  # those of them that the program's own code has seen, and may have decided by

    def symbol(self, name: str, hint: int, at_least: int | None = None) -> Dim:
        self.hints[name] = hint
        if at_least is not None:
            self.lower[name] = at_least
        return Dim(self, (((name,), 1),))

    def assume(self, guard: Guard) -> None:
        if self.measured and not self.measured.isdisjoint(guard.names()):
            raise Decline("a size that data decides")
        if self.unknown and not self.unknown.isdisjoint(guard.names()):
            raise Decline("a random number decides")
        self.guards[guard] = None

    def answer(self, a: Size, relation: str, b: Size) -> bool:
        """`a == b` or `a < b` for the hints."""
        left, right = evaluate(a, self.hints), evaluate(b, self.hints)
        return left == right if relation == "==" else left < right

    def assume_sizes(self, a: Size, relation: str, b: Size) -> None:
        """That the relation, one of `== != < >=`, holds."""
        self.assume(compared(source_of_size(a), relation, source_of_size(b)))

    def require_other_sizes(self, left: Source, right: Source) -> None:
        """That these are equal is assumed: raise what is to be raised where that leaves one value of a symbol that is kept."""
        names = {*left.names(), *right.names()}
        if len(names) != 1 or (error := self.kept.get(names.pop())) is None:
            return
        if not any(isinstance(each, (Compared, Called)) for side in (left, right) for each in side.walk()):  # remainders, minima
            raise error()

    def learn(self, size: Size) -> None:
        """The size is at least 0, as a guard says."""
        if isinstance(size, Dim) and len(unknown := [term for term in size.terms if term[0]]) == 1:
            monomial, factor = unknown[0]
            if len(monomial) == 1 and factor > 0:
                constant = dict(size.terms).get((), 0)
                low, known = -(constant // factor), self.lower.get(monomial[0])
                self.lower[monomial[0]] = low if known is None else max(low, known)
                self.bounds.clear()

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """What is asked meanwhile becomes no guard: for questions on which no result depends."""
        guards, lower, measured, self.measured = dict(self.guards), dict(self.lower), self.measured, set()
        kept, self.kept = self.kept, {}
        yield
        self.guards, self.lower, self.measured, self.kept = guards, lower, measured, kept
        self.bounds.clear()

    def show(self, size: Dim) -> None:
        """The program's own code sees this size."""
        if self.measured:
            self.shown |= self.measured.intersection(size.symbols())

    def is_measured(self, source: Source) -> bool:
        """Is it made of a size that data decides?"""
        return bool(self.measured) and not self.measured.isdisjoint(source.names())

    def is_random(self, source: Source) -> bool:
        """Is it made of a random value?"""
        return bool(self.unknown) and not self.unknown.isdisjoint(source.names())

    def short(self, expression: Source) -> Source:
        """The expression, or for a long one a name, to which the guards assign its value: steps of a loop do not add up."""
        if len(str(expression)) <= LONGEST_EXPRESSION:
            return expression
        if self.is_measured(expression) or self.is_random(expression):  # not known when guards are asked
            if len(str(expression)) > 50 * LONGEST_EXPRESSION:
                raise Decline("a long expression of Python numbers that the program finds out")
            return expression
        found = self.names.setdefault(expression, Bound(f"n{len(self.names)}"))
        self.guards[Keeps(expression, found.name)] = None  # not Binds: it may be a float
        return found

    def bound(self, size: Size, steps: int = MOST_STEPS) -> int | None:
        """The largest integer that `size` is known to be at least, or None."""
        if isinstance(size, int):
            return size
        key = size.terms, steps
        if key not in self.bounds:
            self.bounds[key] = self._bound(size, steps)
        return self.bounds[key]

    def _bound(self, size: Dim, steps: int) -> int | None:
        known: list[int | None] = [self._sum_of_bounds(size)]
        for monomial, coefficient in size.terms if steps else ():
            if len(monomial) == 1 and isinstance(monomial[0], Call):
                known.append(self._bound_without(size - size.of_term(monomial, coefficient), coefficient, monomial[0], steps - 1))
        return max((b for b in known if b is not None), default=None)

    def _bound_without(self, rest: Size, coefficient: int, call: Call, steps: int) -> int | None:
        """The bound of `rest + coefficient * call`, from polynomials that the call lies between."""
        a, b = call.args
        if call.fn in ("max", "min"):
            bounds = [self.bound(rest + coefficient * each, steps) for each in (a, b)]
            known = [each for each in bounds if each is not None]
            if (call.fn == "max") is (coefficient > 0):  # the sum is the larger of two, and so at least half of both
                both = self.bound(2 * rest + coefficient * (a + b), steps)
                return max(known if both is None else [*known, -(-both // 2)], default=None)
            return min(known) if len(known) == 2 else None
        if (low := self.bound(b, steps)) is None or low <= 0:
            return None
        if call.fn == "mod":
            limits: list[Size] = [0] if coefficient > 0 else [b - 1]
            if coefficient < 0 and (least := self.bound(a, steps)) is not None and least >= 0:
                limits.append(a)
            bounds = [self.bound(rest + coefficient * limit, steps) for limit in limits]
            return max((each for each in bounds if each is not None), default=None)
        if not isinstance(b, int):
            return None
        scaled = self.bound(rest * b + coefficient * (a - b + 1 if coefficient > 0 else a), steps)
        return None if scaled is None else -(-scaled // b)

    def _sum_of_bounds(self, size: Dim) -> int | None:
        """The size as a polynomial in what its symbols are more than their bounds: where no term falls, the constant."""
        shifted: dict[Monomial, int] = {}
        for monomial, coefficient in size.terms:
            bounds = [b for atom in monomial if (b := self._atom_bound(atom)) is not None]
            if len(bounds) < len(monomial) or len(monomial) > HIGHEST_DEGREE:
                return None
            for chosen in itertools.product((True, False), repeat=len(monomial)):
                low = math.prod(b for b, is_bound in zip(bounds, chosen) if is_bound)
                rest = tuple(atom for atom, is_bound in zip(monomial, chosen) if not is_bound)
                shifted[rest] = shifted.get(rest, 0) + coefficient * low
        constant = shifted.pop((), 0)
        return constant if all(c >= 0 for c in shifted.values()) else None

    def _atom_bound(self, atom: Atom) -> int | None:
        learned = self.lower.get(atom)
        found = None if isinstance(atom, str) else self._call_bound(atom)
        return max((b for b in (learned, found) if b is not None), default=None)

    def _call_bound(self, atom: Call) -> int | None:
        bounds = [self.bound(a, 0) for a in atom.args]
        known = [b for b in bounds if b is not None]
        if atom.fn == "max":
            return max(known, default=None)
        if atom.fn == "min":
            return min(known) if len(known) == 2 else None
        if atom.fn == "mod":
            return 0 if bounds[1] is not None and bounds[1] > 0 else None
        divisor = atom.args[1]
        return bounds[0] // divisor if bounds[0] is not None and isinstance(divisor, int) and divisor > 0 else None


class Dim:
    """An integer polynomial in the symbols of a ShapeEnv, in canonical form: equal Dims have equal terms.

    Arithmetic gives Dims (or plain ints when constant). Comparisons answer True or False for the hint and
    record the answer as a guard; `int(dim)` fixes the value by a guard.
    """

    __slots__ = ("env", "terms", "_hash")

    def __init__(self, env: ShapeEnv, terms: tuple[tuple[Monomial, int], ...]):
        self.env, self.terms, self._hash = env, terms, hash(terms)

    # --- arithmetic

    def __add__(self, other: Size) -> Size:
        if type(other) is int and not other:
            return self
        if (theirs := terms_of(other)) is None:
            return NotImplemented
        total = dict(self.terms)
        for monomial, coefficient in theirs:
            total[monomial] = total.get(monomial, 0) + coefficient
        return build(self.env, total)

    def __mul__(self, other: Size) -> Size:
        if type(other) is int and other:  # the order of the terms stays
            return self if other == 1 else Dim(self.env, tuple((m, c * other) for m, c in self.terms))
        if (theirs := terms_of(other)) is None:
            return NotImplemented
        product: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in theirs:
                m = tuple(sorted(m1 + m2, key=repr))
                product[m] = product.get(m, 0) + c1 * c2
        return build(self.env, product)

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + -other if terms_of(other) is not None else NotImplemented

    def __rsub__(self, other: Size) -> Size:
        return -self + other if terms_of(other) is not None else NotImplemented

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Size) -> Size:
        return divide(self, number(other)) if terms_of(other) is not None else NotImplemented

    def __rfloordiv__(self, other: int) -> Size:
        return divide(int(other), self) if terms_of(other) is not None else NotImplemented

    def __mod__(self, other: Size) -> Size:
        return remainder(self, number(other)) if terms_of(other) is not None else NotImplemented

    def __rmod__(self, other: int) -> Size:
        return remainder(int(other), self) if terms_of(other) is not None else NotImplemented

    def __abs__(self) -> Size:
        return maximum(self, -self)

    def of_term(self, monomial: Monomial, coefficient: int) -> Size:
        return build(self.env, {monomial: coefficient})

    # --- questions: answered for the hint, guarded

    def __eq__(self, other: object) -> bool:
        if terms_of(other) is None:
            return NotImplemented
        return ask(self, "==", other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Size) -> bool:
        return ask(self, "<", other)

    def __le__(self, other: Size) -> bool:
        return not ask(other, "<", self)

    def __gt__(self, other: Size) -> bool:
        return ask(other, "<", self)

    def __ge__(self, other: Size) -> bool:
        return not ask(self, "<", other)

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        names = set(self.symbols())
        if names & self.env.changing:
            raise Decline("an integer that changes from call to call is needed as a constant")
        self.env.fixed |= names
        self.env.assume(compared(source_of_size(self), "==", Literal(self.hint)))
        return self.hint

    __int__ = __index__

    # --- identity and text

    def __hash__(self) -> int:
        return self._hash

    def is_identical(self, other: object) -> bool:
        """Structural equality: equal for every value of the symbols. Asks nothing, guards nothing."""
        return isinstance(other, Dim) and self.terms == other.terms

    @property
    def hint(self) -> int:
        return evaluate(self, self.env.hints)

    def symbols(self) -> Iterator[str]:
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    yield atom
                else:
                    for arg in atom.args:
                        if isinstance(arg, Dim):
                            yield from arg.symbols()

    def __str__(self) -> str:
        return text_of(self, python_call)

    def __repr__(self) -> str:
        return f"Dim({self})"


def number(size: Size) -> Size:
    """The size: True and False are the numbers that they are in arithmetic."""
    return size if isinstance(size, Dim) else int(size)


def terms_of(size: object) -> tuple[tuple[Monomial, int], ...] | None:
    if isinstance(size, Dim):
        return size.terms
    if isinstance(size, int):
        return (((), int(size)),) if size else ()
    return None


def build(env: ShapeEnv, terms: dict[Monomial, int]) -> Size:
    kept = tuple(sorted(((m, c) for m, c in terms.items() if c), key=repr))
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    return Dim(env, kept)


def env_of(*sizes: Size) -> ShapeEnv | None:
    return next((s.env for s in sizes if isinstance(s, Dim)), None)


def call(fn: str, a: Size, b: Size) -> Size:
    env = env_of(a, b)
    if env is None:
        return INTEGER_FUNCTIONS[fn](a, b)
    return Dim(env, (((Call(fn, (a, b)),), 1),))


def nesting(size: Size) -> int:
    """How many functions of functions the size is written with."""
    calls = [atom for monomial, _ in size.terms for atom in monomial if isinstance(atom, Call)] if isinstance(size, Dim) else []
    return max((1 + max(map(nesting, call.args)) for call in calls), default=0)


def divide(a: Size, b: Size) -> Size:
    """`a // b` with Python's floor; ZeroDivisionError where Python has it."""
    if b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if isinstance(b, int) and isinstance(a, Dim) and all(c % b == 0 for _, c in a.terms):
        return build(a.env, {m: c // b for m, c in a.terms})
    if isinstance(b, Dim) and len(b.terms) == 1:
        quotient = divide_by_monomial(a, b)
        if quotient is not None:
            return quotient
    return call("floordiv", a, b)


def divide_by_monomial(a: Size, b: Dim) -> Size | None:
    (divisor, by), *_ = b.terms
    quotient: dict[Monomial, int] = {}
    for monomial, coefficient in terms_of(a) or ():
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % by:
            return None
        quotient[tuple(rest)] = coefficient // by
    return build(b.env, quotient)


def remainder(a: Size, b: Size) -> Size:
    """`a % b` with Python's sign; ZeroDivisionError where Python has it."""
    if b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if isinstance(b, int) and isinstance(a, Dim) and all(c % b == 0 for _, c in a.terms):
        return 0
    if isinstance(b, Dim) and len(b.terms) == 1 and divide_by_monomial(a, b) is not None:
        return 0
    return call("mod", a, b)


def maximum(a: Size, b: Size) -> Size:
    """max(a, b) without asking which is larger."""
    return b + at_least_zero(a - b)


def minimum(a: Size, b: Size) -> Size:
    """min(a, b) without asking which is smaller."""
    return a - at_least_zero(a - b)


def at_least_zero(size: Size) -> Size:
    """max(size, 0). All maxima and minima are made of it, so that those which are equal have equal terms."""
    if not isinstance(size, Dim):
        return max(size, 0)
    if (low := size.env.bound(size)) is not None and low >= 0:
        return size
    if (high := size.env.bound(-size)) is not None and high >= 0:
        return 0
    if nesting(size) >= DEEPEST:  # as in a loop that cuts off the end of what it has cut: answers are smaller than expressions
        return 0 if ask(size, "<", 0) else size
    if next(c for monomial, c in size.terms if monomial) < 0:  # max(-n, 0) is max(n, 0) - n
        return call("max", -size, 0) + size
    return call("max", size, 0)


def same(a: Size, b: Size) -> bool:
    """Equal for every value of the symbols: asks nothing, guards nothing."""
    return a.is_identical(b) if isinstance(a, Dim) else not isinstance(b, Dim) and a == b


def ask(a: Size, relation: str, b: Size) -> bool:
    """`a == b` or `a < b`, as `relation` says: for the hint, and guarded unless it is known."""
    known = answer_known(a, relation, b)
    if known is not None:
        return known
    env = env_of(a, b)
    assert env is not None
    answer = env.answer(a, relation, b)
    if env.kept and answer and relation == "==":
        env.require_other_sizes(source_of_size(a), source_of_size(b))
    opposite = {"==": "!=", "<": ">="}[relation]
    env.assume_sizes(a, relation if answer else opposite, b)
    difference = a - b
    if relation == "<":
        env.learn(-difference - 1 if answer else difference)
    elif not answer and env.bound(difference) == 0:
        env.learn(difference - 1)
    elif not answer and env.bound(-difference) == 0:
        env.learn(-difference - 1)
    return answer


def answer_known(a: Size, relation: str, b: Size) -> bool | None:
    """`a == b` or `a < b` where that is the same for all sizes, else None. Asks nothing, guards nothing."""
    difference = a - b
    if isinstance(difference, int):
        return difference == 0 if relation == "==" else difference < 0
    low, high = difference.env.bound(difference), difference.env.bound(-difference)
    if relation == "==" and low == 0 and high == 0:
        return True
    if relation == "==" and ((low is not None and low > 0) or (high is not None and high > 0)):
        return False
    if relation == "<" and low is not None and low >= 0:
        return False
    if relation == "<" and high is not None and high > 0:
        return True
    return None


INTEGER_FUNCTIONS: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}


def evaluate(size: Size, values: dict[str, int]) -> int:
    """The integer that `size` is when its symbols have the given values."""
    if isinstance(size, int):
        return size
    total = 0
    for monomial, coefficient in size.terms:
        for atom in monomial:
            if isinstance(atom, str):
                coefficient *= values[atom]
            else:
                coefficient *= INTEGER_FUNCTIONS[atom.fn](*(evaluate(arg, values) for arg in atom.args))
        total += coefficient
    return total


def hint_of(size: Size) -> int:
    return size.hint if isinstance(size, Dim) else size


def python_call(fn: str, a: str, b: str) -> str:
    infix = {"floordiv": "//", "mod": "%"}
    return f"({a} {infix[fn]} {b})" if fn in infix else f"{fn}({a}, {b})"


def c_call(fn: str, a: str, b: str) -> str:
    """Integer functions as generated C names them; they have Python's signs, not C's."""
    return f"npc_{fn}({a}, {b})"


def text_of(size: Size, print_call=python_call) -> str:  # type: ignore[no-untyped-def]
    """`size` as an expression over its symbols: Python by default, C with `c_call`."""
    if not isinstance(size, Dim):
        return str(size)
    parts = []
    for monomial, coefficient in size.terms:
        factors = [
            atom if isinstance(atom, str) else print_call(atom.fn, *(text_of(arg, print_call) for arg in atom.args))
            for atom in monomial
        ]
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient))
        parts.append("*".join(factors))
    return f"({' + '.join(parts)})" if len(parts) > 1 or "*" in parts[0] else parts[0]


def source_of_size(size: Size) -> Source:
    """`size` as an expression over its symbols, as `text_of` writes it."""
    if not isinstance(size, Dim):
        return Literal(size)
    terms = [source_of_term(monomial, coefficient) for monomial, coefficient in size.terms]
    if len(terms) == 1 and not isinstance(terms[0], Formula):
        return terms[0]
    return Formula(f"({' + '.join(['{}'] * len(terms))})", *terms)


def source_of_term(monomial: Monomial, coefficient: int) -> Source:
    factors = [Bound(atom) if isinstance(atom, str) else source_of_call(atom) for atom in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, Literal(coefficient))
    return factors[0] if len(factors) == 1 else Formula("*".join(["{}"] * len(factors)), *factors)


def source_of_call(call: Call) -> Source:
    arguments = [source_of_size(argument) for argument in call.args]
    if call.fn in ("max", "min"):
        return Called(builtin(max if call.fn == "max" else min), *arguments)
    return Compared(arguments[0], {"floordiv": "//", "mod": "%"}[call.fn], arguments[1])
