"""Measures every elementwise function and writes docs/accuracy.md.

python -m tests.accuracy                       # about five minutes
python -m tests.accuracy --sweep               # every number of float32 instead, for functions of one: an hour of one processor
python -m tests.accuracy --sweep sin exp2      # of these functions, printed alone
python -m tests.accuracy --backend cuda --output accuracy-cuda.md
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from npcompile.tensor_core.graph import FLOAT_ERRORS
from tests.accuracy import measure, reference
from tests.accuracy.kernels import LAYOUTS, Kernels, is_compiled
from tests.accuracy.measure import COMPLEX_DTYPES, REAL_DTYPES, Call
from tests.accuracy.special_values import different_values, errors_not_noted
from tests.accuracy.sweep import sweep

TEMPLATE, EVERY_NUMBER = (Path(__file__).with_name(name) for name in ("page.md", "every_number.md"))
PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
EVERY_NUMBER_SECTION = """## Every number of float32 and float16

`python -m tests.accuracy --sweep` puts all of them through each function of one number. The exact results of float32 are those of
float64. In the last column: results of float32 with another sign than NumPy's, or NaN where NumPy's is not.

{table}
"""
CHUNK = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="cpu", help="whose kernels are measured")
    parser.add_argument("--count", type=int, default=200_000, help="real numbers, or pairs, per function and dtype")
    parser.add_argument("--complex-count", type=int, default=1500, help="complex numbers, or pairs, per function and dtype")
    parser.add_argument("--float32-step", type=int, default=256, help="of all numbers of float32 each so many-th is measured too")
    parser.add_argument("--output", type=Path, help="where the page, or with --sweep its table, is written")
    parser.add_argument("--sweep", nargs="*", metavar="function", help="every number of float32 and float16, of functions of one")
    options = parser.parse_args()
    if options.sweep is not None:
        found = sweep(options.sweep)
        print(found)
        output = options.output or (None if options.sweep else EVERY_NUMBER)
        if output:
            output.write_text(f"{found}\n")
        return
    real, moved = real_errors(options.backend, options.count, options.float32_step)
    by_size, by_part = complex_errors(options.backend, options.complex_count)
    page = TEMPLATE.read_text().format(
        machine=machine(options.backend),
        count=options.count,
        complex_count=options.complex_count,
        float32_step=options.float32_step,
        real=table(real, REAL_DTYPES),
        every_number=EVERY_NUMBER_SECTION.format(table=EVERY_NUMBER.read_text()) if EVERY_NUMBER.exists() else "",
        complex_by_size=table(by_size, COMPLEX_DTYPES),
        complex_by_part=table(by_part, COMPLEX_DTYPES),
        same=", ".join(f"`{name}`" for name in sorted({n for d in REAL_DTYPES for n, _ in measure.calls_of(d, rounded=False)})),
        differences="\n".join(f"- {line}" for line in [*moved, *other_differences(options.backend)]) or "None was found.",
    )
    (options.output or PAGE).write_text(page)


Errors = dict[str, dict[np.dtype, str]]  # function -> dtype -> what the table says


def real_errors(backend: str, count: int, step: int) -> tuple[Errors, list[str]]:
    found: Errors = {}
    moved: list[str] = []
    for dtype in REAL_DTYPES:
        rng = np.random.default_rng(0)
        kernels = Kernels(measure.calls_of(dtype, rounded=True), backend)
        given = measure.sampled(kernels.calls, rng, count)
        results = kernels(given)
        moved += [f"{name} of {dtype}: {where}" for name, where in measure.moved(kernels, given, results).items()]
        every = every_float32(backend, step) if dtype == np.float32 else {}
        for call, xs, got in zip(kernels.calls, given, results):
            name = call[0]
            ours, numpys = (measure.worst(name, xs, y).units for y in (got, measure.numpys(name, xs)))
            more = every.get(name, (0.0, 0.0))
            found.setdefault(name, {})[dtype] = entry(call, max(ours, more[0]), max(numpys, more[1]), backend)
    return found, moved


def every_float32(backend: str, step: int) -> dict[str, tuple[float, float]]:
    """The largest errors of functions of one number, ours and NumPy's, over each `step`-th number of float32."""
    calls = [(n, ds) for n, ds in measure.calls_of(np.dtype("f"), rounded=True) if len(ds) == 1]
    kernels = Kernels(calls, backend)
    found = {name: (0.0, 0.0) for name, _ in calls}
    for start in range(0, 1 << 32, CHUNK * step):
        x = np.arange(start, min(start + CHUNK * step, 1 << 32), step, dtype=np.int64).astype(np.uint32).view(np.float32)
        for (name, _), got in zip(calls, kernels([(x,)] * len(calls))):
            with np.errstate(all="ignore"):
                wanted = getattr(np, name)(x.astype(np.float64))
            both = [float(reference.near_errors(y, wanted).max()) for y in (got, measure.numpys(name, (x,)))]
            found[name] = (max(found[name][0], both[0]), max(found[name][1], both[1]))
    return found


