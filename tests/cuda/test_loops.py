"""Loops in one kernel: which are, and that they give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda.runtime import compiler
from npcompile.backends.cuda.runtime.compiler import compile_all
from npcompile.compiler import compiled_function
from tests.cuda.interpreted import DeviceArray
from tests.cuda.there import There, there  # noqa: F401  (a fixture)

X, Y = np.random.default_rng(0).uniform(0.1, 1.0, (2, 6, 90))


def swap(x: Any) -> Any:
    return npc.fori_loop(0, 5, lambda k, s: (s[1] + 0, s[0] * 1), (x, x * 2))


def escape(z: Any, c: Any) -> Any:
    def step(k: Any, s: Any) -> Any:
        return s[0] * s[0] - s[1] * s[1] + c, 2 * s[0] * s[1], s[2] + (s[0] * s[0] + s[1] * s[1] < 4)

    return npc.fori_loop(0, 6, step, (z, z, np.zeros(z.shape, np.int64)))


INSIDE: list[tuple[str, Callable[..., Any], Sequence[Any]]] = [
    ("newton", lambda x: npc.fori_loop(0, 7, lambda k, y: 0.5 * (y + x / y), x), [X]),
    ("the index", lambda x: npc.fori_loop(2, 7, lambda k, y: y * k + 1, x), [X]),
    ("several carries", escape, [X, Y]),
    ("numbers", lambda x, a: npc.fori_loop(0, 4, lambda k, y: np.sin(y) * a, x), [X, 0.5]),
    ("broadcast", lambda x: npc.fori_loop(0, 5, lambda k, y: y + x[0], x), [X]),
    ("strided", lambda x: npc.fori_loop(0, 5, lambda k, y: y * x[:, ::2], x[:, ::2]), [X]),
    ("transposed", lambda x: npc.fori_loop(0, 5, lambda k, y: y * x.T, x.T + 0), [X]),
    ("bool", lambda x: npc.fori_loop(0, 5, lambda k, y: (y > 0.5) | (x > k), x > 0.2), [X]),
    ("float32", lambda x: npc.fori_loop(0, 5, lambda k, y: y * x, x), [X.astype(np.float32)]),
    ("complex", lambda x: npc.fori_loop(0, 5, lambda k, y: y * y + x, x * 1j), [X]),
    ("int8", lambda x: npc.fori_loop(0, 9, lambda k, y: y * x + x, x), [(X * 100).astype(np.int8)]),
    ("no turn", lambda x: npc.fori_loop(3, 3, lambda k, y: y * 2, x), [X]),
    ("scan", lambda x: npc.scan(lambda c, r: (np.sin(c) + r * 0.5, c * r), x[0], x), [X]),
    ("backwards", lambda x: npc.scan(lambda c, r: (np.sin(c) + r * 0.5, c * r), x[0], x, reverse=True), [X]),
    ("scanned numbers", lambda x, r: npc.scan(lambda c, q: (c * q + 1j, c.real < q), x + 0j, r), [X, Y[0][:6]]),
]
OUTSIDE: list[tuple[str, Callable[..., Any], Sequence[Any]]] = [
    ("others' elements", lambda x: npc.fori_loop(0, 5, lambda k, y: y[::-1] * 1.5, x), [X]),
    ("sums", lambda x: npc.fori_loop(0, 5, lambda k, y: y / y.sum(), x), [X]),
    ("smaller", lambda x: npc.fori_loop(0, 5, lambda k, s: (s[0] + s[1], s[1] * 2), (x, x[0])), [X]),
    ("swapped", swap, [X]),
    ("products", lambda x: npc.fori_loop(0, 3, lambda k, y: (x @ x.T) @ y, x), [X]),
]
EACH = [(*case, True) for case in INSIDE] + [(*case, False) for case in OUTSIDE]


@pytest.mark.parametrize(("function", "arguments", "is_inside"), [e[1:] for e in EACH], ids=[e[0] for e in EACH])
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "symbolic"])
def test_answers(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    is_inside: bool,
    dynamic: bool,
    there: There,  # noqa: F811
) -> None:
    f = npc.compile(function, dynamic=dynamic)
    for _ in range(2):
        given = [there.put(a) for a in arguments]
        got, expected = there.get(f(*given)), function(*arguments)
        if not isinstance(expected, tuple):
            got, expected = (got,), (expected,)
        for a, b in zip(flat(got), flat(expected), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-5 if b.dtype == np.float32 else 1e-12)
    if not dynamic:
        names = [name for _, compiled in compiled_function(f).graphs for name in compiled.kernels]
        assert any(name.startswith("npc_loop_") for name in names) == is_inside, names


def flat(values: Any) -> list[Any]:
    return [x for v in values for x in (flat(v) if isinstance(v, tuple) else [v])]


def test_gradients(there: There) -> None:  # noqa: F811
    f = npc.compile(npc.wrap_numpy(lambda x: npc.fori_loop(0, 4, lambda k, y: np.sin(y) * x, x).sum()))
    ours, theirs = there.tensor(X, requires_grad=True), npc.tensor(X, requires_grad=True)
    for x in (ours, theirs):
        f(x).backward()
    np.testing.assert_allclose(there.get(ours.grad.detach()._data), theirs.grad.numpy(), rtol=1e-12)


def test_machine_code(there: There, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # noqa: F811
    """Triton's compiler asks more of a loop than its interpreter: what is carried must keep its type."""
    if there.array_type is not DeviceArray:
        pytest.skip("every other test compiles here")
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path))
    compiler.cubin_cache.cache_clear()
    for _, function, arguments in INSIDE:
        npc.compile(function)(*map(there.put, arguments))
    loops = [r for r in there.device.requests if r.name.startswith("npc_loop_")]
    assert len(loops) == len(INSIDE)
    assert all(made.cubin[:4] == b"\x7fELF" for made in compile_all(loops, 90))
