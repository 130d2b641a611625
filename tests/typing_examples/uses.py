"""What users write, as type checkers see it: `tests/test_typing.py` runs them. A line that is to be refused says so."""

from typing import Any, assert_type

import numpy as np

import npcompile as npc
from npcompile import Explanation, Tensor


@npc.compile
def scaled(x: np.ndarray, times: int = 3) -> np.ndarray:
    return x * times


@npc.compile(fullgraph=True)
def shifted(x: np.ndarray) -> np.ndarray:
    return x + 1.0


def loss(w: np.ndarray, x: np.ndarray) -> float:
    return float((w * x).sum())


w, x = np.ones(3), np.ones(3)

# A compiled function has the types of the function.
assert_type(scaled(w), np.ndarray)
assert_type(shifted(w), np.ndarray)
assert_type(npc.compile(loss)(w, x), float)
scaled("text")  # error
scaled(w, times=2, more=1)  # error
shifted()  # error

# Transforms keep the parameters.
npc.grad(loss)(w, x)
npc.grad(loss)(w)  # error
npc.grad(loss)("text", x)  # error
value, gradient = npc.value_and_grad(loss)(w, x)
assert_type(value, float)
npc.vmap(loss)(w, x)
npc.vmap(loss)(w)  # error
npc.jacobian(loss)(w, x)
npc.hessian(loss)(w)  # error
assert_type(npc.checkpoint(loss)(w, x), float)
assert_type(npc.jvp(loss, (w, x), (w, x))[0], float)
assert_type(npc.vjp(loss, w, x)[0], float)
npc.grad(3)  # error
npc.grad(loss, argnums="w")  # error
assert_type(npc.explain(scaled)(w), Explanation)
npc.explain(scaled)("text")  # error

# Tensors: operators, methods, subscripts.
t = npc.tensor([1.0, 2.0], requires_grad=True)
assert_type(t, Tensor)
assert_type(t + 1, Tensor)
assert_type(2.0 * t, Tensor)
assert_type(t - w, Tensor)
assert_type(-t, Tensor)
assert_type(t @ t, Tensor)
assert_type(t**2, Tensor)
assert_type(t > 0, Tensor)
assert_type(divmod(t, 2), tuple[Tensor, Tensor])
assert_type(t[0], Tensor)
assert_type(t[None, :], Tensor)
assert_type(t.sum(axis=0), Tensor)
assert_type(t.mean(), Tensor)
assert_type(t.reshape(2, 1).T, Tensor)
assert_type(t.astype(np.float32), Tensor)
assert_type(t.argmax(), Tensor)
assert_type(list(t), list[Tensor])
assert_type(t.numpy(), np.ndarray)
assert_type(t.shape, tuple[int, ...])
assert_type(float(t[0]), float)
t += 1
t.sum().backward()
t.sum().backward(retain="yes")  # error
t.summ()  # error
t.sum(axis="rows")  # error
t + "text"[0:0].split  # error


def step(t: Tensor, x: Any) -> Tensor:
    return (t * x).sum(axis=-1, keepdims=True)


assert_type(npc.compile(step)(t, x), Tensor)
