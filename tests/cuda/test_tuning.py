"""`mode="max-autotune"`: every tile that is tried gives the answer, and the winner is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda.programs.program import Launch, Program, Tile
from npcompile.backends.cuda.runtime import compiler, tuning
from npcompile.backends.cuda.runtime.compiler import CompileFailed
from npcompile.backends.cuda.runtime.tuning import candidates
from tests.cuda.interpreted import DeviceArray
from tests.cuda.there import There, same, there  # noqa: F401  (a fixture)

X = np.random.default_rng(0).standard_normal((9, 40))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path))
    compiler.cubin_cache.cache_clear()


def programs(x: Any, y: Any, i: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    y += x[0, 0]
    return e / e.sum(axis=1, keepdims=True), x[i] * 2 + x.T[:, i].T, np.cumsum(x, axis=1), (x * 3).sum(axis=0)


def test_candidates_differ_and_begin_with_the_plan() -> None:
    text = "@triton.jit\ndef f(x):\n    for step in range(STEPS): pass\n"
    tile = Tile(8, 256, warps=16)
    made = candidates(Launch(Program("f", text, ()), tile, others=(Tile(16, 128, warps=8), tile)))
    assert made[0] == tile and len(set(made)) == len(made)
    assert {t.warps for t in made} == {4, 8, 16} and {t.stages for t in made} == {2, 3, 4} and {t.grid for t in made} == {8, 16}


@pytest.mark.parametrize("which", range(3))
def test_any_winner_gives_the_answer(which: int, there: There, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    seen: list[int] = []

    def times(runs: Any) -> list[float]:
        runs[which % len(runs)]()
        seen.append(len(runs))
        return [1.0 - (k == which % len(runs)) * 0.5 for k in range(len(runs))]

    monkeypatch.setattr(there.device, "times", times, raising=False)
    f = npc.compile(programs, mode="max-autotune")
    i = np.array([3, 0, -1, 7])
    for x in (X, X + 1):
        ours, theirs = [there.put(a) for a in (x, x * 2, i)], [a.copy() for a in (x, x * 2, i)]
        got, expected = f(*ours), programs(*theirs)
        for a, b in zip(there.get([*got, *ours]), [*expected, *theirs]):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert len(seen) >= 4 and min(seen) > 1


def test_the_winner_is_remembered(there: There, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    tried: list[int] = []
    chosen: list[Tile] = []
    original = tuning.fastest

    def fastest(*given: Any) -> Tile:
        tried.append(len(given[2]))
        chosen.append(original(*given))
        return chosen[-1]

    monkeypatch.setattr(tuning, "fastest", fastest)
    monkeypatch.setattr(there.device, "times", lambda runs: [float(-k) for k in range(len(runs))], raising=False)
    x = there.put(X)
    for _ in range(3):  # compiled anew each time, as by another process
        same(there.get(npc.compile(lambda x: np.sin(x) * x, mode="max-autotune")(x)), np.sin(X) * X)
    assert len(tried) == 1
    larger = X.repeat(9, axis=0)
    same(there.get(npc.compile(lambda x: np.sin(x) * x, mode="max-autotune")(there.put(larger))), np.sin(larger) * larger)
    assert len(tried) == 2  # another class of sizes
    if there.array_type is DeviceArray:
        assert there.device.requests[-1].warps == chosen[-1].warps


def test_what_is_hardly_faster_does_not_replace_the_plan(there: There, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(there.device, "times", lambda runs: [1.0] + [0.99] * (len(runs) - 1), raising=False)
    chosen: list[tuple[Tile, Tile]] = []
    original = tuning.fastest

    def fastest(device: Any, launch: Launch, *given: Any) -> Tile:
        chosen.append((original(device, launch, *given), launch.tile))
        return chosen[-1][0]

    monkeypatch.setattr(tuning, "fastest", fastest)
    npc.compile(lambda x: np.cos(x) * x, mode="max-autotune")(there.put(X))
    assert chosen and all(a == b for a, b in chosen)


def test_tiles_that_triton_refuses_are_left_out() -> None:
    planned, *others = tiles = [Tile(4, 64), Tile(2, 128), Tile(1, 256)]
    launch = Launch(Program("f", "", ()), planned)

    def load(launches: Any) -> list[Any]:
        if any(each.tile.block == 128 for each in launches):
            raise CompileFailed("128")
        return [each.tile.block for each in launches]

    assert tuning.load_each(launch, tiles, load) == [64, None, 256]
    with pytest.raises(CompileFailed):
        tuning.load_each(launch, others, load)


@pytest.mark.gpu
def test_events_tell_a_long_kernel_from_a_short_one(there: There) -> None:  # noqa: F811
    if there.array_type is DeviceArray:
        pytest.skip("the stand-in has no clock")
    library = there.device.library
    small, large = library.ones(1000), library.ones(50_000_000)
    short, long = there.device.times([lambda: library.sin(small, out=small), lambda: library.sin(large, out=large)])
    assert short < long
