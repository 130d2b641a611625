"""The programs as CUDA C++, compiled for an H100 or H200 by NVRTC's wheel, without a GPU."""

from __future__ import annotations

import pytest

from npcompile.backends.cuda.loop_ir.nvrtc import Refused, compile_cubin
from npcompile.backends.cuda.loop_ir.program import cuda_program
from npcompile.backends.loop_ir.target import Unsupported
from npcompile.tensor_core.loop_ir.ops import Policy
from npcompile.tracer.loop_ir.front_end import trace
from tests.backends import need_nvrtc
from tests.loop_ir.programs import CASES, NAMES, Case

need_nvrtc()


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_programs_compile_for_a_device(case: Case) -> None:
    program = trace(case.function, case.arguments[0](), Policy.ABORT).program
    if case.prints_on_cuda:
        assert compile_cubin(cuda_program(program).source, 90)[:4] == b"\x7fELF"
    else:
        with pytest.raises(Unsupported, match="lists that grow"):
            cuda_program(program)


def test_a_refusal_says_where() -> None:
    case = CASES[NAMES.index("crossings")]
    with pytest.raises(Unsupported) as caught:
        cuda_program(trace(case.function, case.arguments[0](), Policy.ABORT).program)
    assert caught.value.line == case.function.__code__.co_firstlineno + 1


def test_nvrtc_says_why() -> None:
    with pytest.raises(Refused, match="undefined"):
        compile_cubin("__global__ void f() { unknown(); }", 90)
