"""Each call of the surface, compiled, on arrays of each dtype and layout, beside NumPy's own: run them all with

python -m tests.surface.through_compiler [eager|cpu] [how many, drawn] [with this seed]
"""

from __future__ import annotations

import itertools
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import npcompile as npc
from tests.shim.harness import flatten
from tests.surface.arguments import arguments, function_of, names_in
from tests.surface.calls import SECTIONS
from tests.tracer.harness import clone, run, same_outcome

DATA = ("x", "y", "v", "w", "c", "a", "s", "z")  # what the dtype and the layout are of; z stays complex
SECTIONS_OF_ARRAYS = [s for s in SECTIONS if "random" not in s]
SERVED = 6  # cases that one compiled function serves
SEED = 20
ULP = 64
UNDEFINED = (r"np\.(unique|union|setxor|intersect|setdiff)", "G", "byte-swapped")  # NumPy's answers change from call to call
UNREADABLE = (("x.byteswap()", "str", "scalar"), ("x.byteswap()", "structured", "scalar"))  # they are bytes of its own pointers
COMPLEX_POWERS = re.compile(r"np\.(power|pow|float_power)\(|\w \*\* ")  # NumPy is further from the exact ones
# Sums of products, whose terms cancel: the error is that of the terms.
SUMS_OF_PRODUCTS = re.compile(
    r"np\.(linalg|fft|inner|dot|vdot|vecdot|vecmat|matvec|matmul|einsum|tensordot|kron|outer|cross|cov|corrcoef|convolve|correlate"
    r"|poly|trapezoid|interp|var|std|nanvar|nanstd|unwrap|gradient|prod|nanprod|cumprod|cumulative_prod|nancumprod|multiply\.)"
    r"|\w\.(dot|std|var|prod|cumprod)"
)


def unaligned(x: np.ndarray) -> np.ndarray:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    made = np.ndarray(x.shape, x.dtype, memory, offset=1)
    made[...] = x
    return made


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def strided(x: np.ndarray) -> np.ndarray:
    return np.repeat(x, 2, axis=-1)[..., ::2]


LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "C": lambda x: x.copy(),
    "F": lambda x: np.asfortranarray(x),
    "transposed": lambda x: x.copy() if x.ndim < 2 else x.swapaxes(0, 1).copy().swapaxes(0, 1),
    "strided": strided,
    "reversed": lambda x: x[::-1].copy()[::-1],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "0-D": lambda x: np.array(x[(0,) * x.ndim]),
    "scalar": lambda x: x[(0,) * x.ndim],
    "empty": lambda x: x[:0].copy(),
    "unaligned": lambda x: x.copy() if x.dtype.hasobject else unaligned(x),
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "read-only": read_only,
}


def special(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flat[:4] = [np.nan, -0.0, np.inf, -1.5]
    return x


def structured(x: np.ndarray) -> np.ndarray:
    made = np.zeros(x.shape, [("a", "i4"), ("b", "f8")])
    made["a"], made["b"] = x, x
    return made


NUMBERS = "bool i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 g F D G".split()
DTYPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{d: lambda x, d=d: (x + 1j * x[::-1] if d in "FDG" else x).astype(d) for d in NUMBERS},  # type: ignore[misc]
    "special": special,
    "object": lambda x: x.astype(int).astype(object),
    "str": lambda x: x.astype("U3"),
    "datetime64": lambda x: x.astype("i8").astype("M8[D]"),
    "structured": structured,
}


@dataclass(frozen=True)
class Case:
    expression: str
    dtype: str
    layout: str

    def arguments(self) -> list[Any]:
        made = arguments()
        for name in DATA:
            x = made[name] if name == "z" else DTYPES[self.dtype](made[name])
            made[name] = LAYOUTS[self.layout](x)
        return [made[name] for name in names_in(self.expression)]


def all_cases() -> Iterator[Case]:
    expressions = dict.fromkeys(e for s in SECTIONS_OF_ARRAYS for calls in SECTIONS[s].values() for e in calls)
    for expression in expressions:
        names = names_in(expression)
        kinds = itertools.product(DTYPES, LAYOUTS) if any(n in DATA for n in names) else [("f8", "C")]
        for dtype, layout in kinds:
            is_undefined = re.match(UNDEFINED[0], expression) and (dtype, layout) == UNDEFINED[1:]
            if not is_undefined and (expression, dtype, layout) not in UNREADABLE:
                yield Case(expression, dtype, layout)


def drawn(number: int, seed: int = SEED) -> list[Case]:
    """So many of all cases, those of one call together."""
    cases = list(all_cases())
    chosen = sorted(random.Random(seed).sample(range(len(cases)), min(number, len(cases))))
    return [cases[k] for k in chosen]


def failures(cases: Sequence[Case], backend: str) -> Iterator[tuple[Case, Exception]]:
    """The cases in which the compiled function does something else than NumPy, and what. With NumPy's bits nothing is near."""
    is_bitwise = npc.config.accuracy == "bitwise"
    compiled, last, served = None, "", 0
    for case in cases:
        function = function_of(case.expression)
        if case.expression != last or served == SERVED:
            compiled, last, served = npc.compile(function, backend=backend), case.expression, 0
        served += 1
        given = case.arguments()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = run(function, function, clone(given))
                ours = run(compiled, function, clone(given))
                same_outcome(ours, theirs, 0 if is_bitwise else ULP)
        except Exception as error:
            if is_bitwise or not (" ULP: " in str(error) and is_rounded(case) and is_near(ours.value, theirs.value)):
                yield case, error


def is_rounded(case: Case) -> bool:
    """May numbers be further apart than those of one operation?"""
    is_power = case.dtype in tuple("FDG") and COMPLEX_POWERS.match(case.expression)
    return bool(is_power or SUMS_OF_PRODUCTS.match(case.expression))


def is_near(ours: Any, theirs: Any) -> bool:
    """Within the rounding of the largest numbers that can have been summed: those of the arguments are below 8."""
    for x, y in zip(flatten(ours), flatten(theirs)):
        if y.dtype.kind in "fc" and not np.allclose(
            x, y, 1e4 * np.finfo(y.dtype).eps, 1e4 * np.finfo(y.dtype).eps, equal_nan=True
        ):
            return False
    return True


def main() -> None:
    backend = sys.argv[1] if len(sys.argv) > 1 else "eager"
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else SEED
    cases = drawn(int(sys.argv[2]), seed) if len(sys.argv) > 2 else list(all_cases())
    found = 0
    for case, error in failures(cases, backend):
        found += 1
        print(case, "|", type(error).__name__, str(error)[:300].replace("\n", " "), flush=True)
    print(f"{found} of {len(cases)} differ")


if __name__ == "__main__":
    main()
