"""NVTX ranges, for Nsight Systems: which function of the user's, at which line, has launched kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npcompile.backends.native_profiling import PROFILERS


def in_range(call: Callable[..., Any], library: Any, name: str) -> Callable[..., Any]:
    """`call`, in a range of that name where profilers are told and the library has ranges, as CuPy does; else itself."""
    nvtx = getattr(getattr(library, "cuda", None), "nvtx", None) if PROFILERS.are_told else None
    if nvtx is None or not getattr(nvtx, "available", True):
        return call

    def ranged(*args: Any) -> Any:
        nvtx.RangePush(name)
        try:
            return call(*args)
        finally:
            nvtx.RangePop()

    return ranged
