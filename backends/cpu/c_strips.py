"""Strips printed as C: NumPy's inner loops are called on rows that the nearest cache holds."""

from __future__ import annotations

from typing import Protocol

from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.kernel_plan import StripForm
from npcompile.backends.cpu.numpy_loops import loop_of
from npcompile.backends.cpu.primitives import memory_type, stored_text
from npcompile.backends.kernels.kernel import Call, Loop, Value
from npcompile.tensor_core.op import OPS

NEAR = 1 << 15  # bytes of all rows
LONGEST, SHORTEST = 1024, 128  # elements of a strip: a call takes as long as some tens of them


class Printer(Protocol):
    """What prints statements, this one's loops too."""

    limits: dict[str, tuple[str, str]]

    def line(self, text: str) -> None: ...
    def open(self, text: str) -> None: ...
    def close(self) -> None: ...
    def loop(self, s: Loop) -> None: ...


def print_strips(p: Printer, form: StripForm, axis: str, first: str, end: str) -> None:
    s = form.strips
    bytes_of_one = sum(dtype.itemsize for dtype in s.rows.values())
    length = max(SHORTEST, min(LONGEST, NEAR // max(bytes_of_one, 1) // 64 * 64))
    p.open("{")
    if s.rows:
        p.line(f"char strip_rows[{length * bytes_of_one}] __attribute__((aligned(64)));")
    p.line(f"const int64_t strips_end = {end};")
    p.open(f"for (int64_t strip_first = {first}, strip_end; strip_first < strips_end; strip_first = strip_end) {{")
    p.line(f"strip_end = npc_min(strip_first + {length}, strips_end);")
    place = 0
    for row, dtype in s.rows.items():
        p.line(f"char* const {row} = strip_rows + {place} - strip_first * {dtype.itemsize}; /* where element 0 would be */")
        place += length * dtype.itemsize
    before = p.limits.get(axis)
    p.limits[axis] = ("strip_first", "strip_end")
    for part in form.parts:
        if isinstance(part, Loop):
            p.open("{")
            p.loop(part)
            p.close()
        else:
            for call in part:
                print_call(p, call, axis)
    if before is None:
        del p.limits[axis]
    else:
        p.limits[axis] = before
    p.close()
    p.close()


def print_call(p: Printer, call: Call, axis: str) -> None:
    loop = loop_of(OPS[call.operation].numpy, [x.dtype for x in call.args])
    places: list[str] = []
    p.open(f"{{ const int64_t {axis} = strip_first;")
    for k, x in enumerate((*call.args, call.target)):
        if isinstance(x, Value):
            p.line(f"const {memory_type(x.dtype)} number{k} = {stored_text(x.name, x.dtype)};")
            places.append(f"(char*)&number{k}")
        else:
            places.append(f"(char*){x.buffer} + {size_text(x.offset)}")
    steps = ["0" if isinstance(x, Value) else str(x.step) for x in (*call.args, call.target)]
    p.line(f"char* operands[] = {{{', '.join(places)}}};")
    p.line(f"const int64_t strides[] = {{{', '.join(steps)}}};")
    p.line(f"{loop}(operands, strip_end - strip_first, strides);")
    p.close()
