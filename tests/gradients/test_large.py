"""Gradients of programs at sizes where kernels are blocked, run on several threads and call BLAS."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.gradients import algebra, arrays, learning, physics, statistics
from tests.gradients.harness import STEP, jax_gradients
from tests.gradients.program import spread

Generator = np.random.Generator


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[Generator], tuple[np.ndarray, ...]]:
    return lambda rng: tuple(rng.normal(size=shape) * scale for shape in shapes)


LARGE: list[tuple[Callable[..., Any], Callable[[Generator], tuple[Any, ...]], tuple[int, ...]]] = [
    (statistics.least_squares, normal((60,), (5000, 60), (5000,)), (0, 1, 2)),
    (
        statistics.softmax_regression,
        lambda r: (r.normal(size=(40, 30)), r.normal(size=(2000, 40)), r.integers(0, 30, 2000)),
        (0, 1),
    ),
    (statistics.gaussian_mixture, normal((7,), (7, 3), (7, 3), (4001, 3)), (0, 1, 2, 3)),
    (statistics.moments, normal((501, 203)), (0,)),
    (statistics.correlations, normal((20, 3001)), (0,)),
    (statistics.wasserstein, normal((3001,), (3001,)), (0, 1)),
    (statistics.drawdown, lambda r: (spread(r, 20001) * 0.01,), (0,)),
    (learning.perceptron_tanh, normal((300, 200), (200, 150), (150,), (150, 70), (70,), scale=0.1), (0, 1, 2, 3, 4)),
    (learning.perceptron_relu, normal((1001, 33), (33, 65), (65,), (65, 17), (17,), scale=0.3), (0, 1, 2, 3, 4)),
    (learning.perceptron_gelu, normal((513, 31), (31, 66), (66,), (66, 3), (3,), scale=0.3), (0, 1, 2, 3, 4)),
    (learning.batch_norm, normal((1001, 130), (130,), (130,)), (0, 1, 2)),
    (learning.layer_norm, normal((401, 257), (257,), (257,)), (0, 1, 2)),
    (learning.attention, normal((301, 64), (255, 64), (255, 48)), (0, 1, 2)),
    (learning.causal_attention, normal((6, 131, 16), (6, 131, 16), (6, 131, 24)), (0, 1, 2)),
    (learning.multi_head_attention, normal((150, 64), (64, 192), (64, 64), scale=0.2), (0, 1, 2)),
    (learning.transformer_block, normal((130, 48), (48, 144), (48, 48), (48, 192), (192, 48), scale=0.2), (0, 1, 2, 3, 4)),
    (learning.convolution_1d, normal((50001,), (9,)), (0, 1)),
    (learning.convolution_2d, normal((301, 259), (5, 3)), (0, 1)),
    (learning.max_pooling, lambda r: (spread(r, 300, 302),), (0,)),
    (learning.embedding, lambda r: (r.normal(size=(500, 64)), r.integers(-500, 500, 4001)), (0,)),
    (learning.recurrent, normal((12, 64), (64, 96), (96, 96), (96,), scale=0.1), (0, 1, 2, 3)),
    (learning.contrastive, normal((160, 64), (160, 64)), (0, 1)),
    (physics.gravity, normal((230, 3), (230,)), (0, 1)),
    (physics.pairwise_distances, lambda r: (r.normal(size=(200, 3)), 9 + r.normal(size=(310, 3))), (0, 1)),
    (physics.heat, lambda r: (r.normal(size=40001), np.float64(0.2)), (0, 1)),
    (physics.heat_with_walls, normal((203, 301)), (0,)),
    (physics.wave_2d, lambda r: (r.normal(size=(251, 203)), np.float64(0.2)), (0, 1)),
    (physics.fourier_filter, normal((20000,), (10001,)), (0, 1)),
    (physics.rosenbrock, normal((50001,), scale=0.3), (0,)),
    (algebra.solve, lambda r: (r.normal(size=(150, 150)) + 40 * np.eye(150), r.normal(size=(150, 40))), (0, 1)),
    (algebra.cross_products, normal((20001, 3), (20001, 3)), (0, 1)),
    (algebra.batched_products, normal((13, 60, 70), (13, 70, 50)), (0, 1)),
    (algebra.contractions, normal((90, 70), (70, 70), (70, 110)), (0, 1, 2)),
    (arrays.filled_in_place, normal((30001,)), (0,)),
    (arrays.view_written, normal((3, 20001)), (0,)),
    (arrays.masked, lambda r: (spread(r, 203, 301),), (0,)),
    (arrays.gathered, lambda r: (r.normal(size=3001), r.integers(-3001, 3001, 30001)), (0,)),
    (arrays.interpolated, lambda r: (r.normal(size=501), r.uniform(-3, 505, 20001)), (0, 1)),
    (arrays.padded, normal((201, 303)), (0,)),
    (arrays.rolled, normal((201, 303)), (0,)),
    (arrays.cumulated, normal((203, 301), scale=0.5), (0,)),
    (arrays.rearranged, normal((31, 45, 57)), (0,)),
    (arrays.triangles, normal((203, 203)), (0,)),
    (arrays.grids, normal((201,), (303,)), (0, 1)),
    (arrays.convolved, normal((20001,), (31,)), (0, 1)),
]


with_rows = pytest.mark.parametrize(("function", "make", "argnums"), [pytest.param(*row, id=row[0].__name__) for row in LARGE])


@with_rows
def test_gradient_is_that_of_jax(
    function: Callable[..., Any], make: Callable[[Generator], tuple[Any, ...]], argnums: tuple[int, ...]
) -> None:
    module = sys.modules[function.__module__]
    (program,) = (p for p in module.PROGRAMS if p.function is function)
    given = make(np.random.default_rng(0))
    for ours, theirs in zip(npc.grad(function, argnums)(*given), jax_gradients(module, program, argnums, given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12 * np.abs(theirs).max())


@with_rows
def test_gradient_along_directions_is_that_of_differences(
    function: Callable[..., Any], make: Callable[[Generator], tuple[Any, ...]], argnums: tuple[int, ...]
) -> None:
    """Along the gradient itself, which no error in any of its elements leaves as long, and along a random direction."""
    rng = np.random.default_rng(0)
    given = make(rng)
    gradients = npc.grad(function, argnums)(*given)
    for argnum, gradient in zip(argnums, gradients):
        x = given[argnum]
        for direction in (gradient, rng.normal(size=np.shape(x))):
            unit = direction / np.sqrt(np.sum(np.square(direction)))

            def at(step: float, x: Any = x, unit: Any = unit, argnum: int = argnum) -> Any:
                return function(*given[:argnum], x + step * unit, *given[argnum + 1 :])

            expected = (8 * (at(STEP) - at(-STEP)) - (at(2 * STEP) - at(-2 * STEP))) / (12 * STEP)
            length = np.sqrt(np.sum(np.square(gradient)))
            np.testing.assert_allclose(np.sum(gradient * unit), expected, rtol=1e-5, atol=1e-6 * length)
