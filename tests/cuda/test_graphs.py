"""`mode="reduce-overhead"`: recorded launches give what the launches would have given, whatever changes between calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda import backend as cuda_backend
from npcompile.backends.cuda import control, partition
from npcompile.backends.cuda.runtime import graphs
from npcompile.backends.cuda.runtime.graphs import Replayed
from npcompile.backends.cuda.runtime.memory import release_caches
from tests.cuda.interpreted import DeviceArray
from tests.cuda.there import There, same, there  # noqa: F401  (a fixture)

X = np.random.default_rng(0).standard_normal((12, 9))


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Replayed]:
    """Every program that may be recorded."""
    made: list[Replayed] = []

    def make(*given: Any) -> Replayed:
        made.append(Replayed(*given))
        return made[-1]

    monkeypatch.setattr(cuda_backend, "Replayed", make)
    return made


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return npc.compile(function, mode="reduce-overhead", **options)


def recordings(programs: list[Replayed]) -> int:
    return sum(known.made for p in programs for known in p.known.values())


def test_inputs_in_one_place_and_new_contents(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x, y: (np.sin(x) * y, (x * y).sum(axis=0)))
    x, y = there.put(X), there.put(X + 1)
    for k in range(5):
        x[...] = there.put(X * k)
        same(there.get(f(x, y)), (np.sin(X * k) * (X + 1), (X * k * (X + 1)).sum(axis=0)))
    assert recordings(programs) == 1 and not programs[0].refused


def test_inputs_that_move_are_copied(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x, y: np.exp(x) - y)
    y, held = there.put(X), []
    for k in range(8):
        held.append(there.put(X * k))  # all at other addresses
        same(there.get(f(held[-1], y)), np.exp(X * k) - X)
    assert recordings(programs) == 1
    (known,) = programs[0].known.values()
    assert known.moved == {0}


def test_results_in_use_are_left_alone(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x: (x * 2, x[::2] + 1))
    x = there.put(X)
    held = []
    for k in range(graphs.MOST_RECORDINGS + 4):  # more than may be recorded
        x[...] = there.put(X + k)
        doubled, more = f(x)
        held.append((doubled, more) if k % 2 else (doubled[1:, 3:], more[::-1]))  # views hold the memory too
        del doubled, more
    for k, (doubled, more) in enumerate(held):
        expected = ((X + k) * 2, (X + k)[::2] + 1)
        same(there.get(doubled), expected[0] if k % 2 else expected[0][1:, 3:])
        same(there.get(more), expected[1] if k % 2 else expected[1][::-1])
    assert recordings(programs) == graphs.MOST_RECORDINGS + 1  # the last one gives copies
    held.clear()
    del doubled, more
    same(there.get(f(x)[0]), (X + graphs.MOST_RECORDINGS + 3) * 2)
    assert recordings(programs) == graphs.MOST_RECORDINGS + 1


def test_large_results_that_are_kept(
    there: There,  # noqa: F811
    programs: list[Replayed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphs, "MOST_COPIED", X.nbytes - 1)
    f = compiled(lambda x: x * 2)
    x = there.put(X)
    held = []
    for k in range(graphs.MOST_RECORDINGS + 4):
        x[...] = there.put(X + k)
        held.append(f(x))
    for k, doubled in enumerate(held):
        same(there.get(doubled), (X + k) * 2)
    assert recordings(programs) == graphs.MOST_RECORDINGS


def test_a_result_is_the_next_argument(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x: np.cos(x) + x * 0.5)
    x, expected = there.put(X), X
    for _ in range(12):
        x, expected = f(x), np.cos(expected) + expected * 0.5
        same(there.get(x), expected)
    assert 1 <= recordings(programs) <= 3


def test_numbers_that_change(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x, s, n: x * s + n)
    x = there.put(X)
    for s, n in [(0.5, 3.0), (0.25, 3.0), (-0.0, -0.0), (0.0, -5.0), (0.0, -5.0), (np.inf, 2.0)]:
        got = there.get(f(x, s, n))
        same(got, X * s + n)
        assert np.array_equal(np.signbit(got), np.signbit(X * s + n))
    assert recordings(programs) == 1


def test_arguments_that_are_written_to(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    def step(p, g, rate):
        p -= rate * g
        g *= 0

    f = compiled(step)
    for _ in range(3):  # each pair at addresses of its own
        p, g = there.put(X), there.put(X)
        expected = X.copy()
        for k in range(4):
            g[...] = there.put(X * k)
            f(p, g, 0.1)
            expected -= 0.1 * (X * k)
            same(there.get(p), expected)
            same(there.get(g), X * 0)
    assert not programs[0].refused and 1 <= recordings(programs) <= 3


def test_sizes_and_layouts_have_recordings_of_their_own(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x: np.sqrt(np.abs(x)).sum(axis=0), dynamic=True)
    for n in [*range(2, 2 + graphs.MOST_KEYS + 3), 5, 6]:
        for x in (X.repeat(3, 0)[:n], X.repeat(3, 0)[: 2 * n : 2], np.asfortranarray(X.repeat(3, 0)[:n])):
            given = there.put(X.repeat(3, 0))[: 2 * n : 2] if x.strides[0] == 144 else there.put(x)
            for _ in range(3):
                same(there.get(f(given)), np.sqrt(np.abs(x)).sum(axis=0))
    assert all(len(p.known) <= graphs.MOST_KEYS for p in programs) and recordings(programs)


def test_indices_out_of_bounds(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x, i: x[i] * 2)
    x, i = there.put(X), there.put(np.array([3, -1, 0]))
    for picked in ([3, -1, 0], [1, 2, 3], [11, -12, 5], [0, 12, 0], [1, 1, 1]):
        i[...] = there.put(np.array(picked))
        if max(picked) < 12:
            same(there.get(f(x, i)), X[picked] * 2)
        else:
            with pytest.raises(IndexError, match="index 12 is out of bounds for axis 0 with size 12"):
                f(x, i)
    assert recordings(programs) == 1


def test_programs_that_wait_for_the_host_run_as_they_are(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x: np.sort(x, axis=0) + x)  # by a library, which need not be one that can be recorded
    x = there.put(X)
    for _ in range(4):
        same(there.get(f(x)), np.sort(X, axis=0) + X)
    if there.array_type is DeviceArray:
        assert programs[0].refused and not recordings(programs)


def test_gradients(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(npc.wrap_numpy(lambda x, w: np.mean(np.tanh(x * w) ** 2)))
    reference = npc.compile(npc.wrap_numpy(lambda x, w: np.mean(np.tanh(x * w) ** 2)))
    w = there.tensor(X + 1, requires_grad=True)
    kept = []
    for k in range(6):
        loss = f(there.tensor(X * k), w)
        kept.append(loss)
        if k % 2:  # two losses live, and two backward programs that have not run
            for one in kept:
                one.backward()
            kept.clear()
    ours = there.get(w.grad.detach()._data)
    w = npc.tensor(X + 1, requires_grad=True)
    for k in range(6):
        reference(npc.tensor(X * k), w).backward()
    np.testing.assert_allclose(ours, w.grad.numpy(), rtol=1e-10)
    assert recordings(programs) >= 2  # forward and backward


def test_threads(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x, s: (x * s, (x + s).sum(axis=1)))
    wrong: list[Any] = []

    def work(number: int) -> None:
        x = there.put(X * number)
        for k in range(20):
            a, b = there.get(f(x, float(k)))
            if not np.allclose(a, X * number * k) or not np.allclose(b, (X * number + k).sum(axis=1)):
                wrong.append((number, k))

    f(there.put(X), 1.0)  # one compiles
    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    if there.array_type is DeviceArray:  # Triton's interpreter is not for several threads
        for thread in threads:
            thread.run()
    else:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_arrays_of_the_host(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x, s: np.tanh(x) * s)
    with npc.device("cuda"):
        for k in range(4):
            got = f(X + k, 2.0 + k)
            assert type(got) is np.ndarray
            same(got, np.tanh(X + k) * (2.0 + k))
    assert recordings(programs) == 1


def test_memory_is_given_back_when_it_is_short(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x: np.sin(x) - 1)
    x = there.put(X)
    for _ in range(3):
        kept = f(x)
    release_caches()
    assert recordings(programs) == 0
    same(there.get(kept), np.sin(X) - 1)
    for _ in range(3):
        same(there.get(f(x)), np.sin(X) - 1)
    same(there.get(kept), np.sin(X) - 1)
    assert recordings(programs) == 1


# --- loops


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[Replayed]:
    """Every loop that may be recorded."""
    made: list[Replayed] = []

    def make(*given: Any) -> Replayed:
        made.append(Replayed(*given))
        return made[-1]

    monkeypatch.setattr(partition, "Replayed", make)
    return made


def newton(x: Any, n: Any) -> Any:
    """Not of elements alone, which would be one kernel."""
    return npc.fori_loop(0, n, lambda k, y: 0.5 * (y + x / y[::-1]), x)


def test_a_loop_of_known_length_is_one_graph(there: There, loops: list[Replayed]) -> None:  # noqa: F811
    f = npc.compile(newton, dynamic=False)
    x = there.put(np.abs(X) + 1)
    for k in range(4):
        x[...] = there.put(np.abs(X) + 1 + k)
        same(there.get(f(x, 7)), newton(np.abs(X) + 1 + k, 7))
    assert recordings(loops) == 1


def test_scans(there: There, loops: list[Replayed]) -> None:  # noqa: F811
    def f(c, xs, rate):
        return npc.scan(lambda c, x: (np.sin(c[::-1]) + x * rate, c * x), c, xs)

    compiled = npc.compile(f)
    for k in range(4):
        ours = compiled(there.put(X[0]), there.put(X + k), 0.5 + k)
        same(there.get(ours), f(X[0], X + k, 0.5 + k))
    assert 1 <= recordings(loops) <= 2  # the results of the last call are still held in the next


def test_large_and_long_loops_are_not_recorded(
    there: There,  # noqa: F811
    loops: list[Replayed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = npc.compile(newton, dynamic=False)
    x = there.put(np.abs(X) + 1)
    monkeypatch.setattr(control, "MOST_ITERATIONS", 3)
    for _ in range(3):
        same(there.get(f(x, 5)), newton(np.abs(X) + 1, 5))
    assert not any(p.known for p in loops)
    monkeypatch.setattr(partition, "MOST_BYTES", X.nbytes)
    f = npc.compile(newton, dynamic=False)
    for _ in range(3):
        same(there.get(f(x, 3)), newton(np.abs(X) + 1, 3))
    assert all(not known.free for p in loops for known in p.known.values())


def test_loops_inside_of_recorded_programs(there: There, loops: list[Replayed], programs: list[Replayed]) -> None:  # noqa: F811
    f = compiled(lambda x: np.exp(-newton(np.abs(x) + 1, 5)), dynamic=False)
    x = there.put(X)
    for k in range(4):
        x[...] = there.put(X + k)
        same(there.get(f(x)), np.exp(-newton(np.abs(X + k) + 1, 5)))
    assert recordings(programs) == 1


def test_nothing_is_written_where_an_index_is_out_of_bounds(there: There, programs: list[Replayed]) -> None:  # noqa: F811
    def take(p, x, i):
        rows = x[i]
        p += rows.sum(axis=0)
        return rows * 2

    def in_pieces(p, x, i):
        rows = x[i]
        p += (rows @ x.T).sum(axis=0)[: p.size] + x[0]
        return rows * 2

    for function in (take, in_pieces):
        f = compiled(function)
        x, p, i = there.put(X), there.put(X[0]), there.put(np.array([3, -1, 0]))
        expected = X[0].copy()
        for picked in ([3, -1, 0], [1, 2, 3], [11, -12, 5], [0, 12, 0], [1, 1, 1]):
            i[...] = there.put(np.array(picked))
            if max(picked) < 12:
                same(there.get(f(p, x, i)), function(expected, X, np.array(picked)))
            else:
                with pytest.raises(IndexError, match="index 12 is out of bounds"):
                    f(p, x, i)
            same(there.get(p), expected)
    assert recordings(programs[:1]) == 1