def complex_errors(backend: str, count: int) -> tuple[Errors, Errors]:
    """By size, and of the parts by themselves."""
    found: tuple[Errors, Errors] = ({}, {})
    for dtype in COMPLEX_DTYPES:
        kernels = Kernels(measure.calls_of(dtype, rounded=True), backend)
        given = measure.sampled(kernels.calls, np.random.default_rng(1), count)
        for call, xs, got in zip(kernels.calls, given, kernels(given)):
            ours, numpys = (measure.worst_of_parts(call[0], xs, y) for y in (got, measure.numpys(call[0], xs)))
            for errors, one, other in zip(found, ours, numpys):
                errors.setdefault(call[0], {})[dtype] = entry(call, one.units, other.units, backend)
    return found


def entry(call: Call, ours: float, numpys: float, backend: str) -> str:
    return f"{shown(ours)} / {shown(numpys)}" if is_compiled(call, backend) else f"NumPy's loop: {shown(numpys)}"


def shown(units: float) -> str:
    return f"{units:.2f}" if units < 1000 else f"{units:.0e}"


def table(errors: Errors, dtypes: list[np.dtype]) -> str:
    head = ["| function | " + " | ".join(d.name for d in dtypes) + " |", "|---" * (len(dtypes) + 1) + "|"]
    rows = [f"| `{name}` | " + " | ".join(found.get(d, "") for d in dtypes) + " |" for name, found in errors.items()]
    return "\n".join([*head, *rows])


def other_differences(backend: str) -> Iterator[str]:
    """Special values, errors that are not noted, and functions that round at most once, where NumPy gives something else."""
    for dtype in (*REAL_DTYPES, *COMPLEX_DTYPES):
        exact = Kernels(measure.calls_of(dtype, rounded=False), backend, FLOAT_ERRORS)
        rounded = Kernels(measure.calls_of(dtype, rounded=True), backend, FLOAT_ERRORS)
        for name, where in measure.other_than_numpy(exact, np.random.default_rng(2), 20_000).items():
            yield f"`{name}` of {dtype}: {where}"
        judges: list[Callable] = [different_values] if backend != "cpu" else [different_values, errors_not_noted]
        for kernels in (exact, rounded):
            for judge in judges:
                yield from (f"`{difference}`" for difference in judge(kernels, most=4000))


def machine(backend: str) -> str:
    libc = " ".join(platform.libc_ver())
    return (
        f"backend {backend}, layouts {', '.join(LAYOUTS)}; {platform.machine()} with {simd()}, {libc}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, mpmath {importlib.metadata.version('mpmath')}"
    )


def simd() -> str:
    """The widest vectors that NumPy found."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return found[-1] if found else "no vector extensions"


if __name__ == "__main__":
    main()
