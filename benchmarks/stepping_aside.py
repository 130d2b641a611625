"""What functions that stepped aside cost over plain ones: `python -m benchmarks.stepping_aside [PACKAGE CALL]`.

Nanoseconds of a call of two functions that do next to nothing, and of one that runs compiled for arrays and as it is for numbers.
Or, for a call of `benchmarks.packages`, how many times as long it takes with the counts of calls in front of the package's
functions as without, in one process that has compiled the package.
"""

from __future__ import annotations

import argparse
import statistics
import time
import timeit
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.packages.__main__ import settle
from benchmarks.packages.calls import CALLS
from npcompile.compiler import compiled_function

NUMBER, ROUNDS, BEFORE = 100_000, 9, 60
ARRAY = np.linspace(1, 2, 1000)
WARM, SHORTEST, PAIRS = 60, 0.01, 41  # calls after each change, which make CPython's own caches anew; seconds of a round


def first(x: Any) -> Any:
    return x


def plus(x: Any, y: Any) -> Any:
    return x + y


def kinds(x: Any, y: Any) -> Any:
    return x + y if isinstance(x, float) else np.exp(x * y) + x / (y + 1.0)


def nanoseconds(call: Callable[[], Any]) -> float:
    return min(timeit.repeat(call, number=NUMBER, repeat=3)) / NUMBER * 1e9


def of_functions() -> None:
    for function, arguments in ((first, (1,)), (plus, (2, 3))):
        compiled = npc.compile(function)
        for _ in range(BEFORE):
            compiled(*arguments)
        known = compiled_function(compiled)
        calls = [lambda f=f, a=arguments: f(*a) for f in (compiled, function)]
        extra = statistics.median(nanoseconds(calls[0]) - nanoseconds(calls[1]) for _ in range(ROUNDS))
        is_aside = compiled.__code__ is known.current.aside
        print(f"{function.__name__}: {extra:.0f} ns more, {'as it is' if is_aside else 'compiled'} ({known.trial})")


def of_kinds() -> None:
    compiled = npc.compile(kinds)
    for _ in range(BEFORE):
        compiled(ARRAY, ARRAY)
        compiled(2.0, 3.0)
    extra = statistics.median(
        nanoseconds(lambda: compiled(2.0, 3.0)) - nanoseconds(lambda: kinds(2.0, 3.0)) for _ in range(ROUNDS)
    )
    print(f"{kinds.__name__}: {extra:.0f} ns more for numbers ({compiled_function(compiled).trial})")


def is_aside(current: Any, code: CodeType) -> bool:
    """Is it the code of a function that runs as it is for all types of arguments?"""
    return code is current.aside and current.aside_for is None


def of_package(name: str, call_name: str) -> None:
    package = npc.compile_package(name)
    call = dict(CALLS[name])[call_name]()
    settle(call)
    functions = [(f, f.__code__, known.user.__code__) for f in package.functions if (known := compiled_function(f)) is not None]
    aside = [each for each in functions if is_aside(compiled_function(each[0]).current, each[1])]

    def seconds(which: int) -> float:
        for each in aside:
            each[0].__code__ = each[which]
        for _ in range(WARM):
            call()
        began, calls = time.process_time(), 0
        while time.process_time() - began < SHORTEST:
            call()
            calls += 1
        return (time.process_time() - began) / calls

    pairs = [(seconds(1), seconds(2)) if k % 2 else (seconds(2), seconds(1))[::-1] for k in range(PAIRS)]
    ratio = statistics.median(counted / plain for counted, plain in pairs)
    plain = statistics.median(plain for _, plain in pairs)
    print(f"{call_name}: {ratio:.3f} times its {plain * 1e6:.1f} us, with counts in front of {len(aside)} functions")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stepping_aside", description=__doc__)
    parser.add_argument("call", nargs="*", metavar="PACKAGE CALL", help="of benchmarks.packages")
    given = parser.parse_args()
    npc.config.tiers = "measured"
    if given.call:
        of_package(*given.call)
    else:
        of_functions()
        of_kinds()


if __name__ == "__main__":
    main()
