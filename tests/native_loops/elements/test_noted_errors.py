"""Floating-point errors are looked for once behind several statements: warnings and exceptions are those of each, in order."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loops.fp_status import FORGET, IN_CHUNK, IN_PROGRAM, look, with_fewer_looks
from tests.native_loops.agreement import cloned, counts, outcome, same
from tests.native_loops.test_native_loops import native_loops

rng = np.random.default_rng(17)


def energy(x, m):
    total = 0.0
    for i in range(x.shape[0] - 1):
        d = x[i + 1 :] - x[i]
        total -= (m[i] * m[i + 1 :] / np.sqrt((d * d).sum(axis=1) + 0.01)).sum()
    return total


def three_sums(A, out):
    for i in range(len(A)):
        t = A[i] / A[i, 0]
        u = np.sqrt(t) * 1e150
        out[i] = (u * u).sum() + t.sum()
    return out


def scalars_between(A, out):
    s = 0.0
    for i in range(len(A)):
        t = A[i] / A[i, 0]
        s = s + A[i, 1] * A[i, 2] * A[i, 3]
        u = t * s
        out[i] = u.max() / A[i, 3]
    return out


def sizes_that_differ(A, out):
    for i in range(len(A)):
        t = A[i] / A[i, 0]
        k = A[i].argmax() + 2  # 10 where the last one is
        out[i] = (t[:k] * A[i, :k]).sum() + (t[:-1] * A[i, : 8 + k // 10]).sum()
    return out


def products_between(A, out):
    for i in range(len(A)):
        t = A[i] / A[i, 0]
        u = A[:5] @ t
        out[i] = (u * 1e100).sum() ** 2 + u[0]
    return out


def stored_between(A, out):
    for i in range(1, len(A)):
        t = A[i] / A[i - 1]
        A[i] = t * 0.5 + 0.5
        u = np.sqrt(A[i] - 1e-3)
        out[i] = u.sum() * A[i, 0]
    return out


def written_behind(A, out):
    for i in range(1, len(A)):
        t = A[i - 1] * A[i]
        u = t / A[i]
        A[i - 1] = u
        out[i] = (u + t).sum()
    return out


def with_indices(A, out):
    for i in range(len(A)):
        t = A[i] / A[i, 0]
        u = A[i][(t * 2).astype(int) % 7]
        out[i] = (u / t).sum()
    return out


PROGRAMS = (three_sums, scalars_between, sizes_that_differ, products_between, stored_between, written_behind, with_indices)


def assert_same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    """But for the order of sums."""
    (made, arguments, seen), (numpys, numpys_arguments, numpys_seen) = ours, theirs
    assert same(seen, numpys_seen)
    if isinstance(numpys, tuple):  # an exception
        assert same(made, numpys)
    else:
        np.testing.assert_allclose(made, numpys, rtol=1e-12)
    for mine, numpys in zip(arguments, numpys_arguments, strict=True):
        np.testing.assert_allclose(mine, numpys, rtol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_of_each_statement(program) -> None:
    compiled = npc.compile(program)
    plain = rng.random((20, 9)) + 0.5
    plain[:, 8] = 0.25  # never the largest
    compiled(plain.copy(), np.zeros(20))
    assert native_loops(compiled)
    places = ((3, 0), (4, 1), (5, 2), (6, 3), (7, 8), (19, 0))
    for reports, place, value in product(("always", "error", "raise"), places, (0.0, -1.0, np.nan, np.inf, 1e200, 1e-200)):
        A = plain.copy()
        A[place] = value
        theirs = outcome(program, program, cloned((A, np.zeros(20))), reports)
        ours = outcome(compiled, program, cloned((A, np.zeros(20))), reports)
        assert_same(ours, theirs)


def no_memory(x, y, zeros):
    total = 0.0
    for i in range(zeros.size):
        t = y / zeros[i]
        u = x[:, None] * t
        total += u[0, 0]
    return total


def test_errors_before_memory_is_lacking() -> None:
    """NumPy has reported them by then."""
    compiled = npc.compile(no_memory)
    compiled(np.ones(3), np.ones(4), np.ones(20))
    assert native_loops(compiled)
    big = np.ones(1 << 22)  # of whose products no address space has room
    for zero, reports in product((0.0, 1.0), ("always", "error", "raise")):
        args = big, big, np.full(20, zero)
        (ours, _, seen), (theirs, _, numpys) = (outcome(f, no_memory, list(args), reports) for f in (compiled, no_memory))
        assert same(seen, numpys) and same(ours[:2], theirs[:2])
        assert issubclass(theirs[0], MemoryError) == (zero != 0 or reports == "always")


def test_one_look_an_iteration() -> None:
    compiled = npc.compile(energy)
    args = rng.random((20, 3)), rng.random(20)
    np.testing.assert_allclose(compiled(*args), energy(*args), rtol=1e-13)
    assert counts(compiled, "looks at floating-point errors") == [
        4
    ]  # one before and one after: of a float of Python, and NumPy's


CALLS = ["switch (part1(t1)) { case 0: break; case -1: goto failed; default:; goto exit1; }", look("exit1", is_new=True)]
NEXT = ["switch (part2(t1)) { case 0: break; case -1: goto failed; default:; goto exit2; }", look("exit2", is_new=True)]
OLD = [NEXT[0], look("exit2", is_new=False)]


@pytest.mark.parametrize(
    "between",
    [
        "const double t3 = t2 * t2;",
        "const int64_t t3 = (int64_t)(t2);",
        "if (UNLIKELY(t2 < t1)) goto exit2;",
        "if (UNLIKELY(in1 < t1)) goto exit2;",
        "const double t3 = sqrt(t2);",
        "const int64_t t3 = npc_other(t1);",
        "block1_2:;",
        "if (UNLIKELY(--fuel <= 0)) { fuel = POLL; if (rt->poll()) goto failed; }",
        "switch (part3(t1)) { case 0: break; case -1: goto failed; default:;  }",
    ],
)
def test_flags_that_others_may_set_are_forgotten(between) -> None:
    lines = ["const double t2 = 0;", FORGET, *CALLS, between, FORGET, *NEXT]
    assert with_fewer_looks(lines, frozenset({"in1"}), IN_PROGRAM) == lines


def test_what_is_left_out() -> None:
    still = ["const int64_t t4 = npc_max(t1 * 8, t3);", "if (UNLIKELY(t4 < t1)) goto exit2;", "NPC_COMPUTED(t4);"]
    assert with_fewer_looks([FORGET, *CALLS, *still, FORGET, *NEXT], frozenset(), IN_CHUNK) == [
        FORGET,
        CALLS[0],
        still[0],
        "if (UNLIKELY(t4 < t1)) goto exit1;",
        still[2],
        "switch (part2(t1)) { case 0: break; case -1: goto exit1; default:; goto exit1; }",
        look("exit1", is_new=True),
    ]
    # What is written is not written again, and what an exit hands over is as it was.
    for lines in ([*still, FORGET, *OLD], ["L1_f8 = t3;", FORGET, *NEXT]):
        kept = [line for line in lines if line != FORGET]
        assert with_fewer_looks([FORGET, *CALLS, *lines], frozenset(), IN_CHUNK) == [FORGET, *CALLS, *kept]


@pytest.mark.parametrize("label", ["failed", "failed7"])  # the latter hands over what a handler of the user's may see
def test_errors_come_before_lack_of_memory(label) -> None:
    room = f"if (npc_room(&made2, t1)) goto {label};"
    nothing = IN_PROGRAM.format("exit1", label)
    found = with_fewer_looks([FORGET, *CALLS, room, FORGET, *NEXT], frozenset(), IN_PROGRAM)
    assert found[2] == room.replace(f"goto {label};", nothing) and found[-1] == look("exit1", is_new=True)
    in_chunk = with_fewer_looks([FORGET, *CALLS, room, FORGET, *NEXT], frozenset(), IN_CHUNK)
    assert in_chunk[2] == room.replace(label, "exit1")
