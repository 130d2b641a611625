"""The names users call: signatures, options, errors, and the looking inside."""

import functools
import gc
import inspect
import logging
import math
import operator
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.eager import compile_eager
from npcompile.compiler import compiled_function
from npcompile.tracer import function as function_module
from npcompile.tracer.bytecode.analysis import analyse

X = np.linspace(0.5, 1.5, 5)


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


# --- what else than a function is compiled


def scaled(x, scale=2.0, *, shift=0.0):
    return np.exp(x) * scale + shift


def graphs(compiled):
    return len(compiled_function(compiled).graphs)


def test_partials():
    given = functools.partial(scaled, scale=3.0, shift=1.0)
    compiled = npc.compile(functools.partial(given, shift=2.0), backend="eager", fullgraph=True)
    assert isinstance(compiled, functools.partial) and compiled.keywords == {"scale": 3.0, "shift": 2.0}
    np.testing.assert_array_equal(compiled(X), scaled(X, 3.0, shift=2.0))
    np.testing.assert_array_equal(compiled(X, shift=5), scaled(X, 3.0, shift=5))
    assert graphs(compiled.func) and compiled_function(compiled.func).options.fullgraph
    assert npc.compile(functools.partial(np.clip, a_min=0)).func is np.clip
    assert len(npc.explain(given)(X).graphs) == 1
    np.testing.assert_allclose(npc.grad(functools.partial(scaled, scale=3.0))(1.0), 3 * np.exp(1.0), rtol=2e-15)


def test_caches():
    calls = []

    @npc.compile(backend="eager")
    @functools.lru_cache(maxsize=4)
    def table(n, step=1.0):
        calls.append(n)
        return np.cumsum(np.arange(n) * step)

    first = table(5)
    assert table(5) is first and calls == [5] and table.cache_info().hits == 1
    np.testing.assert_array_equal(first, np.cumsum(np.arange(5.0)))
    assert table.cache_parameters()["maxsize"] == 4 and compiled_function(table.__wrapped__)
    table.cache_clear()
    assert table(5) is not first and calls == [5, 5]
    np.testing.assert_array_equal(npc.compile(lambda n: table(n) * 2, backend="eager")(5), first * 2)


def test_static_and_class_methods():
    class Model:
        w = 3.0

        @npc.compile(backend="eager")
        @staticmethod
        def plain(x):
            return x + 1

        @npc.compile(backend="eager")
        @classmethod
        def made(cls, x):
            return x * cls.w

        @classmethod
        @npc.compile(backend="eager")
        def below(cls, x):
            return x - cls.w

    class Other(Model):
        w = 5.0

    for model in (Model, Model(), Other, Other()):
        np.testing.assert_array_equal(model.plain(X), X + 1)
        np.testing.assert_array_equal(model.made(X), X * model.w)
        np.testing.assert_array_equal(model.below(X), X - model.w)
        np.testing.assert_array_equal(npc.compile(model.made, backend="eager")(X), X * model.w)
    assert all(graphs(f) for f in (Model.plain, Model.made, Model.below))


@pytest.mark.parametrize(
    "function", [np.sin, np.add.reduce, np.dot, np.mean, np.linalg.norm, math.sin, len, operator.itemgetter(0), X.sum, "".join]
)
def test_what_has_no_python_code_is_left_as_it_is(function):
    assert npc.compile(function) is function
    assert npc.compile(backend="eager", fullgraph=True)(function) is function


def test_objects_whose_call_is_no_python_function():
    class Called:
        __call__ = np.sin

    class Partly:
        __call__ = staticmethod(functools.partial(scaled, scale=4.0))  # since CPython 3.14 a partial is bound as a function is

    for made in (Called(), Partly()):
        np.testing.assert_array_equal(npc.compile(made)(X), made(X))


def test_wrappers_of_compiled_functions_are_functions_of_their_own():
    """functools.wraps copies the attributes of what it wraps."""

    @npc.compile
    def inner(x):
        return x + 1

    for wrapped in (inner, npc.wrap_numpy(lambda x: np.sin(x)), npc.compile(npc.wrap_numpy(lambda x: np.cos(x)))):

        @functools.wraps(wrapped)
        def twice(x):
            return wrapped(x) * 2

        x = npc.tensor(X)
        compiled = npc.compile(twice, backend="eager")
        for function in (twice, compiled, npc.compile(lambda x: twice(x), backend="eager")):
            np.testing.assert_allclose(np.asarray(function(x)), np.asarray(wrapped(x)) * 2, rtol=1e-15)
        assert compiled_function(compiled).user is twice


