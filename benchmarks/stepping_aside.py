"""What a function that stepped aside costs over the plain one: `python -m benchmarks.stepping_aside`. Nanoseconds of a call."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Any

import npcompile as npc
from npcompile.compiler import compiled_function

CALLS, ROUNDS, BEFORE = 100_000, 9, 60


def first(x: Any) -> Any:
    return x


def plus(x: Any, y: Any) -> Any:
    return x + y


def nanoseconds(call: Callable[[], Any]) -> float:
    return min(timeit.repeat(call, number=CALLS, repeat=3)) / CALLS * 1e9


def main() -> None:
    for function, arguments in ((first, (1,)), (plus, (2, 3))):
        compiled = npc.compile(function)
        for _ in range(BEFORE):
            compiled(*arguments)
        known = compiled_function(compiled)
        calls = [lambda f=f, a=arguments: f(*a) for f in (compiled, function)]
        extra = statistics.median(nanoseconds(calls[0]) - nanoseconds(calls[1]) for _ in range(ROUNDS))
        is_aside = compiled.__code__ is known.current.aside
        print(f"{function.__name__}: {extra:.0f} ns more, {'as it is' if is_aside else 'compiled'} ({known.trial})")


if __name__ == "__main__":
    npc.config.tiers = "measured"
    main()
