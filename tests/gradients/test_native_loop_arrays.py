"""Loops whose statements are about rows and small vectors have native gradients too, which differences agree with."""

from __future__ import annotations

import copy
import random
import sys
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loop_ir.native import compile_native
from npcompile.loop_gradients import LoopGradients
from npcompile.loop_questions import Question
from tests.gradients.test_native_loops import numbers

STEP = 1e-6


def rate(y, p):
    return np.array([y[0] * (p[0] - p[1] * y[1]), y[1] * (p[2] * y[0] - p[3])])


def runge_kutta(p, y, steps):
    h = 0.05
    for _ in range(steps):
        a = rate(y, p)
        b = rate(y + 0.5 * h * a, p)
        c = rate(y + 0.5 * h * b, p)
        y = y + h / 6.0 * (a + 4.0 * b + rate(y - h * a + 2.0 * h * c, p))
    return y[0] + 2.0 * y[1]


def recurrent(w, u, b, x):
    h, total = np.zeros(b.size), 0.0
    for t in range(x.shape[0]):
        h = np.tanh(w @ h + u @ x[t] + b)
        total = total + np.sum(h * h)
    return total


def heat(u, a, steps):
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += a * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return (u * u).sum()


def both_kept(x):
    before, now, total = np.ones_like(x), x, 0.0
    for _ in range(5):
        new = now * before + 0.1
        before, now = now, new
        total = total + now @ before
    return total


def newton(x, a):
    y, k = x, 0
    while np.sum((y * y - a) * (y * y - a)) > 1e-9:
        y = 0.5 * (y + a / y)
        k += 1
        if k > 3:
            break
    return y.sum()


def rows(x):
    m = np.full((x.size, 3), 0.5)
    for i in range(x.size):
        m[i] = x[i]
        m[i, 1:] = np.array([1.0, x[i] * 2.0]) * x[0]
        m[0] = m[i] - m[0]
    for row in m:
        row *= np.exp(-row)
    return np.sum(m) + np.dot(m[1], m[0])


def written(x, y):
    """What is handed on is stored into: `total` sees it under both names."""
    kept, total = np.zeros(2), 0.0
    now = x
    for i in range(3):
        now[0] = now[0] * 0.5 + y[1]
        total = total + x[0] * now[1]
        kept = kept + now
    return total * kept[0]


CASES = [
    (runge_kutta, (np.array([1.5, 1.0, 1.0, 3.0]), np.array([1.0, 1.0]), 7), (0, 1)),
    (runge_kutta, (np.array([1.5, 1.0, 1.0, 3.0]), np.array([1.0, 1.0]), 0), (0, 1)),
    (
        recurrent,
        (numbers(16).reshape(4, 4), numbers(12, 1).reshape(4, 3), numbers(4, 2), numbers(18, 3).reshape(6, 3)),
        (0, 1, 2, 3),
    ),
    (heat, (numbers(9), 0.2, 5), (0, 1)),
    (both_kept, (numbers(4),), (0,)),
    (newton, (numbers(4) + 1.0, numbers(4, 1) + 1.0), (0, 1)),
    (newton, (numbers(4) + 1.0, numbers(4) ** 2), (0,)),
    (rows, (numbers(4),), (0,)),
]


def differences(function: Any, arguments: Any, k: int) -> np.ndarray:
    found = np.zeros(np.shape(arguments[k]))
    for index in np.ndindex(found.shape):
        values = []
        for step in (STEP, -STEP):
            moved = list(copy.deepcopy(arguments))
            if index:
                moved[k][index] += step
            else:
                moved[k] += step
            values.append(function(*moved))
        found[index] = (values[0] - values[1]) / (2 * STEP)
    return found


def agrees(function: Any, arguments: Any, argnums: tuple[int, ...], found: Any, mine: Any) -> None:
    given = copy.deepcopy(arguments)
    np.testing.assert_allclose(found[0], function(*given), rtol=1e-9)
    for x, y in zip(mine, given, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)
    for k, gradient in zip(argnums, found[1:], strict=True):
        wanted = differences(function, arguments, k)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5 * (1 + np.abs(wanted).max(initial=0)))


