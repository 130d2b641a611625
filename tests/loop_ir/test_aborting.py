"""npc.fori_loop, while_loop and scan under npc.compile run as programs that abort: what they give, what they leave to Python."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import fori_loop, scan, while_loop
from npcompile.compiler import compiled_function
from npcompile.tracer.loop_ir import aborting
from npcompile.tracer.stopwatch import aborts
from tests.loop_ir.agreement import Arguments, happened
from tests.loop_ir.programs import numbers, with_
from tests.tracer.bytecode import test_control_flow

RATE = 0.25


@dataclass
class State:
    position: Any
    speed: Any


@pytest.fixture(autouse=True)
def compiled_always() -> Iterator[None]:
    with npc.config.patch(tiers="always"):
        yield


def stepped(p, pair):
    a, b = pair
    return a + RATE * a * (p[0] - p[1] * b), b + RATE * b * (p[2] * a - p[3])


def smoothed(x):
    return fori_loop(0, x.size, lambda i, s: 0.9 * s + 0.1 * x[i], 0.0)


def of_a_tuple(p, n):
    a, b = npc.fori_loop(0, n, lambda i, c: stepped(p, c), (1.0, 0.5))
    return a, b


def of_data(x):
    return npc.while_loop(lambda c: c[1] < 30.0, lambda c: (c[0] + 1, c[1] + abs(x[c[0] % 3]) + 0.1), (0, x[0]))


def sums(x):
    return scan(lambda s, v: (s + v, s * v), 0.0, x)


def backwards(x, y):
    return scan(lambda s, pair: (s + pair[0] * pair[1], (s, pair[0])), 0.0, (x, y), reverse=True)


def rows(x, reverse):
    step = lambda c, v: (c * 0.5 + v, (c * v, v > c, [c[0]]))  # noqa: E731
    last, (products, greater, first) = scan(step, x[0], x, reverse=True) if reverse else scan(step, x[0], x)
    return last, products, greater, first[0]


def ragged(x):
    return scan(lambda k, v: (k + 1, x[k:]), 0, x)[1]


def rod(u, n):
    def conducted(i, u):
        return np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])

    return fori_loop(0, n, conducted, u)


def between_arrays(x, y):
    z = np.sqrt(x) + y
    s = fori_loop(0, z.size, lambda i, s: s * 0.5 + z[i], 0.0)
    return (z - s) * y, s


def nested(x):
    return fori_loop(0, 5, lambda i, c: c + np.sin(c) * fori_loop(0, i, lambda j, d: d * x[j] + x[i], x[0]), 0.5)


def beside_a_loop(x):
    s = 0.0
    for k in range(3):
        s = fori_loop(k, x.size, lambda i, c: c + x[i] * k, s)
    return s


def of_trees(tree, state, n):
    gains = tree["gains"]

    def step(i, c):
        return c[0] + gains[0] * c[1], c[1] - tree["rate"] * c[0]

    return while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, *step(c[0], c[1:])), (0, state.position, state.speed))


def that_writes(x, out):
    def step(i, s):
        out[i] = s
        return s + x[i]

    return fori_loop(0, x.size, step, 0.0), out


def of_powers(x):
    return fori_loop(0, x.size, lambda i, s: s**2 * 0.3 + x[i] ** 2 + x[i] ** 1.3, 0.7)


def of_integers(n):
    return fori_loop(0, n, lambda i, c: c * 3 + i, 1)


def of_python_numbers(x):
    return fori_loop(0, 3, lambda i, c: c + x[0], 0), fori_loop(3, 1, lambda i, c: c + 1, 7), x


SQUARE = np.asfortranarray(np.arange(12.0).reshape(3, 4))
Program = tuple[Callable[..., Any], Callable[[], Arguments]]
PROGRAMS: dict[str, Program] = {
    "a number": (smoothed, lambda: (numbers(50),)),
    "no iteration": (smoothed, lambda: (numbers(0),)),
    "strides": (smoothed, lambda: (numbers(50)[::-2],)),
    "float32": (smoothed, lambda: (numbers(50).astype(np.float32),)),
    "a tuple": (of_a_tuple, lambda: (numbers(4), 30)),
    "a tuple of Python's numbers": (of_a_tuple, lambda: (numbers(4), 0)),
    "a bound of NumPy's": (of_a_tuple, lambda: (numbers(4), np.int64(6))),
    "as data decide": (of_data, lambda: (numbers(5),)),
    "a scan": (sums, lambda: (numbers(40),)),
    "a scan of nothing": (sums, lambda: (numbers(0),)),
    "a scan backwards": (backwards, lambda: (numbers(30), numbers(30, seed=1))),
    "a scan of arrays": (rows, lambda: (numbers(4, 3), False)),
    "a scan of arrays, backwards": (rows, lambda: (numbers(4, 3), True)),
    "a scan of arrays that differ": (ragged, lambda: (numbers(4),)),
    "an array": (rod, lambda: (numbers(30), 7)),
    "an array, no iteration": (rod, lambda: (numbers(30), 0)),
    "between arrays": (between_arrays, lambda: (numbers(30), numbers(30, seed=1))),
    "inside each other": (nested, lambda: (numbers(5),)),
    "beside a loop of Python's": (beside_a_loop, lambda: (numbers(9),)),
    "trees": (of_trees, lambda: ({"gains": [0.1, 0.2], "rate": 0.3}, State(1.0, np.float64(0.5)), 9)),
    "a write": (that_writes, lambda: (numbers(9), np.zeros(9))),
    "an index out of bounds": (that_writes, lambda: (numbers(9), np.zeros(4))),
    "a read-only array": (that_writes, lambda: (numbers(4), np.broadcast_to(0.0, 4))),
    "powers": (of_powers, lambda: (numbers(300) * 0.3,)),
    "integers": (of_integers, lambda: (20,)),
    "integers of more than 64 bits": (of_integers, lambda: (60,)),
    "Python's numbers": (of_python_numbers, lambda: (numbers(3),)),
    "infinite": (smoothed, lambda: (with_(with_(numbers(50), 20, np.inf), 21, -np.inf),)),
    "an overflow": (sums, lambda: (numbers(40) * 1e200,)),
}


def programs(compiled: Any) -> int:
    """How many of its programs abort."""
    start = next(point for point in compiled_function(compiled).points.values() if point.is_start)
    return sum(each.aborts for each in start.variants)


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_pythons(name: str) -> None:
    function, make = PROGRAMS[name]
    compiled = npc.compile(function)
    for _ in range(3):
        assert happened(compiled, make()).same(happened(function, make()))
    assert programs(compiled) == 1


@pytest.mark.parametrize("ignored", ["divide", "over", "under", "invalid"])
@pytest.mark.parametrize("name", ["infinite", "an overflow"])
def test_numpys_state_of_errors_is_asked_for_in_each_call(name: str, ignored: str) -> None:
    function, make = PROGRAMS[name]
    compiled = npc.compile(function)
    for state in ({ignored: "ignore"}, {ignored: "raise"}, {"all": "ignore"}, {}):
        with np.errstate(**state):  # type: ignore[call-overload]
            assert happened(compiled, make()).same(happened(function, make())), state


SAMPLES = {name: test.sample for name, test in vars(test_control_flow).items() if hasattr(test, "sample")}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_graphs_have_as_nodes(name: str) -> None:
    sample = SAMPLES[name]
    compiled = npc.compile(sample.function)
    for round in range(2):
        given = tuple(sample.arguments(round))
        theirs, ours = happened(sample.function, given), happened(compiled, given)
        assert theirs.warnings == ours.warnings and type(theirs.result) is type(ours.result)
        for x, y in zip(npc.trees.flatten(theirs.result)[0], npc.trees.flatten(ours.result)[0], strict=True):
            assert type(x) is type(y)
            if isinstance(x, np.ndarray | np.generic):
                assert (x.dtype, x.shape) == (y.dtype, y.shape)
                np.testing.assert_allclose(x, y, rtol=1e-12)


def test_names_that_stand_for_others() -> None:
    """A number from outside is read in each call; what else is, has a program of its own, and graphs after a few."""
    rate, count = np.float64(0.5), 3
    f = lambda x: fori_loop(0, count, lambda i, s: s * rate + x[i], 1.0)  # noqa: E731
    compiled, x = npc.compile(f), numbers(9)
    for rate in np.linspace(0.1, 0.9, 5):
        assert compiled(x) == f(x)
    assert programs(compiled) == 1
    for count in range(1, 9):
        assert compiled(x) == f(x)
    assert programs(compiled) == aborting.MOST_PROGRAMS


def test_a_variable_of_the_function_around_that_is_set() -> None:
    def f(x):
        calls = 0

        def step(i, s):
            nonlocal calls
            if x[i] > 1.0:
                calls += i
            return s + x[i] * calls

        return fori_loop(0, x.size, step, 0.0), calls

    compiled = npc.compile(f)
    for given in (numbers(9), numbers(9, seed=1), numbers(0)):
        assert happened(compiled, (given,)).same(happened(f, (given,)))
    assert programs(compiled) == 1


def test_a_variable_of_another_function_that_is_set() -> None:
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return fori_loop(0, 3, lambda i, s: s + x[i], 0.0)

    compiled = npc.compile(f)
    for _ in range(3):
        assert compiled(numbers(5)) == numbers(5)[:3].sum()
    assert calls == 3 and programs(compiled) == 0


def test_what_is_left_often_is_not_tried_any_more() -> None:
    compiled = npc.compile(of_integers)
    compiled(60)
    assert aborts(compiled_function(compiled))
    for _ in range(aborting.MOST_ABORTS - 1):
        assert programs(compiled) == 1
        compiled(60)
    assert programs(compiled) == 0 and not aborts(compiled_function(compiled))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(20) == of_integers(20)


def test_a_whole_graph_keeps_a_program_that_is_left_often() -> None:
    def f(x, a):
        s = x[0]
        for i in range(x.size):
            s = s + a * (x[i] - s)
        return s

    compiled, bad, good = npc.compile(f, fullgraph=True), np.array([1e308, -1e308, 1e308, np.inf, -np.inf]), numbers(90)
    for _ in range(aborting.MOST_ABORTS + 1):
        assert happened(compiled, (bad, 3.0)).same(happened(f, (bad, 3.0)))
    assert compiled(good, 0.25) == f(good, 0.25) and programs(compiled) == 1


def test_a_whole_graph_has_a_program_for_each_value_of_a_name() -> None:
    count = 80

    def f(x):
        s = 0.5
        for i in range(count):
            s = s * 0.5 + x[i]
        return s

    compiled, x = npc.compile(f, fullgraph=True), numbers(90)
    values = range(80, 81 + aborting.MOST_PROGRAMS)
    for count in values:
        assert compiled(x) == f(x)
    assert programs(compiled) == len(values)


def test_the_compiler_beside_the_program() -> None:
    with npc.config.patch(compile="background"):
        compiled, x = npc.compile(smoothed), numbers(70)
        began = time.monotonic()
        while not (compiled_function(compiled).points and programs(compiled)) and time.monotonic() < began + 60:
            assert compiled(x) == smoothed(x)
        assert programs(compiled) == 1 and compiled(x) == smoothed(x)


def test_mistakes_of_ours_leave_the_loops_to_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise KeyError("ours")

    monkeypatch.setattr(aborting, "trace", fails)
    compiled, x = npc.compile(smoothed), numbers(9)
    with npc.config.patch(internal_errors="warn"), pytest.warns(RuntimeWarning, match="captured as a graph"):
        assert compiled(x) == smoothed(x)
    assert programs(compiled) == 0 and compiled_function(compiled).graphs


def test_a_carry_that_changes_is_refused() -> None:
    compiled = npc.compile(lambda x: fori_loop(0, 2, lambda i, c: (c, c), x[0]))
    with pytest.raises(TypeError, match="fori_loop: carry is a tuple of 2 where a leaf is expected"):
        compiled(numbers(3))


def test_results_have_the_order_of_arguments_in_memory() -> None:
    f = lambda x: (fori_loop(0, 3, lambda i, c: c * x[i, 1], 1.0), x * 0.5)  # noqa: E731
    assert npc.compile(f)(SQUARE)[1].strides == f(SQUARE)[1].strides


def with_a_loop(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (fori_loop(0, 3, lambda i, c: c + x[0, i], 0.0), made(x))


ORDERS: dict[str, tuple[Callable[[Any], Any], int]] = {  # with the number of programs
    "product": (lambda x: x.T * 2, 0),
    "root": (lambda x: np.sqrt(x.T), 0),
    "where": (lambda x: np.where(x.T > 1, x.T, 0), 0),
    "comparison": (lambda x: x.T > 2, 0),
    "zeros like": (lambda x: np.zeros_like(x.T), 0),
    "ones like": (lambda x: np.ones_like(x.T), 0),
    "full like": (lambda x: np.full_like(x.T, 2.0), 0),
    "copy": (lambda x: np.copy(x.T), 0),
    "copy in C's order": (lambda x: x.T.copy(), 1),
    "concatenation": (lambda x: np.concatenate([x.T, x.T]), 0),
    "columns": (lambda x: x[:, np.array([0, 1])], 0),
    "kept axis": (lambda x: x.T.max(axis=0, keepdims=True), 0),
    "carry": (lambda x: npc.while_loop(lambda c: c[1] < 3, lambda c: ((c[0] + 1.0) * 2, c[1] + 1), (x, 0))[0], 1),
    "both orders": (lambda x: x.T * np.ones((3, 2)), 1),
    "rows backwards": (lambda x: x[::-1, 1:] * 2, 1),
}


@pytest.mark.parametrize("name", ORDERS)
def test_results_have_numpys_order_in_memory(name: str) -> None:
    made, count = ORDERS[name]
    f, x = with_a_loop(made), np.arange(6.0).reshape(2, 3)
    compiled = npc.compile(f)
    theirs, ours = f(x)[1], compiled(x)[1]
    assert theirs.strides == ours.strides and programs(compiled) == count
    np.testing.assert_array_equal(theirs, ours)


def test_a_whole_graph_gives_no_array_in_another_order() -> None:
    def f(c, n):
        while c[0, 0] < n:
            c = c.T * 2.0
        return c

    with pytest.raises(npc.GraphBreakError):
        npc.compile(f, fullgraph=True)(np.ones((2, 3)), 2)


def test_sums_have_numpys_bits() -> None:
    f, x = lambda x: fori_loop(0, 3, lambda i, c: c * 0.5 + x.sum(), 1.0), numbers(999)
    compiled = npc.compile(f)
    assert compiled(x) == f(x)
    assert programs(compiled) == 1


def test_sums_by_einsum_are_left_to_graphs() -> None:
    f, x = lambda x: fori_loop(0, 3, lambda i, c: c * 0.5 + np.einsum("i->", x), 1.0), numbers(999)
    compiled = npc.compile(f)
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-13)
    assert programs(compiled) == 0


def test_long_arrays_and_large_matrices_stay_graphs() -> None:
    f = lambda x: fori_loop(0, 3, lambda i, c: c * 0.5 + x, x)  # noqa: E731
    compiled, x = npc.compile(f), np.ones(1 << 15)
    np.testing.assert_array_equal(compiled(x), f(x))
    assert programs(compiled) == 0
    g = lambda a, x: fori_loop(0, 3, lambda i, c: a @ c, x)  # noqa: E731
    compiled, a, x = npc.compile(g), np.ones((65, 65)), np.ones(65)
    np.testing.assert_allclose(compiled(a, x), g(a, x))
    assert programs(compiled) == 0


REASONS: dict[str, Callable[[Any], Any]] = {
    "execution cannot be left while a function made here is on the stack": lambda x: (added(x), lambda: x),
    "execution cannot be left while a list is on the stack": lambda x: (added(x), [1.0]),
    "execution cannot be left while a range is on the stack": lambda x: (added(x), range(x.size)),
}


def added(x):
    return fori_loop(0, x.size, lambda i, s: s + x[i], 0.0)


@pytest.mark.parametrize("why", REASONS)
def test_reasons_are_in_words_of_users(why: str) -> None:
    compiled = npc.compile(REASONS[why])
    for dtype in (np.float32, np.float64):  # two captures, one reason
        compiled(numbers(3).astype(dtype))
    (reason,) = compiled_function(compiled).declined
    assert reason.why_not is not None and reason.why_not.endswith(why)


def test_explain_says_how_loops_ran() -> None:
    told = npc.explain(nested)(numbers(5))
    assert told.summary == "1 compiled loop, 0 breaks"
    line = nested.__code__.co_firstlineno + 1
    assert f"compiled without Python: the loop at line {line}" in map(str, told.passes)
    told = npc.explain(lambda x: fori_loop(0, 3, lambda i, c: c + np.einsum("i->", x), 0.5))(numbers(20))
    (why,) = (x.why_not for x in told.passes if x.name == "compiled without Python")
    assert why.endswith("a sum of an array, which NumPy adds up in another order") and told.summary == "1 graph, 0 breaks"
