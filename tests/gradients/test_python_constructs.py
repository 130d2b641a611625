"""Python's own constructs in functions under every transform: what a graph holds, and what eager Tensors do in its place.

Each is held against differences of the function itself. What leaves the arrays (`float(x)`, `math.sin(x)`) is a constant for
derivatives, as docs/gradients.md says; those tests give the derivative with this number held fixed.
"""

from __future__ import annotations

import functools
import io
import logging
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

AT = np.float64(0.33)
SINK = io.StringIO()


def sum_of_comprehension(x):
    return sum([x * k for k in range(20)]) * x


def sum_of_generator(x):
    return sum(x * k for k in range(20)) * x


def sum_of_long_generator(x):
    return sum(x * k for k in range(200)) * x


def nested_generators(x):
    return sum(sum(x * x * j for j in range(18)) * k for k in range(18))


def filtered_comprehension(x):
    return sum([x * x * k for k in range(40) if k % 2])


def dict_comprehension(x):
    found = {k: np.sin(x * k) for k in range(20)}
    return found[3] * found[19]


def one_key(x):
    return {"last": x * x * k for k in range(20)}["last"]  # noqa: B035


def array_of_comprehension(x):
    return np.sum(np.array([np.sin(x * k) for k in range(20)]))


def stack_of_long_comprehension(x):
    return np.sum(np.stack([np.sin(x * k / 200) for k in range(200)]))


def any_of_generator(x):
    return x * x if any(x > k for k in range(20)) else x**3


def mapped(x):
    return sum(map(lambda k: x * x * k, range(20)))  # noqa: C417


def zipped(x):
    return sum(a * b * x * x for a, b in zip(range(20), range(20)))


def reduced(x):
    return functools.reduce(lambda a, k: a + k * x * x, range(20), x)


def nested_comprehension_in_loop(x):
    total = x
    for k in range(20):
        total = total + sum([x * x * j * k for j in range(3)])
    return total


def loop_of(count: int) -> Callable:
    def loop(x):
        total = x * 0
        for k in range(count):
            total = total + x * x * k
        return total

    loop.__name__ = f"loop_of_{count}"
    return loop


def while_of_17(x):
    k, total = 0, x
    while k < 17:
        total, k = total + x * x * k, k + 1
    return total


def loop_that_data_ends(x):
    total = x * 0
    for _ in range(30):
        total = total + x * x
        if total > 1.03:
            break
    return total


def largest_of_two(x):
    return max(x, 0.2) * min(x, 0.5)


def largest_of_list(x):
    return max([x, x * x, 0.1]) * x


def absolute(x):
    return abs(x - 1) * x


def rounded(x):
    return round(x * 3) * x * x


def rounded_to_digits(x):
    return round(x, 1) * x


def floor_by_math(x):
    return (math.floor(x * 10) + math.ceil(x * 10) + math.trunc(x * 10)) * x


def as_int(x):
    return int(x * 10) * x * x


def as_bool(x):
    return bool(x) * x * x


def as_index(x):
    return np.arange(5.0)[int(x * 10)] * x


def sorted_items(x):
    return sorted([x, x * x, x * 3])[1] * x


def formatted(x):
    return x * x if f"{x:.1f}{x}" and format(x, ".2f") and str(x) else x


def printed(x):
    print(x, file=SINK)
    return x * x


def comparison_chain(x):
    return x * x * 2 if 0 < x < 1 else x


def and_or(x):
    return x * x if (x > 0 and x < 1) or x < -5 else x


def imaginary(x):
    return np.abs(1j * x + 1) ** 2


def imaginary_part(x):
    return (1j * x * x).imag


def data_decides_how_often(x):
    while x < 3:
        x = x * 1.5 + 1
    return x * x


def divided(x):
    quotient, rest = divmod(x * x, 0.07)
    return rest * x + quotient


def a_constant(x):
    print(file=SINK)
    return 4.0


