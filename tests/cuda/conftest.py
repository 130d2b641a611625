"""Tests of the CUDA backend: Triton's interpreter here; those marked `gpu` need a device."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.backends import need_triton

NEED_TRITON = "primitives random_graphs kernels programs compile device workers graphs tuning tensors calls control library"
NEED_TRITON += " scatters forms loops complex random_calls factorizations bfloat16 kernel_corpus python_loops special_functions"
NEED_TRITON += " loop_text loop_calls"


class NeedsTriton(pytest.Module):
    """A file that is skipped where there is no Triton, and fails there in CI."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        need_triton()
        return super().collect()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if module_path.stem.removeprefix("test_") not in NEED_TRITON.split():
        return None
    return NeedsTriton.from_parent(parent, path=module_path)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA device, CuPy and Triton")
