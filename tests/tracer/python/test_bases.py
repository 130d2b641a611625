"""What owns the memory of results: NumPy returns views of copies that it makes, and their `base` is seen by the program."""

import numpy as np
import pytest

import npcompile as npc
from tests.backends import HOST_BACKENDS
from tests.covering import pairs

PICK = np.array([0, 2])
FUNCTIONS = {
    "tile": lambda x: (np.tile(x, 2), np.tile(x, (2, 3)), np.tile(x, (2, 1, 2)), np.tile(x, (2, 1)), np.tile(x, 1)),
    "isin": lambda x: (np.isin(x, [1.0, 2.0]), np.isin(x[0], [1.0, 2.0])),
    "copies by reshape": lambda x: (x.T.reshape(-1), x.T.reshape(2, -1), x.reshape(2, 6, order="F"), np.reshape(x[:, ::2], 6)),
    "views by reshape": lambda x: (x.reshape(-1), x.reshape(2, 6), x.T.reshape(6, 2, order="F"), x[:, None].reshape(4, 3)),
    "copies by ravel": lambda x: (x.T.ravel(), x.T.flatten(), x.ravel("F"), x.copy("F"), x.T.copy().reshape(2, 6)),
    "index arrays": lambda x: (x[PICK], x[:, PICK], x[PICK, PICK], x[None, :, PICK], x.T[:, PICK], x[:, [[0, 1], [1, 0]]]),
    "masks": lambda x: (x[x > 3], x[x[:, 0] > 3], x[:, x[0] > 1]),
    "grids": lambda x: (np.linspace(0, x[0, 1], 5), np.linspace(0, 1, 4, endpoint=False), np.linspace(0, 9, 4, dtype=int)),
    "grids between arrays": lambda x: (np.linspace(0, x[0], 5), np.linspace(0, x[0], 5, axis=1), np.linspace(0, 1, 1)),
    "tiles of nothing": lambda x: (np.tile(x[:0, 0], 3), np.tile(x[:, :0], 2), np.tile(x[:0], (2, 1, 2)), np.tile(x, 0)),
    "products": lambda x: (np.tensordot(x, x, 0), np.tensordot(x, x.T, 1), np.tensordot(x, x), np.tensordot(x[:0], x, 0)),
    "products of pairs": lambda x: (
        np.einsum("ij,kj->ik", x, x, optimize=True),
        np.einsum("ij,ij->", x, x, optimize=True),
        np.einsum("ij,jk,kl->li", x, x.T, x, optimize=True),
        np.einsum("ijk,lkm->jlim", np.stack([x, x]), np.stack([x.T, x.T]), optimize=True),
    ),
    "open grids": lambda x: (*np.ogrid[0:2, 0:3], *np.ogrid[0:2, 0:3:4j, 1:4], np.ogrid[0:3], np.mgrid[0:2, 0:3]),
    "places of different elements": lambda x: (
        *np.unique(x, return_index=True, return_inverse=True, return_counts=True),
        *np.unique(x[0], return_inverse=True),
        *np.unique(np.array([[3], [1]]), return_inverse=True),
    ),
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


WINDOWS = np.lib.stride_tricks.sliding_window_view
ASKED = {
    "windows": lambda x: (WINDOWS(x, 2, 1), WINDOWS(x, (1, 1)), WINDOWS(x[0], 1), WINDOWS(x * 2, 2, 0)),
    "no windows": lambda x: (WINDOWS(x, (), ()), WINDOWS(x[0, 0, ...], ())),
    "strides": lambda x: (np.lib.stride_tricks.as_strided(x[0], (2,), (8,)),),
    "windows of windows": lambda x: (WINDOWS(x, 2, 1)[0], WINDOWS(x, 2, 1).T),
    "no imaginary parts": lambda x: (x.imag, x.T.imag, x[::2].imag, x[:, None].imag, (x * 2).imag, x[0, 0, ..., None].imag),
    "parts of these": lambda x: (x.imag[0], x.T.imag.T, x.imag.reshape(-1), np.imag(x)),
}


def described(made, x):
    base = made.base
    is_made = type(base) is np.ndarray
    return (
        (type(base).__name__, base is x, base.shape if is_made else None, base.flags.writeable if is_made else None),
        (made.shape, made.strides, made.flags.owndata, made.flags.writeable),
    )


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("name", ASKED)
def test_owners_are_asked(name, backend):
    """By the program itself, and by its caller."""
    function, x = ASKED[name], np.arange(12.0).reshape(3, 4)
    asks = npc.compile(lambda x: [described(made, x) for made in function(x)], backend=backend)
    gives = npc.compile(lambda x: function(x), backend=backend)
    wanted = [described(made, x) for made in function(x)]
    for _ in range(2):
        assert asks(x) == wanted
        assert [described(made, x) for made in gives(x)] == wanted
        assert all(map(np.array_equal, gives(x), function(x)))


ASKS = {
    "windows": lambda x: (type(WINDOWS(x, 2, 1).base).__name__, WINDOWS(x, 2, 1).base is x),
    "windows of a result": lambda x: type(WINDOWS(x * 2, 1, 0).base).__name__,
    "windows that are turned": lambda x: (WINDOWS(x, 2, 1).T.base is x, WINDOWS(x, 2, 1).T.base.shape),
    "strides": lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)).base is x,
    "spread": lambda x: (
        np.broadcast_to(x[:1], (3, 1, 4)).strides,
        np.broadcast_to(x[:1], (1, 4)).strides,
        np.broadcast_arrays(x[:1], x[:, None, :1])[0].strides,
    ),
    "views": lambda x: (x[::2].base is x, x.T.base is x, x[None].base is x, np.broadcast_to(x, (2, 3, 4)).base is x),
}


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("name", ASKS)
def test_programs_ask(name, backend):
    function, x = ASKS[name], np.arange(12.0).reshape(3, 4).copy()
    compiled = npc.compile(function, backend=backend)
    assert compiled(x) == compiled(x) == function(x)


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


ARITHMETIC = {
    "without casts": lambda x, y: (x + 1, np.sin(x), x > 1, x + x, np.clip(x, 1, 2), x * 2 + 1, x + np.float64(2), -(x[::-1])),
    "with casts": lambda x, y: (x + 1j, np.add(x, 1, dtype="f4", casting="same_kind"), x.astype("f4") + x, np.sqrt(x > 1)),
    "of arrays unlike each other": lambda x, y: (x + y, y + x, x + y[:1], x[..., :1] + x, x + x[..., 0, 0][..., None, None]),
}


SHAPES = [(4, 1, 3), (4, 3, 1), (1, 4, 3), (4, 1, 1), (0, 1, 3), (4, 2, 3)]


@pytest.mark.parametrize(("shape", "name", "backend"), pairs(SHAPES, [*ARITHMETIC], ["eager", "cpu"]))
def test_strides_of_axes_of_one_element(name, shape, backend):
    function = ARITHMETIC[name]
    y = np.arange(float(np.prod(shape))).reshape(shape)
    for x in (y, np.asfortranarray(y), np.moveaxis(np.ascontiguousarray(np.moveaxis(y, 0, -1)), -1, 0), np.repeat(y, 2, 0)[::2]):
        for ours, theirs in zip(npc.compile(function, backend=backend)(x, y), function(x, y), strict=True):
            assert ours.strides == theirs.strides and ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
