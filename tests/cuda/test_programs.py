"""Users' functions on the device: pieces between the kernels, arrays there and back, errors, `npc.device`."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import devices
from npcompile.backends.cuda import backend as cuda_backend
from npcompile.backends.cuda.runtime import device as cuda_device
from npcompile.backends.cuda.runtime.compiler import CompileFailed
from npcompile.tensor_core.graph import Graph
from tests.cuda.interpreted import InterpretedDevice


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> InterpretedDevice:
    """The interpreter in place of a GPU."""
    made = InterpretedDevice()
    monkeypatch.setattr(cuda_device, "current_device", lambda: made)
    monkeypatch.setattr(cuda_backend, "current_device", lambda: made)
    monkeypatch.setattr(devices, "_in_use", [])
    return made


X = np.random.default_rng(0).standard_normal((12, 9))
PICKED = np.array([3, -1, 0, 11])

PROGRAMS: list[tuple[str, Callable[..., Any], Sequence[Any]]] = [
    ("elementwise", lambda x: np.sin(x) * np.exp(-x * x) + np.tanh(x), [X]),
    ("scalar", lambda x, s: x * s + 1, [X, 2.5]),
    ("a scalar of the device", lambda x: (x @ x.T) / (x @ x.T).sum(), [X]),
    ("product", lambda x: x @ x.T + 1, [X]),
    ("einsum", lambda x: np.einsum("ij,kj->ik", x, x), [X]),
    ("fft", lambda x: np.abs(np.fft.fft(x)) * 2, [X]),
    ("sort", lambda x: np.sort(x, axis=1) - x, [X]),
    ("eigenvalues", lambda x: np.linalg.eigvalsh(x.T @ x) + 1, [X]),
    ("scatter", lambda x, i: np.add.at(x, i, 1.0), [X, PICKED]),
    ("assignment", lambda x, i: x.__setitem__(i, x[i] * 2), [X, PICKED]),
    ("views", lambda x: (x[::-1, ::2] * 2, x.T.reshape(-1), np.asfortranarray(x) + 1), [X]),
    ("complex", lambda x: np.exp(1j * x) * (x + 2j), [X]),
    ("gcd", lambda i: np.gcd(i, 6), [PICKED]),
    ("long double", lambda x: x.astype(np.longdouble) * 3, [X]),
    ("nothing", lambda x: x[:0].sum(0), [X]),
    ("mask", lambda x: ((x[x > 0] * 2).sum(), x[x > 0] + 1), [X]),
    ("places", lambda x: (x[np.nonzero(x > 0)] * 2, np.flatnonzero(x > 0)), [X]),
    ("different elements", lambda i: np.unique(i * i) * 2, [PICKED]),
    ("a function as a whole", lambda x: np.histogram(x * 2, bins=4, range=(-2, 2))[0] * 2, [X]),
    ("writes", lambda x: np.multiply(x, 2, out=x), [X]),
]


@pytest.mark.parametrize(("function", "arguments"), [p[1:] for p in PROGRAMS], ids=[p[0] for p in PROGRAMS])
def test_answers(function: Callable[..., Any], arguments: Sequence[Any], device: InterpretedDevice) -> None:
    compiled = npc.compile(function)
    for _ in range(2):
        ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
        with npc.device("cuda"):
            got = compiled(*ours)
        expected = function(*theirs)
        for a, b in zip(flat([got, *ours]), flat([expected, *theirs]), strict=True):
            assert type(a) is type(b)
            if isinstance(b, (np.ndarray, np.generic)):
                assert a.dtype == b.dtype and a.strides == b.strides
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def flat(values: Any) -> list[Any]:
    return [x for v in values for x in flat(v)] if isinstance(values, (list, tuple)) else [values]


def test_a_graph_runs_where_the_call_says(device: InterpretedDevice) -> None:
    @npc.compile
    def double(x):
        return x * 2

    double(X)
    assert not device.requests
    with npc.device("cuda"):
        np.testing.assert_array_equal(double(X), X * 2)
        launched = len(device.requests)
        assert launched == 1
        with npc.device("cpu"):
            double(X)
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.append(devices.current_name()))
        thread.start()
        thread.join()
        assert seen == ["cpu"]
    double(X)
    assert len(device.requests) == launched


def test_other_backends_stay(device: InterpretedDevice) -> None:
    graphs: list[Graph] = []

    def backend(graph: Graph, examples: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(graph)
        return npc.backends.eager.compile_eager(graph, examples)

    with npc.device("cuda"):
        npc.compile(lambda x: x + 1, backend=backend)(X)
    assert len(graphs) == 1 and not device.requests


def test_by_name(device: InterpretedDevice) -> None:
    np.testing.assert_array_equal(npc.compile(lambda x: x - 1, backend="cuda")(X), X - 1)
    assert device.requests


def test_errors_are_numpys(device: InterpretedDevice) -> None:
    @npc.compile
    def pick(x, i):
        x += 1
        return x[i]

    data = X.copy()
    with npc.device("cuda"), pytest.raises(IndexError, match="index 12 is out of bounds for axis 0 with size 12"):
        pick(data, np.array([0, 12]))

    @npc.compile
    def divide(x, y):
        return x / y

    with npc.device("cuda"):
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            divide(X, X * 0)
        with warnings.catch_warnings(), pytest.raises(RuntimeWarning, match="divide by zero"):
            warnings.simplefilter("error")
            divide(np.ones(3), np.zeros(3))


def test_a_kernel_that_triton_refuses(device: InterpretedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(requests: Sequence[Any]) -> Any:
        raise CompileFailed("no such function")

    monkeypatch.setattr(device, "load", load)
    compiled = npc.compile(lambda x: np.multiply(x, 2, out=x))
    data = X.copy()
    with npc.device("cuda"):
        with pytest.warns(RuntimeWarning, match="runs with NumPy: Triton refused"):
            compiled(data)
        compiled(data)
    np.testing.assert_array_equal(data, X * 4)
