"""Programs that cannot be one graph: each break costs only itself, and the answer is still NumPy's.

PYTEST_DONT_REWRITE: an assertion in a user function must raise what it raises elsewhere.
"""

import sys

import numpy as np
import pytest
import scipy.fft

import npcompile as npc
from npcompile.compiler import all_compiled, compiled_function
from tests.backends import BACKENDS
from tests.tracer.harness import check

printed = []


def record(*values):
    printed.append(values)


record = npc.disable(record)


def bar(a, b):
    x = a / (np.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b, b  # data decides whether this is the argument


def test_data_dependent_branch():
    """Three graphs over two calls with both signs: the one before the branch is reused."""
    a, b = np.linspace(-1, 1, 10), np.ones(10)
    compiled = npc.compile(bar)
    for sign in (1, -1, 1, -1):
        for ours, theirs in zip(compiled(a, sign * b), bar(a, sign * b)):
            np.testing.assert_array_equal(ours, theirs)
    known = compiled_function(compiled)
    assert len(known.graphs) == 3 and len(known.breaks) == 1


def test_fullgraph_explains_itself():
    with pytest.raises(npc.GraphBreakError, match=r"branch on array data.*test_breaks.py:\d+.*np\.where"):
        npc.compile(bar, fullgraph=True)(np.ones(3), np.ones(3))


@check(np.linspace(0, 1, 16), graphs=2, breaks=1)
def test_scipy_dct(x):
    x = x * 2
    x = scipy.fft.dct(x)
    return x * 2


@check(graphs=2, breaks=1)
def test_print_like_call(x):
    y = x * 2
    record(y.shape)
    return y + 1


@check(graphs=2, breaks=1)
def test_value_of_an_array(x):
    total = round(float(x.sum()), 3)
    return x * total


@check(graphs=2, breaks=1)
def test_break_in_the_middle_of_an_expression(x):
    return (x + 1) * round(float(x.sum()), 3) + np.maximum(x, 2)


@check(graphs=2, breaks=1)
def test_graph_break(x):
    y = x + 1
    npc.graph_break()
    return y * 2


def solve(x, limit):
    for i in range(limit):
        previous = x
        x = 0.5 * (x + 2 / x)
        if np.abs(x - previous).max() < 1e-12:
            break
    return x, i


@pytest.mark.parametrize("backend", BACKENDS)
def test_break_in_a_long_loop(backend):
    """The body is compiled once, however many iterations run."""
    compiled = npc.compile(solve, backend=backend)
    for start in (np.full(5, 1.5), np.full(5, 1e8)):
        got, want = compiled(start, 100), solve(start, 100)
        np.testing.assert_array_equal(got[0], want[0])
        assert got[1] == want[1] and type(got[1]) is int
    graphs = len(compiled_function(compiled).graphs)
    compiled(np.full(5, 1e20), 100)
    assert len(compiled_function(compiled).graphs) == graphs <= 3


def count_down(x, n):
    for i in range(n):
        x = x - 1
        if x.sum() < -1e30:
            break
    return x, i


def test_many_iterations_keep_the_stack_flat():
    compiled = npc.compile(count_down)
    depth = sys.getrecursionlimit()
    got = compiled(np.zeros(2), 100_000)
    np.testing.assert_array_equal(got[0], np.full(2, -100_000.0))
    assert got[1] == 99_999 and depth < 100_000


@check(graphs=2)
def test_try_around_uncapturable_code(x):
    y = x * 2
    try:
        n = int("not a number")
    except ValueError:
        n = 3
    finally:
        record("done")
    return y * n


class Suppress:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return kind is not None and issubclass(kind, ZeroDivisionError)


@check(graphs=2)
def test_with_around_uncapturable_code(x):
    y = x * 2
    with Suppress():
        record(1)
        record(1 // 0)
    return y + 1


@check(graphs=2)
def test_exception_inside_what_breaks(x):
    y = x * 2
    with Suppress():
        record(y.shape, 1 // 0)
        y = y * 100
    return y + len(str(record))


@check(breaks=1)
def test_break_in_an_inlined_function(x):
    def inner(a):
        record(a.shape)
        return a + 1

    return inner(x * 2) * 3


def helper(a):
    b = a * 3
    record(b.shape)
    return b + 1


@check()
def test_callee_is_compiled_on_its_own(x):
    return helper(x * 2) - 1


@check()
def test_break_with_shared_cell(x):
    total = 0

    def add(a):
        nonlocal total
        total = total + a

    add(x)
    record(total.shape)
    add(x)
    return total


@check()
def test_breaks_in_nested_loops(x):
    out = []
    for i in range(3):
        for row in x:
            out.append(float(row.sum()) * i)
        record(i)
    return out, x * len(out)


@check()
def test_while_on_data(x):
    n = 0
    while x.sum() < 1000:
        x = x * 2
        n += 1
    return x, n


@pytest.mark.parametrize("breaks", [False, True])
def test_a_tuple_under_two_names_is_one(breaks):
    @npc.compile
    def f(x):
        pair = other = (x + 1, x * 2)
        if breaks:
            print(end="")
        return pair, [other], (pair, 1)

    for _ in range(3):
        pair, (other,), (third, _) = f(np.arange(3.0))
        assert pair is other is third


@check()
def test_local_list_keeps_identity_across_a_break(x):
    a = [x]
    b = a
    record("here")
    b.append(x + 1)
    return a, a is b, len(a)


@check()
def test_half_used_iterator_across_a_break(x):
    it = iter([x, x + 1, x + 2])
    first = next(it)
    record("here")
    return first, [v * 2 for v in it]


@check()
def test_unbound_local_across_a_break(x):
    if x.shape[0] > 100:
        y = 1
    record("here")
    if x.shape[0] > 100:
        return x + y
    return x + 1


@check()
def test_index_error_from_the_users_line(x):
    y = x + 1
    z = y[x.shape[0] + 5]
    return z


@check()
def test_shape_error_from_the_users_line(x):
    y = x * 2
    return y + np.ones(7)


@check()
def test_writes_before_an_error_stay(x):
    x[0] = 1
    x += np.ones(7)
    return x


def read_only(_):
    x = np.ones((3, 3))
    x.flags.writeable = False
    return x


@check(lambda r: read_only(r))
def test_read_only_argument(x):
    x[0] = 1
    return x


@check(lambda r: np.arange(5))
def test_casting_error(x):
    x += 0.5
    return x


@check()
def test_raise(x):
    if x.shape[0] == 4:
        raise ValueError(f"bad shape {x.shape}")
    return x


@check()
def test_assert_on_data(x):
    assert (x > 100).all(), "too small"
    return x


@check(lambda _: np.array(["a", "b"]), lambda _: np.array([object()]), lambda _: np.array(["2020-01-01"], dtype="M8[D]"))
def test_other_dtypes_run_natively(s, o, d):
    return s == "a", o.shape, d + 1, np.char.upper(s)


@check(lambda _: np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0]), lambda _: np.arange(6.0).reshape(2, 3).view(np.matrix))
def test_subclasses_run_natively(m, a):
    return m.sum(), float((m * 2).mean()), type(a * 2) is np.matrix


@check()
def test_outside_list_is_changed(x):
    out = OUTSIDE
    out.append(x.shape)
    y = x * len(out)
    out.clear()
    return y


OUTSIDE: list = []


@pytest.mark.parametrize("backend", BACKENDS)
def test_overlapping_arguments(backend):
    def shift(a, b):
        a[1:] = b[:-1] * 2
        return a + b

    compiled = npc.compile(shift, backend=backend)
    for make in (lambda: (np.arange(6.0), np.arange(6.0)), lambda: (m := np.arange(8.0))[1:7] is not None and (m[2:8], m[0:6])):
        for same in (False, True):
            ours, theirs = make(), make()
            if same:
                ours, theirs = (ours[0],) * 2, (theirs[0],) * 2
            np.testing.assert_array_equal(compiled(*ours), shift(*theirs))
            np.testing.assert_array_equal(ours, theirs)


@npc.compile(backend="eager")
def compiled_and_broken(x):
    y = np.sin(x)
    record(y.shape)
    return y + 1


def test_compiled_function_that_breaks_in_a_compiled_caller():
    """It is called as it is: its entry is not compiled once more."""

    def caller(x):
        y = x + 1
        return compiled_and_broken(y) * 2

    for _ in range(3):
        compiled = npc.compile(caller, backend="eager")
        for _ in range(2):
            np.testing.assert_array_equal(compiled(np.ones(3)), caller(np.ones(3)))
    assert [len(point.variants) for point in compiled_function(compiled_and_broken).points.values()] == [1, 1]


def counts_down(x, n):
    record(n)
    return x if n == 0 else counts_down(x + 1, n - 1)


def test_recursion_is_compiled_once():
    """A function that calls itself by its global name, natively: one compiled function stands for all levels."""
    before = [*all_compiled()]  # held, so that none of their ids is given to another
    compiled = npc.compile(counts_down, backend="eager")
    np.testing.assert_array_equal(compiled(np.zeros(2), 12), np.full(2, 12.0))
    made = [known for known in all_compiled() if known.user is counts_down and not any(known is other for other in before)]
    assert len(made) == 2  # the one that was asked for, and the one that it calls
    npc.run_only(compiled)
