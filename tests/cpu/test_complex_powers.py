"""Complex powers by an exponent that the program knows: vectors of products, in more digits than the result has."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import npcompile as npc
from tests.accuracy import reference
from tests.accuracy.special_values import is_nearer, is_same_kind, special_numbers

EXPONENTS = (3, 5, 16, -3, -16, 40)


def bases(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Ordinary numbers, and such with powers that fill the range."""
    largest = np.finfo(dtype).maxexp / 7
    size, angle = np.exp2(np.append(rng.uniform(-1, 1, 60), rng.uniform(-largest, largest, 60))), rng.uniform(-4, 4, 120)
    return (size * np.exp(1j * angle)).astype(dtype)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_powers_by_known_exponents(exponent: int) -> None:
    compiled = npc.compile(eval(f"lambda z: np.power(z, {exponent}.0)", {"np": np}))
    for dtype in "FD":
        z = bases(dtype, np.random.default_rng(3))
        w = np.full(len(z), exponent, dtype)
        with np.errstate(all="ignore"):
            got = compiled(z)
        by_size, by_part = reference.errors_of_parts(got, reference.exact("power", z, w))
        assert by_size.max() <= (0.9 if abs(exponent) > 3 else 2.5)
        assert by_part.max() <= 0.7 or exponent in (2, 3)  # these are NumPy's products, in which a part may cancel


@pytest.mark.parametrize("exponent", [2, 4, -3])
@pytest.mark.parametrize("dtype", "FD")
def test_special_bases_are_as_with_numpy(dtype: str, exponent: int) -> None:
    compiled = npc.compile(eval(f"lambda z: np.power(z, {exponent}.0)", {"np": np}))
    for number in special_numbers(np.dtype(dtype)):
        z = np.full(19, 1.5, dtype)
        z[5], z[17] = number, number
        outcomes = []
        for function in (compiled, lambda z: np.power(z, float(exponent))):
            with warnings.catch_warnings(record=True) as noted:
                warnings.simplefilter("always")
                outcomes.append((function(z)[[5, 17]], {str(w.message) for w in noted}))
        (ours, our_warnings), (theirs, their_warnings) = outcomes
        assert our_warnings == their_warnings, (number, our_warnings, their_warnings)
        with np.errstate(all="ignore"):
            operands = [np.array([number], dtype), np.array([exponent], dtype)]
            same = [is_same_kind(a, b) or is_nearer("power", operands, a, b) for a, b in zip(ours, theirs)]
        assert all(same), (number, ours, theirs)


EXTREME_POWERS = """
import itertools
import numpy as np
import npcompile as npc
parts = [1.0000001, 1e-300, 1e300, 1e18, -0.7, 5e-324, 1.5e-8]
a, b, c, d = np.array([*itertools.product(parts, repeat=4)]).T
with np.errstate(all="ignore"):
    npc.compile(lambda x, y: x**y)(a + 1j * b, c + 1j * d)
"""


def test_long_numbers_stay_inside_their_arrays(tmp_path) -> None:
    """A compiler that guards the stack ends the process where they do not."""
    environment = {"CC": "cc -fstack-protector-strong", "NPCOMPILE_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", EXTREME_POWERS]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_third_powers_are_numpys_two_products() -> None:
    """Each product is rounded by itself: GCC 12 fuses the two of complex numbers in vectors whatever -ffp-contract says."""
    rng = np.random.default_rng(4)
    for dtype in (np.complex64, np.complex128):
        z = (rng.standard_normal(300) + 1j * rng.standard_normal(300)).astype(dtype)
        square = z.real * z.real - z.imag * z.imag, z.real * z.imag + z.imag * z.real
        cube = npc.compile(lambda z: z**3)(z)
        np.testing.assert_array_equal(cube.real, z.real * square[0] - z.imag * square[1])
        np.testing.assert_array_equal(cube.imag, z.real * square[1] + z.imag * square[0])
