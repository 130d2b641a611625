"""The counter-based generator gives Random123's own test vectors, on every backend."""

import numpy as np
import pytest

from npcompile.tensor_core.op import OPS
from tests.backends import BACKENDS
from tests.ops.table import apply_all

# Counter, key and block of philox4x32-10 as tests/kat_vectors of Random123 has them, lowest word first.
VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def pairs(words: str) -> list[int]:
    """Numbers of 64 bits, of words of 32 each."""
    numbers = [int(w, 16) for w in words.split()]
    return [low | high << 32 for low, high in zip(numbers[::2], numbers[1::2])]


COUNTERS, KEYS, BLOCKS = (np.array([pairs(v[k]) for v in VECTORS], np.uint64).T for k in range(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_known_answers(backend):
    _, found = apply_all(backend, [(name, [*COUNTERS, *KEYS], {}) for name in ("philox_low", "philox_high")])
    np.testing.assert_array_equal(found, BLOCKS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_operand_counts(backend):
    rng = np.random.default_rng(2)
    operands = [rng.integers(0, 2**64, 1000, np.uint64) for _ in range(3)]
    for name in ("philox_low", "philox_high"):
        calls = [operands, *([x ^ np.uint64(1 << 40) if k == j else x for j, x in enumerate(operands)] for k in range(3))]
        _, found = apply_all(backend, [(name, xs, {}) for xs in calls])
        np.testing.assert_array_equal(found[0], OPS[name].eager(*operands))
        for other in found[1:]:
            changed = np.bitwise_count(found[0] ^ other)
            assert 31 < changed.mean() < 33, "half of the bits"
