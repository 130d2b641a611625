"""Random nests whose innermost loops go on in variables: `python -m tests.native_loops.random.inner_sums 1000 --backend cpu`.

Sums, products and recurrences over one or two loops inside, of rows, columns and vectors in steps and backwards; elements stored
once and twice, arrays that are read too, and numbers that fail.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.native_loops.agreement import check
from tests.native_loops.random.generate import LoopProgram, values
from tests.random_programs import Choices, Draw, run_many

LANES = ("range(n)", "range(n)", "range(i, n)", "range(i + 1, n)", "range(1, n, 2)", "range(n - 1, -1, -1)")
INSIDE = ("range(m)", "range(m)", "range(3)", "range(1, m)", "range(m - 1, -1, -1)", "range(0, m, 2)", "range(p)")
ELEMENTS = (
    "X[j, k]",
    "X[j, k]",
    "Y[k, j]",
    "Y[k, j]",
    "X[i, k]",
    "A[j]",
    "A[k]",
    "A[-k - 1]",
    "X[-1, k]",
    "X[j - 1, k]",
    "Y[k, i]",
)
NUMBERS = ("0.5", "2", "p", "j", "k", "i - j", "s")
FORMULAS = (
    "{0} * {1}",
    "{0} * {1}",
    "{0} - {1}",
    "({0} - {1}) ** 2",
    "{0} / {1}",
    "abs({0})",
    "min({0}, {1})",
    "np.sqrt(abs({0}))",
)
UPDATES = ("s += {0}", "s += {0}", "s -= {0}", "s = s * 0.5 + {0}", "s = max(s, {0})", "s, t = s + {0}, t - {0}", "t = {0}")
STORES = (
    "O[i, j] = s",
    "O[i, j] = s",
    "O[j, i] = s",
    "O[i, j] = O[j, i] = s",
    "O[i, j] = t + s",
    "A[j] = s",
    "O[i, j] += s",
    "O[0, 1] = s",
)
RARE = ("X[j, 0] = s", "if s > 3: s = 1.0", "t = t + s", "if s < -40: break", "O[i, j - 1] = s")
BEGIN = ("s = t = 0.0", "s = t = 0.0", "s = t = X[j, 0]", "s, t = 0.0, 1.0", "s, t = A[j], 0", "s = 0")


class Writer(Choices):
    def value(self, depth: int) -> str:
        if not depth:
            return self.pick(ELEMENTS) if self.draw(0, 4) else self.pick(NUMBERS)
        return f"({self.pick(FORMULAS).format(self.value(depth - 1), self.value(0))})"

    def updates(self, indent: str) -> list[str]:
        return [indent + self.pick(UPDATES).format(self.value(self.draw(0, 2))) for _ in range(self.draw(1, 2))]


def draw_program(draw: Draw) -> LoopProgram:
    w = Writer(draw)
    lines = ["def program(X, Y, O, A, n, m, p):", "    s = t = 0.0", "    i = j = k = 0"]
    lines += ["    for i in range(n):", f"        for j in {w.pick(LANES)}:"]
    if draw(0, 5):
        lines.append(f"            {w.pick(BEGIN)}")
    for _ in range(1 if draw(0, 3) else 2):
        lines.append(f"            for k in {w.pick(INSIDE)}:")
        if draw(0, 4) == 0:
            lines += ["                for q in range(2):", *w.updates(" " * 20)]
        else:
            lines += w.updates(" " * 16)
    if draw(0, 6) == 0:
        lines.append(f"            {w.pick(RARE)}")
    lines += [f"            {w.pick(STORES)}" for _ in range(1 if draw(0, 3) else 2)]
    lines.append(w.pick(("    return X, O, A", "    return O, A, s, t", "    return O, i, j, k, s")))
    rng = np.random.default_rng(draw(0, 1000))
    n, m = draw(3, 26), draw(2, 9)
    one = w.pick(("f8", "f8", "f8", "f8", "f4", "i8"))
    X, Y, out, A = (values(rng, one, shape, draw(0, 9)) for shape in ((n, m), (m, n), (n, n), (max(n, m),)))
    match draw(0, 9):
        case 0 | 1:
            X[draw(0, n - 1), draw(0, m - 1)] = 1e30 if one != "i8" else 2**31 - 1
        case 2 if one == "f8":
            Y[draw(0, m - 1), draw(0, n - 1)] = w.pick((np.inf, np.nan, 1e300))
        case 3 if n > m:
            X = out[:, :m]
        case 4:
            A = out[n // 2] if n >= m else A
        case 5:
            X[:] = np.round(X)
    return LoopProgram("\n".join(lines) + "\n", (X, Y, out, A, n, m, w.pick((2, 3, np.int64(2), 5))))


if __name__ == "__main__":
    sys.exit(run_many("tests.native_loops.random.inner_sums", __doc__, draw_program, check))
