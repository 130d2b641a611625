"""Compiled functions called with arrays and Tensors that are on a device."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.device_arrays import array_kind
from npcompile.backends.eager import compile_eager
from npcompile.compiler import compiled_function
from tests.backends import NO_DEVICE
from tests.cuda.interpreted import DeviceArray
from tests.cuda.there import There, calls, same, there  # noqa: F401  (fixtures)
from tests.gradients import test_programs
from tests.shim.harness import compare_aliasing, flatten
from tests.tracer import tensor_harness
from tests.tracer.breaks import test_breaks, test_tensor_breaks
from tests.tracer.bytecode import test_control_flow
from tests.tracer.harness import clone, run
from tests.tracer.python import test_functions
from tests.tracer.tensors import test_tensor_gradients, test_tensor_transforms, test_tensors, test_training, test_wrap_numpy

X = np.random.default_rng(0).standard_normal((12, 9))


def test_arrays_stay_on_the_device(there: There) -> None:  # noqa: F811
    @npc.compile
    def f(x):
        return np.sin(x) * 2, x.sum()

    for _ in range(2):
        y, s = f(there.put(X))
        assert type(y) is there.array_type and type(s) is there.array_type and s.shape == ()
        same(there.get([y, s]), [np.sin(X) * 2, X.sum()])
    assert len(compiled_function(f).graphs) == 1


# --- the tracer's sample functions

SAMPLES = {
    f"{module.__name__.rpartition('.')[2]}.{name}": test.sample
    for module in (test_functions, test_breaks, test_control_flow)
    for name, test in vars(module).items()
    if hasattr(test, "sample")
}
DIFFER = {
    "test_breaks.test_read_only_argument": "arrays of a device cannot be read-only",
    "test_breaks.test_other_dtypes_run_natively": "a device has no arrays of text and dates",
}


@pytest.mark.filterwarnings("ignore:.*was compiled .* times:RuntimeWarning")
@pytest.mark.parametrize("name", [n for n in SAMPLES if n not in DIFFER])
def test_samples(name: str, calls: There) -> None:  # noqa: F811
    sample = SAMPLES[name]
    compiled = npc.compile(sample.function)
    for round in range(2):
        given = sample.arguments(round)
        theirs = run(sample.function, sample.function, clone(given))
        ours = run(compiled, sample.function, calls.put(clone(given)))
        if theirs.error is not None:
            assert type(ours.error) is type(theirs.error), ours.error
            assert str(ours.error) == str(theirs.error) and ours.line == theirs.line
            continue
        if ours.error is not None:
            raise ours.error
        assert not any(type(x) is np.ndarray for x in flatten(ours.value))
        value, arguments = calls.get(ours.value), calls.get(ours.arguments)
        same(value, calls.get(theirs.value))
        same(arguments, calls.get(theirs.arguments))
        if calls.array_type is DeviceArray:
            compare_aliasing(value, theirs.value, flatten(*arguments), flatten(*theirs.arguments))


# --- Tensors


def test_tensors_stay_on_the_device(there: There) -> None:  # noqa: F811
    f = npc.compile(npc.wrap_numpy(lambda x: (np.sin(x) * 2, x.sum())), fullgraph=True)
    for _ in range(2):
        y, s = f(there.tensor(X))
        assert type(y) is type(s) is npc.Tensor and y.device == s.device == "cuda"
        same(there.get([y._data, s._data]), [np.sin(X) * 2, np.asarray(X.sum())])
    assert len(compiled_function(f).graphs) == 1


def test_gradients(there: There) -> None:  # noqa: F811
    f = npc.compile(npc.wrap_numpy(lambda x, y: np.sum(np.sin(x) * y, axis=0)), fullgraph=True)
    x, y = there.tensor(X, requires_grad=True), there.tensor(X + 1, requires_grad=True)
    f(x, y).sum().backward()
    assert x.grad.device == y.grad.device == "cuda"
    same(there.get([x.grad._data, y.grad._data]), [np.cos(X) * (X + 1), np.sin(X)])


SOME = "mahalanobis layer_norm attention embedding heat_with_walls solve view_written cumulated power_spectrum".split()
PROGRAMS = [p for m in test_programs.MODULES for p in m.PROGRAMS if not NO_DEVICE or p.name in SOME]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_gradients_of_programs(program: Any, calls: There) -> None:  # noqa: F811
    function = npc.value_and_grad(program.function, program.numbers)
    given = test_programs.arguments(program, 0)
    value, found = function(*calls.put(given))
    if any(isinstance(x, np.ndarray) for x in given):
        assert all(type(x) is calls.array_type for x in (value, *found))
    theirs = function(*given)
    np.testing.assert_allclose(calls.get(value), theirs[0], rtol=1e-10)
    for a, b in zip(calls.get(found), theirs[1]):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * (1 + np.abs(b).max()))


# --- the tracer's samples on Tensors

TENSOR_SAMPLES = {
    f"{module.__name__.rpartition('.')[2]}.{name}": test.sample
    for module in (
        test_tensors,
        test_training,
        test_tensor_gradients,
        test_tensor_transforms,
        test_wrap_numpy,
        test_tensor_breaks,
    )
    for name, test in vars(module).items()
    if hasattr(test, "sample")
}
TENSORS_DIFFER = {
    "test_tensors.test_attributes": "x.device",
    "test_tensors.test_creation": "new Tensors are on the CPU where no device is named",
    "test_tensors.test_out": "a Tensor on the CPU does not meet those on a device",
    "test_tensor_breaks.test_leaves_that_are_made_inside": "likewise",
    "test_tensor_breaks.test_arrays_filled_from_tensors": "likewise",
    "test_tensor_breaks.test_writes_through_arrays": "x.numpy() is a copy",
    "test_tensor_breaks.test_writes_through_detached_arrays": "likewise",
    "test_tensor_gradients.test_arguments_that_were_computed": "its arguments come with the graph that computed them",
    "test_tensor_gradients.test_an_argument_that_was_computed_is_changed": "likewise",
}


@pytest.mark.parametrize("name", [n for n in TENSOR_SAMPLES if n not in TENSORS_DIFFER])
def test_samples_on_tensors(name: str, calls: There) -> None:  # noqa: F811
    sample = TENSOR_SAMPLES[name]
    compiled = npc.compile(sample.function)
    for round in range(2):
        ours, theirs = (
            calls.put(tensor_harness.given(sample.function, sample.inputs, round)),
            tensor_harness.given(sample.function, sample.inputs, round),
        )
        try:
            expected = sample.function(*theirs)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(*ours)
            continue
        found = compiled(*ours)
        for value in tensor_harness.parts(found):
            assert not isinstance(value, npc.Tensor) or value.device == "cuda"
        same(calls.get([found, ours]), calls.get([expected, theirs]), rtol=1e-10)
        assert repr(tensor_harness.backward(found)) == repr(tensor_harness.backward(expected))
        same(calls.get([found, ours]), calls.get([expected, theirs]), rtol=1e-10)


# --- what is given, and what comes back


def test_results_come_back_as_what_came_in(there: There) -> None:  # noqa: F811
    f = npc.compile(lambda x, y: (x + y, x.sum(), x, y, x.T))
    x, y = there.put(X), X + 1
    total, s, x2, y2, view = f(x, y)
    assert type(total) is type(s) is type(view) is there.array_type and x2 is x and y2 is y
    assert view.strides == x.strides[::-1]
    assert all(type(r) in (np.ndarray, np.float64) for r in f(X, y)[:2])
    same(there.get([total, s, view]), [X + y, X.sum(), X.T])
    with npc.device("cpu"):  # where the arrays are decides
        assert type(f(x, y)[0]) is there.array_type


def test_arguments_are_changed_where_they_are(there: There) -> None:  # noqa: F811
    @npc.compile
    def f(x, y, rows):
        x[1:] += y[1:]
        np.multiply(x, 2, out=y)
        rows[0] = x[0].sum()
        return x[::2]

    for _ in range(2):
        ours, theirs = there.put([X.copy(), X + 1, X[:, 0].copy()]), [X.copy(), X + 1, X[:, 0].copy()]
        ours[1] = there.get(ours[1]).copy()  # one of NumPy's among them
        got, expected = f(*ours), f.__npcompile_original__(*theirs)
        same(there.get([got, *ours]), [expected, *theirs])
        got[...] = 0
        same(there.get(ours[0])[::2], expected * 0)
    assert len(compiled_function(f).graphs) == 1


def test_arguments_that_overlap(there: There) -> None:  # noqa: F811
    @npc.compile
    def f(x, y):
        x += 1
        return y * 2

    base = there.put(np.arange(10.0))
    same(there.get(f(base[2:6], base[4:8])), (np.arange(4.0, 8) + [1, 1, 0, 0]) * 2)
    same(there.get(f(base[:2], base[4:8])), (np.arange(4.0, 8) + [1, 1, 0, 0]) * 2)
    same(there.get(base), np.arange(10.0) + [1, 1, 1, 1, 1, 1, 0, 0, 0, 0])


def test_another_size_and_another_call(there: There) -> None:  # noqa: F811
    f = npc.compile(lambda x: np.tanh(x) + 1)
    for n in (3, 4, 5, 6):
        for _ in range(2):
            same(there.get(f(there.put(X[:n]))), np.tanh(X[:n]) + 1)
    same(there.get(f(there.put(X).T)), np.tanh(X.T) + 1)
    assert len(compiled_function(f).graphs) <= 3


def test_scalars_are_nobodys_to_change(there: There) -> None:  # noqa: F811
    total = npc.compile(lambda x: x.sum())

    @npc.compile
    def f(s):
        t = s
        s += 1
        return s, t

    s = total(there.put(X))
    same(there.get([*f(s), s]), [X.sum() + 1, X.sum(), X.sum()])
    box = there.put(np.array(2.0))  # an array of no dimensions, which is one
    same(there.get([*f(box), box]), [np.array(3.0)] * 3)


class Model:
    def __init__(self, w: Any):
        self.w = w

    def __call__(self, x: Any) -> Any:
        return np.tanh(x @ self.w)


def test_arrays_in_objects_and_closures(there: There) -> None:  # noqa: F811
    w, b = there.put(X.T.copy()), there.put(X[0, 0] + np.zeros(12))
    model = Model(w)
    call = npc.compile(model)
    f = npc.compile(lambda parts: {"sum": call(parts["x"][0]) + b})
    same(there.get(f({"x": [there.put(X)]})), {"sum": np.tanh(X @ X.T) + X[0, 0]})
    model.w = there.put(X.T * 2)
    same(there.get(call(there.put(X))), np.tanh(X @ (X.T * 2)))


def test_an_index_out_of_bounds(there: There) -> None:  # noqa: F811
    @npc.compile
    def f(x, i):
        x += 1
        return x[i]

    x = there.put(X)
    with pytest.raises(IndexError, match="index 12 is out of bounds for axis 0 with size 12"):
        f(x, there.put(np.array([0, 12])))
    same(there.get(x), X + 1)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        npc.compile(lambda x: 1 / (x * 0))(x)


@pytest.mark.parametrize("backend", ["eager", "cuda", lambda graph, examples: compile_eager(graph, examples).call])
def test_other_backends(backend: Any, there: There) -> None:  # noqa: F811
    x = there.put(X)
    result = npc.compile(lambda x: np.add(x, 1, out=x) * 2, backend=backend)(x)
    assert type(result) is there.array_type
    same(there.get([result, x]), [(X + 1) * 2, X + 1])


def test_devices_do_not_meet(there: There) -> None:  # noqa: F811
    f = npc.compile(lambda x, y: x + y)
    there.require_second()
    with pytest.raises(RuntimeError, match=r'is on "cuda.*", and . on "cuda.*Move one of them'):
        f(there.put(X), there.second.put(X))
    x, y = there.second.put(X), there.second.put(X + 1)
    result = f(x, y)
    assert array_kind(type(result)).number(result) == 1
    with pytest.raises(RuntimeError, match='is a Tensor on "cpu", and it meets arrays on "cuda"'):
        npc.compile(npc.wrap_numpy(lambda x, y: x + y))(there.tensor(X), npc.tensor(X))
    same(there.get((f(there.tensor(X), npc.tensor(2.0)))._data), X + 2)


def test_a_device_by_number(there: There) -> None:  # noqa: F811
    there.require_second()
    f = npc.compile(lambda x: x * 2)
    with npc.device("cuda:1"):
        result = f(X)
    assert type(result) is np.ndarray
    same(result, X * 2)
    with pytest.raises(ValueError, match="unknown device 'gpu'"), npc.device("gpu"):
        pass


# --- transforms and control flow

W = np.linspace(-1, 1, 9)


def loss(w: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ w) ** 2)


@npc.custom_gradient
def clipped(x: Any) -> Any:
    return np.clip(x, -1, 1), lambda g: (g * 2,)


def recomputed(w: Any, x: Any) -> Any:
    return np.sum(npc.checkpoint(lambda w: np.sin(np.exp(w)))(w)) + loss(w, x)


TRANSFORMED: dict[str, Any] = {
    "grad": lambda w, x: npc.grad(loss)(w, x),
    "value_and_grad": lambda w, x: npc.value_and_grad(loss, (0, 1))(w, x),
    "vjp": lambda w, x: npc.vjp(lambda w: np.tanh(x @ w), w)[1](x[:, 0] * 2),
    "jvp": lambda w, x: npc.jvp(lambda w: np.tanh(x @ w), (w,), (w * 2,)),
    "jacobian": lambda w, x: npc.jacobian(lambda w: np.tanh(x @ w))(w),
    "hessian": lambda w, x: npc.hessian(loss)(w, x),
    "vmap": lambda w, x: npc.vmap(lambda row: np.sort(row)[::-1] * w)(x),
    "gradients of each row": lambda w, x: npc.vmap(npc.grad(loss), (None, 0))(w, x),
    "custom_gradient": lambda w, x: npc.grad(lambda w: np.sum(clipped(w * 3)))(w),
    "checkpoint": lambda w, x: npc.grad(recomputed)(w, x),
    "cond": lambda w, x: npc.cond(np.sum(w) > 0, lambda w: w * 2, lambda w: w - 1, w),
    "fori_loop": lambda w, x: npc.fori_loop(0, 5, lambda k, w: np.tanh(w + x[k]), w),
    "while_loop": lambda w, x: npc.while_loop(lambda w: np.sum(w * w) > 1, lambda w: w * 0.5, w),
    "scan": lambda w, x: npc.scan(lambda w, row: (w * 0.5 + row, w.sum()), w, x),
    "a gradient through a scan": lambda w, x: npc.grad(
        lambda w: np.sum(npc.scan(lambda w, row: (np.sin(w + row), w.sum()), w, x)[1])
    )(w),
}


def arrays_in(value: Any) -> list[Any]:
    return [x for v in value for x in arrays_in(v)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms(name: str, is_compiled: bool, calls: There) -> None:  # noqa: F811
    function = TRANSFORMED[name]
    expected = function(W, X)
    if is_compiled:
        function = npc.compile(function)
    if is_compiled or name not in ("cond", "fori_loop", "while_loop", "scan"):  # else they are Python, and arrays CuPy's
        got = function(*calls.put([W, X]))
        assert all(type(v) is calls.array_type for v in arrays_in(got))
        same(calls.get(got), expected, rtol=1e-10)
    got = function(calls.tensor(W), calls.tensor(X))
    assert all(v.device == "cuda" for v in arrays_in(got))
    if is_compiled:
        with npc.device("cuda"):
            moved = function(W, X)
        assert [type(v) for v in arrays_in(moved)] == [type(v) for v in arrays_in(expected)]
        same(moved, expected, rtol=1e-10)


# --- breaks


def test_native_code_sees_numpys_arrays(there: There) -> None:  # noqa: F811
    seen: list[type] = []

    @npc.disable
    def look(*values: Any) -> None:
        seen.extend([*map(type, values), type(values[2][0])])
        np.testing.assert_allclose(values[0], np.sin(X), rtol=1e-14)

    @npc.compile
    def f(x, w):
        y = np.sin(x)
        s = y.sum()
        look(y, s, [x], 3)
        z = y * s + w
        w[0] = 1
        return z, s, y

    for _ in range(2):
        x, w = there.put(X), np.ones(9)
        z, s, y = f(x, w)
        assert seen == [np.ndarray, np.float64, list, int, np.ndarray]
        assert type(z) is type(s) is type(y) is there.array_type and array_kind(type(w)) is None
        same(there.get([z, s, y]), [np.sin(X) * np.sin(X).sum() + 1, np.sin(X).sum(), np.sin(X)])
        seen.clear()
    assert len(compiled_function(f).graphs) == 2


def test_native_code_finds_arrays_in_what_it_is_given(there: There) -> None:  # noqa: F811
    found: list[Any] = []

    @npc.compile
    def f(x, y):
        def inner(scale):
            return [type(a) for a in (x, y)], x * np.ones(9) * scale

        items = iter([x, y + 1])
        first = next(items)
        kinds, product = npc.disable(inner)(2)
        rest = [type(v) for v in items]
        found.append(x)
        return first, kinds, product, rest, [row.sum() for row in x], found[-1]

    first, kinds, product, rest, sums, last = f(there.put(X), there.put(X))
    assert kinds == [np.ndarray, np.ndarray] and rest == [np.ndarray]
    assert all(type(v) is there.array_type for v in (first, product, last))
    same(there.get([product, sums]), [X * 2, [row.sum() for row in X]])


def test_what_native_code_changes_is_changed_on_the_device(there: There) -> None:  # noqa: F811
    @npc.disable
    def change(rows: Any, parts: dict[str, Any]) -> Any:
        rows[0] = 7
        parts["new"] = rows[1:3]
        parts["x"][1, 1] = 8
        return rows[::2], rows.sum(axis=1)

    @npc.compile
    def f(x):
        parts = {"x": x}
        y = x * 2
        view, sums = change(x, parts)
        view[1] = 9
        parts["new"][0, 0] = 10
        return x + y, view, sums * 2, parts["new"]

    x, theirs = there.put(X), X.copy()
    expected = f.__npcompile_original__(theirs)
    got = f(x)
    assert all(type(v) is there.array_type for v in got)
    same(there.get([list(got), x]), [list(expected), theirs])
    if there.array_type is DeviceArray:
        compare_aliasing(there.get(got), expected, [there.get(x)], [theirs])


def test_what_native_code_raises_leaves_its_changes(there: There) -> None:  # noqa: F811
    @npc.disable
    def change(x: Any) -> None:
        x += 1
        raise KeyError("changed")

    @npc.compile
    def f(x):
        x *= 2
        try:
            change(x)
        except KeyError:
            x -= 3
        return x + 1

    x = there.put(X)
    same(there.get([f(x), x]), [X * 2 - 1, X * 2 - 2])


def test_what_native_code_makes_comes_back_on_the_device(there: There) -> None:  # noqa: F811
    @npc.disable
    def made(x: Any) -> Any:
        return np.cumsum(x, axis=0), [x.max()], "text"

    result = npc.compile(lambda x: made(x * 2))(there.put(X))
    assert type(result[0]) is there.array_type
    same(there.get(result), (np.cumsum(X * 2, axis=0), [(X * 2).max()], "text"))
    f = npc.compile(lambda x: (made(x)[0], x + 1))
    assert all(type(v) is there.array_type for v in f(there.put(X)))


def test_a_loop_with_a_break(there: There) -> None:  # noqa: F811
    @npc.compile
    def f(x):
        n = 0
        while True:
            x = 0.5 * (x + 2 / x)
            n += 1
            if np.abs(x * x - 2).max() < 1e-12:
                break
        total = x[0] * 0
        for row in x:
            npc.graph_break()
            total += row
        return x, n, total

    x = np.abs(X) + 0.5
    theirs = f.__npcompile_original__(x)
    for _ in range(2):
        same(there.get(f(there.put(x))), theirs)


def inner(x: Any, k: Any) -> Any:
    print("", end="")
    return x * k, x.sum()


def test_a_function_with_a_break_is_called(there: There) -> None:  # noqa: F811
    @npc.compile
    def f(x):
        y, s = inner(x + 1, 2)
        return y - s, s

    got = f(there.put(X))
    assert all(type(v) is there.array_type for v in got)
    same(there.get(got), ((X + 1) * 2 - (X + 1).sum(), (X + 1).sum()))


def test_tensors_at_a_break(there: There) -> None:  # noqa: F811
    @npc.compile
    @npc.wrap_numpy
    def f(x, y):
        a = np.sin(x)
        print("", end="")
        return a * y

    result = f(there.tensor(X), there.tensor(X + 1))
    assert result.device == "cuda"
    same(there.get(result._data), np.sin(X) * (X + 1))
    x = there.tensor(X, requires_grad=True)
    with pytest.raises(RuntimeError, match="lost their gradient at a graph break"):
        f(x, there.tensor(X)).sum().backward()

    def g(x: Any) -> Any:
        y = x * 2
        assert y.device == "cuda" and "Tensor" in repr(y)
        return y * y

    result = npc.compile(g)(x)
    result.sum().backward()
    same(there.get(x.grad._data), 8 * X)


def test_arrays_of_tensors_leave_as_numpys(there: There) -> None:  # noqa: F811
    @npc.compile
    def f(x):
        a = x.numpy()
        a += 1
        return a, a.sum(), x * 2

    x = there.tensor(X)
    a, s, y = f(x)
    assert type(a) is np.ndarray and type(s) is np.float64 and y.device == "cuda"
    same([a, s, there.get(y._data)], [X + 1, (X + 1).sum(), X * 2])


def test_explain_counts_the_copies(there: There) -> None:  # noqa: F811
    def f(x, w):
        y = x + w
        print("", y.sum(), end="")
        return y * w

    found = npc.explain(f)(there.put(X), X)
    first = f.__code__.co_firstlineno
    assert [(t.to_device, t.nbytes, t.location.line - first) for t in found.transfers] == [
        (True, X.nbytes, 1),
        (False, 8, 2),
        (True, X.nbytes, 3),
    ]
    assert "3 transfers" in str(found) and f"{X.nbytes} bytes to the device (test_calls.py:{first + 1})" in str(found)
    assert not npc.explain(lambda x: x + 1)(there.put(X)).transfers
    with npc.device("cuda"):
        found = npc.explain(lambda x: x + 1)(X)
    assert [t.to_device for t in found.transfers] == [True, False]
    assert not npc.explain(lambda x: x + 1)(X).transfers


def test_gradients_of_what_is_on_the_cpu(there: There) -> None:  # noqa: F811
    f = npc.compile(npc.wrap_numpy(lambda x, b: np.sum(np.exp(x * 0.1) * b)))
    x, b = there.tensor(X, requires_grad=True), npc.tensor(2.0, requires_grad=True)  # one number may be anywhere
    f(x, b).backward()
    assert x.grad.device == "cuda" and b.grad.device == "cpu"
    same(there.get([x.grad._data, b.grad._data]), [np.exp(X * 0.1) * 0.2, np.asarray(np.exp(X * 0.1).sum())])
    x, b = npc.tensor(X, requires_grad=True), npc.tensor(2.0, requires_grad=True)
    with npc.device("cuda"):
        result = f(x, b)
        result.backward()
    assert result.device == x.grad.device == "cpu"
    same([x.grad._data, b.grad._data], [np.exp(X * 0.1) * 0.2, np.asarray(np.exp(X * 0.1).sum())])


def test_what_is_broadcast_is_not_written(there: There) -> None:  # noqa: F811
    x = there.put(X[0].copy())
    rows = there.view(x, (3, 9), (0, 8))
    with pytest.raises(ValueError, match="read-only"):
        npc.compile(lambda x: np.add(x, 1, out=x))(rows)
    same(there.get(npc.compile(lambda x: x + 1)(rows)), np.broadcast_to(X[0], (3, 9)) + 1)


@pytest.mark.gpu
def test_functions_of_cupy_take_its_arrays() -> None:
    cupy = pytest.importorskip("cupy")

    @npc.compile
    def f(x):
        y = cupy.sqrt(x + 1)
        host = y.get()
        return y * 2, host + 1, cupy.asnumpy(x)

    x = cupy.asarray(np.abs(X))
    doubled, host, copy = f(x)
    assert type(doubled) is cupy.ndarray
    np.testing.assert_allclose(doubled.get(), np.sqrt(np.abs(X) + 1) * 2, rtol=1e-15)
    np.testing.assert_allclose(cupy.asnumpy(host), np.sqrt(np.abs(X) + 1) + 1, rtol=1e-15)
    np.testing.assert_array_equal(cupy.asnumpy(copy), np.abs(X))


def test_nothing_new_is_compiled(there: There) -> None:  # noqa: F811
    f = npc.run_only(npc.compile(lambda x, parts: (np.add(x, 1, out=x), parts["y"] * 2)))
    x, y = there.put(X), there.put(X + 1)
    total, doubled = f(x, {"y": y})
    assert total is x and type(doubled) is there.array_type
    same(there.get([x, doubled]), [X + 1, (X + 1) * 2])


def test_flags_are_numpys(there: There) -> None:  # noqa: F811
    flags = npc.compile(lambda x: x.T.flags)(there.put(X))
    assert type(flags) is type(X.flags) and flags.f_contiguous and not flags.c_contiguous


def test_threads(calls: There) -> None:  # noqa: F811
    f = npc.compile(lambda x, k: (npc.graph_break(), np.sin(x) * k, x.sum())[1:])
    found: dict[int, Any] = {}

    def work(k: int) -> None:
        for _ in range(20):
            found[k] = calls.get(f(calls.put(X + k), k))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        same(found[k], (np.sin(X + k) * k, (X + k).sum()))


def test_nothing_is_kept(calls: There) -> None:  # noqa: F811
    f = npc.compile(lambda x: (npc.graph_break(), np.sin(x) * 2, x.sum())[1:])
    g = npc.compile(npc.wrap_numpy(lambda x: np.sum(np.sin(x) ** 2)))
    for _ in range(2):
        x, t = calls.put(X), calls.tensor(X, requires_grad=True)
        made = f(x)
        loss = g(t)
        loss.backward()
        alive = [weakref.ref(a) for a in (x, *made, t._data, t.grad._data, loss._data)]
        del x, t, made, loss
        gc.collect()
        assert not any(a() is not None for a in alive)


class Box:
    def __init__(self, data: Any):
        self.data = data


def test_what_native_code_keeps_sees_the_memory_of_the_device(calls: There) -> None:  # noqa: F811
    boxed, walk, number, pair = map(
        npc.disable, (lambda x: Box(x), lambda x: iter(x), lambda x: enumerate(x), lambda *x: zip(*x))
    )

    @npc.compile
    def f(x):
        box = boxed(x[1:])
        box.data += 1
        rows = walk(x)
        for row in rows:
            row *= 2
        for k, row in number(x):
            row += k
        for row, other in pair(x, x[::-1]):
            row += other
        return box.data * 1, x.sum()

    x, theirs = calls.put(X), X.copy()
    same(calls.get([list(f(x)), x]), [list(f.__npcompile_original__(theirs)), theirs])
    with pytest.raises(AttributeError, match=r"'numpy.ndarray' object has no attribute 'nothing'"):
        npc.compile(lambda x: x.nothing)(x)


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # of NumPy 2.5
def test_attributes_that_numpy_alone_has_see_the_memory_of_the_device(calls: There) -> None:  # noqa: F811
    @npc.compile
    def f(x):
        y = x + 1
        y.flat[1:3] = 7
        x.partition(3, axis=1)
        y.shape = (-1, 4)
        return y * 2, x.tobytes()

    x, theirs = calls.put(X), X.copy()
    same(calls.get([list(f(x)), x]), [list(f.__npcompile_original__(theirs)), theirs])
