"""The benchmark of loops on a device: its sides give the same answers, and its kernels compile."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from benchmarks.cuda_loops.__main__ import Row, report
from benchmarks.cuda_loops.by_hand import KERNELS
from benchmarks.cuda_loops.programs import PROGRAMS, Program
from npcompile.backends.cuda.loop_ir.nvrtc import compile_cubin
from tests.backends import need_nvrtc


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_numpy_gives_what_the_loops_give(program: Program) -> None:
    given = program.arguments(program.small)
    expected = program.in_numpy(*copy.deepcopy(given))
    result = program.function(*given)
    np.testing.assert_allclose(program.outcome(result, given), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_by_hand_compile(name: str) -> None:
    need_nvrtc()
    assert compile_cubin(KERNELS[name], 90)[:4] == b"\x7fELF"


def test_a_wrong_answer_is_said_and_does_not_count() -> None:
    right, wrong, slow = (Row(p, {"npcompile": t, "NumPy": 1.0}) for p, t in zip(PROGRAMS, (0.5, 0.01, 2.0)))
    wrong.wrong = "npcompile WRONG "
    text = report([right, wrong, slow], "a device")
    assert "npcompile WRONG" in text and "1.0 times NumPy's speed; 1 slower" in text
