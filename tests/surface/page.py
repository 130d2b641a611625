"""docs/numpy-support.md: what is captured of NumPy's public names. `python -m tests.surface` writes it."""

from __future__ import annotations

import platform
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np

from tests.surface.kinds import NAMESPACES, kinds
from tests.surface.measure import Measured
from tests.surface.through_compiler import DTYPES, LAYOUTS, all_cases

PAGE = Path(__file__).parents[2] / "docs" / "numpy-support.md"
WORST = ("break", "with NumPy", "compiled")

ABOUT = """Every public name of numpy, numpy.linalg, numpy.fft and numpy.random, the methods and attributes of ndarray, Generator
and ufuncs, each in one or several typical calls, compiled and looked at with `npcompile.explain`. `python -m tests.surface`
writes this page from the calls in `tests/surface/calls.py`; a test holds it to what the command finds."""
LEGEND = """**compiled**: the call is in the graph, as nodes that become kernels, as a view, or as what is known when compiling.
**with NumPy**: it is in the graph, and NumPy's function runs there, between kernels; what stands beside it is the name of the
node. Random numbers are drawn by NumPy before the graph runs. **break**: the graph ends before the call, NumPy runs it, and
capture goes on after it; beside it stands why. A name with several calls has the worst of them. Whatever stands here,
results, types and errors are NumPy's."""


THROUGH = """Each of these calls (without those of random numbers) compares with NumPy's on arrays of {dtypes} dtypes, object,
text, dates and structured ones among them, and {layouts} layouts: {cases} cases. `python -m tests.surface.through_compiler`
runs them all; a sample drawn with a fixed seed is a test. Values, types, dtypes, shapes, memory order, what shares memory,
what becomes of the arguments, and exceptions with their line must be the same; floating-point results may be 64 units in
the last place apart, sums of products as far as the rounding of their terms. `python -m tests.surface.keywords 2000` compares
calls with drawn keywords, of the functions that are captured by their source; `python -m tests.shim.keywords 100` those of all
others."""


EDGES = """Some of NumPy's answers depend on more than numbers. A vector assigned to another one of the same memory, as in `M[:,
3] = M[1]`, is copied element by element where both strides have one direction, and NumPy may read what it has written: where
that changes the result, NumPy runs. `x.resize(n)` asks who holds the array: a compiled function hands its argument on, so one
that the call alone holds is refused, as behind any decorator; `refcheck=False` asks nobody. In which order a sum meets
infinities and NaN decides what it reports, and BLAS notes invalid operations beyond the ends of rows too, and decides which
parts of complex numbers are NaN. So where a sum is NaN, or a sum of products not finite, and the program has been given or has
made an infinity, NumPy runs. Where np.errstate ignores invalid operations nobody asks for that: then the other part of a
complex product with infinities may be NaN. A part of a complex product of matrices that is zero has the sign that the BLAS
kernel gives it, and 0.0 where both have at most 8 rows and columns; zeros that are other sums have NumPy's."""


OWN_TESTS = """NumPy's own tests, run on the namespace of Tensors: [numpy-tests.md](numpy-tests.md) counts passes and failures of
each module and says by cause why tests fail. Those out of scope, which count references or are about internals in C, are named
there by cause and one by one, as all that fail, in `tests/numpy_tests/failures.toml`."""


def versions() -> str:
    """What the page depends on: the text of NumPy's functions, and the instructions that it is compiled to."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"NumPy {np.__version__}, CPython {python}"


def kind_of(calls: list[Measured]) -> str:
    return min((c.kind for c in calls), key=WORST.index)


def page(measured: dict[str, dict[str, list[Measured]]]) -> str:
    lines = ["# What is captured of NumPy", "", *textwrap.wrap(ABOUT, 128), "", *textwrap.wrap(LEGEND, 128), ""]
    lines += [f"Written with {versions()}.", "", "| | names | compiled | with NumPy | break |", "|---|---|---|---|---|"]
    for section, names in measured.items():
        count = Counter(map(kind_of, names.values()))
        lines.append(f"| {section} | {len(names)} | {count['compiled']} | {count['with NumPy']} | {count['break']} |")
    cases = sum(1 for _ in all_cases())
    about = THROUGH.format(dtypes=len(DTYPES), layouts=len(LAYOUTS), cases=f"{cases:,}")
    for text in (about, EDGES, OWN_TESTS):
        lines += ["", *textwrap.wrap(text, 128, break_long_words=False)]
    for section, names in measured.items():
        lines += ["", f"## {section}", "", "| name | captured | |", "|---|---|---|"]
        for name, calls in names.items():
            lines.append(f"| `{name}` | {kind_of(calls)} | {detail(calls)} |")
    lines += ["", "## Names that are no functions of numbers", ""]
    for namespace in NAMESPACES:
        for kind, members in kinds(namespace).items():
            if kind not in ("functions", "ufuncs"):
                lines += textwrap.wrap(
                    f"- {namespace}, {kind}: {', '.join(f'`{n}`' for n in members)}", 128, subsequent_indent="  "
                )
    return "\n".join(lines) + "\n"


def detail(calls: list[Measured]) -> str:
    """Why a call breaks, or what NumPy runs."""
    broken = [c for c in calls if c.breaks]
    if not broken:
        return ", ".join(dict.fromkeys(op for c in calls for op in c.with_numpy))
    reasons = dict.fromkeys(shown(reason_of(c)) for c in broken)
    which = "" if len(broken) == len(calls) else f" ({', '.join(f'`{c.expression}`'.replace('|', '') for c in broken)})"
    return "; ".join(reasons) + which


def reason_of(call: Measured) -> str:
    found = call.breaks[0]
    return f"{found.reason} ({found.location})" if found.callers else found.reason


def shown(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("_", "\\_").replace("*", "\\*")


def committed_versions() -> str:
    lines = PAGE.read_text().splitlines()
    return next(line for line in lines if line.startswith("Written with ")).removeprefix("Written with ").rstrip(".")
