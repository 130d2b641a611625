"""A backend that the product does not know: of one folder, registered by one call or by an entry point."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends import registry
from tests import toy_backend
from tests.ops.rows import added, log1mexp, logsumexp

ROOT = Path(__file__).parents[1]
X = np.random.default_rng(0).uniform(0.1, 3, (20, 30))


@pytest.fixture(scope="module", autouse=True)
def toy() -> Iterator[None]:
    """While these tests run: others go over all backends."""
    toy_backend.register()
    with added():
        yield
    del registry._BACKENDS["toy"]


def stepped(x: Any, out: Any) -> Any:
    s = 1.0
    for i in range(x.size):
        s = 0.5 * s + x[i]
        out[i] = s
    return s


def test_it_runs_graphs() -> None:
    function = lambda x: (np.exp(-x) * x.sum(axis=0) + 1)[:, ::2]  # noqa: E731
    found = npc.explain(npc.compile(function, backend="toy"))(X)
    assert len(found.graphs) == 1 and not found.breaks
    assert "np.exp(t" in found.sources[0] and "OPS['reduce'].eager(" in found.sources[0]
    got = npc.compile(function, backend="toy", fullgraph=True)
    for x in (X, X[:7], X.T.copy()):  # sizes become symbols
        np.testing.assert_array_equal(got(x), function(x))


def test_it_writes_arguments_and_reports_errors() -> None:
    def changed(x: Any) -> Any:
        x += 1
        return np.log(x)

    got, wanted = X.copy(), X.copy()
    np.testing.assert_array_equal(npc.compile(changed, backend="toy")(got), changed(wanted))
    np.testing.assert_array_equal(got, wanted)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
        npc.compile(lambda x: np.log(x), backend="toy")(np.zeros(3))


def test_rows_that_are_written_with_others_need_nothing() -> None:
    function = lambda x: logsumexp(log1mexp(x), axis=1)  # noqa: E731
    found = npc.explain(npc.compile(function, backend="toy"))(X)
    assert "np.expm1(" in found.sources[0]
    np.testing.assert_allclose(npc.compile(function, backend="toy")(X), function(X), rtol=1e-14)
    slope = npc.compile(lambda x: npc.grad(lambda y: function(y).sum())(x), backend="toy", fullgraph=True)
    np.testing.assert_allclose(slope(X), npc.grad(lambda y: function(y).sum())(X), rtol=1e-13)


def test_it_has_no_loops_and_python_runs_them() -> None:
    compiled = npc.compile(stepped, backend="toy")
    for _ in range(3):
        got, wanted = np.empty(30), np.empty(30)
        assert compiled(X[0], got) == stepped(X[0], wanted)
        np.testing.assert_array_equal(got, wanted)
    assert "compiled loop" not in str(npc.explain(compiled)(X[0], np.empty(30)))
    assert "compiled loop" in str(npc.explain(stepped)(X[0], np.empty(30)))


def test_what_it_can_is_asked_of_it() -> None:
    found = {name: registry.abilities_of(registry.find_backend(name)) for name in ("cpu", "eager", "cuda", "toy")}
    assert [name for name, can in found.items() if can.has_loops] == ["cpu"]
    assert [name for name, can in found.items() if can.devices is not None] == ["cuda"]
    assert [name for name, can in found.items() if not can.is_own] == ["toy"]


def test_an_entry_point_registers_it(tmp_path: Path) -> None:
    """In a process that has not imported it."""
    about = tmp_path / "toy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\ntoy = tests.toy_backend:register\n")
    program = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}]\n"
        "import numpy as np, npcompile as npc\n"
        "assert 'tests.toy_backend' not in sys.modules and 'toy' in npc.list_backends()\n"
        "print(npc.compile(lambda x: np.sqrt(x) + 1, backend='toy', fullgraph=True)(np.array([4.0])))\n"
        "assert 'tests.toy_backend' in sys.modules\n"
    )
    made = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert made.stdout == "[3.]\n", made.stderr
