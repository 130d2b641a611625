"""Random programs: what NumPy does, compiled code does. docs/fuzzing.md tells how to run it for long."""

from __future__ import annotations

import pytest

import npcompile as npc
from tests.backends import BACKENDS
from tests.fuzz.generate import draw_program
from tests.fuzz.outcomes import check_program
from tests.random_programs import check_examples

EXAMPLES = {"eager": 150, "cpu": 30, "cuda": 30}


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_programs(backend: str) -> None:
    check_examples(draw_program, check_program, backend, EXAMPLES[backend])


def test_random_programs_have_numpys_bits() -> None:
    with npc.config.patch(accuracy="bitwise"):
        check_examples(draw_program, check_program, "cpu", EXAMPLES["cpu"] // 2)
