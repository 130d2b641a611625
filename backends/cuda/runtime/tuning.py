"""`mode="max-autotune"`: the tiles, warps and stages of each launch are tried on the device once, and remembered on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from npcompile.backends.cache import key_of
from npcompile.backends.cuda.programs.program import Launch, Parameter, Tile, power_of_two
from npcompile.backends.cuda.runtime.compiler import CompileFailed, cubin_cache, triton_version
from npcompile.backends.cuda.runtime.interface import Device

SUFFIX = ".tile.json"
MOST_WARPS = 16
STAGES = (2, 3, 4)  # of loops: how many of their loads are on their way at once
CLEARLY = 0.97  # of the planned tile's time: what is no faster than that does not replace it

Load = Callable[[Sequence[Launch]], list[Callable[..., None]]]  # Raises CompileFailed


def candidates(launch: Launch) -> list[Tile]:
    """The planned tile, and others that give the same elements."""
    made = [launch.tile, *launch.others]
    for tile in tuple(made):
        made += [replace(tile, warps=w) for w in (tile.warps // 2, tile.warps * 2) if 1 <= w <= MOST_WARPS]
    if "range(" in launch.program.text:
        made += [replace(launch.tile, stages=n) for n in STAGES if n != launch.tile.stages]
    return list(dict.fromkeys(made))


def tuned(
    device: Device, launch: Launch, load: Load, memory: dict[str, int], sizes: dict[str, int], wide: bool, divisible: Any
) -> Launch:
    """The launch with the tile that was the fastest, now or when these texts and sizes were first met.

    `memory`: addresses of what its pointers may point to while tiles are tried, by the names of parameters.
    """
    key = key_of(
        "tile",
        launch.program.text,
        str(device.architecture),
        triton_version(),
        repr((wide, divisible, [power_of_two(n) for n in sizes.values()], replace(launch.tile, grid=0))),
        str(power_of_two(launch.tile.grid)),
    )
    tiles = candidates(launch)
    known = cubin_cache().read(key, SUFFIX)
    if known is not None:
        chosen = next((t for t in tiles if described(t) == json.loads(known)), None)
        if chosen is not None:
            return replace(launch, tile=chosen)
    chosen = fastest(device, launch, tiles, load, memory, sizes)
    cubin_cache().write(key, SUFFIX, json.dumps(described(chosen)).encode())
    return replace(launch, tile=chosen)


def described(tile: Tile) -> dict[str, int]:
    """What is remembered: the grid follows from it and the sizes."""
    return {k: v for k, v in asdict(tile).items() if k != "grid"}


def fastest(
    device: Device, launch: Launch, tiles: Sequence[Tile], load: Load, memory: dict[str, int], sizes: dict[str, int]
) -> Tile:
    arguments = [value_for(p, memory, sizes) for p in launch.program.parameters]
    tried: list[tuple[Tile, Callable[[], None]]] = []
    for tile, launcher in zip(tiles, load_each(launch, tiles, load)):
        if launcher is not None:
            tried.append((tile, lambda f=launcher, n=tile.grid: f(n, *arguments)))  # type: ignore[misc]
    times = device.times([run for _, run in tried])
    best = min(range(len(tried)), key=times.__getitem__)
    return tried[best][0] if times[best] < CLEARLY * times[0] else tried[0][0]


def load_each(launch: Launch, tiles: Sequence[Tile], load: Load) -> list[Callable[..., None] | None]:
    """A launcher for each tile, compiled together; None where Triton refuses one. Raises CompileFailed for the first."""
    try:
        return [*load([replace(launch, tile=t) for t in tiles])]
    except CompileFailed:
        made: list[Callable[..., None] | None] = [*load([replace(launch, tile=tiles[0])])]
    for tile in tiles[1:]:
        try:
            made += load([replace(launch, tile=tile)])
        except CompileFailed:
            made.append(None)
    return made


def value_for(parameter: Parameter, memory: dict[str, int], sizes: dict[str, int]) -> Any:
    match parameter.role:
        case "size":
            return sizes[parameter.source]
        case "scalar":
            return 1
    return memory[parameter.name]


def time_with_cupy(library: Any, runs: Sequence[Callable[[], None]]) -> list[float]:
    """Milliseconds of each, by events of the device: the least of several rounds, each of which has every run."""
    event = library.cuda.Event

    def timed(run: Callable[[], None], times: int) -> float:
        begin, end = event(), event()
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return library.cuda.get_elapsed_time(begin, end) / times

    for run in runs:
        run()  # loads the code
    counts = [int(np.clip(ROUND / max(timed(run, 1), 1e-3), 1, 50)) for run in runs]
    rounds = [[timed(run, n) for run, n in zip(runs, counts)] for _ in range(ROUNDS)]
    return [min(each) for each in zip(*rounds)]


ROUNDS = 5
ROUND = 0.5  # milliseconds: for one run in one round
