"""A random program: source text of a plain function, of what makes its arguments, and what both may call."""

from __future__ import annotations

import linecache
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import npcompile as npc

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
printed: list[Any] = []


# --- what programs may call


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


@npc.disable
def record(*values: Any) -> None:
    """What `print` is to a program: an effect that must happen once, in order."""
    printed.append(tuple(np.array(v) if isinstance(v, np.ndarray) else v for v in values))


@npc.disable
def opaque(x: Any) -> Any:
    """A function that is not captured and returns its argument."""
    return x


def helper(x: Any, k: Any = 2, *rest: Any, **named: Any) -> Any:
    """A user's function, to be inlined."""
    y = x * k
    for r in rest:
        y = y + r
    return y - named.get("b", 1)


def breaking_helper(x: Any, k: int = 2) -> Any:
    """A user's function that cannot be inlined."""
    y = x * k
    record(y.shape)
    return y + 1


def recursive(x: Any, depth: int) -> Any:
    return x if depth <= 0 else recursive(x + 1, depth - 1) * 2


class Box:
    """A user's object that holds an array."""

    scale = 2

    def __init__(self, data: Any):
        self.data = data
        self.uses = 0

    @property
    def total(self) -> Any:
        return self.data.sum() if self.data.dtype.kind in "biu" else self.data.shape

    def scaled(self, k: Any = 1) -> Any:
        return self.data * self.scale * k

    def touch(self) -> int:
        self.uses += 1
        return self.uses


NAMESPACE = {
    "np": np,
    "npc": npc,
    "math": math,
    "laid_out": laid_out,
    "record": record,
    "opaque": opaque,
    "helper": helper,
    "breaking_helper": breaking_helper,
    "recursive": recursive,
    "Box": Box,
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

    @property
    def source(self) -> str:
        return function_text("program", self.parameters, self.body)

    @property
    def arguments_source(self) -> str:
        lines = [*self.arguments, f"return [{', '.join(self.parameters)}]"]
        return function_text("arguments", ("n", "m", "k", "round"), lines)

    def __repr__(self) -> str:
        return f"\n{self.arguments_source}\n{self.source}\nsizes={self.sizes} dynamic={self.dynamic} is_exact={self.is_exact}\n"


def function_text(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    return "\n".join([f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in body)]) + "\n"


def define(source: str, name: str, filename: str) -> Any:
    """Execute a function's text; tracebacks show its lines."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace = {**NAMESPACE, "TABLE": np.arange(3.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(source, filename, "exec"), namespace)
    return namespace[name]
