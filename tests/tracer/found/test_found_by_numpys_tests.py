"""The smallest programs of NumPy's own tests (tests/numpy_compiled) that once were not NumPy's."""

import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.backends import HOST_BACKENDS
from tests.tracer.harness import check

VECTOR = np.array([1.0, 0.5, -2.0])
MASK = np.array([True, False, True])


@check(VECTOR, MASK)
def test_nans_of_two_signs_are_two_constants(x, e):
    a, b = x.copy(), x.copy()
    a[e], b[e] = np.nan, -np.nan
    return np.signbit(a), np.signbit(b), np.signbit(np.full(2, -np.nan))


@check(VECTOR, np.zeros(3))
def test_a_result_that_nobody_reads_raises(x, y):
    with np.errstate(all="raise"):
        try:
            x / y
        except FloatingPointError as error:
            return str(error)


@check(VECTOR, np.zeros(3))
def test_errors_ignored_at_first(x, y):
    with np.errstate(all="ignore"):
        x / y
    with np.errstate(all="raise"):
        try:
            return x / y
        except FloatingPointError as error:
            return str(error)


@check(np.float16(60000))
def test_a_warning_counted_where_nobody_reads_the_result(x):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        np.multiply(x, x)
        return len(said)


@check(np.ones((2, 3)), VECTOR)
def test_the_iterator_of_a_broadcast(x, y):
    b = np.broadcast(x, y)
    return type(b) is np.broadcast, isinstance(b, np.broadcast), b.shape, b.numiter, len(b.iters), [p * q for p, q in b]


@check(np.ones((1,) * 33))
def test_no_array_has_more_dimensions_than_numpy_allows(x):
    try:
        return np.add.outer(x, x)
    except ValueError as error:
        return str(error)


@check()
def test_dots_are_an_output_by_keyword_alone():
    said = []
    for call in (lambda: np.add.reduce(1, (), None, ...), lambda: np.add.reduce(1, (), out=(...,)), lambda: np.add(1, 2, ...)):
        try:
            said.append(call())
        except TypeError as error:
            said.append(str(error))
    return said


def test_the_warning_of_a_write_to_an_array_that_overlaps_itself():
    def program(x, y):
        x += y

    compiled = npc.compile(program, backend="eager")
    for _ in range(2):
        messages = []
        for function in (compiled, program):
            x = np.broadcast_arrays(np.arange(2), np.ones((2, 2)))[0]
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                function(x, 1)
            messages.append([str(w.message) for w in said])
        assert messages[0] == messages[1] and len(messages[1]) == 1


def test_a_loop_that_cuts_off_the_end_of_what_it_has_cut():
    """The size of `x` is not an expression that doubles with each step."""

    def program(x):
        while x.size > 3:
            mid = x.size // 2
            x[mid], x[-2] = x[-2], x[mid]
            x = x[:-2]
        return x

    compiled = npc.compile(program, backend="eager")
    for size in (100, 101, 1000):
        ours, theirs = np.arange(size), np.arange(size)
        np.testing.assert_array_equal(compiled(ours), program(theirs))
        np.testing.assert_array_equal(ours, theirs)
    assert max(len(str(graph)) for graph, _ in compiled_function(compiled).graphs) < 20_000


def test_long_lists_from_outside_are_no_nodes_and_guards():
    def program(pairs):
        return np.array(pairs, dtype=float).T

    compiled = npc.compile(program, backend="eager")
    pairs = [(i, 0.5) for i in range(3000)]
    np.testing.assert_array_equal(compiled(pairs), program(pairs))
    assert not compiled_function(compiled).graphs


@check(10**6000)
def test_an_integer_with_more_digits_than_python_writes(n):
    return n > 3, (n + 1) % 10


def test_a_negative_size_cast_to_unsigned_is_large():
    """The size is symbolic from the second value on, and its array is asked."""

    def program(value):
        x = np.array(value).astype(np.uint64)[()]
        return 1 if x < 0 else 2

    compiled = npc.compile(program, backend="eager", dynamic=True)
    for value in (5, -5, 7, -7):
        assert compiled(value) == program(value)


def of_metadata(name):
    dtype = np.dtype(name, metadata={1: 1})
    found = dtype.metadata
    return found == {1: 1}, {1: 1} != found, found == {}, found == [1], np.float64(1) == [1, 2]


def test_what_is_no_dict_is_equal_to_one():
    compiled = npc.compile(of_metadata, backend="eager")
    assert repr(compiled("i4")) == repr(of_metadata("i4"))


ZEROS = {"negative": -np.zeros((2, 3)), "mixed": np.array([[0.0, -0.0, -0.0]] * 2), "cancel": np.array([[1.0, -1.0, -0.0]] * 2)}
ZEROS |= {"none": np.zeros((0, 3)), "one masked": np.array([[-0.0, 5.0, 0.0]])}


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("dtype", "edD")
def test_sign_of_zero_of_a_sum_from_a_start_value(dtype, backend):
    def sums(x, start):
        constants = np.sum(x, initial=-0.0), np.sum(x, axis=0, initial=0.0)
        return *constants, np.sum(x, initial=start, axis=1), np.add.reduce(x, initial=start, where=x < 1)

    compiled = npc.compile(sums, backend=backend, fullgraph=True)
    for x in ZEROS.values():
        x = x.astype(dtype)
        for start in (-0.0, 0.0, x.dtype.type(-0.0), x.dtype.type(3)):
            assert repr(compiled(x, start)) == repr(sums(x, start))
