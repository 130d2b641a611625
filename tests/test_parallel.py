"""Compiled functions in other processes, as docs/parallel.md shows: joblib, scikit-learn, Dask, pools of processes."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import npcompile as npc
from npcompile.compiler import compiled_function

X = np.linspace(0.0, 1.0, 40).reshape(20, 2)
Y = X[:, 0] - 2 * X[:, 1] ** 2


def local_function(scale: float) -> Any:
    """Compiled and used before it is sent; other processes cannot import it."""

    @npc.compile
    def features(x):
        return np.tanh(x * scale)

    features(X)
    return features


@npc.compile
def importable(x):
    return np.sum(np.sin(x) * x)


def graphs_of(function: Any, x: np.ndarray) -> tuple[int, int, np.ndarray]:
    """How much is compiled where this runs, once the function was called."""
    result = function(x)
    known = compiled_function(function)
    return os.getpid(), 0 if known is None else len(known.graphs), result


def test_joblib() -> None:
    f = local_function(3.0)
    with joblib.Parallel(n_jobs=2, backend="loky") as parallel:
        found = parallel(joblib.delayed(graphs_of)(g, X) for g in (f, f, lambda x: f(x), npc.compile(lambda x: f(x) * 2)))
    for (process, _, result), factor in zip(found, (1, 1, 1, 2)):
        np.testing.assert_array_equal(result, f(X) * factor)
        assert process != os.getpid()
    assert [graphs > 0 for _, graphs, _ in found] == [True, True, False, True]


class Sloped(RegressorMixin, BaseEstimator):
    """Steps down the gradient of a loss: the loss is a parameter."""

    def __init__(self, loss: Any = None, steps: int = 200):
        self.loss, self.steps = loss, steps

    def fit(self, x: np.ndarray, y: np.ndarray) -> "Sloped":
        self.w_ = np.zeros(x.shape[1])
        slope = npc.grad(self.loss)
        for _ in range(self.steps):
            self.w_ = self.w_ - 0.3 * slope(self.w_, x, y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return x @ self.w_


def test_scikit_learn() -> None:
    loss = npc.compile(lambda w, x, y: np.mean((x @ w - y) ** 2))
    piped = make_pipeline(FunctionTransformer(local_function(2.0)), Ridge(alpha=1e-3))
    for model in (Sloped(loss), piped):
        alone = cross_val_score(model, X, Y, cv=3, n_jobs=1)
        shared = cross_val_score(model, X, Y, cv=3, n_jobs=2, error_score="raise")
        np.testing.assert_allclose(shared, alone, rtol=1e-12)


def test_dask() -> None:
    from dask.distributed import Client, LocalCluster

    f = local_function(4.0)
    slope = npc.grad(lambda x: np.sum(f(x)))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        sent = [client.submit(graphs_of, g, X, pure=False) for g in (f, npc.compile(f, dynamic=True), importable)]
        for (process, graphs, result), g in zip(client.gather(sent), (f, f, importable)):
            np.testing.assert_array_equal(result, g(X))
            assert process != os.getpid() and graphs > 0
        np.testing.assert_array_equal(client.submit(slope, X).result(), slope(X))
        assert client.gather(client.map(f, [X, X * 2]))[1].tolist() == f(X * 2).tolist()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_of_the_standard_library(method: str) -> None:
    """By name: the function that its module has, of the decorator."""
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        process, graphs, result = pool.submit(graphs_of, importable, X).result()
        np.testing.assert_array_equal(result, importable(X))
        assert process != os.getpid() and graphs > 0
        np.testing.assert_array_equal(pool.submit(npc.grad(importable), X).result(), npc.grad(importable)(X))
