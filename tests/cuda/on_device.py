"""On a machine with a GPU: check the CUDA backend against NumPy, then time it beside CuPy and torch.

    PYTHONPATH=. python3 tests/cuda/on_device.py [--quick] [--tests]

Needs CuPy, Triton, NumPy, SciPy and threadpoolctl; torch is a peer that may be missing. `--tests` runs pytest on the tests
marked `gpu` first. The exit status is 1 when an answer is wrong.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

if importlib.util.find_spec("platformdirs") is None:  # a machine without a network; the only pure-Python need of the backend
    _folder = str(Path(tempfile.gettempdir(), "npcompile-cache"))
    sys.modules["platformdirs"] = types.SimpleNamespace(user_cache_dir=lambda *_, **__: _folder)  # type: ignore[assignment]

import npcompile as npc
from npcompile.backends.cuda.backend import compile_cuda
from npcompile.backends.cuda.device import NoDevice, current_device
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.graph import Node
from tests.cpu.random_graphs import RandomGraph, arrays_for

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)


# --- answers


def same_answer(graph: Graph, values: dict[str, int], seed: int) -> None:
    """Outputs, memory order and writes as NumPy has them."""
    ours, theirs = (arrays_for(graph, values, seed) for _ in range(2))
    with np.errstate(all="ignore"):
        got, expected = compile_cuda(graph)(*ours), compile_eager(graph, [])(*theirs)
    count = len(graph.inputs)
    for a, b in zip((*got, *ours[:count]), (*expected, *theirs[:count])):
        assert a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides, (a.dtype, b.dtype, a.strides, b.strides)
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(a, b)


def check_random_graphs(seeds: range) -> list[str]:
    wrong = []
    for seed in seeds:
        graph = replace(RandomGraph(seed, 12, is_dynamic=seed % 2 == 1).build(), checks=frozenset())
        sizes = [{}] if seed % 2 == 0 else [{"n": 4, "m": 3}, {"n": 30, "m": 20}]
        for values in sizes:
            if graph.env is not None and all(eval(g, {}, values) for g in graph.env.guards if values):
                try:
                    same_answer(graph, values, seed)
                except Exception:
                    wrong.append(f"random graph {seed} {values}: {traceback.format_exc(limit=-3)}")
    return wrong


def check_functions() -> list[str]:
    """Programs of users, through `npc.device`."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 300, 400))
    programs: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "elementwise": (lambda a, b: np.sin(a) * np.exp(-b * b) + np.tanh(a * b), (x, y)),
        "transposed": (lambda a, b: a.T + b.reshape(400, 300), (x, y)),
        "reductions": (lambda a: (a.sum(), a.sum(0), a.mean(1), a.max(), a.argmin(1)), (x,)),
        "float32 sum": (lambda a: a.sum(), (rng.standard_normal(5_000_001).astype(F4),)),
        "product": (lambda a, b: a @ b.T + 1, (x, y)),
        "scan": (lambda a: np.cumsum(a, axis=1), (x,)),
        "integers": (lambda a: (a // 3, a % -7, a**3), (np.arange(-500, 500),)),
        "gather": (lambda a, i: a[i] * 2, (x, np.array([3, -1, 299]))),
        "long rows": (lambda a: a / a.sum(1, keepdims=True), (rng.uniform(1, 2, (5, 40_000)),)),
        "strided": (lambda a: a[::-2, 1::3] * 2, (x,)),
    }
    wrong = []
    for name, (function, arguments) in programs.items():
        compiled = npc.compile(function)
        try:
            expected = function(*arguments)
            with npc.device("cuda"):
                got = compiled(*arguments)
                again = compiled(*arguments)
            for results in (got, again):
                pairs = zip(results, expected) if isinstance(expected, tuple) else [(results, expected)]
                for a, b in pairs:
                    assert type(a) is type(b) and a.dtype == b.dtype, (type(a), type(b))
                    np.testing.assert_allclose(a, b, rtol=2e-5 if b.dtype == F4 else 1e-11, atol=1e-11)
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc(limit=-4)}")
    picked = npc.compile(lambda a, i: a[i])
    try:
        with npc.device("cuda"):
            picked(x, np.array([1, 300]))
        wrong.append("an index out of bounds raised nothing")
    except IndexError:
        pass
    return wrong


# --- times


@dataclass(frozen=True)
class Clock:
    """Events of a library's own stream: those of another's would not wait for its work."""

    synchronize: Callable[[], None]
    event: Callable[[], Any]
    elapsed: Callable[[Any, Any], float]  # milliseconds


def cupy_clock(cp: Any) -> Clock:
    return Clock(cp.cuda.get_current_stream().synchronize, cp.cuda.Event, cp.cuda.get_elapsed_time)


