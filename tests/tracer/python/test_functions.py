"""User functions whose every outcome must be NumPy's: captured whole."""

import math

import numpy as np

from tests.tracer.harness import check


@check(graphs=1, breaks=0)
def test_elementwise(x, y):
    return np.sin(x) * np.exp(-y * y) + np.tanh(x * y)


@check(graphs=1, breaks=0)
def test_product_sum(x, y):
    return np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1))


@check(graphs=1, breaks=0)
def test_keywords_and_methods(x):
    return x.sum(axis=0, keepdims=True) / x.mean(axis=1)[:, None] + x.max(), x.T.reshape(-1)


@check(graphs=0, breaks=0)
def test_views_of_input(x):
    return x[::-1], x.T, x[1], x[:, None, 2], x.reshape(3, 4)


@check(graphs=0, breaks=0)
def test_same_object_back(x):
    return x, (x, [x])


@check(graphs=1, breaks=0)
def test_write_to_argument(x, y):
    x[1:] = y[:-1] * 2
    x[0, 0] = 7
    return x[0]


@check(graphs=1, breaks=0)
def test_inplace_operators(x, y):
    z = x
    x += y
    x *= 2
    return z


@check(graphs=1, breaks=0)
def test_write_through_view(x):
    row = x[1]
    row += 1
    x.T[0] = 0
    return row


@check(graphs=1, breaks=0)
def test_local_array_with_views(x):
    out = np.zeros(x.shape)
    top = out[:2]
    top += x[:2]
    out[2:] = -x[2:]
    return out, top


@check(graphs=1, breaks=0)
def test_scalars_stay_apart_from_arrays(x):
    s = x.sum()
    return s, s + 1, np.asarray(s), x[0, 0], x[0, ..., 0], x.max(axis=0)


@check(np.arange(12, dtype=np.int32).reshape(3, 4), graphs=1, breaks=0)
def test_integer_arithmetic(x):
    return x + 1, x / 2, x // 5, x % 5, x**2, -x, x << 1, x == 3, x.mean(), x.sum()


def scale(x, factor=2.0, *, shift=0):
    return x * factor + shift


@check(graphs=1, breaks=0)
def test_inlined_function(x):
    return scale(x) + scale(x, 3) + scale(x, shift=1, factor=5)


@check(graphs=1, breaks=0)
def test_star_arguments(x, y):
    args, kwargs = (x,), {"shift": y}
    return scale(*args, **kwargs)


@check(graphs=1, breaks=0)
def test_closure(x):
    k = 3

    def inner(a):
        return a * k

    return inner(x) + (lambda b: b + k)(x)


@check(graphs=1, breaks=0)
def test_nonlocal(x):
    total = 0

    def add(a):
        nonlocal total
        total = total + a

    add(x)
    add(2 * x)
    return total


@check(graphs=1, breaks=0)
def test_short_loop(x):
    for i in range(4):
        x = x + i * x.sum()
    return x


@check(graphs=1, breaks=0)
def test_while(x):
    n = 0
    while n < 3:
        x = x * 2
        n += 1
    return x, n


@check(graphs=1, breaks=0)
def test_containers(x, y):
    parts = [x, y]
    parts.append(x + y)
    table = {"a": x, "b": parts}
    table["c"] = sum(parts)
    first, *rest = parts
    return table, [p * 2 for p in rest], first, len(parts)


@check(graphs=1, breaks=0)
def test_comprehensions(x):
    squares = [k * k for k in range(4)]
    named = {k: x * k for k in range(2)}
    return squares, named, [v for v in squares if v > 2]


@check(graphs=1, breaks=0)
def test_zip_enumerate(x, y):
    total = 0.0
    for i, (a, b) in enumerate(zip([x, y], (y, x))):
        total = total + i * a - b
    return total


@check(graphs=1, breaks=0)
def test_iterate_rows(x):
    total = 0
    for row in x:
        total = total + row * row.sum()
    return total


@check(graphs=1, breaks=0)
def test_branch_on_shape(x):
    if x.ndim == 2 and x.shape[0] > 2:
        return x[:2] * 2
    return x


@check(graphs=0, breaks=0)
def test_metadata(x):
    return x.dtype, x.shape, x.strides, x.ndim, x.size, x.itemsize, x.T.flags.f_contiguous, (-x).base


@check(graphs=0, breaks=0)
def test_flags_are_numpys(x):
    flags = x.flags
    return flags, x.T.flags["F_CONTIGUOUS"], flags.writeable and not x.T.flags.c_contiguous


