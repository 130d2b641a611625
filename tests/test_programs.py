"""Every benchmark program gives NumPy's answer through the CPU backend, at its smallest size; its declaration holds together."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.measure import Timing
from benchmarks.programs import page
from benchmarks.programs.__main__ import read, write
from benchmarks.programs.answers import difference
from benchmarks.programs.families import PROGRAMS
from benchmarks.programs.measure import ProgramRow, measure
from benchmarks.programs.program import SIZES, Program
from benchmarks.programs.workers import Stopped, Worker
from benchmarks.sides import npcompile_side, numpy_side


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Program) -> None:
    case, inputs = program.case("small"), program.arguments("small")
    kept = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    numpy, ours = numpy_side(case, inputs), npcompile_side(case, inputs)
    assert numpy is not None and ours is not None
    expected = numpy()
    for _ in range(2):  # compiled now, and found again
        assert difference(program, expected, ours(), exact=True) is None
    for i, (x, before) in enumerate(zip(inputs, kept)):
        assert np.array_equal(x, before), f"argument {i} was changed, and is not among those that {program.name} changes"


def test_families() -> None:
    assert len(PROGRAMS) >= 40
    for program in PROGRAMS.values():
        assert program.title and len(program.sizes) == len(SIZES)
        assert set(program.versions) <= {"numba", "jax", "torch"}, program.name
        assert len(inspect.signature(program.inputs).parameters) == 1 + len(program.sizes[0]), program.name


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        ((np.arange(3.0), np.int64(2)), True),
        ((np.arange(3.0) + 1e-3, np.int64(2)), False),
        ((np.arange(3.0), np.int64(3)), False),
        ((np.arange(3.0), 2), False),
        ((np.arange(3.0, dtype=np.float32), np.int64(2)), False),
        (np.arange(3.0), False),
    ],
)
def test_a_wrong_answer_is_called_wrong(answer: Any, is_right: bool) -> None:
    expected = np.arange(3.0), np.int64(2)
    assert (difference(PROGRAMS["one_op"], expected, answer, exact=True) is None) is is_right


def test_peers_may_round_differently_and_count_a_few_steps_more() -> None:
    counts = np.zeros(10_000, np.int32)
    few, many = counts.copy(), counts.copy()
    few[0], many[:100] = 1, 1
    assert difference(PROGRAMS["mandelbrot"], counts, few, exact=False) is None
    assert difference(PROGRAMS["mandelbrot"], counts, many, exact=False)
    assert difference(PROGRAMS["mandelbrot"], counts, few, exact=True)


def row(name: str, size: str = "middle", **seconds: float) -> ProgramRow:
    timings = {side.replace("_", " "): Timing(time, time, time, 1) for side, time in seconds.items()}
    program = PROGRAMS[name]
    return ProgramRow(name, program.title, timings=timings, family=program.family, size=size, is_loop=program.is_loop)


def test_page_says_what_is_missed_and_who_loses_first() -> None:
    rows = [
        row("one_op", NumPy=10, npcompile=1, numba=2),
        row("softmax", NumPy=10, npcompile=5, JAX=1),
        row("lu", NumPy=10, npcompile=20, numba=5),
        row("crc32", NumPy=10),
    ]
    rows[3].absent["npcompile"] = "WRONG: 3 integers differ"
    text = page.markdown({"cpu": "some", "load": "0"}, rows, {"10": 0.3, "200": 1.5})
    targets = {finding.what: finding for finding in page.findings(rows, {"10": 0.3, "200": 1.5})}
    assert not targets["Answers that are not NumPy's"].is_met
    assert targets["Speed over NumPy's, each program and size"].got == "1 of 3 below, worst: lu middle 0.50"
    assert targets["Geometric mean over NumPy, middle size"].got == "2.15 (3 of 4 programs)"
    assert targets["Geometric mean over numba, middle size"].got == "0.71 (2 programs that both run)"
    assert not targets["Loop programs over Numba, each size"].is_met
    assert targets["First call of 10 ops, new process, empty cache"].is_met
    assert not targets["First call of 200 ops, new process, empty cache"].is_met
    assert text.index("| crc32 | middle | WRONG") < text.index("| lu | middle | 0.50") < text.index("| softmax | middle | 2.00")
    assert text.index("## Where npcompile loses") < text.index("| one_op | middle | 10 s | 1 s | 10 | 5.00 | – | – |")


def test_results_are_taken_up_again_on_the_same_machine_alone(tmp_path: Path) -> None:
    path, machine = tmp_path / "results.json", dict.fromkeys(("cpu", "cores", "system", "python", "versions"), "some")
    rows = [row("one_op", NumPy=10, npcompile=1)]
    write(path, machine, rows, {"10": 0.3})
    assert read(path, machine) == (rows, {"10": 0.3})
    assert read(path, machine | {"cpu": "other"}) == ([], {})


def test_a_side_that_hangs_is_stopped_alone() -> None:
    workers = {"NumPy": Worker("NumPy")}
    try:
        with pytest.raises(Stopped, match="over 0 s"):
            workers["NumPy"].send("prepare", "crc32", "large")
            workers["NumPy"].receive(0.01)
        found = measure(PROGRAMS["particles"], "small", workers, 1, 60)
        assert found.timings["NumPy"].samples == 1
        assert "npcompile" not in found.timings
    finally:
        workers["NumPy"].stop()
