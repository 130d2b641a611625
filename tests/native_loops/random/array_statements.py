"""Random loops of statements over parts of arrays: `python -m tests.native_loops.random.array_statements 1000 --backend cpu`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from tests.native_loops.agreement import check
from tests.native_loops.random.generate import CONSTANTS, DTYPES, PAIRS, LoopProgram, Writer, values
from tests.random_programs import Draw, run_many

WINDOWS = (
    ":",
    "{i}:",
    ":{i}",
    "{i}:{i} + 4",
    "1:-1",
    "::2",
    "::-1",
    "{i}::3",
    "-{i}:",
    "{i} - 2:{i}:-1",
    "{i}:{j}",
    "2:5",
    "::k",
)
OWNERS = ("A[{w}]", "B[{w}]", "A[{w}]", "M[{i}, {w}]", "M[{w}, {i}]", "M[{i}][{w}]", "M.T[{i}, {w}]", "{v}[{w}]")
OPERATORS = ("+", "-", "*", "+", "-", "*", "/", "&", "|", "^", "//", "<", ">=", "==")
FUNCTIONS = ("np.abs", "np.sqrt", "-", "~", "np.floor", "np.square", "shifted", "np.flip", "np.flipud", "np.sort")
EXTREMES = ("np.minimum", "np.maximum")
REDUCTIONS = ("max", "min", "argmax", "argmin", "any", "all")  # not those whose last bits the order of additions decides


class ArrayWriter(Writer):
    operators, functions, extremes, reductions = OPERATORS, FUNCTIONS, EXTREMES, REDUCTIONS
    comparison, whole = "<", "np.cumsum(B)"

    def __init__(self, draw: Draw):
        super().__init__(draw)
        self.vectors: list[str] = []  # variables that hold one

    def window(self) -> str:
        return self.pick(WINDOWS).format(i=self.pick(self.indices or ["3"]), j=self.pick([*self.indices, "7"]))

    def vector(self, window: str) -> str:
        """Some elements of what has n."""
        i = self.index()
        owner = self.pick(
            ("A[{w}]", "B[{w}]", "A[{w}]", "M[{i}, {w}]", "M[{w}, {i}]", "M[{i}][{w}]", "M.T[{i}, {w}]", "{v}[{w}]")
        )
        v = self.pick(self.vectors) if self.vectors else "B"
        return owner.format(w=window, i=i, v=v)

    def places(self, window: str) -> str:
        return self.pick(("A[P[{w}]]", "B[P[{w}] - 1]", "A[P[{w}] + {i}]")).format(w=window, i=self.pick(self.indices or ["2"]))

    def formula(self, window: str, depth: int = 2) -> str:
        kind = self.draw(0, 9) if depth else 0
        if kind < 3:
            return self.vector(window)
        if kind < 6:
            return f"({self.formula(window, depth - 1)} {self.pick(self.operators)} {self.formula(window, depth - 1)})"
        if kind == 6:
            number = self.pick((self.pick(self.names), self.pick(CONSTANTS), self.element()))
            return f"({self.formula(window, depth - 1)} {self.pick(self.operators)} {number})"
        if kind == 7:
            return f"{self.pick(self.functions)}({self.formula(window, depth - 1)})"
        if kind == 8 and self.draw(0, 2) == 0:
            whole = self.pick(
                (
                    *("M.ravel()", "M.T.reshape(-1)", "(M + 1).reshape(len(B), -1)[k]", "M.reshape(-1, k, n)", self.whole),
                    *("np.arange(3 * n, n, -2)", "np.arange(0.25, n, 0.75)", "np.arange(n, dtype=float)"),
                )
            )
            return f"{whole}[:n][{window}]"
        if kind == 8:
            return self.places(window)
        if self.draw(0, 5) == 0:
            high = self.pick((*CONSTANTS, self.element()))
            return f"np.clip({self.formula(window, depth - 1)}, {self.pick(CONSTANTS)}, {high})"
        a, b = self.formula(window, depth - 1), self.formula(window, depth - 1)
        if self.draw(0, 1):
            return f"{self.pick(self.extremes)}({a}, {b})"
        return f"np.where({self.formula(window, 0)} {self.comparison} {self.pick(CONSTANTS)}, {a}, {b})"

    def statement(self, depth: int, loops: int) -> None:
        kind = self.draw(0, 13)
        window = self.window()
        if kind < 3:
            sign = self.pick(("", "", "+", "-", "*"))
            # A vector that is stored as it is into memory that it shares: NumPy copies that too, but not always first.
            self.line(f"{self.vector(window)} {sign}= {self.formula(window)}{'' if sign else ' * 1'}", depth)
        elif kind == 3:
            self.line(
                f"{self.pick(('M[{w}, {w}]', 'M[{w}]')).format(w=window)} {self.pick(('', '+', '-'))}= {self.matrix(window)}",
                depth,
            )
        elif kind == 4 and self.draw(0, 2) == 0:
            a, b = (self.vector(w) for w in self.pick((("1:", ":-1"), (":", "::-1"), (":", ":"))))
            self.line(f"{self.pick(('v', 'w'))} = {a} if {self.pick(self.indices or ['k'])} % 2 else {b}", depth)
        elif kind == 4:
            self.line(f"{self.pick(('v', 'w'))} = {self.formula(':')}", depth)
            self.vectors = sorted({*self.vectors, self.lines[-1].split()[0]})
        elif kind == 5:
            self.line(f"{self.vector(window)} = {self.pick((self.pick(self.names), self.pick(CONSTANTS)))}", depth)
        elif kind == 6:
            reduced = f"{self.pick(('np.', ''))}{self.pick(self.reductions)}"
            formula = self.formula(window, 1)
            call = f"{reduced}({formula})" if reduced[:3] == "np." else f"({formula}).{reduced}()"
            self.line(f"s = {call} + 0", depth)  # of several zeros NumPy's vectors give one or the other
        elif kind == 7:
            mask = f"({self.formula(window, 1)} {self.comparison} {self.pick(CONSTANTS)})"
            text = self.pick(("{m}.sum()", "np.flatnonzero({m}).sum()", "len({m}.nonzero()[0])", "np.diff({m} * 2).max()"))
            self.line(f"t = {text.format(m=mask)}", depth)
        elif kind == 8:
            reduced = self.pick(("{m}, axis=0", "{m}, axis=1", "({m})[:, None] * M, axis=(1, 2)")).format(m=self.matrix(":"))
            self.line(f"v = np.{self.pick(self.reductions)}({reduced}) + 0", depth)
            self.vectors = sorted({*self.vectors, "v"})
        elif kind == 9:
            self.line("v, w = w, v", depth)
        else:
            super().statement(depth, loops)

    def matrix(self, window: str) -> str:
        a, b = self.vector(window), self.vector(window)
        form = self.pick(
            (
                "np.outer({a}, {b})",
                "np.add.outer({a}, {b})",
                "np.fliplr(M)[{w}, {w}]",
                "M[{w}, {w}] - M[{w}, {w}].max(axis={k}, keepdims=True)",
                "{a} + M[{w}, {w}]",
                "M.T[{w}, {w}] * 2",
                "({a})[:, None] - {b}",
                "M[{w}, {w}]",
                "{s}",
            )
        )
        return form.format(a=a, b=b, w=window, s=self.pick(CONSTANTS), k=self.draw(0, 1))


def draw_program(draw: Draw, form: type[ArrayWriter] = ArrayWriter, dtypes: Sequence[str] = DTYPES) -> LoopProgram:
    w = form(draw)
    w.line("def program(A, B, M, n, p, P):", 0)
    w.line(f"s, t, k = {w.pick(CONSTANTS)}, {w.pick(CONSTANTS)}, 1", 1)
    w.line(w.pick(("v, w = A[::-1], B * 1", "v = w = B * 1", "v = B.copy(); w = v[::2]; w = v")), 1)
    w.vectors = ["v", "w"]
    w.line(w.pick(PAIRS), 1)
    for _ in range(draw(1, 2)):
        w.loop(1, 0)
    w.line("return s, t, k, v, w, R", 1)
    rng = np.random.default_rng(draw(0, 1000))
    n = draw(18, 24)
    arrays = [values(rng, w.pick(dtypes), (n,), draw(0, 3)) for _ in range(2)]
    arrays.append(values(rng, w.pick(dtypes), (n, n), draw(0, 3)))
    if draw(0, 7) == 0:
        arrays[1] = arrays[0]
    elif draw(0, 7) == 0:
        arrays[1] = arrays[2][3]
    p = w.pick((3, 0.25, True, np.float64(1.5), np.float32(0.5)))
    places = rng.integers(0, n - draw(0, 2), n)
    return LoopProgram("\n".join(w.lines) + "\n", (*arrays, n - draw(0, 1), p, places))


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.array_statements", __doc__, draw_program, check))
