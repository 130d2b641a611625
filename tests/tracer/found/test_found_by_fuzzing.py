"""The smallest programs of random ones (tests/fuzz) that once were not NumPy's."""

import math
import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.backends import HOST_BACKENDS
from tests.tracer.harness import check

VECTOR = np.array([1.0, 0.5, -2.0])


@npc.disable
def opaque(x):
    """A break: what comes back is an array from outside, which may overlap others."""
    return x


@check(VECTOR)
def test_iterated_array_is_read_when_asked(x):
    seen = []
    for k, v in enumerate(x):
        x -= v
        seen.append((k, v))
    return seen


@check(VECTOR)
def test_iterated_array_is_written_through_a_mask(x):
    for v, w in zip(x, x):
        x[x < 1] = 1
    return v, w


@check(VECTOR, np.ones((3, 3)), lambda round: 2.0 + round)
def test_array_is_set_in_part_and_then_as_a_whole(x, y, t):
    x[-2:] = t
    y += x
    x[:] = t
    y += x


@check(np.zeros((2, 3)), lambda round: np.int64(3 * round))
def test_index_that_raises_has_no_user(x, i):
    y = x == 1
    y[i] = True


@check(np.zeros((2, 3)), lambda round: np.int64(3 * round))
def test_index_that_raises_after_a_write(x, i):
    x[0] = 7
    y = x[..., None, i]
    x[1] = 8
    return y.shape


@check(np.zeros((1, 1, 3)), lambda round: np.int64(round))
def test_index_that_raises_where_nothing_is_written(x, i):
    y = x == 1
    y[i, None, 0:-2] = True
    return y


@check()
def test_cell_is_written_after_its_value_was_kept(x):
    kept = (x, x)
    x = opaque(x)[:2]

    def read():
        return x

    return kept[0].T, read()


@check()
def test_cells_change_places(x, y):
    opaque(x)
    x, y = y, x

    def read():
        return x, y

    return read()


@check()
def test_written_array_overlaps_one_that_is_passed_on(x):
    y = opaque(x[...])
    x *= x[0]

    def write(v):
        v[...] = 1
        return x

    return write(y), y


@check(VECTOR)
def test_in_place_operator_with_overlapping_operand(x):
    y = opaque(x[::-1])
    x += y
    y -= x[0]
    return x


@check(VECTOR)
def test_out_overlaps_operand(x):
    y = opaque(x[1:])
    z = opaque(x[:-1])
    np.add(y, z, out=z)
    z += y
    return x


@check(np.zeros((0, 0)))
def test_extreme_of_no_elements_into_no_elements(x):
    return x.max(axis=-1)


@check(np.zeros((0, 0)))
def test_position_of_the_extreme_of_no_elements(x):
    return x.argmax(axis=0)


@check(np.zeros((0, 4, 2)).transpose(0, 2, 1))
def test_memory_order_of_a_sum_of_nothing(x):
    return np.sum(np.asfortranarray(np.ones((3, 4, 2)))[:0], axis=0), x.sum(axis=0)


@check(np.asfortranarray(np.ones((2, 2))), np.ones((3, 1, 6)))
def test_axes_of_size_one_do_not_order_memory(x, y):
    return np.add.outer(x, y)


@check()
def test_reversed_list_that_shrinks(x):
    items, seen = [x, x + 1, 2], []
    for item in reversed(items):
        seen.append(item)
        del items[0]
    return items, seen


@check()
def test_reversed_list_across_a_break(x):
    items, seen = [x, x + 1, 2], []
    for item in reversed(items):
        seen.append(item)
        opaque(item)
        items[0] = 5
    return items, seen


@check(np.asfortranarray([[0, 1, 2], [2, 0, 1]]))
def test_last_write_to_a_place_is_the_last_in_c_order(x):
    i = x.copy()
    y = np.zeros(3)
    y[i] = np.arange(6).reshape(2, 3)
    return y


@check(np.zeros(3, np.int8), lambda round: np.int64(100 + 100 * round))
def test_scalar_that_does_not_fit_its_element(x, v):
    x[1] = v
    return x


@check(np.zeros(3, np.int8), lambda round: np.int64(100 + 100 * round))
def test_scalars_that_do_not_fit_a_new_array(x, v):
    return np.array([v, v], dtype=np.int8)


@check(lambda round: np.arange(3.0 + 3 * round))
def test_sizes_found_equal_are_written_differently(x):
    y = opaque(x + 1)
    if y.size > 3:
        np.cumsum(x, axis=0, out=y)
    return y


