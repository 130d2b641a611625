"""bool(x), int(x), float(x), x.item() and math.sqrt(x) of array data stay in the graph, and are Python's numbers outside."""

import math

import numpy as np

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import check


@check(graphs=1, breaks=0)
def test_numbers_that_leave(x):
    k = (x > 1).sum()
    return float(x.sum()), int(k), bool(k > 3), bool(x[0, 0]), [float(k), {"a": int(k)}], x.max().item(), k.item(), (k > 1).item()


@check(lambda round: np.arange(4, dtype=np.float32) + round, graphs=1, breaks=0)
def test_floats_take_the_dtype_that_they_meet(x):
    v = float(x.sum())
    return (
        x * v,
        v - x,
        x**2 / v,
        np.float64(1) * v,
        np.sqrt(v),
        np.maximum(x, v),
        np.full(2, v),
        np.array([v, 1]),
        x > v,
        np.where(x > 1, v, x),
    )


@check(lambda round: np.arange(4.0) + round, lambda round: np.arange(4) + round, graphs=1, breaks=0)
def test_integers_meet_arrays(x, n):
    k = int(n.max())
    return x * k, n + k, k - n, x[: n.size] > k, n == k, -x + k


@check(lambda round: np.arange(4, dtype=np.int8) + np.int8(100 * round), lambda round: np.int64(250))
def test_an_integer_that_a_small_dtype_does_not_hold(n, big):
    """OverflowError, as Python integers raise it, and no wrapping."""
    return n + int(big)


@check(graphs=1, breaks=0)
def test_arithmetic_of_floats(x):
    a, b = float(x[0, 0]), float(x[1, 1])
    return a + b, a * b - 2, (a + 1) / 4, -a, a < b, a == 3, (a + b) * x, x.sum() / (a + b)


@check(lambda round: np.array([1.0, 0.0]))
def test_division_by_zero_is_pythons(x):
    return float(x[0]) / float(x[1])


@check(lambda round: np.array([1.0, 1.0 - round]), graphs=1)
def test_square_root(x):
    return math.sqrt(x[1]) + 1, x / math.sqrt(x.sum()), math.sqrt(float(x[0]))


@check(lambda round: np.array([1.0, -1.0 * round]))
def test_square_root_of_a_negative_number(x):
    x += 1
    y = math.sqrt(x[1] - 1) + 1
    x += 1
    return y


@check(lambda round: np.array([0.0, 1.0]) + round, graphs=1, breaks=0)
def test_a_number_is_that_of_its_time(x):
    a = x[0, ...]
    t, v, n = not a, float(a), bool(a)
    x[0] = 9
    return t, v, n, not a


@check(lambda round: np.arange(3.0) + round)
def test_is_true(x):
    t = not x[0]
    return t is True, bool(x[1]) is False, t is None, float(x[0]) is None, t == True  # noqa: E712


@check(lambda round: np.arange(3.0) + round)
def test_truth_of_several_elements_raises_where_it_is_asked(x):
    y = x + 1
    x += 1
    t = not x
    x += 1
    return t, y


@check(lambda round: np.arange(6.0) + round)
def test_numbers_where_python_needs_them(x):
    k = int(x[0])
    return (
        list(range(k)),
        "a" * k,
        [1, 2, 3][k],
        f"{float(x[1])}",
        {float(x[2]): 1},
        x[k],
        x[k:],
        np.zeros(k),
        round(float(x[1]), 1),
    )


@check(lambda round: np.array([np.nan, np.inf, 2.0**60]))
def test_numbers_that_are_no_integers(x):
    try:
        return int(x[0])
    except ValueError as error:
        return str(error), int(x[2])


@check(lambda round: np.array([2**63 + 5], np.uint64), lambda round: np.array([1 + 2j]))
def test_dtypes_whose_numbers_are_not_captured(n, z):
    return int(n[0]), n[0].item(), z[0].item(), complex(z[0])


@check(lambda round: np.arange(3.0) + round)
def test_types(x):
    v, t = float(x[0]), bool(x[0])
    return isinstance(v, float), type(t) is bool, isinstance(t, np.bool_), isinstance(v, np.floating), type(v)


@check(lambda round: np.arange(3) - round)
def test_any_and_all_of_bools(x):
    return (
        any(bool(v) for v in x),
        all(bool(v > 0) for v in x),
        bool(x[0]) and bool(x[1]),
        int(bool(x[1])),
        sum([bool(v) for v in x]),
    )


