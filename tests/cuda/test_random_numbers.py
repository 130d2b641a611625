"""Random numbers of graphs in Triton: those of the CPU, bit for bit where they are bits, and compiled for a device."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import npcompile as npc
from npcompile.backends.registry import find_backend
from npcompile.compiler import compiled_function
from npcompile.numpy_shim.random_bits import DISTRIBUTIONS, FLOAT64, Bits
from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.transforms.value import Value
from tests.cuda.corpus import requests_of
from tests.cuda.interpreted import make_device
from tests.cuda.there import There, calls, same, there  # noqa: F401  (fixtures)
from tests.ops.test_random import BLOCKS, COUNTERS, KEYS

from npcompile.backends.cuda.backend import compile_for  # isort: skip  # after the interpreter is chosen
from npcompile.backends.cuda.runtime.compiler import compile_all  # isort: skip

UINT64 = np.dtype(np.uint64)
KEY = np.uint64(0x0123456789ABCDEF)


def graph_of(make, shape: tuple[int, ...]) -> Graph:
    builder = Builder()
    key = builder.input(TensorMeta((), UINT64, boxed=False))
    return builder.finish([value.node for value in make(Bits.of(builder, shape, 3, key))])


def test_known_answers() -> None:
    builder = Builder()
    nodes = [builder.input(TensorMeta(x.shape, UINT64)) for x in (*COUNTERS, *KEYS)]
    graph = builder.finish([builder.apply(name, *nodes) for name in ("philox_low", "philox_high")])
    device = make_device()
    np.testing.assert_array_equal(compile_for(graph, device)(*COUNTERS, *KEYS), BLOCKS)
    assert device.requests


@pytest.mark.parametrize("shape", [(1000,), (37, 21), (3, 5, 7)])
def test_bits_uniform_numbers_and_integers_are_those_of_the_cpu(shape: tuple[int, ...]) -> None:
    def make(bits: Bits) -> list[Value]:
        integers = bits.integers(1000).cast(np.int64)
        return [bits.low, bits.high, bits.uniform(), bits.uniform(np.dtype(np.float32)), integers + integers.like(-7)]

    graph = graph_of(make, shape)
    device = make_device()
    found, wanted = compile_for(graph, device)(KEY), find_backend("cpu")(graph, [KEY])(KEY)
    assert device.requests
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


PARAMETERS = {"low": -1.0, "high": 2.0, "loc": 0.5, "scale": 2.0, "mean": 0.5, "sigma": 0.5, "a": 2.5}
PARAMETERS |= {"left": -1.0, "mode": 0.5, "right": 4.0}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name: str) -> None:
    def make(bits: Bits) -> list[Value]:
        builder, distribution = bits.low.builder, DISTRIBUTIONS[name]
        given = [Value(builder, builder.constant(PARAMETERS[p], FLOAT64)) for p in distribution.parameters]
        return [distribution.formula(bits, FLOAT64, *given)]

    graph = graph_of(make, (40, 25))
    (found,), (wanted,) = compile_for(graph, make_device())(KEY), find_backend("cpu")(graph, [KEY])(KEY)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


def test_normal_numbers_of_float32() -> None:
    graph = graph_of(lambda bits: [bits.normal(np.dtype(np.float32))], (2000,))
    (found,) = compile_for(graph, make_device())(KEY)
    assert found.dtype == np.float32 and scipy.stats.kstest(found, scipy.stats.norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("architecture", [80, 90])
def test_compiled_for_a_device(architecture: int) -> None:
    def make(bits: Bits) -> list[Value]:
        return [bits.uniform(), bits.normal(), bits.normal(np.dtype(np.float32)), bits.integers(1000)]

    made = compile_all(requests_of(graph_of(make, (512, 64))), architecture)
    assert made and all(b.cubin[:4] == b"\x7fELF" for b in made)


# --- functions called with arrays of a device


def walk(rng: np.random.Generator, x, n: int):  # type: ignore[no-untyped-def]
    noise = rng.normal(0, 2, x.shape)
    order = rng.permutation(x)
    row = rng.random(n)
    row[0] = 5
    rng.shuffle(x)
    return x + noise, order, row, rng.random() * x, rng.integers(0, 9, n), x[rng.choice(len(x), 3)]


def test_calls_on_a_device(there: There) -> None:  # noqa: F811
    compiled = npc.compile(walk)
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    x = np.arange(12.0).reshape(6, 2)
    for n in (4, 5, 6):
        there_x, here_x = there.put(x), x.copy()
        found = compiled(ours, there_x, n)
        assert all(type(v) is there.array_type for v in found)
        same(there.get([*found, there_x]), [*walk(theirs, here_x, n), here_x])
        assert ours.bit_generator.state == theirs.bit_generator.state
    assert not compiled_function(compiled).breaks


def test_numbers_computed_on_a_device_are_those_of_the_cpu(there: There) -> None:  # noqa: F811
    def noisy(rng, x):  # type: ignore[no-untyped-def]
        return x + rng.random(x.shape), rng.integers(0, 1000, 50), rng.permutation(20), rng.normal(size=9) + 0 * x[0, 0]

    x = np.zeros((30, 4))
    with npc.config.patch(fallback_random=False):
        found = there.get(list(npc.compile(noisy)(np.random.default_rng(5), there.put(x))))
        wanted = npc.compile(noisy)(np.random.default_rng(5), x)
    for a, b in zip(found[:3], wanted):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found[3], wanted[3], rtol=1e-12)


@pytest.mark.parametrize("fallback", [True, False])
def test_recorded_graphs_draw_anew(there: There, fallback: bool) -> None:  # noqa: F811
    def noisy(rng, x):  # type: ignore[no-untyped-def]
        return x * 2 + rng.random(x.shape)

    x = np.zeros((8, 4))
    with npc.config.patch(fallback_random=fallback):
        recorded, plain = npc.compile(noisy, mode="reduce-overhead"), npc.compile(noisy)
        ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
        seen = set()
        for _ in range(4):
            found, wanted = there.get(recorded(ours, there.put(x))).copy(), plain(theirs, x)
            np.testing.assert_array_equal(found, wanted)
            seen.add(found[0, 0])
        assert len(seen) == 4
