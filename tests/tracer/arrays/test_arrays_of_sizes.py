"""Arrays that hold a size or a Python integer of which only a symbol is known: NumPy reads their numbers, never the symbols."""

import io
import pickle
import struct
import tempfile

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.backends import HOST_BACKENDS
from tests.covering import pairs
from tests.shim.harness import compare


def saved(x):
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def in_a_file(x):
    with tempfile.TemporaryFile() as file:
        np.asarray(x).tofile(file)
        file.seek(0)
        return file.read()


READERS = {
    "tobytes": lambda x: (x.tobytes(), x.tobytes("F"), x.tobytes(order=None), (-x // 2).tobytes()),
    "bytes": lambda x: (bytes(x), bytearray(x), bytes(memoryview(x)), bytes(x.data)),
    "struct": lambda x: struct.pack(f"{x.size}q", *np.ravel(x)),
    "frombuffer": lambda x: np.frombuffer(x.tobytes(), np.uint8),
    "file": in_a_file,
    "pickle": lambda x: (pickle.loads(pickle.dumps(x)), saved(x)),
    "text": lambda x: (repr(x), str(x), f"{x}", np.array2string(np.ravel(x))),
    "hash": lambda x: [hash(v) for v in np.ravel(x)],
    "numbers": lambda x: (x.tolist(), np.ravel(x)[:1].item(), np.max(x).item(), [type(v) for v in np.ravel(x).tolist()]),
    "view": lambda x: (x.view(np.float64), np.ravel(x).view(np.uint8), x.byteswap(), x.astype(np.int8), x.astype("S9")),
    "order": lambda x: (np.sort(x, axis=None), np.argsort(x, axis=None), np.unique(x, return_counts=True)),
    "search": lambda x: (np.searchsorted([1, 6, 8], x), np.isin(x, [6, 3]), np.isin([6, 3], x), np.digitize(x, [4, 7])),
    "bits": lambda x: (np.packbits(np.ravel(x) > 6), np.unpackbits(np.ravel(x).astype(np.uint8)), np.bitwise_count(x), x << 1),
    "places": lambda x: (np.nonzero(np.ravel(x) - 6), np.argmax(x), np.count_nonzero(x), np.bincount(np.ravel(x)), np.any(x)),
    "flag": lambda x: (np.ones((3, 2)).sum(0, keepdims=np.max(x)), bool(np.max(x)), np.arange(30)[x]),
}  # fmt: skip


def arrays(n):
    return np.int64(n), np.array(n), np.full((2, 2), n), np.arange(n, n + 2), np.array([n, 3]), np.array([[n], [n - 1]])


def of_an_integer(n, read):
    return [read(x) for x in arrays(n)]


def of_a_length(x, read):
    return [read(made) for made in arrays(x.shape[0])]


@pytest.mark.parametrize(("reader", "function", "backend"), pairs([*READERS], [of_an_integer, of_a_length], ["eager", "cpu"]))
def test_numbers_are_read(function, reader, backend):
    compiled = npc.compile(function, backend=backend)
    for n in (5, 6, 9, 7):
        given = n if function is of_an_integer else np.zeros(n)
        compare(compiled(given, READERS[reader]), function(given, READERS[reader]))


def wrapped(n):
    cube = np.full(2, n) * n * n
    return cube.tolist(), cube.tobytes(), np.full(9, n).cumprod().tolist(), np.array([n, 3 * n]).prod().item(), n * cube[0] // 7


def sums(n):
    return (np.array([n, n]) * n * n).sum().item(), np.arange(n, n + 40) * n, (-np.full(2, n) * n * 3).tolist()


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("function", [wrapped, sums])
def test_they_wrap_around_as_int64_does(function, backend):
    compiled = npc.compile(function, backend=backend)
    for n in (9, 2**30, 12, 2**30 + 5, 2**31 - 1, -(2**29), 2**21):
        compare(compiled(n), function(n))


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_number_of_elements_is_a_size(backend):
    def zeros(x):
        return np.zeros(int(np.prod(x.shape))), x.reshape(int(np.prod(x.shape[1:])), -1)

    compiled = npc.compile(zeros, backend=backend)
    for shape in [(2, 3, 4), (3, 4, 5), (4, 5, 6), (5, 6, 7)]:
        compare(compiled(np.ones(shape)), zeros(np.ones(shape)))
    known = compiled_function(compiled)
    assert known is not None and not known.breaks
