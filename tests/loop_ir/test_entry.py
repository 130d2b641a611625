"""Functions that run as loop IR: a version for each combination of types, and Python where there is none."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tracer.loop_ir.entry import LoopFunction
from tests.loop_ir.agreement import same_bits
from tests.loop_ir.programs import smoothing


def test_a_version_for_each_combination_of_types() -> None:
    compiled, x = LoopFunction(smoothing, compile_program), np.arange(9.0)
    for arguments in ((x, 0.5), (x[:5], 0.25), (x, np.float64(0.5)), (x[::2], 0.5)):
        assert same_bits(compiled(*arguments), smoothing(*arguments))
    assert len(compiled.versions) == 3 and not compiled.reasons


def test_what_has_no_type_runs_in_python() -> None:
    compiled = LoopFunction(smoothing, compile_program)
    x = np.arange(5, dtype=np.float16)
    assert compiled(x, 0.5).dtype == np.float16  # type: ignore[attr-defined]
    assert list(compiled.reasons.values()) == ["an argument of a type without IR"]


def test_a_name_that_changes_is_seen() -> None:
    namespace: dict[str, Any] = {"np": np}
    exec("def f(x, n):\n    s = 0.0\n    for i in range(n):\n        s = s + abs(x[i])\n    return s\n", namespace)
    function = namespace["f"]
    assert isinstance(function, FunctionType)
    compiled, x = LoopFunction(function, compile_program), -np.ones(3)
    assert compiled(x, 3) == 3.0
    namespace["abs"] = lambda value: value
    assert compiled(x, 3) == -3.0
    del namespace["abs"]
    assert compiled(x, 3) == 3.0
