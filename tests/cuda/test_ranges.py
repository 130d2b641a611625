"""NVTX ranges around what the device is given, with `config.native_profiling`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda.ranges import in_range
from tests.cuda.there import There, there  # noqa: F401  (a fixture)


class Ranges:
    """In the place of cupy.cuda.nvtx."""

    available = True

    def __init__(self) -> None:
        self.open: list[str] = []
        self.seen: list[str] = []

    def RangePush(self, name: str) -> None:
        self.open.append(name)
        self.seen.append(name)

    def RangePop(self) -> None:
        self.open.pop()


class WithRanges:
    """The library of a device, and ranges."""

    def __init__(self, library: Any, ranges: Ranges):
        self.library, self.cuda = library, SimpleNamespace(nvtx=ranges)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)


def norm(x: Any) -> Any:
    return np.sqrt(np.sum(np.sin(x) * x))


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_graph_runs_in_a_range(is_asked: bool, there: There, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    ranges, x = Ranges(), np.linspace(0.5, 1, 40)
    if hasattr(there.device.library, "cuda"):  # CuPy, whose other parts the device needs
        monkeypatch.setattr(there.device.library.cuda, "nvtx", ranges)
    else:
        monkeypatch.setattr(there.device, "library", WithRanges(there.device.library, ranges))
    with npc.config.patch(native_profiling=is_asked):
        compiled = npc.compile(norm)
        for _ in range(2):
            np.testing.assert_allclose(there.get(compiled(there.put(x))), norm(x))
    assert not ranges.open and len(ranges.seen) == 2 * is_asked
    for name in ranges.seen:
        assert name.startswith(f"norm_0 (test_ranges.py:{norm.__code__.co_firstlineno + 1}): npc_") and "sin" in name


def test_ranges_end_where_something_is_raised() -> None:
    ranges = Ranges()
    library = SimpleNamespace(cuda=SimpleNamespace(nvtx=ranges))

    def failing(k: int) -> None:
        assert ranges.open == ["failing"]
        raise IndexError(k)

    assert in_range(failing, library, "failing") is failing
    with npc.config.patch(native_profiling=True):
        ranged = in_range(failing, library, "failing")
        ranges.available = False
        assert in_range(failing, library, "failing") is failing
        assert in_range(failing, np, "failing") is failing
    with pytest.raises(IndexError):
        ranged(1)
    assert not ranges.open and ranges.seen == ["failing"]
