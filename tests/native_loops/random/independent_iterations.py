"""Random loops, most of them with independent iterations.

`python -m tests.native_loops.random.independent_iterations 1000 --backend cpu`: all that can run on threads does,
however short it is.
"""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np

from npcompile.backends.cpu.loops import parallel_loops
from tests.native_loops.agreement import check
from tests.native_loops.random.generate import CONSTANTS, DTYPES, LoopProgram, Writer, values
from tests.random_programs import Draw, run_many

ALWAYS = {
    "WORTH": -1,
    "WORTH_WHOLE": -1,
    "GRAIN": 1,
    "FEWEST_THREADS": 1,
    "KEPT_BYTES": 10**9,
    "WORTH_KEEPING": -1.0,
    "COPIED": 1e9,
}
LONG_GRAINS = {"GRAIN": 10**9, "PIECES": 1}  # of several iterations
RANGES = ("range(n)", "range(1, n)", "range(n - 1, -1, -1)", "range(0, n, 2)", "range(k, n)", "range(-3, 5)", "range(n // 2)")
ROWS = ("M[i] {op}= B", "M[i, :] {op}= M[i, ::-1]", "M[i, 2:] = {e}", "M[i, 1:] {op}= A[i] * B[:-1]", "M[i, :] = M[0] {op} B")
COLUMNS = ("M[:, i] {op}= B", "M[:, i] = {e}", "M[1:, i] {op}= M[:-1, i] * A[i]", "M[:, i] = M[:, 0] {op} B[::-1]")

SUMS = (
    *("{name} += {e}", "{name} += {e}", "{name} -= {e}", "{name} *= {e}", "{name} = {e} - {name} + {f}", "{name} += 1"),
    *("{name} = max({name}, {e})", "{name} = np.minimum({e}, {name})", "{name} = {name} / {e} * 0.5", "{name} ^= i & 3"),
)


class IndependentWriter(Writer):
    """Iterations have elements and rows of their own, which they find at `i`, and seldom look at others."""

    def __init__(self, draw: Draw):
        super().__init__(draw)
        self.by_rows, self.by_pairs = draw(0, 1) == 1, draw(0, 5) == 0
        self.own = self.pick(("i", "i", "i", "i + 1", "2 * i", "i - 2", "-i"))

    def element(self) -> str:
        if "i" not in self.indices or self.draw(0, 11) == 0:
            return super().element()
        kind, other = self.draw(0, 3), self.pick(self.indices[1:] or ["3", "-1"])
        if kind == 0:
            return f"A[{self.own}]"
        if self.by_pairs:
            return self.pick(("M[i, {}]", "M[{}, i]", "M[i, i]")).format(self.pick(self.indices[1:] or ["i"]))
        return f"M[{self.own}, {other}]" if self.by_rows else f"M[{other}, {self.own}]"

    def sum(self, name: str, depth: int) -> None:
        """What iterations only add to, in order."""
        condition = self.draw(0, 2)
        if condition == 0:
            self.line(f"if {self.expression()} > 0:", depth)
            depth += 1
        self.line(self.pick(SUMS).format(name=name, e=self.expression(), f=self.expression()), depth)
        if condition == 0 and self.draw(0, 1):
            self.line("else:", depth - 1)
            self.line(f"{name} -= {self.expression()}", depth)

    def atom(self) -> str:
        """What is only read may lie anywhere."""
        return f"B[{self.index()}]" if self.indices and self.draw(0, 3) == 0 else super().atom()

    def statement(self, depth: int, loops: int) -> None:
        if "i" in self.indices and not self.by_pairs and self.draw(0, 5) == 0:
            text = self.pick(ROWS if self.by_rows else COLUMNS)
            self.line(text.format(op=self.pick(("+", "-", "*", "/")), e=self.expression(1)).replace("i", self.own, 1), depth)
            return
        super().statement(depth, loops)
        for way_out in ("break", "return s, t, k"):
            if self.lines[-1].strip() == way_out and self.draw(0, 7):
                self.lines[-1] = self.lines[-1].replace(way_out, "continue")


def draw_program(draw: Draw) -> LoopProgram:
    w = IndependentWriter(draw)
    w.line("def program(A, B, M, n, p):", 0)
    w.line("R = np.zeros((n, 2))", 1)
    w.line(f"s, t, u, v, k = {w.pick(CONSTANTS)}, {w.pick(CONSTANTS)}, {w.pick(CONSTANTS)}, {w.pick(CONSTANTS)}, 0", 1)
    depth = draw(1, 2)
    if depth == 2:
        w.line("for k in range(2):", 1)
    w.line(f"for i in {w.pick(RANGES)}:", depth)
    w.indices.append("i")
    w.names = []
    for name in ("s", "t"):
        w.line(f"{name} = {w.expression() if w.names else w.element()}", depth + 1)
        w.names.append(name)
    if draw(0, 3) == 0:
        w.sum("u", depth + 1)
    w.block(depth + 1, 1, 5)
    if draw(0, 2) == 0:
        w.sum("v", depth + 1)
    if w.by_pairs:
        w.line(f"for j in range(i{w.pick(('', '', ' + 1', ' - 1'))}, n):", depth + 1)
        w.indices.append("j")
        w.block(depth + 2, 2, 4)
        w.indices.pop()
    elif draw(0, 1):
        w.loop(depth + 1, 1)
    w.line(w.pick(("return s, t, u, v, R", "return i, v, R", "return u, v, R", "return u, v, R")), 1)
    rng = np.random.default_rng(draw(0, 1000))
    n = draw(18, 24)
    arrays = [values(rng, w.pick(DTYPES), shape, draw(0, 3)) for shape in ((n,), (n,), (n, n))]
    if draw(0, 11) == 0:
        arrays[1] = arrays[0]
    p = w.pick((3, 0.25, True, np.float64(1.5), np.float32(0.5), np.int64(7), np.uint8(200)))
    return LoopProgram("\n".join(w.lines) + "\n", (*arrays, n - draw(0, 2), p))


def check_on_threads(program: LoopProgram, backend: str) -> None:
    grains = LONG_GRAINS if len(program.source) % 2 else {}
    with mock.patch.multiple(parallel_loops, **ALWAYS | grains):
        check(program, backend)


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.independent_iterations", __doc__, draw_program, check_on_threads))
