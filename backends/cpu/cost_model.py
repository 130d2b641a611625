"""How much work is worth a thread, in the nanoseconds that a kernel's cost is counted in."""

from __future__ import annotations

import numpy as np

from npcompile.backends.cpu.array_expressions import Apply, Gather, Number, Tree
from npcompile.backends.kernels.kernel import Kernel, Load, Store, walk
from npcompile.backends.kernels.operations import op_cost
from npcompile.tensor_core.op import Cost

SERIAL_NANOSECONDS = 50000  # not worth waking a second thread
PIECES = 10  # of so much work, for threads that are awake
FILL_NANOSECONDS = 0.05  # to set an element to a number
FAR = 3 << 24  # bytes read and written: more than caches keep
WIDE = 8  # bytes of elements whose costs are as they are counted; of narrower ones as many more are done at once


def pieces_of(kernel: Kernel) -> int:
    """Into how many pieces a grain of a kernel's work is split for threads that are awake."""
    return fewer(PIECES, max(widths_of(kernel), default=WIDE))


def moved_bytes(kernel: Kernel) -> int:
    """That a kernel reads and writes for each element."""
    return max(1, sum(widths_of(kernel)))


def widths_of(kernel: Kernel) -> list[int]:
    moved = [s.target if isinstance(s, Load) else s.value for s in walk(kernel.body) if isinstance(s, (Load, Store))]
    return [value.dtype.itemsize for value in moved]


def fewer(pieces: int, width: int) -> int:
    return max(1, pieces * min(width, WIDE) // WIDE)


NANOSECONDS = {Cost.DIVISION: 0.8, Cost.FUNCTION: 2.0}


def nanoseconds(tree: Tree) -> float:
    """What an element of a tree takes."""
    if not isinstance(tree, Apply):
        return 1.3 if isinstance(tree, Gather) else 0.3
    own = NANOSECONDS.get(op_cost(tree.op), 0.1)
    return own + sum(map(nanoseconds, tree.args))


def elements_of_a_grain(tree: Tree, dtype: np.dtype) -> tuple[int, int]:
    """Elements of a statement that are worth waking a thread, and the pieces of them; `dtype` is that of its result."""

    def widths(tree: Tree) -> list[int]:
        below = tree.args if isinstance(tree, Apply) else ()
        return [tree.dtype.itemsize, *(w for t in below for w in widths(t))]

    if isinstance(tree, Number):  # other threads would have the memory in their caches, not the one that goes on with it
        return int(SERIAL_NANOSECONDS / FILL_NANOSECONDS), fewer(PIECES, dtype.itemsize)
    return int(SERIAL_NANOSECONDS / (0.3 + nanoseconds(tree))), fewer(PIECES, max(dtype.itemsize, *widths(tree)))
