"""Functions that `npc.compile` runs as programs of the loop IR: what they give, how they leave, what guards them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.tracer.entry import compiled_function
from tests.loop_ir.agreement import Arguments, happened, same_bits
from tests.loop_ir.programs import diffuse, numbers, smoothing, weighted, with_
from tests.native_loops.agreement import signalled


def both(x, a):
    s = x[0]
    t = x[1]
    for i in range(2, x.shape[0]):
        s = s * a + x[i]
        t = t + s * x[i - 2]
    return (s, x), t


def scaled(x, a):
    for i in range(x.size):
        x[i] = x[i] * a


def decay(y, n, h):
    for _ in range(n):
        y = y - h * (y + h * y)
    return y


def clipped(x, most, out):
    for i in range(x.size):
        if x[i] > most:
            out[i] = most
        elif x[i] < -most:
            out[i] = -most
        else:
            out[i] = x[i] * 0.5


def unequal_steps(x, a, out):
    s = x[0]
    for i in range(x.size):
        d = x[i] - s
        if d > 0.0:
            s = s + a * d
        else:
            s = s + 0.1 * d
        out[i] = s
    return s


def crossings(x, level):
    count = 0
    for i in range(1, x.size):
        if x[i - 1] < level <= x[i]:
            count += 1
    return count


def above_in_rows(x, level):
    count = 7
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > level:
                count += 1
    return count


def greatest(x):
    best = x[0]
    for i in range(1, x.size):
        best = max(best, x[i])
    return best


def of_those_above(x, least):
    s = 0.0
    for i in range(x.size):
        if x[i] <= least:
            continue
        s += x[i] * x[i]
    return s


def scaled_by(x, out):
    """Reads a name from outside."""
    for i in range(len(x)):
        out[i] = np.sqrt(x[i]) * 2.0


def rows_of_products(a, b, x):
    for i in range(b.size):
        x[i] = (b[i] - np.dot(a[i, :i], x[:i])) / a[i, i]


def pairs_that_are_close(x, near):
    n = 0
    for i in range(x.size):
        for j in range(x.size):
            if abs(x[i] - x[j]) < near:
                n += 1
    return n


def roots_by_newton(x, out):
    for i in range(x.size):
        y = x[i]
        for _ in range(8):
            y = 0.5 * (y + x[i] / y)
        out[i] = y


def sums(x, out):
    s = 0.0
    for i in range(x.size):
        s = s + x[i]
        out[i] = s


def roots_of_some(x, out):
    for i in range(x.size):
        if x[i] > 1.0:
            out[i] = np.sqrt(x[i])


def some_stored(x, out):
    for i in range(x.size):
        if x[i] > 1.0:
            out[i] = x[i]


def greatest_of_rows(x, out):
    for i in range(x.shape[0]):
        best = x[i, 0]
        for j in range(x.shape[1]):
            if x[i, j] > best:
                best = x[i, j]
        out[i] = best


def roots_by_tolerance(a, out):
    for i in range(a.size):
        x = a[i]
        while abs(x * x - a[i]) > 1e-10 * a[i]:
            x = 0.5 * (x + a[i] / x)
        out[i] = x


def waiting(x):
    for i in range(1, x.shape[0]):
        for j in range(1, x.shape[1]):
            x[i, j] = x[i - 1, j] + x[i, j - 1] * 0.5


def whole(n: int) -> np.ndarray:
    """Numbers whose products and sums have no roundings, in whatever order BLAS adds them."""
    return np.rint(numbers(n) * 2.0)


def triangle(n: int) -> np.ndarray:
    """Rows that add few of these."""
    return np.eye(n) + np.eye(n, k=-2) - np.eye(n, k=-5)


@npc.compile
def halving(x, a):
    s = 0.0
    for i in range(x.size):
        s = s * a + x[i]
    return s


PROGRAMS: dict[str, tuple[FunctionType, Callable[[], Arguments]]] = {
    "smoothing": (smoothing, lambda: (numbers(1500), 0.3)),
    "NumPy's number": (smoothing, lambda: (numbers(50), np.float64(0.3))),
    "weighted": (weighted, lambda: (numbers(1500), np.array([0.3]), np.zeros(1500))),
    "out is too short": (weighted, lambda: (numbers(50), np.array([0.3]), np.zeros(20))),
    "infinite": (weighted, lambda: (with_(with_(numbers(1500), 900, np.inf), 901, -np.inf), np.array([0.3]), np.zeros(1500))),
    "overflow": (decay, lambda: (np.float64(1e300), 100, -1e9)),
    "swapped arrays": (diffuse, lambda: (numbers(60), numbers(60, seed=1), 7)),
    "a tuple": (both, lambda: (numbers(30), 0.5)),
    "strided": (both, lambda: (numbers(40, 60)[::-1, 3], 0.5)),
    "nothing returned": (scaled, lambda: (numbers(1000), 0.5)),
    "float32": (scaled, lambda: (numbers(1000).astype(np.float32), np.float32(0.5))),
    "choices": (clipped, lambda: (numbers(1500) * 3.0, 2.0, np.zeros(1500))),
    "choices, out is too short": (clipped, lambda: (numbers(50), 0.7, np.zeros(20))),
    "choices, infinite": (clipped, lambda: (with_(with_(-numbers(1500), 900, -np.inf), 3, np.nan), 0.7, np.zeros(1500))),
    "steps": (unequal_steps, lambda: (numbers(1500), 0.5, np.zeros(1500))),
    "steps, out is too short": (unequal_steps, lambda: (numbers(50), 0.5, np.zeros(20))),
    "steps, overflow": (unequal_steps, lambda: (with_(with_(numbers(900), 600, 1.7e308), 601, -1.7e308), 0.5, np.zeros(900))),
    "a count": (crossings, lambda: (numbers(1500), 1.0)),
    "a count of nothing": (crossings, lambda: (numbers(40), 9.0)),
    "a count, not a number": (crossings, lambda: (with_(numbers(1500), 900, np.nan), np.float64(1.0))),
    "a count in rows": (above_in_rows, lambda: (numbers(30, 70), 1.0)),
    "not a number": (greatest, lambda: (with_(numbers(1500), 900, np.nan),)),
    "some are added": (of_those_above, lambda: (numbers(1500), 1.0)),
    "some are added, an arm overflows": (of_those_above, lambda: (with_(numbers(1500), 900, -1.7e308), 1.0)),
    "products of vectors": (rows_of_products, lambda: (triangle(30), whole(30), np.zeros(30))),
    "long products of vectors": (rows_of_products, lambda: (np.eye(600), whole(600), np.zeros(600))),
    "products, infinite": (rows_of_products, lambda: (triangle(40), with_(whole(40), 20, np.inf), np.zeros(40))),
    "products, not numbers": (rows_of_products, lambda: (triangle(40), with_(whole(40), 20, np.nan), np.zeros(40))),
    "products, divided by zero": (rows_of_products, lambda: (np.zeros((40, 40)), whole(40), np.zeros(40))),
    "products, x is too short": (rows_of_products, lambda: (triangle(40), whole(40), np.zeros(20))),
    "products, strided": (rows_of_products, lambda: (triangle(40).T.copy().T, whole(80)[::2], np.zeros(40))),
    "pairs": (pairs_that_are_close, lambda: (numbers(70), 0.3)),
    "pairs, not a number": (pairs_that_are_close, lambda: (with_(numbers(70), 9, np.inf), 0.3)),
    "divisions inside": (roots_by_newton, lambda: (abs(numbers(70)) + 1.0, np.zeros(70))),
    "divisions inside, by zero": (roots_by_newton, lambda: (with_(abs(numbers(70)), 33, 0.0), np.zeros(70))),
    "a store for each addition": (sums, lambda: (numbers(1500), np.zeros(1500))),
    "a store for each addition, infinite": (sums, lambda: (with_(with_(numbers(900), 800, np.inf), 801, -np.inf), np.zeros(900))),
    "a root in a branch": (roots_of_some, lambda: (numbers(1500) * 3.0, np.ones(1500))),
    "a root in a branch, out is too short": (roots_of_some, lambda: (numbers(50) + 2.0, np.zeros(20))),
    "a store in a branch": (some_stored, lambda: (numbers(1500) * 3.0, np.ones(1500))),
    "a store in a branch, out is too short": (some_stored, lambda: (numbers(50) + 2.0, np.zeros(20))),
    "the greatest of rows": (greatest_of_rows, lambda: (numbers(40, 30), np.zeros(40))),
    "the greatest of rows, not a number": (greatest_of_rows, lambda: (with_(numbers(40, 30), (11, 3), np.nan), np.zeros(40))),
    "while a condition holds": (roots_by_tolerance, lambda: (abs(numbers(70)) + 1.0, np.zeros(70))),
    "while a condition holds, infinite": (roots_by_tolerance, lambda: (with_(abs(numbers(70)) + 1.0, 33, np.inf), np.zeros(70))),
    "rows that need the row above": (waiting, lambda: (numbers(40, 70),)),
    "a name from outside": (scaled_by, lambda: (numbers(64) ** 2, np.zeros(64))),
}


def runs_whole(compiled: Any) -> list[bool]:
    """Of each program at the function's start: is it of the loop IR? Its passes say so: they were asked about each loop."""
    start = next(point for point in compiled_function(compiled).points.values() if point.is_start)
    return [any(x.name == "vectorize" for x in each.compiled.passes) for each in start.variants]


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_pythons(name: str) -> None:
    function, make = PROGRAMS[name]
    compiled = npc.compile(function)
    for _ in range(2):
        assert happened(compiled, make()).same(happened(function, make()))
    assert any(runs_whole(compiled))


