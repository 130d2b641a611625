"""The gate calls a slower checkout slower, a faster one faster, and noise neither."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gate.__main__ import Row, chosen_rows, interval_of_median, report

ROOT = Path(__file__).resolve().parents[1]


def row_of(*ratios: float) -> Row:
    return Row("program", "small", base=1e-6, ratios=list(ratios), first=1.0)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    draw = random.Random(3).gauss
    intervals = [interval_of_median([draw(0, 1) for _ in range(15)]) for _ in range(4000)]
    assert 0.985 < sum(low <= 0 <= high for low, high in intervals) / len(intervals) < 0.999
    assert interval_of_median([3.0, 1.0, 2.0]) == (1.0, 3.0)  # of so few nothing is certain
    low, high = interval_of_median(range(101))
    assert 30 < low < 40
    assert 60 < high < 70


@pytest.mark.parametrize(
    ("ratios", "moved"),
    [
        ([1.2 + 0.01 * k for k in range(15)], 1),
        ([0.8 - 0.01 * k for k in range(15)], -1),
        ([1.02 + 0.001 * k for k in range(15)], 0),  # surely slower, and by less than the limit
        ([0.7, 1.5] * 8, 0),  # nobody knows
        ([1.5, 1.5, 1.5], 1),
    ],
)
def test_what_has_moved(ratios: list[float], moved: int) -> None:
    assert row_of(*ratios).moved(0.05) == moved


def test_the_report_names_what_is_slower_and_what_is_lost() -> None:
    slow, same, lost = row_of(*[1.5] * 9), row_of(*[1.0] * 9), Row("other", "small", failed={"own": "ValueError: no"})
    text, holds = report([slow, same, lost], [slow], 0.05)
    assert not holds
    assert "Slower: 1" in text
    assert "| program | small | 1 us | 1.500 |" in text
    assert "Lost: 1" in text
    assert "own: ValueError: no" in text
    assert report([same], [], 0.05)[1]
    assert report([slow, same], [same], 0.05)[1]  # slower once, and not the second time


def test_programs_are_chosen_by_name_or_family() -> None:
    assert [row.size for row in chosen_rows(["moments"], ["small", "middle"])] == ["small", "middle"]
    assert len(chosen_rows(["reductions"], ["small"])) > 3
    with pytest.raises(SystemExit, match="no such program or family: nothing"):
        chosen_rows(["nothing"], ["small"])


def test_a_checkout_against_another(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "npcompile").symlink_to(ROOT / "npcompile")
    command = [sys.executable, "-m", "benchmarks.gate", str(other), "columns", "--sizes", "small", "--rounds", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert "1 rows: geometric mean" in done.stdout, done.stderr
    assert "| columns | small |" in done.stderr
    assert "Lost: 0" in done.stdout
