"""The array API standard on Tensors: `Tensor.__array_namespace__()` is npcompile.numpy_shim, which has all of its names."""

from __future__ import annotations

import operator
from typing import Any

import array_api_compat
import numpy
import pytest

import npcompile.numpy_shim as np
from npcompile.tensor_core.tensor import Tensor, tensor

VERSION = "2024.12"
A = numpy.array([[0.5, 0.25], [0.125, 0.75]])
I = numpy.array([[3, 1], [2, 5]])  # noqa: E741
B = numpy.array([[True, False], [True, True]])
SQUARE = numpy.array([[4.0, 1.0], [1.0, 3.0]])

# The standard's functions by how they are called here: https://data-apis.org/array-api/2024.12/API_specification
OF_FLOATS = """abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p
log2 negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc
all any argmax argmin argsort count_nonzero cumulative_prod cumulative_sum diff flip matrix_transpose max mean min nonzero prod
sort std sum unique_all unique_counts unique_inverse unique_values var empty_like ones_like zeros_like asarray tril triu"""
OF_TWO_FLOATS = """add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp maximum
minimum multiply nextafter not_equal pow remainder subtract matmul tensordot vecdot searchsorted"""
OF_INTEGERS = {"bitwise_invert": (I,), "bitwise_count": (I,), "bitwise_and": (I, I), "bitwise_or": (I, I), "bitwise_xor": (I, I)}
OF_INTEGERS |= {"bitwise_left_shift": (I, I), "bitwise_right_shift": (I, I)}
OF_BOOLEANS = {"logical_not": (B,), "logical_and": (B, B), "logical_or": (B, B), "logical_xor": (B, B)}
OTHERS: dict[str, tuple[Any, ...]] = {
    "acosh": (A + 1,),
    "arange": (3,),
    "astype": (A, numpy.dtype("f4")),
    "broadcast_arrays": (A, A[0]),
    "broadcast_to": (A, (2, 2, 2)),
    "can_cast": (A, numpy.dtype("c16")),
    "clip": (A, 0.2, 0.6),
    "concat": ([A, A],),
    "empty": ((2, 0),),
    "eye": (3,),
    "expand_dims": (A,),
    "from_dlpack": (A,),
    "full": ((2, 2), 7.0),
    "full_like": (A, 7.0),
    "linspace": (0.0, 1.0, 5),
    "logaddexp": (A, A),
    "meshgrid": (A[0], A[1]),
    "moveaxis": (A, 0, 1),
    "ones": ((2, 2),),
    "permute_dims": (A, (1, 0)),
    "repeat": (A, 2),
    "reshape": (A, (4,)),
    "result_type": (A, I),
    "roll": (A, 1),
    "searchsorted": (numpy.array([0.0, 1.0]), A),
    "squeeze": (A[None],),
    "stack": ([A, A],),
    "take": (A, numpy.array([1, 0])),
    "take_along_axis": (A, I % 2),
    "tile": (A, (2, 1)),
    "unstack": (A,),
    "where": (B, A, A + 1),
    "zeros": ((2, 2),),
    "isdtype": (numpy.dtype("f8"), "real floating"),
    "finfo": (numpy.dtype("f8"),),
    "iinfo": (numpy.dtype("i8"),),
}
KEYWORDS: dict[str, dict[str, Any]] = {
    "cumulative_prod": {"axis": 0},
    "cumulative_sum": {"axis": 1, "include_initial": True},
    "expand_dims": {"axis": 0},
    "squeeze": {"axis": 0},
    "take": {"axis": 0},
}
CASES = dict.fromkeys(OF_FLOATS.split(), (A,)) | dict.fromkeys(OF_TWO_FLOATS.split(), (A, A))
CASES |= OF_INTEGERS | OF_BOOLEANS | OTHERS
LINALG: dict[str, tuple[Any, ...]] = {
    "cholesky": (SQUARE,),
    "cross": (numpy.array([1.0, 0, 0]), numpy.array([0.0, 1, 0])),
    "det": (SQUARE,),
    "diagonal": (SQUARE,),
    "eigh": (SQUARE,),
    "eigvalsh": (SQUARE,),
    "inv": (SQUARE,),
    "matmul": (SQUARE, SQUARE),
    "matrix_norm": (SQUARE,),
    "matrix_power": (SQUARE, 3),
    "matrix_rank": (SQUARE,),
    "matrix_transpose": (SQUARE,),
    "outer": (A[0], A[1]),
    "pinv": (SQUARE,),
    "qr": (SQUARE,),
    "slogdet": (SQUARE,),
    "solve": (SQUARE, A[0]),
    "svd": (SQUARE,),
    "svdvals": (SQUARE,),
    "tensordot": (A, A),
    "trace": (SQUARE,),
    "vecdot": (A, A),
    "vector_norm": (A,),
}
FFT: dict[str, tuple[Any, ...]] = dict.fromkeys(("fft", "ifft", "fftn", "ifftn", "irfft", "irfftn", "hfft"), (A + 0j,))
FFT |= dict.fromkeys(("rfft", "rfftn", "ihfft", "fftshift", "ifftshift"), (A,)) | {"fftfreq": (4,), "rfftfreq": (4,)}


