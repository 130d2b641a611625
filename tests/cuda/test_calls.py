"""Compiled functions called with arrays and Tensors that are on a device."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.cuda.interpreted import DeviceArray
from tests.cuda.there import There, same, there  # noqa: F401  (a fixture)
from tests.shim.harness import compare_aliasing, flatten
from tests.tracer import test_breaks, test_control_flow, test_functions
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
        same(value, theirs.value)
        same(arguments, theirs.arguments)
        if there.array_type is DeviceArray:
            compare_aliasing(value, theirs.value, flatten(*arguments), flatten(*theirs.arguments))
