"""Helpers of the tables that say what functions mean in native programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops


def positional(meaning: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function of so many arguments that are given by their places."""

    def called(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
        if keywords or len(arguments) != count:
            raise NoForm("a function with other arguments")
        return meaning(code, *arguments, fail)

    return called
