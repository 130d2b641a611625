"""The corpus of kernels against NumPy: in Triton's interpreter, and, for compute-sanitizer, on a device.

    compute-sanitizer --tool memcheck python -m pytest -m gpu tests/cuda/test_kernel_corpus.py

On a device every array is an allocation of its own, so that what lies outside of one is nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cuda.runtime import run
from npcompile.backends.cuda.runtime.device import current_device
from npcompile.backends.cuda.runtime.interface import to_host
from npcompile.backends.cuda.runtime.run import Prepared
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core import Builder, TensorMeta
from tests.backends import NO_DEVICE
from tests.cuda.interpreted import InterpretedDevice, make_device
from tests.cuda.kernel_corpus import LIMITS, Case, cases, graph_of, views, whole_arrays

from npcompile.backends.cuda.programs import plan  # isort: skip  # after the interpreter is chosen
from npcompile.backends.cuda.backend import compile_for  # isort: skip

CASES = list(cases())
DEVICES = ["interpreted"] if NO_DEVICE else ["interpreted", pytest.param("gpu", marks=pytest.mark.gpu)]
FORMS = sorted(name for name in vars(plan) if name.startswith("print_"))


def programs(made: Any) -> list[Any]:
    """In what a function of plan.py prints: one program or several."""
    return [p for part in made for p in programs(part)] if isinstance(made, (list, tuple)) else [made]


def test_every_form_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program that any function of plan.py prints for these cases is launched for one of them."""
    printed: dict[int, tuple[Any, ...]] = {}
    launched = set()
    held = []  # so that no two programs have one id

    def watched(name: str) -> Callable[..., Any]:
        original = getattr(plan, name)

        def call(*args: Any, **params: Any) -> Any:
            made = original(*args, **params)
            step = args[2:] if name == "print_positions" else ()
            held.append(made)
            printed.update({id(p): (name, *step, *params.values(), k) for k, p in enumerate(programs(made))})
            return made

        return call

    for name in FORMS:
        monkeypatch.setattr(plan, name, watched(name))
    for name, value in LIMITS.items():
        monkeypatch.setattr(plan, name, value)
    for case in CASES:
        case = replace(case, dtypes=case.dtypes[-1])
        graph = graph_of(case, views(case, whole_arrays(case)))
        for plan_of in Prepared.of(graph, frozenset(), frozenset()).plans:
            launched |= {printed[id(launch.program)] for launch in plan_of.launches({})}
    assert {form[0] for form in launched} == set(FORMS)
    assert launched == set(printed.values())


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in LIMITS.items():
        monkeypatch.setattr(plan, name, value)
    if request.param == "interpreted":
        yield make_device()
        return
    made = current_device()
    with made.library.cuda.using_allocator(None):
        yield made


def close(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if got.dtype.kind not in "fc":
        return np.testing.assert_array_equal(got, expected)
    limit = 32 * np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels(case: Case, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(device, InterpretedDevice):
        case = replace(case, dtypes=case.dtypes[-1])  # else it takes minutes
    if case.is_wide:
        monkeypatch.setattr(run, "WIDE", 0)
    arrays = whole_arrays(case)
    operands = views(case, arrays)
    graph = graph_of(case, operands)
    got = compile_for(graph, device).call(*views(case, [device.upload(x) for x in arrays]))
    with np.errstate(all="ignore"):
        expected = compile_eager(graph, [])(*operands)
    for a, b in zip(got, expected, strict=True):
        close(to_host(device, a), np.asarray(b))


@pytest.mark.parametrize("dtype", "?hfD")
@pytest.mark.parametrize("index", [9, -10, 2**40])
def test_what_is_out_of_bounds_is_not_touched(index: int, dtype: str, device: Any) -> None:
    x, value, i = np.zeros(9, dtype), np.ones(17, dtype), np.arange(17) % 9
    i[11] = index
    builder = Builder()
    nodes = [builder.input(TensorMeta(a.shape, a.dtype)) for a in (x, value, i)]
    written = builder.finish([], writes=[(0, builder.apply("scatter", *nodes, mode="set"))])
    read = builder.finish([builder.apply("gather", nodes[0], nodes[2])])
    for graph in (written, read):
        given = [device.upload(a) for a in (x, value, i)]
        with pytest.raises(IndexError, match="out of bounds"):
            compile_for(graph, device).call(*given)
        np.testing.assert_array_equal(to_host(device, given[0]), x)
