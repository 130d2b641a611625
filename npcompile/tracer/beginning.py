"""Where a capture begins: the frame at a Point, and its cells."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from npcompile.tensor_core.guards import Is
from npcompile.tensor_core.source import GLOBALS, Name, Source
from npcompile.tensor_core.source import UNBOUND as UNBOUND_NAME
from npcompile.tracer.bytecode.layout import UNBOUND
from npcompile.tracer.capture import Capture
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.frame import Frame
from npcompile.tracer.point import Point
from npcompile.tracer.values import NULL, Cell, Lazy


def frame_at(function: Compiled[Point], capture: Capture, point: Point, state: tuple[Any, ...]) -> Frame:
    layout, code = point.layout, function.code
    frame = Frame(capture, function.program, function.python.__globals__, GLOBALS, {}, index=layout.index, start=layout.index)
    values = dict(zip(point.parameters, state))
    if not point.is_start:
        frame.stack = [
            NULL if k in layout.null_slots else Lazy(Name(f"stack_{k}"), values[f"stack_{k}"]) for k in range(layout.depth)
        ]
    for local, name in zip(layout.local_names, point.local_parameters):
        if local not in function.facts.bound[layout.index]:
            capture.guard(Is(Name(name), UNBOUND_NAME, values[name] is UNBOUND))
        if values[name] is not UNBOUND:
            frame.locals[local] = Lazy(Name(name), values[name])
    place_cells(function, capture, frame, point, values)
    assert code is frame.program.code
    return frame


def place_cells(function: Compiled[Point], capture: Capture, frame: Frame, point: Point, values: dict[str, Any]) -> None:
    if point.is_start:
        for name in function.code.co_cellvars:
            frame.cells[name] = Cell(frame.locals.pop(name, None))
    for name, (source, real) in real_cells(function, point, values).items():
        frame.cells[name] = capture.cell(source, real)


def real_cells(function: Compiled[Point], point: Point, values: Mapping[str, Any]) -> dict[str, tuple[Source, types.CellType]]:
    """The cells that exist when the Point is entered: the variables they are for -> where they are, and themselves."""
    code = function.code
    if point.is_start:
        user: Source = function.object_of(function.python).attribute("__closure__")
        names, cells = code.co_freevars, function.python.__closure__ or ()
    else:
        user = Name("cells")
        names, cells = (*code.co_cellvars, *code.co_freevars), values.get("cells", ())
    return {n: (user.item(k), cell) for k, (n, cell) in enumerate(zip(names, cells))}
