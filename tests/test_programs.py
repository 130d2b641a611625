"""Every benchmark program gives NumPy's answer through the CPU backend, at its smallest size; its declaration holds together."""

from __future__ import annotations

import inspect
import os
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from benchmarks import machine
from benchmarks.measure import Timing
from benchmarks.programs import page
from benchmarks.programs.__main__ import SAME_MACHINE, Results, is_kept, read
from benchmarks.programs.answers import difference
from benchmarks.programs.families import PROGRAMS
from benchmarks.programs.measure import ProgramRow, measure
from benchmarks.programs.preparing import Held, Sides, prepare_together
from benchmarks.programs.program import SIZES, Program
from benchmarks.programs.workers import Worker, move_to, processors
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
    assert targets["Geometric mean over numba, middle size"].got == "0.71 (2 of 4 programs that both run)"
    assert not targets["Loop programs over Numba, each size"].is_met
    assert targets["First call of 10 ops, new process, empty cache"].is_met
    assert not targets["First call of 200 ops, new process, empty cache"].is_met
    assert text.index("| crc32 | middle | WRONG") < text.index("| lu | middle | 0.50") < text.index("| softmax | middle | 2.00")
    assert text.index("## Where npcompile loses") < text.index("| one_op | middle | 10 s | 1 s | 10 | 5.00 | – | – |")


def test_page_does_not_say_of_chains_what_was_not_measured() -> None:
    rows = [row("wave", **dict.fromkeys(("NumPy", "npcompile", "numba"), 1.0), JAX=9, torch_compile=8)]
    rows[0].timings = {side.replace("torch compile", "torch.compile"): timing for side, timing in rows[0].timings.items()}
    rows[0].timings["numba"] = Timing(3, 3, 3, 1)
    rows[0].is_chain = True
    found = page.over_the_best_peer(rows)
    assert found is not None and found.is_met and found.got == "0 of 1 below, worst: wave middle 3.00"
    rows.append(row("wave", "large", NumPy=10, npcompile=1, numba=5))
    found = page.over_the_best_peer(rows)
    assert found is not None and not found.is_met and found.got.endswith("; 1 more not measured beside all peers")


def results(path: Path, rows: list[ProgramRow], first: dict[str, Any]) -> Results:
    return Results(path, dict.fromkeys(SAME_MACHINE, "some"), rows, first)


def test_results_are_taken_up_again_on_the_same_machine_alone(tmp_path: Path) -> None:
    kept = results(tmp_path / "results.json", [row("one_op", NumPy=10, npcompile=1)], {"10": 0.3})
    kept.write()
    assert read(kept.path, kept.about) == kept
    other = kept.about | {"cpu": "other"}
    assert read(kept.path, other) == Results(kept.path, other, [], {})


def test_rows_of_other_sources_and_options_are_replaced(tmp_path: Path) -> None:
    kept = results(tmp_path / "results.json", [], {})
    for measured, sources, run in (
        ("09:00", "old", "--repeat 3"),
        ("10:00", "new", "--repeat 3"),
        ("11:00", "new", "--repeat 5"),
    ):
        entry = row("lu" if sources == "new" else "one_op", "small" if run == "--repeat 5" else "middle", NumPy=10, npcompile=1)
        entry.measured, entry.sources, entry.run = measured, sources, run
        kept.replace(entry)
    rows = read(kept.path, kept.about).rows
    assert [(entry.name, entry.size) for entry in rows] == [("one_op", "middle"), ("lu", "small"), ("lu", "middle")]
    assert [is_kept(entry, "changed", "--repeat 3", "new") for entry in rows] == [False, False, True]
    assert [is_kept(entry, redo, "", "") for entry in rows for redo in ("none", "all")] == [True, False] * 3
    text = page.markdown({"cpu": "some", "load": "0"}, rows, {})
    runs = [line for line in text.splitlines() if "of the rows" in line]
    assert runs == [
        f"- 1 of the rows: {when} to {when}, `{page.COMMAND} {run}`, sources {sources}"
        for when, run, sources in (("09:00", "--repeat 3", "old"), ("10:00", "--repeat 3", "new"), ("11:00", "--repeat 5", "new"))
    ]
    again = row("one_op", NumPy=10, npcompile=2)
    kept.replace(again)
    assert read(kept.path, kept.about).rows == [again, *rows[1:]]


