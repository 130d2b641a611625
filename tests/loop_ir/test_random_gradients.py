"""Gradients of random functions with loops: native programs against eager Tensors and against differences.

`python -m tests.loop_ir.test_random_gradients N` runs N of them.
"""

from __future__ import annotations

import copy
import random
import sys
import traceback
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.native import compile_native
from npcompile.eager_transforms import NotPossible, value_and_grad
from npcompile.loop_gradients import LoopGradients
from npcompile.loop_questions import Question
from npcompile.settings import config
from npcompile.tracer.variant import GraphBreakError
from tests.loop_ir.generate import Writer, random_arguments

WANTED = (0, 1, 2, 3)
STEPS = (1e-6, 2.5e-7)


def random_loss(seed: str) -> tuple[Any, str]:
    """A function of three arrays, a float and an integer that gives a number."""
    writer = Writer(seed)
    text = writer.function()
    if writer.one_in(3):
        text = text.replace("        ", "        ", 1)
    head, _ = text.rsplit("    return", 1)
    text = f"{head}    return {writer.pick('s', 't', 's + t', 's * t - p', 'x[0] * s')}\n"
    if writer.one_in(3):  # an early end
        lines = text.split("\n")
        place = next((k for k, line in enumerate(lines) if line.startswith("        ") and "else" not in line), None)
        if place is not None and "except" not in lines[place]:
            lines.insert(place, f"        if {writer.number(1)} > 1.5:\n            return {writer.pick('s', 't * p', '0.5')}")
        text = "\n".join(lines)
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<random {seed}>", "exec"), {"np": np}, namespace)
    return namespace["f"], text


def moderate(seed: str) -> tuple[Any, ...]:
    """Arguments for which most functions have a result."""
    chosen = random.Random(seed)
    generator = np.random.default_rng(chosen.randrange(1 << 30))
    return (*(generator.random(7) + 0.25 for _ in range(3)), chosen.choice((0.5, -0.75)), chosen.choice((1, 3, 5)))


def difference(function: Any, arguments: Any, k: int, index: tuple[int, ...], step: float) -> float:
    values = []
    for sign in (1, -1):
        moved = list(copy.deepcopy(arguments))
        if index:
            moved[k][index] += sign * step
        else:
            moved[k] += sign * step
        values.append(float(function(*moved)))
    return (values[0] - values[1]) / (2 * step)


def near(x: Any, y: Any, rtol: float, scale: float = 0.0) -> bool:
    with np.errstate(all="ignore"):
        return np.allclose(x, y, rtol=rtol, atol=rtol * scale, equal_nan=True)


def against_differences(function: Any, arguments: Any, gradients: Any) -> bool:
    """Do they agree wherever two steps agree, and so there is a derivative?"""
    for k, found in zip(WANTED, gradients, strict=True):
        for index in np.ndindex(np.shape(found)):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    one, other = (difference(function, arguments, k, index, step) for step in STEPS)
                except (ArithmeticError, IndexError):
                    continue
            mine = float(found[index] if index else found)
            if np.isfinite([one, other, mine]).all() and near(one, other, 1e-4, 1e-3) and not near(mine, other, 1e-2, 0.05):
                return False
    return True


def agrees(seed: str) -> str:
    """Check one function. What became of it."""
    function, text = random_loss(seed)
    made = LoopGradients(Question(WANTED), compile_native)
    outcome = Counter[str]()
    for case in range(3):
        arguments = random_arguments(f"{seed} {case}") if case == 2 else moderate(f"{seed} {case}")
        mine, others = copy.deepcopy(arguments), copy.deepcopy(arguments)
        with warnings.catch_warnings(), np.errstate(all="warn"), config.patch(internal_errors="raise"):
            warnings.simplefilter("error")
            found = made(function, mine)
        where = f"{seed} {case}\n{text}{arguments}\n{found}"
        if found is None:
            same = all(np.array_equal(x, y, equal_nan=True) for x, y in zip(mine, arguments))
            assert same, f"it was left, and arguments are not as before: {where}"
            outcome[next(iter(made.reasons.values()), "left")] += 1
            continue
        given = copy.deepcopy(arguments)
        with np.errstate(all="ignore"):
            assert near(found[0], function(*given), 1e-9), where
        for x, y in zip(mine, given):
            assert near(x, y, 1e-9), f"{where}\n{mine}\n{given}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value, _, gradients = value_and_grad_of(function, others)
        except (NotPossible, GraphBreakError, RuntimeError, FloatingPointError) as error:
            assert case == 2 or against_differences(function, arguments, found[1:]), where
            outcome[f"differences: {type(error).__name__}"] += 1
            continue
        if not near(found[0], value, 1e-9):  # Tensors are changed in place where Python makes new numbers
            assert against_differences(function, arguments, found[1:]), where
            outcome["differences: other value"] += 1
            continue
        assert type(found[0]) is type(value), f"{where}\n{value}"
        scale = max(float(np.abs(np.nan_to_num(np.concatenate([np.ravel(g) for g in gradients]))).max(initial=0)), 1e-300)
        for x, y in zip(found[1:], gradients, strict=True):
            assert type(x) is type(y) and np.shape(x) == np.shape(y) and x.dtype == y.dtype, f"{where}\n{gradients}"
            # A gradient of 0 is 0 where the slope is infinite, and NaN for Tensors.
            assert near(np.where(np.isnan(y), x, y), x, 1e-7, min(scale, 1e300)), f"{where}\n{gradients}"
        outcome["eager"] += 1
    return outcome.most_common(1)[0][0] if "eager" not in outcome else "eager"


def value_and_grad_of(function: Any, arguments: Any) -> tuple[Any, None, Any]:
    value, gradients = value_and_grad(function, {"argnums": WANTED, "has_aux": False}, arguments, {})
    return value, None, gradients


@pytest.mark.parametrize("seed", [str(k) for k in range(15)])
def test_random_gradients_agree(seed: str) -> None:
    agrees(seed)


def main(count: int, first: int) -> int:
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            found[agrees(str(seed))] += 1
        except Exception:
            found["different"] += 1
            print(f"--- {seed}\n{traceback.format_exc()[-2500:]}", flush=True)
    print(found)
    return int(found["different"] > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
