"""Small programs about subscripts: reads, writes and augmented writes through every mixture of what a key may hold.

`python -m tests.shim.index_programs 5000` draws many, and runs each as NumPy and compiled.
"""

from __future__ import annotations

import sys
import types
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import npcompile as npc
from tests.random_programs import run_many
from tests.shim.keywords.draws import Drawing
from tests.tracer.harness import Outcome, clone, run, same_outcome

DTYPES = "dddllfiB?De"
SHAPES = ((4,), (3, 4), (3, 4), (2, 3, 4), (3, 3), (1, 4), (), (0, 3), (1,))
OPERATORS = ("+=", "-=", "*=", "//=", "|=", "**=")
FORMS = (
    "return x[{key}]",
    "return x[{key}]",
    "x[{key}] = {value}; return x",
    "x[{key}] = {value}; return x",
    "x[{key}] {operator} {value}; return x",
    "y = x[{key}]; x[{key}] = {value}; return y",
    "y = x[{key}]; y {operator} {value}; return x, y",
    "y = x[{key}]; x[{other}] = y; return y",
    "x[{key}], x[{other}] = x[{other}], x[{key}]; return x",
    "return x[{key}][{other}]",
    "x[{key}][...] = {value}; return x",
    "x[{key}] = x[{key}][::-1]; return x",
    "return x[{key}].T + 1",
    "np.add.at(x, ({key}), {value}); return x",
)


@dataclass
class Program:
    """`def program(x, ...)`, and its arguments."""

    body: str
    arguments: dict[str, Any]

    def function(self) -> types.FunctionType:
        scope: dict[str, Any] = {"np": np}
        exec(compile(str(self), "<program>", "exec"), scope)
        return scope["program"]

    def __str__(self) -> str:
        lines = "".join(f"    {line}\n" for line in self.body.split("; "))
        return f"def program({', '.join(self.arguments)}):\n{lines}"


class Writer:
    """The text of one program being drawn, and the arguments that it needs so far."""

    def __init__(self, c: Drawing):
        self.c = c
        self.arguments: dict[str, Any] = {"x": c.array(DTYPES, SHAPES)}

    def argument(self, value: Any) -> str:
        name = f"a{len(self.arguments)}"
        self.arguments[name] = value
        return name

    def given(self, value: Any, text: str) -> str:
        """A part of the program's text, or an argument."""
        return self.argument(value) if self.c.chance(50) else text

    def key(self, shape: tuple[int, ...]) -> str:
        c, items, axis = self.c, [], 0
        while axis < len(shape) and not (items and c.chance(25)):
            kind = c.integer(0, 9)
            if kind == 9 and axis + 1 < len(shape) and c.chance(50):
                items.append(self.mask(shape[axis : axis + 2]))
                axis += 2
                continue
            if kind == 8:
                items.append(c.choice(["None", "np.newaxis"]))
                continue
            if kind == 7:
                items.append("...")
                axis = max(axis, len(shape) - 1)
                continue
            items.append(self.item(shape[axis], kind))
            axis += 1
        if not items:
            return c.choice(["...", "()", "None", ":", "True", "0"])
        return ", ".join(items) + ("," if len(items) == 1 and c.chance(20) else "")

    def item(self, n: int, kind: int) -> str:
        c = self.c
        if kind in (0, 1, 2):
            return self.slice(n)
        if kind == 3:
            place = c.integer(-n, n - 1) if n and c.chance(95) else n
            return self.given(c.choice([place, np.int64(place), np.array(place)]), str(place))
        if kind == 9:
            return self.mask((n,))
        return self.positions(n)

    def slice(self, n: int) -> str:
        c = self.c
        parts = [str(c.integer(-n - 2, n + 2)) if c.chance(40) else "" for _ in range(2)]
        if c.chance(15):
            parts[0] = self.argument(c.integer(-n, n))
        step = c.choice(["", "", ":", ":1", ":2", ":-1", ":-2", ":3"])
        return f"{parts[0]}:{parts[1]}{step}"

    def positions(self, n: int) -> str:
        c = self.c
        shape = c.choice([(2,), (3,), (3,), (2, 2), (1,), (3, 1), (0,)])
        values = c.rng().integers(-n, n, shape) if n else np.zeros((0,), int)
        if values.size and c.chance(4):
            values.flat[0] = n
        dtype = c.choice(["l", "l", "l", "i", "b", "d"]) if c.chance(30) else "l"
        array = values.astype(dtype)
        text = f"np.array({array.tolist()}, '{dtype}')" if c.chance(50) else str(array.tolist())
        return self.given(c.laid_out(array), text)

    def mask(self, shape: tuple[int, ...]) -> str:
        mask = np.asarray(self.c.rng().random(shape) < 0.5)
        if self.c.chance(4):
            mask = mask[:1]
        return self.given(mask, f"np.array({mask.tolist()}, bool)")

    def value(self, key: str) -> str:
        c = self.c
        x = self.arguments["x"]
        kind = c.integer(0, 9)
        if kind < 3:
            return str(c.choice([0, 1, 2, -1, 2.5, 300, True, 1j, "np.float32(1.5)", "np.array(2)", "[1]", "None"]))
        if kind == 3:
            return self.argument(c.choice([3, 1.5, np.float64(2.5), np.int8(2), np.array(3.0)]))
        try:
            shape = np.shape(eval(f"x[{key}]", {"np": np, "slice": slice, **self.arguments}))
        except (IndexError, TypeError, ValueError):
            shape = (1,)
        if kind == 9:
            return c.choice(["x", "x[::-1]", "x[0]", "x.T"])
        dtypes = [x.dtype, x.dtype, x.dtype, "d", "l", "?", "D"]
        return self.argument(c.array(dtypes, [shape, shape, shape, shape[-1:], (1,) * len(shape), (1, *shape), (2, *shape)]))


