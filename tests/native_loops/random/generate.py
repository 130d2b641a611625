"""Random functions whose loops go over single elements: nested loops, branches, numbers of every kind, and errors."""

from __future__ import annotations

import cmath
import linecache
import math
import types
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from tests.random_programs import Choices, Draw

DTYPES = ("f8", "f8", "f8", "f4", "i8", "i8", "i4", "u1", "i2", "u8", "b1")
OPERATORS = ("+", "-", "*", "+", "-", "*", "/", "//", "%", "&", "|", "^")
BY_SMALL = ("<< 3", "<< 40", ">> 1", ">> k", "<< -1")  # others make integers of any length
POWERS = ("** 2", "** 3", "** 5", "/ 2")
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
RANGES = ("range(n)", "range(1, n)", "range(n - 1, -1, -1)", "range(0, n, 2)", "range({outer}, n)", "range({outer})", "A",
          "range(0, n, p)", "range({outer}, n, {outer})", "range(n - 1, {outer}, -p)", "(-1, 0, 1)", "(2, 0)")  # fmt: skip
CONSTANTS = ("0", "1", "2", "3", "-1", "0.5", "1.5", "-2.0", "0.0", "100", "True", "255", "1e300", "2**40")
COMPLEX_DTYPES = ("c16", "c16", "c8", "f8", "f4", "i8")
COMPLEX_OPERATORS = ("+", "-", "*", "+", "-", "*", "/")
COMPLEX_CONSTANTS = ("0", "1", "-2.0", "0.5", "True", "1j", "-0.5j", "(2 - 1.5j)", "0j", "1e200j")
COMPLEX_FUNCTIONS = ("abs", "np.abs", "complex", "bool", "np.conj", "np.real", "np.imag", "np.negative", "np.isfinite", "np.exp",
                     "np.sqrt", "np.add", "np.complex64", "np.complex128", "cmath.exp", "cmath.sqrt", "cmath.phase",
                     "cmath.polar", "np.equal")  # fmt: skip
FUNCTIONS = (
    "abs",
    "int",
    "float",
    "bool",
    "min",
    "max",
    "math.sqrt",
    "math.floor",
    "math.ceil",
    "len",
    "np.sqrt",
    "np.maximum",
    "limited",
    "shifted",
    "np.float32",
    "np.int64",
    "np.uint8",
    "round",
    "math.log",
    "math.isnan",
    *("np.sign", "np.abs", "np.rint", "np.square", "np.minimum", "np.fmax", "np.add", "np.less", "np.logical_and", "np.clip"),
)
OPERANDS = dict.fromkeys(("min", "max", "limited", "np.maximum", "np.minimum", "np.fmax", "np.add", "np.less"), 2)
OPERANDS |= {"np.logical_and": 2, "np.clip": 3, "np.equal": 2}
BEFORE = ("", "", "", "B = A.copy()", "A = B = B.copy()", "B = np.zeros(n + 1)", "B = np.ones(len(A), np.int64)",
          "M = np.empty((n, n)); M[:] = 2")  # fmt: skip
AFTER = ("", "", "A = A[::-1]", "k = A.shape[0] * s", "A[0] = s", "if s > t: return A, k", "B = B[:, None]", "t = np.roll(A, k)",
         "B = np.nonzero(B)[0]")  # fmt: skip
RETURNED = ("s, t, k", "s, t, k", "s", "B", "k, (B, M, A[0])", "M[1:], p, None, 'text', -1.5", "A + 1", "[s, t]", "np.nonzero(A)")
CASTS = ("float", "int", "np.float64", "abs", "np.int32")
LISTS = ("Q = []", "Q = [{cast}(1)]", "Q = [{cast}(2)] * n", "Q = [({cast}(1), 2)]")
OF_LISTS = ("Q.append({cast}({a}))", "Q.append({cast}({a}))", "Q[{i}] = {cast}({a})", "s = Q[{i}]", "t = Q.pop()", "t = len(Q)",
            "s += Q[-1]", "Q.append(({cast}({a}), {i}))", "t, u = Q.pop()", "for u in Q: s += u", "if Q and len(Q) < 9: s = Q[0]",
            "s = sum(Q)", "t = max(Q)", "Q = [{cast}({a})]", "s = np.array(Q)[{i}]", "Q.pop(0)")  # fmt: skip
