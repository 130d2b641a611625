"""cond, while_loop, fori_loop and scan as Python runs them: values, trees, and what they refuse."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from npcompile.control import cond, fori_loop, scan, while_loop


@dataclass(frozen=True)
class State:
    position: Any
    steps: Any


def test_cond_runs_one_branch() -> None:
    x = np.array([1.0, 4.0])
    called = []
    assert cond(x.sum() > 0, np.sqrt, called.append, x).tolist() == [1.0, 2.0]
    assert cond(np.array(0), called.append, lambda y: {"y": y}, x)["y"] is x
    assert not called


def test_while_loop() -> None:
    assert while_loop(lambda c: c[0] > 1, lambda c: (c[0] // 2, c[1] + 1), (1000, 0)) == (1, 9)
    start = np.ones(2)
    found = while_loop(lambda x: x.sum() < 0, lambda x: x - 1, start)
    assert found is not start and found.tolist() == [1.0, 1.0]


def test_while_loop_of_a_dataclass() -> None:
    found = while_loop(lambda s: np.any(s.position < 9), lambda s: State(s.position * 2, s.steps + 1), State(np.ones(2), 0))
    assert isinstance(found, State) and found.position.tolist() == [16, 16] and found.steps == 4


def test_fori_loop() -> None:
    assert fori_loop(0, 5, lambda i, total: total + i, 0) == 10
    assert fori_loop(np.int8(2), np.array(5), lambda i, c: [c[0] * i, c[1]], [1.0, None]) == [24.0, None]
    assert fori_loop(3, 1, lambda i, c: c + 1, 7) == 7


@pytest.mark.parametrize(
    ("first", "value", "expected"),
    [(0, 0.5, float), (0, np.float32(0.5), np.float32), (0.0, np.float32(0.5), np.float32), (0.0, 1j, complex)],
)
def test_a_python_number_takes_the_dtype_of_the_body(first: Any, value: Any, expected: type) -> None:
    found = fori_loop(0, 3, lambda i, c: c + value, first)
    assert type(found) is expected and found == 3 * value


def running(total: Any, x: Any) -> tuple[Any, Any]:
    return total + x["a"] * x["b"], {"before": total, "x": x["a"]}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(4,), (4, 2), (0, 3)])
def test_scan(shape: tuple[int, ...], reverse: bool) -> None:
    rng = np.random.default_rng(0)
    xs = {"a": rng.normal(size=shape), "b": np.arange(shape[0])}
    total = np.zeros(shape[1:])
    carry, ys = scan(running, total, xs, reverse=reverse)
    before = np.empty(shape)
    for k in range(shape[0])[:: -1 if reverse else 1]:
        before[k] = total
        total = total + xs["a"][k] * k
    np.testing.assert_array_equal(carry, total)
    np.testing.assert_array_equal(ys["before"], before)
    np.testing.assert_array_equal(ys["x"], xs["a"])
    assert list(ys) == ["before", "x"]


def test_what_scan_stacks_is_as_it_was_then() -> None:
    def step(c: Any, v: Any) -> Any:
        c += v
        return c, c

    assert scan(step, np.zeros(1), np.ones((3, 1)))[1].tolist() == [[1.0], [2.0], [3.0]]


def test_scan_by_length() -> None:
    carry, ys = scan(lambda c, _: (c * 2, None), 1, length=10)
    assert (carry, ys) == (1024, None)
    carry, ys = scan(lambda c, _: (c + 1, np.float32(c)), 0, length=3)
    assert carry == 3 and ys.dtype == np.float32 and ys.tolist() == [0, 1, 2]
    assert scan(lambda c, x: (c, (x, 1)), 0, np.ones((0, 2), np.int8))[1][0].dtype == np.int8


X = np.ones((2, 3))
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: cond(X > 0, np.sin, np.cos, X), r"condition is a bool array of shape \(2, 3\)"),
    (lambda: while_loop(lambda c: c, lambda c: c - 1, X), r"condition is a float64 array of shape \(2, 3\)"),
    (
        lambda: while_loop(lambda c: True, lambda c: {"x": c["x"].sum(0)}, {"x": X}),
        r"while_loop: carry\['x'\] is a float64 array of shape \(2, 3\) before an iteration and a float64 array of shape \(3,\)",
    ),
    (
        lambda: fori_loop(0, 2, lambda i, c: (c[0], c[1] + 0.5), (X, np.int64(0))),
        r"fori_loop: carry\[1\] is an int64 scalar before an iteration and a float64 scalar after it.*astype",
    ),
    (lambda: fori_loop(0, 2, lambda i, c: c > 0, 1), r"carry is a Python int before an iteration and a bool scalar after"),
    (lambda: fori_loop(0, 2, lambda i, c: c * X[0, 0] if i else c + 1j, 0.5 + X), r"a float64 array .* a complex128 array"),
    (lambda: fori_loop(0, 1, lambda i, c: [c], (X,)), r"fori_loop: carry is a list of 1 where a tuple of 1 is expected"),
    (lambda: fori_loop(0.5, 2, lambda i, c: c, X), "'float' object cannot be interpreted as an integer"),
    (lambda: fori_loop(0, 1, lambda i, c: c, {"name": "x"}), r"carry\['name'\] is a str; .* arrays or numbers"),
    (lambda: scan(lambda c, x: (c, x), 0.0, (X, 1.0)), r"xs\[1\] is a Python float: it has no axis 0"),
    (lambda: scan(lambda c, x: (c, x), 0.0, (X, X[:1])), r"xs\[1\] is a float64 array of shape \(1, 3\), where .* length 2"),
    (lambda: scan(lambda c, x: (c, x), 0.0, X, length=3), r"xs is a float64 array of shape \(2, 3\), where .* length 3"),
    (lambda: scan(lambda c, x: (c, x), 0.0), "give length="),
    (lambda: scan(lambda c, x: c, 0.0, X), r"must return a tuple \(carry, y\), not a leaf \(float\)"),
    (
        lambda: scan(lambda c, x: (c + 1, X[:c]), 1, X),
        r"y is a float64 array of shape \(1, 3\) in one iteration and a .*\(2, 3\)",
    ),
    (lambda: scan(lambda c, x: (c + 1, [c] * c), 1, X), r"scan: y has the parts \[0, 1\] where \[0\] are expected"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()
