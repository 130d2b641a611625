"""Random subscripts, read and written in compiled programs. `python -m tests.shim.index_programs 5000` runs many."""

from __future__ import annotations

import numpy as np
import pytest

from tests.random_programs import check_examples
from tests.shim.index_programs import Program, check_program, draw_program

EXAMPLES = {"eager": 250, "cpu": 25}


def test_mask_for_all_axes_takes_vectors() -> None:
    x, mask = np.zeros((2, 2)), "np.array([[True, False], [True, True]])"
    for value in (np.ones((1, 3)), np.ones(3)):
        check_program(Program(f"x[{mask}] = v; return x", {"x": x, "v": value}), "eager")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_numpy_fails_at() -> None:
    """Where x and what is added share memory, ufunc.at says twice that an index is out of bounds, which is a SystemError."""
    given = {"x": np.ones((2, 3, 4)), "k": np.array([[1], [2], [-3]])}
    check_program(Program("np.add.at(x, (2, [1, -3, -2], k), x.T); return x", given), "eager")


@pytest.mark.parametrize("backend", EXAMPLES)
def test_index_programs(backend: str) -> None:
    check_examples(draw_program, check_program, backend, EXAMPLES[backend])
