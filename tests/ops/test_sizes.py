"""Integers of symbols: expressions that mean what Python's integers do, and bounds that hold for all values."""

import random
from typing import Any

import pytest

from npcompile.tensor_core.dim import Dim, ShapeEnv, Size, answer_known, evaluate, maximum, minimum
from npcompile.tracer.guard_text import text_of

VALUES = ((2, 2), (3, 9), (5, 4), (17, 3), (100, 64), (2, 50), (7, 12))


def draw(rng: random.Random, symbols: list[Any], depth: int) -> Any:
    """A random expression of the symbols, which may be integers."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*symbols, rng.randint(-6, 12)])
    kind = rng.choice(("add", "subtract", "multiply", "divide", "remainder", "minimum", "maximum", "absolute", "negate"))
    a, b, k = draw(rng, symbols, depth - 1), draw(rng, symbols, depth - 1), rng.randint(1, 5)
    match kind:
        case "add":
            return a + b
        case "subtract":
            return a - b
        case "multiply":
            return a * (k - 3)
        case "divide":
            return a // k
        case "remainder":
            return a % k
        case "minimum":
            return minimum(a, b)
        case "maximum":
            return maximum(a, b)
        case "absolute":
            return abs(a)
        case _:
            return -a


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions(seed: int) -> None:
    for number in range(40):
        env = ShapeEnv()
        size = draw(random.Random(f"{seed} {number}"), [env.symbol("n", 7, 2), env.symbol("m", 12, 2)], 4)
        for n, m in VALUES:
            if not all(eval(text_of(guard), {"n": n, "m": m}) for guard in env.guards):
                continue
            expected = draw(random.Random(f"{seed} {number}"), [n, m], 4)
            assert evaluate(size, {"n": n, "m": m}) == eval(str(size), {"n": n, "m": m}) == expected, str(size)
            if isinstance(size, Dim):
                low, high = env.bound(size), env.bound(-size)
                assert low is None or low <= expected
                assert high is None or high <= -expected


def known(n: Size) -> list[tuple[Any, str, Any, bool]]:
    return [
        (minimum(n, 10), "<", 1, False),
        (n - minimum(n, 10), "<", 0, False),
        (n // 2, "<", n, True),
        (2 * n // 3, "<", n // 3, False),
        (n - n % 4, "<", 0, False),
        (n % 4, "<", 4, True),
        (abs(n - 20), "<", 0, False),
        (minimum(n, 10) + maximum(n - 10, 0), "==", n, True),
        (n - maximum(n - 3, 0), "==", minimum(3, n), True),
        (n // 2 + 1, "==", 0, False),
    ]


@pytest.mark.parametrize("number", range(10))
def test_answers_that_need_no_guard(number: int) -> None:
    env = ShapeEnv()
    a, relation, b, answer = known(env.symbol("n", 12, 2))[number]
    assert answer_known(a, relation, b) is answer
    assert not env.guards
