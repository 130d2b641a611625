"""Branches on data: nodes of the graph where both arms only compute and leave values alike, else the graph breaks."""

import warnings
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tensor_core.graph import Graph, subgraphs
from tests.tracer.harness import clone, run, same_outcome

UP, DOWN, ZERO = np.arange(1.0, 5.0), -np.arange(1.0, 5.0), np.zeros(4)
MIXED, LARGE = np.array([5.0, -9.0, 3.0, 0.5]), np.full(4, 30.0)
INPUTS = (UP, DOWN, ZERO, MIXED, LARGE, np.full(4, np.nan))


def returns(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def assigns(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y + x


def assigns_several(x):
    if x[0] > 2:
        a, b = x + 1, [x + 2, (x * 3, 7)]
    else:
        a, b = x * 1, [x - 2, (x / 3, 7)]
    return a, b, b[0] is a


def conditional_expression(x):
    return (x * 2 if x[0] > 0 else x - 1) + 1


def conditional_in_a_call(x):
    return np.add(x, x.sum() if x[0] > 0 else x.max(), out=None)


def nested_writes(x):
    a, b = x + 1, x * 2
    if 0 < x[0] < 3:
        c = a * 2
    else:
        c = b * 3
        b[2] = a.sum()
        if x[1] > 0:
            a += x
            b[1] = 7
    return a, b, c


def only_one_arm(x):
    y = x + 1
    if x.any():
        y = y * x.max()
    return y


def nested(x):
    if x.any():
        if x.all():
            y = x * 1
        else:
            y = x * 2
    elif x.size > 3:
        y = x * 3
    else:
        y = x * 4
    return y


def early_returns(x):
    if x[0] > 4:
        return x * 0
    if x[1] > 1:
        return x * 1
    y = np.sqrt(np.abs(x))
    if not y[2] > 1:
        return y
    return y / 2


def conjunction(x):
    if x[0] > 0 and x[1] > 0 or x[2] > 3:
        return x + 1
    return x * 3


def conjunction_as_a_value(x):
    flag = x.any() and x.all()
    return x * flag, flag


def negated(x):
    if not x.sum() > 0:
        return x * 2
    return x * 3


def chained(x):
    if 0 < x[0] < 3:
        return x * 2
    return x * 3


def in_a_loop(x):
    for k in range(4):
        if x.sum() > k:
            x = x * 2
        else:
            x = x - 1
    return x


def in_a_long_loop(x):
    y = x * 1
    for k in range(40):
        if y.sum() > k:
            y = y - 0.5
        else:
            y = y + k
    return y


def continues(x):
    y = x * 1
    for k in range(4):
        if x.sum() > k:
            continue
        y = y - k
    return y


def in_an_inlined_function(x):
    def g(y):
        if y.max() > 2:
            return y / 2
        return y * 1

    return g(x) + g(-x)


def writes_to_what_was_made(x):
    y = np.zeros(4)
    z = y[1:]
    if x[0] > 0:
        y[1] = x[1]
    else:
        z[0] = 7
        y += 1
    return y, z


def loop_in_an_arm(x):
    if x.sum() > 0:
        y = x
        for k in range(3):
            y = y + k
        y = sum([y, y, x])
    else:
        y = np.stack([x * k for k in range(2)]).sum(axis=0)
    return y


def by_a_number(x):
    n = x.sum()
    return x * (n if n else n + 1)


def size_one(x):
    if x[:1] > 0:
        return x * 2
    return x * 3


def sizes_and_numbers(x, n=3, h=0.5):
    if x.max() > h:
        k, y = len(x), x * n
    else:
        k, y = len(x), x * h
    return y, k


def errstate_inside(x):
    if x.sum() > 0:
        with np.errstate(all="ignore"):
            y = np.log(x) + 1
    else:
        y = x + 1
    return y


def views_of_what_is_outside(x):
    if x[0] > 0:
        y, z = x[1:], x + 1
    else:
        y, z = x[1:], x - 1
    return y * z[1:], y


def written_or_made_anew(x):
    y = x + 1
    if x.sum() > 0:
        y[0] = 50
    else:
        y = y * 2
    return y


def array_made_before(x):
    y = x + 1
    if x.sum() > 0:
        y = y * 2
    y += 3
    return y


def keeps_outside_containers(x):
    table = {"a": x + 1}
    if x[0] > 0:
        y = table["a"] * 2
    else:
        y = table["a"] * 3
    return y, table


def scalar_results(x):
    if x[0] > 0:
        n = x.max()
    else:
        n = x.min()
    return n


def two_names_of_one_array(x):
    if x[0] > 0:
        a = b = x + 1
    else:
        a = b = x * 2
    a[0] = 100
    return a, b


def in_a_try(x):
    try:
        if x[0] > 0:
            y = x * 2
        else:
            y = x * 3
    except ValueError:
        y = None
    return y


def argument_or_new(x):
    m = np.abs(x).max()
    if m > 0:
        x = x / m
    return x * 2


def argument_or_another(x):
    z = x[::-1] * 2
    y = x if x[0] > 0 else z
    return y + z


def one_view_or_another(x):
    y = x[:2] if x[0] > 0 else x[2:]
    return y[::-1] * y


def view_or_new(x):
    y = x[1:3] if x[0] > 0 else x[:2] * 3
    return np.concatenate([y, y[:1]])


def argument_or_new_again_and_again(x):
    for k in range(3):
        if x.sum() > k:
            x = x / 2
    return x - 1


def in_nested_arms(x):
    if x[0] > 0:
        y = x
        if x[1] > 1:
            y = x + 1
        y = y if x[2] > 2 else y * 2
    else:
        y = x
    return y.sum(), np.sort(y)


def of_a_caller(x):
    def g(z):
        if z.max() > 2:
            return z
        return z * 2

    return g(x) + g(x[::-1] * 1)


def in_a_list(x):
    kept = [x, x + 1] if x[0] > 0 else [x * 2, x]
    return kept[0] - kept[1]


def kept_elsewhere(x):
    y = old = x + 1
    if x.sum() > 0:
        y = y * 2
    return y * 3, old


def kept_by_a_caller(x):
    y = x + 1

    def g(z):
        if x.sum() > 0:
            z = z * 2
        return z.mean()

    return g(y), y


def written_before_the_branch(x):
    x[0] = 2
    y = x if x[1] > 0 else x * 2
    return y + x


def another_is_written(x):
    z = x * 1
    y = x if x[1] > 0 else x * 2
    z += y
    return z


def copied_and_written(x):
    y = x if x[0] > 0 else x * 2
    y = y.copy()
    y[0] = 7
    return y


CAPTURED = [
    argument_or_new, argument_or_another, one_view_or_another, view_or_new, argument_or_new_again_and_again, in_nested_arms,
    of_a_caller, in_a_list, kept_elsewhere, kept_by_a_caller, written_before_the_branch, another_is_written, copied_and_written,
    returns, assigns, assigns_several, conditional_expression, conditional_in_a_call, only_one_arm, nested, early_returns,
    conjunction, conjunction_as_a_value, negated, chained, in_a_loop, continues, in_an_inlined_function,
    writes_to_what_was_made, loop_in_an_arm, by_a_number, size_one, sizes_and_numbers, errstate_inside,
    views_of_what_is_outside, keeps_outside_containers, scalar_results, two_names_of_one_array, in_a_try,
    array_made_before, written_or_made_anew, nested_writes,
]  # fmt: skip

LOG: list[str] = []


def leaves_the_argument(x):
    m = np.abs(x).max()
    if m > 0:
        x = x / m
    return x


def leaves_views(x):
    y = x[::2] if x[0] > 0 else x[::-2]
    return y


def other_shape(x):
    return x if x[0] > 0 else x[:2] * 1


def other_dtype(x):
    y = x * 2 if x[0] > 0 else x.astype(np.float32)
    return y


def other_order(x):
    y = np.outer(x, x)
    return (y + 1 if x[0] > 0 else y.T + 1).strides


def other_kind(x):
    return x.max() if x[0] > 0 else np.asarray(x.max())


def python_numbers(x):
    sign = 1 if x.sum() > 0 else -1
    return x * sign


def numbers_and_scalars(x):
    return x.sum() if x[0] > 0 else 0.0


def prints(x):
    if x.sum() > 0:
        LOG.append("positive")
    return x + 1


def writes_to_the_argument(x):
    if x.sum() > 0:
        x[0] = 5
    return x * 2


def appends(x):
    found = []
    if x.sum() > 0:
        found.append(x * 2)
    return found


def sets_a_cell(x):
    y = x

    def g():
        nonlocal y
        y = x * 2

    if x.sum() > 0:
        g()
    return y


def takes_an_item(x):
    items = iter([x, x * 2, x * 3])
    if x.sum() > 0:
        next(items)
    return next(items) + 0


def raises(x):
    if x.sum() > 0:
        raise ValueError(f"positive at {len(x)}")
    return x * 2


def raises_for_data(x):
    if x.sum() > 0:
        return x[x.astype(np.int64) % 7]
    return x * 2


def unused_that_raises(x):
    if x.sum() > 0:
        np.linalg.inv(np.outer(x, x))
    return x * 2


def one_object_or_two(x):
    if x[0] > 0:
        a = b = x + 1
    else:
        a, b = x * 2, x * 2
    a[0] = 100
    return a, b


def array_made_before_used_elsewhere(x):
    y = old = x + 1
    if x.sum() > 0:
        y = y * 2
    y += 3
    return y, old


def array_made_before_in_a_container(x):
    y = x + 1
    kept = {"a": [y]}
    if x.sum() > 0:
        y = y * 2
    y += 3
    return y, kept


def array_made_before_of_a_caller(x):
    y = x + 1

    def g(z):
        if x.sum() > 0:
            z = z * 2
        z += 3
        return z

    return g(y), y


def view_of_what_was_made_before(x):
    y = x + 1
    z = y[1:]
    if x.sum() > 0:
        y = y * 2
    y += 3
    return y, z


def ends_a_loop(x):
    for _ in range(5):
        x = x * 2
        if x.sum() > 20:
            break
    return x


def while_data_says(x):
    while x.sum() > 1:
        x = x / 2
    return x


def unbound_after_one_arm(x):
    if x.sum() > 0:
        y = x * 2
    return y


def deletes(x):
    y = x * 2
    if x.sum() > 0:
        del y
    return y


def generates(x):
    def g():
        if x.sum() > 0:
            yield x * 2
        yield x * 3

    return list(g())


def draws(x):
    rng = np.random.default_rng(0)
    if x.sum() > 0:
        x = rng.normal(size=4)
    return x + rng.normal(size=4)


def makes_lists_before(x):
    old, new = [x], [x + 1]
    kept = old if x[0] > 0 else new
    kept.append(x * 2)
    return old, new, kept


def write_one_of_two(x):
    y = x if x[0] > 0 else x * 2
    y[1] = 7
    return y.sum()


def add_to_one_of_two(x):
    z = x * 1
    y = z if x[0] > 0 else x * 2
    y += 1
    return z


def out_is_one_of_two(x):
    y = x if x[0] > 0 else x * 2
    np.multiply(x, 3, out=y)
    return x + 1


def argument_is_written_later(x):
    y = x if x[0] > 0 else x * 2
    x[1] = 7
    return y + 1


def array_from_before_is_written_later(x):
    z = x * 1
    y = z[1:] if x[0] > 0 else x[1:] * 2
    z += 1
    return y * 2


def new_array_is_written_later(x):
    if x[0] > 0:
        a = x * 2
        b = a[1:]
    else:
        a = x * 3
        b = (x + 1)[1:]
    a[1] = 100
    return b * 1, a


def written_in_another_arm(x):
    y = x if x[0] > 0 else x * 2
    z = x[1:]
    if x[1] > 1:
        z[0] = 50
    return y * 1


def written_in_its_own_arm(x):
    z = x * 1
    if x[0] > 0:
        y = z if x[1] > 1 else x
        z += 1
        w = y * 2
    else:
        w = x
    return w + z


def asks_which_it_is(x):
    y = x if x[0] > 0 else x * 2
    return (y is x), y + 1


def asks_for_the_base(x):
    y = x[1:] if x[0] > 0 else x[1:] * 2
    return (y.base is None), y + 1


def asks_who_owns_it(x):
    y = x[1:] if x[0] > 0 else x[1:] * 2
    return y.flags.owndata, y + 1


def asks_what_is_shared(x):
    y = x if x[0] > 0 else x * 2
    return np.shares_memory(x, y), np.may_share_memory(x, y), y + 1


def returns_a_view(x):
    y = x if x[0] > 0 else x * 2
    return y[1:]


def returns_it_in_a_list(x):
    y = x if x[0] > 0 else x * 2
    return [{"y": y.T}], y + 1


def returns_a_function_of_it(x):
    y = x if x[0] > 0 else x * 2
    return (lambda: y)()


def returns_what_is_asarray(x):
    y = np.asarray(x if x[0] > 0 else x * 2)
    return np.ravel(y)


def breaks_with_it(x):
    y = x if x[0] > 0 else x * 2
    LOG.append("broken")
    return y * 2


def one_order_or_another(x):
    y = np.outer(x, np.arange(4.0))
    y = y if x[0] > 0 else y.T
    return (y + 1).strides, y * 2


NOT_CAPTURED = [
    write_one_of_two, add_to_one_of_two, out_is_one_of_two, argument_is_written_later, array_from_before_is_written_later,
    new_array_is_written_later, written_in_another_arm, written_in_its_own_arm, asks_which_it_is, asks_for_the_base,
    asks_who_owns_it, asks_what_is_shared, returns_a_view, returns_it_in_a_list, returns_a_function_of_it,
    returns_what_is_asarray, breaks_with_it, one_order_or_another,
    leaves_the_argument, leaves_views, other_shape, other_dtype, other_order, other_kind, python_numbers, numbers_and_scalars,
    prints, writes_to_the_argument, appends, sets_a_cell, takes_an_item, raises, raises_for_data, unused_that_raises,
    one_object_or_two, ends_a_loop, while_data_says, unbound_after_one_arm, deletes, generates, draws, makes_lists_before,
    in_a_long_loop, array_made_before_used_elsewhere, array_made_before_in_a_container, array_made_before_of_a_caller,
    view_of_what_was_made_before,
]  # fmt: skip


def conditions_in(graph: Graph) -> int:
    return sum((n.op == "cond") + sum(map(conditions_in, subgraphs(n).values())) for n in graph.nodes)


def outcomes_of(function: Any, given: np.ndarray) -> Any:
    LOG.clear()
    return run(function, getattr(function, "__npcompile_original__", function), clone([given])), list(LOG)


RUNS = [(f, "eager") for f in (*CAPTURED, *NOT_CAPTURED)] + [(f, "cpu") for f in CAPTURED]


@pytest.mark.parametrize(("function", "backend"), RUNS, ids=lambda p: getattr(p, "__name__", p))
def test_every_arm(function: Any, backend: str) -> None:
    compiled = npc.compile(function, backend=backend)
    others = [UP[::-1], np.arange(1.0, 9.0)[::2], UP.astype(np.float32)]  # a unit each: one of them for each function
    if backend == "cpu":
        others = [others[CAPTURED.index(function) % len(others)]]
    for given in (*INPUTS, *INPUTS, *others):
        theirs, their_log = outcomes_of(function, given)
        ours, our_log = outcomes_of(compiled, given)
        same_outcome(ours, theirs, 0 if backend == "eager" else 64)
        assert our_log == their_log


@pytest.mark.parametrize("function", CAPTURED, ids=lambda f: f.__name__)
def test_captured(function: Any) -> None:
    compiled = npc.compile(function, backend="eager", fullgraph=True)
    compiled(UP)
    ((graph, _),) = compiled_function(compiled).graphs
    assert conditions_in(graph)
    for given in INPUTS:
        compiled(given)
    assert len(compiled_function(compiled).graphs) == 1


WHY = {
    leaves_the_argument: "data decides whether an array is from before the branch, which shows later",
    python_numbers: "leave different values",
    other_shape: "different dtype, shape or memory order",
    other_dtype: "different dtype, shape or memory order",
    prints: "is changed|is not captured",
    unbound_after_one_arm: "'y' has a value after one arm only",
    unused_that_raises: "inv may raise in an arm",
}


@pytest.mark.parametrize("function", WHY, ids=lambda f: f.__name__)
def test_the_break_says_why(function: Any) -> None:
    message = rf"a branch on array data \(test_branches.py:\d+\). It is no node of the graph: .*({WHY[function]}).*np\.where"
    with pytest.raises(npc.GraphBreakError, match=message):
        npc.compile(function, backend="eager", fullgraph=True)(UP)


def test_many_branches() -> None:
    lines = [f"    if x[{k % 4}] > {k + 3}: return x * {k}{'.5' * (k < 70)}, {k % 70}" for k in range(140)]
    space: dict[str, Any] = {}
    exec("\n".join(["def f(x):", *lines, "    return x, -1"]), space)
    compiled = npc.compile(space["f"], backend="eager")
    for given in (UP, UP * 2, UP * 30, LARGE):
        for ours, theirs in zip(compiled(given), space["f"](given)):
            np.testing.assert_array_equal(ours, theirs)


def logarithm_or_not(x):
    if x.min() > 0:
        return np.log(x)
    return np.sqrt(x)


def test_only_the_arm_taken_warns() -> None:
    compiled = npc.compile(logarithm_or_not)
    for given in (UP, DOWN, ZERO, MIXED):
        found = []
        for f in (logarithm_or_not, compiled):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                f(given)
            found.append([(str(w.message), w.lineno) for w in caught])
        assert found[0] == found[1]
    assert conditions_in(compiled_function(compiled).graphs[0][0]) == 1


def warns_of_an_unused_number(x, p):
    if x[0] > 0:
        u = x[1]
    else:
        u = x[1] / p  # noqa: F841
    return x[2]


def warns_of_an_unused_array(x, p):
    if x[0] > 0:
        u = x
    else:
        u = x / p  # noqa: F841
    return x[2]


def warns_of_an_unused_integer(x, p):
    if x[0] > 0:
        u = x[1]
    else:
        u = x[1] - np.uint8(200)  # noqa: F841
    return x[2]


@pytest.mark.parametrize("dtype", ["f8", "u1"])
@pytest.mark.parametrize("function", [warns_of_an_unused_number, warns_of_an_unused_array, warns_of_an_unused_integer])
def test_arms_warn_of_what_nothing_uses(function: Any, dtype: str) -> None:
    compiled = npc.compile(function)
    for given in (np.zeros(9, dtype), np.ones(9, dtype), np.zeros(5, dtype)):
        found = []
        for f in (function, compiled):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                f(given, np.float64(0))
            found.append([(str(w.message), w.lineno) for w in caught])
        assert found[0] == found[1]


def test_sizes_are_symbols_in_arms_too() -> None:
    compiled = npc.compile(assigns)
    for n in (4, 5, 9, 100, 1000):
        for sign in (1, -1):
            x = sign * np.arange(1.0, n)
            np.testing.assert_array_equal(compiled(x), assigns(x))
    assert len(compiled_function(compiled).graphs) == 2


def test_gradients_go_through_the_arm_taken() -> None:
    def f(x):
        if (x * x).sum() > 10:
            y = x * x
        else:
            y = np.sin(x) * 3
        return y.sum()

    for given, expected in ((UP, 2 * UP), (UP / 9, 3 * np.cos(UP / 9))):
        np.testing.assert_allclose(npc.grad(f)(given), expected)
        x = npc.tensor(given, requires_grad=True)
        npc.compile(npc.wrap_numpy(f), fullgraph=True)(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), expected)


TRANSFORMED = [returns, argument_or_new, argument_or_another, one_view_or_another, view_or_new, of_a_caller, copied_and_written]


@pytest.mark.parametrize("function", TRANSFORMED, ids=lambda f: f.__name__)
def test_gradients_of_either_array(function: Any) -> None:
    def energy(x):
        return (function(x) ** 2).sum()

    gradient = npc.compile(npc.grad(energy), fullgraph=True)
    for given in (UP, -UP, MIXED + 0.25, UP[::-1].copy()):
        steps = 1e-6 * np.eye(4)
        slopes = [(energy(given + h) - energy(given - h)) / 2e-6 for h in steps]
        np.testing.assert_allclose(gradient(given), slopes, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(npc.grad(energy)(given), slopes, rtol=1e-6, atol=1e-6)
        x = npc.tensor(given, requires_grad=True)
        npc.compile(npc.wrap_numpy(energy))(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("function", TRANSFORMED, ids=lambda f: f.__name__)
def test_every_example_takes_its_arm(function: Any) -> None:
    rows = np.stack([UP, DOWN, MIXED, LARGE])
    expected = np.stack([function(row.copy()) for row in rows])
    np.testing.assert_allclose(npc.vmap(function)(rows), expected)
    np.testing.assert_allclose(npc.compile(npc.vmap(function))(rows), expected)
