"""One op by the device's library, and by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cuda.backend import compile_for
from npcompile.backends.cuda.runtime.device import current_device
from npcompile.backends.cuda.runtime.interface import to_host
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.meta import TupleMeta
from tests.backends import NO_DEVICE
from tests.cuda.numpy_library import StrictDevice

RNG = np.random.default_rng(3)
DEVICES = ["stand-in"] if NO_DEVICE else ["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device that counts, as `device.host`, the arrays that come to the host: what is more than a flag."""
    made: Any = StrictDevice() if request.param == "stand-in" else current_device()
    monkeypatch.setattr(made, "host", 0, raising=False)
    download = made.download

    def counted(array: Any, out: np.ndarray) -> None:
        made.host += out.nbytes > 8
        download(array, out)

    monkeypatch.setattr(made, "download", counted)
    return made


def normal(*shape: int, dtype: str = "d") -> np.ndarray:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


def positive(*shape: int, dtype: str = "d") -> np.ndarray:
    a = normal(*shape, dtype=dtype)
    return a @ a.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)


def graph_of(op: str, arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Graph:
    """One op, and each of its results."""
    builder = Builder()
    node = builder.apply(op, *(builder.input(TensorMeta(x.shape, x.dtype, x.strides)) for x in arrays), **params)
    results = [node]
    if isinstance(node.meta, TupleMeta):
        results = [builder.apply("item", node, index=k) for k in range(len(node.meta.items))]
    return replace(builder.finish(results), checks=frozenset())  # warnings are not seen on a device


def both(device: Any, op: str, arrays: Sequence[np.ndarray], params: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The op's results on the device, brought to the host, and NumPy's. `device.host` is what the op itself brought."""
    graph = graph_of(op, arrays, params)
    given = [device.upload(np.ascontiguousarray(x)) for x in arrays]
    before = device.host
    with np.errstate(all="ignore"):
        results = compile_for(graph, device).call(*given)
    came = device.host - before
    assert all(map(device.is_array, results))
    got = [to_host(device, x) for x in results]
    for x, original in zip(given, arrays):  # operands are as they were
        np.testing.assert_array_equal(to_host(device, x), original)
    device.host = came
    return got, list(compile_eager(graph, [])(*arrays))


def close(got: Any, expected: Any, of: np.dtype) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    limit = 2e-5 if of.char in "fF" else 1e-10
    scale = np.abs(expected).max(initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(got, expected, rtol=limit, atol=limit * scale)
