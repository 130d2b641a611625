"""Ufuncs that npcompile has no form of: scipy.special's and others are called in the graph, and give what they give outside."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy._core._umath_tests import cross1d, cumsum, inner1d, matrix_multiply
from scipy import special

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tensor_core.ops.special import DERIVATIVES, function_of

KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "int64": lambda x: (x * 4).astype(np.int64),
    "complex128": lambda x: x + 0.25j,
    "float": lambda x: float(x[0]),
    "np.float32": lambda x: np.float32(x[0]),
    "0-D": lambda x: np.array(x[0]),
    "F order": lambda x: np.asfortranarray(np.outer(x, x)),
    "empty": lambda x: x[:0],
}


def samples(function: np.ufunc) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.15, 0.85, 6) for _ in range(function.nin)]


def assert_same(given: Any, expected: Any) -> None:
    assert type(given) is type(expected)
    if isinstance(expected, tuple):
        assert len(given) == len(expected)
        for one, other in zip(given, expected):
            assert_same(one, other)
        return
    assert given.dtype == expected.dtype
    np.testing.assert_array_equal(given, expected)
    if isinstance(expected, np.ndarray):
        assert given.strides == expected.strides


def is_whole(function: Any) -> bool:
    """Is it one graph, without breaks?"""
    found = compiled_function(function)
    return len(found.graphs) == 1 and not found.breaks


@pytest.fixture(autouse=True)
def _compiled_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npc.config, "tiers", "always")
    monkeypatch.setattr(npc.config, "accuracy", "bitwise")  # some are computed in kernels else: see cpu/test_special_functions.py


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_scipys(kind: str) -> None:
    """Of each function that has a derivative, alone and between kernels."""
    count = 0
    for name in DERIVATIVES:
        function = function_of(name)
        assert function is not None, name
        operands = [KINDS[kind](x) for x in samples(function)]
        try:
            expected = function(*operands)
        except TypeError:  # no loop for complex numbers
            continue

        def call(*xs: Any, function: np.ufunc = function) -> Any:
            return function(*xs)

        def between(*xs: Any, function: np.ufunc = function) -> Any:
            made = function(*(x * 0.5 for x in xs))
            return (made if isinstance(made, np.ndarray | np.generic) else made[-1]) * 2 + 1

        for each in (call, between):
            compiled = npc.compile(each)
            for _ in range(2):
                assert_same(compiled(*operands), expected if each is call else each(*operands))
            assert is_whole(compiled), (name, compiled_function(compiled).breaks)
        count += 1
    assert count > (15 if kind == "complex128" else len(DERIVATIVES) - 1)


def test_sizes_that_change_are_one_program() -> None:
    compiled = npc.compile(lambda x, y: special.xlogy(x, y) + 1)
    for n in (3, 4, 5, 6):
        x = np.linspace(0.5, 1, n)
        assert_same(compiled(x, x[:, None]), special.xlogy(x, x[:, None]) + 1)
    assert len(compiled_function(compiled).graphs) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: special.erf(x, out),
        lambda x, out: special.erf(x, out=out),
        lambda x, out: special.erf(x.astype(np.float32), out=out),
        lambda x, out: special.erf(x, dtype=np.float32),
        lambda x, out: special.erf(x, signature="f->f", casting="same_kind"),
        lambda x, out: special.erf(0.5, dtype=np.float32) + x,
        lambda x, out: special.erf(x[0], out=...),
        lambda x, out: special.xlogy(x, 2),
        lambda x, out: special.xlogy(x.astype(np.float32), 2.5),
        lambda x, out: special.xlogy(3, x),
        lambda x, out: special.gamma([1, 2.5, 4]) + x[0],
        lambda x, out: special.sici(x)[1] - special.sici(x)[0],
    ],
)
def test_keywords_outputs_and_numbers(call: Callable[..., Any]) -> None:
    compiled = npc.compile(call)
    x = np.linspace(0.25, 2, 6)
    for _ in range(2):
        outs = np.zeros(6), np.zeros(6)
        expected, given = call(x, outs[0]), compiled(x, outs[1])
        assert_same(given, expected)
        assert_same(outs[1], outs[0])
        assert (given is outs[1]) == (expected is outs[0])
    assert is_whole(compiled), compiled_function(compiled).breaks


@pytest.mark.parametrize(
    "call",
    [
        lambda x: special.erf(x, where=x > 1, out=np.zeros_like(x)),
        lambda x: special.erf(x, out=np.zeros(6, np.float32), casting="unsafe"),
        lambda x: special.sici(x, out=(np.zeros(6), np.zeros(6))),
        lambda x: special.erf(x, order="F"),
        lambda x: special.erf(x.astype(object) if x.size > 99 else x, out=np.zeros((2, 6))),
        lambda x: special.expn(2, x),
        lambda x: np.frompyfunc(lambda a: a + 1, 1, 1)(x),
    ],
)
def test_what_is_left_to_scipy_has_its_result(call: Callable[..., Any]) -> None:
    compiled = npc.compile(call)
    x = np.linspace(0.25, 2, 6)
    for _ in range(2):
        assert_same(compiled(x), call(x))


def test_numbers_that_are_truncated_warn_on_the_users_line() -> None:
    def call(x: Any) -> Any:
        return special.expn(1.5, x) + 1

    compiled, seen = npc.compile(call), []
    for each in (call, compiled, compiled):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            each(np.ones(3))
        seen.append([(str(w.message), w.filename, w.lineno) for w in found])
    assert seen[0] and seen[1] == seen[0] and seen[2] == seen[0]


def test_errors_that_scipy_is_asked_for() -> None:
    def call(x: Any) -> Any:
        return special.gammaln(x * 2) + 1

    compiled, poles = npc.compile(call), np.array([-1.0, 0.0, 2.0])
    assert_same(compiled(poles), call(poles))
    with special.errstate(all="raise"):
        for each in (call, compiled):
            with pytest.raises(special.SpecialFunctionError, match="singularity"):
                each(poles)
    fresh, seen = npc.compile(call), []
    with special.errstate(all="warn"):
        for each in (call, fresh, fresh):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                each(poles)
            seen.append([(str(w.message), w.filename, w.lineno) for w in found])
    assert seen[0] and seen[1] == seen[0] and seen[2] == seen[0]
    assert_same(compiled(poles), call(poles))


def test_floating_point_errors_of_other_ufuncs_are_reported() -> None:
    compiled = npc.compile(lambda x: np.spacing(x) + np.vecdot(x, x))
    x = np.array([1.0, 1e200])
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        compiled(x)


def test_constants_are_computed_once_but_not_by_python_functions() -> None:
    seen: list[Any] = []
    noted = np.frompyfunc(lambda a: seen.append(a) or a, 1, 1)
    compiled = npc.compile(lambda x: x + special.gamma(0.5) + special.sici([1.0, 2.0])[0])
    x = np.ones(2)
    assert_same(compiled(x), x + special.gamma(0.5) + special.sici([1.0, 2.0])[0])
    assert is_whole(compiled)
    remembers = npc.compile(lambda x: (noted(3), x * 2)[1])
    for count in (1, 2, 3):
        assert_same(remembers(x), x * 2)
        assert seen == [3] * count
    pole = npc.compile(lambda x: x + special.gammaln(0.0))
    with special.errstate(all="raise"), pytest.raises(special.SpecialFunctionError, match="singularity"):
        pole(x)
    assert_same(pole(x), x + np.inf)


class Answers:
    """A class with its own answer to ufuncs."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> str:
        return f"{ufunc.__name__} {method} {len(inputs)}"


