"""Many programs and many threads: memory stays flat, nothing is compiled twice.

NPCOMPILE_VARIANTS=10000 makes as many programs as the long run does.
"""

import gc
import linecache
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import all_compiled, compiled_function

VARIANTS = int(os.environ.get("NPCOMPILE_VARIANTS", 120))
X = np.arange(5.0)


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def new_function(k: int) -> Callable[..., Any]:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x, n):\n    y = np.sin(x) * {k}.5\n    return y if n > 2 else y - float(x[0])", space)
    return space["f"]


def forgets_functions(k: int) -> None:
    compiled = npc.compile(new_function(k), backend="eager")
    for n in (1, 5):
        np.testing.assert_array_equal(compiled(X, n), compiled_function(compiled).user(X, n))


def scaled(x, name, factor):
    return x * factor + len(name)


SCALED = npc.compile(scaled, backend="eager")


def forgets_variants(k: int) -> None:
    np.testing.assert_array_equal(SCALED(X, f"name {k}", 2.0), scaled(X, f"name {k}", 2.0))
    if k % 7 == 6:
        npc.reset()


def same_function_other_closure(k: int) -> None:
    np.testing.assert_array_equal(npc.compile(lambda x: x + k, backend="eager")(X), X + k)


@pytest.mark.parametrize("make", [forgets_functions, forgets_variants, same_function_other_closure])
def test_memory_stays_flat(make: Callable[[int], None]) -> None:
    def run(count: int) -> tuple[int, int, int]:
        for k in range(count):
            make(k)
        npc.reset()
        gc.collect()
        return len(gc.get_objects()), len(linecache.cache), len(all_compiled())

    before = run(VARIANTS // 3)
    for _ in range(3):  # what other tests left to the allocator moves once, what leaks grows each time
        memory = resident()
        after = run(VARIANTS)
        assert after[0] - before[0] < 50, (before, after)
        assert after[1:] == before[1:]
        if (grown := resident() - memory) < (4 << 20) + 100 * VARIANTS:  # an object for each variant would be more
            return
    raise AssertionError(f"{grown} bytes more with each round")


def in_threads(count: int, work: Callable[[int], None]) -> None:
    barrier, errors = threading.Barrier(count), []

    def run(k: int) -> None:
        barrier.wait()
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


KINDS = [np.ones(shape, dtype) for shape in ((3,), (3, 4), (2, 3, 4)) for dtype in (np.float64, np.float32)] + [np.float64(3)]


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_32_threads_compile_each_kind_once(backend: str) -> None:
    def f(x):
        return (np.sqrt(x) + 1).sum()

    compiled = npc.compile(f, backend=backend)

    def work(k: int) -> None:
        for step in range(20):
            x = KINDS[(k + step) % len(KINDS)]
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-6)

    in_threads(32, work)
    assert len(compiled_function(compiled).graphs) == len(KINDS)


def test_32_threads_with_sizes_of_their_own() -> None:
    def f(x):
        y = x * 2
        for k in range(3):
            y = y + float(y[k])
        return y

    compiled = npc.compile(f, backend="eager")

    def work(k: int) -> None:
        for step in range(10):
            x = np.arange(3.0 + k + 32 * step)
            np.testing.assert_array_equal(compiled(x), f(x))

    in_threads(32, work)
    for point in compiled_function(compiled).points.values():
        assert len(point.variants) <= 2


def test_32_threads_reset_what_others_run() -> None:
    def f(x):
        return np.sin(x) + float(x[0])

    compiled = npc.compile(f, backend="cpu")

    def work(k: int) -> None:
        for step in range(10):
            np.testing.assert_allclose(compiled(X), f(X), rtol=1e-14)
            if k == 0 and step % 3 == 2:
                npc.reset()

    in_threads(32, work)
