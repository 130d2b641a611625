"""The kernels of loops on CuPy's current stream. NVRTC is not called through CuPy, which lets it flush subnormal numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.backends.cuda.loop_ir.nvrtc import cached_cubin

# Of every processor since Volta: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
REGISTERS, REGISTERS_AT_ONCE, WARP, MOST_THREADS, MOST_BLOCKS = 1 << 16, 256, 32, 2048, 16
FEW_BLOCKS = 2  # of a processor, where all wait for each other: more take longer to meet
USED_REGISTERS = 4  # CU_FUNC_ATTRIBUTE_NUM_REGS


@dataclass(frozen=True, slots=True)
class CupyKernel:
    """See `kernel.LoopKernel`."""

    module: Any  # unloaded with its last reference
    function: Any
    processors: int
    registers: int  # of a thread
    meets: bool  # do the threads of the grid wait for each other, so that all must run at once?

    @classmethod
    def of(cls, library: Any, source: str, architecture: int, meets: bool) -> CupyKernel:
        """Raises NoNvrtc."""
        module = library.cuda.function.Module()
        module.load(cached_cubin(source, architecture))
        function = module.get_function("npc_loop")
        registers = library.cuda.driver.funcGetAttribute(USED_REGISTERS, function.ptr)
        return cls(module, function, library.cuda.Device().attributes["MultiProcessorCount"], registers, meets)

    def resident(self, threads: int) -> int:
        registers = -(-max(self.registers, 1) * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE  # of a warp
        blocks = min(REGISTERS // registers * WARP // threads, MOST_THREADS // threads, MOST_BLOCKS, FEW_BLOCKS)
        return max(blocks, 1) * self.processors

    def __call__(self, blocks: int, threads: int, words: Sequence[int]) -> None:
        given = tuple(map(np.int64, words))
        self.function((blocks,), (threads,), given, enable_cooperative_groups=self.meets)
