"""What users say about compiling: disable, allow_in_graph, disallow_in_graph, graph_break, run_only, reset, config."""

import gc
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import compiler
from npcompile.compiler import compiled_function
from npcompile.tracer.python import allowed
from npcompile.tracer.python.calls import BUILTINS
from npcompile.tracer.recompiles import changed

X = np.arange(1.0, 5.0)


def counts(function: Callable[..., Any], *args: Any) -> tuple[int, int]:
    """Graphs and breaks of one call, whose result is compared."""
    report = npc.explain(function)(*args)
    np.testing.assert_allclose(report.result, function(*args), rtol=1e-14)
    return len(report.graphs), len(report.breaks)


# --- disable


def inner(x):
    return np.sin(x) + 1


@npc.disable
def disabled(x):
    return inner(x * 2) * 3


@npc.disable(recursive=False)
def disabled_itself(x):
    kept = [inner, inner(x * 2)]
    for k in range(2):
        kept.append(inner(kept[-1]) * k)
    return kept[0] is inner, kept[-1], np.cos(inner(x=x))


def calls_disabled(x):
    return disabled(x + 1) - 1


def calls_disabled_itself(x):
    return disabled_itself(x + 1)


def test_disable() -> None:
    assert npc.compile(disabled) is disabled
    assert counts(calls_disabled, X) == (2, 1)
    compiled = npc.compile(calls_disabled, backend="eager")
    compiled(X)
    assert not compiled_function(compiled).callees


def test_disable_a_compiled_function() -> None:
    def f(x):
        return x + 1

    assert npc.disable(npc.compile(f)) is f
    assert counts(lambda x: f(x) * 2, X)[1] == 1


def test_disable_itself_compiles_what_it_calls() -> None:
    npc.reset()
    gc.collect()
    assert npc.compile(disabled_itself) is disabled_itself
    compiled = npc.compile(calls_disabled_itself, backend="eager")
    for x in (X, X * 2):
        ours, theirs = compiled(x), calls_disabled_itself(x)
        assert ours[0] is theirs[0] is True
        np.testing.assert_array_equal(ours[1:], theirs[1:])
    (native,) = compiled_function(compiled).callees.values()
    assert compiled_function(native) is None
    callees = [c for c in compiler.all_compiled() if c.user is inner]
    assert [len(c.graphs) for c in callees] == [1]


def test_disabled_function_raises_on_its_own_line() -> None:
    @npc.disable(recursive=False)
    def g(x):
        y = inner(x)
        return y[10]

    with pytest.raises(IndexError) as error:
        npc.compile(lambda x: g(x + 1), backend="eager")(X)
    assert error.traceback[-1].frame.code.name == "g"


# --- graph_break


def test_graph_break() -> None:
    def f(x):
        y = x + 1
        npc.graph_break()
        return y * 2

    assert counts(f, X) == (2, 1)


# --- allow_in_graph, disallow_in_graph


@pytest.fixture
def named() -> Iterator[None]:
    """What a test names is forgotten at its end."""
    before = dict(BUILTINS)
    yield
    BUILTINS.clear()
    BUILTINS.update(before)
    allowed._before.clear()


CALLS: list[int] = []


def smooth(x, width=1, *, scale=None):
    CALLS.append(len(x))
    made = np.array([sum(x[max(k - width, 0) : k + width + 1]) for k in range(len(x))])
    return made if scale is None else made * scale["k"]


def parts(x):
    return x[0] + 0, np.sort(x), [x][0].sum(keepdims=True)


def picks(x):
    return x[x > 2.5]


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_allow_in_graph(backend: str) -> None:
    assert npc.allow_in_graph(smooth) is smooth
    npc.allow_in_graph(parts)

    def f(x):
        a, b, c = parts(smooth(x + 1, 2, scale={"k": x}) * 2)
        return a * b + c, smooth(x)

    compiled = npc.compile(f, backend=backend, fullgraph=True)
    for x in (X, X * 2, np.arange(9.0)):
        for ours, theirs in zip(compiled(x), f(x)):
            np.testing.assert_array_equal(ours, theirs)
    assert len(compiled_function(compiled).graphs) == 2
    CALLS.clear()
    compiled(X)
    assert len(CALLS) == 2


