"""Functions of hundreds of straight statements: right, and the work of compiling them grows as they do."""

import sys

import numpy as np
import pytest

import npcompile as npc
from benchmarks.compile_time import FAMILIES, function
from npcompile.backends.kernels.groups import form_groups, is_orderable, order_groups, producers_of
from npcompile.backends.kernels.schedule import choose_anchors, layouts_of, results_of
from npcompile.compiler import compiled_function
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tracer import profitability


def compiled_call(family, count):
    """What a compiled function of that many statements gave, what NumPy gave, and the calls of Python functions it took."""
    plain, arguments = function(family, count)
    compiled, calls = npc.compile(plain), 0

    def counted(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        result = compiled(*arguments())
    finally:
        sys.setprofile(None)
    sources = [v.compiled.generated for p in compiled_function(compiled).points.values() for v in p.variants if v.compiled]
    text = sum(len(source.split("*/", 1)[1]) for source in sources)  # after the comment
    return result, plain(*arguments()), calls, text


@pytest.mark.parametrize("family", FAMILIES)
def test_the_work_grows_as_the_function_does(family):
    compiled_call(family, 20)  # what is made once
    measured = [compiled_call(family, count) for count in (40, 120)]
    for result, expected, _, _ in measured:
        np.testing.assert_allclose(result, expected, rtol=1e-13)
    (_, _, few_calls, short), (_, _, many_calls, long) = measured
    assert many_calls < 3.5 * few_calls
    assert long < 3.5 * short


@pytest.mark.parametrize("family, most", [("element stores", 2), ("slices", 10), ("dict reads", 20), ("many results", 20)])
def test_statements_that_differ_in_numbers_are_one_kernel(family, most):
    plain, arguments = function(family, 200)
    compiled = npc.compile(plain)
    np.testing.assert_allclose(compiled(*arguments()), plain(*arguments()), rtol=1e-13)
    ((_, graph),) = compiled_function(compiled).graphs
    assert len(set(graph.kernels)) <= most


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, -0.0, 1e308])
def test_numbers_that_are_arguments_of_a_kernel(special):
    """Each statement has its own number, and one of them is special."""
    numbers = [float(k) for k in range(30)]
    numbers[17] = special
    namespace = {"numbers": numbers, "inf": np.inf, "nan": np.nan}
    exec("def f(y, x):\n" + "".join(f"    y[{k}] = x[{k}] * {n!r}\n" for k, n in enumerate(numbers)), namespace)
    plain = namespace["f"]
    x = np.linspace(1, 2, 30)
    ours, theirs = np.zeros(30), np.zeros(30)
    with np.errstate(all="ignore"):
        npc.compile(plain)(ours, x)
        plain(theirs, x)
    np.testing.assert_array_equal(ours.view(np.int64), theirs.view(np.int64))


def test_an_error_in_one_of_many_runs_of_a_kernel():
    plain, arguments = function("element stores", 100)
    y, x, _ = arguments()
    x[77] = np.inf
    compiled = npc.compile(plain)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        compiled(y, x, 0.0)
    expected = np.zeros_like(y)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        plain(expected, x, 0.0)
    np.testing.assert_array_equal(y, expected)


def test_order_of_groups():
    """What overwrites memory comes after all that reads it, whatever the order in which it was written."""
    builder = Builder()
    meta = TensorMeta((5,), np.dtype(float), (8,))
    y, x = builder.input(meta), builder.input(meta)
    size = {"start": (0,), "step": (1,)}
    first = builder.apply("slice_update", y, builder.apply("sin", x), **size)
    second = builder.apply("slice_update", first, builder.apply("cos", x), **size)
    reads = [builder.apply("reduce", builder.apply("multiply", y, z), reducer="add", axes=(0,)) for z in (x, y, first)]
    graph = builder.finish(reads, writes=[(0, second)])
    results = results_of(graph)[::-1]  # the last is scheduled first
    layouts = layouts_of(results)
    anchors = choose_anchors(graph, results, layouts)
    grouping = form_groups(graph, anchors, {n: layouts[n] for n in anchors})
    assert is_orderable(grouping.groups, producers_of(grouping))
    order = order_groups(grouping, results)
    place = {m: group.position for group in order for m in group.members}
    assert sorted(group.position for group in order) == [*range(len(order))] and len(order) == len(grouping.groups)
    assert all(place[n] < place[second] for n in (*reads, first))
    assert place[reads[0]] < place[first] and place[reads[1]] < place[first] < place[reads[2]]


@pytest.mark.parametrize("signature", ["y, x, c", "y, *, x, c", "y, x, **named"])
def test_a_function_that_is_too_long_runs_as_it_is(monkeypatch, signature):
    monkeypatch.setattr(profitability, "LONGEST_CODE", 1000)
    lines = ["c = 0.5" if "named" in signature else "pass", *(f"y[{k}] = x[{k}] * c + {k}" for k in range(90)), "return y"]
    namespace = {}
    exec(f"def f({signature}):\n" + "".join(f"    {line}\n" for line in lines), namespace)
    plain, x = namespace["f"], np.linspace(0, 1, 90)
    compiled = npc.compile(plain)
    for _ in range(2):
        ours = compiled(np.zeros(90), x=x, c=0.5)
        np.testing.assert_array_equal(ours, plain(np.zeros(90), x=x, c=0.5))
    with pytest.raises(IndexError) as error:
        compiled(np.zeros(9), x=x, c=0.5)
    assert [frame.name for frame in error.traceback][1:] == ["f"]
    known = compiled_function(compiled)
    assert known.is_left and not known.points and not known.graphs
    assert "too long to compile" in str(npc.explain(plain)(np.zeros(90), x=x, c=0.5))
    npc.reset()
    np.testing.assert_array_equal(compiled(np.zeros(90), x=x, c=0.5), ours)


def test_a_call_of_a_function_that_is_too_long(monkeypatch):
    monkeypatch.setattr(profitability, "LONGEST_CODE", 1000)
    namespace = {}
    exec(
        "def f(y, x):\n"
        + "".join(f"    y[{k}] = x[{k}] + {k}\n" for k in range(90))
        + "def g(y, x):\n    f(y, x * 2)\n    return y * 3\n",
        namespace,
    )
    compiled, x = npc.compile(namespace["g"]), np.linspace(0, 1, 90)
    np.testing.assert_array_equal(compiled(np.zeros(90), x), namespace["g"](np.zeros(90), x))
    assert ["f is too long to compile" in found.reason for found in compiled_function(compiled).breaks] == [True]


def test_what_is_too_long_steps_aside_for_good(monkeypatch):
    """Its code is not even read, which may take longer than all its calls."""
    monkeypatch.setattr(profitability, "LONGEST_CODE", 1000)
    namespace = {}
    exec("def f(x):\n" + "".join(f"    x = x + {k}\n" for k in range(300)) + "    return x\n", namespace)
    compiled = npc.compile(namespace["f"])
    known = compiled_function(compiled)
    compiled(1)
    with npc.config.patch(tiers="measured"):
        known.current.be(known, known)
        known.current.step_aside(known, 1)
        assert compiled.__code__ is known.current.aside
        assert [compiled(k) for k in range(9)] == [sum(range(300)) + k for k in range(9)]
        assert compiled.__code__.co_code == namespace["f"].__code__.co_code
        assert compiled_function(compiled) is known
    npc.reset()
    assert compiled.__code__ is not known.current.aside
    assert compiled(2) == sum(range(300)) + 2