@check(lambda round: np.arange(3.0), lambda round: 1.5 + round, lambda round: 10**6 + round, graphs=1, breaks=0)
def test_steps_that_read_the_last_twice_do_not_add_up(x, a, n):
    """Their text would double with each."""
    for _ in range(40):
        a = (a - 1.0) / 3.0 + min([a, 2.0]) * 0.5
        n = n // 2 + n // 3 - 7
    return x * a + n, a, n


def by_steps(a, b, c):
    """Each number is made of two that are made of the same ones."""
    for _ in range(12):
        a, b = (a + b) * 0.5 + (a - b) * 0.25, (a * 0.5 - b) * (a - 0.25) + (b + 0.125)
        a, b = (a + b) * 0.5 + (a - b) * 0.25, (a * 0.5 - b) * (a - 0.25) + (b + 0.125)
        a, b = (a + b) * 0.5 + (a - b) * 0.25, (a * 0.5 - b) * (a - 0.25) + (b + 0.125)
        if a - b > 100.0:
            a = b
    return 1.0 if (a - c) * 0.5 + (b - c) * 0.25 - (a * 0.25 - 1.0 + c * 0.125) * (b - 1.0) * (c + 2.0) >= 0 else 2.0


def test_floats_of_many_steps_are_no_integers():
    """A program holds for the numbers that it was made for."""
    compiled = npc.compile(by_steps, backend="eager")
    for c in (-0.5, 0.25, 0.75, 0.8):
        assert compiled(1.0, 2.0, c) == by_steps(1.0, 2.0, c)
    start, *_ = compiled_function(compiled).points.values()
    assert len(start.variants) == 2


def test_guards_of_many_steps_are_told_in_short():
    """Their text would double with each."""
    guards = npc.explain(npc.compile(by_steps, backend="eager"))(1.0, 2.0, 0.5).guards
    assert max(map(len, str(guards).splitlines())) < 10_000


@check(lambda round: 1.3 + round / 100)
def test_a_loop_until_a_number_is_large(a):
    found, step = [a], a
    while (t := found[-1] * step) < 100.0:
        found.append(t)
        d = (t - 1.0) / (100.0 - 1.0)
        step = a * (1 - d) + (1 + (a - 1) / 10) * d
    return np.array(found)


def quartic(x):
    return (x - 1.5) ** 4 + x * x


@check(lambda round: (quartic, math.cosh)[round % 2], lambda round: -2.0 - round, lambda round: 3.0, graphs=0, breaks=0)
def test_brents_method_makes_no_arrays(f, a, b):
    """Numbers decide where it goes: their values are what programs are for, or Python runs."""
    x = w = v = a + 0.381966 * (b - a)
    fx = fw = fv = f(x)
    step = before = 0.0
    for k in range(60):
        middle, least = 0.5 * (a + b), 1e-6 * abs(x) + 1e-9
        if abs(x - middle) <= 2 * least - 0.5 * (b - a):
            break
        r, q = (x - w) * (fx - fv), (x - v) * (fx - fw)
        p, q = (x - v) * q - (x - w) * r, 2 * (q - r)
        p, q = (-p, q) if q > 0 else (p, -q)
        if abs(before) > least and abs(p) < abs(0.5 * q * before) and q * (a - x) < p < q * (b - x):
            before, step = step, p / q
        else:
            before = a - x if x >= middle else b - x
            step = 0.381966 * before
        u = x + (step if abs(step) >= least else least if step > 0 else -least)
        fu = f(u)
        if fu <= fx:
            a, b = (x, b) if u >= x else (a, x)
            v, w, x, fv, fw, fx = w, x, u, fw, fx, fu
        else:
            a, b = (u, b) if u < x else (a, u)
            if fu <= fw or w == x:
                v, w, fv, fw = w, u, fw, fu
            elif fu <= fv or v in (x, w):
                v, fv = u, fu
    return x, fx, k


UNION = float | np.ndarray


@check(graphs=1, breaks=0)
def test_types_of_a_union(x):
    return x * (type(x) in UNION.__args__)


@check(lambda round: (-3, 2, -1, 0, 1)[round], rounds=5, dynamic=True)
def test_shifts_by_numbers_of_either_sign(a):
    try:
        return a << a, 40 >> a
    except ValueError as error:
        return str(error)