@pytest.mark.usefixtures("named")
def test_allowed_functions_that_give_what_ones_do_not() -> None:
    npc.allow_in_graph(picks)

    def f(x):
        return picks(x * 2) + 1

    compiled = npc.compile(f)
    for x in (X, -X, X + 9):
        np.testing.assert_array_equal(compiled(x), f(x))


@pytest.mark.usefixtures("named")
def test_allowed_functions_that_raise() -> None:
    @npc.allow_in_graph
    def checked(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return np.sqrt(x)

    @npc.allow_in_graph
    def never(x):
        raise KeyError("never")

    @npc.allow_in_graph
    def text(x):
        return "text"

    def f(x):
        return checked(x * 2) + 1

    compiled = npc.compile(f)
    np.testing.assert_array_equal(compiled(X), f(X))
    for function, x, kind in ((f, -X, ValueError), (lambda x: never(x), X, KeyError)):
        with pytest.raises(kind) as error:
            npc.compile(function)(x)
        assert error.traceback[1].path.name == "test_settings.py"
    assert npc.compile(lambda x: text(x))(X) == "text"


@pytest.mark.usefixtures("named")
def test_disallow_in_graph() -> None:
    def f(x):
        return np.sin(x) + np.cos(x)

    assert counts(f, X) == (1, 0)
    assert npc.disallow_in_graph(np.cos) is np.cos
    report = npc.explain(f)(X)
    assert len(report.graphs) == 2 and "cos is named in npcompile.disallow_in_graph" in str(report.breaks[0])
    npc.allow_in_graph(np.cos)
    assert counts(f, X) == (1, 0)
    with pytest.raises(TypeError, match="a function is needed"):
        npc.disallow_in_graph(3)  # type: ignore[type-var]


# --- run_only, reset


def test_run_only_holds_for_later_points_and_callees() -> None:
    def other(x):
        for _ in range(100):
            x = x + float(x[0])
        return x

    def f(x, n):
        y = x + 1
        if n > 3:
            y = y * float(y[0])
        return other(y) * 2

    compiled = npc.compile(f, backend="eager")
    compiled(X, 1)
    known = compiled_function(compiled)
    count = len(known.graphs), [len(compiled_function(c).graphs) for c in known.callees.values()]
    assert npc.run_only(compiled) is compiled
    for args in ((X, 1), (X, 7), (X.astype(np.float32), 1), (np.ones(9), 5)):
        np.testing.assert_array_equal(compiled(*args), f(*args))
    assert count == (len(known.graphs), [len(compiled_function(c).graphs) for c in known.callees.values()])
    npc.reset()
    compiled(X, 7)
    assert known.graphs
    with pytest.raises(TypeError, match="takes a function returned by npcompile"):
        npc.run_only(f)


# --- config


def test_config() -> None:
    with npc.config.patch(recompile_limit=2, internal_errors="raise"):
        assert (npc.config.recompile_limit, npc.config.internal_errors) == (2, "raise")
        with pytest.raises(ValueError, match="unknown internal_errors 'hide': choose one of warn, raise"):
            npc.config.internal_errors = "hide"
    assert npc.config.recompile_limit == 8
    with pytest.raises(AttributeError, match="no setting 'limit': choose one of recompile_limit"):
        npc.config.limit = 3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="recompile_limit"):
        npc.config.recompile_limit = -1
    with pytest.raises(ValueError, match="fallback_random is True or False, not 0"):
        npc.config.fallback_random = 0  # type: ignore[assignment]


