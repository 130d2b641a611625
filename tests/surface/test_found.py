"""The smallest programs with NumPy's functions that were not NumPy's, once compiled."""

import numpy as np
import pytest

import npcompile as npc
from tests.backends import HOST_BACKENDS
from tests.tracer.harness import check

MATRIX = np.array([[3.0, 7.0, 6.0], [4.0, 4.0, 2.0], [1.0, 0.0, -5.0]])
MASK = np.array([[False, True, True], [True, True, True], [False, False, True]])


@check(MATRIX)
def test_arrays_joined_in_memory_that_they_lie_in(x):
    np.concatenate([x[1:], x[:1]], out=x)
    return np.stack([x[1], x[0], x[2]], out=x)


@check(MATRIX, MASK)
def test_values_placed_among_which_they_lie(x, m):
    np.place(x, m, x[0])


@check(np.array(2.0))
def test_polynomials_of_one_number_are_refused(x):
    return np.poly(x)


@check(MATRIX, 3)
def test_a_text_among_numbers(x, p):
    return np.result_type(x, p, str)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("dtype", [None, "d", "g"])
def test_warnings_of_reduceat_on_integers(dtype, backend):
    def program(x):
        return np.divide.reduceat(x, [1, 0], dtype=dtype)

    with pytest.warns(RuntimeWarning, match="divide by zero encountered in reduceat"):
        npc.compile(program, backend=backend)(np.array([True, True, False]))


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_warnings_of_products(dtype, backend):
    large = np.full((3, 4), np.finfo(dtype).max, dtype)
    with pytest.warns(RuntimeWarning, match="overflow encountered in matmul"):
        npc.compile(lambda x, y: x @ y.T, backend=backend)(large, large)


# Divisions of the elements alone that are chosen would note nothing: processors with masks have these.
CHOICES = {
    "numbers": lambda x, y: np.where(y == 0, 0, x / y),
    "either": lambda x, y: np.where(y == 0, x / y, x * y),
    "in another": lambda x, y: np.where(y == 0, 0, np.where(y == 1, 1, x / y)),
    "float32": lambda x, y: np.where(y > 0, x.astype("f") / y.astype("f"), 0),
    "complex": lambda x, y: np.where(y == 0, 0, (x + 0j) / y),
    "sum": lambda x, y: np.where(y == 0, 0, x / y).sum(),
    "columns": lambda x, y: np.where((y == 0)[:, None], 0, x / y[:, None]).sum(axis=0),
    "copied": lambda x, y: np.copyto(x, x / y, where=y != 0),
}


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("size", [3, 4, 100])
@pytest.mark.parametrize("name", CHOICES)
def test_warnings_of_what_is_not_chosen(name, size, backend):
    x, y = np.ones(size), np.arange(size) % 3.0
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
        npc.compile(CHOICES[name], backend=backend)(x, y)


# NumPy computes all elements, and casts numbers, whether or not they are read afterwards.
UNREAD = {
    "some rows": lambda x, y: (x / y)[[1, 2]],
    "a sum of some": lambda x, y: (x / y)[1:].sum(),
    "a mask": lambda x, y: (x / y)[y > 0],
    "every other": lambda x, y: (x / y)[1::2] * 2,
    "none": lambda x, y: np.concatenate([(x / y)[:0], x]),
    "beside none": lambda x, y: np.zeros((0, len(x))) + x / y,
    "written over": lambda x, y: (np.copyto(x[:2], 1 / y[0]), np.copyto(x[:2], 2), x),
    "written nowhere": lambda x, y: np.copyto(x[1:1], 1 / y[0]),
    "not chosen": lambda x, y: np.sum(x / y, where=False),
    "number for none": lambda x, y: np.ones(0, "f") * float(1e300 * x[0]),
    "cast": lambda x, y: x.astype("f").fill(1e300 * x[0]),
    "cast for none": lambda x, y: x.astype("f")[:0].fill(1e300 * x[0]),
    "cast for no index": lambda x, y: np.put(x.astype("f"), [], 1e300 * x[0]),
    "cast of a constant": lambda x, y: np.array(1e300, "f"),
    "constant among others": lambda x, y: np.insert(x.astype("f"), 0, 1e300),
}


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("name", UNREAD)
def test_warnings_of_what_is_not_read(name, backend):
    compiled = npc.compile(UNREAD[name], backend=backend)
    for size in (4, 6, 9):  # the last two are not fixed
        x, y = np.ones(size), np.arange(float(size))
        with pytest.warns(RuntimeWarning) as theirs:
            UNREAD[name](x.copy(), y)
        with pytest.warns(RuntimeWarning) as ours:
            compiled(x.copy(), y)
        assert [str(w.message) for w in ours] == [str(w.message) for w in theirs]


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_warnings_that_are_ignored_outside(backend):
    def program(x, y):
        with np.errstate(all="warn"):
            return x / y

    compiled = npc.compile(program, backend=backend)
    for outside in ({}, {"all": "ignore"}, {"divide": "ignore"}):
        with np.errstate(**outside):
            with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
                compiled(np.ones(3), np.zeros(3))
            with pytest.warns(RuntimeWarning, match="underflow encountered in divide"):  # ignored unless asked for
                compiled(np.full(3, 1e-300), np.full(3, 1e300))


def test_real_tensors_have_no_imaginary_part_to_set():
    messages = []
    for x in (np.ones(2), npc.tensor(np.ones(2))):
        with pytest.raises(TypeError, match="imaginary part") as raised:
            x.imag = 1
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


# GCC takes the float of an integer of a float for the float without its fraction: -0.0, and 1e200 as it is.
INTEGERS = {
    "int64": lambda x, o: x.astype(int) * 1.0,
    "int32": lambda x, o: x.astype("i4") + np.copysign(0.0, x),
    "uint64": lambda x, o: np.sqrt(x.astype("u8")),
    "divided": lambda x, o: 1 / (x.astype(int) * 1.0),
    "stored": lambda x, o: np.copyto(o, x.astype(int)),
    "float32": lambda x, o: x.astype("f").astype("i4").astype("f"),
}


def int_in_a_loop(x, o):
    for i in range(len(x)):
        o[i] = int(x[i])
    return o


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_floats_as_floats_again(name, backend):
    small, large = np.resize([-0.5, 0.5, -1.5, -0.0], 20), np.resize([1e200, np.nan, -np.inf, -0.5], 20)
    compiled = npc.compile(INTEGERS[name], backend=backend)
    with np.errstate(all="ignore"):
        for x in (small, large):
            theirs, ours = np.zeros(20), np.zeros(20)
            expected, found = INTEGERS[name](x, theirs), compiled(x, ours)
            given = (theirs, ours) if expected is None else (expected, found)
            np.testing.assert_array_equal(*given)
            np.testing.assert_array_equal(*map(np.signbit, given))


def int64_in_a_loop(x, o):
    for i in range(len(x)):
        o[i] = np.int64(x[i])
    return o


def int32_in_a_loop(x, o):
    for i in range(len(x)):
        o[i] = np.int32(x[i])
    return o


def negated_int_in_a_loop(x, o):
    for i in range(len(x)):
        o[i] = -float(int(x[i] * 0.5))
    return o


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("program", [int_in_a_loop, int64_in_a_loop, int32_in_a_loop, negated_int_in_a_loop])
def test_int_of_floats_in_a_loop(program, dtype, backend):
    """No integer is -0.0."""
    x = np.resize(np.array([-0.5, 0.5, -1.5, -0.0], dtype), 100)
    expected, found = program(x, np.empty(100)), npc.compile(program, backend=backend)(x, np.empty(100))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
