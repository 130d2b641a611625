"""Compiled functions called with arrays and Tensors that are on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.backends import NO_DEVICE
from tests.cuda.interpreted import DeviceArray
from tests.cuda.there import There, same, there  # noqa: F401  (a fixture)
from tests.gradients import test_programs
from tests.shim.harness import compare_aliasing, flatten
from tests.tracer import (
    tensor_harness,
    test_breaks,
    test_control_flow,
    test_functions,
    test_tensor_breaks,
    test_tensor_gradients,
    test_tensor_transforms,
    test_tensors,
    test_training,
    test_wrap_numpy,
)
from tests.tracer.harness import clone, run

X = np.random.default_rng(0).standard_normal((12, 9))


def test_arrays_stay_on_the_device(there: There) -> None:  # noqa: F811
    @npc.compile
    def f(x):
        return np.sin(x) * 2, x.sum()

    for _ in range(2):
        y, s = f(there.put(X))
        assert type(y) is there.array_type and type(s) is there.array_type and s.shape == ()
        same(there.get([y, s]), [np.sin(X) * 2, X.sum()])
    assert len(compiled_function(f).graphs) == 1


# --- the tracer's sample functions

SAMPLES = {
    f"{module.__name__.rpartition('.')[2]}.{name}": test.sample
    for module in (test_functions, test_breaks, test_control_flow)
    for name, test in vars(module).items()
    if hasattr(test, "sample")
}
DIFFER = {
    "test_breaks.test_read_only_argument": "arrays of a device cannot be read-only",
    "test_breaks.test_other_dtypes_run_natively": "a device has no arrays of text and dates",
}


@pytest.mark.filterwarnings("ignore:.*was compiled 8 times:RuntimeWarning")
@pytest.mark.parametrize("name", [n for n in SAMPLES if n not in DIFFER])
def test_samples(name: str, there: There) -> None:  # noqa: F811
    sample = SAMPLES[name]
    compiled = npc.compile(sample.function)
    for round in range(2):
        given = sample.arguments(round)
        theirs = run(sample.function, sample.function, clone(given))
        ours = run(compiled, sample.function, there.put(clone(given)))
        if theirs.error is not None:
            assert type(ours.error) is type(theirs.error), ours.error
            assert str(ours.error) == str(theirs.error) and ours.line == theirs.line
            continue
        if ours.error is not None:
            raise ours.error
        assert not any(type(x) is np.ndarray for x in flatten(ours.value))
        value, arguments = there.get(ours.value), there.get(ours.arguments)
        same(value, there.get(theirs.value))
        same(arguments, there.get(theirs.arguments))
        if there.array_type is DeviceArray:
            compare_aliasing(value, theirs.value, flatten(*arguments), flatten(*theirs.arguments))


# --- Tensors


def test_tensors_stay_on_the_device(there: There) -> None:  # noqa: F811
    f = npc.compile(npc.wrap_numpy(lambda x: (np.sin(x) * 2, x.sum())), fullgraph=True)
    for _ in range(2):
        y, s = f(there.tensor(X))
        assert type(y) is type(s) is npc.Tensor and y.device == s.device == "cuda"
        same(there.get([y._data, s._data]), [np.sin(X) * 2, np.asarray(X.sum())])
    assert len(compiled_function(f).graphs) == 1


def test_gradients(there: There) -> None:  # noqa: F811
    f = npc.compile(npc.wrap_numpy(lambda x, y: np.sum(np.sin(x) * y, axis=0)), fullgraph=True)
    x, y = there.tensor(X, requires_grad=True), there.tensor(X + 1, requires_grad=True)
    f(x, y).sum().backward()
    assert x.grad.device == y.grad.device == "cuda"
    same(there.get([x.grad._data, y.grad._data]), [np.cos(X) * (X + 1), np.sin(X)])


# The interpreter takes a minute for all of them.
INTERPRETED = "mahalanobis layer_norm attention embedding heat_with_walls solve view_written cumulated power_spectrum".split()
PROGRAMS = [p for m in test_programs.MODULES for p in m.PROGRAMS if not NO_DEVICE or p.name in INTERPRETED]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_gradients_of_programs(program: Any, there: There) -> None:  # noqa: F811
    function = npc.value_and_grad(program.function, program.numbers)
    given = test_programs.arguments(program, 0)
    value, found = function(*there.put(given))
    if any(isinstance(x, np.ndarray) for x in given):
        assert all(type(x) is there.array_type for x in (value, *found))
    theirs = function(*given)
    np.testing.assert_allclose(there.get(value), theirs[0], rtol=1e-10)
    for a, b in zip(there.get(found), theirs[1]):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * (1 + np.abs(b).max()))


# --- the tracer's samples on Tensors

TENSOR_SAMPLES = {
    f"{module.__name__.rpartition('.')[2]}.{name}": test.sample
    for module in (
        test_tensors,
        test_training,
        test_tensor_gradients,
        test_tensor_transforms,
        test_wrap_numpy,
        test_tensor_breaks,
    )
    for name, test in vars(module).items()
    if hasattr(test, "sample")
}
TENSORS_DIFFER = {
    "test_tensors.test_attributes": "x.device",
    "test_tensors.test_creation": "new Tensors are on the CPU where no device is named",
    "test_tensors.test_out": "a Tensor on the CPU does not meet those on a device",
    "test_tensor_breaks.test_leaves_that_are_made_inside": "likewise",
    "test_tensor_breaks.test_arrays_filled_from_tensors": "likewise",
    "test_tensor_breaks.test_writes_through_arrays": "x.numpy() is a copy",
    "test_tensor_breaks.test_writes_through_detached_arrays": "likewise",
    "test_tensor_gradients.test_arguments_that_were_computed": "its arguments come with the graph that computed them",
    "test_tensor_gradients.test_an_argument_that_was_computed_is_changed": "likewise",
}


@pytest.mark.parametrize("name", [n for n in TENSOR_SAMPLES if n not in TENSORS_DIFFER])
def test_samples_on_tensors(name: str, there: There) -> None:  # noqa: F811
    sample = TENSOR_SAMPLES[name]
    compiled = npc.compile(sample.function)
    for round in range(2):
        ours, theirs = (
            there.put(tensor_harness.given(sample.function, sample.inputs, round)),
            tensor_harness.given(sample.function, sample.inputs, round),
        )
        try:
            expected = sample.function(*theirs)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(*ours)
            continue
        found = compiled(*ours)
        for value in tensor_harness.parts(found):
            assert not isinstance(value, npc.Tensor) or value.device == "cuda"
        same(there.get([found, ours]), there.get([expected, theirs]), rtol=1e-10)
        assert repr(tensor_harness.backward(found)) == repr(tensor_harness.backward(expected))
        same(there.get([found, ours]), there.get([expected, theirs]), rtol=1e-10)
