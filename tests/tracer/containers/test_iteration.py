"""Iterators compute their items when they are asked for them, and containers are seen as they are then."""

import numpy as np

import npcompile as npc
from tests.tracer.harness import check


@check(graphs=1, breaks=0)
def test_generator_sees_what_was_added(x):
    items = [x]
    doubled = (i * 2 for i in items)
    items.append(x + 1)
    return list(doubled)


@check(graphs=1, breaks=0)
def test_generator_sees_a_changed_variable(x):
    scale = 2
    scaled = (i * scale for i in [x])
    scale = 3
    return list(scaled)


@check(graphs=1, breaks=0)
def test_effects_of_a_generator_and_of_the_loop_take_turns(x):
    log = []
    for _ in (log.append(i) or i for i in range(3)):
        log.append("body")
    return log, x * 2


@check(graphs=1, breaks=0)
def test_effects_of_a_mapped_function_and_of_the_loop_take_turns(x):
    log = []
    for _ in map(log.append, range(3)):
        log.append("body")
    return log, x * 2


@check(graphs=1, breaks=0)
def test_map_sees_what_was_added(x):
    items = [x]
    negatives = map(np.negative, items)
    items.append(x + 1)
    return list(negatives)


@check(breaks=0)
def test_an_iterator_that_has_ended_stays_ended(x):
    items = [x]
    it = iter(items)
    first = list(it)
    items.append(x * 2)
    return first, list(it)


@check(graphs=1, breaks=0)
def test_views_of_a_dict_see_it_as_it_is(x):
    table = {"a": x}
    keys, values, items = table.keys(), table.values(), table.items()
    table["b"] = x * 2
    table["a"] = x + 1
    return list(keys), list(values), list(items), len(keys), "b" in keys, type(keys) is type({}.keys())


@check(graphs=1, breaks=0)
def test_values_change_while_a_dict_is_iterated_over(x):
    table = {"a": x, "b": x}
    for key, value in table.items():
        table["b"] = value * 2
    return table, key


@check()
def test_a_dict_that_grows_while_it_is_iterated_over(x):
    table = {"a": x * 2}
    for key in table:
        table[key + "b"] = 1
    return table


@check()
def test_a_break_in_a_loop_over_a_generator(x):
    total = np.zeros(3)
    for row in (r * 2 for r in x):
        total += row
        print(end="")
    return total


@check()
def test_a_generator_that_goes_on_after_a_break(x):
    rows = (r * 2 for r in x)
    first = next(rows)
    print(end="")
    return first, list(rows)


def rows_of(x, scale):
    for row in x:
        yield row * scale
    return 3


@check(graphs=1, breaks=0)
def test_generator_function(x):
    return [row + 1 for row in rows_of(x, 2)], sum(rows_of(x, 3.0)), next(rows_of(x, 1))


class Rows:
    """Says that it is asked for an iterator."""

    def __init__(self, x, said):
        self.x, self.said = x, said

    def __iter__(self):
        self.said.append("asked")
        return iter([self.x, self.x + 1])


@check()
def test_a_generator_expression_asks_for_its_iterator_where_it_is_made(x):
    said = []
    doubled = (row * 2 for row in Rows(x, said))
    said.append("made")
    return [*doubled], said


@check()
def test_a_generator_expression_asks_once(x):
    said = []
    doubled = (row * 2 for row in Rows(x, said))
    first = next(doubled)
    npc.graph_break()
    return first, [*doubled], said


@check(lambda round: np.ones(3) if round == 1 else np.float32(2), rounds=3)
def test_a_generator_expression_over_what_is_not_iterable(x):
    doubled = (v * 2 for v in x)
    return sum(doubled)


@check(lambda round: np.ones(3) if round == 1 else np.float32(2), rounds=3)
def test_a_handler_sees_that_it_is_not_iterable(x):
    try:
        doubled = (v * 2 for v in x)
    except TypeError as error:
        return str(error), x + 1
    return sum(doubled)


@check(graphs=1, breaks=0)
def test_generators_of_generators(x):
    doubled = (row * 2 for row in rows_of(x, 3))
    return list(zip(doubled, (k for k in range(2))))


@check(graphs=0, breaks=0)
def test_items_are_found_by_identity_first(x):
    nan = float("nan")
    return nan in [nan], [nan] == [nan], [x] == [x], x in [x, 1], (x, 1).index(x), nan == nan


@check()
def test_containers_and_functions_that_hold_themselves(x):
    items = [x * 2]
    items.append(items)

    def repeat(n):
        return x if n == 0 else repeat(n - 1) * 2

    print(end="")
    return items[1] is items, repeat(3), len(items)


@check()
def test_a_long_loop_over_a_generator(x):
    for k in (i * 2 for i in range(40)):
        x = x * 0.5 + k
    return x


@check()
def test_a_break_where_a_comprehension_has_a_cell_of_its_own(x):
    i = 5
    outer = lambda: i  # noqa: E731
    late = [(print(end=""), lambda: x * i)[1] for i in range(3)]
    early = [(lambda i=i: x + i) for i in range(3) if print(end="") is None]
    return outer(), i, [f() for f in late], [f() for f in early]


def doubled_and_counted(x):
    try:
        yield x * 2
        yield x * 3
    finally:
        x += 100


@check(graphs=1, breaks=0)
def test_generator_is_closed_when_a_loop_over_it_ends_early(x):
    for y in doubled_and_counted(x):
        break
    return y, x * 2


@check(graphs=1, breaks=0)
def test_generator_is_not_closed_while_something_refers_to_it(x):
    kept = doubled_and_counted(x)
    for y in kept:
        break
    z = x * 2
    return y, z, [*kept], x * 2


COEFFICIENTS = tuple((-1.0) ** k / (k + 1) for k in range(50))


@check(graphs=1, breaks=0)
def test_a_long_loop_of_elementwise_operations_is_one_graph(x):
    result, filtered = np.zeros_like(x), np.zeros(x.shape[-1])
    for c in COEFFICIENTS:
        result = result * x + c
    for k, c in enumerate(COEFFICIENTS):
        filtered = filtered + c * x[k % 2]
    for row, c in zip(list(x) * 6, COEFFICIENTS):
        if c > -0.1:
            result = np.where(result > c, result - row, result)
    return result, filtered, k


@check(graphs=1, breaks=0)
def test_loops_in_loops_of_a_few_elementwise_operations_are_one_graph(x):
    result, n = np.zeros((x.shape[0] - 1, 4)), x.shape[0] - 1
    for i in range(2):
        for j in range(9):
            result += (i + 0.5 * j) * x[i : i + n, j % 3 : j % 3 + 1]
    for i in range(5):
        for j in range(4):
            result = result * x[:n, :1] - j
    return result, i, j


@check()
def test_loops_in_loops_of_other_operations_are_not_unrolled(x):
    for i in range(6):
        for j in range(6):
            x = x + x.mean(axis=0) * (i - j)
    for i in range(9):
        for j in range(9):
            x = x * 0.5 + i * x[:1] - j
    return x, i, j


@check()
def test_other_long_loops_are_not_unrolled(x):
    sums, total = [], 0.0
    for c in COEFFICIENTS:
        x = x * c + x.mean()
        sums.append(x.sum())
    for k in range(40):
        total += x[0, k % 2]
    return x, sums, total
