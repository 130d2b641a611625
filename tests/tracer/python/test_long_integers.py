"""Integers of thousands of digits, which Python writes as text only where it is asked to: no text of ours needs theirs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import npcompile as npc

BIG = 7**6000  # 5,071 digits
X = np.arange(3.0)


def same(function: Any, *calls: tuple[Any, ...], **options: Any) -> None:
    compiled = npc.compile(function, backend="eager", **options)
    with npc.config.patch(internal_errors="raise"):
        for arguments in calls:
            found, expected = compiled(*arguments), function(*arguments)
            np.testing.assert_array_equal(found[0], expected[0])
            assert found[1:] == expected[1:]


def test_repr_has_none() -> None:
    with pytest.raises(ValueError, match="digits"):
        repr(BIG)


def test_globals_defaults_and_arguments() -> None:
    same(lambda x: (x + 1, BIG), (X,), (X,))
    same(lambda x, n=BIG: (x + 1, n) if n > 5 else (x, 0), (X,), (X, 3))
    same(lambda x, n: (x + n % 7, n * n), (X, BIG), (X, BIG + 1), (X, 3))


def test_both_arms_give_it() -> None:
    def f(x):
        if x[0] > 0:
            n = BIG
        else:
            n = BIG
        m = BIG if x[0] > 0 else BIG + 1
        return x * 2, n, m

    same(f, (X,), (X + 1,), (X - 1,))


def test_defaults_of_a_function_that_is_made_anew() -> None:
    def f(x, k):
        def power(y, n=BIG):
            return y * (n % 5)

        return power(x), k

    same(f, (X, 1), (X, 2))


class Unspeakable:
    def __init__(self, factor: float):
        self.factor = factor

    def __repr__(self) -> str:
        raise RuntimeError("no text of this")


@pytest.mark.parametrize("values", [[BIG + k for k in range(12)], [Unspeakable(float(k)) for k in range(12)]])
def test_the_message_about_the_limit(values: list[Any]) -> None:
    def f(x, value):
        return (x + 1, 5) if value in KEPT else (x, type(value).__name__)

    KEPT = values[:2]
    with warnings.catch_warnings(), npc.config.patch(recompile_limit=1):
        warnings.simplefilter("ignore")
        same(f, *((X, value) for value in values))


def test_an_exception_of_it() -> None:
    def f(x, n):
        try:
            if n > 3:
                raise ValueError(BIG)
        except ValueError as error:
            return x + 1, error.args
        return x, ()

    same(f, (X, 5), (X, 1))
