"""NumPy in the place of CuPy: takes arrays of the stand-in device, refuses those of the host, and gives its arrays."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tests.cuda.interpreted import DeviceArray, InterpretedDevice

FROM_HOST = ("array", "asarray", "ascontiguousarray")


class NumpyLibrary:
    """Functions of a module."""

    def __init__(self, module: ModuleType):
        self.module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if isinstance(found, ModuleType):
            return NumpyLibrary(found)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*args: Any, **params: Any) -> Any:
            if name == "argsort":  # CuPy's is stable, and takes no other kind
                assert "kind" not in params
                params["kind"] = "stable"
            for x in leaves([args, params]):
                assert name in FROM_HOST or type(x) is not np.ndarray, f"{name} of an array of the host"
            with np.errstate(all="ignore"):
                return dressed(found(*args, **params))

        return call


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [x for v in value for x in leaves(v)] if isinstance(value, (list, tuple)) else [value]


def dressed(value: Any) -> Any:
    """Arrays and NumPy's scalars as arrays of the device, which CuPy's functions give."""
    if isinstance(value, tuple):
        return tuple(map(dressed, value))
    return np.asarray(value).view(DeviceArray) if isinstance(value, (np.ndarray, np.generic)) else value


class StrictDevice(InterpretedDevice):
    library = NumpyLibrary(np)
