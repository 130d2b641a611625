"""`python -m benchmarks.training [NAME...]`: every program by every side, checked against each other, interleaved."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks import machine
from benchmarks.measure import Timing, interleave
from benchmarks.report import seconds
from benchmarks.training import memory
from benchmarks.training.program import Program
from benchmarks.training.programs import PROGRAMS
from benchmarks.training.sides import SIDES, Side, Step

CHECKED_STEPS = 3


def prepared(program: Program, side: Side) -> Step:
    """A step that has been taken CHECKED_STEPS times."""
    rng = np.random.default_rng(20240229)
    step = side.prepare(program, program.parameters(rng), program.data(rng))
    for _ in range(CHECKED_STEPS):
        step.run()
    return step


def disagreement(program: Program, step: Step, other: Step) -> str | None:
    mine, theirs = step.results(), other.results()
    for name, x in mine.items():
        allowed = program.relative_error * np.max(np.abs(theirs[name]))
        if x.dtype != theirs[name].dtype or not np.allclose(x, theirs[name], rtol=0, atol=allowed):
            return f"{name} differs by {np.max(np.abs(x - theirs[name])):.3g}"
    return None


def measure(program: Program, sides: list[Side], repetitions: int) -> dict[str, Timing | str]:
    """Of each side its timing, or why there is none. Results are compared with those of the first side that has some."""
    calls, found, first = {}, {}, None
    for side in sides:
        if not side.is_installed():
            found[side.name] = "not installed"
            continue
        step = prepared(program, side)
        if first is None and step.results():
            first = step
        wrong = disagreement(program, step, first) if first is not None else None
        if wrong:
            found[side.name] = f"WRONG: {wrong}"
        else:
            calls[side.name] = step.run
    return found | interleave(calls, repetitions)


def verdict(program: Program, found: dict[str, Timing | str]) -> str:
    """What was reached of the targets."""
    parts = []
    for text, bound, names in (
        ("the loss alone", program.forward_bound, ["npcompile loss alone"]),
        ("torch.compile", program.torch_bound, ["torch.compile", "torch.compile, torch.func"]),
    ):
        own = found.get("npcompile")
        others = [found[n].median for n in names if isinstance(found.get(n), Timing)]
        if bound is not None and isinstance(own, Timing) and others:
            ratio = own.median / min(others)
            parts.append(f"≤ {bound:g}x {text} / **{ratio:.2f}x** {'met' if ratio <= bound else 'missed'}")
    return "; ".join(parts)


def table(title: str, sides: list[str], rows: list[tuple[str, list[str]]]) -> str:
    lines = [f"| {title} | {' | '.join(sides)} |", "|" + "---|" * (len(sides) + 1)]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)])


def cell(result: Timing | str | None) -> str:
    if not isinstance(result, Timing):
        return result or "–"
    return f"{seconds(result.median)} ({seconds(result.least)}…{seconds(result.most)})"


def memory_cell(program: Program, side: Side) -> str:
    return f"{memory.in_new_process(program.name, side.name):.0f}" if side.is_installed() else "not installed"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    names = ", ".join(p.name for p in PROGRAMS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"programs, all by default: {names}")
    parser.add_argument("--repeat", type=int, default=21, help="samples per side")
    parser.add_argument("--side", action="append", choices=[side.name for side in SIDES], help="run these sides only")
    parser.add_argument("--memory", action="store_true", help="measure peak memory too, each side in a process of its own")
    parser.add_argument("--out", type=Path, help="a file to write the tables to")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - {p.name for p in PROGRAMS}:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    programs = [p for p in PROGRAMS if not chosen.names or p.name in chosen.names]
    sides = [s for s in SIDES if not chosen.side or s.name in chosen.side]

    about = machine.describe()
    rows = []
    for program in programs:
        print(f"{program.name} ...", file=sys.stderr, flush=True)
        found = measure(program, sides, chosen.repeat)
        rows.append((program.title, [*(cell(found.get(s.name)) for s in sides), verdict(program, found)]))
    parts = ["# Gradients and training steps", "\n".join(f"- {name}: {value}" for name, value in about.items())]
    parts.append("Median (least…most) of one step; all sides interleaved in one run, results compared with each other.")
    parts.append(table("", [*(s.name for s in sides), "target / got"], rows))
    if chosen.memory:
        peaks = [(p.title, [memory_cell(p, s) for s in sides]) for p in programs]
        parts.append("MiB: the most during five steps, the first among them, less what the process had before.")
        parts.append(table("", [s.name for s in sides], peaks))
    text = "\n\n".join(parts) + "\n"
    print(text)
    if chosen.out:
        chosen.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
