"""Every family of NumPy's surface on Tensors: values, dtypes and memory order are NumPy's, gradients are differences'."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npcompile.tensors import Tensor, gradients_of, no_grad, tensor
from tests.tensor.checks import arrays_of, check_gradient, check_second_derivative, same

rng = np.random.default_rng(7)
SQUARE = rng.uniform(0.2, 0.9, (3, 3))
WIDE = rng.uniform(0.2, 0.9, (2, 3, 4))
LAYOUTS: dict[str, np.ndarray] = {
    "contiguous": WIDE,
    "transposed": rng.uniform(0.2, 0.9, (4, 3, 2)).T,
    "fortran": np.asfortranarray(WIDE),
    "strided": rng.uniform(0.2, 0.9, (4, 3, 8))[::2, :, ::2],
    "reversed": WIDE[::-1, :, ::-1],
    "vector": rng.uniform(0.2, 0.9, 5),
    "zero_dimensions": np.array(0.4),
    "empty": np.ones((0, 3)),
}

# Each takes an array, or a Tensor, of any layout.
ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "x + 1": lambda x: x + 1,
    "1 - x": lambda x: 1 - x,
    "x * x": lambda x: x * x,
    "2 / x": lambda x: 2 / x,
    "x ** 3": lambda x: x**3,
    "2 ** x": lambda x: 2**x,
    "x ** 0.5": lambda x: x**0.5,
    "x // 0.3": lambda x: x // 0.3,
    "x % 0.3": lambda x: x % 0.3,
    "divmod": lambda x: divmod(x, 0.7),
    "-x": operator.neg,
    "+x": operator.pos,
    "abs": abs,
    "x < 0.5": lambda x: x < 0.5,
    "x == x": lambda x: x == x,
    "np.float32(2) * x": lambda x: np.float32(2) * x,
    "where": lambda x: np.where(x > 0.5, x * x, 3 * x),
    "clip": lambda x: np.clip(x, 0.3, 0.6),
    "clip method": lambda x: x.clip(0.3, None),
    "maximum": lambda x: np.maximum(x, 0.5),
    "astype": lambda x: x.astype(np.float32),
    "copy": lambda x: x.copy(),
    "round": lambda x: np.round(x, 1),
    "isfinite": np.isfinite,
    "ascontiguousarray": np.ascontiguousarray if hasattr(np.ascontiguousarray, "_implementation") else lambda x: x.copy("C"),
    "zeros_like": lambda x: np.zeros_like(x) + x,
    "real": lambda x: x.real,
    "complex": lambda x: (x * (1 + 2j)).imag,
} | {
    f.__name__: f
    for f in (
        *(np.sin, np.cos, np.tan, np.exp, np.expm1, np.exp2, np.log, np.log2, np.log10, np.log1p, np.sqrt, np.cbrt, np.square),
        *(np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh, np.arcsinh, np.arctanh, np.reciprocal, np.negative),
        *(np.degrees, np.radians, np.floor, np.ceil, np.rint, np.sign, np.fabs, np.modf),
    )
}
SHAPES: dict[str, Callable[[Any], Any]] = {
    "T": lambda x: x.T,
    "reshape": lambda x: x.reshape(-1),
    "reshape F": lambda x: x.reshape((-1, 1), order="F"),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(),
    "np.ravel K": lambda x: np.ravel(x, "K"),
    "squeeze": lambda x: np.squeeze(x[None]),
    "expand_dims": lambda x: np.expand_dims(x, 0),
    "newaxis": lambda x: x[..., None],
    "broadcast_to": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, np.ones((2, *x.shape)))[0],
    "ellipsis": lambda x: x[...],
    "concatenate": lambda x: np.concatenate([x.ravel(), np.ones(2), x.ravel()]),
    "stack": lambda x: np.stack([x, 2 * x]),
    "vstack": lambda x: np.vstack([x.ravel(), x.ravel()]),
    "tile": lambda x: np.tile(x, 2),
    "repeat": lambda x: np.repeat(x, 2),
    "roll": lambda x: np.roll(x, 1),
    "sum": lambda x: x.sum(),
    "np.sum": lambda x: np.sum(x),
    "mean": lambda x: np.mean(x, keepdims=True) if x.size else x,
    "prod": lambda x: np.prod(x),
    "cumsum": lambda x: np.cumsum(x),
    "cumprod": lambda x: np.cumprod(x),
    "std": lambda x: x.std() if x.size > 1 else x,
    "var": lambda x: np.var(x) if x.size else x,
    "max": lambda x: x.max() if x.size else x,
    "argmax": lambda x: x.argmax() if x.size else x,
    "any": lambda x: np.any(x > 0.5),
    "count_nonzero": lambda x: np.count_nonzero(x),
    "add.reduce": lambda x: np.add.reduce(x.ravel()),
    "multiply.outer": lambda x: np.multiply.outer(x, np.array([1.0, 2.0])),
    "add.accumulate": lambda x: np.add.accumulate(x.ravel()),
    "nonzero": lambda x: np.nonzero(np.atleast_1d(x)),
    "tolist": lambda x: x.tolist(),
    "shape": lambda x: (x.shape, x.ndim, x.size, x.itemsize, x.nbytes, x.dtype),
    "np.shape": lambda x: (np.shape(x), np.ndim(x), np.size(x)),
    "allclose": lambda x: np.allclose(x, x),
}
# Of WIDE, of shape (2, 3, 4).
INDEXED: dict[str, Callable[[Any], Any]] = {
    "integer": lambda x: x[1],
    "scalar": lambda x: x[1, 2, 3],
    "negative": lambda x: x[-1, :, -2],
    "slice": lambda x: x[:, 1:, ::2],
    "backwards": lambda x: x[::-1, ::-2],
    "newaxis": lambda x: x[:, None, 0],
    "list": lambda x: x[[1, 0, 1]],
    "array": lambda x: x[:, np.array([0, 2, 2])],
    "two arrays": lambda x: x[np.array([0, 1]), :, np.array([3, 3])],
    "mask": lambda x: x[np.arange(24).reshape(2, 3, 4) % 3 == 0],
    "own mask": lambda x: x[x > 0.5],
    "take": lambda x: np.take(x, [0, 2], axis=1),
    "compress": lambda x: np.compress([True, False, True], x, axis=1),
    "diagonal": lambda x: np.diagonal(x, 1, 1, 2),
    "trace": lambda x: np.trace(x[0, :, :3]),
    "transpose": lambda x: x.transpose(2, 0, 1),
    "swapaxes": lambda x: np.swapaxes(x, 0, 2),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "mT": lambda x: x.mT if hasattr(x, "mT") else np.swapaxes(x, -1, -2),
    "flip": lambda x: np.flip(x, 1),
    "split": lambda x: np.split(x, [1], axis=1),
    "sum axis": lambda x: x.sum(axis=(0, 2)),
    "max axis": lambda x: np.max(x, axis=1),
    "mean axis": lambda x: x.mean(1, keepdims=True),
    "var axis": lambda x: x.var(axis=2, ddof=1),
    "cumsum axis": lambda x: x.cumsum(1),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "matmul": lambda x: x @ np.arange(8.0).reshape(4, 2),
    "rmatmul": lambda x: np.arange(6.0).reshape(2, 3) @ x,
    "dot": lambda x: np.dot(x, np.arange(4.0)),
    "einsum": lambda x: np.einsum("ijk,ik->j", x, x[:, 0]),
    "tensordot": lambda x: np.tensordot(x, x, axes=([0, 1], [0, 1])),
    "inner": lambda x: np.inner(x[0], x[1]),
    "outer": lambda x: np.outer(x[0, 0], x[1, 1]),
    "vdot": lambda x: np.vdot(x[0, 0], x[1, 1]),
    "tril": lambda x: np.tril(x),
    "pad": lambda x: np.pad(x, 1),
    "diag": lambda x: np.diag(x[0, 0]),
    "argsort": lambda x: np.argsort(x, axis=None),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=2),
    "atleast_3d": lambda x: np.atleast_3d(x[0]),
    "add with out": lambda x: np.add(x, x, out=tensor(np.ones((2, 3, 4))) if isinstance(x, Tensor) else np.ones((2, 3, 4))),
    "sum where": lambda x: np.sum(x, where=np.arange(4) > 1),
    "array of rows": lambda x: np.stack([row * 2 for row in x]),
}
# Of SQUARE: NumPy's functions that are written in Python, and those of linear algebra, transforms and sorting.
COMPOSED: dict[str, Callable[[Any], Any]] = {
    "cov": np.cov,
    "gradient": lambda x: np.gradient(x, axis=0),
    "trapezoid": lambda x: np.trapezoid(x, axis=1) if hasattr(np, "trapezoid") else x.sum(),
    "diff": np.diff,
    "average": lambda x: np.average(x, axis=0),
    "norm": np.linalg.norm,
    "kron": lambda x: np.kron(x, np.eye(2)),
    "nansum": np.nansum,
    "nan_to_num": np.nan_to_num,
    "convolve": lambda x: np.convolve(x[0], x[1]),
    "insert": lambda x: np.insert(x, 1, 7.0),
    "unwrap": np.unwrap,
    "polyval": lambda x: np.polyval([1.0, 2.0, 3.0], x),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "solve": lambda x: np.linalg.solve(x, np.ones(3)),
    "matrix_power": lambda x: np.linalg.matrix_power(x, 3),
    "singular values": lambda x: np.linalg.svd(x, compute_uv=False),
    "eigenvalues": lambda x: np.linalg.eigvalsh(x @ x.T),
    "slogdet": lambda x: np.linalg.slogdet(x)[1],
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(3)),
    "sort": lambda x: np.sort(x, axis=0),
    "median": np.median,
    "fft": lambda x: np.fft.fft(x).real,
    "array_equal": lambda x: np.array_equal(x, 2 * x),
    "unique of integers": lambda x: np.unique(x.argsort()),
}


def cases() -> list[Any]:
    found = []
    for layout in LAYOUTS:
        for table in (ELEMENTWISE, SHAPES):
            found += [pytest.param(f, LAYOUTS[layout], id=f"{name}-{layout}") for name, f in table.items()]
    found += [pytest.param(f, WIDE, id=f"{name}-indexed") for name, f in INDEXED.items()]
    return found + [pytest.param(f, SQUARE, id=f"{name}-composed") for name, f in COMPOSED.items()]


@pytest.mark.parametrize(("function", "x"), cases())
def test_values_are_numpys(function: Callable[[Any], Any], x: np.ndarray) -> None:
    expected = function(x.copy(order="K"))
    same(function(tensor(x)), expected)
    recorded = function(tensor(x, requires_grad=True))
    same(recorded, expected)
    if function not in COMPOSED.values():  # those are compiled: equal to 4 units in the last place
        for ours, theirs in zip(arrays_of(recorded), arrays_of(expected), strict=True):
            if ours.device == "cpu":
                np.testing.assert_array_equal(ours._host, theirs, strict=True)
    leaf = tensor(x, requires_grad=True)
    with no_grad():
        result = function(leaf)
    same(result, expected)
    assert not any(r.requires_grad for r in arrays_of(result) if r is not leaf and isinstance(r, Tensor))


@pytest.mark.parametrize(("function", "x"), cases())
def test_gradients_are_differences(function: Callable[[Any], Any], x: np.ndarray) -> None:
    check_gradient(function, x)


@pytest.mark.parametrize(("function", "x"), [c for c in cases() if c.id.endswith(("contiguous", "indexed"))])  # type: ignore[union-attr]
def test_second_derivatives(function: Callable[[Any], Any], x: np.ndarray) -> None:
    check_second_derivative(function, x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize(
    "function",
    [lambda x: x * 2 + 1, lambda x: x / 3, lambda x: np.sin(x) @ x.T, lambda x: x.sum(0), lambda x: x[:, 1], lambda x: x**2],
)
def test_gradients_have_the_dtype_of_the_tensor(function: Callable[[Any], Any], dtype: Any) -> None:
    x = tensor(SQUARE, dtype, requires_grad=True)
    result = function(x)
    same(result, function(SQUARE.astype(dtype)))
    result.backward(np.ones_like(result.detach().numpy()))
    assert x.grad.dtype == dtype and x.grad.shape == x.shape


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64])
def test_integers_compute_as_numpy_does(dtype: Any) -> None:
    a, b = rng.integers(0, 2, (3, 3)).astype(dtype), rng.integers(1, 3, (3, 3)).astype(dtype)
    x, y = tensor(a), tensor(b)
    for f in (operator.and_, operator.or_, operator.xor, operator.add, operator.mul, operator.eq, operator.lt, operator.truediv):
        same(f(x, y), f(a, b))
    same(~x, ~a)
    same(x @ y, a @ b)
    same(np.cumsum(x), np.cumsum(a))
    if dtype is not bool:
        same(x << y, a << b)
        same(x >> y, a >> b)
        same(x // y, a // b)
        same(3 - x, 3 - a)


def test_recorded_products_are_numpys_to_the_bit() -> None:
    a, b = rng.normal(size=(2, 60, 60))
    x, y = tensor(a, requires_grad=True), tensor(b, requires_grad=True)
    for f in (
        operator.matmul,
        lambda p, q: p.T @ q[:, :7],
        lambda p, q: p[0] @ q,
        np.dot,
        np.inner,
        np.vdot,
        lambda p, q: np.tensordot(p, q, axes=((0,), (1,))),
        lambda p, q: np.einsum("ij,jk->ki", p, q),
        lambda p, q: np.einsum("ij,jk,kl->il", p, q, p, optimize=True),
        lambda p, q: np.matmul(p.reshape(6, 10, 60), q),
        lambda p, q: np.std(p, axis=0) + np.mean(q, axis=1),
    ):
        made, expected = f(x, y), f(a, b)
        np.testing.assert_array_equal(made._host, np.asarray(expected), strict=True)
        x.grad = y.grad = None
        made.sum().backward()
        step = 1e-6
        slope = (f(a + step * b, b) - f(a - step * b, b)).sum() / (2 * step)
        np.testing.assert_allclose((x.grad.numpy() * b).sum(), slope, rtol=1e-6, atol=1e-5)


def test_errors_are_numpys() -> None:
    for x in (tensor(WIDE), tensor(WIDE, requires_grad=True)):
        for bad in (
            lambda: x + np.ones(7),
            lambda: x[5],
            lambda: x[np.array([9])],
            lambda: x.reshape(7),
            lambda: np.sum(x, axis=9),
            lambda: x @ x,
            lambda: bool(x),
            lambda: x & x,
            lambda: np.concatenate([x, np.ones(3)]),
            lambda: x.sum(1, 2, 3, 4, 5, 6, 7, 8),
            lambda: x.reshape(),
            lambda: np.sin(x, unknown=1),
            lambda: np.linalg.inv(x[:, :2, :2] * 0),
        ):
            with pytest.raises((ValueError, IndexError, TypeError, np.linalg.LinAlgError)) as ours:
                bad()
            assert "captured" not in str(ours.value) and "builder" not in str(ours.value)
    with pytest.raises(ValueError, match="could not be broadcast"):
        tensor([1.0, 2.0], requires_grad=True) + np.ones(3)


def test_without_a_gradient_the_error_says_so() -> None:
    x = tensor(SQUARE, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"np\.add\.reduceat has no gradient here.*detach"):
        np.add.reduceat(x, [0, 2])
    same(np.add.reduceat(x.detach(), [0, 2]), np.add.reduceat(SQUARE, [0, 2]))
    with pytest.raises(RuntimeError, match=r"np\.histogram has no gradient.*detach"):
        np.histogram(x)
    with no_grad():
        same(np.histogram(x)[0], np.histogram(SQUARE)[0])
    with pytest.raises(RuntimeError, match="ndarray"):
        np.add(x, 1, out=np.ones((3, 3)))


def test_results_without_gradients_need_no_rule() -> None:
    x = tensor([3.0, 1.0, 3.0], requires_grad=True)
    assert np.array_equal(x, x) is True
    values, counts = np.unique(np.isnan(x), return_counts=True)
    assert values.tolist() == [False] and counts.tolist() == [3]
    assert np.flatnonzero(x > 2).tolist() == [0, 2]


def test_numpys_functions_of_arrays_and_tensors_mixed() -> None:
    a, b = rng.normal(size=3), rng.normal(size=3)
    x = tensor(a, requires_grad=True)
    for made, expected in (
        (b + x, b + a),
        (b * x, b * a),
        (np.float64(2) - x, 2 - a),
        (b @ x, b @ a),
        (np.hypot(b, x), np.hypot(b, a)),
        (np.where(b > 0, x, b), np.where(b > 0, a, b)),
        ([1.0, 2.0, 3.0] * x, [1.0, 2.0, 3.0] * a),
        (b < x, b < a),
    ):
        assert isinstance(made, Tensor)
        same(made, expected)
    kept = b.copy()
    y = x * b
    b[:] = 99  # what was read is kept for the gradient
    y.sum().backward()
    same(x.grad, kept)


def test_other_array_types_are_left_alone() -> None:
    x = tensor(SQUARE)
    masked = np.ma.masked_array(SQUARE, SQUARE > 0.5)
    result = x + masked
    assert type(result) is np.ma.MaskedArray
    np.testing.assert_array_equal(result.mask, masked.mask)
    with pytest.raises(RuntimeError, match="detach"):
        x.clone().requires_grad_() + masked
    with pytest.raises(TypeError):
        x + object()  # type: ignore[operator]
    same(x == "no", SQUARE == "no")
    same(x != None, SQUARE != None)  # noqa: E711


def test_ufunc_methods() -> None:
    a = SQUARE.copy()
    x = tensor(a, requires_grad=True) * 1
    places = np.array([0, 2, 2])
    y = x.clone()
    np.add.at(y, places, 1.0)
    b = a.copy()
    np.add.at(b, places, 1.0)
    same(y, b)
    same(np.add.reduce(x, axis=1), np.add.reduce(a, axis=1))
    same(np.multiply.outer(x, x), np.multiply.outer(a, a))
    same(np.add.reduceat(x.detach(), [0, 2]), np.add.reduceat(a, [0, 2]))
    (g,) = gradients_of([y.sum()], [x])
    same(g, np.ones((3, 3)))


def test_out_and_where() -> None:
    a = SQUARE
    x = tensor(a, requires_grad=True)
    out = tensor(np.zeros((3, 3)))
    result = np.multiply(x, 2, out=out, where=a > 0.5)
    assert result is out and out.requires_grad
    same(out, np.multiply(a, 2, out=np.zeros((3, 3)), where=a > 0.5))
    out.sum().backward()
    same(x.grad, np.where(a > 0.5, 2.0, 0.0))
    plain = np.zeros((3, 3))
    assert np.add(x.detach(), 1, out=plain) is plain
    same(tensor(plain), a + 1)


@pytest.mark.parametrize("name", ["softmax", "relu", "gelu", "sigmoid"])
def test_activations(name: str) -> None:
    import npcompile.tensors as npt

    a = np.array([[-800.0, -3.0, -0.1, 0.3], [0.2, 2.0, 30.0, 800.0]])
    function = getattr(npt, name)
    expected = {
        "softmax": lambda: np.exp(a - a.max(-1, keepdims=True)) / np.exp(a - a.max(-1, keepdims=True)).sum(-1, keepdims=True),
        "relu": lambda: np.maximum(a, 0),
        "gelu": lambda: 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))),
        "sigmoid": lambda: 0.5 * (1 + np.tanh(a / 2)),
    }[name]()
    with np.errstate(all="raise", under="ignore"):
        for made in (function(tensor(a)), getattr(tensor(a), name)(), function(a)):
            np.testing.assert_allclose(np.asarray(made), expected, rtol=1e-12, atol=1e-15)
    assert function(tensor(a, np.float32)).dtype == np.float32
    check_gradient(function, a[:, 1:3])
    check_second_derivative(function, a[:, 1:3])
    x = tensor(np.zeros(2), requires_grad=True)
    function(x)[0].backward()
    slope = {"softmax": 0.25, "relu": 0.0, "gelu": 0.5, "sigmoid": 0.25}[name]
    assert x.grad[0].item() == pytest.approx(slope)


def test_array_scalars_have_their_own_operators_and_methods() -> None:
    x = np.array([-np.inf, -0.0, 4.0, -1.0])
    t = tensor(x)
    with np.errstate(all="ignore"):
        for k in range(4):  # a power, not the square root that arrays have
            assert np.asarray(t[k] ** 0.5).tobytes() == (x[k] ** 0.5).tobytes() or k == 3
    with pytest.warns(RuntimeWarning, match="overflow encountered in scalar add"):
        tensor(np.array([127], np.int8))[0] + np.int8(1)
    assert type(t.sum().astype(object)) is float and type(tensor(np.array(1.0)).astype(object)) is np.ndarray
    total = before = t[2]
    total += 1
    assert total == 5 and before == 4
