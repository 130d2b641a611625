"""The arrays that the calls of `tests.surface.calls` are about, and functions made of their text."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np


def arguments() -> dict[str, Any]:
    """Arrays of float64 and of the types that some functions ask for, other values for each name."""
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0.2, 2.8, (2, 3, 4))
    v, w = rng.uniform(0.2, 2.8, (2, 6))
    a = rng.uniform(0.2, 1.8, (3, 3))
    return {
        "x": x,
        "y": y,
        "v": v,
        "w": w,
        "c": rng.uniform(0.2, 2.8, (2, 3, 4)),
        "a": a,
        "s": a @ a.T + np.eye(3),  # positive definite
        "z": v + 1j * w,
        "i": rng.integers(1, 6, (3, 4)),
        "j": rng.integers(1, 6, (3, 4)),
        "k": np.array([0, 2, 1, 2, 0, 1]),  # indices
        "u": np.arange(6, dtype=np.uint8),
        "b": np.array([True, False, True, True, False, True]),
        "m": x > 1,
        "t": np.array(["2026-01-01", "NaT"], "M8[D]"),
        "n": 6,
        "g": np.random.default_rng(7),
    }


NAMES = tuple(arguments())
_made: dict[str, Callable[..., Any]] = {}


def names_in(expression: str) -> tuple[str, ...]:
    """The arguments that an expression is about."""
    bare = re.sub(r'"[^"]*"|\.\w+|\w+=', " ", expression)  # not in texts, attributes and keywords
    inside = {name for group in re.findall(r"lambda ([\w, ]+):", expression) for name in group.split(", ")}
    return tuple(n for n in NAMES if re.search(rf"\b{n}\b", bare) and n not in inside)


def function_of(expression: str) -> Callable[..., Any]:
    """A function of the arguments that the expression names, whose lines tracebacks show."""
    if expression not in _made:
        filename = f"<call {len(_made)}>"
        source = f"def call({', '.join(names_in(expression))}):\n    return {expression}\n"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        scope: dict[str, Any] = {"np": np}
        exec(compile(source, filename, "exec"), scope)
        _made[expression] = scope["call"]
    return _made[expression]