def given(value: Any) -> Any:
    if isinstance(value, list):
        return [given(v) for v in value]
    return tensor(value) if isinstance(value, numpy.ndarray) else value


def compared(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            compared(a, b)
    elif isinstance(expected, (numpy.ndarray, numpy.generic)):
        assert type(found) is Tensor and found.shape == expected.shape and found.dtype == expected.dtype
        numpy.testing.assert_array_equal(found, expected)
    else:
        assert type(found) is type(expected)


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    xp = tensor(A).__array_namespace__(api_version=VERSION)
    args, keywords = CASES[name], KEYWORDS.get(name, {})
    found = getattr(xp, name)(*map(given, args), **keywords)
    expected = getattr(numpy, name)(*args, **keywords)
    if name != "empty_like":
        compared(found, expected)
    else:
        assert type(found) is Tensor and found.shape == A.shape


@pytest.mark.parametrize(("part", "name"), [("linalg", n) for n in LINALG] + [("fft", n) for n in FFT])
def test_extensions(part: str, name: str) -> None:
    args = (LINALG if part == "linalg" else FFT)[name]
    xp = tensor(A).__array_namespace__()
    compared(getattr(getattr(xp, part), name)(*map(given, args)), getattr(getattr(numpy, part), name)(*args))


def test_constants_dtypes_and_inspection() -> None:
    xp = tensor(A).__array_namespace__()
    assert xp is np and xp.newaxis is None
    assert all(isinstance(getattr(xp, name), float) for name in ("e", "inf", "nan", "pi"))
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split():
        assert xp.zeros(2, dtype=getattr(xp, name)).dtype == numpy.dtype(name)
    info = xp.__array_namespace_info__()
    assert info.default_device() == "cpu" and "float64" in info.dtypes() and info.capabilities()["boolean indexing"]
    assert xp.__array_api_version__ == numpy.__array_api_version__
    with pytest.raises(ValueError):
        tensor(A).__array_namespace__(api_version="1999.1")


def test_compat_knows_tensors() -> None:
    x = tensor(A)
    assert array_api_compat.is_array_api_obj(x) and not array_api_compat.is_numpy_array(x)
    assert array_api_compat.array_namespace(x) is np and array_api_compat.array_namespace(x, x * 2) is np
    assert array_api_compat.device(x) == "cpu" and array_api_compat.to_device(x, "cpu") is x and array_api_compat.size(x) == 4
    assert not array_api_compat.is_lazy_array(x) and array_api_compat.is_writeable_array(x)


def test_array_object() -> None:
    x, i, b = tensor(A), tensor(I), tensor(B)
    unary = {"abs": x, "neg": x, "pos": x, "invert": i}
    for name, operand in unary.items():
        compared(getattr(operator, name)(operand), getattr(operator, name)(operand.numpy()))
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge", "matmul"):
        compared(getattr(operator, name)(x, x), getattr(operator, name)(A, A))
        compared(getattr(x, f"__{name}__")(x), getattr(operator, name)(A, A))
    for name in ("and_", "or_", "xor", "lshift", "rshift"):
        compared(getattr(operator, name)(i, i), getattr(operator, name)(I, I))
    assert (x.shape, x.ndim, x.size, x.dtype, x.device) == (A.shape, 2, 4, A.dtype, "cpu")
    compared((x.T, x.mT, x[0], x[b], x[..., None], x[1, ::-1]), (A.T, A.mT, A[0], A[B], A[..., None], A[1, ::-1]))
    one = tensor(3)
    assert (bool(one), int(one), float(one), complex(one), operator.index(one)) == (True, 3, 3.0, 3 + 0j, 3)
    assert x.__dlpack_device__() == A.__dlpack_device__() and numpy.from_dlpack(x).tolist() == A.tolist()
    assert x.to_device("cpu") is x and x.__array_namespace__() is np
    y = tensor(A)
    y[0] = 9.0
    assert y[0].tolist() == [9.0, 9.0]