PARAMETERS = (3, 0.25, True, np.float64(1.5), np.float32(0.5), np.int64(7), np.uint8(200), 2**70)
COMPLEX_PARAMETERS = (1.5 - 2j, np.complex64(0.5j), np.complex128(2), 3)
COMPREHENSIONS = ("s = sum(A[e] * {b} for e in range(n))", "s = sum(e for e in A if e > {a})", "t = max(abs(e) for e in B)",
                  "t = any(e > {a} for e in A)", "t = all({c} for e in range(k))", "s = np.array([e + {b} for e in A])[{i}]",
                  "Q = [{a} for e in B if e > 0]", "t = len([e for e in A if e < {b}])", "s += min(A[e] - e for e in range(n))",
                  "Q = [e * 2 for e in Q]", "s = sum(sum(M[d, e] for e in range(d)) for d in range(n))")  # fmt: skip
PAIRS = ("R = np.zeros((n, 2))", "R = np.ones((n, 2), np.int64)", "R = np.empty((n, 2), np.float32); R[:] = 1", "R = M[:, 1:3]")
SERIAL = count()


def limited(x: Any, most: Any) -> Any:
    """A function with several ways through it, for programs to call."""
    if x > most:
        return most
    return x if x > 0 else shifted(x)


def shifted(x: Any, amount: Any = 2) -> Any:
    y = x * amount
    return y - 1


@dataclass
class LoopProgram:
    source: str
    values: tuple[Any, ...]

    @property
    def arguments(self) -> str:
        """What the arguments are; their elements follow from the program's number."""
        shown = [f"{v.dtype}{v.shape}{v.strides}" if isinstance(v, np.ndarray) else repr(v) for v in self.values]
        return f"  # {', '.join(shown)}"

    def __str__(self) -> str:
        return self.source

    def function(self) -> types.FunctionType:
        filename = f"<loops {next(SERIAL)}>"
        linecache.cache[filename] = (len(self.source), None, self.source.splitlines(True), filename)
        space: dict[str, Any] = {"np": np, "math": math, "cmath": cmath, "limited": limited, "shifted": shifted}
        exec(compile(self.source, filename, "exec"), space)
        made: types.FunctionType = space["program"]
        return made


