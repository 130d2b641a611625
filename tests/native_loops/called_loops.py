"""Random loops that call functions with loops: `python -m tests.native_loops.called_loops 1000 --seed 3 --backend cpu`.

Most of the functions only read what they are given; some write to arrays or to a list, so that they must be called once.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.native_loops.agreement import check
from tests.native_loops.generate import CONSTANTS, DTYPES, LoopProgram, Writer, values
from tests.random_programs import Draw, run_many

RANGES = ("range(n)", "range(i)", "range(1, n)", "range(0, n, 2)", "range(i, n)", "range(3)")
ARGUMENTS = ("A, B, M, n", "B, A, M.T, n", "M[{i}], M[:, {i}], M, n", "A[1:], B[::-1], M, n - 1", "A, A, M, {i}")


class CalledWriter(Writer):
    def __init__(self, draw: Draw):
        super().__init__(draw)
        self.callable: list[str] = []  # calls of what is written already
        self.is_pure = False  # is what is being written a function that only reads?

    def call(self, depth: int) -> str:
        return self.weighted((3, lambda: self.own_call(depth)), (2, lambda: super(CalledWriter, self).call(depth)))

    def own_call(self, depth: int) -> str:
        if not self.callable:
            return self.atom()
        arrays = self.pick(ARGUMENTS).format(i=self.pick(self.indices or ["0"]))
        return self.pick(self.callable).format(arrays=arrays, i=self.index(), v=self.expression(depth - 1))

    def step(self, depth: int) -> None:
        """A statement of a function's loop."""
        kind = self.draw(0, 9)
        if kind < 4:
            self.line(f"{self.pick(('s', 't'))} {self.pick(('', '+', '-', '*'))}= {self.expression(1)}", depth)
        elif kind < 6:
            self.line(f"if {self.condition(0)}:", depth)
            self.line(self.pick(("break", "continue", "return s", "return t", "s, t = t, s", "s = 0")), depth + 1)
        elif kind == 6:
            self.line(f"for l in {self.pick(('range(3)', 'range(j)'))}:", depth)
            self.line(f"s = {self.expression(1)}", depth + 1)
        elif kind == 7:
            self.line("for u in A:", depth)
            self.line(f"t {self.pick(('', '+'))}= {self.pick(('u', 'u * s', 'abs(u)'))}", depth + 1)
        elif kind == 8 and not self.is_pure:
            self.line(f"{self.element()} {self.pick(('', '+'))}= {self.expression(1)}", depth)
        else:
            self.line(f"s, t = t, {self.expression(1)}", depth)

    def functions(self) -> None:
        for name in ("f", "g")[: self.draw(1, 2)]:
            self.is_pure, self.indices, self.names = self.draw(0, 4) > 0, ["i"], ["s", "t", "v"]
            self.line(f"def {name}(A, B, M, n, k, p, i, v={self.pick(CONSTANTS)}):", 0)
            self.line(f"s, t = {self.pick(('v', *CONSTANTS))}, {self.pick(CONSTANTS)}", 1)
            for _ in range(self.draw(1, 2)):
                if self.draw(0, 4):
                    self.line(f"for j in {self.pick(RANGES)}:", 1)
                else:
                    self.line("j = 0", 1)
                    self.line(f"while j < n{self.pick(('', ' - 3'))}:", 1)
                    self.line("j += 1", 2)
                self.indices = ["j", "i"]
                for _ in range(self.draw(1, 3)):
                    self.step(2)
                self.indices = ["i"]
                if self.draw(0, 3) == 0:
                    self.line(f"else: t = {self.expression(1)}", 1)
            self.line(self.pick(("return s", "return t", "return s + t", "return s", "return s if s > t else v")), 1)
            self.callable.append(f"{name}({{arrays}}, k, p, {{i}}{self.pick((', {v}', ', v={v}', ''))})")

    def statement(self, depth: int, loops: int) -> None:
        kind = self.draw(0, 5)
        if kind < 3:
            self.line(f"{self.pick(('s', 't'))} {self.pick(('', '+'))}= {self.own_call(1)}", depth)
        elif kind == 3:
            self.line(f"{self.element()} {self.pick(('', '+'))}= {self.own_call(1)}", depth)
        else:
            super().statement(depth, loops)


def draw_program(draw: Draw) -> LoopProgram:
    w = CalledWriter(draw)
    w.functions()
    w.indices, w.names = [], ["s", "t"]
    w.line("def program(A, B, M, n, p, q):", 0)
    w.line(f"s, t, k = {w.pick(CONSTANTS)}, {w.pick(CONSTANTS)}, 0", 1)
    w.line("R, Q = np.zeros((n, 2)), []", 1)
    w.line(f"for i in {w.pick(('range(n)', 'range(1, n)', 'range(n - 1, -1, -1)'))}:", 1)
    w.indices = ["i"]
    w.block(2, 1, 4)
    w.line("return s, t, k, R, Q", 1)
    rng = np.random.default_rng(draw(0, 1000))
    n = draw(18, 24)
    arrays = [values(rng, w.pick(DTYPES), shape, draw(0, 3)) for shape in ((n,), (n,), (n, n))]
    p = w.pick((3, 0.25, True, np.float64(1.5), np.float32(0.5), np.int64(7)))
    return LoopProgram("\n".join(w.lines) + "\n", (*arrays, n - draw(0, 2), p, None))


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.called_loops", __doc__, draw_program, check))
