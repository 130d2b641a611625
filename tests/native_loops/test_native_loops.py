"""Loops over single elements run as native programs, and are left where only Python does what is right."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loop_ir import program
from npcompile.backends.errors import CompilerRefused
from npcompile.compiler import compiled_function
from npcompile.tracer.native import loops
from tests.native_loops.agreement import cloned, ends_when_interrupted, outcome, same

TABLE = np.arange(256, dtype=np.uint32) * np.uint32(2654435761)
SCALE = 3


def native_loops(compiled: Any) -> int:
    """How many native programs there are."""
    known = compiled_function(compiled)
    assert known is not None
    variants = [v for point in known.points.values() for v in point.variants]
    return sum(v.graph is None and v.compiled is not None for v in variants)


def agrees(user: Any, *arguments: Any, loops: int = 1) -> Any:
    """The compiled function does what the plain one does, three times, by at least so many native programs."""
    compiled = npc.compile(user)
    for _ in range(3):
        theirs = outcome(user, user, cloned(arguments))
        ours = outcome(compiled, user, cloned(arguments))
        for a, b in zip(ours, theirs):
            assert same(a, b), f"{a!r} where Python gives {b!r}"
    assert native_loops(compiled) >= loops
    return compiled


rng = np.random.default_rng(5)
N = 40


def smoothing(x, alpha):
    out = np.empty_like(x)
    s = x[0]
    for i in range(x.size):
        s = alpha * x[i] + (1 - alpha) * s
        out[i] = s
    return out


def warping(a, b):
    n, m = a.size, b.size
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = abs(a[i - 1] - b[j - 1]) + min(D[i - 1, j - 1], D[i - 1, j], D[i, j - 1])
    return D[n, m], D


def cholesky(A):
    n = A.shape[0]
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i + 1):
            s = 0.0  # Python's, then a scalar of NumPy's
            for k in range(j):
                s += L[i, k] * L[j, k]
            L[i, j] = math.sqrt(A[i, i] - s) if i == j else (A[i, j] - s) / L[j, j]
    return L


def backwards(c, d):
    x = np.empty(d.size)
    x[-1] = d[-1]
    for i in range(d.size - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    return x


def in_place(A):
    for i in range(1, A.shape[0]):
        for j in range(1, A.shape[1]):
            A[i, j] += 0.25 * (A[i - 1, j] - A[i, j - 1])


def checksum(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ int(TABLE[(crc ^ int(byte)) & 0xFF])
    return crc ^ 0xFFFFFFFF


def leaves_early(x, limit):
    total = 0.0
    for k in range(len(x)):
        if x[k] < 0:
            continue
        total += x[k]
        if total > limit:
            break
    return total, k


def returns_inside(x, wanted):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] == wanted:
                return i, j
    return None


def collatz(n):
    most = 0
    for k in range(1, n):
        x, steps = k, 0
        while x != 1:
            if x % 2:
                x = 3 * x + 1
            else:
                x //= 2
            steps += 1
        most = max(most, steps)
    return most


def bisection(low, high):
    while high - low > 1e-12:
        middle = (low + high) / 2
        if middle * middle < 2:
            low = middle
        else:
            high = middle
    return low


def swaps(x):
    a, b = 0, 1
    for i in range(x.size):
        a, b = b, a + b
        a, b = (b % 1000, a) if b > a else (a, b)
        x[i] = a
    return a, b


def chained(x):
    inside = 0
    for v in x:
        if 0.25 < v <= 0.75 and not v == 0.5 or v > 0.99:
            inside += 1
    return inside


def counts(x, bins):
    out = np.zeros(bins, np.intp)
    for v in x:
        out[min(max(int(v * bins), 0), bins - 1)] += 1
    return out


def global_number(x):
    for i in range(x.size):
        x[i] = x[i] * SCALE
    return x


def sparse(data, indices, starts, x):
    y = np.zeros(starts.size - 1)
    for i in range(starts.size - 1):
        for j in range(starts[i], starts[i + 1]):
            y[i] += data[j] * x[indices[j]]
    return y


def integers(x):
    for i in range(1, x.size):
        x[i] = (x[i - 1] * 3 + x[i]) // 7 % 100 - (x[i] & 15) ^ (x[i] >> 2)
    return x


def functions(x):
    total = 0.0
    for i in range(x.size):
        total += math.sin(x[i]) + math.exp(-x[i]) * math.atan2(x[i], 2) + math.pow(x[i], 1.5) + np.floor(x[i]) + float(i)
    return total


def sweeps(u, times):
    for _ in range(times):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


def powers(x):
    total = 0.0
    for i in range(x.size):
        total += x[i] ** 2 + i**3 - x[i] ** 0.5 + 1.5**i
    return total


MATRIX = rng.random((N, N))
SPARSE = (rng.random(3 * N), rng.integers(0, N, 3 * N), np.arange(0, 3 * N + 1, 3), rng.random(N))

PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (smoothing, (rng.random(N), 0.3)),
    (smoothing, (rng.random(N).astype(np.float32), 0.3)),
    (smoothing, (rng.random(2 * N)[::-2], np.float32(0.25))),
    (warping, (rng.random(N), rng.random(N))),
    (cholesky, (MATRIX @ MATRIX.T + N * np.eye(N),)),
    (backwards, (rng.random(N), rng.random(N))),
    (in_place, (rng.random((N, N)),)),
    (in_place, (np.asfortranarray(rng.random((N, N))),)),
    (in_place, (rng.random((N, N))[::-1, ::2],)),
    (checksum, (rng.integers(0, 256, N, dtype=np.uint8),)),
    (leaves_early, (rng.standard_normal(N), 5.0)),
    (leaves_early, (rng.standard_normal(N), 5)),
    (returns_inside, (np.arange(N * N).reshape(N, N), 777)),
    (returns_inside, (np.arange(N * N).reshape(N, N), -1)),
    (collatz, (100,)),
    (bisection, (1, 2)),
    (swaps, (np.zeros(N),)),
    (swaps, (np.zeros(N, np.int64),)),
    (chained, (rng.random(N),)),
    (counts, (rng.random(5 * N), 8)),
    (global_number, (rng.random(N),)),
    (sparse, SPARSE),
    (sparse, (SPARSE[0], SPARSE[1].astype(np.int32), SPARSE[2].astype(np.uint16), SPARSE[3])),
    *((integers, (rng.integers(0, 100, N).astype(d),)) for d in ("i8", "i4", "u1", "i2", "u4")),
    (functions, (rng.random(N),)),
    (powers, (rng.random(N),)),
    *((sweeps, (rng.random((N, N)), times)) for times in (1, 3, 40)),
]


@pytest.mark.parametrize("program, arguments", PROGRAMS, ids=[f"{f.__name__}-{k}" for k, (f, _) in enumerate(PROGRAMS)])
def test_loops_are_native_and_exact(program, arguments):
    agrees(program, *arguments)


# --- where Python goes on


def test_an_index_outside_raises_on_its_line_after_what_was_written_before():
    def f(x, y):
        for i in range(x.size):
            y[i] = x[i] + 1
        return y

    agrees(f, np.arange(30.0), np.zeros(25))


def test_python_integers_grow_beyond_64_bits():
    def f(n):
        total = 1
        for k in range(1, n):
            total = total * k + 1
        return total

    agrees(f, 30)


def test_division_by_zero_of_python_and_of_numpy():
    def python(x, n):
        total = 0.0
        for k in range(n):
            x[k] = total
            total = total + 1.0 / (20 - k)
        return total

    def numpy(x):
        for k in range(x.size):
            x[k] = 1 / x[k]
        return x

    agrees(python, np.zeros(30), 30)
    agrees(numpy, np.array([*range(20), 0.0, 5.0, 0.0, 2.0]))


def test_warnings_of_numpys_scalars():
    def overflow(x):
        total = x[0]
        for k in range(x.size):
            total = total * x[k]
        return total

    def cast(x, y):
        for k in range(x.size):
            y[k] = x[k]
        return y

    agrees(overflow, np.full(20, 1e30))
    agrees(overflow, np.full(20, 100, np.int16))
    agrees(overflow, np.full(20, np.nan))
    agrees(cast, np.array([1.0] * 18 + [1e300, 2.0]), np.zeros(20, np.float32))
    agrees(cast, np.array([1.0] * 18 + [1e10, 2.0]), np.zeros(20, np.int32))


@pytest.mark.parametrize("state", ["ignore", "raise"])
def test_error_states_hold(state):
    def f(x):
        total = 1.0
        for k in range(x.size):
            total = total / x[k]
        return total

    with np.errstate(all=state):
        agrees(f, np.array([2.0] * 18 + [0.0, 1.0]))
        agrees(f, np.full(20, 1e40))


def test_an_instruction_without_a_form_is_run_by_python_where_it_is_met():
    seen: list[int] = []

    def f(x):
        for k in range(x.size):
            if x[k] > 0.9:
                seen.append(k)
            x[k] = x[k] * 2
        return x

    x = np.linspace(0, 1, 30)
    compiled = npc.compile(f)
    for _ in range(2):
        seen.clear()
        wanted, indices = f(x.copy()), list(seen)
        seen.clear()
        assert np.array_equal(compiled(x.copy()), wanted) and seen == indices and len(seen) == 3
    assert native_loops(compiled)


def test_handlers_around_a_loop_see_its_exceptions():
    def f(x, y):
        try:
            for i in range(x.size):
                y[i] = x[i]
        except IndexError:
            return -1, i
        return 0, i

    agrees(f, np.arange(30.0), np.zeros(25))


def test_arrays_that_share_memory_are_read_and_written_in_order():
    def f(x, y):
        for i in range(x.size):
            y[i] = x[i] + 1
        return y

    memory = np.zeros(31)
    given = npc.compile(f)(memory[:-1], memory[1:])
    assert np.array_equal(given, np.arange(1.0, 31.0)) and np.shares_memory(given, memory)


def test_arrays_that_must_not_be_written_and_unaligned_ones():
    def f(x):
        for i in range(x.size):
            x[i] = x[i] + 1
        return x

    fixed = np.zeros(20)
    fixed.flags.writeable = False
    compiled = agrees(f, np.zeros(20))
    with pytest.raises(ValueError, match="read-only"):
        compiled(fixed)
    unaligned = np.zeros(8 * 20 + 1, np.uint8)[1:].view(np.float64)
    assert np.array_equal(compiled(unaligned), np.ones(20))


def test_what_a_loop_reads_may_change_between_calls():
    def f(x, a):
        total = a
        for i in range(x.size):
            total = total + x[i] * a
        return total

    compiled = npc.compile(f)
    for dtype in ("f8", "f4", "i4", "u1", "c16", "f2", ">f8"):
        for a in (2, 2.5, np.float32(2.5), True, 1j, 2**70):
            for x in (np.arange(20).astype(dtype), np.arange(40).astype(dtype)[::2]):
                wanted = outcome(f, f, [x, a])
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=".*recompile_limit")
                    assert same(outcome(compiled, f, [x, a])[0], wanted[0]), (dtype, a)


def test_the_users_iterator_goes_on_where_the_loop_ended():
    def f(x):
        steps = iter(range(x.size))
        total = 0.0
        for i in steps:
            total += x[i]
            if i == 18:
                break
        return total, list(steps)

    agrees(f, np.arange(25.0))


def test_a_size_is_no_new_program():
    compiled = npc.compile(smoothing)
    for n in (20, 21, 500, 3000):
        x = rng.random(n)
        assert np.array_equal(compiled(x, 0.5), smoothing(x, 0.5))
    assert native_loops(compiled) == 1


def test_native_loops_can_be_switched_off():
    with npc.config.patch(native_loops=False):
        compiled = npc.compile(smoothing)
        assert np.array_equal(compiled(np.arange(30.0), 0.5), smoothing(np.arange(30.0), 0.5))
    assert native_loops(compiled) == 0


def test_a_program_that_the_compiler_refuses_is_told_of_once(monkeypatch):
    def refuse(source, dtypes):
        raise CompilerRefused("cc loop.c\nsaid no")

    monkeypatch.setattr(loops, "load", refuse)
    monkeypatch.setattr(program, "load", refuse)
    x = rng.random(N)
    is_told = pytest.warns(RuntimeWarning, match="said no A loop runs as a compiled body instead")
    with npc.config.patch(internal_errors="warn"), is_told as told:
        compiled = npc.compile(smoothing)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x, 0.3), smoothing(x, 0.3))
    assert len(told) == 1 and not native_loops(compiled)


def test_an_interrupt_ends_a_long_loop():
    def f(n):
        x, k = 1, 0
        while k < n:
            x = (x * 5 + 1) % 1000003
            k += 1
        return x

    compiled = npc.compile(f)
    assert compiled(100) == f(100)
    ends_when_interrupted(lambda: compiled(5 * 10**9))
    assert compiled(100) == f(100)


def test_large_integers_in_arrays_of_float32_are_rounded_as_numpy_does():
    def f(x, n):
        for i in range(x.size):
            x[i] = n + i
        return x

    agrees(f, np.zeros(20, np.float32), 2**54 + 2**30 + 1)


def test_bytes_that_are_neither_0_nor_1_are_true():
    def f(x):
        count = 0
        for i in range(x.size):
            count += x[i]
        return count

    agrees(f, np.full(20, 3, np.uint8).view(np.bool_))


def powers_of(x, y, k):
    out = np.zeros((x.size, 8))
    for i in range(x.size):
        v = float(x[i])
        out[i, 0] = v**2
        out[i, 1] = x[i] ** 2
        out[i, 2] = x[i] ** 0.5
        out[i, 3] = x[i] ** 3
        out[i, 4] = x[i] ** -1.0
        out[i, 5] = v**k
        out[i, 6] = y[i] ** 2
        out[i, 7] = math.exp(0.3) + math.sin(0.1) * math.tanh(0.7) + math.atan2(1.0, 0.3) + 0.7**0.3
    return out


def test_powers_and_functions_of_constants_are_those_of_libm():
    x = rng.random(6_000) * 10
    x[:60] = 2.0 ** np.arange(-60, 0)
    x[60:70] = 1e-170, -1e-160, -3.0, 1e30, 0.1, 10.0, 1.0, 5e-300, -7.0, 1e99
    x, y = np.abs(x), np.minimum(x, 100).astype("f4")
    assert np.any(powers_of(x, y, 2.0)[:, 0] != x * x)
    compiled = npc.compile(powers_of)
    for k in (3.0, 0.25, 2):
        assert same(compiled(x, y, k), powers_of(x, y, k))
    assert native_loops(compiled)


def data_beside_a_loop(x):
    data, count = x.data, 0
    for value in x:
        if value > 0.5:
            count += 1
    return data.nbytes, data.readonly, count


def test_what_has_no_hash_beside_a_loop():
    """A memoryview that can be written refuses to be hashed by ValueError."""
    agrees(data_beside_a_loop, rng.random(50), loops=0)
