"""bfloat16 on a device: numbers of 16 bits in memory, of float32 in registers, rounded as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda import ordered_reductions
from npcompile.backends.cuda.runtime.compiler import compile_all
from npcompile.compiler import compiled_function
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.op import OPS
from tests.cuda.corpus import requests_of
from tests.cuda.interpreted import DeviceArray
from tests.cuda.test_primitives import DTYPES
from tests.cuda.there import There, there  # noqa: F401  (a fixture)
from tests.ops.table import BFLOAT16
from tests.shim.harness import same_values

from npcompile.backends.cuda.programs.primitives import is_native  # isort: skip  # after the interpreter is chosen

RNG = np.random.default_rng(5)
X, Y = (RNG.normal(size=(6, 40)).astype(BFLOAT16) for _ in range(2))
EVERY = np.arange(2**16, dtype=np.uint16).view(BFLOAT16)

PROGRAMS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y: (x * 2 + y) / 3 - abs(x),
    "float32 and back": lambda x, y: (x * np.float32(0.1) + 2.5).astype(x.dtype),
    "choices": lambda x, y: np.where(x > y, x, np.maximum(y, 0)),
    "extremes": lambda x, y: (x.max(), x.min(axis=0), x.max(axis=1), x.argmax(axis=1), np.fmin.reduce(x, axis=0)),
    "running extremes": lambda x, y: (np.maximum.accumulate(x, axis=1), np.minimum.accumulate(x, axis=0)),
    "sums": lambda x, y: (x.sum(), x.sum(axis=0), (x * y).sum(axis=1), x.mean(), np.cumsum(x, axis=1)),
    "sums in float32": lambda x, y: x.astype(np.float32).max(axis=1) + 1,
    "views": lambda x, y: (x[::-1, ::2] + 1, x.T * 2, x.reshape(-1)[3:9] * y[0, :6], np.concatenate([x, y * 2], axis=1)),
    "bits": lambda x, y: (x.view(np.uint16) ^ 1).view(y.dtype) * 1,
    "writes": lambda x, y: (x.__setitem__((slice(1, 3), 0), 2.5), x.__iadd__(y), x[[0, 2]] * 2, x.__setitem__([1, 3], y[:2])),
    "scalars": lambda x, y: x * y[0, 0] + x[1, 1],
    "made": lambda x, y: np.zeros((2, 3), x.dtype) + np.full((2, 3), np.inf, x.dtype),
}


def run(function: Callable[..., Any]) -> list[Any]:
    arrays = [X.copy(), Y.copy()]
    return [function(*arrays), *arrays]


def same(given: Any, expected: Any) -> None:
    if isinstance(expected, (list, tuple)):
        for a, b in zip(given, expected, strict=True):
            same(a, b)
    elif expected is not None:
        assert given.dtype == expected.dtype and given.shape == expected.shape
        same_values(given, expected, ulp=0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, there: There) -> None:  # noqa: F811
    compiled = npc.compile(PROGRAMS[name])
    expected = run(PROGRAMS[name])
    for _ in range(2):
        with npc.device("cuda"):
            same(run(compiled), expected)


@pytest.mark.parametrize("name", ["arithmetic", "choices", "extremes", "sums", "views", "writes"])
def test_arrays_of_the_device(name: str, there: There) -> None:  # noqa: F811
    arrays = [there.put(X.copy()), there.put(Y.copy())]
    given = npc.compile(PROGRAMS[name])(*arrays)
    same(there.get([given, *arrays]), run(PROGRAMS[name]))


@pytest.mark.parametrize("axis", [0, 1])
def test_many_sums_are_one_loop(axis: int, there: There, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Each rounded after each step, as NumPy does: the device adds the same numbers in the same order."""

    def f(x: np.ndarray) -> Any:
        return (x * 2).sum(axis=axis) + 1, (x + 1).prod(axis=axis)

    monkeypatch.setattr(ordered_reductions, "FEWEST", 8)
    x = RNG.uniform(0.5, 1.5, (13, 8) if axis == 0 else (8, 13)).astype(BFLOAT16)
    compiled = npc.compile(f)
    for given in (x, np.asfortranarray(x), x[:, ::-1] if axis == 0 else x[::-1]):
        same(there.get(compiled(there.put(given))), f(given))
    kernels = [kernel for _, made in compiled_function(compiled).graphs for kernel in made.kernels]
    assert any("loop" in str(kernel) for kernel in kernels), kernels


def test_every_number_is_rounded_as_numpy_does(there: There) -> None:  # noqa: F811
    """Also ties, which go to the even one, subnormal numbers, infinities and what overflows."""

    def f(bits: np.ndarray, halves: np.ndarray, x: np.ndarray) -> Any:
        return halves.astype(x.dtype), halves.astype(np.float64).astype(x.dtype), bits.view(x.dtype).astype(np.float32), x * x

    bits = EVERY.view(np.uint16)
    halves = ((bits.astype(np.uint32) << 16) + 0x8000).view(np.float32)
    halves = np.where(np.isnan(halves), np.float32(np.nan), halves)
    numbers = np.where(np.isnan(EVERY), BFLOAT16.type(1), EVERY)
    with np.errstate(all="ignore"), npc.device("cuda"):
        expected = f(bits, halves, numbers)
        same(npc.compile(f)(bits, halves, numbers), expected)


def test_tensors(there: There) -> None:  # noqa: F811
    x = there.tensor(X, requires_grad=True)
    (x * x).sum().backward()
    on_cpu = npc.tensor(X, requires_grad=True)
    (on_cpu * on_cpu).sum().backward()
    same(there.get(x.grad)["data"], on_cpu.grad.numpy())
    assert not hasattr(x.detach(), "__cuda_array_interface__")  # which has no name for the dtype


@pytest.mark.gpu
@pytest.mark.torch
def test_exchange_with_torch_on_the_device(there: There) -> None:  # noqa: F811
    if there.array_type is DeviceArray:
        pytest.skip("the stand-in exchanges with nobody")
    import torch

    x = there.tensor(X)
    taken = torch.from_dlpack(x)
    assert taken.dtype == torch.bfloat16 and taken.is_cuda
    back = npc.from_dlpack(taken)
    assert back.dtype == BFLOAT16 and back._data.data.ptr == x._data.data.ptr


@pytest.mark.parametrize("architecture", [80, 90])
def test_every_primitive_compiles(architecture: int) -> None:
    builder = Builder()
    x, y = (builder.input(TensorMeta((64,), BFLOAT16)) for _ in range(2))
    results = [builder.apply("cast", x, dtype=dtype) for dtype in DTYPES]
    results += [builder.apply("cast", builder.input(TensorMeta((64,), dtype)), dtype=BFLOAT16) for dtype in DTYPES]
    for name, op in OPS.items():
        if op.kind == "elementwise" and op.numpy is not None and name not in ("where", "ldexp"):
            try:
                node = builder.apply(name, *(x, y)[: op.loops.nin])
            except (Decline, TypeError, AssertionError):
                continue
            results += [node] if is_native(node) else []
    results += [builder.apply("reduce", x, reducer="maximum", axes=(0,)), builder.apply("bitcast", x, dtype=np.dtype("u2"))]
    assert len(results) > 80 and compile_all(requests_of(builder.finish(results)), architecture)
