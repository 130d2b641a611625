"""Random small functions with loops, as text: numbers that change their types, indices that fail, ways out of loops."""

from __future__ import annotations

import math
import random
from types import FunctionType

import numpy as np

FLOATS, INTEGERS, ARRAYS = ("s", "t", "p"), ("k", "m"), ("x", "y", "z")


class Writer:
    """Writes one function. Every loop ends: those over conditions count down."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.indices: list[str] = []  # variables of the loops around
        self.loops = 0

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def one_in(self, n: int) -> bool:
        return self.random.randrange(n) == 0

    def index(self) -> str:
        known = self.indices[-1] if self.indices else "k"
        return self.pick(known, known, known, f"{known} - 1", f"{known} + 1", "0", "-1", "k", "m")

    def element(self) -> str:
        return f"{self.pick(*ARRAYS)}[{self.index()}]"

    def number(self, depth: int = 0) -> str:
        if depth > 2 or self.one_in(3):
            return self.pick(*FLOATS, "0.5", "-2.0", "0.0", self.element(), self.element())
        if self.one_in(6):
            return f"{self.pick('abs', 'np.sqrt', '-')}({self.number(depth + 1)})"
        return f"({self.number(depth + 1)} {self.pick('+', '-', '*', '*', '/')} {self.number(depth + 1)})"

    def integer(self) -> str:
        return self.pick("k + 1", "k - m", "k * 3", "m % 5", "k // 2", "k + 100", *(f"{i} + k" for i in self.indices[-1:]))

    def condition(self) -> str:
        if self.one_in(3):
            return f"{self.pick('k', *self.indices)} {self.pick('<', '==', '>=')} {self.pick('m', '3', '0')}"
        return f"{self.number(1)} {self.pick('<', '>', '<=')} {self.number(1)}"

    def block(self, depth: int, indent: str, count: int) -> None:
        for _ in range(count):
            self.statement(depth, indent)

    def statement(self, depth: int, indent: str) -> None:
        kind = self.random.randrange(16)
        inside = indent + "    "
        if kind < 4 or depth > 3:
            self.lines.append(f"{indent}{self.pick('s', 't')} = {self.number()}")
        elif kind < 6:
            self.lines.append(f"{indent}{self.pick('s', 't')} {self.pick('+=', '*=')} {self.number(1)}")
        elif kind < 9:
            self.lines.append(f"{indent}{self.element()} = {self.number()}")
        elif kind == 9:
            self.lines.append(f"{indent}k = {self.integer()}")
        elif kind == 10:
            self.lines.append(f"{indent}x, y = y, x")
        elif kind == 11 and self.indices:
            self.lines += [f"{indent}if {self.condition()}:", f"{inside}{self.pick('break', 'continue')}"]
        elif kind < 13:
            self.lines.append(f"{indent}if {self.condition()}:")
            self.block(depth + 1, inside, 1 + self.one_in(2))
            if self.one_in(2):
                self.lines.append(f"{indent}else:")
                self.block(depth + 1, inside, 1)
        elif kind == 13 and depth < 3:
            self.lines += [f"{indent}try:"]
            self.block(depth + 1, inside, 2)
            self.lines += [f"{indent}except {self.pick('IndexError', 'ZeroDivisionError')}:", f"{inside}t = -1.0"]
        elif self.loops < 4 and depth < 3:
            self.loop(depth, indent)
        else:
            self.lines.append(f"{indent}t = {self.number(1)}")

    def loop(self, depth: int, indent: str) -> None:
        self.loops += 1
        name, inside = f"i{self.loops}", indent + "    "
        if self.one_in(4):
            self.lines += [f"{indent}{name} = 0", f"{indent}while {name} < {self.pick('m', '4')} and {self.condition()}:"]
            self.lines.append(f"{inside}{name} += 1")
        else:
            bounds = self.pick("x.size", "len(y)", "m", "1, x.size", "1, x.size - 1", "4", "m, -1, -1")
            self.lines.append(f"{indent}for {name} in range({bounds}):")
        self.indices.append(name)
        self.block(depth + 1, inside, 1 + self.random.randrange(3))
        self.indices.pop()

    def function(self) -> str:
        self.lines = ["def f(x, y, z, p, m):", "    s, t, k = 0.0, 1.0, 0"]
        self.block(0, "    ", self.random.randrange(2))
        self.loop(0, "    ")
        self.block(0, "    ", 1)
        self.lines.append(f"    return {self.pick('s', 't', 'k', 's, x, k', '(x, t)')}")
        return "\n".join(self.lines) + "\n"


TYPED = "typed "  # seeds of functions over arrays of any dtypes begin with it
DTYPES = ("f4", "f4", "f8", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8", "?")
OF_NUMBERS = ("abs", "-", "int", "float", "bool", "not ", "round", "math.floor", "np.sqrt", "np.square", "np.sign", "np.exp",
              "np.float32", "np.int16", "np.uint8", "np.int64", "np.bool_", "np.float64", "np.isnan")  # fmt: skip
OF_TWO = ("np.maximum", "np.minimum", "np.add", "np.hypot", "np.less", "np.logical_and")


def dtypes_of(seed: str) -> list[str]:
    """Of the arrays of a typed function, and of its numbers p."""
    chosen = random.Random(f"dtypes {seed}")
    return [chosen.choice(DTYPES) for _ in range(4)]


class TypedWriter(Writer):
    """The same over numbers of any dtypes: all operators, conversions, functions of numbers."""

    def __init__(self, seed: str):
        super().__init__(seed)
        self.dtypes = dict(zip((*ARRAYS, "p"), dtypes_of(seed)))

    def whole(self) -> str:
        """An integer or a truth value."""
        arrays = [f"{name}[{self.index()}]" for name in ARRAYS if self.dtypes[name][0] in "iu?"]
        return self.pick("k", "m", "3", "True", *self.indices, f"int({self.element()})", *arrays, *arrays)

    def number(self, depth: int = 0) -> str:
        if depth > 2 or self.one_in(3):
            return self.pick(*FLOATS, "0.5", "-2", "0", "100", *[self.element() for _ in range(4)], *self.indices)
        kind = self.random.randrange(12)
        if kind < 2:
            return f"({self.pick(*OF_NUMBERS)}({self.number(depth + 1)}))"
        if kind == 2:
            return f"{self.pick(*OF_TWO)}({self.number(depth + 1)}, {self.number(depth + 1)})"
        if kind == 3:
            return f"({self.number(depth + 1)} if {self.condition()} else {self.number(depth + 1)})"
        if kind == 4:
            return f"({self.whole()} {self.pick('&', '|', '^', '<<', '>>')} {self.whole()})"
        if kind == 5:
            return f"({self.whole()} {self.pick('** 2', '** 3', '// 3', '% 7')})"
        return f"({self.number(depth + 1)} {self.pick('+', '-', '*', '*', '/', '//', '%')} {self.number(depth + 1)})"

    def condition(self) -> str:
        left, right = self.pick(self.element(), self.whole(), *FLOATS), self.pick(self.element(), self.whole(), "0.5")
        return f"{left} {self.pick('<', '>', '<=', '==', '!=')} {right}"


def typed_arguments(seed: str, case: int) -> tuple[object, ...]:
    chosen = random.Random(f"arguments {seed} {case}")
    generator = np.random.default_rng(chosen.randrange(1 << 30))
    scale = chosen.choice((3.0, 3.0, 100.0))
    made = [np.abs(generator.standard_normal(9)) * scale if name[0] in "u?" else generator.standard_normal(9) * scale
            for name in dtypes_of(seed)]  # fmt: skip
    *arrays, numbers = [x.astype(name) for x, name in zip(made, dtypes_of(seed))]
    return (*(x[: chosen.choice((9, 9, 5, 0))] for x in arrays), numbers[0], chosen.choice((0, 1, 3, 5)))


def random_function(seed: str) -> tuple[FunctionType, str]:
    text = (TypedWriter if seed.startswith(TYPED) else Writer)(seed).function()
    namespace: dict[str, FunctionType] = {}
    exec(compile(text, f"<random {seed}>", "exec"), {"np": np, "math": math}, namespace)
    return namespace["f"], text


def random_cases(seed: str) -> list[tuple[object, ...]]:
    if seed.startswith(TYPED):
        return [typed_arguments(seed, case) for case in range(5)]
    return [*(random_arguments(f"{seed} {k}") for k in range(4)), large_arguments(seed)]


def random_arguments(seed: str) -> tuple[object, ...]:
    chosen = random.Random(f"arguments {seed}")
    sizes = [chosen.choice((5, 5, 5, 4, 1, 0)) for _ in range(3)]
    generator = np.random.default_rng(chosen.randrange(1 << 30))
    arrays = [generator.standard_normal(size) * chosen.choice((1.0, 1.0, 1e200)) for size in sizes]
    return (*arrays, chosen.choice((0.5, -1.5, 0.0, 1e308)), chosen.choice((0, 1, 3, 5)))


def large_arguments(seed: str) -> tuple[object, ...]:
    """Arrays of several vectors, sometimes one array twice; in some a number overflows late."""
    chosen = random.Random(f"large arguments {seed}")
    generator = np.random.default_rng(chosen.randrange(1 << 30))
    size = chosen.choice((8, 19, 40))
    arrays = [generator.standard_normal(size) + 2.0 for _ in range(3)]
    if chosen.randrange(3) == 0:
        arrays[1][size - 3] = chosen.choice((1.7e308, np.inf, 0.0))
    if chosen.randrange(4) == 0:
        arrays[chosen.randrange(1, 3)] = arrays[0]
    return (*arrays, chosen.choice((0.5, -1.5)), chosen.choice((3, size)))
