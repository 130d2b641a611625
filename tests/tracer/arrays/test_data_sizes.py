"""Results of as many elements as data decides stay in the graph; few elements, and questions about the size, run natively."""

import numpy as np
import pytest

import npcompile as npc
from npcompile.settings import config
from tests.tracer.harness import check


@pytest.fixture(autouse=True)
def graphs_alone():
    """Functions of small arrays that are one native program are in tests/native_loops/functions/test_whole_functions.py."""
    with config.patch(native_loops=False):
        yield


def vector(round):
    return np.random.default_rng([7, round]).uniform(-2, 2, 12 + round)


def many(round):
    """More than a function without loops takes as one native program."""
    return np.random.default_rng([7, round]).uniform(-2, 2, 5000 + round)


def integers(round):
    return np.random.default_rng([8, round]).integers(0, 5, 9)


def few(round):
    """None, one and many elements above 1, in turn."""
    return np.array([[0.0, 0.5, 1.0], [0.0, 2.0, 1.0], [2.0, 3.0, 4.0]][round % 3])


@check(many, graphs=2, breaks=0)
def test_places(x):
    i = np.nonzero(x > 0)[0]
    return (x * 2).sum() + i.sum(), i, x[i] * 2


@check(graphs=1, breaks=0)
def test_places_in_a_matrix(x):
    rows, columns = np.nonzero(x > 1)
    return rows, columns, x[rows, columns] + rows, np.argwhere(x > 1), np.flatnonzero(x > 1)


@check(graphs=1, breaks=0)
def test_mask(x, y):
    return x[x > 1], (x[y > 1] * y[y > 1]).sum(), x[x > 1][::-1]


@check(lambda round: np.asfortranarray(np.arange(12.0).reshape(3, 4)), graphs=1, breaks=0)
def test_mask_of_columns_in_memory(x):
    return x[x > 2], np.nonzero(x > 2), x.T[x.T > 5]


@check(lambda round: np.array([True, False, True, True]), graphs=1, breaks=0)
def test_mask_of_one_axis(m, x):
    return x[m], x[m, 1], x.T[:, m], x[m][:, ::-1]


@check(vector, graphs=2, breaks=0)
def test_assigned_where_taken(x):
    m = x > 0
    y = x * 3
    y[m] = x[m] ** 2
    y[m] += 1
    return y


@check(vector, graphs=2, breaks=0)
def test_argument_changed_then_taken(x):
    x[x > 1] = 0
    return x[x == 0], x


@check(vector, graphs=2, breaks=0)
def test_sizes_of_other_arrays(x):
    i = np.flatnonzero(x > 0)
    n = len(i)
    return np.arange(n) * 2, n, i.shape, np.zeros(n), [n, i.size + 1], np.ones((n, 2)) * i[:, None]


