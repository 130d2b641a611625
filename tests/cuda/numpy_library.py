"""NumPy in the place of CuPy: takes arrays of the stand-in device, refuses those of the host, and gives its arrays.

Eigenvectors and singular vectors are not LAPACK's, nor is the order of eigenvalues: those of cuSOLVER may be others too.
"""

from __future__ import annotations

from collections.abc import Callable
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
                made = found(*args, **params)
            return dressed(OTHERWISE[name](made) if name in OTHERWISE else made)

        return call


def factors(vectors: np.ndarray) -> np.ndarray:
    """Of absolute value 1, for each column: signs of real ones."""
    count = np.arange(vectors.shape[-1])
    return np.exp(1j * (1 + count)) if vectors.dtype.kind == "c" else np.where(count % 3, 1.0, -1.0)


def other_svd(made: Any) -> Any:
    if not isinstance(made, tuple):
        return made
    u, s, vh = made
    assert u.shape[-1] == vh.shape[-2]  # full ones that are not square would have other vectors than reduced ones
    turn = factors(u)
    return u * turn, s, turn.conj()[:, None] * vh


def other_eig(made: Any) -> Any:
    """Of another length too."""
    w, v = made
    order = np.argsort(w.imag, -1)
    return np.take_along_axis(w, order, -1), np.take_along_axis(v, order[..., None, :], -1) * factors(v) * 3


OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "svd": other_svd,
    "eigh": lambda made: (made[0], made[1] * factors(made[1])),
    "eig": other_eig,
}


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
