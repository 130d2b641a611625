"""Compiled functions called with arrays and Tensors that are on a device."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda import arrays
from npcompile.backends.cuda import backend as cuda_backend
from npcompile.backends.cuda import device as cuda_device
from npcompile.compiler import compiled_function
from tests.cuda.interpreted import KIND, DeviceArray, InterpretedDevice

X = np.random.default_rng(0).standard_normal((12, 9))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> InterpretedDevice:
    made = InterpretedDevice()
    for module in (cuda_device, cuda_backend):
        monkeypatch.setattr(module, "current_device", lambda: made)
        monkeypatch.setattr(module, "numbered_device", lambda number: made)
    monkeypatch.setitem(arrays.ARRAY_KINDS, DeviceArray, KIND)
    return made


def test_arrays_stay_on_the_device(device: InterpretedDevice) -> None:
    @npc.compile
    def f(x):
        return np.sin(x) * 2, x.sum()

    for _ in range(2):
        y, s = f(device.upload(X))
        assert type(y) is DeviceArray and type(s) is DeviceArray and s.shape == ()
        np.testing.assert_allclose(np.asarray(y), np.sin(X) * 2, rtol=1e-15)
        np.testing.assert_allclose(np.asarray(s), X.sum(), rtol=1e-14)
    assert len(compiled_function(f).graphs) == 1
