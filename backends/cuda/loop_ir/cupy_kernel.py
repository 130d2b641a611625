"""The kernels of loops through CuPy, which compiles them by its NVRTC and keeps them on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

OPTIONS = ("--fmad=false",)
# Of every processor since Volta: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
REGISTERS, REGISTERS_AT_ONCE, WARP, MOST_THREADS, MOST_BLOCKS = 1 << 16, 256, 32, 2048, 16
FEW_BLOCKS = 2  # of a processor, where all wait for each other: more take longer to meet


@dataclass(frozen=True, slots=True)
class CupyKernel:
    """See `kernel.LoopKernel`."""

    function: Any
    processors: int

    @classmethod
    def of(cls, library: Any, source: str, meets: bool) -> CupyKernel:
        """`meets`: do the threads of the grid wait for each other, so that all must run at once?"""
        module = library.RawModule(code=source, options=OPTIONS, enable_cooperative_groups=meets)
        return cls(module.get_function("npc_loop"), library.cuda.Device().attributes["MultiProcessorCount"])

    def resident(self, threads: int) -> int:
        registers = -(-max(self.function.num_regs, 1) * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE  # of a warp
        blocks = min(REGISTERS // registers * WARP // threads, MOST_THREADS // threads, MOST_BLOCKS, FEW_BLOCKS)
        return max(blocks, 1) * self.processors

    def __call__(self, blocks: int, threads: int, words: Sequence[int]) -> None:
        self.function((blocks,), (threads,), tuple(map(np.int64, words)))
