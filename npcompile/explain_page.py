"""An Explanation as one HTML page: the user's lines coloured by where they run, and behind them all that is known."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npcompile.explain import Explanation

AT_LINE = re.compile(r"line (\d+)")  # in the place of a pass
LEGEND = {
    "native": "in a native program",
    "graph": "in a compiled graph",
    "break": "a break: Python runs it",
    "": "nothing is left to do when it runs, or Python runs it",
}
STYLE = """
.npcompile { font: 14px/1.5 system-ui, sans-serif; max-width: 75em; color: #222; background: #fff; padding: 1em }
.npcompile pre { font: 13px/1.5 ui-monospace, monospace; margin: 0; white-space: pre-wrap }
.npcompile table { border-collapse: collapse; width: 100% }
.npcompile td { padding: 0 .8em; vertical-align: top; text-align: left }
.npcompile td.number { color: #888; text-align: right }
.npcompile .native { background: #dcebff } .npcompile .graph { background: #dff3df } .npcompile .break { background: #ffdcd8 }
.npcompile .note { color: #555; font-size: 12px } .npcompile .legend span { padding: 0 .6em; margin-right: 1em }
.npcompile details { margin: .6em 0 } .npcompile summary { cursor: pointer }
"""


@dataclass(slots=True)
class Line:
    """One line of the function: where it runs, and what there is to say."""

    kind: str = ""  # a key of LEGEND
    notes: list[str] = field(default_factory=list)


def source_of(filename: str, first: int) -> list[str]:
    """The lines of the function that begins there; none where its source is not to be had."""
    lines = linecache.getlines(filename)[first - 1 :]
    return inspect.getblock(lines) if lines else []


def extents(source: Sequence[str], first: int) -> Mapping[int, range]:
    """Line where a loop begins -> its lines."""
    try:
        tree = ast.parse(textwrap.dedent("".join(source)))
    except SyntaxError:  # a lambda in the middle of a call
        return {}
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    return {node.lineno + first - 1: range(node.lineno + first - 1, (node.end_lineno or node.lineno) + first) for node in loops}


def lines_of(told: Explanation, source: Sequence[str], first: int) -> Mapping[int, Line]:
    lines: dict[int, Line] = defaultdict(Line)
    filename = told.place.filename if told.place else ""
    for node in (node for graph in told.graphs for node in graph.nodes):
        if node.location is not None and node.location.filename == filename:
            lines[node.location.line].kind = "graph"
    loops = extents(source, first)
    for native in told.natives:
        line = int(native.rpartition(":")[2])
        whole = range(first, first + len(source)) if native.startswith("the function") else loops.get(line, range(line, line + 1))
        for number in whole:
            lines[number].kind = "native"
    for reason in told.breaks:
        at = lines[reason.user_location.line]
        at.kind = "break"
        at.notes.append(f"{reason.reason}. {reason.hint}")
    for tried in told.passes:
        if found := AT_LINE.search(tried.place):
            lines[int(found[1])].notes.append(tried.name if tried.fired else f"no {tried.name}: {tried.why_not}")
    return lines


def listing(told: Explanation) -> str:
    """The function's lines in their colours."""
    if told.place is None:
        return ""
    first = told.place.line
    source = source_of(told.place.filename, first)
    lines = lines_of(told, source, first)
    rows = []
    for number, text in enumerate(source, first):
        line = lines.get(number, Line())
        notes = "<br>".join(escape(note) for note in dict.fromkeys(line.notes))
        code = f'<td class="{line.kind}"><pre>{escape(text.rstrip()) or " "}</pre></td>'
        rows.append(f'<tr><td class="number">{number}</td>{code}<td class="note">{notes}</td></tr>')
    legend = "".join(f'<span class="{kind}">{escape(words)}</span>' for kind, words in LEGEND.items())
    return f'<table>{"".join(rows)}</table><p class="legend note">{legend}</p>'


def folded(title: str, texts: Iterable[str], is_open: bool = False) -> str:
    """A part that opens by a click. Nothing where it has no text."""
    inside = "".join(f"<pre>{escape(text)}</pre>" for text in texts if text)
    return f"<details{' open' * is_open}><summary>{escape(title)}</summary>{inside}</details>" if inside else ""


def fragment(told: Explanation) -> str:
    """What a notebook shows."""
    seconds = ", ".join(f"{phase} {value:.3f} s" for phase, value in told.seconds.items())
    parts = [
        f"<style>{STYLE}</style>",
        f"<h3>{escape(told.function)}: {escape(told.summary)}</h3>",
        listing(told),
        folded("breaks", map(str, told.breaks), is_open=True),
        folded("verdict", [told.verdicts], is_open=True),
        folded("may differ from NumPy in the last bits", [", ".join(told.inexact)], is_open=True),
        *(folded(f"guards of program {k}", ["\n".join(guards)]) for k, guards in enumerate(told.guards)),
        folded("passes", ["\n".join(map(str, told.passes))]),
        *(folded(f"graph {k}", [str(graph)]) for k, graph in enumerate(told.graphs)),
        *(folded(f"copies between host and device: {len(told.transfers)}", map(str, told.transfers)) for _ in told.transfers[:1]),
        *(folded(f"generated code {k}", [source]) for k, source in enumerate(told.sources)),
        *(folded(f"generated Python {k}", [program]) for k, program in enumerate(told.programs)),
        f'<p class="note">compiled in: {escape(seconds) or "nothing was compiled"}</p>',
    ]
    return f'<div class="npcompile">{"".join(parts)}</div>'


def page(told: Explanation) -> str:
    """The whole file."""
    title = escape(f"{told.function}: {told.summary}")
    head = f'<head><meta charset="utf-8"><title>{title}</title></head>'
    return f'<!DOCTYPE html>\n<html lang="en">{head}<body>{fragment(told)}</body></html>\n'