@pytest.mark.parametrize("ignored", ["divide", "over", "under", "invalid"])
@pytest.mark.parametrize("name", ["infinite", "overflow"])
def test_numpys_state_of_errors_is_asked_for_in_each_call(name: str, ignored: str) -> None:
    function, make = PROGRAMS[name]
    compiled = npc.compile(function)
    happened(compiled, make())
    for state in ({ignored: "ignore"}, {ignored: "raise"}, {"all": "ignore"}, {}):
        with np.errstate(**state):  # type: ignore[call-overload]
            assert happened(compiled, make()).same(happened(function, make())), state


def test_memory_that_it_cannot_write_to_runs_in_python() -> None:
    compiled, x = npc.compile(scaled), numbers(40)
    compiled(x.copy(), 0.5)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled(x, 0.5)
    overlapping = np.lib.stride_tricks.as_strided(numbers(50), (40,), (0,))
    wanted = overlapping.copy()[:1]
    npc.compile(scaled)(overlapping, 0.5)
    assert overlapping[0] == wanted[0] * 0.5**40
    unaligned = np.zeros(40 * 8 + 1, np.uint8)[1:].view(np.float64)
    unaligned[:] = numbers(40)
    before = unaligned.copy()
    compiled(unaligned, 0.5)
    assert same_bits(unaligned.copy(), before * 0.5)
    assert runs_whole(compiled) == [True]


