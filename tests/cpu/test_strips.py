"""NumPy's loops in kernels: which statements a strip is cut in, and programs of every form that have its bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.kernels.kernel import Call, Let, Strips, walk
from tests.cpu.plans import plans_of
from tests.cpu.test_bitwise import agree
from tests.ops.bits import different

SIZES = (0, 1, 5, 127, 1023, 1024, 1025, 5000, 100_003)


def strips_of(function: Callable[..., Any], *arguments: Any) -> Strips:
    """Those of the function's one kernel. The result has NumPy's bits."""
    compiled = npc.compile(function, accuracy="bitwise")
    with np.errstate(all="ignore"):
        (plan,) = plans_of(compiled, *arguments)
        assert not different(compiled(*arguments), function(*arguments))
    (strips,) = (s for s in walk(plan.kernel.body) if isinstance(s, Strips))
    return strips


def calls(strips: Strips) -> list[str]:
    return [str(s) for part in strips.parts for s in part if isinstance(s, Call)]


X, Y = np.random.default_rng(0).uniform(0.1, 2, (2, 60, 50))


def test_a_chain_is_one_kernel() -> None:
    strips = strips_of(lambda x, y: np.exp(np.sin(x) * y) + np.log(x + y), X, Y)
    assert sorted(call.split(" = ")[1].split("(")[0] for call in calls(strips)) == ["exp", "log", "sin"]


def test_operands_are_read_where_they_lie_and_results_made_where_they_stay() -> None:
    strips = strips_of(lambda x, y: np.hypot(x, y), X, Y)
    assert calls(strips) == ["out0 = hypot(x0, x1)"] and not strips.rows
    strips = strips_of(lambda x: np.exp(np.exp(x)), X)
    (row,) = strips.rows
    assert calls(strips) == [f"{row} = exp(x0)", f"out0 = exp({row})"]


def test_what_is_known_early_is_computed_where_it_is_read() -> None:
    """No row for x * y, which only the last stage reads."""
    strips = strips_of(lambda x, y: np.exp(x) + x * y, X, Y)
    assert calls(strips) == [f"{row} = exp(x0)" for row in strips.rows]
    strips = strips_of(lambda x, y: np.exp(x * y) + x * y, X, Y)
    made = [s.op if isinstance(s, Let) else s.operation for part in strips.parts for s in part if isinstance(s, Let | Call)]
    assert made == ["multiply", "exp", "add"]


def test_sums_read_what_a_loop_has_made() -> None:
    report = npc.explain(npc.compile(lambda x: np.exp(x).sum(axis=1), accuracy="bitwise"))(X)
    assert any(p.name == "calls of NumPy's loops in strips" for p in report.passes)
    assert not different(report.result, np.exp(X).sum(axis=1))


def in_place(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[...] = np.exp(x) * x
    x[1:] = np.sin(x[:-1]) + x[1:]
    x *= np.cos(x)
    return x


FORMS: dict[str, Callable[..., Any]] = {
    "one": lambda x, y: np.exp(x),
    "two rounds": lambda x, y: np.tanh(np.exp(x) - y) * x,
    "many values": lambda x, y: [f(x) * y + g(y) for f in (np.exp, np.sin, np.log1p) for g in (np.cos, np.sqrt, np.arctan)],
    "in place": lambda x, y: in_place(x),
    "chosen": lambda x, y: np.where(x > 1, np.exp(y), np.log(x)),
    "chosen arguments": lambda x, y: np.exp(np.where(x > y, x, -y)),
    "joined": lambda x, y: np.exp(np.concatenate([x, y, x])),
    "parts": lambda x, y: np.exp(x[1:] - x[:-1]) * np.sin(y[::2]).sum(),
    "gathered": lambda x, y: np.exp(x[np.arange(len(x)) // 2]) + y,
    "by numbers": lambda x, y: (np.hypot(x, 3.0), np.arctan2(1.0, y), x**3.5, 2.0**y, np.logaddexp(x, y)),
    "integers": lambda x, y: np.exp((x * 3).astype(int)) + np.sin((y > 1).astype(np.int8)),
    "mixed dtypes": lambda x, y: np.exp(x.astype("f4")) * np.sin(y) + np.cos(x.astype("f2")),
    "complex": lambda x, y: np.exp(x * 1j) * (y + 2j) / (x - 1j) + np.abs(x + y * 1j),
    "unused": lambda x, y: (np.exp(x), x)[1],
    "outer": lambda x, y: np.exp(x[:40, None] * y[None, :30]) + np.sin(y[:30]),
    "running": lambda x, y: np.cumsum(np.exp(x)) / np.cumprod(np.cos(y[:20]))[-1:],
}


@pytest.mark.parametrize("letter, name", [*(("d", name) for name in FORMS), *(("f", name) for name in [*FORMS][::2])])
def test_sizes_around_strips(letter: str, name: str) -> None:
    compiled = npc.compile(FORMS[name], accuracy="bitwise", dynamic=True)
    for size in SIZES:
        x, y = np.random.default_rng(size).uniform(0.1, 2, (2, size)).astype(letter)
        if name == "parts" and size:
            y = y[: max(size - 1, 0)]
        if name != "running" or size >= 20:
            agree(FORMS[name], x, y, compiled=compiled)


def test_an_index_outside_is_an_error() -> None:
    compiled = npc.compile(lambda x, k: np.exp(x[k]) + np.sin(x[k]), accuracy="bitwise")
    x, k = np.arange(3000.0) / 3000, np.arange(3000)
    agree(lambda x, k: np.exp(x[k]) + np.sin(x[k]), x, k, compiled=compiled)
    with pytest.raises(IndexError, match="index 3000 is out of bounds for axis 0 with size 3000"):
        compiled(x, k + 1)
