"""Misuse of a transform is a TypeError or a ValueError, as in JAX, besides a GraphBreakError that names the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

X, Y = np.ones(3), np.ones(4)


def doubled(x):
    for _ in range(3):
        x = x * 2.0
    return x


CASES: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "a result that is no number": (TypeError, lambda: npc.grad(lambda x: x * 2)(X)),
    "the same of a loop": (TypeError, lambda: npc.grad(doubled)(X)),
    "the same of a hessian": (TypeError, lambda: npc.hessian(lambda x: x)(X)),
    "an integer": (TypeError, lambda: npc.grad(lambda n: n * 2.0)(3)),
    "integers": (TypeError, lambda: npc.grad(lambda n: np.sum(n * 2.0))(np.arange(3))),
    "an integer result": (TypeError, lambda: npc.grad(lambda x: 3)(X)),
    "a complex result": (TypeError, lambda: npc.grad(lambda x: np.sum(x * 1j))(X)),
    "a text": (TypeError, lambda: npc.grad(lambda s: 1.0)("a")),
    "no pair with has_aux": (TypeError, lambda: npc.grad(np.sum, has_aux=True)(X)),
    "no such argument": (ValueError, lambda: npc.grad(lambda x: np.sum(x), 2)(X)),
    "argnums of another type": (TypeError, lambda: npc.grad(lambda x: np.sum(x), 1.0)),  # type: ignore[arg-type]
    "argnums as a text": (TypeError, lambda: npc.grad(lambda x: np.sum(x), "x")),
    "argnums that name one twice": (ValueError, lambda: npc.grad(lambda x: np.sum(x), (0, 0))),
    "other sizes": (ValueError, lambda: npc.vmap(lambda x, y: x + y)(X, Y)),
    "a keyword of another size": (ValueError, lambda: npc.vmap(lambda x, y: x + y)(X, y=Y)),
    "a keyword without axes": (ValueError, lambda: npc.vmap(lambda x, y: x + y)(X, y=3.0)),
    "too few in_axes": (ValueError, lambda: npc.vmap(lambda x, y: x + y, in_axes=(0,))(X, X)),
    "no such axis": (ValueError, lambda: npc.vmap(lambda x: x, in_axes=3)(X)),
    "a number has no axis": (ValueError, lambda: npc.vmap(lambda x: x)(3.0)),
    "in_axes as a text": (TypeError, lambda: npc.vmap(lambda x: x, in_axes="x")),
    "in_axes unlike the argument": (ValueError, lambda: npc.vmap(lambda d: d["x"], in_axes=({"y": 0},))({"x": X})),
    "out_axes unlike the result": (ValueError, lambda: npc.vmap(lambda x: (x, x), out_axes=(0,))(X)),
    "no such axis of a result": (ValueError, lambda: npc.vmap(lambda x: x, out_axes=3)(X)),
    "a result that is not the same for all": (ValueError, lambda: npc.vmap(lambda x: x, out_axes=None)(X)),
    "nothing mapped": (ValueError, lambda: npc.vmap(lambda x: x, in_axes=None)(X)),
    "a tangent of another shape": (TypeError, lambda: npc.jvp(np.sin, (X,), (Y,))),
    "another number of tangents": (TypeError, lambda: npc.jvp(np.sin, (X,), (X, X))),
    "a cotangent of another shape": (TypeError, lambda: npc.vjp(np.sin, X)[1](Y)),
    "no function": (TypeError, lambda: npc.grad(3)(X)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CASES)
def test_misuse(name: str) -> None:
    kind, call = CASES[name]
    for _ in range(2):
        with pytest.raises(kind):
            call()


def test_it_names_the_line() -> None:
    def loss(x):
        return x * 2

    with pytest.raises(npc.GraphBreakError, match=rf"test_misuse.py:{loss.__code__.co_firstlineno}\)"):
        npc.grad(loss)(X)


def test_numpys_integers_are_positions() -> None:
    np.testing.assert_array_equal(npc.grad(lambda x, y: np.sum(x * y), np.int64(1))(X, 2.0 * X), X)