CHANGES: list[tuple[Callable[..., Any], list[tuple[Any, ...]], str]] = [
    (lambda x, name: getattr(x, name)(), [(X, "sum"), (X, "max"), (X, "min")], r"name == 'max', but name is 'min'"),
    (lambda x: x + 1, [(X,), (X.astype(int),), (X.astype("f4"),)], r"x\.dtype is .*, but x\.dtype is dtype\('float32'\)"),
    (lambda x, k: x + k, [(X, 1), (X, 2.0), (X, None)], r"type\(k\) is float, but type\(k\) is NoneType"),
    (lambda x: x + 1, [(X,), (X[None],), (X[None, None],)], r"x\.shape == \(1, 4\), but x\.shape is \(1, 1, 4\)"),
    (lambda x, d: x + d["a"], [(X, {"a": 1}), (X, {"a": 2.5}), (X, {"b": 3})], r"'a' in d, but d is \{'b': 3\}"),
    (lambda x, d: x + len(d), [(X, {}), (X, {"a": 1}), (X, {"b": 1})], r"\[\*d\] == \['a'\], but \[\*d\] is \['b'\]"),
    (
        lambda x, n: x * 2 if n > 3 else x + n,
        [(X, 5), (X, 1), (X, True)],
        r"type\(n\) is int, but type\(n\) is bool",
    ),
]


@pytest.mark.parametrize(("function", "calls", "text"), CHANGES)
def test_what_changed_names_the_guard_and_the_value(function: Any, calls: list[tuple[Any, ...]], text: str) -> None:
    compiled = npc.compile(function, backend="eager")
    *earlier, last = calls
    for args in earlier:
        compiled(*args)
    start = min(compiled_function(compiled).points.values(), key=lambda p: p.number)
    found = changed(start, last)
    assert any(re.search(text, each) for each in found), found


@pytest.mark.parametrize(("function", "calls", "text"), [CHANGES[4]])
def test_the_warning_names_the_guard_and_the_value(function: Any, calls: list[tuple[Any, ...]], text: str) -> None:
    compiled = npc.compile(function, backend="eager")
    with npc.config.patch(recompile_limit=2), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for args in [*calls, *calls]:
            try:
                expected = function(*args)
            except (TypeError, KeyError) as error:
                with pytest.raises(type(error)):
                    compiled(*args)
            else:
                np.testing.assert_array_equal(compiled(*args), expected)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).startswith("<lambda> was compiled 2 times at test_settings.py:")
    assert re.search(text, str(warning.message)), warning.message


def test_the_limit_is_that_of_a_place() -> None:
    def f(x, b):
        y = x + 1
        npc.graph_break()
        return y * b.sum()

    compiled = npc.compile(f, backend="eager", dynamic=False)
    with npc.config.patch(recompile_limit=3), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(8):
            np.testing.assert_array_equal(compiled(X, np.ones(k)), f(X, np.ones(k)))
    assert len({str(w.message).split(" and runs")[0] for w in caught}) == len(caught) > 0
    assert "b.shape == (2,), but b.shape is (3,)" in str(caught[0].message)
    start = min(compiled_function(compiled).points.values(), key=lambda p: p.number)
    assert len(start.variants) == 1 and not start.is_native


def test_mistakes_of_ours_do_not_stop_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("this cannot be")

    compiled, loud = npc.compile(inner, backend="eager"), npc.compile(inner, backend="eager")
    monkeypatch.setattr("npcompile.tracer.graph_variants.with_backward", mistaken)
    message = "Internal error of npcompile while capturing inner at .*AssertionError: this cannot be"
    with npc.config.patch(internal_errors="warn"), pytest.warns(RuntimeWarning, match=message):
        np.testing.assert_array_equal(compiled(X), inner(X))
    np.testing.assert_array_equal(compiled(X), inner(X))
    with npc.config.patch(internal_errors="raise"), pytest.raises(AssertionError, match="this cannot be"):
        loud(X)
