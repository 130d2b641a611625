"""Builtins with more arguments than they take, which Python refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc

BUILTINS = [abs, bool, float, any, all, callable, tuple, list, set, dict, reversed, sum, enumerate, len, sorted, str, range, next]


def call(function: Any, x: Any, y: Any) -> Any:
    return function(x, y, x, y)


def call_with_two(function: Any, x: Any, y: Any) -> Any:
    return function(x, x)


def answer(program: Any, *arguments: Any) -> str:
    try:
        return repr(program(*arguments))
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("function", BUILTINS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("program", [call, call_with_two], ids=lambda f: f.__name__)
def test_too_many_arguments(program, function):
    for x in (np.ones(3), 2.5, [1]):
        if function in (bool, abs, callable) or program is call:
            compiled = npc.compile(program)
            for _ in range(2):
                assert answer(compiled, function, x, 1) == answer(program, function, x, 1)
