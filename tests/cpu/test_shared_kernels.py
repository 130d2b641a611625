"""Kernels that differ only in what they read and write are one C function, given other memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npcompile
from npcompile.backends.cpu import backend as cpu_backend
from npcompile.backends.cpu import compile_cpu
from npcompile.backends.cpu.backend import scratch_of
from npcompile.backends.cpu.kernel_plan import SMALL, KernelPlan
from npcompile.backends.cpu.planning import plan_kernel
from npcompile.backends.kernels.kernel import Kernel
from npcompile.backends.kernels.memory import build_schedule
from npcompile.tensor_core.graph import Graph


def halves(x, depth):
    if depth == 0:
        return np.cumsum(x)
    return np.concatenate((halves(x[::2], depth - 1), halves(x[1::2], depth - 1)))


def by_halves(x):
    return halves(x, 3)


def reversed_parts(x, y):
    """The same sums from either end of two arrays."""
    return np.cumsum(x[:8]), np.cumsum(x[8:16]), np.cumsum(y[:8]), np.cumsum(x[8:0:-1]), np.cumsum(y[8:0:-1])


def products(x):
    """Rows by one matrix, each result read by the next."""
    a, b = x[:8], x[8:16]
    for _ in range(3):
        a, b = np.cumsum(a @ b, axis=0), np.cumsum(b @ a, axis=0)
    return a, b


def in_place(x, y):
    np.cumsum(x[:8], out=x[:8])
    np.cumsum(x[4:12], out=x[4:12])
    np.cumsum(y[:8], out=y[:8])
    return x.copy()


@pytest.mark.parametrize(
    ("program", "inputs", "printed", "run"),
    [
        (by_halves, [(64,)], 2, 10),
        (reversed_parts, [(16,), (16,)], 2, 5),
        (products, [(16, 8)], None, None),
        (in_place, [(16,), (16,)], None, None),
    ],
)
def test_kernels_of_one_text_are_printed_once(
    program: Callable, inputs: list[tuple[int, ...]], printed: int | None, run: int | None
) -> None:
    kernels: list[tuple[str, ...]] = []

    def backend(graph: Graph, example_inputs):
        made = compile_cpu(graph, example_inputs)
        kernels.append(made.kernels)
        return made

    compiled = npcompile.compile(program, backend=backend, dynamic=False)
    for seed in (0, 1):
        given = [np.random.default_rng(seed).integers(-9, 9, shape).astype(float) for shape in inputs]
        theirs = [x.copy() for x in given]
        result, expected = compiled(*given), program(*theirs)
        np.testing.assert_equal(result, expected)
        np.testing.assert_equal(given, theirs)
    if run is not None:
        assert [(len(set(names)), len(names)) for names in kernels] == [(printed, run)]


def layers(count: int) -> Callable:
    """Straight code, as a program of another writes it."""
    body = "".join(f"    x = np.tanh(x * w[{k}] + b[{k}]) + x\n    x = x - x.mean()\n" for k in range(count))
    space = {"np": np}
    exec(f"def run(x, w, b):\n{body}    return x\n", space)
    return space["run"]


def test_layers_are_printed_once_whatever_their_rows_are_called() -> None:
    """Each kernel has some layers, with rows of a thread's own between them."""
    kernels = []

    def backend(graph: Graph, example_inputs):
        made = compile_cpu(graph, example_inputs)
        kernels.append(made.kernels)
        return made

    rng = np.random.default_rng(0)
    for count in (32, 64):
        program = layers(count)
        compiled = npcompile.compile(program, backend=backend, dynamic=False)
        given = rng.normal(size=1000), rng.normal(size=count), rng.normal(size=count)
        np.testing.assert_allclose(compiled(*given), program(*given), rtol=1e-9, atol=1e-12)
    few, many = kernels
    assert len(many) > len(few) > len(set(few)) == len(set(many))


def test_many_small_temporaries_share_one_piece_of_memory() -> None:
    found = []

    def backend(graph: Graph, example_inputs):
        temporaries = [b for b in build_schedule(graph, tiled=True).buffers if b.kind == "temporary"]
        found.append((len(temporaries), *scratch_of(temporaries)))
        return compile_cpu(graph, example_inputs)

    def program(x):
        for k in range(6):
            x = np.cumsum(x[::-1]) % (k + 3)
        return x

    x = np.arange(20.0)
    np.testing.assert_array_equal(npcompile.compile(program, backend=backend, dynamic=False)(x), program(x))
    ((count, pieces, places),) = found
    assert count == len(places) > 4 and list(pieces) == ["small"] and pieces["small"] <= SMALL


@pytest.mark.parametrize(("steps", "constants", "is_one"), [(4, 3, False), (48, 3, True), (48, 48, False)])
def test_a_few_long_kernels_that_differ_in_a_few_constants_are_printed_once(steps: int, constants: int, is_one: bool) -> None:
    """Else each is printed: the compiler makes more of constants that it knows, and takes long where it is given many."""
    kernels = []

    def backend(graph: Graph, example_inputs):
        made = compile_cpu(graph, example_inputs)
        kernels.append(made.kernels)
        return made

    step = "    x = np.maximum(np.abs(x) * 1.5 + {}.25, {}.5) / 3\n"
    parts = ["".join(step.format(k + j % constants, k + 99) for j in range(steps)) + "    x = np.cumsum(x)\n" for k in range(3)]
    space = {"np": np}
    exec(f"def program(x):\n    x = np.cumsum(x)\n{''.join(parts)}    return x\n", space)
    program = space["program"]
    x = np.linspace(-1, 1, 40)
    np.testing.assert_array_equal(npcompile.compile(program, backend=backend, dynamic=False)(x), program(x))
    (names,) = kernels
    elementwise = [name for name in names if "maximum" in name]
    assert len(elementwise) == 3 and len(set(elementwise)) == (1 if is_one else 3)


def test_a_plan_is_made_for_what_is_printed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []

    def planning(kernel: Kernel) -> KernelPlan:
        planned.append(kernel.name)
        return plan_kernel(kernel)

    def backend(graph: Graph, example_inputs):
        made = compile_cpu(graph, example_inputs)
        assert len(made.kernels) > len(planned)
        return made

    monkeypatch.setattr(cpu_backend, "plan_kernel", planning)
    x = np.linspace(0, 1, 64)
    np.testing.assert_array_equal(npcompile.compile(by_halves, backend=backend, dynamic=False)(x), by_halves(x))
    assert len(planned) == len({*planned}) == 2