@check()
def test_argument_made_read_only(x):
    x.flags.writeable = False
    return x


@check(graphs=1, breaks=0)
def test_errstate(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = x / (x - x)
    return np.where(np.isfinite(y), y, 0)


@check(lambda _: default(), 3, 2.5, graphs=1, breaks=0)
def test_python_numbers(x, n, h):
    return x * n, x / len(x), h * n, math.sqrt(h), n // 2, x**n, (x * h).sum() / n


def default():
    return np.linspace(0.5, 1.5, 12).reshape(4, 3)


@check(graphs=1, breaks=0)
def test_fstring(x):
    return f"{x.shape!r} {x.ndim:>3} {'a'}", x + 1


@check(graphs=1, breaks=0)
def test_fortran_order(x):
    y = np.asarray(x, order="F")
    z = np.zeros((3, 4), order="F")
    return y, y + 1, z, y.copy(order="K"), np.empty_like(y).strides


@check(graphs=1, breaks=0)
def test_masks_and_where(x):
    y = x.copy()
    y[y > 1] = 0
    return np.where(x > 1, x, -x), y, (x > 1).any(), np.clip(x, 0.7, 1.2)


@check(graphs=1, breaks=0)
def test_fancy_indexing(x):
    i = np.array([2, 0, -1])
    y = x.copy()
    y[i, [0, 1, 2]] = 5
    return x[i], x[i, 1], x[[0, 1]][:, [1, 0]], y


@check(graphs=1, breaks=0)
def test_out_arguments(x, y):
    out = np.empty_like(x)
    r = np.add(x, y, out=out)
    np.multiply(x, 2, out=x)
    return r, out


@check(graphs=1, breaks=0)
def test_matmul(x, y):
    return x @ y.T, np.dot(x[0], y[0]), np.einsum("ij,kj->ik", x, y)


@check(graphs=1, breaks=0)
def test_numpy_written_in_python(x):
    return np.roll(x, 1, axis=0), np.flip(x, 1), np.stack([x, x]), np.outer(x[0], x[1]), np.trace(x)


@check(lambda _: np.float32(3.5), lambda _: np.int8(100), graphs=1, breaks=0)
def test_numpy_scalar_arguments(a, b):
    return a * 2, b + b, a / b, np.sqrt(a)


class Model:
    def __init__(self, w, b):
        self.w, self.b = w, b

    @property
    def size(self):
        return self.w.size

    def predict(self, x):
        return x @ self.w + self.b


@check(lambda _: Model(np.ones((3, 2)), 0.5), graphs=1, breaks=0)
def test_object_with_arrays(model, x):
    return model.predict(x) * model.size


WEIGHTS = np.arange(3.0)


@check(graphs=1, breaks=0)
def test_global_array(x):
    return x * WEIGHTS


@check(graphs=1, breaks=0)
def test_is_none(x, y=None):
    if y is None:
        y = 1
    return x if y is None else x + y


@check(graphs=1, breaks=0)
def test_inner_function_with_annotations(x):
    def inner(y: np.ndarray, z: float = 2.0) -> np.ndarray:
        return y * z

    return inner(x)


@check()
def test_annotations_of_a_function_that_leaves(x):
    def inner(y: int, *, z: float = 2.0) -> list:
        return y * z

    return inner(x), sorted(inner.__annotations__), inner.__annotations__["return"] is list, inner.__kwdefaults__


@check(np.float64(2.0), np.ones(3))
def test_methods_that_scalars_do_not_have(x, y):
    try:
        x.partition(0)
    except AttributeError as error:
        y = y * len(str(error))
    return y, x.dot(y)


@check(1.5, 7)
def test_attribute_that_numbers_do_not_have(a, n):
    try:
        found = getattr(a, "shape", 2), getattr(n, "shape", ()), getattr((a, n), "shape", None), getattr(n, "real", None)
    except Exception:
        pass
    return found, hasattr(a, "shape")


@check(lambda round: np.array([-np.inf, -0.0, 4.0, 0.0]), lambda round: np.float64([0.5, 3.0][round]), 0.5, graphs=1, breaks=0)
def test_powers_that_are_square_roots(x, exponent, number):
    """NumPy takes roots where its loops see one exponent, 0.5; scalars do not. The root of -inf is NaN, that of -0.0 is -0.0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        roots = np.power(x, 0.5), np.power(x, exponent), x**exponent, x**number, np.power(x[1], exponent)
        powers = np.power(x, np.full(4, 0.5)), np.float_power(x, 0.5), x[1] ** 0.5, x[0] ** exponent, x[1] ** number
        return roots, powers
