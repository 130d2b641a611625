"""Functions of scipy.special in Triton: SciPy's special values, and near the exact results on a device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.ops.special import FORMS, function_of
from tests.cpu.test_special_functions import EXACT, FURTHEST, NEAR, operands
from tests.cuda.one_op import device  # noqa: F401  (a fixture; its module chooses the interpreter)

from npcompile.backends.cuda.backend import compile_for  # isort: skip
from npcompile.backends.cuda.programs.special_functions import has_program  # isort: skip
from npcompile.backends.cuda.runtime.interface import to_host  # isort: skip

CASES = [pytest.param(name, np.dtype(c), id=f"{name}-{c}") for name in sorted(FORMS) for c in "df"]


def graph_of(name: str, xs: list[np.ndarray]) -> Graph:
    """Minus the function: a call of SciPy's ufunc before an operation that kernels have."""
    builder, dtype = Builder(), xs[0].dtype
    nodes = [builder.input(TensorMeta(x.shape, dtype)) for x in xs]
    made = builder.apply("ufunc", *nodes, function=function_of(name), loop=(dtype,) * (len(xs) + 1), is_asked_for=False)
    return replace(builder.finish([builder.apply("negative", made)]), checks=frozenset())


def computed(device: Any, graph: Graph, xs: list[np.ndarray]) -> tuple[np.ndarray, int]:  # noqa: F811
    """The function, and the bytes that came to the host for it."""
    given = [device.upload(np.ascontiguousarray(x)) for x in xs]
    before = device.host
    (found,) = compile_for(graph, device).call(*given)
    came = device.host - before
    return -to_host(device, found), came


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_special_values_are_scipys(device, name, dtype):  # noqa: F811
    function = function_of(name)
    with np.errstate(all="ignore"):
        xs = operands(function, dtype)
        wanted = function(*xs)
    found, came = computed(device, graph_of(name, xs), xs)
    assert bool(came) != has_program(name, dtype)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    is_special = ~np.isfinite(wanted) | (wanted == 0)
    np.testing.assert_array_equal(found[is_special], wanted[is_special])
    beside_zeros = 1e-6 if name == "gammaln" and came == 0 else 0  # SciPy's has no correct digits there
    np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=beside_zeros)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_as_near_to_the_exact_result_as_libdevices_functions(device, name, dtype):  # noqa: F811
    """On the stand-in device it is what is made of NumPy's and SciPy's functions that this tells."""
    if not has_program(name, dtype):
        assert (name, dtype.char) in (("erfc", "d"), ("gammaln", "d"))
        return
    rng, function = np.random.default_rng(2), function_of(name)
    low, high = NEAR.get(name, (0.01, 9))
    low, high = (max(low, -80), min(high, 80)) if dtype == np.float32 and name == "expit" else (low, high)
    high = 9 if name == "erfc" else high
    xs = [rng.uniform(low, high, 500).astype(dtype) for _ in range(function.nin)]
    found, _ = computed(device, graph_of(name, xs), xs)
    with mpmath.workprec(300):
        for value, *given in zip(found, *xs):
            exact = EXACT[name](*map(mpmath.mpf, map(float, given)))
            assert abs(mpmath.mpf(float(value)) - exact) <= FURTHEST * float(np.spacing(abs(value))), (given, value)


def test_numpys_bits_are_asked_of_scipy(device):  # noqa: F811
    x = np.linspace(-3, 3, 7)
    found, came = computed(device, replace(graph_of("erf", [x]), accuracy="bitwise"), [x])
    np.testing.assert_array_equal(found, function_of("erf")(x))
    assert came


def test_programs_are_chosen_by_operands_of_one_shape(device):  # noqa: F811
    builder = Builder()
    x, y = builder.input(TensorMeta((5, 1), np.dtype("d"))), builder.input(TensorMeta((4,), np.dtype("d")))
    made = builder.apply("ufunc", x, y, function=function_of("xlogy"), loop=(np.dtype("d"),) * 3, is_asked_for=False)
    values = np.linspace(0.1, 2, 5)[:, None], np.linspace(0.2, 3, 4)
    found, _ = computed(device, replace(builder.finish([made]), checks=frozenset()), list(values))
    np.testing.assert_allclose(-found, function_of("xlogy")(*values), rtol=1e-14)
