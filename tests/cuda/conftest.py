"""Tests of the CUDA backend: Triton's interpreter here; those marked `gpu` need a device."""

from __future__ import annotations

import importlib.util

import pytest

collect_ignore: list[str] = []
if importlib.util.find_spec("triton") is None:
    names = "primitives random_graphs kernels programs compile device workers graphs tuning tensors calls control library"
    names += " scatters forms loops complex random_calls factorizations bfloat16 kernel_corpus python_loops special_functions"
    names += " loop_text loop_calls"
    collect_ignore += [f"test_{name}.py" for name in names.split()]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA device, CuPy and Triton")


def pytest_report_header() -> list[str]:
    return ["tests/cuda: without Triton (extra cuda12 or cuda13) only what needs none runs"] if collect_ignore else []
