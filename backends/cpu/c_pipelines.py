"""Pipelines printed as C: a loop whose stages take turns, with what they leave for each other in rows."""

from __future__ import annotations

from npcompile.backends.cpu.c_vector_loops import Elements
from npcompile.backends.cpu.software_pipelining import FEWEST, VECTOR, Pipeline

ROW = 256  # elements, to stay in the nearest cache
DISTANCE = 2  # vectors that a stage is ahead of the next one: what it leaves is ready when that one asks for it


def print_pipeline(pipeline: Pipeline, form: Elements, first: str, end: str) -> None:
    """The loop: its first elements one after another, which fills the rows, then the stages take turns, then the last ones.

    Those that are last in the rows are computed again then: the elements that are written depend on none that are.
    """
    p, axis, rows, width = form.p, pipeline.axis, pipeline.rows, form.width
    last = len(pipeline.stages) - 1
    ahead = last * DISTANCE * pipeline.step  # elements from the last stage to the first one
    p.open("{")
    form.begin(first)
    for v in rows:
        p.line(f"{form.type_of(v)} {v.name}_row[{(ROW + ahead) // width}] __attribute__((aligned({VECTOR})));")
    for v in rows:  # of which the compiler is not to know that it is the row: it would keep vectors until the next turn
        p.line(f'const {form.type_of(v)}* {v.name}_left = {v.name}_row; __asm__("" : "+r"({v.name}_left) : : "memory");')
    step = pipeline.step
    p.line(f"const int64_t count = {end} - ({first}), turns = count < {FEWEST} ? 0 : (count - {ahead}) / {step} * {step};")
    p.line(f"int64_t from = {first}, to = turns ? from + {ahead} : {end};")
    p.open(f"for (;; to = {end}) {{")
    form.say_independent()
    p.open(f"for (int64_t at = 0; at < {rounded_up('to - from', width)}; at++) {{")
    p.line(f"const int64_t {axis} = {place('from', width, 'at')};")
    form.statements(pipeline.body, "to")
    for v in rows:
        p.line(f"{v.name}_row[at] = {v.name};")
    p.close()
    p.line(f"if (to == {end}) break;")
    p.open("for (int64_t rest = turns;;) {")
    p.line(f"const int64_t vectors = npc_min({ROW}, rest) / {step};")
    form.say_independent(step)
    p.open(f"for (int64_t at = 0; at < {step // width} * vectors; at++) {{")
    for k, stage in enumerate(pipeline.stages):
        here = f"at + {(last - k) * DISTANCE * step // width}" if k < last else "at"
        p.open("{")
        p.line(f"const int64_t {axis} = {place('from', width, here)};")
        for v in stage.taken:
            p.line(f"const {form.type_of(v)} {v.name} = {v.name}_left[{here}];")
        form.statements(stage.statements)
        for v in stage.left:
            p.line(f"{v.name}_row[{here}] = {v.name};")
        p.close()
    p.close()
    p.line(f"from += {step} * vectors;")
    p.line(f"if (!(rest -= {step} * vectors)) break;")
    for v in rows:
        moved = f"{ahead // width} * sizeof *{v.name}_row"
        p.line(f"__builtin_memcpy({v.name}_row, {v.name}_row + {ROW // width}, {moved});")
    p.close()
    p.close()
    p.close()


def place(first: str, width: int, at: str) -> str:
    return f"{first} + {at}" if width == 1 else f"{first} + {width} * ({at})"


def rounded_up(count: str, width: int) -> str:
    return count if width == 1 else f"({count} + {width - 1}) / {width}"
