"""The backends that tests run programs with: those of every machine, and CUDA's where there is a device.

    python -m pytest -m gpu tests

runs what needs a device, and nothing else.
"""

from __future__ import annotations

import importlib.util

import pytest

from npcompile.backends import cpu, cuda, eager  # noqa: F401  (registers the backends)
from npcompile.backends.registry import list_backends


def why_no_device() -> str:
    """Why CUDA cannot be used here; empty where it can."""
    try:
        cuda.require_device()
    except RuntimeError as error:
        return str(error)
    return ""


NO_DEVICE = why_no_device()
gpu = pytest.mark.gpu  # left out without a device: see conftest.py

HOST_BACKENDS = [pytest.param(name) for name in ("eager", "cpu") if name in list_backends()]
BACKENDS = [*HOST_BACKENDS, *([] if NO_DEVICE else [pytest.param("cuda", marks=pytest.mark.gpu)])]


# Skip where a package is missing. In CI that fails: see conftest.py.
def need_triton() -> None:
    if importlib.util.find_spec("triton") is None:  # else tests/cuda/interpreted.py imports it, and chooses how it runs
        pytest.importorskip("triton", reason="Triton is not installed (extra cuda12 or cuda13)")


def need_nvrtc() -> None:
    pytest.importorskip("nvidia.cuda_nvrtc", reason="nvidia-cuda-nvrtc-cu12 is not installed (wheels: Linux, Windows)")
