"""Compiled functions and transforms in pickles: the function and its options, whatever is compiled."""

import copy
import functools
import gc
import pickle
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function

X = np.arange(1.0, 5.0)


@npc.compile(backend="eager", dynamic=True)
def decorated(x, scale=2, *more, shift=1, **rest):
    return np.sin(x) * scale + shift + len(more) + len(rest)


def plain(x):
    return np.sum(np.exp(x) * x)


again = npc.compile(plain, backend="eager")
slope = npc.grad(plain)
of_decorated = npc.vmap(decorated)


def by_value(value: Any) -> Any:
    """Through cloudpickle, as to a process that cannot import this module."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        return cloudpickle.loads(cloudpickle.dumps(value))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def same(ours: Any, theirs: Any) -> None:
    np.testing.assert_array_equal(ours, theirs)
    assert type(ours) is type(theirs) and ours.dtype == theirs.dtype


# --- the standard library's pickle: by name


def test_pickle_by_name() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert cloudpickle.loads(cloudpickle.dumps(decorated)) is decorated
    assert copy.deepcopy(again) is again


@pytest.mark.parametrize("made", [slope, of_decorated, npc.hessian(plain), npc.value_and_grad(plain), npc.checkpoint(plain)])
@pytest.mark.parametrize("is_called", [False, True])
def test_pickle_transforms(made: Any, is_called: bool) -> None:
    if is_called:
        made(X)
    twin = pickle.loads(pickle.dumps(made))
    assert twin is not made and twin.kind == made.kind and twin.options == made.options
    assert twin.__name__ == made.__name__
    ours, theirs = twin(X), made(X)
    if isinstance(theirs, tuple):
        same(ours[0], theirs[0])
        ours, theirs = ours[1], theirs[1]
    same(ours, theirs)


def test_pickle_a_transform_of_a_decorated_function_in_an_object() -> None:
    held = pickle.loads(pickle.dumps({"f": functools.partial(npc.jacobian(decorated), scale=3)}))
    np.testing.assert_array_equal(held["f"](X), np.diag(3 * np.cos(X)))


# --- cloudpickle: by value


def test_cloudpickle_is_function_and_options() -> None:
    decorated(X)
    twin = by_value(decorated)
    assert twin is not decorated
    known, there = compiled_function(decorated), compiled_function(twin)
    assert there is not known and there.options == known.options and there.entry is twin and not there.graphs
    assert twin.__wrapped__ is there.user and twin.__name__ == "decorated"
    for args, keywords in (((X,), {}), ((X, 3, 4), {"shift": 2, "other": 1})):
        same(twin(*args, **keywords), decorated(*args, **keywords))
    assert there.graphs
    npc.reset()
    same(twin(X), decorated(X))


def test_cloudpickle_of_what_is_compiled_a_second_time() -> None:
    again(X)
    twin = cloudpickle.loads(cloudpickle.dumps(again))
    assert compiled_function(twin).user is plain and compiled_function(twin).options == compiled_function(again).options
    same(twin(X), plain(X))


def test_cloudpickle_closures_lambdas_methods_generators() -> None:
    factor = np.float64(3)

    def factorial(x, n):
        return x * factor if n == 0 else compiled(x * n, n - 1)

    compiled = npc.compile(factorial, backend="eager")
    twin = by_value(compiled)
    same(twin(X, 4), compiled(X, 4))
    inner = compiled_function(twin).user.__closure__
    assert any(cell.cell_contents is twin for cell in inner)  # one function, not two
    short = npc.compile(lambda x: x @ x + factor, backend="eager")
    same(by_value(short)(X), short(X))

    class Model:
        def __init__(self, w):
            self.w = w

        @npc.compile(backend="eager")
        def predict(self, x):
            return np.tanh(self.w * x)

        @npc.compile(backend="eager")
        def parts(self, x):
            yield compiled(x, 0)
            yield self.predict(x)

    model = Model(2.0)
    first = model.predict(X)
    twins = by_value([model, model.predict, npc.compile(model.predict)])
    for method in (twins[0].predict, *twins[1:]):
        same(method(X), first)
    for ours, theirs in zip(twins[0].parts(X), model.parts(X)):
        same(ours, theirs)


def test_cloudpickle_transforms_and_functions_on_tensors() -> None:
    w = np.float64(2)
    made = [
        npc.grad(lambda x: np.sum(x**w)),
        npc.vmap(npc.compile(lambda x: x @ x * w)),
        npc.compile(npc.grad(lambda x: np.sum(x * x) * w)),
        npc.vjp(lambda x: x * w, X)[1],
    ]
    given: list[Any] = [X, np.outer(X, X), X, X]
    for f, twin, x in zip(made, by_value(made), given):
        ours, theirs = twin(x), f(x)
        same(ours[0] if isinstance(ours, tuple) else ours, theirs[0] if isinstance(theirs, tuple) else theirs)
    wrapped = npc.compile(npc.wrap_numpy(lambda x: np.sum(x * x) * w))
    x = npc.tensor(X, requires_grad=True)
    by_value(wrapped)(x).backward()
    same(x.grad.numpy(), 2 * X * w)


def test_a_backend_of_the_users() -> None:
    def backend(graph, example_inputs):
        from npcompile.backends.eager import compile_eager

        return compile_eager(graph, example_inputs)

    twin = by_value(npc.compile(lambda x: x + 1, backend=backend))
    same(twin(X), X + 1)
    assert compiled_function(twin).options.backend.__name__ == "backend"
    assert compiled_function(twin).options.has_own_backend


# --- another process


PROGRAM = """
import sys
import cloudpickle, numpy as np
import npcompile as npc

offset = 1.0

@npc.compile
def f(x):
    return g(x) * 2

def g(x):
    return np.cos(x) + offset

slope = npc.grad(lambda x: np.sum(f(x)))
f(np.ones(3))
with open(sys.argv[1], "wb") as file:
    cloudpickle.dump([f, slope, npc.compile(slope), npc.compile(lambda x: f(x) - 1)], file)
"""


def test_main_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "functions"
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    subprocess.run([sys.executable, script, path], check=True, cwd=Path(__file__).parents[1])
    f, slope, compiled, less = pickle.loads(path.read_bytes())
    np.testing.assert_allclose(f(X), (np.cos(X) + 1) * 2, rtol=1e-15)
    np.testing.assert_allclose(less(X), (np.cos(X) + 1) * 2 - 1, rtol=1e-15)
    for derivative in (slope, compiled):
        np.testing.assert_allclose(derivative(X), -2 * np.sin(X), rtol=1e-15)


# --- lifetime


def test_functions_that_hold_themselves_are_freed() -> None:
    """The garbage collector does not look into code, which holds what is compiled weakly."""

    class Model:
        def __init__(self):
            self.w = np.ones(3)
            self.step = npc.compile(lambda x: x * self.w, backend="eager")

    model = Model()
    model.step(X[:3])
    gone = weakref.ref(model), weakref.ref(model.step), weakref.ref(compiled_function(model.step))
    del model
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3
