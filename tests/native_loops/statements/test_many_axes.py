"""Arrays of up to 64 axes, and deep nests, in compiled loops: the time to compile must not double with each axis."""

import linecache

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loops.scalar_loops import PURE


def reshaped(x):
    total = 0.0
    for i in range(300):
        total += x.reshape(-1)[3] * i
    return total


def counted(x):
    total = 0
    for _ in range(300):
        total += np.count_nonzero(x) + x.any()
    return total


def raveled(x):
    total = 0.0
    for i in range(300):
        total += x.ravel()[i % 48]
        x *= 0.99
    return total


def selected(x):
    total = 0.0
    for i in range(60):
        total += x[x > i].sum() + x.max()
    return total


@pytest.mark.parametrize("axes", [3, 9, 40, 64])
@pytest.mark.parametrize("function", [reshaped, counted, raveled, selected])
def test_statements(function, axes):
    shape = [6, *[1] * (axes - 2), 16]
    compiled = npc.compile(function)
    for _ in range(2):
        ours, theirs = (np.arange(96.0).reshape(shape)[..., ::2] for _ in range(2))
        np.testing.assert_allclose(compiled(ours), function(theirs), rtol=1e-14)
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("depth", [2, 19])
def test_deep_nests(depth):
    lines = ["def nest(x):", " total = 0.0"]
    lines += [f"{' ' * (k + 1)}for i{k} in range(x.shape[{k}]):" for k in range(depth)]
    at = ", ".join(f"i{k}" for k in range(depth))
    lines += [f"{' ' * (depth + 1)}total += x[{at}]", f"{' ' * (depth + 1)}x[{at}] = total * 0.5", " return total"]
    text, name, namespace = "\n".join(lines) + "\n", f"<nest of {depth}>", {}
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), namespace)
    compiled = npc.compile(namespace["nest"])
    for _ in range(2):
        ours, theirs = (np.arange(48.0).reshape(6, *[1] * (depth - 2), 8) for _ in range(2))
        assert compiled(ours) == namespace["nest"](theirs)
        assert ours.tobytes() == theirs.tobytes()


def test_words_of_expressions():
    product = " * ".join(f"a12_n{k}" for k in range(64))
    for text in (f"({product}) * 1234567890123456", f"npc_max({product}, INT64_C(-12)) + in12 - t123", "a0_s63 ? t1 : a0"):
        assert PURE.fullmatch(text)
    for text in (f"({product}) / (1)", f"{product} + {'1' * 64}.5", f"{product} * L_n", "a0_x", "i12", "t"):
        assert not PURE.fullmatch(text)
