"""What a run did, to be compared with plain Python's: result, exception, warnings with their lines, contents of the arguments."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from npcompile.backends.cpu.loop_ir.program import CompiledLoop
from npcompile.tensor_core.loop_ir.interpreter import interpret
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tracer.loop_ir.resume import finish

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Happened:
    result: Any  # a value, or the type and the text of an exception
    warnings: list[tuple[str, int]]
    arguments: Arguments
    is_argument: int  # which argument the result is, -1: none

    def same(self, other: Happened, exact: bool = True) -> bool:
        equal = same_bits if exact else nearly
        return (
            equal(self.result, other.result)
            and self.warnings == other.warnings
            and self.is_argument == other.is_argument
            and all(equal(x, y) for x, y in zip(self.arguments, other.arguments))
        )


def same_bits(x: Any, y: Any) -> bool:
    if isinstance(x, list | tuple):
        return type(x) is type(y) and len(x) == len(y) and all(map(same_bits, x, y))
    if isinstance(x, np.ndarray | np.generic | float):
        if type(x) is not type(y) or np.shape(x) != np.shape(y) or np.asarray(x).dtype != np.asarray(y).dtype:
            return False
        nans = np.isnan(x)  # their signs and payloads are not NumPy's promise
        return np.array_equal(nans, np.isnan(y)) and np.where(nans, 0, x).tobytes() == np.where(nans, 0, y).tobytes()
    return type(x) is type(y) and x == y


def nearly(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray | np.floating):
        return type(x) is type(y) and np.allclose(x, y, rtol=1e-13, equal_nan=True)
    return same_bits(x, y)


def happened(call: Callable[..., Any], arguments: Arguments) -> Happened:
    mine = copy.deepcopy(arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call(*mine)
        except Exception as error:
            result = (type(error).__name__, str(error))
    which = next((k for k, x in enumerate(mine) if x is result and isinstance(x, np.ndarray)), -1)
    return Happened(result, [(str(w.message), w.lineno) for w in caught], mine, which)


def interpreted(function: FunctionType, program: Program, leave_at: int = -1) -> Callable[..., Any]:
    """The function by the reference interpreter, and by Python from where that was left."""
    return lambda *arguments: finish(function, interpret(program, arguments, leave_at)[0])


def compiled(function: FunctionType, loop: CompiledLoop, leave_at: int = -1) -> Callable[..., Any]:
    """The function by machine code, and by Python from where that was left."""

    def call(*arguments: Any) -> Any:
        ended = loop(arguments, leave_at)
        return finish(function, ended.outcome, ended.raised)

    return call


def checks_in(program: Program, arguments: Arguments) -> int:
    """How many Checks and Polls a run passes."""
    return interpret(program, copy.deepcopy(arguments))[1]