def torch_clock(torch: Any) -> Clock:
    return Clock(torch.cuda.synchronize, lambda: torch.cuda.Event(enable_timing=True), lambda a, b: a.elapsed_time(b))


def milliseconds(call: Callable[[], Any], clock: Clock) -> float:
    """The median time of one call, by events of the device around runs long enough to hide the launches."""
    for _ in range(3):
        call()
    clock.synchronize()
    started = time.perf_counter()
    call()
    clock.synchronize()
    count = max(3, min(100, int(0.02 / max(time.perf_counter() - started, 1e-6))))
    times = []
    for _ in range(9):
        first, last = clock.event(), clock.event()
        first.record()
        for _ in range(count):
            call()
        last.record()
        last.synchronize()
        times.append(clock.elapsed(first, last) / count)
    return statistics.median(times)


def keep(builder: Builder, reduced: Node, like: Node) -> Node:
    made = builder.apply("reshape", reduced, shape=(*like.shape[:-1], 1))
    return builder.apply("broadcast_to", made, shape=like.shape)


def constant(builder: Builder, value: float, like: Node) -> Node:
    return builder.apply("broadcast_to", builder.constant(value, like.dtype), shape=like.shape)


def relu(builder: Builder, x: Node) -> Node:
    positive = builder.apply("maximum", builder.apply("add", x, constant(builder, 1, x)), constant(builder, 0, x))
    return builder.apply("multiply", positive, constant(builder, 2, x))


def mixed(builder: Builder, x: Node, y: Node) -> Node:
    e = builder.apply("exp", builder.apply("negative", builder.apply("multiply", y, y)))
    wave = builder.apply("multiply", builder.apply("sin", x), e)
    return builder.apply("add", wave, builder.apply("tanh", builder.apply("multiply", x, y)))


def softmax(builder: Builder, x: Node) -> Node:
    largest = builder.apply("reduce", x, reducer="maximum", axes=(1,))
    e = builder.apply("exp", builder.apply("subtract", x, keep(builder, largest, x)))
    return builder.apply("divide", e, keep(builder, builder.apply("reduce", e, reducer="add", axes=(1,)), x))


def layer_norm(builder: Builder, x: Node) -> Node:
    def mean(v: Node) -> Node:
        total = builder.apply("reduce", v, reducer="add", axes=(1,))
        return builder.apply("divide", total, constant(builder, x.shape[1], total))

    centred = builder.apply("subtract", x, keep(builder, mean(x), x))
    variance = mean(builder.apply("square", centred))
    deviation = builder.apply("sqrt", builder.apply("add", variance, constant(builder, 1e-5, variance)))
    return builder.apply("divide", centred, keep(builder, deviation, x))


def total(axes: tuple[int, ...]) -> Callable[[Builder, Node], Node]:
    return lambda builder, x: builder.apply("reduce", x, reducer="add", axes=axes)


