"""Random functions about whole arrays agree with plain Python. `python -m tests.loop_ir.test_random_arrays N` runs N of them."""

from __future__ import annotations

import random
import sys
import traceback
from collections import Counter
from contextlib import suppress
from types import FunctionType

import numpy as np
import pytest

from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.verifier import Stage, stage_of
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import Arguments
from tests.loop_ir.test_random_programs import function_agrees

VECTORS, MATRICES = ("x", "y", "z"), ("a", "b")
SLICES = {"1:-1": 2, ":-2": 2, "2:": 2, "1:": 1, ":-1": 1, ":": 0}  # by how much they are shorter
STEPS = ("::-1", "::2", "1::2")


class ArrayWriter:
    """Writes one function. Arrays of one length are of a group; seldom one of another length is among them."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.is_inside = False

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def one_in(self, n: int) -> bool:
        return self.random.randrange(n) == 0

    def vector(self, shorter: int, depth: int = 0) -> str:
        """An expression of a vector that is so many elements shorter than whole ones, or of a number."""
        kind = self.random.randrange(12)
        if depth > 2 or kind < 4:
            return f"{self.pick(*VECTORS)}[{self.pick(*(key for key, by in SLICES.items() if by == shorter))}]"
        if kind == 4:
            return self.pick("s", "2.0", "0.5", "x[0]", "y[-1]")
        if kind == 5:
            return f"{self.pick('np.abs', 'np.sqrt', '-', 'np.square')}({self.vector(shorter, depth + 1)})"
        if kind == 6:
            return (
                f"{self.pick('np.maximum', 'np.minimum')}({self.vector(shorter, depth + 1)}, {self.vector(shorter, depth + 1)})"
            )
        if kind == 7:
            test = f"{self.vector(shorter, depth + 1)} {self.pick('<', '>', '!=')} {self.vector(shorter, depth + 1)}"
            return f"np.where({test}, {self.vector(shorter, depth + 1)}, {self.vector(shorter, depth + 1)})"
        return f"({self.vector(shorter, depth + 1)} {self.pick('+', '-', '*', '*', '/')} {self.vector(shorter, depth + 1)})"

    def matrix(self, depth: int = 0) -> str:
        kind = self.random.randrange(8)
        if depth > 2 or kind < 3:
            return self.pick(*MATRICES)
        if kind == 3:
            return self.pick("x", "x[None, :]", "a[:, :1]", "a[k % 3]", "b[:, k % 3, None]", "s")
        if kind == 4:
            return f"{self.pick('np.abs', 'np.sqrt', '-')}({self.matrix(depth + 1)})"
        return f"({self.matrix(depth + 1)} {self.pick('+', '-', '*', '/')} {self.matrix(depth + 1)})"

    def statement(self) -> str:
        kind = self.random.randrange(15)
        shorter = self.random.randrange(3)
        part = self.pick(*(key for key, by in SLICES.items() if by == shorter))
        operator = self.pick("+=", "-=", "*=", "/=")
        match kind:
            case 0 | 1:
                return f"{self.pick(*VECTORS)}[{part}] = {self.vector(shorter)}"
            case 2 | 3:
                return f"{self.pick(*VECTORS)}[{part}] {operator} {self.vector(shorter)}"
            case 4 | 5:
                return f"{self.pick('y', 'z')} = {self.vector(0)} + x * 1.0"
            case 6:
                return f"s = ({self.vector(shorter)} + x[:1]).{self.pick('max', 'min')}()"
            case 7:
                return f"{self.pick('a', 'b')} {operator} {self.matrix()}"
            case 8:
                return f"{self.pick('a', 'b')}[{self.pick('k % 3', ':', ':, k % 3', '1:')}] {operator} s"
            case 9:
                return f"b[{self.pick('k % 3', ':')}] = {self.pick('x', 'a[k % 3] * 2.0', 'a[0] - b[1]')}"
            case 10:
                return f"{self.pick(*VECTORS)}[{self.pick('0', '-1', 'k', 'k % 3')}] = {self.pick('s', 'x[0] + 1.0', 'y[1]')}"
            case 11:
                return f"x[{self.pick(*STEPS)}] = {self.pick('y', 'x', 'z')}[{self.pick(*STEPS)}] * 0.5"
            case 12:
                return f"s = {self.pick('s - ', '0.25 * ', '')}({self.vector(shorter)} + x[:1]).{self.pick('sum', 'mean')}()"
            case 13:
                of_rows = f"b[k % 3, :3] = ({self.matrix()} + a).sum(axis=1)"
                return self.pick(f"x[:] = ({self.matrix()} + b).sum(axis=0)", of_rows, f"s = ({self.matrix()} * a).sum()")
        return self.pick("x, y = y, x", "s = s * 0.5", f"a = {self.matrix()} + b", "t = x", "y = t * s", "z = (x < y) * 1.0")

    def function(self) -> str:
        self.lines = ["def f(x, y, z, a, b, n):", "    s, t = 0.5, x"]
        if self.one_in(2):
            self.lines.append(f"    {self.pick('y = y.copy()', 'b = a.copy()', 'x = x * 1.0')}")
        self.lines.append("    for k in range(n):")
        self.lines += [f"        {self.statement()}" for _ in range(1 + self.random.randrange(4))]
        if self.one_in(4):
            self.lines += ["        if s > 1.0:", f"            {self.statement()}"]
        self.lines.append(f"    return {self.pick('x', 'y', 's', 'a', '(y, b)', '(t, s)')}")
        return "\n".join(self.lines) + "\n"


def random_function(seed: str) -> tuple[FunctionType, str]:
    text = ArrayWriter(seed).function()
    namespace: dict[str, FunctionType] = {}
    exec(compile(text, f"<random {seed}>", "exec"), {"np": np}, namespace)
    return namespace["f"], text


def random_arguments(seed: str) -> Arguments:
    """Sometimes arrays that share memory, of another length, with numbers that overflow."""
    chosen = random.Random(f"arguments {seed}")
    generator = np.random.default_rng(chosen.randrange(1 << 30))
    size = chosen.choice((3, 5, 9, 20, 150))
    x, y, z = (generator.standard_normal(size) + chosen.choice((0.0, 2.0)) for _ in range(3))
    a, b = (generator.standard_normal((3, size)) + 2.0 for _ in range(2))
    match chosen.randrange(8):
        case 0:
            y = x
        case 1:
            y = np.concatenate([x, x])[1 : size + 1]
        case 2:
            x[-1] = chosen.choice((1e308, 0.0, np.inf, np.nan))
        case 3:
            y = generator.standard_normal(size + 1)
        case 4:
            memory = generator.standard_normal(size + 2)
            x, z = memory[:size], memory[2:]
    return x, y, z, a, b, chosen.choice((0, 1, 3, 7))


def agrees(seed: str, in_c: bool) -> str:
    return function_agrees(seed, *random_function(seed), [random_arguments(f"{seed} {k}") for k in range(5)], in_c)


@pytest.mark.parametrize("seed", [str(k) for k in range(18)])
def test_random_statements_agree(seed: str) -> None:
    agrees(seed, in_c=int(seed) % 3 == 0)


def test_most_of_them_have_ir() -> None:
    found = Counter[Stage]()
    for k in range(12):
        with suppress(Unsupported):
            program = trace(random_function(f"few {k}")[0], random_arguments(f"few {k} 0")).program
            run_passes(program)
            found[stage_of(program)] += 1
    assert found[Stage.STRUCTURED] > 6, found


def main(count: int, first: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            found[agrees(str(seed), in_c=seed % 10 == 0)] += 1
        except Exception:
            found["different"] += 1
            print(f"--- {seed}\n{traceback.format_exc()[-3000:]}", flush=True)
    print(found)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
