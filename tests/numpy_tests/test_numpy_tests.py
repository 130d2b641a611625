"""NumPy's own tests on Tensors: exactly those fail that failures.toml lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.numpy_tests.record import LIST, NUMPY_VERSION, PAGE, TOGETHER, Outcomes, expanded, load, outcomes_of, page


@pytest.mark.skipif(
    not np.__version__.startswith(f"{NUMPY_VERSION}."), reason=f"the list names the tests of NumPy {NUMPY_VERSION}"
)
@pytest.mark.parametrize("modules", TOGETHER, ids=lambda modules: modules[0])
def test_what_fails_is_listed(modules: list[str], tmp_path: Path) -> None:
    for module, outcomes in outcomes_of(modules, tmp_path).items():
        check(module, outcomes)


def check(module: str, outcomes: Outcomes) -> None:
    known = load()[module]
    failed = {name for name, (outcome, _) in outcomes.items() if outcome == "failed"}
    listed = expanded([name for names in known["tests"].values() for name in names], list(outcomes))
    assert not failed - listed, {name: outcomes[name][1] for name in failed - listed}
    passing = sorted(name for name in listed - failed if outcomes.get(name, ("gone",))[0] != "skipped")
    assert not passing, f"pass now, so they leave {LIST.name}: {passing}"
    assert sum(outcome == "passed" for outcome, _ in outcomes.values()) >= known["passed"], module


def test_the_page_is_of_this_list() -> None:
    assert PAGE.read_text() == page(load()), "run python -m tests.numpy_tests.record"
