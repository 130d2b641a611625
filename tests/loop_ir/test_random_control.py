"""Random programs of fori_loop, while_loop and scan under npc.compile against the eager loops: to the bit, of what is drawn here.

`python -m tests.loop_ir.test_random_control 500 --seed 7` runs many, each the same in every run.
"""

from __future__ import annotations

import sys

import numpy as np

import npcompile as npc
from tests.loop_ir.agreement import happened
from tests.loop_ir.test_aborting import programs
from tests.random_programs import Choices, Draw, Program, check_examples, run_many


class Writer(Choices):
    """Expressions of the names `s` (a number), `u` (an array like x), `k` (an integer), and x, a, n of the function around."""

    def number(self, depth: int) -> str:
        inner = lambda: self.number(depth - 1)  # noqa: E731
        if depth <= 0:
            return self.pick(("s", "s", "a", "GLOBAL", "x[k]", "u[k % 3]", "u[-1]", "0.5", "-2.25", "k"))
        return self.weighted(
            (4, lambda: f"({inner()} {self.pick('+-*')} {inner()})"),
            (1, lambda: f"({inner()} / {inner()})"),
            (1, lambda: f"np.sqrt(abs({inner()}))"),
            (1, lambda: f"abs({inner()})"),
            (1, lambda: f"({inner()} if {inner()} < {inner()} else {inner()})"),
            (1, lambda: f"({inner()}) ** 2"),
            (1, lambda: f"max({inner()}, {inner()})"),
            (1, lambda: f"(u @ {self.array(depth - 1)})"),
            (1, lambda: f"{self.array(depth - 1)}[k % 2]"),
        )

    def array(self, depth: int) -> str:
        inner = lambda: self.array(depth - 1)  # noqa: E731
        if depth <= 0:
            return self.pick(("u", "u", "x", "x[::-1]", "np.zeros_like(x)"))
        return self.weighted(
            (3, lambda: f"({inner()} {self.pick('+-*')} {inner()})"),
            (2, lambda: f"({inner()} * {self.number(depth - 1)})"),
            (1, lambda: f"np.abs({inner()})"),
            (1, lambda: f"np.where({inner()} > {self.number(0)}, {inner()}, {inner()})"),
            (1, lambda: f"np.concatenate([{inner()}[1:], {inner()}[:1]])"),
            (1, lambda: f"np.maximum({inner()}, {inner()})"),
        )

    def step(self) -> list[str]:
        """Lines that set s, u and k anew."""
        lines = []
        for _ in range(self.draw(1, 3)):
            lines += self.weighted(
                (3, lambda: [f"s = {self.number(2)}"]),
                (2, lambda: [f"u = {self.array(2)}"]),
                (1, lambda: [f"if {self.number(1)} > {self.number(1)}:", f"    s = {self.number(1)}"]),
                (1, lambda: [f"for j in range({self.pick(('2', 'k % 3'))}):", f"    s = s * 0.5 + {self.number(1)}"]),
                (1, lambda: ["u = u.copy()", f"u[k % 3] = {self.number(1)}"]),
                (1, lambda: [f"s = npc.fori_loop(0, k, lambda i, c: c * 0.5 + x[i] * {self.number(1)}, s)"]),
            )
        return [*lines, f"s = s * {self.pick(('0.5', '1.0', 'a'))}"]

    def loop(self) -> list[str]:
        """A function of a step, and what calls it."""
        of_index = "def step(k, c):|s, u = c|return s, u"
        head, call = self.pick(
            (
                (of_index, "s, u = npc.fori_loop(0, n, step, (s, u))"),
                (of_index, "s, u = npc.fori_loop(lower=1, upper=3, body_fun=step, init_val=(s, x))"),
                (
                    "def step(c):|k, s, u = c|return k + 1, s, u",
                    "_, s, u = npc.while_loop(lambda c: c[0] < n, step, (0, s, u))",
                ),
                (
                    "def step(c, e):|(k, s), u = c, x|return (k + 1, s + e), s",
                    f"(_, s), v = npc.scan(step, (0, s), x[:2], reverse={self.pick(('True', 'False'))})|u = u * v[1]",
                ),
                (
                    "def step(c, e):|(k, s, u) = c|return (k + 1, s, u), (u * e, u)",
                    "(_, s, u), (v, w) = npc.scan(step, (0, s, u), x[:2])|u = u * v[1] + w[0]",
                ),
                (
                    "def step(c, e):|(k, s, u) = c|return (k + 1, s, u), None",
                    "(_, s, u), _ = npc.scan(step, (0, s, u), length=n)",
                ),
            )
        )
        begins, unpacks, returns = head.split("|")
        return [begins, *(f"    {line}" for line in (unpacks, *self.step(), returns)), *call.split("|")]


def draw_program(draw: Draw) -> Program:
    writer = Writer(draw)
    lines = ["k, u = n % 3, x", f"s = {writer.pick(('0.0', 'a', 'x[0]', '1', 'np.float64(0.5)'))}"]
    for _ in range(draw(1, 2)):
        lines += writer.weighted(
            (4, writer.loop), (1, lambda: [f"u = {writer.array(1)}"]), (1, lambda: [f"s = {writer.number(1)}"])
        )
    lines += [writer.pick(("return s", "return s, u", "return u * s", "return x"))]
    return Program("\n".join(["def f(x, a, n):", *(f"    {line}" for line in lines)]) + "\n")


def check(program: Program, _: str) -> None:
    function = program.function
    with npc.config.patch(tiers="always"):
        compiled = npc.compile(function)
        for arguments in (
            (np.array([0.5, -1.25, 2.0, 0.75, 1.5]), 0.5, 4),
            (np.array([0.5, -1.25, 0.0, np.inf, 1.5]), -1.5, 3),
            (np.array([1.0, 2.0, 3.0]), np.float64(2.0), 0),
        ):
            theirs, ours = happened(function, arguments), happened(compiled, arguments)
            if programs(compiled):  # nodes of graphs have NumPy's numbers where Python's were given, and may say less
                assert theirs.same(ours), (theirs, ours)


def test_random_control() -> None:
    check_examples(draw_program, check, "cpu", 10)


if __name__ == "__main__":
    sys.exit(run_many("tests.loop_ir.test_random_control", __doc__, draw_program, check))
