"""Units of one graph are compiled together: each is made in steps, and waits for its compiler when all others have begun."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing
from typing import TypeAlias, TypeVar

from npcompile.backends.background import NotYet

Made = TypeVar("Made")
# Its first step ends when its compiler is at work. The second one waits for it, and others may wait for other processes.
Steps: TypeAlias = Generator[None, None, Made]


def finished(steps: Steps[Made]) -> Made:
    """What is made in these steps."""
    with closing(steps):
        while True:
            try:
                next(steps)
            except StopIteration as end:
                made: Made = end.value
                return made


def together(parts: Iterable[Steps[Made]]) -> Steps[list[Made]]:
    """What these make. All take each step before one takes the next; an error ends the compilers of all.

    Where some are told NotYet, this is raised when all have begun.
    """
    found: dict[int, Made] = {}
    with ExitStack() as held:
        begun = [held.enter_context(closing(part)) for part in parts]
        while True:
            waiting = None
            for k, part in enumerate(begun):
                if k not in found:
                    try:
                        next(part)
                    except StopIteration as end:
                        found[k] = end.value
                    except NotYet as error:
                        waiting = error
            if waiting is not None:
                try:
                    raise waiting
                finally:
                    del waiting
            if len(found) == len(begun):
                return [found[k] for k in range(len(begun))]
            yield


def at_once(call: Callable[[], Made]) -> Steps[Made]:
    """What this call gives, in one step."""
    yield from ()
    return call()