@pytest.mark.parametrize(
    ("function", "arguments", "argnums"), CASES, ids=[f"{case[0].__name__}-{k}" for k, case in enumerate(CASES)]
)
def test_statements_about_arrays(function: Any, arguments: Any, argnums: tuple[int, ...]) -> None:
    transformed, mine = npc.value_and_grad(function, argnums), copy.deepcopy(arguments)
    value, gradients = transformed(*mine)
    # From 3.12 on a `while` asks its condition in two places, and what is left in several is no program while arrays are carried.
    is_native = function is not newton or sys.version_info < (3, 12)
    assert bool(transformed._made.loops.versions) is is_native, transformed._made.loops.reasons
    assert not any(version.aborts for version in transformed._made.loops.versions)
    agrees(function, arguments, argnums, (value, *gradients), mine)


def test_what_is_stored_into_is_not_copied() -> None:
    arguments = (numbers(2), numbers(2, 1))
    found = npc.value_and_grad(written, (0, 1))(*copy.deepcopy(arguments))
    np.testing.assert_allclose(found[0], written(*copy.deepcopy(arguments)))
    for k, gradient in enumerate(found[1]):
        np.testing.assert_allclose(gradient, differences(written, arguments, k), rtol=1e-4, atol=1e-6)


def test_shapes_that_differ_are_left_to_others() -> None:
    def f(x, y):
        total = 0.0
        for _ in range(3):
            total = total + np.sum(x * y)
        return total

    gradient = npc.grad(f)
    np.testing.assert_allclose(gradient(numbers(3), np.ones(1)), np.full(3, 3.0))
    with pytest.raises(ValueError, match="broadcast"):
        gradient(numbers(3), np.ones(2))


def smoothed(x, alpha):
    y = np.empty_like(x)
    s = x[0]
    for i in range(len(x)):
        s = alpha * x[i] + (1 - alpha) * s
        y[i] = s
    return y


def distance(x, alpha, target):
    d = smoothed(x, alpha) - target
    return (d * d).mean() + np.mean(smoothed(target, alpha))


@pytest.mark.parametrize("n", [7, 20_000])
def test_a_function_whose_loops_are_in_functions_that_it_calls(n: int) -> None:
    """Statements about long arrays outside of loops run once: they are no reason for a graph."""
    x, target, alpha, step = np.linspace(-1, 2, n), np.cos(np.arange(n)), 0.3, 1e-6
    gradient = npc.grad(distance, argnums=(0, 1))
    along_x, along_alpha = gradient(x, alpha, target)
    assert gradient._made.loops.versions and not gradient._made.loops.reasons
    slope = (distance(x, alpha + step, target) - distance(x, alpha - step, target)) / (2 * step)
    np.testing.assert_allclose(along_alpha, slope, rtol=1e-6)
    slope = (distance(x * (1 + step), alpha, target) - distance(x * (1 - step), alpha, target)) / (2 * step)
    np.testing.assert_allclose((along_x * x).sum(), slope, rtol=1e-6)


def test_long_arrays_are_graphs() -> None:
    def f(x):
        y = x
        for _ in range(3):
            y = y * x
        return np.sum(y)

    gradient = npc.grad(f)
    np.testing.assert_allclose(gradient(np.ones(20_000)), np.full(20_000, 4.0))
    assert list(gradient._made.loops.reasons.values()) == ["statements about long arrays"]


