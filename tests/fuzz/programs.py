"""A random program: source text of a plain function, of what makes its arguments, and what both may call."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import itertools
import linecache
import math
import operator
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

import npcompile as npc
from tests.fuzz.places import source_of
from tests.fuzz.user_code import TOOLS

SIZES = ((3, 2, 4), (5, 3, 2), (2, 6, 3), (4, 4, 4), (3, 4, 2), (1, 3, 2), (3, 0, 2), (6, 1, 5))  # what n, m, k are in a round
DTYPES = (
    "float64",
    "float64",
    "int64",
    "bool",
    "float32",
    "int32",
    "complex128",
    "int8",
    "uint8",
    "float16",
    "complex64",
    "uint32",
)
SHAPES = (
    "(n, m)",
    "(n,)",
    "(m,)",
    "(n, m)",
    "(n, m)",
    "(n,)",
    "(n, 1)",
    "(1, m)",
    "()",
    "(m, n)",
    "(k, n, m)",
    "(n, n)",
    "(0, m)",
)


def fill(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Small integers and halves, so that most arithmetic is exact."""
    rng = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    values = rng.integers(0 if kind == "u" else -6, 7, shape)
    if kind in "fc":
        values = values / 2
    return np.asarray(values + 0.5j * rng.integers(-3, 4, shape) if kind == "c" else values).astype(dtype)


def laid_out(shape: tuple[int, ...], dtype: str, seed: int, layout: str) -> np.ndarray:
    """An array of that shape in a memory layout."""
    ndim = len(shape)
    match layout:
        case "fortran":
            return np.asfortranarray(fill(shape, dtype, seed))
        case "strided":
            return fill(tuple(2 * n for n in shape), dtype, seed)[(slice(None, None, 2),) * ndim]
        case "reversed":
            return fill(shape, dtype, seed)[(slice(None, None, -1),) * ndim]
        case "rotated":
            axes = np.roll(range(ndim), 1)
            return fill(tuple(shape[a] for a in axes), dtype, seed).transpose(np.argsort(axes))
        case "offset":
            return fill(tuple(n + 1 for n in shape), dtype, seed)[(slice(1, None),) * ndim]
        case "broadcast":
            return np.broadcast_to(fill(shape[1:], dtype, seed), shape)
        case "read-only":
            x = fill(shape, dtype, seed)
            x.flags.writeable = False
            return x
        case _:
            return fill(shape, dtype, seed)


LAYOUTS = (
    *["contiguous"] * 7,
    "fortran",
    "strided",
    "fortran",
    "strided",
    "reversed",
    "rotated",
    "offset",
    "broadcast",
    "read-only",
)


NAMESPACE = {
    "__name__": "program",
    "np": np,
    "npc": npc,
    "math": math,
    "operator": operator,
    "itertools": itertools,
    "functools": functools,
    "contextlib": contextlib,
    "copy": copy,
    "laid_out": laid_out,
    **TOOLS,
    "SCALE": 3,
    "RATE": 0.5,
    "NAMES": ("a", "b"),
}


@dataclass(frozen=True)
class Program:
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    arguments: tuple[str, ...]  # lines that make the arguments from n, m, k and round
    sizes: tuple[tuple[int, int, int], ...]  # n, m, k of each round
    is_exact: bool
    dynamic: bool | None
    warns: bool = False  # NumPy's floating-point errors are warnings, as by default
    place: str = "position"  # of the last parameter: see places.py

    @property
    def source(self) -> str:
        return source_of(self.place, self.parameters, self.body) + "\n"

    def mentions(self, words: Sequence[str]) -> bool:
        return any(word in self.source for word in words)

    @property
    def is_valid(self) -> bool:
        """Is it a plain function? What is global here may be nonlocal in a function inside, which is no Python."""
        try:
            code = compiled_text(self.source, "<valid>")
        except SyntaxError:
            return False
        return not any(inner.co_flags & inspect.CO_GENERATOR for inner in codes_in(code) if inner.co_name == "program")

    @property
    def arguments_source(self) -> str:
        lines = [*self.arguments, f"return [{', '.join(self.parameters)}]"]
        return function_text("arguments", ("n", "m", "k", "round"), lines)

    def __repr__(self) -> str:
        options = f"dynamic={self.dynamic} is_exact={self.is_exact} warns={self.warns} place={self.place}"
        return f"\n{self.arguments_source}\n{self.source}\nsizes={self.sizes} {options}\n"


def codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


def function_text(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    return "\n".join([f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in body)]) + "\n"


def define(source: str, name: str, filename: str) -> Any:
    """Execute a function's text; tracebacks show its lines."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace = {**NAMESPACE, "TABLE": np.arange(3.0), "COUNT": 0}
    exec(compiled_text(source, filename), namespace)
    return namespace[name]


@functools.lru_cache(8)  # a program that grows is compiled at every step, what makes its arguments stays the same
def compiled_text(source: str, filename: str) -> CodeType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return compile(source, filename, "exec")
