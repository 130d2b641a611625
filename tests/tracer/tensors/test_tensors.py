"""Programs that mix Tensors, arrays and numbers, in one graph."""

from __future__ import annotations

from typing import Any

import numpy as np

import npcompile as npc
from tests.tracer.harness import default_input
from tests.tracer.tensor_harness import check, leaf, with_gradient, without_gradient


def array(round: int) -> np.ndarray:
    return default_input("a", round)


def places(round: int) -> np.ndarray:
    return np.array([0, 2, round])


def as_array_of(shape: tuple[int, ...], dtype: Any) -> Any:
    return lambda round: leaf(default_input("d", round)[: shape[0], : shape[1]].astype(dtype))


# --- NumPy's surface


@check(arrays=True)
def test_ufuncs_and_functions(x, y):
    return np.sin(x) * y + np.maximum(x, y), np.sum(x, axis=0), np.concatenate([x, y]), np.where(x > y, x, y), divmod(1.0, 0.3)


@check(arrays=True)
def test_functions_written_in_python(x):
    moments = np.var(x, axis=0), np.std(x), np.average(x, axis=0), np.cov(x.T), np.median(x, axis=0), np.ptp(x)
    joined = np.stack([x, x]), np.vstack([x, x]), np.split(x, 2), np.meshgrid(x[0], x[:, 0]), np.pad(x, 1), np.tile(x, 2)
    return moments, joined, np.outer(x[0], x[1]), np.diff(x, axis=0), np.roll(x, 1, 0), np.linalg.norm(x), np.trapezoid(x)


@check(arrays=True)
def test_functions_written_in_c(x):
    products = np.dot(x, x.T), np.matmul(x, x.T), np.einsum("ij,kj->ik", x, x), np.tensordot(x, x.T, 1), np.vdot(x, x)
    return products, np.sort(x, axis=0), np.argsort(x), np.cumsum(x), np.prod(x), np.clip(x, 0.6, 1.5), np.fft.fft(x).real


@check(graphs=0)
def test_attributes(x):
    sizes = x.shape, x.ndim, x.size, x.itemsize, x.nbytes, len(x)
    return sizes, x.dtype, str(x.dtype), x.device, x.requires_grad, x.is_leaf, x.grad, f"{x.shape}"


@check(graphs=0)
def test_what_it_is(x):
    kinds = isinstance(x, npc.Tensor), isinstance(x, np.ndarray), type(x) is npc.Tensor, callable(x), x is x, x is None
    return kinds, hasattr(x, "shape"), hasattr(x, "grad"), hasattr(x, "ctypes"), getattr(x, "ndim"), getattr(x, "nothing", 7)  # noqa: B009


@check()
def test_methods(x):
    reduced = x.sum(), x.sum(axis=1), x.mean(axis=0), x.max(), x.std(), x.argmax(), x.prod(), x.var(), x.min(), x.any(), x.all()
    moved = x.reshape(3, 4), x.reshape(-1), x.ravel(), x.transpose(), x.squeeze(), x.copy(), x.astype(np.float32)
    return reduced, moved, x.T @ x, x.dot(x.T), x.clip(0.7, 1.2), x.cumsum(axis=0), x.round(1)


@check()
def test_activations(x):
    functions = npc.softmax(x), npc.softmax(x, axis=0), npc.relu(x - 1), npc.gelu(x), npc.sigmoid(x)
    return functions, x.relu(), x.softmax(-1), x.sigmoid(), x.gelu()


@check()
def test_creation(x):
    made = npc.zeros((2, 3)), npc.ones(3, dtype=np.float32), npc.full((2,), 3.5), npc.arange(5), npc.linspace(0, 1, 5)
    like = npc.zeros_like(x), npc.ones_like(x), npc.full_like(x, 2)
    return made, like, npc.eye(3), npc.tensor([1.0, 2.0]), npc.tensor(3), npc.asarray([1, 2]), npc.asarray(x)


# --- operators and operands


@check(without_gradient)
def test_operators_beside_an_array(x):
    a = x.numpy()
    arithmetic = x + a, a + x, a * x, x - a[0], 2 * x, x / 3.5, -x, abs(x), x**2, 2.0**x, x % 0.7, x // 0.3, a @ x.T, x * True
    return arithmetic, divmod(x, 0.3), pow(x, 3), x > a, a >= x, x == a, ~(x > 1)


@check(with_gradient, array)
def test_operators_with_gradient(x, a):
    return x + a, a + x, a * x, x - a[0], 2 * x, x / 3.5, x > a, x**2, 2.0**x, a @ x.T, np.float32(3) * x, a[0, 0] * x, abs(-x)