def test_arrays_that_share_memory() -> None:
    def shifted(x, out):
        for i in range(x.size):
            out[i] = x[i] * 2.0 + 1.0

    compiled = npc.compile(shifted)
    for offset in (-9, -1, 0, 1, 9):
        mine, pythons = numbers(60), numbers(60)
        compiled(mine[10:50], mine[10 + offset : 50 + offset])
        shifted(pythons[10:50], pythons[10 + offset : 50 + offset])
        assert same_bits(mine, pythons)
    assert runs_whole(compiled) == [True]


def test_other_types_are_other_programs() -> None:
    compiled, x = npc.compile(smoothing), np.arange(90.0)
    for arguments in ((x, 0.5), (x[:0], 0.25), (x, np.float64(0.5)), (x[::2], 0.5)):
        assert same_bits(compiled(*arguments), smoothing(*arguments))
    assert runs_whole(compiled) == [True] * 3
    (why, *_) = npc.explain(smoothing)(x, 0.5).guards
    assert "x: float64 array of shape (any,), C-contiguous" in why


def test_a_name_that_changes_is_seen() -> None:
    namespace: dict[str, Any] = {"np": np}
    exec("def f(x, n):\n    s = 0.0\n    for i in range(n):\n        s = s + abs(x[i])\n    return s\n", namespace)
    compiled, x = npc.compile(namespace["f"]), -np.ones(30)
    assert compiled(x, 30) == 30.0 and runs_whole(compiled) == [True]
    namespace["abs"] = lambda value: value
    assert compiled(x, 30) == -30.0
    del namespace["abs"]
    assert compiled(x, 30) == 30.0


def test_a_variable_of_a_function_around_that_changes_is_seen() -> None:
    function: Any = abs

    def total(x):
        s = 0.0
        for i in range(x.size):
            s = s + function(x[i])
        return s

    compiled, x = npc.compile(total), -np.ones(30)
    assert compiled(x) == 30.0 and runs_whole(compiled) == [True]
    function = float
    assert compiled(x) == -30.0


def test_an_interrupt_is_raised_where_the_loop_stands() -> None:
    def forever(y, n, h):
        try:
            for _ in range(n):
                y = y - h * (y + h * y)
        except KeyboardInterrupt:
            return -y
        return y

    compiled = npc.compile(decay)
    assert compiled(1.0, 1000, 0.1) == decay(1.0, 1000, 0.1) and runs_whole(compiled) == [True]
    with signalled(), pytest.raises(KeyboardInterrupt) as raised:
        compiled(1.0, 10**12, 1e-9)
    assert raised.tb is not None
    lines = [frame.lineno for frame in traceback.extract_tb(raised.tb) if frame.name == "decay" and frame.filename == __file__]
    assert [line - decay.__code__.co_firstlineno for line in lines] == [1]
    guarded = npc.compile(forever)
    assert guarded(1.0, 1000, 0.1) == decay(1.0, 1000, 0.1)
    with signalled():
        assert guarded(1.0, 10**12, 1e-9) < 0