def draw_program(integer: Any) -> Program:
    c = Drawing(integer)
    w = Writer(c)
    shape = w.arguments["x"].shape
    form = c.choice(FORMS)
    key = w.key(shape)
    parts = {"key": key, "other": "", "value": "", "operator": c.choice(OPERATORS)}
    if "{other}" in form:
        parts["other"] = w.key(shape)
    if "{value}" in form:
        parts["value"] = w.value(key)
    if "np.add.at" in form and ":" in key:  # a slice is no expression
        form = FORMS[4]
    return Program(form.format(**parts), w.arguments)


NEAR = 2**10  # units of a complex number's size


def settle_powers(text: str, ours: Outcome, theirs: Outcome) -> None:
    """NumPy's powers of complex numbers are far off (docs/accuracy.md), a smaller part farther. What is near is made the same."""
    if "**" in text or "power" in text:
        ours.value = settled(ours.value, theirs.value)
        settled(ours.arguments, theirs.arguments)


def settled(ours: Any, theirs: Any) -> Any:
    if isinstance(theirs, (tuple, list)) and type(ours) is type(theirs):
        return type(theirs)(map(settled, ours, theirs))
    if not all(isinstance(x, (np.ndarray, np.complexfloating)) and x.dtype.kind == "c" for x in (ours, theirs)):
        return ours
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return ours
    with np.errstate(all="ignore"):
        is_near = abs(ours - theirs) <= NEAR * np.finfo(theirs.dtype).eps * abs(theirs)
    if not isinstance(ours, np.ndarray):
        return theirs if is_near else ours
    if ours.flags.writeable:
        np.copyto(ours, theirs, where=is_near)
    return ours


def check_program(program: Program, backend: str) -> None:
    """Twice: what was captured meets other numbers of the same kinds."""
    function = program.function()
    compiled = npc.compile(function, backend=backend)
    for _ in range(2):
        arguments = list(program.arguments.values())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = run(function, function, clone(arguments))
            ours = run(compiled, function, clone(arguments))
        settle_powers(program.body, ours, theirs)
        same_outcome(ours, theirs, 4)


if __name__ == "__main__":
    sys.exit(run_many("tests.shim.index_programs", __doc__, draw_program, check_program))