@check(vector)
def test_slice_up_to_the_size(x):
    i = np.flatnonzero(x > 0)
    return x[: len(i) // 2], i[: len(i) // 2], i[1:-1]


@check(vector, graphs=2, breaks=0)
def test_means_and_order(x):
    chosen = x[x > 0]
    return chosen.mean(), chosen.std(), np.sort(chosen)[::-1] / chosen.sum(), np.concatenate((chosen, x)), chosen.argmax()


@check(few, rounds=6)
def test_no_element_or_one(x):
    chosen = x[x > 1]
    return chosen, chosen.sum(), len(chosen), np.flatnonzero(x > 1) * 2


@check(few, rounds=6)
def test_nothing_to_reduce_raises(x):
    return x[x > 1].max()


@check(many, graphs=4, breaks=2)
def test_branch_on_the_size(x):
    i = np.flatnonzero(x > 0)
    if len(i) > 2:
        return i * 2
    return i


@check(vector)
def test_number_made_of_the_size(x):
    i = np.flatnonzero(x > 0)
    return len(i) / 2 * x, x * len(i), f"{len(i)} places"


@check(vector)
def test_loop_over_places(x):
    total = 0
    for i in np.nonzero(x > 0)[0]:
        total = total + x[i]
    return total, [x[i] for i in np.flatnonzero(x < 0)]


@check(vector)
def test_as_many_as_elsewhere(x):
    return x[x > 0] + np.ones(np.count_nonzero(x > 0)), x[x > 0] + x[~(x <= 0)]


@check(vector)
def test_other_sizes_do_not_meet(x):
    return x[x > 0] + x


@check(lambda round: np.zeros(3, bool), graphs=0)
def test_mask_of_another_size(m, x):
    return x[m]


@check(integers, graphs=1, breaks=0)
def test_different_elements(k):
    values, index, inverse, counts = np.unique(k, return_index=True, return_inverse=True, return_counts=True)
    return values, index, inverse, counts, np.unique(k) * 2, values[inverse] - k


@check(lambda round: np.array([[1.0, np.nan], [np.nan, 1.0], [3.0, 2.0]]), graphs=1, breaks=0)
def test_different_elements_of_a_matrix(x):
    return np.unique(x), np.unique(x, equal_nan=False), np.unique(x, return_inverse=True)


@check(vector, integers, graphs=2, breaks=0)
def test_repeated_as_data_says(x, k):
    return np.repeat(x[:9], k), np.repeat(k, k) + 1


@check(vector, lambda round: -integers(round))
def test_negative_repeats_raise(x, k):
    return np.repeat(x[:9], k)


@check(integers, graphs=1, breaks=0)
def test_compressed(k, x):
    return np.compress(k > 1, k), np.extract(x > 1, x), np.where(k > 1), k.compress(k > 2)


@check(vector)
def test_written_through_places(x):
    i = np.flatnonzero(x > 0)
    x[i] = -1
    x[i] *= 2
    return x, i


@check(vector, rounds=3)
def test_list_of_results(x):
    kept = []
    for threshold in (-1, 0, 1):
        kept.append(x[x > threshold].sum())
    return kept


def squares_above_zero(x):
    return (x[x > 0] ** 2).sum()


def test_derivatives_are_of_the_function_run_eagerly():
    x = np.array([-1.0, 2.0, 3.0])
    np.testing.assert_array_equal(npc.grad(squares_above_zero)(x), [0.0, 4.0, 6.0])
    np.testing.assert_array_equal(npc.vmap(squares_above_zero)(np.stack([x, x + 2])), [13.0, 42.0])


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_tensor_read_after_a_mask(backend):
    """The mask's size was one that data decides: captured again without, as gradients go through the program."""

    @npc.compile(backend=backend)
    def f(x, t):
        return t * x[x > 0].sum()

    t = npc.tensor(2.0, requires_grad=True)
    f(np.array([-1.0, 2.0, 3.0]), t).backward()
    assert float(t.grad) == 5.0


def test_size_is_a_node_of_one_graph():
    told = npc.explain(lambda x: np.flatnonzero(x > 0) * 2)(np.arange(5000.0))
    (graph,) = told.graphs
    assert [name for name, _ in graph.measured] == ["measured_0"] and not told.breaks
    assert graph.outputs[0].meta.shape[0].symbols() and "argwhere" in str(graph)


@check(vector, 2.0, graphs=2, breaks=0)
def test_parameter_named_as_a_size(measured_0, unused_0):
    return measured_0[measured_0 > 0] * unused_0, len(measured_0[measured_0 > 0])


@check(vector)
def test_draws_of_as_many_numbers(x):
    i = np.flatnonzero(x > 0)
    generator = np.random.default_rng(0)
    return generator.random(len(i)), generator.normal(0, len(i), i.shape), generator.choice(len(i)), x * generator.random()


@check(vector, graphs=2, breaks=0)
def test_logarithms_where_they_are(x):
    out = np.zeros(len(x))
    m = x > 0
    out[m] = np.log(x[m])
    return out


@check(vector, graphs=2, breaks=0)
def test_two_parts(x):
    a, b = x[x > 0], x[x <= 0]
    return np.concatenate([a, b]), np.outer(a, b), a[:, None] - b, a @ a, np.sort(a)[-1], np.argsort(a)[::-1]


@check(vector, graphs=2, breaks=0)
def test_sums_by_group(x):
    groups, of = np.unique(np.round(x), return_inverse=True)
    total = np.zeros(len(groups))
    np.add.at(total, of, x)
    return np.bincount(of, weights=x), groups, total


@check(integers, graphs=1, breaks=0)
def test_counts_are_new_arrays(k):
    counts = np.bincount(k)
    weighed = np.bincount(k, weights=k + 0.5, minlength=7)
    return counts, counts, counts[::-1], counts.base is None, weighed, weighed.strides, np.bincount(k) * 2


@check(vector, graphs=2, breaks=0)
def test_rows_of_a_table(x):
    table = np.stack([x, x * 2], 1)
    kept = table[table[:, 0] > 0]
    return kept.mean(axis=0), kept.T @ kept, kept - kept.mean(0), np.linalg.norm(kept, axis=1), kept.shape, kept.T.copy()


@check(vector, graphs=2, breaks=0)
def test_results_are_arrays_of_their_own(x):
    y, z = x[x > 0], x[x > 0]
    y += 1
    y[0], y[1:] = 5, y[1:] * 2
    return y, z, y.strides, y.nbytes, y.base is None, np.full(len(y), len(z)), np.array([len(y), 1])


@check(vector)
def test_numbers_and_containers_of_sizes(x):
    n = len(x[x > 0])
    kept = [n, n + 1]
    kept[0] += n
    return kept, {n: 1}, range(n), divmod(n, 3), n == 7, max(n, 3), [0] * n, f"{n}", float(n), x[:n], list(range(n))


PADDED = [[0, 0, 1, 2, 0, 3, 0], [0, 0, 0], [1, 2, 3], [0, 5, 0], [0, 0, 1, 2, 0, 3], [1.5, 0, 0, 2, 0, 0, 0], []]


def padded(round):
    return np.array(PADDED[round % len(PADDED)], float)


@check(padded, rounds=7, breaks=0)
def test_trim_zeros(x):
    return np.trim_zeros(x), np.trim_zeros(x, "f"), np.trim_zeros(x, "B"), np.trim_zeros(x[::-1] * 2).sum()


@check(padded, rounds=7, breaks=0)
def test_trim_zeros_is_a_view(x):
    y = np.trim_zeros(x)
    y[0] = 9
    y *= 2
    return y, x


@check(lambda round: np.repeat(padded(round), 2)[::2], rounds=7, breaks=0)
def test_trim_zeros_of_a_view(x):
    y = np.trim_zeros(x)
    return y - y.sum(), y[::-1], np.convolve(y + x.sum(), [1, 2])


@check(padded)
def test_trim_zeros_of_others(x):
    return np.trim_zeros([0, 1, 0]), np.trim_zeros(x[None]), np.trim_zeros(x, "x")


@pytest.mark.parametrize("dtype", [float, complex, "f4", "i4", "u1", "f2"])
@pytest.mark.parametrize("length", [1, 2, 3, 6, 7])
def test_polydiv(length, dtype):
    """Of a divisor of this length; what few remainders are is NumPy's too: longer ones, and those of exact quotients."""

    def f(u, v):
        q, r = np.polydiv(u, v)
        r[0] = 3
        return q, r, q.sum(), r.base is None

    def g(u, v):
        return np.polydiv(u, v), np.polydiv(np.polymul(u, v), v)

    def u(round):
        return (np.random.default_rng(round).normal(size=6) * 9).astype(dtype)

    def v(round):
        return (np.random.default_rng(9 + round).normal(size=length) * 9 + 20).astype(dtype)

    for each in (f, g):
        check(u, v, breaks=0 if each is f and 1 < length < 7 else None)(each)("cpu" if dtype is float else "eager")


@check(graphs=0)
def test_what_ufuncs_know():
    return np.add.types, np.add.ntypes, np.add.resolve_dtypes((np.dtype("f4"), int, None))


# What comes before and after a result whose dtype data decides stays in graphs: the call costs itself.
DECIDED: dict = {
    "eigvals": (lambda x: np.linalg.eigvals(x), "real or complex"),
    "eig": (lambda x: np.linalg.eig(x)[0], "real or complex"),
    "real_if_close": (lambda x: np.real_if_close(x * (1 + 1e-20j)), "real or complex"),
    "roots": (lambda x: np.roots(x[0]), ""),
}


@pytest.mark.parametrize("name", DECIDED)
def test_a_dtype_that_data_decides_costs_only_itself(name):
    call, reason = DECIDED[name]

    def f(x):
        before = x * 2 + 1
        found = call(before)
        return np.abs(found).sum() * before.sum(), before

    square = np.array([[2.0, 1.0, 0.5], [0.3, 3.0, 0.1], [-1.0, 0.2, -1.0]])
    check(square, ulp=512)(f)("cpu")
    told = npc.explain(npc.compile(f))(square)
    assert len(told.graphs) == 2 and len(told.breaks) == 1 and reason in told.breaks[0].reason, told.breaks
