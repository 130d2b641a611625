"""set_stance: what calls do for which nothing is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.test_switch import runs_as_python, stepped

X = np.arange(5.0)


def variants(compiled: Any) -> int:
    return sum(len(point.variants) for point in compiled_function(compiled).points.values())


@pytest.fixture
def compiled() -> Any:
    yield npc.compile(stepped, backend="eager")
    assert npc.config.stance == "default"


def test_run_only(compiled: Any) -> None:
    compiled(X)
    made = variants(compiled)
    assert made
    with npc.set_stance("run_only"):
        np.testing.assert_array_equal(compiled(X + 1), stepped(X + 1))
        for other in (X.astype(np.float32), np.ones((2, 3)), [1.0, 2.0]):
            np.testing.assert_array_equal(compiled(np.asarray(other)), stepped(np.asarray(other)))
        assert variants(compiled) == made
    compiled(X.astype(np.float32))
    assert variants(compiled) > made


def test_what_was_never_called_is_not_compiled(compiled: Any) -> None:
    with npc.set_stance("run_only"):
        np.testing.assert_array_equal(compiled(X), stepped(X))
    assert variants(compiled) == 0


def test_fail_on_recompile_says_what_changed(compiled: Any) -> None:
    compiled(X)
    with npc.set_stance("fail_on_recompile"):
        np.testing.assert_array_equal(compiled(X), stepped(X))
        with pytest.raises(RuntimeError, match=r'stepped is to be compiled at .*"fail_on_recompile".*float32') as raised:
            compiled(X.astype(np.float32))
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    np.testing.assert_array_equal(compiled(X.astype(np.float32)), stepped(X.astype(np.float32)))


def test_fail_before_the_first_call(compiled: Any) -> None:
    with npc.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="not compiled yet"):
        compiled(X)


def test_force_eager(compiled: Any) -> None:
    compiled(X)
    npc.set_stance("force_eager")
    try:
        assert runs_as_python(compiled, X)
    finally:
        npc.set_stance("default")
    assert not runs_as_python(compiled, X)


def test_blocks_within_blocks_and_exceptions() -> None:
    with npc.set_stance("run_only"):
        with pytest.raises(ZeroDivisionError), npc.set_stance("fail_on_recompile"):
            assert npc.config.stance == "fail_on_recompile"
            _ = 1 / 0
        assert npc.config.stance == "run_only"
    assert npc.config.stance == "default"
    with pytest.raises(ValueError, match="unknown stance 'eager': choose one of default, force_eager"):
        npc.set_stance("eager")


def test_the_part_after_a_break_is_not_compiled_either() -> None:
    def broken(x: Any, values: list[Any]) -> Any:
        y = x * 2
        values.append(open)
        print(end="")
        return y + 1

    compiled = npc.compile(broken, backend="eager")
    compiled(X, [])
    made = variants(compiled)
    with npc.set_stance("run_only"):
        np.testing.assert_array_equal(compiled(np.ones((2, 2)), []), np.full((2, 2), 3.0))
        np.testing.assert_array_equal(compiled(X, []), X * 2 + 1)
    assert variants(compiled) == made


def test_explain_compiles_in_any_case() -> None:
    with npc.set_stance("fail_on_recompile"):
        assert npc.explain(stepped)(X).graphs


def square_sum(x: Any) -> Any:
    total = 0.0
    for v in x:
        total = total + v * v
    return total


def cube_sum(x: Any) -> Any:
    return np.sum(x**3)


@pytest.mark.parametrize(("function", "slope"), [(square_sum, lambda x: 2 * x), (cube_sum, lambda x: 3 * x**2)])
def test_derivatives(function: Any, slope: Any) -> None:
    gradient = npc.grad(function)
    with npc.set_stance("run_only"):
        np.testing.assert_allclose(gradient(X), slope(X))
    np.testing.assert_allclose(gradient(X), slope(X))
    with npc.set_stance("fail_on_recompile"):
        np.testing.assert_allclose(gradient(X), slope(X))


def test_torch_calls_run_only_otherwise(compiled: Any) -> None:
    with npc.set_stance("eager_on_recompile"):
        assert npc.config.stance == "run_only"
        np.testing.assert_array_equal(compiled(X), stepped(X))
    assert variants(compiled) == 0


def test_the_second_call_compiles_with_sizes_as_symbols() -> None:
    function = lambda x: np.sin(x) * 2  # noqa: E731
    compiled = npc.compile(function)
    with npc.config.patch(tiers="always"), npc.set_stance("eager_then_compile"):
        for n, wanted in ((5, 0), (6, 1), (7, 1), (5, 1)):
            np.testing.assert_array_equal(compiled(np.ones(n)), function(np.ones(n)))
            assert variants(compiled) == wanted
        compiled(np.ones((5, 2)))  # of another kind: it runs as it is
        assert variants(compiled) == 1
        compiled(np.ones((5, 2)))
        assert variants(compiled) == 2
        assert npc.explain(npc.compile(function))(np.ones(3)).graphs


def test_as_a_decorator(compiled: Any) -> None:
    @npc.set_stance("force_eager")
    def run(x: Any) -> Any:
        """Its own."""
        assert npc.config.stance == "force_eager"
        return compiled(x)

    assert npc.config.stance == "default" and run.__doc__ == "Its own."
    np.testing.assert_array_equal(run(X), stepped(X))
    assert variants(compiled) == 0 and npc.config.stance == "default"


def test_other_words() -> None:
    with pytest.raises(ValueError, match=r"unknown stance 'eager'.*eager_then_compile"):
        npc.set_stance("eager")
    with pytest.raises(ValueError, match="unknown stance 3"):
        npc.set_stance(3)  # type: ignore[arg-type]