@check(np.zeros((0, 2)))
def test_strides_of_an_empty_array(x):
    return (x * 2).strides, x[None].strides


@check(np.arange(3) + 1j)
def test_complex_number_has_no_floor(x):
    v = x.sum().item()
    return v // 2


@check(lambda round: 2.5 * (round + 1))
def test_errors_of_python_numbers(x):
    seen = []
    for operation in (lambda: (x + 1j) // 2, lambda: (x + 1j) < 2, lambda: [1, 2] * x, lambda: [1, x][::0], lambda: x[0]):
        try:
            seen.append(operation())
        except (TypeError, ValueError) as error:
            seen.append(str(error))
    return seen


@check(np.ones((1, 1)), np.ones((1, 1)))
def test_mask_takes_one_axis_of_values(x, y):
    x[x == 1] = y
    return x


@check(np.ones((12, 2))[::2, ::2])
def test_strided_argument_is_written_from_what_it_held(x):
    x -= x.diagonal()
    x += x[::-1]
    return x.sum()


@check(np.arange(3), lambda round: 2 ** (10 + 20 * round))
def test_python_integers_do_not_wrap(x, n):
    return x * (n * n * n)


@check(np.arange(3.0), lambda round: 2**31 - 1 - round)
def test_python_integers_beyond_int64_become_floats(x, n):
    return x * (n**3), n * n * 2 + n * n * 3


@check(VECTOR, lambda round: round)
def test_a_dict_that_a_call_makes_is_new_each_time(x, k):
    seen = dict.fromkeys(())
    opaque(seen)[k] = x.size
    return len(seen)


@check()
def test_views_and_what_only_may_be_one(x):
    return x.view() is x, x.view().base is x, x.view(x.dtype) is x, x.squeeze() is x, x.view()


@check()
def test_generator_reads_when_it_is_asked(x):
    seen = []
    for first in (row[0] + 1 for row in [x, x]):
        x -= 1
        seen.append(first)
    return seen


@check()
def test_recursive_closure_across_a_break(x):
    def doubled(y, n):
        return y if n == 0 else doubled(y * 2, n - 1)

    opaque(x)
    return doubled(x, 3), doubled.__closure__[0].cell_contents is doubled


@check()
def test_recursive_closure_is_in_its_own_cell(x):
    def doubled(y, n):
        return y if n == 0 else doubled(y * 2, n - 1)

    kept = [doubled]
    return doubled(x, 3), opaque(kept)[0].__closure__[0].cell_contents is kept[0]


@check()
def test_long_loop_hands_over_what_it_made(x):
    seen = []
    for k in range(20):
        y = np.roll((x / x).prod(axis=0, keepdims=True), 1)
        seen.append((k, y))
    return seen


@check(np.arange(6.0).reshape(3, 2))
def test_long_loop_in_a_function_with_cells(x):
    for k in range(20):
        x -= 1
        if not x.any():
            return x

    def write(y):
        y.flat[0] = k

    write(x)
    return x


@check()
def test_object_that_is_its_own_iterator(x):
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if not self.n:
                raise StopIteration
            self.n -= 1
            return self.n * x

    return list(Countdown(3))


def test_defaults_of_a_compiled_function_are_its_own():
    def scaled(x, k=2, *, b=0):
        return x * k + b

    compiled = npc.compile(scaled, backend="eager")
    caller = npc.compile(lambda x: compiled(x), backend="eager")
    for defaults, named in (((2,), {"b": 0}), ((3,), {"b": 0}), ((3,), {"b": 1.5})):
        compiled.__defaults__, compiled.__kwdefaults__ = defaults, named
        expected = VECTOR * defaults[0] + named["b"]
        np.testing.assert_array_equal(compiled(VECTOR), expected)
        np.testing.assert_array_equal(caller(VECTOR), expected)


@check([3.0, 4.0], np.array([1.0, 2.0]))
def test_list_and_array_in_place_make_an_array(x, y):
    kept, z, w = x, [1, 2], [1, 2]
    x += y
    z += y
    w *= y
    kept += [5.0]
    return x, kept, z, w


@check(np.array([True, False, True]))
def test_booleans_of_numpy_are_two_objects(x):
    seen = []
    for first, second in zip(x, np.atleast_1d(x)):
        seen.append((first is second, first is x[0], (first is np.True_), x.any() is np.True_, x.any().item() is True))
    return seen


@check()
def test_exhausted_iterator_is_still_one_of_a_list(x):
    items = iter([x, 1])
    for _ in items:
        pass
    return type(opaque(items)).__name__


@check()
def test_any_and_all_ask_no_further_than_they_need(x):
    seen = []

    def items():
        for k in range(4):
            seen.append(k)
            yield k

    asked = items()
    return any(k == 1 for k in asked), seen[:], all(k != 2 for k in asked), seen, list(asked)


@check(lambda round: np.zeros((3, 2 * round)))
def test_nothing_is_drawn_to_shuffle_nothing(x):
    generator = opaque(np.random.default_rng(1))
    generator.shuffle(x)
    return generator.integers(1000)


@check(np.arange(3.0))
def test_any_of_array_data_asks_no_further_than_it_needs(x):
    seen = []

    def items():
        for k in range(3):
            seen.append(k)
            yield x[k] > 0
            x[k] = 7

    rest = iter([x[0], x[1], x[2]])
    return any(items()), seen, x.copy(), any(rest), list(rest)


@check()
def test_tuple_refuses_the_item_that_it_has(x):
    n = int(x.sum())
    kept = (n, x)
    try:
        kept[0] = n
    except TypeError as error:
        return str(error)


@check(np.arange(2.0))
def test_tuples_of_other_lengths_ask_their_items_first(x):
    try:
        return (x, x * 2, x) == (1, 2)
    except ValueError as error:
        return str(error), [x, x] == [x], (1, x) == (2,), (x,) == (x, x)


@check(np.zeros(3), np.array([[0, 1], [1, 2]])[::-1], np.array([3.0, 4.0]))
def test_last_write_to_a_place_with_reversed_positions(x, i, v):
    x[i] = v
    return x


def overlapping(shape=(3, 2)):
    x = np.arange(6.0).reshape(shape)
    return x, x[::-1]


def test_second_array_that_is_written_overlaps_one_that_is_read():
    def program(x, y, z):
        kept = x.shape, y.shape  # looked at in the order in which they are written: the same list, of which more is written
        x[...] = z[0]
        y += 1
        return z * 2, kept

    compiled = npc.compile(program, backend="eager")
    for _ in range(2):
        results = [f(np.zeros(2), *overlapping()) for f in (program, compiled)]
        np.testing.assert_array_equal(results[1][0], results[0][0])


def test_a_shuffle_of_nothing_draws_nothing():
    def program(x, rng):
        x = x * 2
        rng.shuffle(x)
        return [*x, rng.random()]

    compiled = npc.compile(program, backend="eager")
    for length in (0, 4, 0):
        ours, theirs = (f(np.arange(float(length)), np.random.default_rng(1)) for f in (compiled, program))
        assert ours == theirs


@check(np.arange(6.0).reshape(2, 3), lambda round: np.uint64(round and 2**64 - 1))
def test_an_unsigned_position_that_int64_does_not_hold(x, k):
    x[-1, k] = 7
    return x[0, k]


@check(np.zeros((1, 4)), np.zeros((2, 4)))
def test_a_sequence_of_more_dimensions_than_it_is_assigned_to(x, y):
    y[:] = [x]
    try:
        x[0] = [x]
    except ValueError as error:
        return str(error)


@check(np.linspace(0.1, 300, 31).astype(np.longdouble), ulp=1)
def test_angles_of_extended_precision(x):
    return np.rad2deg(x), np.deg2rad(x), np.degrees(x), np.radians(x)


@check(np.arange(3), lambda round: 23 + round, 2**70, 2**62)
def test_integers_beyond_64_bits_on_the_way_to_small_ones(x, n, p, q):
    return x[0] == p % n, x[:1] + p // n // q, x - min(n, p), max(n, -p) * x, x[: p // n], x[n - min(n, p) :], (p % n + 3) // 2


def with_warnings(function, *arguments):
    with np.errstate(all="warn"), warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        return function(*arguments), [(w.category, str(w.message)) for w in met]


def test_division_by_a_comparison_reports():
    def program(x, s):
        return 2**40 / (s <= x[1]), x[1] / (x[1] != True)  # noqa: E712

    compiled = npc.compile(program)
    for s in (0.5, 3.0, 0.5):
        arguments = np.array([0, 1, 2], np.uint8), np.float64(s)
        assert with_warnings(compiled, *arguments) == with_warnings(program, *arguments)


def test_inverted_booleans_warn():
    def program(x, n):
        return ~(n > 3) + x[0], ~(2 in (1, n))

    def of_an_argument(x, flag):
        return x[0] + ~flag

    for function, second in ((program, 4), (of_an_argument, True)):
        compiled = npc.compile(function)
        for _ in range(2):
            assert with_warnings(compiled, np.arange(3.0), second) == with_warnings(function, np.arange(3.0), second)


def stored(x, y):
    y[0] = float(x[1])


def stored_in_a_slice(x, y):
    y[:2] = math.sqrt(x[1]) - 10


def stored_at_places(x, y):
    y[[0, 1]] = float(x[1])


def stored_in_order(x, y):
    y.flat[0] = float(x[1])


def stored_with_others(x, y):
    y[:2] = [float(x[1]), 2]


def stored_where(x, y):
    y[y > 3] = float(x[1])


def put_there(x, y):
    np.put(y, [0], float(x[1]))


def filled(x, y):
    y.fill(float(x[1]))


STORES = [stored, stored_in_a_slice, stored_at_places, stored_in_order, stored_with_others, stored_where, put_there, filled]


@pytest.mark.parametrize("store", STORES, ids=lambda f: f.__name__)
def test_python_floats_stored_as_integers_raise_and_change_nothing(store):
    compiled = npc.compile(store)
    for dtype in (np.uint8, np.uint64, np.int64):
        for value in (5.5, -7.3, 1e300, np.nan):
            x, y, expected = np.array([1.0, value]), np.arange(5).astype(dtype), np.arange(5).astype(dtype)
            with np.errstate(all="ignore"):
                ours, theirs = (attempt(f, x, z) for f, z in ((compiled, y), (store, expected)))
            assert ours == theirs and np.array_equal(y, expected), (dtype, value)


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except (ValueError, OverflowError) as error:
        return type(error), str(error)


def divided(x, i, flag):
    x[0], x[1] = True // i, flag % i
    return x, min(flag, 18) // -i, i // True, divmod(flag, i)


@pytest.mark.filterwarnings("error")  # a compiler that failed
@pytest.mark.parametrize("flag", [True, False])
def test_booleans_are_divided_by_an_integer_that_changes(flag):
    compiled = npc.compile(divided)
    for i in (3, 7, 2, -4, 1):
        ours, theirs = compiled(np.arange(5.0), i, flag), divided(np.arange(5.0), i, flag)
        assert repr(ours) == repr(theirs)


@pytest.mark.filterwarnings("error")
def test_division_of_booleans_by_zero_raises():
    compiled = npc.compile(divided)
    compiled(np.arange(5.0), 3, True)
    with pytest.raises(ZeroDivisionError):
        compiled(np.arange(5.0), 0, True)


@check(np.arange(80.0).reshape(40, 2))
def test_a_list_in_a_variable_behind_a_loop(x):
    for k, row in enumerate(x):
        last = row[:]
    found = [[last, k], x]
    return found


@check(np.arange(80.0).reshape(40, 2))
def test_a_slice_in_a_variable_behind_a_loop(x):
    total = 0.0
    for row in x:
        total += row[1]
    some = slice(1, None, 3)
    return x[some], some, [total]


def largest_of_ones(x):
    v = x * 2
    v[:1] = x[x == 1].max()
    return v


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("shape", [(0, 5), (2, 5)])
def test_the_largest_of_nothing_is_an_error_on_the_users_line(backend, shape):
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum") as caught:
        npc.compile(largest_of_ones, backend=backend)(np.zeros(shape))
    assert [entry.name for entry in caught.traceback][1] == "largest_of_ones"


def test_a_reversed_part_of_what_a_mask_takes():
    def program(x, mask):
        return x[mask][..., -2:0:-2]

    compiled = npc.compile(program, backend="eager")
    with npc.config.patch(internal_errors="raise"):
        for x in (np.array([5], np.uint8), np.arange(6.0), np.arange(13)):
            for mask in (np.zeros(x.size, bool), np.arange(x.size) % 3 != 0):
                np.testing.assert_array_equal(compiled(x, mask), program(x, mask))


def turned(z):
    found = np.zeros(z.T.shape)
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            found[j, i] = z[i, j]

    def last():
        return found, j

    return last()


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_a_loop_variable_of_a_closure_that_has_no_value_yet(backend):
    compiled = npc.compile(turned, backend=backend)
    for shape in ((4, 4), (4, 4), (5, 3)):
        ours, theirs = compiled(np.ones(shape)), turned(np.ones(shape))
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1] == theirs[1]
    assert max(len(point.variants) for point in compiled_function(compiled).points.values()) < 8