def test_the_sources_have_another_name_when_their_text_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.sources() == machine.sources()
    (tmp_path / "npcompile").mkdir()
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    names = set()
    for text in ("a = 1", "a = 2"):
        (tmp_path / "npcompile" / "a.py").write_text(text)
        names.add(machine.sources())
    assert len(names) == 2


def prepared(names: tuple[str, ...], sides: Sides, cap: float, minutes: float = 10, size: str = "small") -> list[Held]:
    wanted = [Held(PROGRAMS[name], size) for name in names]
    return prepare_together(wanted, sides, cap, at_once=2, until=time.monotonic() + 60 * minutes)


def test_programs_are_compiled_together_and_measured_alone() -> None:
    both = prepared(("one_op", "particles"), {"NumPy": None, "npcompile": True}, 60)
    try:
        for each in both:
            assert not each.absent
            found = measure(each, 2, 60)
            assert set(found.timings) == {"NumPy", "npcompile"}
            assert all(1 <= timing.samples <= 2 and timing.median > 0 for timing in found.timings.values())
    finally:
        for each in both:
            each.stop()


class Quickening:
    """A worker whose every sample is ten times quicker than the one before, as on a machine that others leave."""

    def __init__(self) -> None:
        self.seconds = 1e-3

    def sample(self, count: int, warm: bool, limit: float, processor: int | None) -> float:
        self.seconds /= 10
        return self.seconds


class Seated:
    """A worker that notes where its samples begin."""

    def __init__(self) -> None:
        self.seats: list[int | None] = []

    def sample(self, count: int, warm: bool, limit: float, processor: int | None) -> float:
        self.seats.append(processor)
        return 1e-3


def test_a_side_that_becomes_quicker_with_each_sample_has_a_time() -> None:
    held = Held(PROGRAMS["one_op"], "small", workers={"NumPy": cast(Worker, Quickening())}, second={"NumPy": 1e-3})
    assert measure(held, 2, 60).timings["NumPy"].samples == 1


def test_sides_of_a_round_begin_on_one_processor_where_calls_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.programs.measure.processors", lambda: [0, 2, 5])
    for size, of_three_rounds in (("small", {0, 2, 5}), ("middle", {None})):
        sides = {"NumPy": Seated(), "npcompile": Seated()}
        workers = {side: cast(Worker, worker) for side, worker in sides.items()}
        measure(Held(PROGRAMS["one_op"], size, workers=workers, second=dict.fromkeys(sides, 1e-3)), 6, 60)
        ours, theirs = (worker.seats for worker in sides.values())
        assert ours == theirs and set(ours[:3]) == set(ours[3:]) == of_three_rounds


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not say where threads run")
def test_a_process_that_is_moved_may_run_where_it_might_before() -> None:
    before = processors()
    move_to(before[-1])
    assert processors() == before


def test_a_side_that_takes_too_long_is_stopped_alone() -> None:
    (late,) = prepared(("crc32",), {"NumPy": None}, cap=0.01, size="large")
    assert late.absent["NumPy"] == "FAILED: does not compile and answer in 0 s"
    assert not late.workers
    assert late.late == {"NumPy"}  # so that it was tried once more, alone
    assert prepared(("one_op",), {"NumPy": None}, cap=60, minutes=0) == []


def test_a_side_that_ends_while_it_is_measured_has_no_time() -> None:
    (each,) = prepared(("one_op",), {"NumPy": None, "copy in C": None}, 60)
    try:
        each.workers["copy in C"].process.kill()
        found = measure(each, 1, 60)
        assert found.timings["NumPy"].samples == 1
        assert found.absent == {"copy in C": "FAILED: its process ended"}
    finally:
        each.stop()
