"""Branches and loops on the device: what is carried stays there, and only predicates come to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import devices
from npcompile.backends.cuda.runtime import device as cuda_device
from npcompile.backends.cuda.runtime.device import current_device
from tests.backends import NO_DEVICE
from tests.cuda.interpreted import InterpretedDevice

DEVICES = ["stand-in"] if NO_DEVICE else ["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)]
X = np.random.default_rng(0).uniform(0.5, 2, (6, 5))


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device that keeps, as `device.sizes`, the bytes of each array that comes to the host."""
    made: Any = current_device() if request.param == "gpu" else InterpretedDevice()
    if request.param == "stand-in":
        monkeypatch.setattr(cuda_device, "current_device", lambda: made)
    monkeypatch.setattr(devices, "_in_use", [])
    monkeypatch.setattr(made, "sizes", [], raising=False)
    download = made.download

    def counted(array: Any, out: np.ndarray) -> None:
        made.sizes.append(out.nbytes)
        download(array, out)

    monkeypatch.setattr(made, "download", counted)
    return made


def newton(x: np.ndarray) -> np.ndarray:
    return npc.while_loop(lambda r: np.abs(r * r - x).max() > 1e-9, lambda r: (r + x / r) / 2, x + 1)


def never(x: np.ndarray) -> Any:
    return npc.while_loop(lambda p: p[1] < 0, lambda p: (p[0] * 2, p[1] - 1), (x, np.int64(3)))


def powers(x: np.ndarray) -> np.ndarray:
    return npc.fori_loop(0, 7, lambda i, c: c * x + i, x)


def running(x: np.ndarray) -> Any:
    return npc.scan(lambda c, row: (c + row, (c * row).sum()), np.zeros(5), x, reverse=True)


def decayed(x: np.ndarray) -> Any:
    return npc.scan(lambda c, _: (c * 0.5, c), x, length=4)


def branch(x: np.ndarray) -> Any:
    return npc.cond(x.sum() > 0, lambda a: (a + 1, a.max()), lambda a: (a * 2, a.min()), x)


def nested(x: np.ndarray) -> np.ndarray:
    def step(i: Any, c: np.ndarray) -> np.ndarray:
        return npc.cond(c.mean() > 3, lambda a: a / 2, lambda a: npc.fori_loop(0, 2, lambda _, b: b * 1.5 + x, a), c)

    return npc.fori_loop(0, 5, step, x + 0)


def scalars(x: np.ndarray) -> np.ndarray:
    return x * npc.fori_loop(0, 5, lambda i, c: c * 1.5 + i, 1.0)


# and how many predicates come to the host
PROGRAMS: list[tuple[Callable[..., Any], int | None]] = [
    (newton, 7),
    (never, 1),
    (powers, 0),
    (running, 0),
    (decayed, 0),
    (branch, 1),
    (nested, 5),
    (scalars, None),
]


@pytest.mark.parametrize(("function", "predicates"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_what_is_carried_stays(function: Callable[..., Any], predicates: int | None, device: Any) -> None:
    compiled = npc.compile(function, fullgraph=True)
    expected = flat(function(X.copy()))
    x = X.copy()
    for _ in range(2):
        device.sizes.clear()
        with npc.device("cuda"):
            got = flat(compiled(x))
        for a, b in zip(got, expected, strict=True):
            assert type(a) is type(b) and not np.shares_memory(a, x)
            np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_array_equal(x, X)
    if predicates is not None and isinstance(device, InterpretedDevice):  # CuPy reads predicates by itself
        assert sorted(device.sizes) == sorted(np.asarray(v).nbytes for v in expected)
    else:
        assert len(device.sizes) >= len(expected)


def flat(values: Any) -> list[Any]:
    return [x for v in values for x in flat(v)] if isinstance(values, (list, tuple)) else [values]


@pytest.mark.parametrize("function", [newton, powers, running, nested], ids=lambda f: f.__name__)
def test_gradients(function: Callable[..., Any], device: Any) -> None:
    def total(x: Any) -> Any:
        results: Sequence[Any] = flat(function(x))
        return sum(r.sum() for r in results)

    expected = npc.grad(total)(X)
    with npc.device("cuda"):
        got = npc.compile(npc.grad(total))(X)
    np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_an_index_out_of_bounds_in_a_loop(device: Any) -> None:
    compiled = npc.compile(lambda x, at: npc.fori_loop(0, 3, lambda i, c: c + x[at + i], x[0] + 0))
    with npc.device("cuda"):
        np.testing.assert_allclose(compiled(X, np.int64(1)), X[0] + X[1] + X[2] + X[3])
        with pytest.raises(IndexError, match="out of bounds"):
            compiled(X, np.int64(4))
