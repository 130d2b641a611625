"""Arrays that are not aligned have gradients too: other processes send them so (Dask, records of files)."""

import numpy as np
import pytest

import npcompile as npc


def unaligned(values):
    found = np.ndarray(values.shape, values.dtype, bytearray(values.nbytes + 1), 1)
    found[...] = values
    assert not found.flags.aligned
    return found


def energy(x):
    return np.sum(np.tanh(x) ** 2)


X = np.array([0.5, -1.0, 2.0])


@pytest.mark.parametrize("transform", [npc.grad, npc.value_and_grad, npc.jacobian, npc.hessian, npc.vmap])
def test_the_same_as_of_an_aligned_array(transform):
    got, wanted = transform(energy)(unaligned(X)), transform(energy)(X)
    assert type(got) is type(wanted)
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_the_argument_stays():
    x = unaligned(X)
    npc.grad(energy)(x)
    np.testing.assert_array_equal(x, X)


def test_swapped_bytes_say_what_to_do():
    with pytest.raises(npc.GraphBreakError, match=r"not >f8: keep this in a NumPy array, or convert it with astype first"):
        npc.grad(energy)(X.astype(">f8"))
