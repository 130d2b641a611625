"""npc.grad(f), made again at each call, has what was compiled before; explain lists a native gradient."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import npcompile as npc
from npcompile.remembered import OF_MODULES


def squares(x):
    total = 0.0
    for v in x:
        total = total + v * v
    return total


def cubes(x):
    return np.sum(x**3)


@pytest.mark.parametrize(("function", "slope"), [(squares, lambda x: 2 * x), (cubes, lambda x: 3 * x**2)])
def test_a_function_of_a_module_is_compiled_once(function, slope) -> None:
    first = npc.grad(function)
    np.testing.assert_allclose(first(np.arange(3.0)), slope(np.arange(3.0)))
    again = npc.grad(function)
    assert again is not first and again._made is first._made
    np.testing.assert_allclose(again(np.arange(4.0)), slope(np.arange(4.0)))
    assert npc.value_and_grad(function)._made is not first._made
    assert npc.grad(function, (0,))._made is not first._made


def test_a_loop_in_a_function_of_a_function_is_compiled_once() -> None:
    def inner(x):
        total = 0.0
        for v in x:
            total = total + v * v
        return total

    for _ in range(3):
        made = npc.grad(inner)
        np.testing.assert_array_equal(made(np.ones(3)), 2.0 * np.ones(3))
    assert len(made._made.loops.versions) == 1


def test_reset_forgets_native_gradients() -> None:
    def inner(x):
        total = 0.0
        for v in x:
            total = total + v * v * v
        return total

    for function in (squares, inner):
        gradient = npc.grad(function)
        gradient(np.ones(3))
        loops = gradient._made.loops
        assert loops.versions
        npc.reset()
        found = gradient(np.ones(3))
        assert gradient._made.loops is not loops and len(gradient._made.loops.versions) == 1
        np.testing.assert_array_equal(found, npc.grad(function)(np.ones(3)))


def test_what_is_remembered_keeps_nothing_alive() -> None:
    class Data:
        pass

    def made(data):
        def loss(x):
            total = 0.0
            for v in x:
                total = total + v * v
            return total if data is not None else 0.0

        return loss

    data = Data()
    loss = made(data)
    npc.grad(loss)(np.ones(3))
    npc.grad(lambda x: np.sum(x * x))(np.ones(3))
    seen = weakref.ref(data)
    del data, loss
    gc.collect()
    assert seen() is None
    assert all(function.__closure__ is None for function in OF_MODULES)


def test_explain_lists_a_native_gradient() -> None:
    found = npc.explain(npc.grad(squares))(np.arange(3.0))
    np.testing.assert_array_equal(found.result, [0.0, 2.0, 4.0])
    line = squares.__code__.co_firstlineno
    assert found.natives == (f"the gradient of squares at test_made_again.py:{line}, with its loops at {line + 2}",)
    assert not found.graphs and not found.breaks
    assert {p.place for p in found.passes} == {f"the loop at line {line + 2}"}
    assert "compiled loop: the gradient of squares" in str(found)
