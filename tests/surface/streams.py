"""How many programs each call of the surface needs while one size of its arrays changes, and whether they answer as NumPy:

python -m tests.surface.streams [pattern]
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.surface.arguments import function_of, names_in
from tests.surface.calls import SECTIONS
from tests.surface.through_compiler import SUMS_OF_PRODUCTS, ULP, is_near
from tests.tracer.harness import clone, run, same_outcome

SIZES = (5, 7, 2, 3, 4, 100, 6)
MATRICES = set("xyijmc")  # which change along their last axis, or along their first; vectors and squares have one size
STREAMS = ("last", "first")


def arguments(n: int, stream: str) -> dict[str, Any]:
    """As `tests.surface.arguments.arguments`, where vectors and squares have the size n, and all others have it on one axis."""
    rng = np.random.default_rng(n)
    matrix, cube = ((3, n), (2, 3, n)) if stream == "last" else ((n, 4), (n, 3, 4))
    x, y = rng.uniform(0.2, 2.8, (2, *matrix))
    v, w = rng.uniform(0.2, 2.8, (2, n))
    a = rng.uniform(0.2, 1.8, (n, n))
    return {
        "x": x,
        "y": y,
        "v": v,
        "w": w,
        "c": rng.uniform(0.2, 2.8, cube),
        "a": a,
        "s": a @ a.T + np.eye(n),
        "z": v + 1j * w,
        "i": rng.integers(1, 6, matrix),
        "j": rng.integers(1, 6, matrix),
        "k": np.resize([0, 1, 1, 0, 1], n),
        "u": np.arange(n, dtype=np.uint8),
        "b": np.resize([True, False, True], n),
        "m": x > 1,
        "n": n,
    }


def calls() -> Iterator[tuple[str, str]]:
    """Expression and stream, of all calls that are about arrays alone."""
    sections = [calls for name, calls in SECTIONS.items() if "random" not in name]
    for expression in dict.fromkeys(e for section in sections for expressions in section.values() for e in expressions):
        names = set(names_in(expression))
        if names and not names & set("gt"):
            yield from ((expression, stream) for stream in (STREAMS if names & MATRICES else STREAMS[:1]))


def programs(function: Callable[..., Any]) -> int:
    """The most programs of one Point of a compiled function, or of one that it calls."""
    known = compiled_function(function)
    callees = [compiled_function(c) for c in known.callees.values()]
    return max(len(p.variants) for f in (known, *callees) for p in f.points.values())


def count(expression: str, stream: str, sizes: Sequence[int] = SIZES) -> int:
    """How many programs the sizes need at which NumPy does not raise; each answer is NumPy's. 0 where these are below 3."""
    user = function_of(expression)
    given = {n: [arguments(n, stream)[name] for name in names_in(expression)] for n in sizes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = {n: run(user, user, clone(values)) for n, values in given.items()}
        served = [n for n in sizes if theirs[n].error is None]
        if len(served) < 3:
            return 0
        compiled = npc.compile(user, backend="eager")
        for n in served:
            ours = run(compiled, user, clone(given[n]))
            try:
                same_outcome(ours, theirs[n], ULP)
            except AssertionError as error:
                if not (" ULP: " in str(error) and SUMS_OF_PRODUCTS.match(expression) and is_near(ours.value, theirs[n].value)):
                    raise AssertionError(f"{expression} of size {n}: {error}") from None
        return programs(compiled)


def main() -> None:
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [call for call in calls() if re.search(pattern, call[0])]
    found: dict[int, list[str]] = {}
    for expression, stream in chosen:
        try:
            number = count(expression, stream)
        except Exception as error:
            print(f"{expression} ({stream}): {type(error).__name__} {str(error)[:300]}", flush=True)
            continue
        found.setdefault(number, []).append(f"{expression} ({stream})")
        if number > 2:
            print(f"{number}: {expression} ({stream})", flush=True)
    print({number: len(names) for number, names in sorted(found.items())})


if __name__ == "__main__":
    main()
