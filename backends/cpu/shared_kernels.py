"""Kernels of one text: what differs only in the buffers it is given, and where it begins in them, is one C function.

Of many that differ in constants, too, these become arguments: long programs repeat the same statements with other numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.primitives import constant_text
from npcompile.backends.kernels.kernel import (
    Blocks,
    Columns,
    Kernel,
    Let,
    Load,
    Loop,
    Product,
    Reduce,
    Scan,
    ScratchRow,
    Statement,
    Store,
    Tiles,
    Value,
    children,
    walk,
)
from npcompile.tensor_core.dim import Size, terms_of
from npcompile.tensor_core.dtypes import short

SHOWN = ("name", "body", "buffers", "literals", "places")  # of a Kernel: what its text says in another way, or not at all
MANY = 8  # kernels that differ in constants: the compiler makes more of a few if it knows these
MUCH = 500  # statements of all of them: longer to compile than known constants can give back
MOST_GIVEN = 32  # constants of such: of hundreds, all loaded before a loop, the compiler takes longer than of another function
MOST_AT_ONCE = 64  # runs in one loop, whose arguments are on the stack
PLAIN = ("add", "subtract", "multiply", "divide", "maximum", "minimum")  # whose C is the same for all constants


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel that is printed, and what it is given here: for names of its buffers the C expressions of others."""

    kernel: Kernel
    given: dict[str, str]


@dataclass(slots=True)
class Form:
    """A kernel without the names of its buffers and rows: each has a number, and offsets count from the first one met."""

    kernel: Kernel
    starts: dict[str, int] = field(default_factory=dict)  # buffer, in the order in which they are met, to bytes
    rows: dict[str, int] = field(default_factory=dict)  # a thread's own, in the order in which they are made
    numbers: dict[Value, Any] = field(default_factory=dict)  # values that may be arguments to the constants they are
    statements: int = 0

    def __post_init__(self) -> None:
        statements = list(walk(self.kernel.body))
        self.statements = len(statements)
        lets = [s for s in statements if isinstance(s, Let)]
        found = {s.target: s.params[0][1] for s in lets if s.op == "constant" and short(s.target.dtype) in ("f8", "f4")}
        found = {value: number for value, number in found.items() if np.isfinite(number)}
        read = Counter(x for s in lets if s.op in PLAIN for x in s.args)
        every = Counter(x for s in statements for x in values_of(s))
        self.numbers = {value: number for value, number in found.items() if read[value] == every[value] - 1}  # and is made once

    def place(self, buffer: str, offset: Size) -> str:
        if buffer in self.rows:
            return f"row {self.rows[buffer]}[{offset!r}]"
        if buffer not in self.kernel.buffers:  # a literal
            return f"{buffer}[{offset!r}]"
        start = self.starts.setdefault(buffer, constant_of(offset))
        kind = "x" if buffer.startswith("x") else "b"  # those of arguments may be the same memory
        return f"{kind}{list(self.starts).index(buffer)}[{offset - start!r}]"

    def lines(self, body: list[Statement]) -> Iterator[str]:
        for s in body:
            match s:
                case Load():
                    yield f"{s.target} = {self.place(s.buffer, s.offset)} {s.mask}"
                case Store():
                    yield f"{self.place(s.buffer, s.offset)} = {s.value}"
                case Product():
                    for x in s.matrices:
                        yield f"{self.place(x.buffer, x.offset)} {x.row!r} {x.column!r}"
                    yield f"product {s.dtype!r} {s.sizes!r} {s.block}"
                case Let(target) if target in self.numbers:
                    yield f"{target.name} = a number  # {short(target.dtype)}"
                case ScratchRow():
                    yield f"row {self.rows.setdefault(s.buffer, len(self.rows))} of {s.bytes!r}"
                case Loop() | Reduce() | Scan():
                    yield repr(replace(s, body=[]))
                case Columns():
                    yield repr(replace(s, body=[], finish=[]))
                case Tiles():
                    yield repr(replace(s, parts=[(axis, []) for axis, _ in s.parts]))
                case Blocks():
                    yield repr(replace(s, parts=[[] for _ in s.parts]))
                case _:
                    yield repr(s)
            for part in children(s):
                yield "{"
                yield from self.lines(part)
                yield "}"

    def text(self) -> str:
        """The same for two kernels if and only if one function does for both."""
        body = "\n".join(self.lines(self.kernel.body))
        written = [self.kernel.buffers[buffer] for buffer in self.starts]
        others = [buffer for buffer in self.kernel.buffers if buffer not in self.starts]
        about = {f.name: getattr(self.kernel, f.name) for f in fields(Kernel) if f.name not in SHOWN}
        return f"{written} {others} {[b.name for b in self.kernel.literals]} {about!r}\n{body}"


def constant_of(size: Size) -> int:
    if isinstance(size, int):
        return size
    return dict(terms_of(size) or ()).get((), 0)


def values_of(s: Statement) -> Iterator[Value]:
    """Every value that a statement itself makes or reads, each as often as it does."""
    for name in s.__slots__:
        found = getattr(s, name)
        yield from (x for x in (found if isinstance(found, tuple | list) else (found,)) if isinstance(x, Value))


def shared(kernels: Sequence[Kernel]) -> list[Run]:
    """How each kernel runs: the first of those alike is printed, and is given the buffers and constants of the others."""
    alike: dict[str, list[Form]] = {}
    for kernel in kernels:
        form = Form(kernel)
        alike.setdefault(form.text(), []).append(form)
    made: dict[str, Run] = {}
    for forms in alike.values():
        numbers = [[*map(repr, form.numbers.values())] for form in forms]
        differing = [k for k, each in enumerate(zip(*numbers)) if len(set(each)) > 1]
        is_long = len(forms) * forms[0].statements >= MUCH and len(differing) <= MOST_GIVEN
        if len(forms) < MANY and not is_long:
            same: dict[str, list[Form]] = {}
            for form, own in zip(forms, numbers):
                same.setdefault(repr(own), []).append(form)
            made |= {form.kernel.name: run_as(form, each[0]) for each in same.values() for form in each}
        else:
            made |= {form.kernel.name: run_as(form, forms[0], differing) for form in forms}
            first = forms[0]
            take_numbers(first.kernel, [[*first.numbers][k] for k in differing])
    return [made[kernel.name] for kernel in kernels]


def run_as(form: Form, printed: Form, differing: Sequence[int] = ()) -> Run:
    """`differing`: which of its constants the printed kernel takes as arguments."""
    given = {}
    for (buffer, start), (name, printed_start) in zip(form.starts.items(), printed.starts.items()):
        shift = start - printed_start
        if buffer != name or shift:
            given[name] = f"{buffer} + {size_text(shift)}" if shift else buffer
    values, numbers = [*printed.numbers], [*form.numbers.values()]
    given |= {values[k].name: constant_text(numbers[k], values[k].dtype) for k in differing}
    return Run(printed.kernel, given)


def take_numbers(kernel: Kernel, values: Sequence[Value]) -> None:
    """Make constants of the kernel arguments."""
    taken = {value.name: value.dtype for value in values}
    kernel.scalars |= taken

    def drop(body: list[Statement]) -> None:
        body[:] = [s for s in body if not (isinstance(s, Let) and s.target.name in taken)]
        for s in body:
            for part in children(s):
                drop(part)

    drop(kernel.body)


def batches(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs of the same kernel one after another, which are a loop."""
    found: list[list[Run]] = []
    for run in runs:
        if found and found[-1][0].kernel is run.kernel and len(found[-1]) < MOST_AT_ONCE:
            found[-1].append(run)
        else:
            found.append([run])
    return found