def test_wrong_uses_say_what_to_do():
    for wrong in (3, "f", dict, np.ndarray):
        with pytest.raises(TypeError, match=f"takes a function, not {type(wrong).__name__}"):
            npc.compile(wrong)
    with pytest.raises(ValueError, match="unknown backend 'gpu'"):
        npc.compile(np.sin, backend="gpu")
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

    refused = pytest.raises(npc.GraphBreakError, match=r"a loop too long to unroll \(test_api.py:\d+\)")
    with refused, npc.config.patch(native_loops=False):
        npc.compile(f, fullgraph=True)(np.ones(2))


def smoothing(x, alpha):
    out, s = np.empty_like(x), x[0]
    for i in range(x.size):
        s = alpha * x[i] + (1 - alpha) * s
        out[i] = s
    return out


def triangular_solve(a, b):
    x = np.zeros_like(b)
    for i in range(b.size):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x


@pytest.mark.parametrize(
    ("f", "args"), [(smoothing, (np.arange(90.0), 0.5)), (triangular_solve, (np.eye(40) + 1, np.arange(40.0)))]
)
def test_a_loop_that_runs_without_python_is_no_break(f, args):
    compiled = npc.compile(f, fullgraph=True)
    np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-12)
    (variant,) = next(iter(compiled_function(compiled).points.values())).variants
    assert variant.graph is None and any(x.name == "compiled without Python" for x in variant.compiled.passes)


def test_errors_of_a_loop_without_python_are_pythons():
    compiled = npc.compile(smoothing, fullgraph=True)
    for _ in range(2):
        with pytest.raises(IndexError) as error:
            compiled(np.ones(0), 0.5)
        assert error.traceback[-1].frame.code.name == "smoothing"


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


WITHOUT_DEVICE = """
import sys, warnings
import numpy as np
import npcompile as npc

sys.modules["cupy"] = None  # as where it is not installed
compiled = [npc.compile(lambda x, k=k: x * k + 1, backend="cuda") for k in range(3)]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for k, f in enumerate(compiled):
        for _ in range(2):
            assert (f(np.ones(3)) == k + 1).all()
print(*(w.message for w in caught), sep="\\n")
for make in (lambda: npc.compile(lambda x: x + 1, backend="cuda", fullgraph=True)(np.ones(3)), npc.device("cuda").__enter__):
    try:
        make()
    except RuntimeError as error:
        print(error)
"""


def test_what_a_cuda_device_needs_is_said_once():
    done = subprocess.run([sys.executable, "-c", WITHOUT_DEVICE], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and lines[0].startswith("Functions compiled for a CUDA device run uncompiled: ")
    for line in lines:
        assert "CuPy is not installed: pip install triton cupy-cuda12x" in line and "mistake" not in line


# --- functions that are decorated and not called yet

SOURCE = "def uncalled_{0}(x, k={0}):\n    for n in range(len(x)):\n        x = x * k + np.sin(x)\n    return x\n"


def functions(count):
    namespace = {"np": np}
    for k in range(count):
        exec(SOURCE.format(k), namespace)
    return [namespace[f"uncalled_{k}"] for k in range(count)]


def test_decorating_keeps_little():
    plain = functions(200)
    npc.compile(plain[0])
    tracemalloc.start()
    try:
        kept = [npc.compile(f) for f in plain]
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / len(kept) < 4096


def test_the_code_is_read_at_the_first_call(monkeypatch):
    (plain,) = functions(1)
    read = []
    monkeypatch.setattr(function_module, "analyse", lambda code: read.append(code) or analyse(code))
    compiled = npc.compile(plain)
    npc.reset()  # which gives the entry another CompiledFunction
    assert not read and not compiled_function(compiled).points
    with npc.disabled():
        compiled(X)
    assert not read
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(compiled, [X] * 4)]
    assert read == [plain.__code__]
    for result in results:
        np.testing.assert_allclose(result, plain(X), rtol=1e-14)


def test_run_only_before_the_first_call():
    compiled = npc.run_only(npc.compile(f))
    np.testing.assert_array_equal(compiled(X), f(X))
    assert [(point.variants, point.is_native) for point in compiled_function(compiled).points.values()] == [([], True)]


def test_checks_that_begin_before_the_first_call(monkeypatch):
    compiled = npc.compile(f)
    monkeypatch.setattr(npc.config, "check", 1.0)
    np.testing.assert_array_equal(compiled(X), f(X))
    np.testing.assert_array_equal(compiled(X), f(X))
    assert compiled_function(compiled).current.enter.checks == 2
