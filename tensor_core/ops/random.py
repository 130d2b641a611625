"""Random bits of which each is computed by itself: Philox4x32-10.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11,
https://doi.org/10.1145/2063384.2063405. A block of 128 bits is a function of a counter and a key, so the bits do not depend
on which thread, vector or device computes them, nor on how an array is cut.
"""

import numpy as np

from npcompile.tensor_core.meta import TensorMeta, keep_order_strides
from npcompile.tensor_core.op import OPS, Cost, Op

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85  # what is added to both halves of the key after each round
ROUNDS = 10
UINT64 = np.dtype(np.uint64)
WORD = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(low: np.ndarray, high: np.ndarray, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The block of the counter whose 128 bits are `high` and `low`, as two halves like these. All are uint64."""
    a, b, c, d = low & WORD, low >> HALF, high & WORD, high >> HALF
    first, second = key & WORD, key >> HALF
    for _ in range(ROUNDS):
        p, q = a * np.uint64(MULTIPLIERS[0]), c * np.uint64(MULTIPLIERS[1])
        a, b, c, d = q >> HALF ^ b ^ first, q & WORD, p >> HALF ^ d ^ second, p & WORD
        first, second = first + np.uint64(WEYL[0]) & WORD, second + np.uint64(WEYL[1]) & WORD
    return a | b << HALF, c | d << HALF


def random_bits(name: str, half: int) -> Op:
    """A row for one half of the block. Operands are uint64: both halves of the counter, the key."""

    def meta(low: TensorMeta, high: TensorMeta, key: TensorMeta) -> TensorMeta:
        assert low.dtype == high.dtype == key.dtype == UINT64
        return TensorMeta(low.shape, UINT64, keep_order_strides(low.shape, 8, [low, high, key]))

    def eager(*operands: np.ndarray) -> np.ndarray:
        return philox(*map(np.asarray, operands))[half]

    def samples(dtype: np.dtype, rng: np.random.Generator) -> list[tuple[np.ndarray, ...]]:
        if dtype != UINT64:
            return []
        return [tuple(rng.integers(0, 2**64, 17, np.uint64) for _ in range(3))]

    return OPS.add(Op(name, "elementwise", meta, eager, samples=samples, cost=Cost.FUNCTION))


random_bits("philox_low", 0)
random_bits("philox_high", 1)
