"""Random nests in which elements need those of rows before: `python -m tests.native_loops.random.nests 1000 --backend cpu`.

Elements near and far in both directions, rows and columns in steps and backwards, sweeps over one row, and numbers that fail.
"""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np

from npcompile.backends.cpu.loops import wavefront
from tests.native_loops.agreement import check
from tests.native_loops.random.generate import LoopProgram, values
from tests.random_programs import Choices, Draw, run_many

ROWS = ("range(2, n - 2)", "range(2, n - 2)", "range(2, n)", "range(n - 3, 1, -1)", "range(2, n - 2, 2)", "range(p, M.shape[0])")
COLUMNS = (
    "range(2, m - 2)",
    "range(2, m - 2)",
    "range(2, m)",
    "range(m - 3, 1, -1)",
    "range(2, m - 2, 3)",
    "range(2, len(A) - 2)",
)
READ = ("M[i{0}, j{1}]", "M[i{0}, j{1}]", "M[i{0}, j{1}]", "A[j{1}]", "B[i{0}]", "V[i{0}, j{1}]")
SWEPT = ("A[j{1}]", "A[j{1}]", "B[j{1}]", "M[i{0}, j{1}]", "V[2, j{1}]")
TABLE = ("M[i {0}, j {1}]", "M[i {0}, j]", "M[i, j {1}]", "A[j]", "A[j - 1]", "B[i - 1]")  # what cells of a table are made of
CELLS = (
    "M[i, j] = {4} + min({0}, {1}, {2})",
    "M[i, j] = min({0} + ({3} != {4}), {1} + 1, {2} + 1)",
    "M[i, j] = max({0} - {4}, {1}, {2} + {3}, 0)",
    "M[i, j] = max({0}, {1} - p, {2} if {3} < {4} else {1})",
    "M[i, j] = abs({0} - {3}) + np.minimum({1}, {2})",
    "M[i, j] = {2} * 0.5 - ({3} > {0}) * {1}",
    "M[i, j] = {2} + (i - j) * {3}",
)
OFFSETS = ("", "", "", " - 1", " - 1", " - 1", " + 1", " - 2", " + 2")
NUMBERS = ("0.5", "2", "p", "i", "j", "1e150")
FORMULAS = (
    "{0} {op} {1}",
    "{0} {op} {1}",
    "0.25 * ({0} {op} {1})",
    "min({0}, {1})",
    "abs({0})",
    "np.maximum({0}, {1})",
    "{0} / {1}",
)
RARE = ("M[i, j - 1] = M[c[j], j - 1]", "s = M[i, j - 1]", "if A[j] > 1: M[i, j] = 0.5", "M[i, 1] = A[j]", "M[i, j] += i % j")


class Writer(Choices):
    def __init__(self, draw: Draw):
        super().__init__(draw)
        self.elements = READ if draw(0, 3) else SWEPT
        self.rows, self.columns = self.pick(ROWS), self.pick(COLUMNS)
        step = 3 if ", 3)" in self.columns else 1
        self.ahead = (f"{'+' if '-1)' in self.columns else '-'} {step}",) * 5 + ("+ 1",)  # where the iteration before has stored

    def element(self) -> str:
        return self.pick(self.elements).format(self.pick(OFFSETS), self.pick(OFFSETS))

    def formula(self, depth: int) -> str:
        if not depth:
            return self.element() if self.draw(0, 5) else self.pick(NUMBERS)
        parts = (self.formula(depth - self.draw(1, 2) if depth > 1 else 0) for _ in range(2))
        return f"({self.pick(FORMULAS).format(*parts, op=self.pick(('+', '-', '*', '+')))})"

    def cell(self) -> str:
        up = "+ 1" if "-1)" in self.rows else "- 2" if ", 2)" in self.rows else "- 1"
        corner, above, left, *others = (text.format(up, self.ahead[0]) for text in TABLE)
        return self.pick(CELLS).format(corner, above, left, self.pick((*others, corner)), self.pick((*others, above)))

    def statement(self) -> str:
        if self.draw(0, 3) == 0:
            return self.cell()
        if self.draw(0, 11) == 0:
            return self.pick(RARE)
        target = self.elements[0].format("", "") if self.draw(0, 5) else self.element()
        before = target.replace("j]", f"j {self.pick(self.ahead)}]")
        return f"{target} = {before} * 0.5 {self.pick(('+', '-'))} {self.formula(self.draw(0, 2))}"


def draw_program(draw: Draw) -> LoopProgram:
    w = Writer(draw)
    lines = ["def program(A, B, M, V, c, n, m, p):", "    s, i, j = 0.5, 0, 0"]
    lines += [f"    for i in {w.rows}:", f"        for j in {w.columns}:"]
    lines += [f"            {w.statement()}" for _ in range(1 if draw(0, 2) else 2)]
    if draw(0, 9) == 0:
        lines.append(f"        {w.pick(('B[i] = M[i, 2]', 's = s + 1', 'm = m - 1'))}")
    lines.append(w.pick(("    return A, B, M",) * 3 + ("    return A, B, M, i",) * 3 + ("    return s, j",)))
    rng = np.random.default_rng(draw(0, 1000))
    n, m = draw(4, 24), draw(4, 40)
    one = w.pick(("f8", "f8", "f8", "f4", "i8"))
    arrays = [
        values(rng, one if draw(0, 15) else w.pick(("f4", "i4")), shape, draw(0, 9))
        for shape in ((m,), (max(m, n),), (n, m), (n, m))
    ]
    match draw(0, 9):
        case 0 | 1:
            arrays[2][draw(0, n - 1), draw(0, m - 1)] = 1e30 if arrays[2].dtype.kind == "f" else 2**31 - 1
        case 2 if arrays[0].dtype.kind == "f":
            arrays[0][draw(0, m - 1)] = w.pick(("inf", "nan"))
        case 3:
            arrays[3] = arrays[2]
        case 4 if n > 5:
            arrays[0] = arrays[2][4]
    p = w.pick((2, 3, 2, np.int64(2), 5))
    return LoopProgram("\n".join(lines) + "\n", (*arrays, rng.integers(0, 4, m), n, m, p))


def check_short_rows(program: LoopProgram, backend: str) -> None:
    """As `check`, with bands of rows that are shorter than it is worth."""
    with mock.patch.object(wavefront, "FEWEST", 1):
        check(program, backend)


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.nests", __doc__, draw_program, check_short_rows))
