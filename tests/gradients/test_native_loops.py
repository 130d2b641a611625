"""Gradients of functions with loops run as one native program, and give what eager Tensors give."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.eager_transforms import value_and_grad as by_tensors
from tests.loop_ir.agreement import same_bits

FACTOR = 2.0


def smoothing(x, a):
    s = x[0]
    total = 0.0
    for i in range(x.size):
        s = a * x[i] + (1 - a) * s
        total = total + s * s
    return total


def scaled(x, y):
    total = 0.0
    for i in range(x.size):
        y[i] = x[i] * y[i] + 1.0
        total = total + y[i] * y[i]
    return total


def first_above(x, level):
    for i in range(x.size):
        if x[i] * 2.0 > level:
            return x[i] * x[i] * level
    return 0.0


def quotients(x, y):
    s = 0.0
    for i in range(x.size):
        y[i] = 1.0
        s = s + 1.0 / x[i]
    return s


def shifted(x, k):
    s = 0.0
    for i in range(x.size):
        s = s + x[i] * x[i + k]
    return s


def numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(n) + 0.5


CASES = [
    (smoothing, (numbers(50), 0.3), (0, 1)),
    (smoothing, (numbers(50), np.float64(0.3)), (1, 0)),
    (smoothing, (numbers(50)[::2], 0.3), (0,)),
    (scaled, (numbers(20), numbers(20, 1)), (0, 1)),
    (scaled, (numbers(20), numbers(20, 1)), (0,)),
    (scaled, (numbers(40)[::-2], numbers(40, 1)[::2]), (-1,)),
    (first_above, (numbers(30), 2.5), (0, 1)),
    (first_above, (numbers(30), 9.5), (1,)),  # a constant
    (shifted, (numbers(30), 0), (0,)),
]


@pytest.mark.parametrize(("function", "arguments", "argnums"), CASES)
def test_they_are_those_of_tensors(function: Any, arguments: Any, argnums: tuple[int, ...]) -> None:
    transformed = npc.value_and_grad(function, argnums)
    for _ in range(2):
        mine, others = copy.deepcopy(arguments), copy.deepcopy(arguments)
        found = transformed(*mine)
        if function is not scaled or 1 in argnums or -1 in argnums:
            wanted = by_tensors(function, {"argnums": argnums, "has_aux": False}, others, {})
        else:  # Tensors cannot be written into arrays that are none
            value, (wanted_x, _) = by_tensors(function, {"argnums": (0, 1), "has_aux": False}, others, {})
            wanted = value, (wanted_x,)
        close(found, wanted)
        close(mine, others)
    assert transformed._made.loops is not None and len(transformed._made.loops.versions) == 1, transformed._made.loops


def close(x: Any, y: Any) -> None:
    assert type(x) is type(y)
    if isinstance(x, tuple):
        for one, other in zip(x, y, strict=True):
            close(one, other)
    elif isinstance(x, np.ndarray | np.generic):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-14)
    else:
        assert x == y


def test_one_argnum_gives_no_tuple() -> None:
    gradient = npc.grad(smoothing)(numbers(9), 0.5)
    value, other = npc.value_and_grad(smoothing)(numbers(9), 0.5)
    assert same_bits(gradient, other) and type(gradient) is np.ndarray and type(value) is np.float64


def test_errors_are_pythons_on_their_lines() -> None:
    gradient = npc.grad(shifted)
    x = numbers(5)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        gradient(x, 1)
    assert gradient._made.loops is not None and gradient._made.loops.versions[0].aborts == 1


def test_what_was_written_is_undone_before_others_run() -> None:
    """NumPy reports a division by 0: the native program is left, unless the caller ignores that."""
    gradient = npc.grad(quotients, (0, 1))
    x, y = numbers(5), numbers(5, 1)
    gradient(x, y.copy())
    x[3] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, _ = gradient(x, y)
    assert gradient._made.loops.versions[0].aborts == 1
    assert np.isneginf(found[3]) and np.array_equal(y, np.ones(5))
    with np.errstate(divide="ignore"):
        assert np.isneginf(gradient(x, y)[0][3])
    assert gradient._made.loops.versions[0].aborts == 0  # the last call was native: nothing is to be reported


def test_arguments_that_share_memory() -> None:
    """Tensors are copies: so each of them is written alone."""
    x = numbers(6)
    gradient = npc.grad(scaled, (0, 1))
    for arguments in ((x, x), (x[:4], x[2:])):
        mine, others = copy.deepcopy(arguments), copy.deepcopy(arguments)
        wanted = by_tensors(scaled, {"argnums": (0, 1), "has_aux": False}, others, {})[1]
        close(gradient(*mine), wanted)
        close(mine, others)
    close(npc.grad(smoothing_of_two)(x, x), npc.grad(smoothing_of_two)(x, x.copy()))  # what is only read may be shared


def smoothing_of_two(x, y):
    s = 0.0
    for i in range(x.size):
        s = s + x[i] * y[i]
    return s


def test_a_program_for_each_combination_of_types() -> None:
    gradient, x = npc.grad(smoothing), numbers(8)
    for arguments in ((x, 0.5), (x, np.float64(0.5)), (x[::2], 0.5), (x[:3], 0.25)):
        close(gradient(*arguments), by_tensors(smoothing, {"argnums": 0, "has_aux": False}, arguments, {})[1])
    assert len(gradient._made.loops.versions) == 3
    with npc.config.patch(recompile_limit=3):
        gradient(x, 1)
    assert len(gradient._made.loops.versions) == 3


def test_names_that_change_are_seen() -> None:
    namespace: dict[str, Any] = {"np": np}
    exec("def f(x):\n    s = 0.0\n    for i in range(x.size):\n        s = s + abs(x[i])\n    return s\n", namespace)
    gradient, x = npc.grad(namespace["f"]), -numbers(3)
    assert np.array_equal(gradient(x), -np.ones(3))
    namespace["abs"] = lambda value: value
    assert np.array_equal(gradient(x), np.ones(3))
    namespace["f"].__code__ = smoothing_of_squares.__code__
    close(gradient(x), 2 * x)


def smoothing_of_squares(x):
    s = 0.0
    for i in range(x.size):
        s = s + x[i] * x[i]
    return s


def test_arrays_that_may_not_be_written_to() -> None:
    x = numbers(4)
    x.flags.writeable = False
    close(npc.grad(smoothing)(x, 0.5), npc.grad(smoothing)(x.copy(), 0.5))


def test_a_signal_ends_a_long_loop() -> None:
    def forever(x):
        s = x[0]
        while s > -1.0:
            s = s * 0.999 + 0.001
            x[0] = s
        return s

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    x = np.array([0.5])
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(KeyboardInterrupt):
            npc.grad(forever)(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert x[0] == 0.5


def test_a_second_process_compiles_nothing(tmp_path: Any) -> None:
    text = """
