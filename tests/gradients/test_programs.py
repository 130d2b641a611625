"""Gradients of realistic programs against differences, against JAX, to second order and in batches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.gradients import algebra, arrays, learning, physics, statistics
from tests.gradients.harness import STEP, differences, jax_gradients, stacked
from tests.gradients.program import Program

MODULES = [statistics, learning, physics, algebra, arrays]
ALL = [pytest.param(m, p, id=f"{m.__name__.rsplit('.', 1)[-1]}-{p.name}") for m in MODULES for p in m.PROGRAMS]
with_programs = pytest.mark.parametrize(("module", "program"), ALL)


def arguments(program: Program, seed: int) -> tuple[Any, ...]:
    return program.make(np.random.default_rng(seed))


@functools.cache
def value_and_gradients(program: Program) -> Callable[..., Any]:
    """Compiled once for all tests of the program."""
    return npc.value_and_grad(program.function, program.numbers)


def gradients(program: Program, given: tuple[Any, ...]) -> tuple[Any, ...]:
    found: tuple[Any, ...] = value_and_gradients(program)(*given)[1]
    return found


@with_programs
def test_value_is_numpys_and_gradient_that_of_differences(module: ModuleType, program: Program) -> None:
    function = value_and_gradients(program)
    for seed in (0, 1):
        given = arguments(program, seed)
        value, found = function(*given)
        np.testing.assert_allclose(value, program.function(*arguments(program, seed)), rtol=1e-13)
        for argnum, gradient in zip(program.numbers, found):
            x = np.asarray(given[argnum])
            assert np.shape(gradient) == x.shape and gradient.dtype == x.dtype
            if program.has_differences:
                expected = differences(program.function, given, argnum)
                np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-9 * (1 + np.abs(expected).max()))


@with_programs
def test_gradient_is_that_of_jax(module: ModuleType, program: Program) -> None:
    given = arguments(program, 2)
    for ours, theirs in zip(gradients(program, given), jax_gradients(module, program, program.numbers, given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11 * (1 + np.abs(theirs).max()))


@with_programs
def test_batch_of_gradients_is_a_loop(module: ModuleType, program: Program) -> None:
    if not program.is_batched:
        pytest.skip("its arguments have no axis in common")
    rounds, columns = stacked(program, range(3, 6))
    found = npc.vmap(npc.grad(program.function, program.numbers))(*columns)
    for k, given in enumerate(rounds):
        for batched, alone in zip(found, gradients(program, given)):
            np.testing.assert_allclose(batched[k], alone, rtol=1e-10, atol=1e-12 * (1 + np.abs(alone).max()))


CURVED = [
    *(statistics.logistic_regression, statistics.softmax_regression, statistics.gaussian_mixture, statistics.mahalanobis),
    *(statistics.marginal_likelihood, statistics.moments, statistics.wasserstein, learning.perceptron_tanh),
    *(learning.layer_norm, learning.attention, learning.convolution_2d, learning.embedding, learning.recurrent),
    *(physics.runge_kutta, physics.leapfrog, physics.lennard_jones, physics.heat_with_walls, physics.power_spectrum),
    *(algebra.solve, algebra.log_determinant, algebra.eigenvalues, algebra.nuclear_norm, algebra.orthogonal, algebra.norms),
    *(arrays.filled_in_place, arrays.view_written, arrays.products_with_zeros, arrays.cumulated, arrays.interpolated),
]


@pytest.mark.parametrize("program", [p for m in MODULES for p in m.PROGRAMS if p.function in CURVED], ids=lambda p: p.name)
def test_product_with_the_hessian_is_that_of_differences(program: Program) -> None:
    x, *others = arguments(program, 6)
    direction = np.random.default_rng(7).normal(size=x.shape)
    gradient = npc.grad(program.function)

    def along(x, direction, *others):  # type: ignore[no-untyped-def]
        return np.sum(gradient(x, *others) * direction)

    def at(distance: int) -> Any:
        return gradient(x + distance * STEP * direction, *others)

    expected = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * STEP)
    found = npc.grad(along)(x, direction, *others)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * (1 + np.abs(expected).max()))
