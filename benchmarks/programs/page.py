"""The results as docs/performance.md: targets, programs that lose first, every program at every size, a plot."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.programs.first_calls import BOUNDS
from benchmarks.programs.measure import FEWEST_SAMPLES, LONGEST_SAMPLING, MEMORY, PEERS, SHORT, SLOW, ProgramRow
from benchmarks.programs.program import SIZES
from benchmarks.report import COLOURS, seconds

COMMAND = "python -m benchmarks.programs"
PLOT = "performance.png"
SLOWEST_OF_NUMPY, LOOPS_OF_NUMBA, CHAINS_OF_PEERS, COPY_SHARE = 0.95, 0.9, 2, 0.85

SIDES_EXPLAINED = """
NumPy runs each program as it is written, and so does npcompile. Numba's time is the better of `njit` and `njit(parallel=True)`,
of the same source where Numba takes it, else of loops. JAX's is that of `jit`, with arrays that are already JAX's, and `lax`
loops where a Python loop would be unrolled. torch.compile takes the NumPy source where it can; of time loops it compiles the
step. The versions are beside the programs in [benchmarks/programs](../benchmarks/programs). Every side is a process; they are
asked in turn, in an order that changes from round to round, when all have compiled; at the {small} size, and where the quickest
side takes less than {short:g} µs, all of a round begin on one processor, and the next round on another, as processors of a
shared machine are not equally fast. An answer is compared with NumPy's before it is timed: npcompile's with its types, dtypes and
shapes. Arguments that a program changes are restored before each call, outside of its time. A side that takes more than {slow}
times NumPy's time is measured once, and one whose samples take {longest:g} s together {fewest} times. A side that does not
compile and answer within the run's `--cap` seconds takes no part.
"""


@dataclass(frozen=True)
class Finding:
    """A target, and what was reached of it."""

    what: str
    bound: str
    got: str
    is_met: bool

    def line(self) -> str:
        return f"| {self.what} | {self.bound} | {self.got} | {'met' if self.is_met else '**MISSED**'} |"


def geometric(ratios: Iterable[float | None]) -> float | None:
    present = [ratio for ratio in ratios if ratio]
    return statistics.geometric_mean(present) if present else None


def times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def named(row: ProgramRow, ratio: float) -> str:
    return f"{row.name} {row.size} {times(ratio)}"


def least(ratios: list[tuple[ProgramRow, float]], bound: float, what: str, text: str) -> Finding | None:
    """A target that every row has to meet: how many miss it, and the worst."""
    if not ratios:
        return None
    missed = sorted((entry for entry in ratios if entry[1] < bound), key=lambda entry: entry[1])
    worst = min(ratios, key=lambda entry: entry[1])
    got = f"{len(missed)} of {len(ratios)} below, worst: {named(*worst)}"
    return Finding(what, text, got, not missed)


def ratios_over(rows: Iterable[ProgramRow], side: str) -> list[tuple[ProgramRow, float]]:
    return [(row, ratio) for row in rows if (ratio := row.speedup(side))]


def findings(rows: list[ProgramRow], first: dict[str, float]) -> list[Finding]:
    middle = [row for row in rows if row.size == "middle"]
    wrong = [f"{row.name} {row.size}: {row.absent.get('npcompile', 'no time')}" for row in rows if "npcompile" not in row.timings]
    found: list[Finding | None] = [
        Finding("Answers that are not NumPy's", "0", f"{len(wrong)} of {len(rows)} {'; '.join(wrong)[:200]}", not wrong),
        least(ratios_over(rows, "NumPy"), SLOWEST_OF_NUMPY, "Speed over NumPy's, each program and size", f"≥ {SLOWEST_OF_NUMPY}"),
    ]
    ours = ratios_over(middle, "NumPy")
    if mean := geometric(ratio for _, ratio in ours):
        text = f"{mean:.2f} ({len(ours)} of {len(middle)} programs)"
        found.append(Finding("Geometric mean over NumPy, middle size", "≥ 5", text, mean >= 5))
    for peer in PEERS:
        common = ratios_over(middle, peer)
        if mean := geometric(ratio for _, ratio in common):
            text = f"{mean:.2f} ({len(common)} of {len(middle)} programs that both run)"
            says_something = 2 * len(common) > len(middle)
            found.append(Finding(f"Geometric mean over {peer}, middle size", "> 1", text, mean > 1 and says_something))
    found.append(over_the_best_peer([row for row in rows if row.is_chain and row.size != "small"]))
    loops = ratios_over((row for row in rows if row.is_loop), "numba")
    found.append(least(loops, LOOPS_OF_NUMBA, "Loop programs over Numba, each size", f"≥ {LOOPS_OF_NUMBA}"))
    limited = ratios_over((row for row in rows if row.size == "large"), MEMORY)
    found.append(least(limited, COPY_SHARE, "Bandwidth over that of a parallel copy in C", f"≥ {COPY_SHARE}"))
    tiny = [row for row in rows if row.size == "small" and row.family == "elementwise" and row.name != "one_op"]
    found.append(least(ratios_over(tiny, "NumPy"), 1, "Elementwise on 10 elements, over NumPy", "≥ 1"))
    for ops, bound in BOUNDS.items():
        if str(ops) in first:
            taken = first[str(ops)]
            found.append(
                Finding(f"First call of {ops:,} ops, new process, empty cache", f"≤ {bound} s", f"{taken:.2f} s", taken <= bound)
            )
    return [finding for finding in found if finding]


def over_the_best_peer(chains: list[ProgramRow]) -> Finding | None:
    """Only rows that were measured beside all peers tell which is the best one."""
    compared = [row for row in chains if all(peer in row.timings or peer in row.absent for peer in PEERS)]
    ratios = [(row, row.speedup(peer) or 0) for row in compared if (peer := row.best_peer())]
    finding = least(ratios, CHAINS_OF_PEERS, "Transcendental chains over the best peer", f"≥ {CHAINS_OF_PEERS}")
    if finding is None or len(compared) == len(chains):
        return finding
    others = f"{len(chains) - len(compared)} more not measured beside all peers"
    return replace(finding, got=f"{finding.got}; {others}", is_met=False)


def losses(row: ProgramRow) -> list[str]:
    """To whom npcompile loses here, with its speed over theirs."""
    if "npcompile" not in row.timings:
        return [row.absent.get("npcompile", "no time")]
    bounds = {"NumPy": SLOWEST_OF_NUMPY} | dict.fromkeys(PEERS, 1.0)
    return [f"{side} {times(ratio)}" for side, bound in bounds.items() if (ratio := row.speedup(side)) and ratio < bound]


def cell(row: ProgramRow, side: str) -> str:
    ratio = row.speedup("NumPy", side)
    if ratio is None:
        reason = row.absent.get(side, "")
        return reason.partition(":")[0] if reason.startswith(("WRONG", "FAILED")) else "–"
    return times(ratio)


def line(row: ProgramRow) -> str:
    """One row of the large table: times of NumPy and npcompile, and every side's speed over NumPy's."""
    times = [seconds(row.timings[side].median) if side in row.timings else "–" for side in ("NumPy", "npcompile")]
    return f"| {row.name} | {row.size} | {' | '.join(times)} | {' | '.join(cell(row, side) for side in ('npcompile', *PEERS))} |"


def header() -> list[str]:
    columns = ["program", "size", "NumPy", "npcompile", "npcompile, times faster", *PEERS]
    return ["", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]


def runs(rows: list[ProgramRow]) -> list[str]:
    """When and with which options the rows were measured: those of the same sources together."""
    together: dict[tuple[str, str], list[ProgramRow]] = {}
    for row in sorted(rows, key=lambda row: row.measured):
        together.setdefault((row.sources, row.run), []).append(row)
    return [
        f"- {len(members)} of the rows: {members[0].measured} to {members[-1].measured}, `{COMMAND} {run}`, sources {sources}"
        for (sources, run), members in together.items()
    ]


def markdown(about: dict[str, str], rows: list[ProgramRow], first: dict[str, float]) -> str:
    text = ["# Performance", ""]
    text += [f"What `{COMMAND}` measured and wrote; nothing here is written by hand. The machine:", ""]
    text += [f"- {key}: {value}" for key, value in about.items() if key not in ("date", "load")]
    text += [f"- load when it began: {about['load']}", "", "The runs, the latest last:", "", *runs(rows)]
    text += ["", "## Targets", "", "| target | bound | got | |", "|---|---|---|---|"]
    text += [finding.line() for finding in findings(rows, first)]
    text += ["", f"![times faster than NumPy, middle size]({PLOT})", "", "## Where npcompile loses", ""]
    lost = [(row, loss) for row in rows if (loss := losses(row))]
    lost.sort(key=lambda entry: entry[0].speedup() or 0)
    text += [f"{len(lost)} of {len(rows)} rows: below {SLOWEST_OF_NUMPY} of NumPy's speed, or slower than a peer."]
    text += ["", "| program | size | npcompile, times faster than NumPy | its speed over that of |", "|---|---|---|---|"]
    text += [f"| {row.name} | {row.size} | {cell(row, 'npcompile')} | {', '.join(loss)} |" for row, loss in lost]
    text += ["", "## All programs", "", "Times are medians of one call. The last columns are speeds over NumPy's."]
    numbers = {"small": SIZES[0], "short": SHORT * 1e6, "slow": SLOW, "fewest": FEWEST_SAMPLES, "longest": LONGEST_SAMPLING}
    text += SIDES_EXPLAINED.format(**numbers).rstrip().splitlines()
    for family in dict.fromkeys(row.family for row in rows):
        text += ["", f"### {family.capitalize()}", *header()]
        members = [row for row in rows if row.family == family]
        text += [line(row) for row in members]
        text += ["", *[f"- {row.name}: {row.title}" for row in members if row.size == "middle"]]
    text += ["", "## Geometric means over NumPy", "", f"| size | {' | '.join(('npcompile', *PEERS))} |", "|---|---|---|---|---|"]
    for size in SIZES:
        means = [geometric(row.speedup("NumPy", side) for row in rows if row.size == size) for side in ("npcompile", *PEERS)]
        text.append(f"| {size} | {' | '.join(f'{mean:.2f}' if mean else '–' for mean in means)} |")
    text += ["", "Each over the programs that the side runs.", "", "## Sides that do not take part", ""]
    for row in rows:
        reasons = {
            side: why
            for side, why in row.absent.items()
            if side != MEMORY and (row.size == "middle" or "FAILED" in why or "WRONG" in why)
        }
        text += [f"- {row.name} {row.size}, {side}: {why}" for side, why in reasons.items()]
    return "\n".join([*text, ""])


def plot(rows: list[ProgramRow], path: Path) -> None:
    """Speeds over NumPy's at the middle size, those of npcompile in order; a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = sorted((row for row in rows if row.size == "middle" and row.speedup()), key=lambda row: row.speedup() or 0)
    if not rows:
        return
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.17 * len(rows)), layout="constrained")
    for side, size in (*((peer, 18) for peer in PEERS), ("npcompile", 34)):
        points = [(ratio, place) for place, row in enumerate(rows) if (ratio := row.speedup("NumPy", side))]
        if points:
            axes.scatter(*zip(*points), s=size, label=side, color=COLOURS[side], zorder=3, linewidths=0)
    axes.axvline(1, color=COLOURS["NumPy"], linewidth=1)
    axes.set(xscale="log", xlabel="times faster than NumPy, middle size (higher is better)", ylim=(-1, len(rows)))
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=7)
    axes.grid(axis="y", linewidth=0.3)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def write(path: Path, about: dict[str, str], rows: list[ProgramRow], first: dict[str, float]) -> None:
    path.write_text(markdown(about, rows, first))
    plot(rows, path.parent / PLOT)
