"""Random loops whose elements need their neighbours: `python -m tests.native_loops.random.time_steps 1000 --backend cpu`.

Rolled arrays, slices of what is written and of what the loop makes, swaps, numbers that change; a few statements that no such
loop may have, or that report something.
"""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np

from npcompile.backends.cpu.loops import stencil_tiling
from tests.native_loops.agreement import check
from tests.native_loops.random.generate import LoopProgram, values
from tests.random_programs import Choices, Draw, run_many

# Of programs with integers, and with floating-point numbers.
OPERATORS = (("+", "-", "*", "+", "-", "&", "+", "-", "^", "//", "<"), ("+", "-", "*", "+", "-", "*", "+", "-", "/", "//", "<"))
CONSTANTS = (("2", "3", "-1", "t", "7", "p"), ("2", "0.5", "-1", "0.25", "s", "p", "t", "c[t % 3]", "0.125"))
DTYPES = (("i1", "i4", "i8", "u1", "i8"), ("f8", "f8", "f8", "f4", "i4"))
LOOPS = ("for t in range(k):", "for t in range(k):", "for t in range(2 * k, 1, -2):", "for t, e in enumerate(c):")
VECTOR, MATRIX = ("A", "v", "w", "A", "u"), ("M", "V", "M", "W", "V")
WHOLE = ("{0}", "{0}", "np.roll({0}, 1{1})", "np.roll({0}, -1{1})", "np.roll({0}, {2}{1})", "np.roll(np.roll({0}, 1{1}), -2{1})")
INSIDE = (
    ("{0}[1:-1]", "{0}[:-2]", "{0}[2:]"),
    ("{0}[1:-1, 1:-1]", "{0}[:-2, 1:-1]", "{0}[1:-1, 2:]", "{0}[2:, :-2]", "{0}[2:, 2:]"),
)
PLACES = (("[1:-1]", "[1:-1]", "[2:]", "[:-2]"), ("[1:-1, 1:-1]", "[1:-1, 1:-1]", "[2:, 1:-1]", "[:-2, 2:]"))
RARE = (
    "A.max()",
    "A[t % 2]",
    "v[::-1]",
    "M[0]",
    "M.T[0]",
    "B[1:]",
    "1e300",
    "0",
    "u[0] * 1",
    "M[t % 2, :2]",
    "(M * 1).max(axis=1)",
)


