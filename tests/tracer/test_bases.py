"""What owns the memory of results: NumPy returns views of copies that it makes, and their `base` is seen by the program."""

import numpy as np
import pytest

import npcompile as npc
from tests.backends import HOST_BACKENDS

PICK = np.array([0, 2])
FUNCTIONS = {
    "tile": lambda x: (np.tile(x, 2), np.tile(x, (2, 3)), np.tile(x, (2, 1, 2)), np.tile(x, (2, 1)), np.tile(x, 1)),
    "isin": lambda x: (np.isin(x, [1.0, 2.0]), np.isin(x[0], [1.0, 2.0])),
    "copies by reshape": lambda x: (x.T.reshape(-1), x.T.reshape(2, -1), x.reshape(2, 6, order="F"), np.reshape(x[:, ::2], 6)),
    "views by reshape": lambda x: (x.reshape(-1), x.reshape(2, 6), x.T.reshape(6, 2, order="F"), x[:, None].reshape(4, 3)),
    "copies by ravel": lambda x: (x.T.ravel(), x.T.flatten(), x.ravel("F"), x.copy("F"), x.T.copy().reshape(2, 6)),
    "index arrays": lambda x: (x[PICK], x[:, PICK], x[PICK, PICK], x[None, :, PICK], x.T[:, PICK], x[:, [[0, 1], [1, 0]]]),
    "masks": lambda x: (x[x > 3], x[x[:, 0] > 3], x[:, x[0] > 1]),
    "others": lambda x: (np.take(x, [0, 1], 1), np.repeat(x, 2, 1), np.roll(x, 1, 0), np.concatenate([x, x]), np.sort(x)),
}


def owner(x):
    return None if x.base is None else (x.base.shape, x.base.strides, x.base.dtype)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_owners(name, backend):
    function = FUNCTIONS[name]
    compiled = npc.compile(function, backend=backend)
    for _ in range(2):
        x = np.arange(12.0).reshape(3, 4)
        for ours, theirs in zip(compiled(x), function(x), strict=True):
            assert (owner(ours), ours.strides, ours.flags.owndata) == (owner(theirs), theirs.strides, theirs.flags.owndata)
            assert ours.tobytes() == theirs.tobytes() and ours.flags.writeable


def shared(x):
    y = x.T.reshape(2, 6)
    y[0] = 7
    y.base[1] += 1
    z = x[:, PICK]
    z += z.base[0, 0]
    return y, z, y.base is x


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_owners_are_written(backend):
    x = np.arange(12.0).reshape(3, 4)
    for ours, theirs in zip(npc.compile(shared, backend=backend)(x), shared(x), strict=True):
        assert np.array_equal(ours, theirs)
