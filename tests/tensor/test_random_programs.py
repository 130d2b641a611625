"""Random programs of views, writes and arithmetic: NumPy's values at every step, and gradients that are differences'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npcompile.tensors import Tensor, gradients_of, tensor
from tests.tensor.checks import same

PROGRAMS = 150
Arrays = list[Any]
Step = Callable[[Arrays], Any]  # on arrays or Tensors alike; gives a new array, or None when it writes


def random_step(rng: np.random.Generator, arrays: Arrays) -> Step:
    """One statement on arrays so far, which are NumPy's here."""
    k = int(rng.integers(len(arrays)))
    x = arrays[k]
    others = [j for j, y in enumerate(arrays) if y.shape == x.shape]
    other = int(rng.choice(others))
    small = [j for j, y in enumerate(arrays) if y.ndim == 0]
    point = int(rng.choice(small)) if small else None
    number = float(rng.uniform(0.5, 1.5))
    ends = sorted(rng.integers(0, (x.shape[0] if x.ndim else 0) + 1, 2).tolist())
    axes = tuple(rng.permutation(x.ndim).tolist())
    stride = int(rng.choice([-2, -1, 1, 2]))
    places = rng.integers(0, max(x.shape[0], 1) if x.ndim else 1, 3)
    axis = int(rng.integers(x.ndim)) if x.ndim else None

    def assign(a: Arrays, place: Any, value: Any) -> None:
        a[k][place] = value

    def update(a: Arrays, operation: str, value: Any) -> None:
        getattr(a[k], operation)(value)

    steps: list[Step] = [
        lambda a: np.sin(a[k]),
        lambda a: a[k] * a[other] * number,
        lambda a: a[k] + a[other],
        lambda a: np.exp(-a[k] * a[k]),
        lambda a: a[k].sum(axis=axis),
        lambda a: np.where(a[k] > number, a[k], a[other] * number),
        lambda a: np.maximum(a[k], a[other] - number),
    ]
    writes: list[Step] = [
        lambda a: assign(a, ..., a[other] * number),
        lambda a: update(a, "__iadd__", a[other]),
        lambda a: update(a, "__imul__", a[other]),
        lambda a: update(a, "__isub__", number),
        lambda a: np.tanh(a[k], out=a[k]) is None or None,
        lambda a: np.add(a[k], a[other], out=a[k], where=a[other] > number) is None or None,
    ]
    if x.ndim and x.shape[0]:  # views of NumPy's scalars are copies, of Tensors without dimensions they are not
        steps += [
            lambda a: a[k].transpose(axes),
            lambda a: a[k].ravel(),
            lambda a: a[k].reshape(-1, 1),
            lambda a: a[k][ends[0] : ends[1]],
            lambda a: a[k][::stride],
            lambda a: a[k][places],
            lambda a: a[k][places[0]],
            lambda a: a[k][None],
            lambda a: np.concatenate([a[k], a[k][::-1]]),
        ]
        writes += [
            lambda a: assign(a, slice(*ends), number),
            lambda a: assign(a, slice(1, None), a[k][:-1]),
            lambda a: assign(a, places, number),
            lambda a: assign(a, int(places[0]), a[other][0]),
            lambda a: assign(a, a[k] > number, number),
        ]
        if point is not None:
            writes += [lambda a: assign(a, 0, a[point] * number), lambda a: update(a, "__imul__", a[point])]
    pool = writes if rng.random() < 0.35 and x.ndim else steps  # NumPy's scalars are not written
    return pool[rng.integers(len(pool))]


def random_program(seed: int) -> tuple[np.ndarray, list[Step]]:
    """The argument, and statements that NumPy can run one after the other."""
    rng = np.random.default_rng(seed)
    shape = [(4,), (3, 2), (2, 2, 2)][seed % 3]
    x = rng.uniform(0.2, 1.2, shape)
    arrays, program = start(x), []
    while len(program) < 12:
        step = random_step(rng, arrays)
        trial = step(arrays)
        if trial is not None and (trial.size > 40 or trial.size == 0 or trial.ndim > 3):
            continue
        if trial is not None:
            arrays.append(trial)
        program.append(step)
    return x, program


def start(x: Any) -> Arrays:
    """Arrays computed from the argument: it is a leaf, which is not written."""
    return [x * 1.5, x.sum() * x]


def run(program: list[Step], x: Any, each: Callable[[Arrays], None] = lambda arrays: None) -> Any:
    arrays = start(x)
    for step in program:
        made = step(arrays)
        if made is not None:
            arrays.append(made)
        each(arrays)
    return sum((a * np.cos(1 + k)).sum() for k, a in enumerate(arrays))


def slope(program: list[Step], x: np.ndarray, direction: np.ndarray, step: float) -> float:
    return float(run(program, x + step * direction) - run(program, x - step * direction)) / (2 * step)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed: int) -> None:
    x, program = random_program(seed)
    snapshots: list[list[np.ndarray]] = []
    expected = run(program, x.copy(), lambda arrays: snapshots.append([np.array(a, order="K") for a in arrays]))
    waiting = iter(snapshots)

    def check(arrays: Arrays) -> None:
        for ours, theirs in zip(arrays, next(waiting), strict=True):
            assert isinstance(ours, Tensor)
            np.testing.assert_allclose(ours._host, theirs, rtol=1e-12, atol=1e-12)

    leaf = tensor(x, requires_grad=True)
    result = run(program, leaf, check)
    same(result, expected)
    direction = np.random.default_rng(seed).normal(size=x.shape)
    try:
        (gradient,) = gradients_of([result], [leaf]) if result.requires_grad else (tensor(np.zeros_like(x)),)
    except RuntimeError as error:
        assert "changed in place since" in str(error)
        return
    found = np.sum(gradient.numpy() * direction)
    slopes = [slope(program, x, direction, step) for step in (1e-5, 1e-6, 1e-7)]
    # Near a kink of `where` or `maximum` differences say little: one of the steps must agree.
    assert any(np.isclose(found, s, rtol=1e-5, atol=1e-6) for s in slopes), (found, slopes)


def test_most_random_programs_overwrite_nothing_needed() -> None:
    """The comparison above would say little if most programs ended in the error that a value is gone."""
    refused = 0
    for seed in range(0, PROGRAMS, 3):
        x, program = random_program(seed)
        leaf = tensor(x, requires_grad=True)
        try:
            gradients_of([run(program, leaf)], [leaf])
        except RuntimeError:
            refused += 1
    assert refused < PROGRAMS / 3 * 0.6