class Writer(Choices):
    def __init__(self, draw: Draw, is_complex: bool = False):
        super().__init__(draw)
        self.is_complex = is_complex
        self.constants = COMPLEX_CONSTANTS if is_complex else CONSTANTS
        self.operators = COMPLEX_OPERATORS if is_complex else OPERATORS
        self.dtypes = COMPLEX_DTYPES if is_complex else DTYPES
        self.lines: list[str] = []
        self.names = ["s", "t"]  # variables that have a value
        self.indices: list[str] = []
        self.comprehends = self.draw(0, 3) == 0  # in the others no variable is shared with code inside
        self.cast = self.pick(CASTS)  # what is put into the list is of one type, mostly

    def line(self, text: str, depth: int) -> None:
        self.lines.append("    " * depth + text)

    # --- expressions

    def index(self) -> str:
        i = self.pick(self.indices or ["0"])
        return self.pick((i, i, i, f"{i} - 1", f"-{i} - 1", f"{i} + 1", "0", f"{i} // 2", "k"))

    def element(self) -> str:
        if self.draw(0, 2) == 0:
            return f"M[{self.index()}, {self.index()}]"
        return f"{self.pick(('A', 'B', 'A'))}[{self.index()}]"

    def atom(self) -> str:
        return self.pick((self.element, self.element, lambda: self.pick(self.names), lambda: self.pick(self.indices + ["n"]),
                          lambda: self.pick(self.constants), lambda: "p"))()  # fmt: skip

    def expression(self, depth: int = 2) -> str:
        if not depth:
            return self.atom()

        def part() -> str:
            return self.expression(depth - 1)

        return self.weighted(
            (4, self.atom),
            (1, lambda: f"({part()} {self.pick(POWERS if self.is_complex else BY_SMALL)})"),
            (3, lambda: f"({part()} {self.pick(self.operators)} {part()})"),
            (1, lambda: f"({part()} if {self.condition(depth - 1)} else {part()})"),
            (1, lambda: f"({self.pick(('-', '-', 'not ') if self.is_complex else ('-', '-', '~', 'not '))}{self.atom()})"),
            (1, lambda: self.call(depth)),
            (1, lambda: f"({self.condition(depth - 1)})"),
        )

    def call(self, depth: int) -> str:
        if self.is_complex and self.draw(0, 2) == 0:
            return f"({self.atom()}).{self.pick(('real', 'imag', 'conjugate()'))}"
        name = self.pick(COMPLEX_FUNCTIONS if self.is_complex else FUNCTIONS)
        if name == "len":
            return "len(A)"
        return f"{name}({', '.join(self.expression(depth - 1) for _ in range(OPERANDS.get(name, 1)))})"

    def compared(self) -> str:
        return f"abs({self.atom()})" if self.is_complex else self.atom()

    def condition(self, depth: int) -> str:
        one, other, sign = self.expression(depth), self.expression(depth), self.pick(COMPARISONS)
        if self.is_complex and sign not in ("==", "!="):
            one, other = f"abs({one})", f"abs({other})"
        test = f"{one} {sign} {other}"
        kind = self.draw(0, 8)
        if kind == 0 and depth:
            return f"{test} {self.pick(('and', 'or'))} {self.condition(depth - 1)}"
        if kind == 1:
            return f"not {test}"
        if kind == 2:
            return f"{self.compared()} < {self.compared()} <= {self.compared()}"
        if kind == 3:
            return self.pick(("p is None", "p is not None", "p == 'text'", "p in (1, 3)", "q is None", "q == 'text'", "not q"))
        return test

    # --- statements

    def statement(self, depth: int, loops: int) -> None:
        kind = self.draw(0, 12)
        if kind < 4:
            self.line(f"{self.pick(('s', 't', 'u'))} = {self.expression()}", depth)
            self.names = sorted({*self.names, self.lines[-1].split()[0]})
        elif kind < 6:
            self.line(f"{self.pick(('s', 't'))} {self.pick(('+', '-', '*'))}= {self.expression()}", depth)
        elif kind < 9:
            self.line(f"{self.element()} {self.pick(('', '', '+', '-', '*'))}= {self.expression()}", depth)
        elif kind == 9:
            names = list(self.names)
            self.line(f"if {self.condition(1)}:", depth)
            self.block(depth + 1, loops, 2)
            if self.draw(0, 1):
                self.names = list(names)
                self.line("else:", depth)
                self.block(depth + 1, loops, 2)
            self.names = names
        elif kind == 10 and loops and depth > 1:
            self.line(f"if {self.condition(1)}:", depth)
            self.line(self.pick(("break", "continue", "continue", "return s, t, k")), depth + 1)
        elif kind == 11 and loops < 3:
            self.loop(depth, loops)
        elif self.draw(0, 3) == 0:
            text = self.pick(OF_LISTS).format(i=self.index(), a=self.expression(1), cast=self.cast)
            if self.comprehends:
                text = self.pick(COMPREHENSIONS).format(
                    i=self.index(), a=self.expression(1), b=self.element(), c=self.condition(0)
                )
            self.line(text, depth)
            self.names = sorted({*self.names, *["u"] * ("u" in text.split(" =")[0].split(", "))})
        elif self.draw(0, 2):
            text = self.pick(("s, t = t, s", "R[{i}] = {a}, {b}", "s, t = R[{i}]", "R[{i}] += np.array([{a}, {b}])"))
            self.line(text.format(i=self.index(), a=self.expression(1), b=self.expression(1)), depth)
        else:
            self.line("s, t = t, s", depth)

    def block(self, depth: int, loops: int, most: int) -> None:
        for _ in range(self.draw(1, most)):
            self.statement(depth, loops)

    def loop(self, depth: int, loops: int) -> None:
        names = list(self.names)
        i = f"{'ijl'[loops]}"
        if self.draw(0, 5) == 0 and "k" not in self.indices:  # one in another would not end
            self.line("k = 0", depth)
            self.line(f"while k < n{self.pick(('', ' and t < 50', ' - 3'))}:", depth)
            self.line("k += 1", depth + 1)
            self.indices.append("k")
            self.block(depth + 1, loops + 1, 4)
            self.indices.pop()
        else:
            outer = self.indices[-1] if self.indices else "2"
            over = self.pick(RANGES).format(outer=outer)
            if over == "A":
                self.line("for u in A:", depth)
                self.names = sorted({*names, "u"})
                self.block(depth + 1, loops + 1, 4)
            else:
                self.line(f"for {i} in {over}:", depth)
                self.indices.append(i)
                self.block(depth + 1, loops + 1, 5)
                self.indices.pop()
        self.names = names


