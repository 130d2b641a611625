"""Units of many programs, as C text: `python -m tests.runtime.corpus FOLDER` writes them, and compiles none.

With `--plain` they are those of a machine without vector mathematics. With `--against BASE`, a revision or the folder of another
checkout, what both write for each program, C and generated Python with its guards, goes to FOLDER/base and FOLDER/own, and the
differences are told: none after a change that is to change nothing.
"""

from __future__ import annotations

import argparse
import difflib
import glob
import hashlib
import random
import re
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.gate.__main__ import checkout_of
from benchmarks.programs.families import PROGRAMS
from npcompile.backends.cpu import compile_cpu
from npcompile.backends.cpu.loader import Loader, loader, runtime_text
from npcompile.backends.cpu.prelude import PRELUDE
from npcompile.backends.cpu.product import product_library
from npcompile.backends.errors import CompilerError
from npcompile.compiler import compiled_function
from tests.cpu.random_graphs import RandomGraph
from tests.native_loops.random.generate import draw_program

ROOT = Path(__file__).resolve().parents[2]
# npcompile of one checkout, the programs of another.
FROM = """import sys; sys.path[0] = {npcompile!r}; import npcompile; sys.path[0] = {tests!r}
from tests.runtime.corpus import main; main()"""
GRAPHS, LOOPS = 24, 24
TIMES_BY_PROGRAM = 6  # as many of these random programs
OBJECT = re.compile(r"\b\w*_[0-9a-f]{8,}\b|\b0x[0-9a-f]+\b")  # names by addresses
DIGITS, WORD = re.compile(r"\d+"), re.compile(r"\w+")
DTYPES = [np.dtype(d) for d in "e f d g F D b I l L ?".split()]
UFUNCS = [f for f in vars(np).values() if isinstance(f, np.ufunc) and f.nout == 1]


def elementwise(dtype: np.dtype, operands: int) -> Callable[..., Any]:
    """A function of so many arrays that calls all ufuncs of such."""
    taken = [f for f in UFUNCS if f.nin == operands and any(types.startswith(dtype.char * operands) for types in f.types)]
    return lambda *arrays: [f(*arrays) for f in taken]


def programs(loops: int) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Their names, functions and arguments."""
    for program in PROGRAMS.values():
        yield program.name, program.function, program.arguments("small")
    for dtype in DTYPES:
        x = np.ones(40, dtype)
        yield f"ufuncs of one {dtype}", elementwise(dtype, 1), (x,)
        yield f"ufuncs of two {dtype}", elementwise(dtype, 2), (x, x)
        yield f"reductions of {dtype}", lambda x: (x.sum(), np.cumsum(x), np.sort(x), x.astype(np.float64), x.prod()), (x,)
    for seed in range(loops):
        drawn = draw_program(random.Random(f"corpus {seed}").randint, is_complex=seed % 3 == 0)
        yield f"loop {seed}", drawn.function(), drawn.values


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


@dataclass
class Folder:
    """Where units go: named by their digests, or by the programs that they are of."""

    path: Path
    is_by_program: bool
    program: str = ""  # that runs now

    def write(self, text: str, kind: str = "c") -> None:
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        if self.is_by_program:
            written = len(list(self.path.glob(f"{glob.escape(self.program)} *.{kind}")))
            name = f"{self.program} {written}"
        (self.path / f"{name}.{kind}").write_text(text)


def write_units(folder: Folder, is_plain: bool) -> None:
    folder.path.mkdir(parents=True, exist_ok=True)
    known = loader()
    if is_plain:
        known.compiler = replace(known.compiler, libraries=("-lm",))

    def only_keep(loader: Loader, source: str, dtypes: Any) -> Any:
        folder.write(PRELUDE + source)
        raise CompilerError("units are written to a folder, and not compiled")

    Loader.load = Loader.loading = only_keep  # type: ignore[method-assign]
    folder.program = "runtime"
    folder.write(runtime_text())
    for tag in ("f4", "f8", "c8", "c16"):
        folder.write(PRELUDE + product_library(tag))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        times = TIMES_BY_PROGRAM if folder.is_by_program else 1
        for seed in range(times * GRAPHS):
            folder.program = f"graph {seed}"
            graph = replace(RandomGraph(seed, 12, is_dynamic=bool(seed % 2)).build(), checks=frozenset())
            try:
                compile_cpu(graph, [])
            except CompilerError:
                continue
        for folder.program, function, arguments in programs(times * LOOPS):
            compiled = npc.compile(function)
            try:
                compiled(*arguments)
            except (ArithmeticError, LookupError, TypeError, ValueError):  # a random program's own
                continue
            finally:
                made = compiled_function(compiled)
                if folder.is_by_program and made is not None:
                    for point in made.points.values():
                        folder.write(OBJECT.sub("NAME", point.source), "py")


def differences(base: Path, own: Path) -> Iterator[str]:
    """Lines that say how the files of two folders differ."""
    for name in sorted({path.name for folder in (base, own) for path in folder.iterdir()}):
        texts = [(folder / name).read_text().splitlines() if (folder / name).exists() else [] for folder in (base, own)]
        yield from difflib.unified_diff(*texts, f"base/{name}", f"own/{name}", n=1, lineterm="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--against", metavar="BASE")
    parser.add_argument("--by-program", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.against is None:
        write_units(Folder(options.folder, options.by_program), options.plain)
        return
    with checkout_of(options.against) as base:
        for name, checkout in (("base", base), ("own", ROOT)):
            shutil.rmtree(options.folder / name, ignore_errors=True)
            write = [sys.executable, "-c", FROM.format(npcompile=str(checkout), tests=str(ROOT)), str(options.folder / name)]
            subprocess.run([*write, "--by-program", *["--plain"] * options.plain], check=True, cwd=options.folder.parent)
    lines = list(differences(options.folder / "base", options.folder / "own"))
    print("\n".join(lines))
    changed = sum(line.startswith("--- ") for line in lines)
    print(f"{changed} of {len(list((options.folder / 'own').iterdir()))} files differ")


if __name__ == "__main__":
    main()
