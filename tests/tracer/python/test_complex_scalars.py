"""Products of NumPy's complex scalars round each of their four products, unlike those of arrays; and complex numbers that are
made narrower and wider again have lost what does not fit."""

import warnings

import numpy as np
import pytest

import npcompile as npc

PROGRAMS = [
    lambda x, y: x[0] * y[0],
    lambda x, y: x[0] * y[0] + x[1] * x[0],
    lambda x, y: x[0] * (1.3 + 0.7j),
    lambda x, y: (1.3 + 0.7j) * x[0],
    lambda x, y: x[0] * 2.5,
    lambda x, y: x[0] * y[0].real,
    lambda x, y: x[0] * np.complex64(y[0]),
    lambda x, y: x[0] / y[0],
    lambda x, y: np.multiply(x[0], y[0]),
    lambda x, y: x[0] * y,
    lambda x, y: x.astype(np.complex64).astype(np.complex128),
    lambda x, y: np.complex128(np.complex64(x[0])),
]
SPECIAL = [complex(np.inf, np.nan), complex(np.inf, 1e30), complex(1e30, 1e30), 0j, complex(np.nan, 0)]


def outcome(function, x, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = function(x, y)
    return type(found), found.dtype, np.asarray(found) + 0.0, [str(w.message) for w in caught]


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("k", range(len(PROGRAMS)))
def test_operators_of_complex_scalars(k, dtype):
    program, compiled = PROGRAMS[k], npc.compile(PROGRAMS[k])
    rng = np.random.default_rng(k)
    for number in [*SPECIAL, *[None] * 60]:
        x, y = (rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3))).astype(dtype)
        if number is not None:
            x[0] = number
        ours, theirs = outcome(compiled, x, y), outcome(program, x, y)
        assert ours[:2] == theirs[:2] and ours[3] == theirs[3]
        np.testing.assert_array_equal(ours[2], theirs[2])


def test_the_product_is_made_once():
    (graph,) = npc.explain(PROGRAMS[0])(np.ones(2) + 1j, np.ones(2) + 1j).graphs
    assert [n.op for n in graph.nodes if "multiply" in n.op] == ["scalar_multiply"]


def test_gradient_of_a_product():
    def product(x):
        return np.abs(x[0] * x[1]) ** 2

    x = np.array([1 + 2j, 3 - 1j])
    np.testing.assert_allclose(npc.grad(product)(x), npc.grad(lambda x: np.abs(np.multiply(x[0], x[1])) ** 2)(x))