SMOOTH = [
    *(sum_of_comprehension, sum_of_generator, sum_of_long_generator, nested_generators, filtered_comprehension),
    *(dict_comprehension, one_key, array_of_comprehension, stack_of_long_comprehension, any_of_generator, mapped, zipped),
    *(reduced, nested_comprehension_in_loop, *map(loop_of, (16, 17, 18, 100)), while_of_17, loop_that_data_ends),
    *(largest_of_two, largest_of_list, absolute, rounded, rounded_to_digits, floor_by_math, as_int, as_bool, as_index),
    *(sorted_items, formatted, printed, comparison_chain, and_or, imaginary, imaginary_part, data_decides_how_often, divided),
    a_constant,
]


def slope(f: Callable, x: Any, step: float = 1e-6) -> Any:
    return (f(x + step) - f(x - step)) / (2 * step)


def curvature(f: Callable, x: Any, step: float = 1e-4) -> Any:
    return (f(x + step) - 2 * f(x) + f(x - step)) / step**2


def value(f: Callable, x: Any) -> Any:
    return f(x)


PAIR, ONE = np.array([AT, AT]), np.float64(1.0)
TRANSFORMS: dict[str, tuple[Callable, Callable]] = {
    "grad": (lambda f: npc.grad(f)(AT), slope),
    "value_and_grad": (lambda f: npc.value_and_grad(f)(AT)[1], slope),
    "vjp": (lambda f: npc.vjp(f, AT)[1](ONE)[0], slope),
    "jvp": (lambda f: npc.jvp(f, (AT,), (ONE,))[1], slope),
    "jacobian": (lambda f: npc.jacobian(f)(AT), slope),
    "hessian": (lambda f: npc.hessian(f)(AT), curvature),
    "vmap": (lambda f: npc.vmap(f)(PAIR)[1], value),
    "vmap of grad": (lambda f: npc.vmap(npc.grad(f))(PAIR)[1], slope),
    "grad of vmap": (lambda f: npc.grad(lambda xs: np.sum(npc.vmap(f)(xs)))(PAIR)[1], slope),
    "grad in compiled code": (lambda f: npc.compile(lambda x: npc.grad(f)(x), backend="eager")(AT), slope),
    "vmap in compiled code": (lambda f: npc.compile(lambda x: npc.vmap(f)(x), backend="eager")(PAIR)[1], value),
}


ALIKE = ("grad", "value_and_grad", "vjp", "jacobian")  # of one number: each function is asked for one of them


@pytest.mark.parametrize(
    ("f", "transform"), [(f, t) for k, f in enumerate(SMOOTH) for t in TRANSFORMS if t not in ALIKE or t == ALIKE[k % 4]]
)
def test_derivatives(f: Callable, transform: str) -> None:
    """No construct gives an error, or a warning."""
    call, reference = TRANSFORMS[transform]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = call(f)
    np.testing.assert_allclose(found, reference(f, AT), rtol=1e-5, atol=1e-5)


# --- numbers that are taken out of arrays

TAKEN = {
    "float": lambda x: float(x) * x,
    "complex": lambda x: complex(x).real * x,
    "math": lambda x: math.sin(x) * x,
    "sum of math": lambda x: math.fsum([x, x]) * x,
    "item": lambda x: x.item() * x,
    "tolist": lambda x: x.tolist() * x,
}
FIXED = {"math": math.sin(AT), "sum of math": 2 * AT}  # the number; else it is x itself


@pytest.mark.parametrize("name", TAKEN)
def test_numbers_taken_out_are_constants(name: str) -> None:
    """As with torch's. One warning names the line, unless that is meant."""
    f = TAKEN[name]
    for transform, (call, reference) in TRANSFORMS.items():
        if transform == "hessian":
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = call(f)
        expected = f(AT) if reference is value else FIXED.get(name, AT)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert len(caught) <= 1 and all("test_python_constructs.py:" in str(w.message) for w in caught)


def test_a_number_taken_out_is_told_once() -> None:
    def f(x):
        return math.cos(x) * x

    with pytest.warns(RuntimeWarning, match=r"A number is taken out.*\(test_python_constructs.py:\d+\).*x.item\(\)") as caught:
        for _ in range(3):
            npc.grad(f)(AT)
    assert len(caught) == 1