class Doubled(np.ndarray):
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **keywords) * 2


def test_classes_answer_for_themselves() -> None:
    compiled = npc.compile(lambda x: special.erf(x))
    for _ in range(2):
        assert compiled(Answers()) == "erf __call__ 1"
        x = np.ones(3)
        assert_same(compiled(x.view(Doubled)), special.erf(x) * 2)
        assert_same(compiled(x), special.erf(x))


def test_generalized_ufuncs() -> None:
    def call(a: Any, b: Any) -> Any:
        return inner1d(a, b) + matrix_multiply(a[None], b.reshape(-1, 1))[..., 0]

    compiled, a = npc.compile(call), np.arange(12.0).reshape(3, 4)
    assert_same(compiled(a, a[0]), call(a, a[0]))
    assert not compiled_function(compiled).breaks
    with pytest.raises(ValueError, match="core dimension"):
        compiled(a, np.ones(3))
    for other in (lambda a: cumsum(a, axis=0), lambda a: cross1d(a[:, :3], a[:, 1:]), lambda a: inner1d(a, a, axes=[0, 0, ()])):
        assert_same(npc.compile(other)(a), other(a))


def test_methods_of_others_still_run() -> None:
    compiled = npc.compile(lambda x: special.xlogy.outer(x, x) + 1)
    x = np.linspace(0.5, 2, 3)
    assert_same(compiled(x), special.xlogy.outer(x, x) + 1)


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_in_branches_and_loops(backend: str) -> None:
    def call(x: Any) -> Any:
        for _ in range(3):
            x = special.expit(x) if x.sum() > 2 else special.erf(x) + 0.1
        return x

    compiled = npc.compile(call, backend=backend)
    for scale in (0.1, 1.0, 10.0):
        x = np.linspace(0, scale, 5)
        assert_same(compiled(x), call(x))
