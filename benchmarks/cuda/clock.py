"""Times on a device: by its events where a library has them, and by the wall."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SAMPLE = 10e-3  # seconds of work between two events, so that launches are hidden behind it


@dataclass(frozen=True)
class Clock:
    """`span(call, count)`: milliseconds of a call among so many. Events are those of the library's own stream."""

    synchronize: Callable[[], None]
    span: Callable[[Callable[[], Any], int], float]


def cupy_clock(cp: Any) -> Clock:
    def span(call: Callable[[], Any], count: int) -> float:
        first, last = cp.cuda.Event(), cp.cuda.Event()
        first.record()
        for _ in range(count):
            call()
        last.record()
        last.synchronize()
        return cp.cuda.get_elapsed_time(first, last) / count

    return Clock(cp.cuda.get_current_stream().synchronize, span)


def torch_clock(torch: Any) -> Clock:
    def span(call: Callable[[], Any], count: int) -> float:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(count):
            call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / count

    return Clock(torch.cuda.synchronize, span)


def jax_clock(jax: Any) -> Clock:
    """JAX has no events: the wall around calls that are waited for together."""

    def span(call: Callable[[], Any], count: int) -> float:
        began = time.perf_counter()
        results = None
        for _ in range(count):
            results = call()
        jax.block_until_ready(results)
        return (time.perf_counter() - began) / count * 1e3

    return Clock(lambda: jax.effects_barrier(), span)


@dataclass(frozen=True)
class Timed:
    """One side, ready to be called. `wait(result)` returns when the device has it."""

    call: Callable[[], Any]
    clock: Clock
    wait: Callable[[Any], Any]


@dataclass(frozen=True)
class Times:
    """Medians, in milliseconds."""

    device: float
    wall: float  # of one call, waited for


def interleave(sides: Mapping[str, Timed], repetitions: int) -> dict[str, Times]:
    """The sides in turn, in a new order each time."""
    counts = {}
    for name, side in sides.items():
        for _ in range(3):
            side.wait(side.call())
        began = time.perf_counter()
        side.wait(side.call())
        counts[name] = max(3, min(200, int(SAMPLE / (time.perf_counter() - began))))
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    rng = random.Random(0)
    for _ in range(repetitions):
        for name in rng.sample(sorted(sides), len(sides)):
            side = sides[name]
            side.clock.synchronize()
            on_device = side.clock.span(side.call, counts[name])
            side.clock.synchronize()
            began = time.perf_counter()
            side.wait(side.call())
            samples[name].append((on_device, (time.perf_counter() - began) * 1e3))
    return {name: Times(*map(statistics.median, zip(*found))) for name, found in samples.items()}