def draw_program(draw: Draw, is_complex: bool = False) -> LoopProgram:
    w = Writer(draw, is_complex)
    w.line("def program(A, B, M, n, p, q):", 0)
    w.line(f"s, t, k = {w.pick(w.constants)}, {w.pick(w.constants)}, 0", 1)
    w.line(w.pick(BEFORE) or "pass", 1)
    w.line(w.pick(PAIRS), 1)
    w.line(w.pick(LISTS).format(cast=w.cast), 1)
    for _ in range(draw(1, 2)):
        w.loop(1, 0)
        w.line(w.pick(AFTER) or "pass", 1)
    w.line(f"return {w.pick(RETURNED)}, R{w.pick(('', ', Q', ', Q'))}", 1)
    rng = np.random.default_rng(draw(0, 1000))
    n = draw(18, 24)
    arrays = [values(rng, w.pick(w.dtypes), (n,), draw(0, 3)), values(rng, w.pick(w.dtypes), (n,), draw(0, 3))]
    arrays.append(values(rng, w.pick(w.dtypes), (n, n), draw(0, 3)))
    if draw(0, 7) == 0:
        arrays[1] = arrays[0]
    p = w.pick(COMPLEX_PARAMETERS if is_complex else PARAMETERS)
    q = w.pick((None, "text", "", {"text": 1.5}))
    return LoopProgram("\n".join(w.lines) + "\n", (*arrays, n - draw(0, 2), p, q))


def drawn_arguments(w: Writer) -> tuple[Any, ...]:
    """Of `program(A, B, M, n, p)`: two vectors, a matrix, hardly more than their size, a number."""
    rng = np.random.default_rng(w.draw(0, 1000))
    n = w.draw(18, 24)
    arrays = [values(rng, w.pick(DTYPES), shape, w.draw(0, 3)) for shape in ((n,), (n,), (n, n))]
    p = w.pick((3, 0.25, True, np.float64(1.5), np.float32(0.5), np.int64(7)))
    return *arrays, n - w.draw(0, 2), p


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], layout: int) -> np.ndarray:
    made = (rng.standard_normal(shape) * 10).astype(dtype) if dtype[0] != "u" else rng.integers(0, 200, shape).astype(dtype)
    if dtype[0] == "c":
        made.imag = rng.standard_normal(shape)
    if layout == 1:
        wide = np.zeros(tuple(2 * n for n in shape), dtype)[tuple(slice(None, None, 2) for _ in shape)]
        wide[...] = made
        return wide
    if layout == 2:
        return np.ascontiguousarray(made[::-1])[::-1]
    return made
