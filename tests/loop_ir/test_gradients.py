"""Gradients of the programs by reverse mode on the IR, against differences, in the interpreter and in C."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir.adjoint import adjoint, gradient
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.interpreter import interpret
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import Policy, Store
from npcompile.tensor_core.loop_ir.outcome import Exited, Returned
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.pipeline import differentiable, run_passes
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.programs import CASES, numbers

Arguments = tuple[Any, ...]
STEP = 1e-6


def absolute_values(x, y):
    """Every arithmetic op that has a derivative, in a loop with a condition."""
    total = 0.0
    for i in range(x.size):
        a = abs(x[i]) / (1.0 + x[i] * x[i])
        if a > 0.3:
            a = np.sqrt(a) - np.exp(-x[i])
        else:
            a = np.sin(a) * np.cos(x[i]) + -a
        y[i] = a
        total = total + a * y[i]
    return total


def overwritten(x, y):
    """An element is read, overwritten and read again, in a nest with inner bounds of its own."""
    for i in range(1, x.size):
        for j in range(i):
            x[i] = x[i] * x[j] + y[j]
        y[i] = x[i] * y[i - 1]


def searched_sum(x):
    """Joined versions make a loop that is not counted, and that two ways leave."""
    s = 0.0
    for i in range(x.size):
        s = s + x[i] * x[i]
        if s > 2.0:
            break
    return s * 2.0 + s * s - x.size  # too long for CPython 3.13 to write it after the loop and after the `break`


def ended_early(x, a):
    """Ends in several places, in and behind loops that are left from inside, one of them in another."""
    s = a * a
    for i in range(x.size):
        for j in range(i):
            s = s * 0.9 + x[i] * x[j]
            if s > 3.0:
                return s * a
        if x[i] > 1.4:
            break
        s = s + x[i]
    else:
        return s * s
    k = 0
    while s > 0.1:
        s = s * 0.5
        k += 1
        if k > 40:
            return 1.0
    return s * x[0]


def listed(x):
    """Numbers are appended to a list, read, and appended again."""
    found = []
    s = x[0]
    for i in range(x.size):
        if x[i] > 0.8:
            found.append(s * x[i])
            s = s + found[len(found) - 1] * found[0]
    return s


def repeated(x, n):
    """Array views, and products of what was written before."""
    for i in range(1, n):
        x[i] = x[i] + x[:i] @ x[:i]
    return x


DIFFERENTIABLE = [
    *((case.function, case.arguments[0]()) for case in CASES if case.has_derivative),
    (absolute_values, (numbers(7) - 1.0, numbers(7))),
    (overwritten, (numbers(5), numbers(5, seed=1))),
    (repeated, (numbers(5) * 0.5, 4)),
    (searched_sum, (numbers(9),)),
    (listed, (numbers(6),)),
    *((ended_early, (numbers(n, seed=n), a)) for n, a in ((1, 0.5), (4, 0.9), (6, 0.3), (9, 0.1))),
]


class Gradient:
    """The adjoint of a function, for one random combination of everything that it writes and returns."""

    def __init__(self, function: Any, arguments: Arguments, seed: int = 3):
        self.function, self.arguments = function, arguments
        traced = trace(function, arguments).program
        differentiable(traced)
        self.program = adjoint(traced)
        random = np.random.default_rng(seed)
        self.arrays = [k for k, x in enumerate(arguments) if isinstance(x, np.ndarray)]
        self.seeds = [random.random(arguments[k].shape) for k in self.arrays]
        result = function(*copy.deepcopy(arguments))
        self.of_result: list[Any] = []
        if isinstance(result, np.ndarray | float):
            self.of_result = [random.random(np.shape(result)) if np.ndim(result) else np.float64(random.random())]

    def value(self, arguments: Arguments) -> float:
        mine = copy.deepcopy(arguments)
        result = self.function(*mine)
        total = sum(float((seed * mine[k]).sum()) for k, seed in zip(self.arrays, self.seeds))
        return total + sum(float(np.sum(seed * result)) for seed in self.of_result)

    def whole(self) -> list[Any]:
        """Arguments of the adjoint."""
        return [*copy.deepcopy(self.arguments), *(seed.copy() for seed in self.seeds), *self.of_result]

    def difference(self, k: int, index: tuple[int, ...]) -> float:
        values = []
        for step in (STEP, -STEP):
            moved = list(copy.deepcopy(self.arguments))
            if index:
                moved[k][index] += step
            else:
                moved[k] += step
            values.append(self.value(tuple(moved)))
        return (values[0] - values[1]) / (2 * STEP)

    def agrees(self, outcome: object, given: list[Any]) -> None:
        assert isinstance(outcome, Returned) and isinstance(outcome.value, tuple)
        for shadow, k in zip(given[len(self.arguments) :], self.arrays):
            wanted = np.array([self.difference(k, index) for index in np.ndindex(shadow.shape)]).reshape(shadow.shape)
            np.testing.assert_allclose(shadow, wanted, rtol=1e-5, atol=1e-7)
        numbers = [k for k, x in enumerate(self.arguments) if isinstance(x, float)]
        for found, k in zip(outcome.value, numbers, strict=True):
            np.testing.assert_allclose(found, self.difference(k, ()), rtol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "arguments"), DIFFERENTIABLE, ids=[f"{f.__name__}-{k}" for k, (f, _) in enumerate(DIFFERENTIABLE)]
)
def test_gradients_agree_with_differences(function: Any, arguments: Arguments) -> None:
    gradient = Gradient(function, arguments)
    verify(gradient.program)
    assert parse_program(print_program(gradient.program)) == gradient.program
    given = gradient.whole()
    gradient.agrees(interpret(gradient.program, given)[0], given)
    given = gradient.whole()
    gradient.agrees(compile_program(gradient.program)(given).outcome, given)


@pytest.mark.parametrize(("function", "arguments"), DIFFERENTIABLE[:3], ids=[f.__name__ for f, _ in DIFFERENTIABLE[:3]])
def test_an_adjoint_goes_through_the_passes(function: Any, arguments: Arguments) -> None:
    gradient = Gradient(function, arguments)
    run_passes(gradient.program, lambda _: verify(gradient.program))
    given = gradient.whole()
    gradient.agrees(compile_program(gradient.program)(given).outcome, given)


def test_a_failed_check_aborts() -> None:
    """Python begins anew, with what the caller restores."""
    function, arguments = DIFFERENTIABLE[1]
    gradient = Gradient(function, arguments)
    assert gradient.program.policy is Policy.ABORT
    given = gradient.whole()
    given[2] = np.zeros(3)  # out[3] is outside
    outcome, _ = interpret(gradient.program, given)
    assert isinstance(outcome, Exited) and outcome.point == 0 and outcome.locals[0] is given[0]


def test_a_long_loop_makes_no_more_calls() -> None:
    """The text of the gradient does not depend on how many iterations there are."""
    function = DIFFERENTIABLE[0][0]
    short, long = (Gradient(function, (numbers(n), 0.3)).program for n in (3, 1000))
    assert short == long


def test_what_has_no_derivative_says_where() -> None:
    def chosen(x, y):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            if x[i] > 2.0:
                x, y = y, x
            y[i] = x[i] * y[i]

    program = trace(chosen, (numbers(4), numbers(4))).program
    differentiable(program)
    with pytest.raises(NoDerivative, match="depends on a condition") as caught:
        adjoint(program)
    assert caught.value.line in range(chosen.__code__.co_firstlineno, chosen.__code__.co_firstlineno + 5)


def test_only_what_is_asked_for_is_computed() -> None:
    """With respect to the number alone no array has a shadow, and nothing of the first run is kept but `s`."""
    program = trace(weighted_sum, (numbers(9), np.float64(0.3))).program
    differentiable(program)
    both, number = gradient(program, [0, 1]), gradient(program, [1])
    assert (len(both.params), len(number.params)) == (3, 2)
    assert sum(isinstance(op, Store) for op in walk(number.body)) == 0 < sum(isinstance(op, Store) for op in walk(both.body))


def weighted_sum(x, a):
    s = 0.0
    for i in range(x.size):
        s = a * s + x[i]
    return s
