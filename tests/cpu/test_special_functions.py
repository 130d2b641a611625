"""Functions of scipy.special in kernels: near the exact results, with SciPy's special values, and as silent as SciPy's."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special

import npcompile as npc
from npcompile.backends.kernels.kernel import Let, walk
from npcompile.compiler import compiled_function
from npcompile.tensor_core.ops.special import FORMS, function_of
from tests.cpu.plans import noted_plans

ENDS = [
    0.0,
    5e-324,
    1e-310,
    2.3e-308,
    1e-30,
    0.3,
    0.5,
    1 - 2**-53,
    1,
    1 + 2**-52,
    2,
    3,
    5.5,
    26.6,
    40,
    709.7,
    710,
    745.2,
    1e16,
    1e300,
]
ENDS += [1.7e308, np.inf, np.nan]
EDGES = np.array([*ENDS, *(-x for x in ENDS)])
FURTHEST = 4  # units in the last place
EXACT = {
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "gammaln": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "expit": lambda x: 1 / (1 + mpmath.exp(-x)),
    "logit": lambda x: mpmath.log(x / (1 - x)),
    "entr": lambda x: -x * mpmath.log(x),
    "xlogy": lambda x, y: x * mpmath.log(y),
    "xlog1py": lambda x, y: x * mpmath.log1p(y),
}
# Where samples lie.
NEAR = {"erf": (-6, 6), "erfc": (-6, 26), "gammaln": (-9.9, 200), "expit": (-700, 700), "logit": (1e-3, 0.999), "entr": (1e-3, 9)}


@pytest.fixture(autouse=True)
def always():
    with npc.config.patch(tiers="always"):
        yield


def compiled(name, **options):
    function = function_of(name)
    given = (lambda x: function(x) * 1) if function.nin == 1 else (lambda x, y: function(x, y) * 1)
    return npc.compile(given, **options)


def operands(function, dtype):
    values = EDGES.astype(dtype)
    return [values] if function.nin == 1 else [x.ravel() for x in np.meshgrid(values, values)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(FORMS))
def test_special_values_and_errors_are_scipys(name, dtype):
    function = function_of(name)
    with np.errstate(all="ignore"):
        xs = operands(function, dtype)
    made = compiled(name)
    wanted = function(*xs)
    with np.errstate(divide="raise", over="raise", invalid="raise"), noted_plans() as plans:
        found = made(*xs)
    assert found.dtype == wanted.dtype
    assert name in {s.op for plan in plans for s in walk(plan.kernel.body) if isinstance(s, Let)}
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    is_special = ~np.isfinite(wanted) | (wanted == 0)
    np.testing.assert_array_equal(found[is_special], wanted[is_special])
    np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))
    beside_zeros = 1e-15 if name == "gammaln" else 0  # SciPy's has no correct digits there
    with np.errstate(under="ignore"):
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=beside_zeros)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_as_near_to_the_exact_result_as_numpys_functions(name):
    rng, function = np.random.default_rng(2), function_of(name)
    low, high = NEAR.get(name, (0.01, 9))
    xs = [rng.uniform(low, high, 500) for _ in range(function.nin)]
    found = compiled(name)(*xs)
    with mpmath.workprec(300):
        for value, *given in zip(found, *xs):
            exact = EXACT[name](*map(mpmath.mpf, map(float, given)))
            assert abs(mpmath.mpf(float(value)) - exact) <= FURTHEST * float(np.spacing(abs(value))), (given, value)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_scipys_bits_where_they_are_asked_for(name):
    function = function_of(name)
    xs = operands(function, np.float64)
    made = compiled(name, accuracy="bitwise")
    np.testing.assert_array_equal(made(*xs), function(*xs) * 1)
    assert not npc.explain(made)(*xs).inexact


def test_underflow_is_not_told_either():
    made = compiled("erfc")
    x = np.array([26.6, 1.0])
    with np.errstate(all="raise"):
        found = made(x)
    np.testing.assert_allclose(found, special.erfc(x), rtol=1e-11)


def test_what_may_differ_is_listed():
    assert npc.explain(compiled("erf"))(EDGES).inexact == ("erf f8",)
    assert npc.explain(compiled("erf"))(np.arange(3)).inexact == ()


def test_operands_that_repeat_and_other_dtypes_are_scipys():
    @npc.compile
    def entropy(x, y):
        return (
            special.xlogy(x[:, None], y),
            special.xlogy(x, 2),
            special.erf(np.arange(3)),
            special.expit(x.astype(np.longdouble)),
        )

    x, y = np.linspace(0.1, 2, 5), np.linspace(0.2, 3, 4)
    for found, wanted in zip(entropy(x, y), compiled_function(entropy).user(x, y)):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_fused_with_what_is_around_it():
    @npc.compile
    def gelu(x):
        return 0.5 * x * (1 + special.erf(x / np.sqrt(2)))

    x = np.linspace(-9, 9, 1001)
    np.testing.assert_allclose(gelu(x), compiled_function(gelu).user(x), rtol=1e-13)
    ((_, made),) = compiled_function(gelu).graphs
    assert len(made.kernels) == 1
