"""Units of many programs, as C text: `python -m tests.runtime.corpus FOLDER` writes them, and compiles none.

With `--plain` they are those of a machine without vector mathematics.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.programs.families import PROGRAMS
from npcompile.backends.cpu import compile_cpu
from npcompile.backends.cpu.errors import CompilerError
from npcompile.backends.cpu.loader import Loader, loader, runtime_text
from npcompile.backends.cpu.prelude import PRELUDE
from npcompile.backends.cpu.product import product_library
from tests.cpu.random_graphs import RandomGraph
from tests.native_loops.generate import draw_program

GRAPHS, LOOPS = 24, 24
DIGITS, WORD = re.compile(r"\d+"), re.compile(r"\w+")
DTYPES = [np.dtype(d) for d in "e f d g F D b I l L ?".split()]
UFUNCS = [f for f in vars(np).values() if isinstance(f, np.ufunc) and f.nout == 1]


def elementwise(dtype: np.dtype, operands: int) -> Callable[..., Any]:
    """A function of so many arrays that calls all ufuncs of such."""
    taken = [f for f in UFUNCS if f.nin == operands and any(types.startswith(dtype.char * operands) for types in f.types)]
    return lambda *arrays: [f(*arrays) for f in taken]


def programs() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    for program in PROGRAMS.values():
        yield program.function, program.arguments("small")
    for dtype in DTYPES:
        x = np.ones(40, dtype)
        yield elementwise(dtype, 1), (x,)
        yield elementwise(dtype, 2), (x, x)
        yield lambda x: (x.sum(), np.cumsum(x), np.sort(x), x.astype(np.float64), x.prod()), (x,)
    for seed in range(LOOPS):
        drawn = draw_program(random.Random(f"corpus {seed}").randint, is_complex=seed % 3 == 0)
        yield drawn.function(), drawn.values


def cover(folder: Path) -> list[Path]:
    """A few of the units, which have all the words that several of them have (numbers in words do not count)."""
    words = {unit: set(WORD.findall(DIGITS.sub("", unit.read_text()))) for unit in sorted(folder.glob("*.c"))}
    seen = Counter(word for of_unit in words.values() for word in of_unit)
    left = {word for word, times in seen.items() if times > 2}
    chosen = []
    while left:
        chosen.append(max(words, key=lambda unit: len(words[unit] & left)))
        left -= words[chosen[-1]]
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    known = loader()
    if options.plain:
        known.compiler = replace(known.compiler, libraries=("-lm",))

    def keep(text: str) -> None:
        (options.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.c").write_text(text)

    def only_keep(loader: Loader, source: str, dtypes: Any) -> Any:
        keep(PRELUDE + source)
        raise CompilerError("units are written to a folder, and not compiled")

    Loader.load = only_keep  # type: ignore[method-assign]
    keep(runtime_text())
    for tag in ("f4", "f8", "c8", "c16"):
        keep(PRELUDE + product_library(tag))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for seed in range(GRAPHS):
            graph = replace(RandomGraph(seed, 12, is_dynamic=bool(seed % 2)).build(), checks=frozenset())
            try:
                compile_cpu(graph, [])
            except CompilerError:
                continue
        for function, arguments in programs():
            try:
                npc.compile(function)(*arguments)
            except (ArithmeticError, LookupError, TypeError, ValueError):  # a random program's own
                continue


if __name__ == "__main__":
    main()
