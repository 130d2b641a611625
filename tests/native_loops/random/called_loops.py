"""Random loops that call functions with loops: `python -m tests.native_loops.random.called_loops 1000 --seed 3 --backend cpu`.

Most of the functions only read what they are given; some write to arrays or to a list, so that they must be called once. The
iterations of half of the loops that call them are independent, but for what the functions do.
"""

from __future__ import annotations

import sys

from tests.native_loops.random.generate import CONSTANTS, LoopProgram, Writer, drawn_arguments
from tests.native_loops.random.independent_iterations import check_on_threads
from tests.random_programs import Draw, run_many

RANGES = ("range(n)", "range(i)", "range(1, n)", "range(0, n, 2)", "range(i, n)", "range(3)")
READ = ("B, B[::-1], M, n", "M[{i}], M[:, {i}], M, n", "B[1:], M[{i}, 1:], M.T, n - 1", "B, B, M, {i}")
ARGUMENTS = ("A, B, M, n", "B, A, M.T, n", "M[{i}], M[:, {i}], M, n", "A[1:], B[::-1], M, n - 1", "A, A, M, {i}")


class CalledWriter(Writer):
    def __init__(self, draw: Draw):
        super().__init__(draw)
        self.callable: list[str] = []  # calls of what is written already
        self.is_pure = False  # is what is being written a function that only reads?
        self.is_independent = draw(0, 1) == 1

    def call(self, depth: int) -> str:
        return self.weighted((3, lambda: self.own_call(depth)), (2, lambda: super(CalledWriter, self).call(depth)))

    def own_call(self, depth: int) -> str:
        if not self.callable:
            return self.atom()
        arrays = self.pick(READ if self.is_independent else ARGUMENTS).format(i=self.pick(self.indices or ["0"]))
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
            self.is_pure, self.indices, self.names = self.draw(0, 9 if self.is_independent else 4) > 0, ["i"], ["s", "t", "v"]
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
        if self.is_independent and loops == 1:
            target = self.pick(("C[i]", "A[i]", "C[n - i]", "D[i, 1]", "D[i, j]")) if kind else "s"
            if target == "D[i, j]":
                self.line("for j in range(n):", depth)
                self.indices.append("j")
                self.line(f"{target} {self.pick(('', '+'))}= {self.own_call(1)}", depth + 1)
                self.indices.pop()
            else:
                self.line(f"{target} {self.pick(('', '+', '-'))}= {self.own_call(1)}", depth)
            return
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
    w.line("R, Q, C, D = np.zeros((n, 2)), [], np.zeros(n + 1), np.ones((n, n))", 1)
    w.line(f"for i in {w.pick(('range(n)', 'range(1, n)', 'range(n - 1, -1, -1)'))}:", 1)
    w.indices = ["i"]
    if w.is_independent:
        w.line("s, t = B[i], 0.5", 2)
    w.block(2, 1, 4)
    w.line("return s, t, k, R, Q, C, D", 1)
    return LoopProgram("\n".join(w.lines) + "\n", (*drawn_arguments(w), None))


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.called_loops", __doc__, draw_program, check_on_threads))
