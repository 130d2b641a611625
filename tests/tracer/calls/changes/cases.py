"""What a program has read may change between calls: each kind of thing read, in each way in which it can change.

A case is a generator. It yields the function, which is compiled once, and arguments for a call; after the `yield` it changes
something and yields again. Every call is compared with the plain function's, errors included.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import npcompile as npc
from tests.tracer.harness import compare_any

Case = Callable[[], Iterator[tuple[Callable[..., Any], Any]]]  # arguments, or what makes them anew
X = np.arange(1.0, 4.0)


class Cases(dict[str, Case]):
    """The cases of a file by name."""

    def case(self, make: Case) -> Case:
        assert make.__name__ not in self
        self[make.__name__] = make
        return make


npc.compile(lambda x: -x)(X)  # from now on guards ask native questions


def check(case: Case) -> None:
    for k, (function, arguments) in enumerate(case()):
        if k % (npc.config.recompile_limit - 1) == 0:  # more would run natively
            compiled = npc.compile(function, backend="eager")
        fresh = arguments if callable(arguments) else lambda given=arguments: given
        given = fresh()
        theirs = outcome(function, given), given
        for _ in range(2):
            given = fresh()
            compare_any((outcome(compiled, given), given), theirs, 0)


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)