def cupy_softmax(cp: Any, x: Any) -> Any:
    e = cp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def cupy_layer_norm(cp: Any, x: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    return centred / cp.sqrt((centred * centred).mean(1, keepdims=True) + cp.float32(1e-5))


def torch_layer_norm(torch: Any, x: Any) -> Any:
    centred = x - x.mean(1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(1, keepdim=True) + 1e-5)


# name, size, dtype, the program as a graph, with CuPy, with CuPy's fuse (or None), with torch
CASES: list[tuple[str, tuple[int, ...], np.dtype, int, Any, Any, bool, Any]] = [
    ("relu(x + 1) * 2", (4096, 4096), F4, 1, relu, lambda cp, x: cp.maximum(x + 1, 0) * 2, True, lambda t, x: t.relu(x + 1) * 2),
    (
        "sin(x) exp(-y y) + tanh(x y)",
        (8192, 8192),
        F8,
        2,
        mixed,
        lambda cp, x, y: cp.sin(x) * cp.exp(-y * y) + cp.tanh(x * y),
        True,
        lambda t, x, y: t.sin(x) * t.exp(-y * y) + t.tanh(x * y),
    ),
    ("softmax", (4096, 4096), F4, 1, softmax, cupy_softmax, False, lambda t, x: t.softmax(x, 1)),
    ("layer norm", (4096, 4096), F4, 1, layer_norm, cupy_layer_norm, False, torch_layer_norm),
    ("sum", (4096, 4096), F4, 1, total((0, 1)), lambda cp, x: x.sum(), False, lambda t, x: x.sum()),
    ("sum of rows", (4096, 4096), F4, 1, total((1,)), lambda cp, x: x.sum(1), False, lambda t, x: x.sum(1)),
    ("sum of columns", (4096, 4096), F4, 1, total((0,)), lambda cp, x: x.sum(0), False, lambda t, x: x.sum(0)),
]


def times(case: tuple[Any, ...], cp: Any, torch: Any) -> dict[str, float | str]:
    _, shape, dtype, count, program, by_cupy, is_fusible, by_torch = case
    rng = np.random.default_rng(0)
    host = [rng.standard_normal(shape).astype(dtype) for _ in range(count)]
    arrays = [cp.asarray(h) for h in host]
    builder = Builder()
    graph = builder.finish([program(builder, *(builder.input(TensorMeta(shape, dtype)) for _ in range(count)))])
    compiled = compile_cuda(graph)
    found: dict[str, float | str] = {}
    clock = cupy_clock(cp)
    started = time.perf_counter()
    (got,) = compiled(*arrays)
    cp.cuda.get_current_stream().synchronize()
    found["compile s"] = time.perf_counter() - started
    expected = by_cupy(cp, *arrays)
    scale = float(cp.abs(expected).max())
    if not float(cp.abs(got - expected).max()) <= (2e-5 if dtype == F4 else 1e-13) * max(scale, 1):
        found["wrong"] = f"{float(cp.abs(got - expected).max())}"
    found["npcompile"] = milliseconds(lambda: compiled(*arrays), clock)
    spare = cp.empty_like(arrays[0])
    found["copy"] = milliseconds(lambda: cp.copyto(spare, arrays[0]), clock)
    found["CuPy"] = milliseconds(lambda: by_cupy(cp, *arrays), clock)
    if is_fusible:
        fused = cp.fuse()(lambda *xs: by_cupy(cp, *xs))
        found["CuPy fuse"] = measured(lambda: milliseconds(lambda: fused(*arrays), clock))
    if torch is not None:
        tensors = [torch.as_tensor(h, device="cuda") for h in host]
        peer = torch_clock(torch)
        found["torch"] = measured(lambda: milliseconds(lambda: by_torch(torch, *tensors), peer))
        made = torch.compile(lambda *xs: by_torch(torch, *xs))
        found["torch.compile"] = measured(lambda: milliseconds(lambda: made(*tensors), peer))
    return found


def measured(time_it: Callable[[], float]) -> float | str:
    """A peer's time, or why it has none."""
    try:
        return time_it()
    except Exception as error:
        return type(error).__name__


COLUMNS = ["compile s", "npcompile", "copy", "CuPy", "CuPy fuse", "torch", "torch.compile", "wrong"]


def print_table(cp: Any, torch: Any) -> bool:
    print(f"\n{'milliseconds':30s}" + "".join(f"{c:>14s}" for c in COLUMNS))
    is_right = True
    for case in CASES:
        try:
            found = times(case, cp, torch)
        except Exception:
            traceback.print_exc()
            is_right = False
            continue
        is_right &= "wrong" not in found
        cells = [f"{v:.4f}" if isinstance(v, float) else str(v) for v in (found.get(c, "-") for c in COLUMNS)]
        print(f"{case[0]:30s}" + "".join(f"{c:>14s}" for c in cells), flush=True)
    small = cp.arange(10.0)
    builder = Builder()
    graph = builder.finish([relu(builder, builder.input(TensorMeta((10,), F8)))])
    compiled = compile_cuda(graph)
    print(f"host time of one call on 10 elements of the device: {host_microseconds(lambda: compiled(small), cp):.1f} us")
    return is_right


def host_microseconds(call: Callable[[], Any], cp: Any, count: int = 2000) -> float:
    call()
    started = time.perf_counter()
    for _ in range(count):
        call()
    elapsed = time.perf_counter() - started
    cp.cuda.get_current_stream().synchronize()
    return elapsed / count * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few random graphs")
    parser.add_argument("--tests", action="store_true", help="run the tests marked gpu first")
    options = parser.parse_args()
    try:
        device = current_device()
    except NoDevice as error:
        print(error)
        return 1
    warnings.simplefilter("error", UserWarning)  # a kernel that Triton refuses is an error here
    cp = device.library
    triton = importlib.metadata.version("triton")
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(
        f"{name} (sm_{device.architecture}), CuPy {cp.__version__}, Triton {triton}, NumPy {np.__version__}, "
        f"Python {sys.version.split()[0]}"
    )
    if options.tests:
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "tests/cuda"], check=False)
    started = time.perf_counter()
    wrong = check_functions()
    print(f"programs checked in {time.perf_counter() - started:.1f} s: {len(wrong)} wrong", flush=True)
    started = time.perf_counter()
    found = check_random_graphs(range(200, 210 if options.quick else 260))
    print(f"random graphs checked in {time.perf_counter() - started:.1f} s: {len(found)} wrong", flush=True)
    for each in [*wrong, *found]:
        print(each)
    torch = None
    if importlib.util.find_spec("torch") is not None:
        import torch
    is_right = print_table(cp, torch)
    return int(bool(wrong or found) or not is_right)


if __name__ == "__main__":
    sys.exit(main())