@check(as_array_of((3, 2), np.float32), as_array_of((2, 3), np.float64))
def test_dtypes(x, y):
    promoted = x @ y, x * np.float32(2), x * np.float64(2), x + np.arange(2), x.sum(dtype=np.float64), x * 2.5
    return promoted, x.astype(np.float64), (x > 0).astype(np.int64)


@check(as_array_of((3, 2), np.float16))
def test_float16(x):
    return x * 3, x.sum(), x @ x.T


@check(lambda round: leaf(np.arange(1.0, 5.0) + 1j * round), lambda round: leaf(np.arange(4.0) + round))
def test_complex(x, y):
    return x * y, x.real, x.imag, abs(x), x.conj(), np.exp(x), x * 1j, y * 1j, x.real + 2, np.sum(x * x.conj())


@check(lambda round: npc.tensor(np.arange(6).reshape(2, 3) + round))
def test_integers(x):
    return x + 1, x / 2, x // 2, x & 1, x << 1, x.sum(), x.mean(), x == 2, x.astype(float), x > 2


@check(lambda round: leaf(np.float64(1.5 + round)))
def test_no_dimensions(x):
    return x * 2, x + np.float64(1), x.sum(), np.sin(x), x.reshape(1), x[()], x[None], x.shape


@check()
def test_where_numpy_gives_scalars(x):
    s = np.sum(x)
    return s, s * 2, s + x, s / x.size, np.sqrt(s), s.shape


# --- conversions


@check(without_gradient)
def test_to_numpy_and_back(x):
    a, b = x.numpy(), np.asarray(x)
    return npc.from_numpy(a * 2), np.sin(b), npc.from_numpy(b)[1:], a


@check(without_gradient)
def test_other_tensors_of_one_memory(x):
    return npc.from_numpy(x.numpy()), x.detach(), x.detach().numpy() * 2


@check(array)
def test_from_numpy_shares_memory(a):
    t, row = npc.from_numpy(a), npc.from_numpy(a[1:])
    t += 1
    row[0] = 7
    return t, a, row


@check(without_gradient, lambda round: np.empty((4, 3)))
def test_out(x, a):
    np.sin(x.numpy(), out=a)
    z = npc.zeros((4, 3))
    np.multiply(x, 2, out=z)
    return a, z


# --- indexing, assignment, views


@check(with_gradient, places)
def test_indices(x, i):
    basic = x[0], x[1:, ::2], x[..., None], x[0, 0], x[::-1], x[-1]
    return basic, x[[0, 2]], x[i], x[:, i], x[i, i], np.take(x, i, axis=1), np.where(x > 1, x, 0)


@check(without_gradient)
def test_assignment(x):
    x[0] = 1.0
    x[1:, 0] += 2
    y = x.clone()
    y[:, 1] = x[:, 0]
    return y


@check()
def test_assignment_with_gradient(x):
    y = x * 2
    y[0] = 1.0
    y[1:, 0] += x[0, 0]
    z = y.clone()
    z[:, 1] = x[:, 0]
    z[-1] = x[0]
    return y, z


@check()
def test_operators_in_place(x, y):
    z = x + 1
    before = z
    z += y
    z *= 2
    z -= 1.0
    z /= y
    z **= 2
    return z, before is z


@check(without_gradient)
def test_arguments_changed_in_place(x):
    x += 1
    x *= 2
    x.fill(3.0)
    return x


@check(without_gradient)
def test_views_see_writes(x):
    v, w, r = x[1:], x.T, x.reshape(-1)
    v += 1
    w[0] = 5.0
    r[0] = -1
    return v, w, r, x


@check(graphs=0)
def test_views_of_arguments_stay_views(x):
    return x[1:], x.T, x.reshape(-1), x, x[0]


@check()
def test_views_of_results(x):
    y = x * 2
    return y, y[1:], y.T[0], y


@check()
def test_the_same_twice(x):
    z = x * 2
    return z, z, z[0], x, x, x * 2


# --- Python around it


@check()
def test_iteration(x):
    a, b, c, d = x
    total = 0
    for row in x:
        total = total + row * 2
    for k, row in enumerate(x):
        total = total + k * row
    for row, column in zip(x, x.T):
        total = total + row * column[0]
    return a * b, c, d, total, [r.sum() for r in x], sum(x), list(map(np.sum, x))


@check(lambda round: [leaf(default_input(n, round)) for n in "pqr"])
def test_lists_of_tensors(given):
    squares = [p * p for p in given]
    for p, q in zip(given, squares):
        squares.append(p + q)
    first, *rest = squares
    return len(given), first, rest, {"a": first, 3: (None, given[0])}, sum(given)


@check()
def test_trees_of_results(x):
    return {"a": x * 2, "b": [x, (x.sum(),)], 3: None}
