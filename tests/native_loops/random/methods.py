"""Random calls of functions and methods that write: `python -m tests.native_loops.random.methods 1000 --seed 3 --backend cpu`.

Functions call each other, branch, fail after they have written, and set attributes of one or two objects.
"""

from __future__ import annotations

import sys

from tests.native_loops.agreement import check
from tests.native_loops.random.generate import LoopProgram, Writer, drawn_arguments
from tests.random_programs import Draw, run_many

CONSTANTS = ("0", "1", "2", "-1", "0.5", "1.5", "100", "True", "2**40")
RANGES = ("range(n)", "range(n)", "range(1, n)", "range(n - 1, -1, -1)", "range(0, n, 2)")
MADE = ("Thing(A, s, 0)", "Thing(B, 1, p)", "Thing(A[::-1], t, 3)", "Slotted(A, 0.5, 1)")
CLASSES = """
class Thing:
    factor = 2

    def __init__(self, x, a, b):
        self.x, self.a, self.b = x, a, b

    @property
    def both(self):
        return self.a + self.b if self.b > 2 else self.a * self.factor
"""


class MethodWriter(Writer):
    def __init__(self, draw: Draw):
        super().__init__(draw)
        self.callable: list[str] = []  # calls of what is written already
        self.owner = ""  # of the attributes

    def element(self) -> str:
        if self.owner and self.draw(0, 1):
            return self.weighted(
                (2, lambda: f"{self.owner}.a"), (2, lambda: f"{self.owner}.b"), (2, lambda: f"{self.owner}.x[{self.index()}]")
            )
        return f"{self.pick(('A', 'B', 'A'))}[{self.index()}]"

    def atom(self) -> str:
        if "v" not in self.names:
            return super().atom()
        return self.weighted((3, self.element), (3, lambda: "v"), (1, lambda: "i"), (1, lambda: self.pick(CONSTANTS)))

    def call(self, depth: int) -> str:
        return self.weighted((2, lambda: self.own_call(depth)), (1, lambda: super(MethodWriter, self).call(depth)))

    def own_call(self, depth: int) -> str:
        if not self.callable:
            return self.atom()
        return self.pick(self.callable).format(i=self.index(), v=self.expression(depth - 1))

    def effect(self, depth: int) -> None:
        target = self.weighted(
            (2, self.element), (1, lambda: self.pick(self.names)), (2, lambda: f"{self.pick(('A', 'B'))}[{self.index()}]")
        )
        self.line(f"{target} {self.pick(('', '', '+', '-', '*'))}= {self.expression(1)}", depth)

    def way(self, depth: int) -> None:
        """Statements of a function, up to one of its returns."""
        for _ in range(self.draw(0, 2)):
            kind = self.draw(0, 5)
            if kind < 3:
                self.effect(depth)
            elif kind == 3:
                self.line(f"if {self.condition(0)}:", depth)
                self.effect(depth + 1)
            elif kind == 4 and depth < 4:
                self.line(f"if {self.condition(0)}:", depth)
                self.line("pass", depth + 1)
                self.way(depth + 1)
            else:
                self.line(self.own_call(1), depth)
        if self.draw(0, 3):
            self.line(f"return {self.expression(1)}", depth)

    def functions(self) -> None:
        self.indices, self.names = ["i"], ["v"]
        for name in ("f", "g")[: self.draw(0, 2)]:
            self.line(f"def {name}(A, B, k, i, v):", 0)
            self.way(1)
            self.line("return v", 1)
            self.callable.append(f"{name}(A, B, k, {{i}}, {{v}})")
        of_functions = [*self.callable]
        self.lines += CLASSES.splitlines()
        self.owner = "self"
        for name in ("put", "take")[: self.draw(1, 2)]:
            self.line(f"def {name}(self, A, B, k, i, v):", 1)
            self.way(2)
            self.line("return v", 2)
            self.callable.append(f"self.{name}(A, B, k, {{i}}, {{v}})")
        self.line("class Slotted(Thing):", 0)
        self.line(f"factor = {self.pick(CONSTANTS)}; __slots__ = ('extra',)", 1)
        self.owner = "o"
        self.callable = of_functions + [c.replace("self", "o") for c in self.callable[len(of_functions) :]]
        if self.draw(0, 2) == 0:
            self.callable += [c.replace("o.", "q.") for c in self.callable if c.startswith("o.")]
        self.callable += ["o.both"]

    def statement(self, depth: int, loops: int) -> None:
        kind = self.draw(0, 5)
        if kind < 2:
            self.line(self.own_call(1), depth)
        elif kind == 2:
            self.line(f"{self.pick(('s', 't'))} {self.pick(('', '+'))}= {self.own_call(1)}", depth)
        elif kind == 3:
            self.effect(depth)
        else:
            super().statement(depth, loops)


def draw_program(draw: Draw) -> LoopProgram:
    w = MethodWriter(draw)
    w.functions()
    w.line("def program(A, B, M, n, p):", 0)
    w.line(f"s, t, k = {w.pick(CONSTANTS)}, {w.pick(CONSTANTS)}, 0", 1)
    w.line("R = np.zeros((n, 2))", 1)
    w.line(f"o = {w.pick(MADE)}", 1)
    w.line(f"q = {w.pick(('o', *MADE))}", 1)
    w.line(f"for i in {w.pick(RANGES)}:", 1)
    w.indices, w.names = ["i"], ["s", "t"]
    w.block(2, 1, 4)
    w.line("return s, t, k, R, o.a, o.b, o.x, q.a, q.b, q.x", 1)
    return LoopProgram("\n".join(w.lines) + "\n", drawn_arguments(w))


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.methods", __doc__, draw_program, check))
