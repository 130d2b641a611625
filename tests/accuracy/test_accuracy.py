"""Compiled functions: within four units of the exact result, NumPy's special values, and its floating-point errors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from npcompile.backends.cpu import inline_angles, vector_math
from npcompile.backends.cpu.compiler import architecture
from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.primitives import NUMPY_LIBM, numpy_underflows
from npcompile.tensor_core.graph import FLOAT_ERRORS
from tests.accuracy import measure, reference
from tests.accuracy.kernels import Kernels, is_compiled
from tests.accuracy.special_values import different_values, errors_not_noted

MOST_UNITS = 4.0
FEATURES = np._core._multiarray_umath.__cpu_features__
fused = pytest.mark.skipif(
    not (FEATURES.get("AVX2") and FEATURES.get("FMA3")) or architecture() not in ("native", "x86-64-v3", "x86-64-v4"),
    reason="kernels have one accuracy everywhere where there are AVX2 and FMA",
)
INLINE = {name for name, libm in NUMPY_LIBM.items() if libm in {*vector_math.NAMES, *inline_angles.FUNCTIONS}}
INLINE |= {"logaddexp", "logaddexp2"}
COUNTS = {"e": 4000, "f": 12_000, "d": 12_000, "F": 120, "D": 120}


@dataclass(slots=True)
class Measured:
    kernels: Kernels
    operands: list[tuple[np.ndarray, ...]]
    results: list[np.ndarray]


@pytest.fixture(scope="module", params=[*"efdFD", "f inline", "d inline"])
def rounded(request: pytest.FixtureRequest) -> Iterator[list[Measured]]:
    """Programs of the functions that round, at their samples; then of those that are inline, as where there is no libmvec."""
    known, (dtype, *inline) = loader(), request.param.split()
    used = known.compiler
    if inline:
        known.compiler = replace(used, libraries=("-lm",))
    yield programs_of(np.dtype(dtype), INLINE if inline else None)
    known.compiler = used


def programs_of(dtype: np.dtype, names: Collection[str] | None) -> list[Measured]:
    calls = [call for call in measure.calls_of(dtype, rounded=True) if is_compiled(call) and (not names or call[0] in names)]
    # A program of these reports an underflow wherever NumPy may: among others they would hide what those note.
    unseen = [call for call in calls if numpy_underflows(call[0], dtype)]
    rng = np.random.default_rng(7)
    found = []
    for part in ([call for call in calls if call not in unseen], unseen):
        if part:
            kernels = Kernels(part, checks=FLOAT_ERRORS)
            operands = measure.sampled(part, rng, COUNTS[dtype.char])
            with np.errstate(all="ignore"):
                found.append(Measured(kernels, operands, kernels(operands)))
    return found


@fused
def test_within_four_units_of_the_exact_result(rounded: list[Measured]) -> None:
    for part in rounded:
        for (name, _), xs, got in zip(part.kernels.calls, part.operands, part.results):
            if xs[0].dtype.kind == "c":
                found, _ = measure.worst_of_parts(name, xs, got)
            else:
                found = measure.worst(name, xs, got)
            assert found.units <= MOST_UNITS, (name, str(found))


@fused
def test_a_number_has_one_result_wherever_it_is(rounded: list[Measured]) -> None:
    """In vectors, in what is left over, alone, strided and reversed."""
    for part in rounded:
        with np.errstate(all="ignore"):
            assert not measure.moved(part.kernels, part.operands, part.results)


def test_special_values_are_those_of_numpy(rounded: list[Measured]) -> None:
    for part in rounded:
        assert not list(map(str, different_values(part.kernels)))


def test_errors_that_numpy_reports_are_noted(rounded: list[Measured]) -> None:
    for part in rounded:
        assert not list(map(str, errors_not_noted(part.kernels, most=150)))


@pytest.mark.parametrize("dtype", "efdFD")
def test_what_rounds_at_most_once_has_the_bits_of_numpy(dtype: str) -> None:
    kernels = Kernels(measure.calls_of(np.dtype(dtype), rounded=False), checks=FLOAT_ERRORS)
    assert not measure.other_than_numpy(kernels, np.random.default_rng(8), 2000)
    assert not list(map(str, errors_not_noted(kernels, most=150)))


@fused
def test_cubes_have_exact_roots() -> None:
    roots = np.arange(-40_000.0, 40_000.0)
    kernels = Kernels([("cbrt", (roots.dtype,))])
    np.testing.assert_array_equal(kernels([(roots**3,)])[0], roots, strict=True)


@pytest.mark.parametrize("dtype", "FD")
def test_powers_of_whole_complex_numbers_are_rounded_once(dtype: str) -> None:
    bases = [complex(a, b) for a in range(-5, 6) for b in range(-5, 6) if a or b]
    exponents = [*range(4, 40), *range(-9, 0)]
    z, w = (x.ravel().astype(dtype) for x in np.meshgrid(bases, exponents))
    found, of_parts = measure.worst_of_parts("power", (z, w), Kernels([("power", (z.dtype, w.dtype))])([(z, w)])[0])
    assert found.units <= 0.75 and of_parts.units <= 0.51, (str(found), str(of_parts))


def test_errors_are_counted_in_units_of_the_exact_result() -> None:
    """The judge itself: known distances, overflow, NaN, and long double against mpmath."""
    one, above = np.float64(1), np.nextafter(np.float64(1), 2)
    assert reference.error(float(above), reference.mpf(1), one.dtype) == 1
    assert reference.error(float(one), reference.mpf(float(above)), one.dtype) == 1
    assert reference.error(np.inf, reference.mpf(2) ** 1024, one.dtype) == 0
    assert reference.error(np.inf, reference.mpf(float(np.finfo(float).max)), one.dtype) == 1
    assert reference.error(np.nan, reference.mpf(1), one.dtype) == np.inf == reference.error(1.0, reference.mp.nan, one.dtype)
    assert reference.error(5e-324, reference.mpf(0), one.dtype) == 1
    x = np.random.default_rng(9).uniform(0.1, 9, 50)
    for name in ("sin", "exp", "log", "tanh"):
        near = reference.near_errors(getattr(np, name)(x), reference.nearly_exact(name, x))
        judged = reference.errors(getattr(np, name)(x), reference.exact(name, x))
        np.testing.assert_allclose(near, judged, atol=0.02)
