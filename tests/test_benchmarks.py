"""The benchmark harness calls a wrong answer wrong and a missed target missed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import npcompile as npc
from benchmarks import guards, report
from benchmarks.case import Case, Target
from benchmarks.cases import CASES
from benchmarks.measure import LONGEST_REST, LOOK, Row, Timing, disagreement, interleave, judge, rest


def double(x):
    return x * 2


CASE = Case("double", "doubling", double, lambda rng: (rng.standard_normal(100),))


def row_of(**seconds: float) -> Row:
    timings = {name.replace("_", " "): Timing(median, median, median, 1) for name, median in seconds.items()}
    return Row("double", "doubling", timings=timings)


@pytest.mark.parametrize(
    ("target", "got", "is_met"),
    [
        (Target("best peer", 1.5), 2.0, True),
        (Target("best peer", 2.5), 2.0, False),
        (Target("numpy", 1.0), 0.25, True),
        (Target("numpy", 0.1), 0.25, False),
        (Target("seconds", 1.0), 1.0, True),
        (Target("seconds", 0.5), 1.0, False),
    ],
)
def test_targets(target: Target, got: float, is_met: bool) -> None:
    row = row_of(NumPy=4.0, npcompile=1.0, JAX=2.0, numba=3.0)
    row.target = str(target)
    judge(row, target)
    assert (row.got, row.is_met) == (got, is_met)
    assert ("missed" in report.verdict(row)) is not is_met


def test_without_npcompile_no_target_is_met() -> None:
    row = row_of(NumPy=4.0, JAX=2.0)
    judge(row, Target("best peer", 0.0))
    assert row.is_met is None


def test_disagreement() -> None:
    expected = np.arange(3.0)
    assert disagreement(CASE, expected, expected + 1e-14, exact_type=True) is None
    assert disagreement(CASE, expected, expected + 1e-3, exact_type=False)
    assert disagreement(CASE, expected, expected[:2], exact_type=False)
    assert disagreement(CASE, expected, expected.astype(np.float32), exact_type=True)
    assert disagreement(CASE, expected.sum(), np.asarray(expected.sum()), exact_type=True)


@pytest.mark.parametrize(
    ("ran", "looks"),
    [
        ([0.010, 0.010, 0.004, 0.0, 0.010], 4),  # a product's threads spin, then sleep
        ([0.010] * 1000, LONGEST_REST / LOOK),  # somebody's own threads never sleep
    ],
)
def test_who_was_measured_rests_until_its_threads_sleep(ran: list[float], looks: float) -> None:
    waits: list[float] = []
    rest(lambda: sum(ran[: len(waits)]), waits.append)
    assert waits == [LOOK] * int(looks)


def test_interleave_and_report() -> None:
    x = np.zeros(10)
    row = Row("double", "doubling", timings=interleave({"NumPy": lambda: double(x), "npcompile": lambda: double(x)}, 2))
    assert all(t.samples == 2 and 0 < t.least <= t.median <= t.most for t in row.timings.values())
    text = report.markdown({"cpu": "some"}, [row])
    assert "- cpu: some" in text
    assert "| doubling | " in text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_numpy_functions_are_deterministic(case: Case) -> None:
    first, second = (case.function(*case.inputs(np.random.default_rng(1))) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.isfinite(first).all()


@pytest.mark.parametrize("module", ["loop_ir", "loop_compilers", "loop_gradients", "cuda_loops"])
def test_commands_name_their_programs(module: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{module}"]
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "smoothing" in told
    refused = subprocess.run([*command, "no_such"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.endswith("error: no such program: no_such\n")


@pytest.mark.parametrize("row", guards.ROWS, ids=lambda row: row.title)
def test_the_graph_that_a_call_enters_is_found(row: guards.Row) -> None:
    compiled, arguments = npc.compile(row.function), row.arguments(10)
    expected = compiled(*arguments)
    np.testing.assert_array_equal(guards.bare_call(compiled, arguments)(), expected)
