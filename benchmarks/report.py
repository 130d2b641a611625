"""Results as JSON, as a Markdown table and as a plot."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measure import Row, Timing
from benchmarks.sides import SIDES

COLOURS = {
    "NumPy": "#9aa0a6",
    "npcompile": "#d1495b",
    "numba": "#00798c",
    "numba fastmath": "#66a5ad",
    "numexpr": "#8f6593",
    "JAX": "#edae49",
    "torch.compile": "#3d5a80",
}


def seconds(value: float) -> str:
    for scale, unit in ((1, "s"), (1e3, "ms")):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def cell(row: Row, side: str) -> str:
    timing = row.timings.get(side)
    if timing is None:
        reason = row.absent.get(side, "")
        return reason if reason.startswith(("WRONG", "FAILED")) else "–"
    return f"{seconds(timing.median)} ({seconds(timing.least)}…{seconds(timing.most)})"


def verdict(row: Row) -> str:
    if not row.target:
        return ""
    if row.got is None:
        return f"{row.target} / not measured"
    figure = f"{row.got:.3g} s" if row.kind == "process" else f"{row.got:.2f}x"
    return f"{row.target} / **{figure}** {'met' if row.is_met else 'missed'}"


def best_peer(row: Row) -> str:
    peers = {side.name: row.timings[side.name].median for side in SIDES if side.is_peer and side.name in row.timings}
    if not peers or "npcompile" not in row.timings:
        return ""
    name = min(peers, key=peers.__getitem__)
    return f"{peers[name] / row.timings['npcompile'].median:.2f}x ({name})"


def markdown(machine: dict[str, str], rows: list[Row]) -> str:
    sides = [side.name for side in SIDES if any(side.name in row.timings or side.name in row.absent for row in rows)]
    header = ["", *sides, "npcompile over the best peer", "target / got"]
    intro = "Median (least…most) of one call; all sides interleaved in one run on the same inputs, every answer checked. "
    intro += "Other work on the machine slows whoever uses threads most: `load` says how much of it there was at the start."
    lines = ["# Benchmarks", "", intro, ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += ["", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows:
        lines.append("| " + " | ".join([row.title, *(cell(row, side) for side in sides), best_peer(row), verdict(row)]) + " |")
    return "\n".join([*lines, "", "Made by `python -m benchmarks`.", ""])


def plot(rows: list[Row], path: Path) -> None:
    """How many times faster than NumPy each side is, one group per case; a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in rows if row.kind == "call" and "NumPy" in row.timings]
    sides = [side.name for side in SIDES if side.name != "NumPy" and any(side.name in row.timings for row in rows)]
    if not rows or not sides:
        return
    height = 0.8 / len(sides)
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.9 * len(rows)), layout="constrained")
    for at, side in enumerate(sides):
        present = [(i, row.timings["NumPy"], row.timings[side]) for i, row in enumerate(rows) if side in row.timings]
        ratios = [speedup(numpy, own) for _, numpy, own in present]
        places = [i - 0.4 + (at + 0.5) * height for i, *_ in present]
        bars = axes.barh(places, [ratio - 1 for ratio in ratios], height, left=1, label=side, color=COLOURS[side])
        axes.bar_label(bars, [f"{ratio:.2g}" for ratio in ratios], padding=2, fontsize=7)
    axes.axvline(1, color=COLOURS["NumPy"], linewidth=1)
    axes.set(xscale="log", yticks=range(len(rows)), xlabel="times faster than NumPy (higher is better)")
    axes.set_yticklabels([row.title for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, loc="outside upper center", ncols=len(sides), frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def speedup(numpy: Timing, own: Timing) -> float:
    return numpy.median / own.median


def write(folder: Path, machine: dict[str, str], rows: list[Row]) -> None:
    """results.json, results.md and results.png in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(
        json.dumps({"machine": machine, "rows": [row.as_json() for row in rows]}, indent=1) + "\n"
    )
    (folder / "results.md").write_text(markdown(machine, rows))
    plot(rows, folder / "results.png")