NOTHING_LEFT = [lambda x: float(x) * 2, lambda x: math.exp(x), lambda x: x.item(), lambda x: np.float64(math.pow(x, 2))]


@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if TRANSFORMS[t][1] is not value])
@pytest.mark.parametrize("f", NOTHING_LEFT)
def test_no_derivative_is_left(f: Callable, transform: str) -> None:
    with pytest.raises(npc.GraphBreakError, match=r"has no derivative: .*\(test_python_constructs.py:\d+\)") as caught:
        TRANSFORMS[transform][0](f)
    assert "fullgraph" not in str(caught.value) and caught.value.__context__ is caught.value.__cause__ is None


# --- messages


def test_a_message_names_the_users_line_and_what_was_called() -> None:
    def helper(x):
        return x.is_integer() + x

    def f(x):
        return helper(x)

    with pytest.raises(npc.GraphBreakError) as caught:
        npc.grad(f)(AT)
    line = helper.__code__.co_firstlineno + 1
    message = str(caught.value)
    assert message.startswith("npc.grad of ") and "fullgraph" not in message and "compiler.py" not in message
    assert f"(test_python_constructs.py:{line}, called from test_python_constructs.py:{line + 3})" in message

    with pytest.raises(npc.GraphBreakError, match=r"npc.grad of .*float64\[2\] \(test_python_constructs.py:\d+\). It must"):
        npc.grad(lambda x: x * 2)(np.ones(2))


def test_misuse_of_a_function_that_runs_on_eager_tensors() -> None:
    """The first call finds that there is no graph; the second asks for what no derivative has."""

    def f(x):
        print(file=SINK)
        return x * x

    g = npc.grad(f)
    g(np.array(2.0))
    g(np.array([2.0])[0])
    reject = [(np.array(2), "with respect to int64 numbers"), (np.ones(1), "one real floating-point number")]
    for x, message in reject:
        for _ in range(2):
            with pytest.raises(npc.GraphBreakError, match=message):
                g(x)
    h = npc.grad(lambda x, n: f(x) if n else f(np.stack([x, x])))
    h(AT, True)
    for _ in range(2):
        with pytest.raises(npc.GraphBreakError, match="one real floating-point number"):
            h(AT, False)
    with pytest.raises(npc.GraphBreakError, match=rf"\(test_python_constructs.py:{f.__code__.co_firstlineno + 1}\)"):
        npc.grad(lambda x: npc.grad(f)(np.ones(2)) @ np.ones(2) * x)(AT)


def test_one_hint_says_that_eager_tensors_run(caplog: pytest.LogCaptureFixture) -> None:
    def told(x: Any) -> Any:  # of a function that the module has, other tests may have been told before
        print(x, file=SINK)
        return x * x

    g = npc.grad(told)
    with caplog.at_level(logging.INFO, "npcompile.graph_breaks"):
        for _ in range(3):
            g(AT)
    hints = [r.getMessage() for r in caplog.records if "eager Tensors" in r.getMessage()]
    assert len(hints) == 1 and "told: print" in hints[0]


def test_a_mistake_of_ours_runs_on_eager_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("this cannot be")

    monkeypatch.setattr("npcompile.tracer.variant_source.Emitter.graph_of", mistaken)
    g = npc.grad(lambda x: np.sin(x))
    with npc.config.patch(internal_errors="warn"):
        with pytest.warns(
            RuntimeWarning, match="Internal error of npcompile while capturing .*AssertionError: this cannot be"
        ) as caught:
            found = [g(AT) for _ in range(3)]
    np.testing.assert_allclose(found, np.cos([AT] * 3))
    assert len(caught) == 1


@pytest.mark.parametrize("digits", [None, 1])
def test_round_of_a_tensor(digits: int | None) -> None:
    """As of a NumPy scalar, not of an ndarray."""
    found = round(npc.tensor(2.46), digits)
    expected = round(np.float64(2.46), digits)
    assert found == expected and isinstance(found, npc.Tensor if digits else int)
    with pytest.raises(TypeError, match=r"use np\.round"):
        round(npc.tensor([1.0, 2.0]))
