"""What functions with loops may say, and still have a native gradient: it is that of eager Tensors."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.eager_transforms import value_and_grad as by_tensors
from tests.gradients.test_native_loops import close, numbers

STEP = 0.25
WEIGHTS = numbers(40, 7)
PLACES = np.array([3, 0, 2, 2])


def native(function: Any, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> None:
    """Its gradient is computed by a native program, as by Tensors."""
    transformed = npc.value_and_grad(function, argnums)
    mine, others = copy.deepcopy(arguments), copy.deepcopy(arguments)
    found = transformed(*mine)
    assert transformed._made.loops.versions, transformed._made.loops.reasons
    assert transformed._made.loops.versions[0].aborts == 0
    close(found, by_tensors(function, {"argnums": argnums, "has_aux": False}, others, {}))
    close(mine, others)


ONE = ["sqrt", "exp", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arctanh", "exp2"]
ONE += ["expm1", "log", "log2", "log10", "log1p", "cbrt", "floor", "ceil", "trunc", "rint", "abs", "square", "negative", "sign"]


@pytest.mark.parametrize("names", [ONE[k::6] for k in range(6)], ids=lambda names: "-".join(names))
def test_functions_of_one_number(names: list[str]) -> None:
    lines = ["def f(x):", "    s = 0.0", "    for i in range(x.size):"]
    lines += [f"        s = s + {k + 1}.5 * np.{name}(x[i]) * x[i]" for k, name in enumerate(names)]
    namespace: dict[str, Any] = {"np": np}
    exec("\n".join([*lines, "    return s"]), namespace)
    native(namespace["f"], (numbers(12) * 0.6,), (0,))


def test_functions_of_two_numbers() -> None:
    def f(x, y):
        s = 0.0
        for i in range(x.size):
            s = s + np.arctan2(x[i], y[i]) + 2.0 * np.hypot(x[i], y[i]) + 3.0 * np.maximum(x[i], y[i])
            s = s + np.minimum(x[i], y[i]) * np.power(x[i], y[i]) + x[i] ** 3 + x[i] ** 2.5 - y[i] ** -1.0 + x[i] ** y[i]
            s = s + np.maximum(y[i], y[i]) * np.add(x[i], np.multiply(y[i], 2.0))
        return s

    native(f, (numbers(9), numbers(9, 1)), (0, 1))


def test_pythons_choices() -> None:
    def f(x, y):
        best = x[0]
        s = 0.0
        for i in range(x.size):
            best = max(best, x[i], y[i])
            s = s + min(x[i], y[i]) * abs(x[i] - y[i]) + (x[i] if x[i] > y[i] else 2.0 * y[i])
            if not (0.6 < x[i] < 1.4) or y[i] > 1.0 and i % 2 == 0:
                s += x[min(i, 2)] * abs(i - 3)
        return s * best

    native(f, (numbers(9), numbers(9, 1)), (0, 1))


def test_loops_over_arrays_and_steps() -> None:
    def f(x, y, a):
        s = a
        for i, v in enumerate(x):
            s = s * 0.9 + v * (i + 1)
        for u, (k, v) in zip(x, enumerate(y, 2)):
            s += u * v * k
        for i in range(0, x.size, 3):
            s = s * 0.5 + x[i]
        for i in range(x.size - 1, -1, -2):
            s = s * 0.5 + x[i] * y[i]
        for v in x[2:5]:
            s -= v
        return s

    native(f, (numbers(11), numbers(11, 1), 0.5), (0, 1, 2))


def test_rows_and_elements_of_matrices() -> None:
    def f(a, b):
        s = 0.0
        for i in range(a.shape[0]):
            for j in range(len(b)):
                s += a[i, j] * b[j] * a[i][j]
        for row in a:
            s += row[0] * row[-1]
            for v in row:
                s += v
        return s

    native(f, (numbers(12).reshape(3, 4), numbers(4, 1)), (0, 1))


def test_integers_are_data() -> None:
    def f(x, places, counts):
        s = 0.0
        for k in places:
            s += x[k] * x[k]
        for i in range(counts.shape[0]):
            s += counts[i, 0] * x[counts[i, 1]]
        return s

    native(f, (numbers(5), np.array([4, 0, 4, -1]), np.array([[2, 0], [5, 3]])), (0,))


def spread(u, v, power=2, scale=0.5):
    if u > v:
        return u * v * scale * power
    return helper(v) - u


def helper(v):
    for _ in range(3):
        v = v * 0.5 + STEP
    return v


def test_functions_that_it_calls_and_names_from_outside() -> None:
    offset, table = 0.5, numbers(9, 5)

    def f(x):
        s = x[0]
        for i in range(x.size):
            s = spread(s, x[i], 3) * STEP + offset * table[i] + WEIGHTS[i] * x[PLACES[i % 4]] + math.pi
            s = np.tanh(s) + np.exp(-x[i]) * math.sqrt(i + 1)
        return s

    native(f, (numbers(9),), (0,))


def test_numbers_from_outside_may_change() -> None:
    namespace: dict[str, Any] = {"rate": 0.5}
    exec("def f(x):\n    s = 0.0\n    for v in x:\n        s = s + v * rate\n    return s\n", namespace)
    transformed, x = npc.grad(namespace["f"]), numbers(3)
    for rate in (0.5, 0.25, 2.0):
        namespace["rate"] = rate
        assert np.array_equal(transformed(x), np.full(3, rate))
    assert len(transformed._made.loops.versions) == 1


def test_defaults_and_names_of_arguments() -> None:
    def f(x, a=0.5, n=2):
        s = a
        for i in range(n):
            s = s * x[i] + a
        return s

    transformed, x = npc.grad(f), numbers(4)
    plain = by_tensors(f, {"argnums": 0, "has_aux": False}, (x, 0.5, 2), {})[1]
    close(transformed(x), plain)
    close(transformed(x, n=2), plain)
    close(transformed(x, 0.5, n=3), by_tensors(f, {"argnums": 0, "has_aux": False}, (x, 0.5, 3), {})[1])
    assert len(transformed._made.loops.versions) == 1
    with pytest.raises(TypeError, match="unexpected keyword"):
        transformed(x, b=1)


def test_code_that_is_put_into_a_function_is_seen() -> None:
    def inner(v):
        return v * v

    def f(x):
        s = 0.0
        for v in x:
            s = s + inner(v)
        return s

    transformed, x = npc.grad(f), numbers(4)
    close(transformed(x), 2.0 * x)
    inner.__code__ = (lambda v: v * v * v).__code__
    np.testing.assert_allclose(transformed(x), 3.0 * x * x)


def test_a_number_that_is_taken_out_has_no_native_gradient() -> None:
    """Tensors warn, or raise."""

    def f(x):
        s = 0.0
        for v in x:
            s = s + float(v) * v
        return s

    transformed = npc.grad(f)
    with pytest.warns(RuntimeWarning, match="A number is taken out"):
        transformed(numbers(20))
    assert "float(x) of what is differentiated" in next(iter(transformed._made.loops.reasons.values()))
