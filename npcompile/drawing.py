"""A graph as a picture: a box for each operation, below what it uses."""

from __future__ import annotations

from collections import defaultdict
from html import escape

from npcompile.tensor_core.graph import Graph, Node

MOST = 80  # nodes: larger graphs are read as text
WIDTH, HEIGHT, GAP, LEVEL = 118, 26, 12, 52  # of a box, between boxes, from one level to the next
COLOURS = {"input": "#f2f2f2", "result": "#c8e6c9"}


def drawn(graph: Graph) -> str:
    """An SVG element. Nothing for graphs that are too large to be looked at."""
    if len(graph.nodes) > MOST:
        return ""
    levels: dict[Node, int] = {}
    for node in graph.nodes:
        levels[node] = max((levels[each] + 1 for each in node.inputs), default=0)
    rows: dict[int, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        rows[levels[node]].append(node)
    across = max(map(len, rows.values()))
    places: dict[Node, tuple[int, int]] = {}
    for level, row in rows.items():
        left = (across - len(row)) * (WIDTH + GAP) // 2
        places |= {node: (left + k * (WIDTH + GAP), level * LEVEL) for k, node in enumerate(row)}
    parts = [line(places[used], places[node]) for node in graph.nodes for used in node.inputs]
    parts += [box(graph, node, *places[node]) for node in graph.nodes]
    width, height = across * (WIDTH + GAP), len(rows) * LEVEL
    return f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-size="11">{"".join(parts)}</svg>'


def line(above: tuple[int, int], below: tuple[int, int]) -> str:
    half = WIDTH // 2
    return f'<line x1="{above[0] + half}" y1="{above[1] + HEIGHT}" x2="{below[0] + half}" y2="{below[1]}" stroke="#999"></line>'


def box(graph: Graph, node: Node, x: int, y: int) -> str:
    kind = "input" if node.op == "input" else "result" if node in graph.results else ""
    name = f"x{graph.inputs.index(node)}" if node in graph.inputs else node.op
    about = f"{name} {node.meta}" + (f", {node.location}" if node.location else "")
    shape = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="4" fill="{COLOURS.get(kind, "#fff")}" stroke="#666"></rect>'
    text = f'<text x="{WIDTH // 2}" y="17" text-anchor="middle">{escape(name[:18])}</text>'
    return f'<g transform="translate({x} {y})"><title>{escape(about)}</title>{shape}{text}</g>'