def added_products(x, n):
    s = 0.0
    for _ in range(n):
        s = s * 0.5 + np.dot(x, x)
    return s


@pytest.mark.parametrize(
    ("function", "short", "long"),
    [
        (pairs_that_are_close, (numbers(40), 0.1), (np.ones(100_000), 0.1)),
        (added_products, (numbers(40), 40), (np.ones(1_000_000), 20_000)),
    ],
    ids=["a loop inside", "products inside"],
)
def test_an_interrupt_is_raised_between_long_iterations(function: Any, short: Arguments, long: Arguments) -> None:
    compiled = npc.compile(function)
    for _ in range(2):
        compiled(*short)
    assert runs_whole(compiled) == [True]
    with signalled(), pytest.raises(KeyboardInterrupt) as raised:
        compiled(*long)
    lines = [frame.lineno for frame in traceback.extract_tb(raised.tb) if frame.name == function.__name__]
    assert [line - function.__code__.co_firstlineno for line in lines] == [2]  # at the outer loop


def test_a_product_has_the_bits_that_it_has_elsewhere() -> None:
    rng = np.random.default_rng(3)

    def last(a, b, x):
        rows_of_products(a, b, x)
        return a @ x  # Python goes on behind the loop: the compiler of text has it

    for n in (5, 33, 70, 300):
        a, b = np.tril(rng.standard_normal((n, n))) / n + 2 * np.eye(n), rng.standard_normal(n)
        x, y = np.zeros(n), np.zeros(n)
        npc.compile(rows_of_products)(a, b, x)
        npc.compile(last)(a, b, y)
        assert same_bits(x, y)


def test_memory_of_the_call_before_is_as_good_as_new() -> None:
    def squares(x):
        table, out = np.zeros(x.size), np.zeros(x.size)
        for i in range(1, x.size):
            table[i] = x[i] * 2.0 + 1.0
        for i in range(x.size):
            out[i] = table[i] * table[i]
        table[0] = 5.0  # what is there when the next call takes it
        return out

    compiled = npc.compile(squares)
    given = [numbers(n, seed=k) for k, n in enumerate((40, 40, 40, 7, 40, 600, 600, 1, 40))]
    found = [compiled(x) for x in given]
    assert runs_whole(compiled) == [True]
    for x, each in zip(given, found, strict=True):
        assert same_bits(each, squares(x))
    assert not any(np.shares_memory(a, b) for k, a in enumerate(found) for b in found[:k])


def test_reset_explain_and_pickle() -> None:
    x = numbers(100)
    compiled = npc.compile(smoothing)
    assert same_bits(compiled(x, 0.3), smoothing(x, 0.3)) and runs_whole(compiled) == [True]
    account = npc.explain(compiled)(x, 0.3)
    assert account.natives == (f"the function at programs.py:{smoothing.__code__.co_firstlineno}",) and not account.breaks
    assert {"speculate", "vectorize"} <= {each.name for each in account.passes}
    npc.reset()
    assert same_bits(compiled(x, 0.3), smoothing(x, 0.3)) and runs_whole(compiled) == [True]
    again = pickle.loads(pickle.dumps(halving))
    assert same_bits(again(x, 0.3), halving(x, 0.3)) and runs_whole(again) == [True]


def test_objects_stay_the_objects_that_they_are() -> None:
    def handed_on(x, a, b):
        s = x[0]
        for i in range(x.size):
            s = s * a + x[i]
        return b, (s, s), x, a

    compiled, x, b = npc.compile(handed_on), numbers(40), np.float64(2.5)
    a = float("0.25")
    given, (one, other), array, number = compiled(x, a, b)
    assert given is b and one is other and array is x and runs_whole(compiled) == [True]
    assert number is a


def with_an_unread_copy(x, y):
    kept = x.copy()
    for i in range(y.size):
        y[i] = i * 2.0
        if i > 1000:
            kept[:] = 0
    return y


@pytest.mark.parametrize("dtype", [complex, np.complex64, np.longdouble, np.float16])
def test_arrays_of_types_that_loops_in_c_do_not_have(dtype: type) -> None:
    compiled = npc.compile(with_an_unread_copy, backend="cpu")
    np.testing.assert_array_equal(compiled(np.ones(4, dtype), np.zeros(40)), 2.0 * np.arange(40))