import numpy as np, npcompile as npc
from tests.gradients.test_native_loops import smoothing
transformed = npc.grad(smoothing)
transformed(np.ones(9), 0.5)
print(transformed._made.loops.versions[0].native.was_cached, npc.counters()["units_compiled"])
"""
    environment = {**os.environ, "NPCOMPILE_CACHE_DIR": str(tmp_path)}
    runs = [subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True) for _ in range(2)]
    assert [run.stdout.split()[0] for run in runs] == ["False", "True"], [run.stderr for run in runs]
    assert runs[1].stdout.split()[1] == "0"


def test_what_is_no_native_loop_says_why() -> None:
    def joined(x):
        s = 0.0
        for i in range(x.size):
            s = s + len(f"{i}") * x[i]
        return s

    transformed = npc.grad(joined)
    assert np.array_equal(transformed(np.ones(3)), np.ones(3))
    assert next(iter(transformed._made.loops.reasons.values())).startswith(f"line {joined.__code__.co_firstlineno + 3}: ")


def test_a_result_of_pythons_stays_one() -> None:
    """Where an array is another one after a loop, programs have NumPy's numbers alone."""

    def f(x, y, n):
        s, t = 0.0, 1.0
        for _ in range(x.size):
            t = np.sqrt(x[0])
        for _ in range(n):
            x, y = y, x
        x[0] = s / t
        return s

    transformed = npc.value_and_grad(f)
    value, gradient = transformed(np.ones(3), np.ones(3), 2)
    assert type(value) is float and value == 0.0 and gradient.tolist() == [0.0, 0.0, 0.0]
    assert transformed._made.loops.versions
