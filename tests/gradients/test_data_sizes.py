"""Gradients through results of as many elements as data decides, by each way that gradients are taken."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
import npcompile.numpy_shim as snp

COUNTS = np.array([1, 2, 0, 1, 3, 1])
PLACES = np.array([0, 3, 3, 1, 0, 2])


def loss(y: Any) -> Any:
    return (np.sin(y) * y).sum()


def set_by_places(x: Any) -> Any:
    y = x.copy()
    np.place(y, y > 0, y[:2].copy())
    return y


def changed_where(x: Any) -> Any:
    y = x * 1
    y[y > 0] *= 2
    return y


# Of x, what has a gradient with respect to x, and a size that the elements of x decide in most of these.
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "mask": lambda x: x[x > 0],
    "mask, mean": lambda x: x[x > 0].mean(),
    "mask, deviations": lambda x: x[x > 0] - x[x > 0].mean(),
    "mask, of another size": lambda x: x[x > 0] * np.arange(x[x > 0].size),
    "mask, median": lambda x: np.median(x[x > 0]),
    "mask, size": lambda x: x * x[x > 0].size,
    "mask of masked": lambda x: x[x > 0][x[x > 0] < 4],
    "mask of rows": lambda x: (np.outer(x, x)[x > 0]).sum(axis=0),
    "mask of both": lambda x: np.outer(x, x)[np.outer(x, x) > 2.2],
    "nonzero": lambda x: x[np.nonzero(x > 0)],
    "x.nonzero": lambda x: x[(x > 0).nonzero()[0]],
    "flatnonzero": lambda x: x[np.flatnonzero(x > 0)],
    "where": lambda x: x[np.where(x > 0)],
    "argwhere": lambda x: x[np.argwhere(x > 0)[:, 0]],
    "extract": lambda x: np.extract(x > 0, x),
    "compress": lambda x: np.compress(x > 0, x),
    "x.compress": lambda x: x.compress(x > 0),
    "delete": lambda x: np.delete(x, x < 0),
    "trim_zeros": lambda x: np.trim_zeros(x * (x > 2)),
    "repeat": lambda x: np.repeat(x, COUNTS),
    "repeat by data": lambda x: np.repeat(x, (x > 0) + 1),
    "repeat rows": lambda x: np.outer(x, x).repeat((x > 0) + 1, axis=0),
    "unique": lambda x: np.unique(x),
    "unique, counted": lambda x: np.unique(x, return_counts=True)[0] * np.unique(x, return_counts=True)[1],
    "unique, index and inverse": lambda x: np.unique(x, return_index=True, return_inverse=True)[0],
    "unique_values": lambda x: np.unique_values(x),
    "union1d": lambda x: np.union1d(x, 2 * x + 0.1),
    "setdiff1d": lambda x: np.setdiff1d(x, [7.0, 8.0]),
    "intersect1d": lambda x: np.intersect1d(x, x),
    "bincount": lambda x: np.bincount(PLACES, x, 3),
    "digitize": lambda x: x * np.digitize(x, [0.0, 2.0]),
    "place": set_by_places,
    "written where": changed_where,
}


def numerical(f: Callable[[Any], Any], x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    found = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(x.size)]
    return np.array(found)


def wrapped(f: Callable[[Any], Any], x: np.ndarray, backend: str = "eager") -> Any:
    x = npc.tensor(x, requires_grad=True)
    npc.compile(npc.wrap_numpy(f), backend=backend)(x).backward()
    return x.grad.numpy()


def on_tape(f: Callable[[Any], Any], x: np.ndarray) -> Any:
    x = npc.tensor(x, requires_grad=True)
    f(x).backward()
    return x.grad.numpy()


WAYS = {"grad": lambda f, x: npc.grad(f)(x), "wrap_numpy": wrapped, "Tensors": on_tape}
X = np.array([1.0, -2.0, 3.0, -4.0, 5.0, 2.5])
FEW = np.array([-1.0, -2.0, 3.0, -4.0, -5.0, -2.5])  # one element, where most programs are of two at least
NONE = -np.abs(X)


@pytest.mark.parametrize("name", ["mask", "mask, deviations", "repeat rows", "unique, counted", "bincount", "trim_zeros"])
def test_in_kernels(name: str) -> None:
    def f(x: Any) -> Any:
        return loss(PROGRAMS[name](x))

    np.testing.assert_allclose(wrapped(f, X, "cpu"), numerical(f, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient(name: str, way: str) -> None:
    def f(x: Any) -> Any:
        return loss(PROGRAMS[name](x))

    for x in (X, FEW, NONE):
        if x is NONE and name in ("mask, mean", "mask, deviations", "mask, median", "place", "trim_zeros"):
            continue  # of nothing
        np.testing.assert_allclose(WAYS[way](f, x), numerical(f, x), rtol=1e-5, atol=1e-6, err_msg=str(x))


def test_one_program_serves_all_sizes() -> None:
    """And its results are NumPy's."""

    def f(x: Any) -> Any:
        return loss(x[x > 0])

    compiled = npc.compile(npc.wrap_numpy(f), fullgraph=True)
    rng = np.random.default_rng(0)
    for size in (5, 6, 7, 8, 9):
        data = rng.normal(size=size) + 1
        x = npc.tensor(data, requires_grad=True)
        y = compiled(x)
        assert y.item() == pytest.approx(f(data), rel=1e-14)
        y.backward()
        np.testing.assert_allclose(x.grad.numpy(), numerical(f, data), rtol=1e-5, atol=1e-6)
    assert len(npc.explain(compiled)(x).graphs) == 1


def test_second_derivatives() -> None:
    x = np.array([1.0, -2.0, 3.0, 4.0])
    want = np.diag(np.where(x > 0, 6 * x, 0.0))
    np.testing.assert_allclose(npc.hessian(lambda x: (x[x > 0] ** 3).sum())(x), want)
    np.testing.assert_allclose(npc.jacobian(lambda x: x[x > 0] ** 2)(x), (2 * np.diag(x))[x > 0])
    leaf = npc.tensor(x, requires_grad=True)
    y = npc.wrap_numpy(lambda x: (x[x > 0] ** 3).sum())(leaf)
    (first,) = npc.gradients_of([y], [leaf], create_graph=True)
    first.sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), np.diag(want))


def test_tensors_without_gradients_stay_in_the_graph() -> None:
    compiled = npc.compile(npc.wrap_numpy(lambda x: np.sort(x[x > 0])), fullgraph=True)
    np.testing.assert_array_equal(compiled(npc.tensor(X)).numpy(), np.sort(X[X > 0]))


def test_numpys_warnings_under_gradients() -> None:
    """A function of NumPy's that warns is run by NumPy, once."""
    x = npc.tensor([0.0, 1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="requires grad"):
            snp.nanmax(x * np.nan)
    assert "All-NaN" in str(found[0].message)
