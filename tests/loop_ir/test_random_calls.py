"""Random loops that call functions with star arguments, under npc.compile, against Python: to the bit.

`python -m tests.loop_ir.test_random_calls 500 --seed 7` runs many, each the same in every run.
"""

from __future__ import annotations

import sys

import numpy as np

import npcompile as npc
from tests.loop_ir.test_star_arguments import agree
from tests.random_programs import Choices, Draw, Program, check_examples, run_many

# What a function takes, its parameters in expressions, and calls of it with `v` first.
SIGNATURES = (
    (
        "v, a, b",
        ("a", "b"),
        ("v, *args", "*((v,) + args)", "*(v, *args)", "v, *args[::-1]", "v, b=args[0], a=s", "v, args[1], *args[:1]"),
    ),
    ("v, a=1.5, b=k0", ("a", "b"), ("v", "v, *args", "v, **names", "v, *args[:1]", "v, *args, **{}", "v, s, **names")),
    ("v, *rest", ("rest[0]", "len(rest)"), ("v, *args", "v, s, *args", "v, *args, *args", "v, args[1] * s", "v, *(s,)")),
    ("v, *, b=0.5, **others", ("b", "others['a']"), ("v, **names", "v, a=s", "v, a=args[0]", "v, **names, c=s")),
    ("v, pair", ("pair[0]", "pair[-1]"), ("v, args", "v, (s, v)", "v, args + (s,)", "v, (*args, v)", "v, args[:]")),
)


class Writer(Choices):
    """Functions g0, g1 and so on, and a function f that calls these and its argument `h`."""

    def number(self, names: tuple[str, ...], depth: int) -> str:
        inner = lambda: self.number(names, depth - 1)  # noqa: E731
        if depth <= 0:
            return self.pick((*names, *names, "0.5", "-2", "GLOBAL"))
        return self.weighted(
            (5, lambda: f"({inner()} {self.pick('+-*')} {inner()})"),
            (1, lambda: f"({inner()} / {inner()})"),
            (1, lambda: f"abs({inner()})"),
            (1, lambda: f"({inner()} if {inner()} < {inner()} else {inner()})"),
        )

    def function(self, k: int, known: list[int]) -> tuple[list[str], int]:
        """Lines of a function, and which signature it has. It may call those that are `known`, with what it is given."""
        which = self.draw(0, len(SIGNATURES) - 1)
        taken, parts, _ = SIGNATURES[which]
        names = "v", *parts
        lines = []
        if self.draw(0, 3) == 0:
            lines += [f"if {self.number(names, 1)} > {self.number(names, 0)}:", f"    return {self.number(names, 1)}"]
        if self.draw(0, 9) == 0:
            lines += [f"if {self.number(names, 0)} > 6:", "    raise ValueError(f'{v} is too much')"]
        if which == 2 and known and self.draw(0, 1):
            lines += [f"v = g{self.draw(0, k - 1)}(v, *rest)"]
        if self.draw(0, 5) == 0:
            lines += ["for j in range(2):", f"    v = v * 0.5 + {self.number(names, 1)}"]
        return [f"def g{k}({taken}):", *(f"    {line}" for line in (*lines, f"return {self.number(names, 2)}"))], which

    def call(self, known: list[int]) -> str:
        k = self.draw(-1, len(known) - 1)
        if k < 0:
            return f"h({self.pick(('v, *args', '*((v,) + args)', 'v, *args, **{}'))})"
        return f"g{k}({self.pick(SIGNATURES[known[k]][2])})"

    def statement(self, known: list[int]) -> list[str]:
        names = "s", "v", "args[0]", "args[-1]", "k"
        return self.weighted(
            (6, lambda: [f"s = s * 0.5 + {self.call(known)}"]),
            (2, lambda: [f"s += {self.number(names, 2)}"]),
            (2, lambda: [f"if {self.number(names, 1)} < {self.number(names, 1)}:", f"    s -= {self.call(known)}"]),
            (1, lambda: [f"out[k] = {self.call(known)}"]),
            (1, lambda: [f"args = {self.pick(('args[::-1]', '(args[1], args[0])', 'args + ()', 'args[:]', '(s, args[0])'))}"]),
            (1, lambda: [f"v, *_ = {self.call(known)}, s"]),
            (1, lambda: [f"if not args or {self.number(names, 1)} > 40:", "    break"]),
        )


def draw_program(draw: Draw) -> Program:
    writer, lines, known = Writer(draw), ["k0 = 0.25"], list[int]()
    for k in range(draw(1, 3)):
        made, which = writer.function(k, known)
        lines, known = [*lines, *made], [*known, which]
    lines += ["def f(h, x, args, names, out):", f"    s = {writer.pick(('0.0', '1', 'args[0]', 'x[0]'))}"]
    has_other = draw(0, 2)  # what has no program, before the loop and after it
    lines += ["    seen = names.copy()"] * (has_other == 1)
    lines += [writer.pick(("    for k in range(x.size):", "    for k in range(x.size - 1, -1, -1):")), "        v = x[k]"]
    for _ in range(draw(1, 4)):
        lines += [f"        {line}" for line in writer.statement(known)]
    lines += ["    seen = [*names.items(), s]"] * (has_other == 2)
    results = "s", "s, args", "args, s, args[:]", "s, args[:1]", "out, s", "out"
    return Program("\n".join([*lines, f"    return {writer.pick(results)}"]) + "\n")


def check(program: Program, _: str) -> None:
    function = program.function
    compiled, x = npc.compile(function), np.array([0.5, -1.25, 2.0, 0.75, 1.5, -0.5, 3.0, 0.25] * 5)
    with npc.config.patch(tiers="always"):
        for h, args in (
            (lambda v, a, b: v * a - b, (2.0, 0.5)),
            (lambda v, a, b: v * a + b, (2.0, 0.5)),
            (np.add, (2.0,)),
            (lambda v, a, b: v * a - b, (np.float64(-1.5), 3)),
            (lambda v, *rest: v * len(rest), (1, 2)),
            (lambda v, a, b: v * a - b, (1e200, -1e200)),
        ):
            for given in (x, x[:3], np.float32(x)):
                agree(compiled, function, (h, given, args, {"a": 0.5, "b": args[0]}, np.zeros(len(given))), "<random program>")


def test_random_calls() -> None:
    check_examples(draw_program, check, "cpu", 8)


if __name__ == "__main__":
    sys.exit(run_many("tests.loop_ir.test_random_calls", __doc__, draw_program, check))
