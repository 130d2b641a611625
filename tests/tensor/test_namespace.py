"""`import npcompile.numpy_shim as np`: NumPy's names, whose arrays are Tensors."""

from __future__ import annotations

import pickle
import types
from typing import Any

import numpy
import pytest

import npcompile as npc
import npcompile.numpy_shim as np
from npcompile.tensor_core.tensor import Tensor, tensor

MODULES = ("", "linalg", "fft", "random", "emath", "lib", "lib.stride_tricks")
# NumPy's own objects on purpose: what they stand for holds no numbers.
OWN = ("char", "core", "ctypeslib", "dtypes", "exceptions", "f2py", "ma", "polynomial", "rec", "strings", "typing")


def inner(module: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        module = getattr(module, name)
    return module


@pytest.mark.parametrize("path", MODULES)
def test_every_public_name_is_there(path: str) -> None:
    native, ours = inner(numpy, path), inner(np, path)
    names = [n for n in dir(native) if not n.startswith("__")]
    assert names and set(names) <= set(dir(ours))
    for name in names:
        expected, found = getattr(native, name), getattr(ours, name)
        if isinstance(expected, types.ModuleType):
            assert isinstance(found, types.ModuleType) and (name not in OWN or found is expected)
        assert callable(found) == callable(expected), name


def test_names_that_numpy_does_not_have() -> None:
    with pytest.raises(AttributeError, match=r"npcompile\.numpy_shim"):
        np.no_such_name
    with pytest.raises(ImportError):
        exec("from npcompile.numpy_shim.linalg import no_such_name")


def test_from_and_star_imports() -> None:
    scope: dict[str, Any] = {}
    exec(
        "from npcompile.numpy_shim import *\nfrom npcompile.numpy_shim.linalg import det\nimport npcompile.numpy_shim.fft as f",
        scope,
    )
    assert set(numpy.__all__) <= set(scope)
    assert isinstance(scope["det"](scope["eye"](2)), Tensor) and isinstance(scope["f"].fft([1.0, 2.0]), Tensor)


MAKES: dict[str, Any] = {
    "array": lambda np: np.array([[1, 2], [3, 4]]),
    "arange": lambda np: np.arange(3, dtype="f4"),
    "a list": lambda np: np.sin([1.0, 2.0]),
    "a scalar": lambda np: np.sum([1, 2]),
    "tuple": lambda np: np.divmod([7, 8], 3),
    "list": lambda np: np.split(np.arange(4), 2),
    "named tuple": lambda np: np.linalg.eigh([[2.0, 0], [0, 1]]),
    "reduce": lambda np: np.add.reduce([[1, 2], [3, 4]], axis=0),
    "accumulate": lambda np: np.add.accumulate([1, 2, 3]),
    "reduceat": lambda np: np.add.reduceat([1, 2, 3, 4], [0, 2]),
    "outer": lambda np: np.multiply.outer([1, 2], [3, 4]),
    "r_": lambda np: np.r_[1, 2, np.arange(3)],
    "c_": lambda np: np.c_[[1, 2], np.array([3, 4])],
    "mgrid": lambda np: np.mgrid[:2, :3],
    "ogrid": lambda np: np.ogrid[:2, :3],
    "ix_": lambda np: np.ix_([0, 1], [2, 3]),
    "ndarray": lambda np: np.ndarray((2,), int, numpy.arange(4).tobytes(), 8),
    "vectorize": lambda np: np.vectorize(lambda a, b: a + b)(np.arange(3), 2),
    "frombuffer": lambda np: np.frombuffer(b"abcd", "u1"),
    "random": lambda np: np.random.default_rng(0).normal(size=3),
    "legacy random": lambda np: np.random.RandomState(0).permutation(np.arange(5)),
    "emath": lambda np: np.emath.sqrt([-1.0, 4.0]),
    "strided": lambda np: np.lib.stride_tricks.as_strided(np.arange(4), (2, 2), (8, 8)),
    "frompyfunc": lambda np: np.frompyfunc(lambda a: a + 1, 1, 1)(np.arange(3)).astype(int),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_arrays_are_tensors(make: Any) -> None:
    def compared(found: Any, expected: Any) -> None:
        if isinstance(expected, (tuple, list)):
            assert type(found) is type(expected)
            for a, b in zip(found, expected, strict=True):
                compared(a, b)
            return
        assert isinstance(found, (Tensor, numpy.ndarray)) and found.dtype == expected.dtype and found.shape == expected.shape
        numpy.testing.assert_array_equal(found, expected)

    compared(make(np), make(numpy))


def test_what_tensors_do_not_hold_stays_numpys() -> None:
    for made in (
        np.array(["a"]),
        np.array([None]),
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, np.clongdouble),
        np.zeros(2, ">i4"),
    ):
        assert type(made) is numpy.ndarray and isinstance(made, np.ndarray)
    assert isinstance(np.zeros(2, "i4,f8"), numpy.ndarray) and type(np.ma.masked_array(np.zeros(2))) is numpy.ma.MaskedArray
    assert np.float64 is numpy.float64 and np.pi is numpy.pi and np.newaxis is None and np.errstate is numpy.errstate


def test_ndarray_is_the_type_of_tensors() -> None:
    x = np.zeros(3)
    assert isinstance(x, np.ndarray) and not isinstance(1.0, np.ndarray) and issubclass(Tensor, np.ndarray)
    assert np.ndarray.sum(x) == 0 and "reshape" in dir(np.ndarray)

    class Mine(np.ndarray):
        def __new__(cls, n: int) -> Any:
            return np.ndarray.__new__(cls, (n,))

    assert issubclass(Mine, numpy.ndarray) and type(Mine(2)) is Mine and type(x.view(Mine)) is Mine


def test_ufuncs_are_ufuncs() -> None:
    assert isinstance(np.add, np.ufunc) and np.add.nin == 2 and np.bitwise_not is np.invert
    assert np.add == numpy.add and {np.add: 1}[numpy.add] == 1 and np.add != numpy.subtract
    assert pickle.loads(pickle.dumps(np.add)) is np.add and pickle.loads(pickle.dumps(np.sum)) is np.sum
    out = numpy.zeros(2)
    assert np.add([1, 2], 3, out=out) is out and out.tolist() == [4, 5]


def test_tensors_in_lists_are_operands() -> None:
    third = tensor(numpy.longdouble(1)) / 3
    expected = numpy.longdouble(1) / 3
    for made in (np.maximum.reduce([third, 0]), np.maximum([third], [0])[0], np.array([third, third])[1], np.stack([third])[0]):
        assert made.dtype == numpy.longdouble and made.numpy() == expected
    x = tensor(2.0, requires_grad=True)
    np.add.reduce([x, x * x]).backward()
    assert float(x.grad) == 5.0


def test_the_same_objects_come_back() -> None:
    x = np.arange(4.0)
    assert np.asarray(x) is x and np.add(x, 1, out=x) is x and np.array(x) is not x
    view = np.broadcast_to(x, (2, 4))
    x[0] = 7
    assert view[1, 0] == 7 and np.shares_memory(x, np.asarray(x.numpy()))


@pytest.mark.parametrize(
    "function",
    [
        lambda np, x: np.gradient(x),
        lambda np, x: np.cov(x),
        lambda np, x: np.pad(x, 2, mode="edge"),
        lambda np, x: np.interp(1.5, np.arange(4.0), x),
        lambda np, x: np.array([x, x * 2]),
        lambda np, x: np.linalg.norm(x),
        lambda np, x: np.polyval(x, 2.0),
        lambda np, x: np.median(x),
    ],
)
def test_gradients_flow_through_functions_written_in_python(function: Any) -> None:
    """Against differences, through sums of the results with weights."""
    data = numpy.array([1.0, 2.5, 4.0, 7.0])
    x = tensor(data, requires_grad=True)
    made = function(np, x)
    weights = numpy.cos(numpy.arange(made.size)).reshape(made.shape)
    np.sum(made * weights).backward()
    step = 1e-6
    for i in range(len(data)):
        ahead, behind = data.copy(), data.copy()
        ahead[i] += step
        behind[i] -= step
        slope = ((function(numpy, ahead) - function(numpy, behind)) * weights).sum() / (2 * step)
        assert abs(float(x.grad[i]) - slope) < 1e-6


def test_generators_have_numpys_streams() -> None:
    ours, native = np.random.default_rng(3), numpy.random.default_rng(3)
    assert isinstance(ours, np.random.Generator) and isinstance(ours, numpy.random.Generator)
    for name, args in {"normal": (0, 1, 4), "integers": (0, 9, 4), "permutation": (5,), "choice": (9, 4)}.items():
        numpy.testing.assert_array_equal(getattr(ours, name)(*args), getattr(native, name)(*args))
    x = np.arange(6)
    ours.shuffle(x)
    y = numpy.arange(6)
    native.shuffle(y)
    assert x.tolist() == y.tolist()
    np.random.seed(5)
    first = np.random.rand(2)
    numpy.random.seed(5)
    assert first.tolist() == numpy.random.rand(2).tolist()


CAPTURED: list[Any] = [
    lambda x: np.floor(x) + np.sum(x),
    lambda x: np.floor(x),
    lambda x: np.asarray(x),
    lambda x: np.zeros(3) + x,
    lambda x: np.concatenate([x, np.ones((1, 3))]),
    lambda x: np.split(x, 2, axis=0)[1],
    lambda x: np.gradient(x)[0],
    lambda x: np.add(x, 1, out=np.empty((2, 3))),
    lambda x: np.add.reduce(x, axis=0),
]


@pytest.mark.parametrize("function", CAPTURED)
def test_compiled_programs_with_the_namespace_give_tensors(function: Any) -> None:
    data = numpy.arange(6.0).reshape(2, 3) / 4
    for make in (numpy.array, tensor):
        compiled = npc.compile(function)
        for _ in range(2):
            expected, found = function(make(data)), compiled(make(data))
            assert type(found) is type(expected) is Tensor
            numpy.testing.assert_array_equal(found, expected)
    assert len(npc.explain(npc.compile(CAPTURED[0]))(data).graphs) == 1
