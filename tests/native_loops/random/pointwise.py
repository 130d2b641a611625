"""Random loops that do the same to each row of whole arrays: `python -m tests.native_loops.random.pointwise 1000 --backend cpu`.

A few of the statements are such that a row needs others, that two names have one memory, or that something is reported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from tests.native_loops.agreement import check
from tests.native_loops.random.generate import DTYPES, LoopProgram, values
from tests.random_programs import Choices, Draw, run_many

OPERATORS = ("+", "-", "*", "+", "-", "*", "+", "-", "*", "/", "//", "<", ">=", "==", "&")
FUNCTIONS = ("np.abs({0})", "-{0}", "-{0}", "np.square({0})", "np.sqrt({0})", "{0}.copy()", "np.floor({0})")
CONSTANTS = ("2", "0.5", "-1", "True", "1.25", "0.75", "s", "p", "t", "c[t % 3]")
LOOPS = (
    "for t in range(k):",
    "for t in range(k):",
    "for t in range(2 * k, 1, -2):",
    "for row in R:",
    "for t, row in enumerate(R):",
)
RARE = (
    "A[1:]",
    "v[::-1]",
    "M[:, ::-1]",
    "B[P]",
    "M.T",
    "A.max()",
    "(M * 1).sum(axis=1)",
    "A[t]",
    "M[0]",
    "v[:n // 2]",
    "1e300",
    "0",
)


class Writer(Choices):
    def __init__(self, draw: Draw):
        super().__init__(draw)
        self.masks: list[str] = []

    def vector(self) -> str:
        return self.pick(("A", "B", "v", "w", "A", "v", "M[:, 0]", "M[:, -1]", "row", "C[t]", "A[:]"))

    def matrix(self) -> str:
        return self.pick(("M", "V", "M[:, :]", "V", "A[:, None]", "B[:, None]", "M[:, 0:1]"))

    def formula(self, depth: int, leaf: Callable[[], str]) -> str:
        if not depth:
            return leaf()

        def part() -> str:
            return self.formula(depth - 1, leaf)

        return self.weighted(
            (3, leaf),
            (4, lambda: f"({part()} {self.pick(OPERATORS)} {part()})"),
            (2, lambda: f"({part()} {self.pick(OPERATORS)} {self.pick(CONSTANTS)})"),
            (1, lambda: self.pick(FUNCTIONS).format(part())),
            (1, lambda: f"np.where({leaf()} > {self.pick(CONSTANTS)}, {part()}, {part()})"),
            (1, lambda: f"np.{self.pick(('minimum', 'maximum'))}({part()}, {part()})"),
        )

    def about_a_matrix(self) -> str:
        """Statements that are about the elements of a matrix, some columns of it, or what masks select."""
        owner = self.pick(("M", "V"))
        part = f"{owner}{self.pick(('[:, 0]', '[:, 1]', '[:, -1]', '[:, 1]', '[:, t % 2]', '[:, :-1]', ''))}"
        signs, numbers = ("+", "-", "*", "+", "-", "*", "/"), (*CONSTANTS, part, f"{part} * 0.5")

        def selected() -> str:
            other = self.pick((f"-{owner}[z]", f"2 - {owner}[z]", f"{owner}[z] * {self.pick(CONSTANTS)}", f"1 / {owner}[z]"))
            return f"{owner}[z] {self.pick(('', '', '+', '*'))}= {other}"

        return self.weighted(
            (3, lambda: f"{part} {self.pick(signs)}= {self.pick(numbers)}"),
            (1, lambda: f"{part} = {self.pick((*FUNCTIONS, '1 / {0}')).format(part)}"),
            (1, lambda: f"z = {self.pick(('M', 'V'))} {self.pick(('<', '>', '!='))} {self.pick(CONSTANTS)}"),
            (2, selected),
            (1, lambda: f"{owner} {self.pick(('+', '*', '-'))}= {self.pick(('M', 'V', 'M * 0.5', '0.1 * V'))}"),
        )

    def statement(self) -> str:
        leaf = self.matrix if self.draw(0, 3) == 0 else self.vector
        names = ("M", "V") if leaf == self.matrix else ("A", "B", "v", "w")
        kind = self.draw(0, 15)
        if kind < 4:
            return f"{self.pick(names[1:])} = {self.formula(2, leaf)}"
        if kind < 7:
            return f"{self.pick(names)} {self.pick(('+', '-', '*', '+', '/'))}= {self.formula(1, leaf)}"
        if kind == 7:
            return f"{self.pick(names)}[:] = {self.formula(2, leaf)} * 1"
        if kind == 8:
            return f"M[:, {self.draw(-1, 1)}] {self.pick(('', '+', '*'))}= {self.formula(1, self.vector)}"
        if kind == 9:
            name = self.pick(("m", "l"))
            self.masks.append(name)
            return f"{name} = {self.formula(1, self.vector)} {self.pick(('<', '>', '!='))} {self.pick(CONSTANTS)}"
        if kind in (10, 11) and self.masks:
            mask = self.pick([*self.masks, *self.masks, "~m"])
            owner = self.pick(("A", "B", "v", "w"))
            other = self.pick((f"{owner}[{mask}]", f"B[{mask}]", f"A[{mask}] * 2", "0.5", "t", f"-A[{mask}] + w[{mask}]"))
            return f"{owner}[{mask}] {self.pick(('', '+', '*'))}= {other}"
        if kind == 12:
            return f"s = {self.pick(('s * 0.5', 's + t', 't', 's - p', 'c[t % 3]'))}"
        if kind == 13 and self.draw(0, 2) == 0:
            return f"{self.pick(('A', 'v', 's'))} = {self.pick(RARE)} * 1"
        if kind == 14 and self.draw(0, 2) == 0:
            return self.pick(("v, w = w, v", "w = v", "B = A", "v = A", "c[0] = s", "if t == 2: continue", "V = M"))
        if kind == 15:
            return f"q = {self.formula(1, self.vector)}"
        return f"v = {self.formula(2, self.vector)}"


def draw_program(draw: Draw) -> LoopProgram:
    w = Writer(draw)
    header = w.pick(LOOPS)
    lines = ["def program(A, B, M, C, n, k, p, P):", "    s, q, c, R = 0.5, 0, np.arange(3.0), C[:20]"]
    lines += ["    v, w, V = A * 1, B.copy(), M + 0", "    m = l = A > 0", "    z = M > 0", "    t, row = 0, C[0]"]
    w.masks = ["m"]
    statement = w.about_a_matrix if draw(0, 3) == 0 else w.statement
    body = [statement() for _ in range(draw(1, 7))]
    if draw(0, 4) == 0:
        lines += ["    for o in range(2):", f"        {header}", *(f"            {s}" for s in body), "        A[0] += 1"]
    else:
        lines += [f"    {header}", *(f"        {s}" for s in body)]
    lines.append("    return s, t, v, w, V, m, l, z, q, A, B, M")
    rng = np.random.default_rng(draw(0, 1000))
    n, k = draw(1, 9) * draw(1, 9) * (1 if draw(0, 2) else 29), draw(17, 22)
    spread = draw(0, 5)
    one = w.pick(DTYPES)
    dtypes = [one if draw(0, 2) else w.pick(DTYPES) for _ in range(4)]
    shapes = [(n,), (n,), (n, draw(2, 4)), (46, n)]
    arrays = [values(rng, d, s, 3 if spread == 0 else 0) for d, s in zip(dtypes, shapes)]
    match draw(0, 14):
        case 0:
            arrays[1] = arrays[0]
        case 1:
            arrays[1] = arrays[2][:, 0]
        case 2:
            arrays[2] = np.asfortranarray(arrays[2])
        case 3:
            arrays[0] = np.repeat(arrays[0], 2)[::2]
        case 4:
            arrays[0] = arrays[3][2]
    p = w.pick((3, 0.25, True, np.float64(1.5), np.float32(0.5)))
    return LoopProgram("\n".join(lines) + "\n", (*arrays, n, k, p, rng.integers(0, n, n)))


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.pointwise", __doc__, draw_program, check))