class Writer:
    """Writes a function of two vectors, a square matrix and a number."""

    def __init__(self, seed: int):
        self.random = random.Random(f"arrays {seed}")
        self.lines: list[str] = []
        self.loops = 0

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def vector(self, depth: int = 0) -> str:
        kind = self.random.randrange(9)
        if depth > 2 or kind < 3:
            return self.pick("u", "v", "w", "x", "y", "m[k]", "m[0]")
        if kind == 3:
            return f"{self.pick('np.sin', 'np.tanh', '-')}({self.vector(depth + 1)})"
        if kind == 4:
            return f"(m @ {self.pick('u', 'v', 'x')})"
        if kind == 5:
            return f"({self.number()} * {self.vector(depth + 1)})"
        return f"({self.vector(depth + 1)} {self.pick('+', '-', '*')} {self.vector(depth + 1)})"

    def number(self) -> str:
        return self.pick("p", "s", "0.5", "u[k]", "x[0]", "v[-1]", "m[k, 1]", "np.sum(u)", "(u @ y)", "(x * v).sum()")

    def statement(self, depth: int, indent: str) -> None:
        pick, kind, inside = self.pick, self.random.randrange(14), indent + "    "
        if kind < 5:
            self.lines.append(f"{indent}{pick('u', 'v', 'w')} = 0.3 * {self.vector()}")
        elif kind == 5:
            self.lines.append(f"{indent}s = 0.5 * s + np.tanh({self.number()})")
        elif kind == 6:
            place = f"{pick('u', 'w', 'y', 'm')}[{pick('k', '0', '1:', ':-1', ':')}]"
            self.lines.append(f"{indent}{place} = 0.2 * {self.number()}")
        elif kind == 7:
            place = pick("m[k]", "m[:, 1]", "m[1, :]", "w[:]", "y[:]")
            self.lines.append(f"{indent}{place} {pick('=', '+=')} 0.3 * {self.vector()}")
        elif kind == 8:
            self.lines.append(f"{indent}u, v = v, u")
        elif kind == 9:
            self.lines.append(f"{indent}{pick('u', 'v')} {pick('+=', '*=', '-=')} 0.1 * {self.vector()}")
        elif kind == 10:
            chosen = pick("s = s * 0.5", f"u = {pick('u', 'v', 'x')} * 0.5", "v = u")
            self.lines += [f"{indent}if {self.number()} > {pick('0.3', '0.6')}:", f"{inside}{chosen}"]
        elif kind == 11 and depth:
            self.lines += [f"{indent}if {self.number()} > 0.9:", f"{inside}{pick('break', 'continue')}"]
        elif self.loops < 3 and depth < 2:
            self.loops += 1
            self.lines.append(f"{indent}for i{self.loops} in range({pick('2', '3', 'k + 1', 'n')}):")
            for _ in range(1 + self.random.randrange(4)):
                self.statement(depth + 1, inside)
        else:
            self.lines.append(f"{indent}w = {self.vector()} * 0.5")

    def function(self) -> str:
        self.lines = [
            "def f(x, y, m, p, n):",
            f"    u, v, w, s, k = x, {self.pick('y', 'y.copy()', 'np.ones(3)')}, np.zeros(3), 0.25, 1",
        ]
        self.lines.append("    for i in range(n):")
        for _ in range(3):
            self.statement(1, "        ")
        for _ in range(2):
            self.statement(0, "    ")
        self.lines.append("    return s + np.sum(u * w) + v @ u + np.sum(m)")
        return "\n".join(self.lines) + "\n"


def random_program(seed: int) -> str:
    """Check one. What became of it."""
    text = Writer(seed).function()
    namespace: dict[str, Any] = {"np": np}
    exec(compile(text, f"<random {seed}>", "exec"), namespace)
    function = namespace["f"]
    made = LoopGradients(Question((0, 1, 2, 3)), compile_native)
    outcome = ""
    for n in (3, 0):
        generator = np.random.default_rng(seed)
        arguments = (generator.random(3), generator.random(3), generator.random((3, 3)), 0.7, n)
        mine = copy.deepcopy(arguments)
        with npc.config.patch(internal_errors="raise"):
            found = made(function, mine)
        if found is None:
            assert all(np.array_equal(x, y) for x, y in zip(mine, arguments)), text
            outcome = outcome or next(iter(made.reasons.values()), "left")
            continue
        try:
            agrees(function, arguments, (0, 1, 2, 3), found, mine)
        except AssertionError as error:
            raise AssertionError(f"{seed} {n}\n{text}") from error
        outcome = "agrees"
    return outcome


@pytest.mark.parametrize("seed", range(12))
def test_random_statements_about_arrays(seed: int) -> None:
    random_program(seed)


def main(first: int, count: int) -> None:
    found: dict[str, int] = {}
    for seed in range(first, first + count):
        try:
            outcome = random_program(seed)
        except Exception as error:
            outcome = "different"
            print(f"--- {seed}: {str(error)[:1500]}\n{str(error.__cause__)[:600]}", flush=True)
        found[outcome] = found.get(outcome, 0) + 1
    print(sorted(found.items(), key=lambda item: -item[1]))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
