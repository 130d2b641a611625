"""The names users call: signatures, options, errors, and the looking inside."""

import inspect
import logging
import subprocess
import sys

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.eager import compile_eager


def f(x, /, y=2.0, *args, scale: float = 1.0, **rest):
    """What f does."""
    return x * y * scale + sum(args) + sum(rest.values())


def test_signature_name_and_doc_are_the_users():
    compiled = npc.compile(f)
    assert inspect.signature(compiled) == inspect.signature(f)
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("f", "What f does.", __name__)
    x = np.ones(3)
    for args, kwargs in (
        ((x,), {}),
        ((x, 3), {}),
        ((x, 3, 4, 5), {"scale": 2, "z": 7}),
        ((x,), {"y": 9, "a": 1, "b": 2}),
        ((x,), {"x": 1}),
    ):
        np.testing.assert_array_equal(compiled(*args, **kwargs), f(*args, **kwargs))
    for args, kwargs in (((), {}), ((x, 1), {"y": 2})):
        with pytest.raises(TypeError) as ours:
            compiled(*args, **kwargs)
        with pytest.raises(TypeError) as theirs:
            f(*args, **kwargs)
        assert str(ours.value) == str(theirs.value)


def test_parameters_named_like_our_own():
    def g(s0, t0, G, k_numpy_0, drive):
        return s0 + t0 * G - k_numpy_0 + drive

    compiled = npc.compile(g, dynamic=True)
    args = [np.arange(4.0) + k for k in range(5)]
    np.testing.assert_array_equal(compiled(*args), g(*args))
    np.testing.assert_array_equal(compiled(*args[:4], drive=args[4]), g(*args))


def test_decorator_forms():
    @npc.compile
    def a(x):
        return x + 1

    @npc.compile(backend="eager", fullgraph=True)
    def b(x):
        return x + 1

    assert a(np.ones(1)) == b(np.ones(1)) == 2
    assert npc.compile(a)(np.ones(1)) == 2


def test_methods():
    class Model:
        def __init__(self):
            self.w = np.arange(3.0)

        @npc.compile
        def predict(self, x):
            return x @ self.w

        def score(self, x):
            return x.sum() * self.w

    model = Model()
    np.testing.assert_array_equal(model.predict(np.eye(3)), model.w)
    np.testing.assert_array_equal(npc.compile(model.score)(np.ones(2)), 2 * model.w)


def test_wrong_uses_say_what_to_do():
    with pytest.raises(TypeError, match="takes a Python function, not ufunc"):
        npc.compile(np.sin)
    with pytest.raises(ValueError, match=r"unknown backend 'gpu': choose one of .*eager"):
        npc.compile(f, backend="gpu")
    with pytest.raises(ValueError, match="unknown mode 'fast': choose one of default"):
        npc.compile(f, mode="fast")


def test_any_callable_is_a_backend():
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return compile_eager(graph, example_inputs)

    x = np.arange(3.0)
    np.testing.assert_array_equal(npc.compile(lambda x: x * 2 + 1, backend=backend)(x), x * 2 + 1)
    assert len(graphs) == 1 and "multiply" in str(graphs[0])
    npc.register_backend("recording", backend)
    assert "recording" in npc.list_backends()
    npc.compile(lambda x: x - 1, backend="recording")(x)
    assert len(graphs) == 2


def with_break(x):
    y = np.sin(x) * 2
    n = int(y.sum())
    return y + n


def test_explain():
    report = npc.explain(with_break)(np.ones(4))
    assert len(report.graphs) == 2 and report.ops == tuple(sum(n.op != "input" for n in g.nodes) for g in report.graphs)
    (reason,) = report.breaks
    assert reason.location.line == with_break.__code__.co_firstlineno + 2
    assert "int() of array data" in str(reason) and "test_api.py" in str(reason)
    assert report.seconds["capture"] > 0
    np.testing.assert_array_equal(report.result, with_break(np.ones(4)))
    text = str(report)
    assert "2 graphs, 1 break" in text and "sin(" in text and "x.shape == (4,)" in text


def test_fullgraph_error_names_reason_hint_and_line():
    with pytest.raises(npc.GraphBreakError) as error:
        npc.compile(with_break, fullgraph=True)(np.ones(4))
    line = with_break.__code__.co_firstlineno + 2
    assert f"test_api.py:{line}" in str(error.value) and "stays in the graph" in str(error.value)


def test_fullgraph_does_not_hide_a_long_loop():
    def f(x):
        for _ in range(100):
            x = x + 1
        return x

    with pytest.raises(npc.GraphBreakError, match=r"a loop too long to unroll \(test_api.py:\d+\)"):
        npc.compile(f, fullgraph=True)(np.ones(2))


def test_logs(caplog):
    npc.set_logs(graph_code=True, graph_breaks=True, guards=True)
    try:
        with caplog.at_level(logging.INFO, logger="npcompile"):
            npc.compile(with_break)(np.ones(4))
    finally:
        npc.set_logs()
    topics = {r.name for r in caplog.records}
    assert {"npcompile.graph_code", "npcompile.graph_breaks", "npcompile.guards"} <= topics
    caplog.clear()
    npc.compile(with_break)(np.ones(4))
    assert not caplog.records


def test_logs_from_the_environment():
    program = "import numpy as np, npcompile as npc\nnpc.compile(lambda x: x + int(x.sum()))(np.ones(3))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**__import__("os").environ, "NPCOMPILE_LOGS": "graph_breaks"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "[npcompile.graph_breaks] int() of array data" in done.stderr
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**__import__("os").environ, "NPCOMPILE_LOGS": "nonsense"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "the topics are graph_code" in done.stderr


def test_generators_and_self_inspection_run_as_they_are():
    def generate(x):
        yield x + 1

    def inspects(x):
        y = x + 1
        return sorted(locals())

    assert list(npc.compile(generate)(np.ones(1))) == [2]
    assert npc.compile(inspects)(np.ones(1)) == ["x", "y"]


def test_disabled_functions_are_not_captured():
    @npc.disable
    def plain(x):
        return x + 1

    report = npc.explain(lambda x: plain(x * 2) * 3)(np.ones(3))
    assert len(report.graphs) == 2 and "npcompile.disable" in str(report.breaks[0])
    np.testing.assert_array_equal(report.result, np.full(3, 9.0))


def test_importing_does_not_import_heavy_modules():
    program = "import npcompile, sys; print([m for m in ('torch', 'triton', 'cupy', 'matplotlib', 'pytest') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
