"""Kernels of one text: what differs only in the buffers it is given, and where it begins in them, is one C function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.kernels.kernel import (
    Blocks,
    Columns,
    Kernel,
    Load,
    Loop,
    Product,
    Reduce,
    Scan,
    ScratchRow,
    Statement,
    Store,
    Tiles,
    children,
)
from npcompile.tensor_core.dim import Size, terms_of

SHOWN = ("name", "body", "buffers", "literals")  # of a Kernel: what its text says in another way


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel that is printed, and what it is given here: for names of its buffers the C expressions of others."""

    kernel: Kernel
    given: dict[str, str]


@dataclass(slots=True)
class Form:
    """A kernel without the names of its buffers: each has a number, and its offsets count from the first one met."""

    kernel: Kernel
    starts: dict[str, int] = field(default_factory=dict)  # buffer, in the order in which they are met, to bytes

    def place(self, buffer: str, offset: Size) -> str:
        if buffer not in self.kernel.buffers:  # a row of a thread's own, a literal
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
                case Loop() | Reduce() | Scan() | ScratchRow():
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


def shared(kernels: Sequence[Kernel]) -> list[Run]:
    """How each kernel runs: the first of those alike is printed, and is given the buffers of the others."""
    first: dict[str, Form] = {}
    runs = []
    for kernel in kernels:
        form = Form(kernel)
        printed = first.setdefault(form.text(), form)
        given = {}
        for (buffer, start), (name, printed_start) in zip(form.starts.items(), printed.starts.items()):
            shift = start - printed_start
            if buffer != name or shift:
                given[name] = f"{buffer} + {size_text(shift)}" if shift else buffer
        runs.append(Run(printed.kernel, given))
    return runs
