"""Random programs of nested control flow under transforms, against differences of themselves.

`python -m tests.gradients.test_random_control 500 --seed 7` runs many, each the same in every run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.random_programs import Choices, Draw, Program, check_examples, run_many

X = np.array([-0.83, 0.27, 0.64, 1.41])
STEP = 1e-5


class Writer(Choices):
    def expression(self, x: str, depth: int) -> str:
        """A smooth function of the variable `x`, between steps."""
        inner = lambda: self.expression(x, depth - 1)  # noqa: E731
        if depth <= 0:
            return self.pick((x, x, f"({x} - 0.31)", f"({x} * 0.7)"))
        return self.weighted(
            (3, lambda: f"np.sin({inner()})"),
            (3, lambda: f"({inner()} * {inner()})"),
            (3, lambda: f"({inner()} + {inner()} * 0.6)"),
            (1, lambda: f"np.tanh({inner()})"),
            (1, lambda: f"abs({inner()})"),
            (1, lambda: f"np.where({x} > {self.number()}, {inner()}, {inner()})"),
            (1, lambda: f"({inner()} if {self.condition(x)} else {inner()})"),
            (1, lambda: f"max({inner()}, {self.number()})"),
            (1, lambda: f"sum([{inner()} * k / 20 for k in range({self.pick((3, 18))})])"),
            (1, lambda: f"sum({inner()} * k / 20 for k in range({self.pick((3, 18))}))"),
            (4, lambda: self.control(x, depth - 1)),
        )

    def number(self) -> str:
        return self.pick(("-0.45", "0.05", "0.45", "0.95"))

    def condition(self, x: str) -> str:
        low, high = self.number(), self.number()
        return self.pick((f"{x} > {low}", f"{x} < {high}", f"{low} < {x} < 1.05", f"({x} > {low} and {x} * {x} < 2)"))

    def function(self, depth: int, first: str = "") -> str:
        name = f"v{depth}"
        return f"lambda {first}{name}: {self.expression(name, depth)}"

    def control(self, x: str, depth: int) -> str:
        """A node of control flow, with others in it."""
        given, name, limit = self.expression(x, depth - 1), f"v{depth}", self.number()
        body = lambda: self.expression(name, depth)  # noqa: E731
        asked = f"{x} > {self.number()}"
        return self.weighted(
            (4, lambda: f"npc.cond({asked}, {self.function(depth)}, {self.function(depth)}, {given})"),
            (1, lambda: f"npc.fori_loop(0, 3, {self.function(depth, 'i, ')}, {given})"),
            (1, lambda: f"npc.while_loop(lambda c: c < {limit}, lambda {name}: abs({body()}) + 0.31 + {name}, {given})"),
            (1, lambda: f"npc.scan(lambda {name}, e: ({body()} * e, {name}), {given}, np.array([0.5, 1.2]))[0]"),
            (1, lambda: f"npc.checkpoint({self.function(depth)})({given})"),
        )


def draw_program(draw: Draw) -> Program:
    writer = Writer(draw)
    lines = ["def f(x):"]
    for _ in range(draw(0, 2)):
        lines += writer.pick(
            (
                [f"    if {writer.condition('x')}:", f"        x = {writer.expression('x', 1)}"],
                [f"    if {writer.condition('x')}:", f"        return {writer.expression('x', 1)} + x"],
                [f"    for k in range({writer.pick((2, 17, 20))}):", f"        x = x + {writer.expression('x', 1)} * k / 200"],
                [f"    x = {writer.expression('x', 2)}"],
            )
        )
    lines.append(f"    return {writer.expression('x', 2)} + x * 0.5")
    return Program("\n".join(lines) + "\n")


TRANSFORMS: dict[str, Callable[[Callable, np.ndarray], Any]] = {
    "vmap of grad": lambda f, x: npc.vmap(npc.grad(f))(x),
    "grad of vmap": lambda f, x: npc.grad(lambda y: np.sum(npc.vmap(f)(y)))(x),
    "vmap of jvp": lambda f, x: npc.vmap(lambda y: npc.jvp(f, (y,), (np.float64(1),))[1])(x),
    "jvp of vmap": lambda f, x: npc.jvp(npc.vmap(f), (x,), (np.ones(len(x)),))[1],
    "grad of each": lambda f, x: np.array([npc.grad(f)(each) for each in x]),
}


def check(program: Program, backend: str) -> None:
    f = program.function
    values, slopes = np.array([f(x) for x in X]), []
    for x in X:
        left, right = (f(x) - f(x - STEP)) / STEP, (f(x + STEP) - f(x)) / STEP
        slopes.append((left + right) / 2 if abs(left - right) < 1e-2 + 1e-3 * abs(left) else np.nan)  # a step, or a kink
    smooth = np.isfinite(slopes) & (np.abs(slopes) < 1e4)
    found = npc.compile(lambda x: npc.vmap(f)(x), backend=backend)(X)
    np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-9, err_msg="vmap")
    for name, call in TRANSFORMS.items():
        found = npc.compile(lambda x: call(f, x), backend=backend)(X)
        expected = np.array(slopes)[smooth]
        np.testing.assert_allclose(np.asarray(found)[smooth], expected, rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("backend", ["eager"])
def test_random_control(backend: str) -> None:
    check_examples(draw_program, check, backend, 20)


if __name__ == "__main__":
    sys.exit(run_many("tests.gradients.test_random_control", __doc__, draw_program, check))