class Writer(Choices):
    def __init__(self, draw: Draw):
        super().__init__(draw)
        self.rank = 2 if draw(0, 2) else 1
        self.is_float = 1 if draw(0, 2) else 0

    def operator(self) -> str:
        return self.pick(OPERATORS[self.is_float])

    def constant(self) -> str:
        return self.pick(CONSTANTS[self.is_float])

    def name(self) -> str:
        return self.pick(VECTOR if self.rank == 1 else MATRIX)

    def leaf(self, is_inside: bool) -> str:
        if is_inside:
            return self.pick(INSIDE[self.rank - 1]).format(self.name())
        axis = f", {self.draw(0, 1)}" if self.rank == 2 else self.pick(("", ", 0"))
        return self.pick(WHOLE).format(self.name(), axis, self.pick(("t", "3", "-2", "p")))

    def formula(self, depth: int, is_inside: bool) -> str:
        def leaf() -> str:
            return self.leaf(is_inside)

        def part() -> str:
            return self.formula(depth - 1, is_inside)

        if not depth:
            return leaf()
        return self.weighted(
            (3, leaf),
            (4, lambda: f"({part()} {self.operator()} {part()})"),
            (2, lambda: f"({part()} {self.operator()} {self.constant()})"),
            (1, lambda: f"np.where({leaf()} > {self.constant()}, {leaf()}, {leaf()})"),
        )

    def statement(self) -> str:
        made = ("v", "w", "u") if self.rank == 1 else ("V", "W")
        given = "A" if self.rank == 1 else "M"
        places = PLACES[self.rank - 1]
        match self.draw(0, 13):
            case 0 | 1 | 2:
                return f"{self.pick(made)} = {self.formula(2, False)}"
            case 3 | 4 | 5:
                return f"{given}{self.pick(places)} {self.pick(('', '+', '', '*', '-'))}= {self.formula(2, True)}"
            case 6:
                return f"{given}[:] = {self.formula(2, False)}"
            case 7:
                return f"{self.pick((given, *made))} {self.pick(('+', '*', '-'))}= {self.formula(1, False)}"
            case 8:
                return f"s = {self.pick(('s * 0.5', 's + t', 't', 's - p', 'c[t % 3]'))}"
            case 9:
                return f"q = {self.formula(2, bool(self.draw(0, 1)))}"
            case 10 if self.draw(0, 2) == 0:
                return f"{self.pick(made)} = {self.pick(RARE)} * 1"
            case 11 if self.draw(0, 1) == 0:
                return self.pick(
                    ("v, w = w, v", "w = v", "v = A", "V, W = W, V", "c[0] = s", "if t == 2: continue", "V = M", "A = v")
                )
            case 12:
                edge = self.pick(("[0]", "[-1]", "[0]", "[t % 2]", "[2]"))
                if self.rank == 1 and self.draw(0, 5):
                    return f"{given}{edge} = {self.constant()}"
                return (
                    f"{given}{edge} = {self.pick((given, *made))}{self.pick(('[1]', '[-2]', '[0]'))}{self.pick(('', ' * 0.5'))}"
                )
        return f"{self.pick(made)} = {self.formula(1, False)}"


def draw_program(draw: Draw) -> LoopProgram:
    w = Writer(draw)
    header = w.pick(LOOPS)
    lines = ["def program(A, M, B, c, k, p):", "    s, q, t, e = 0.5, 0, 0, 0"]
    lines += ["    v, w, u = A * 1, A.copy(), A + 0", "    V, W = M * 1, M + 0"]
    body = [w.statement() for _ in range(draw(1, 5))]
    if draw(0, 4) == 0:
        lines += ["    for o in range(2):", f"        {header}", *(f"            {s}" for s in body), "        s = 0.25"]
    else:
        lines += [f"    {header}", *(f"        {s}" for s in body)]
    lines.append("    return s, t, v, w, u, V, W, q, A, M")
    rng = np.random.default_rng(draw(0, 1000))
    n = draw(3, 9) * draw(1, 9) * (1 if draw(0, 2) else 29)
    m = draw(3, 30) if draw(0, 2) else n if n < 100 else 200
    one = w.pick(DTYPES[w.is_float])
    dtypes = [one if draw(0, 5) else w.pick(DTYPES[w.is_float]) for _ in range(3)]
    arrays = [values(rng, d, s, 0) for d, s in zip(dtypes, [(n,), (m, n) if n < 100 else (m, 9), (n,)])]
    match draw(0, 29):
        case 0:
            arrays[1] = np.asfortranarray(arrays[1])
        case 1:
            arrays[0] = np.repeat(arrays[0], 2)[::2]
        case 2:
            arrays[0] = arrays[1][1]
        case 3:
            arrays[1] = arrays[1][:1]
    p = w.pick((3, 0.25, True, np.float64(1.5), 2, 5))
    return LoopProgram("\n".join(lines) + "\n", (*arrays, rng.standard_normal(20), draw(17, 22), p))


def check_on_threads(program: LoopProgram, backend: str) -> None:
    """As `check`, for programs of an odd number of lines with parts for threads also where arrays are small."""
    size = 8 if program.source.count("\n") % 2 else stencil_tiling.GRAIN
    with mock.patch.object(stencil_tiling, "GRAIN", size), mock.patch.object(stencil_tiling, "PARALLEL_FROM", size):
        check(program, backend)


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.time_steps", __doc__, draw_program, check_on_threads))
