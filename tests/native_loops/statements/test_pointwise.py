"""Loops that do the same to each row of whole arrays: by blocks of rows where they can be, and as NumPy does them everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from benchmarks.programs.simulation import barrier_option, julia, mandelbrot, particles
from npcompile.compiler import compiled_function
from npcompile.tracer.native.row_tiling import ERRORS_ARE_IGNORED
from tests.native_loops.agreement import check, counts, ends_when_interrupted, fired, passes
from tests.native_loops.random.pointwise import draw_program
from tests.native_loops.statements.test_array_statements import nearly
from tests.native_loops.test_native_loops import agrees
from tests.random_programs import check_examples

rng = np.random.default_rng(12)
N = 700  # more than a block
X, Y = rng.standard_normal(N), rng.standard_normal(N)
PAIRS = rng.standard_normal((N, 2))


def blocks_agree(user: Any, *arguments: Any, expected: bool = True) -> None:
    """`expected`: is some loop written by blocks of rows?"""
    assert fired(agrees(user, *arguments), "row tiling") == expected


def test_simulations():
    re, im = np.meshgrid(np.linspace(-2, 1, 40), np.linspace(-1.3, 1.3, 30))
    blocks_agree(julia, re, im, 30)
    blocks_agree(mandelbrot, re, im, 30)
    blocks_agree(particles, rng.random((N, 2)), rng.standard_normal((N, 2)), 30)
    nearly(barrier_option, rng.standard_normal((30, N)), 100.0, 95.0, 120.0)


def test_a_call_asks_once_what_numpy_ignores_and_not_where_its_own_memory_is():
    re, im = np.meshgrid(np.linspace(-2, 1, 9), np.linspace(-1.3, 1.3, 7))
    known = compiled_function(agrees(julia, re, im, 30))  # two loops: the second iteration's arrays are others
    (point,) = known.points.values()
    calls = [line for line in point.source.splitlines() if "found = " in line]  # the other where NumPy's state is another
    question = known.objects[id(ERRORS_ARE_IGNORED)].name
    assert [line.count(question) for line in calls] == [1, 1]
    assert fired(agrees(mandelbrot, re, im, 30), "overlap check elimination")


def lanes_agree(user: Any, *arguments: Any, expected: bool = True) -> None:
    """`expected`: do elements stay in registers through all iterations?"""
    assert fired(agrees(user, *arguments), "lanes in registers") == expected


def rows_in_registers(compiled: Any) -> list[str]:
    """How many rows of a loop stay in registers through all its iterations."""
    return [p.place.split()[1] for p in passes(compiled, "lanes in registers").values() if p.fired]


def test_elements_stay_in_registers():
    def relax(A, B, c, n):
        for _ in range(n):
            A += (B - A) * 0.25
            c += A > 0.5
        return A, c

    def weigh(A, B, n):
        for k in range(n):
            A = A * 0.5 + B * k
        return A

    def grow(A, rate, n):
        price, alive = np.full(A.shape[0], 2.0), np.ones(A.shape[0], np.bool_)
        for _ in range(n):
            price = price * rate + A
            alive &= price < 5
        return price, alive

    def fade(A, n):
        alive = np.ones(A.shape[0], np.bool_)
        for _ in range(n):
            A = np.exp(A * -0.5)
            alive &= A < 0.9
        return A, alive

    def scramble(A, n):
        for _ in range(n):
            A = (A * 5 + 3) & 63
        return A

    nearly(fade, X[:20].copy(), 29)
    made = agrees(scramble, np.arange(100, dtype=np.int8), 29)
    assert rows_in_registers(made) == ["256"]  # several vectors: an iteration waits for the one before it
    assert rows_in_registers(agrees(grow, X[:20].copy(), 0.9, 29)) == ["64"]  # as many bytes as a vector has
    assert counts(made, "lanes in registers") == [64]  # few elements are one vector
    for size in (1, 63, 64, 65, 256, 257, 300):
        lanes_agree(scramble, np.arange(size) % 64, 29)
        lanes_agree(scramble, (np.arange(size) % 64).astype(np.int8), 29)
    faded = npc.compile(fade)
    faded(X[:20].copy(), 29)
    assert rows_in_registers(faded) == ["16"]  # truth values are as wide as the numbers, where a function takes the time
    for size in (1, 15, 16, 33, 70, N):
        lanes_agree(grow, X[:size].copy(), 0.9, 29)
        lanes_agree(relax, X[:size].copy(), Y[:size].copy(), np.zeros(size, np.int8), 29)
        lanes_agree(weigh, X[:size].astype(np.float32), Y[:size].astype(np.float32), 29)
    re, im = np.meshgrid(np.linspace(-2, 1, 9), np.linspace(-1.3, 1.3, 7))
    lanes_agree(mandelbrot, re, im, 50)
    lanes_agree(julia, re, im, 50)


def test_rows_that_lie_elsewhere_in_each_iteration():
    def paths(draws, spot, barrier):
        price, alive = np.full(draws.shape[1], spot), np.ones(draws.shape[1], np.bool_)
        for t in range(draws.shape[0]):
            price = price * (1 + draws[t])
            alive &= price < barrier
        return price, alive

    def count(masks, A):
        c = np.zeros(A.shape[0], np.int16)
        for mask in masks:
            A = A * 0.5 + 1
            c += mask & (A > 1.5)
        return A, c

    def shifted(M, n):  # a row is read that other iterations write to
        total = np.zeros(M.shape[1])
        for t in range(1, n):
            M[t] = M[t - 1] + 1
            total += M[t]
        return M, total

    draws = np.random.default_rng(3).standard_normal((25, 700)) * 0.1
    for size in (1, 8, 10, 16, 17, 511, 513, 700):
        lanes_agree(paths, draws[:, :size].copy(), 2.0, 3.0)
        lanes_agree(paths, draws[:, :size].astype(np.float32), np.float32(2), np.float32(3))
        lanes_agree(count, draws[:, :size] > 0, draws[0, :size].copy())
        lanes_agree(count, draws[:, :size] > 0, draws[0, :size].astype(np.float32))
        lanes_agree(shifted, draws[:, :size].copy(), 25, expected=False)
    huge = np.full((30, 11), 1e30)  # the last iterations overflow: NumPy warns
    huge[:, :10] = 0
    lanes_agree(paths, huge, 2.0, 3.0)


def test_elements_that_come_back_to_what_they_were():
    def turn(A, b, n):
        for _ in range(n):
            A = 1 - A
            b = (b * 5) & 15
        return A, b

    def halve(A, n):
        for k in range(n):
            A[A > 1] *= 0.5
        return A, k

    for n in range(20, 29):
        lanes_agree(turn, np.arange(20.0), np.full(20, 3, np.uint8), n)
        lanes_agree(halve, np.arange(20.0), n)
    A = np.arange(20.0)
    assert npc.compile(halve)(A, 10**10)[1] == 10**10 - 1  # at once: iterations that change nothing are not done
    assert A.max() <= 1


def test_statements_about_a_column_are_about_all_elements():
    def fall(V, X, n, k):
        for _ in range(n):
            V[:, k] -= 0.5
            V[:, 1] *= 0.75
            X += 0.1 * V
            X[X < 0] = -X[X < 0]

    def invert(V, X, n):
        for _ in range(n):
            V[:, -1] = 1 / V[:, -1]
            X += V

    def turn(V, X, n):
        for t in range(n):
            V[:, t % 2] += 1
            X *= V

    def mix(V, X, n):
        for _ in range(n):
            V[:, 0] -= V[:, 1]
            X += V

    for rows in (1, 3, 40, 700):
        for columns in (2, 3, 5, 40):
            V, X = (np.random.default_rng(rows).standard_normal((rows, columns)) for _ in range(2))
            lanes_agree(fall, V, X, 20, -1)
            lanes_agree(fall, V.astype(np.float32), X.astype(np.float32), 20, 0)
            lanes_agree(turn, V, X, 20)
            lanes_agree(mix, V, X, 20, expected=False)
            lanes_agree(invert, np.round(V) * (np.arange(columns) < columns - 1) + 1, X, 20)
            lanes_agree(invert, np.round(V), X, 20)  # zeros that NumPy reports, and some that it does not see
    agrees(fall, PAIRS.copy(), PAIRS.copy(), 20, 2)  # IndexError


def test_masks_are_the_same_each_time_that_they_are_written():
    def reflect(A, B, n):
        for _ in range(n):
            A += B
            A[A > 1] = 2 - A[A > 1]
            B[A < 0] *= -0.5

    def invert(A, n):
        for _ in range(n):
            A[A > 2] = 1 / A[A > 2]
            A += 0.25

    def shrink(A, n):
        for _ in range(n):
            A[A > 2] -= A[A > 2] * 0.5
            A += 0.25

    lanes_agree(shrink, X.copy(), 30)
    for dtype in (np.float64, np.float32):
        lanes_agree(reflect, X.astype(dtype), Y.astype(dtype), 30)
    assert counts(agrees(reflect, X.copy(), Y.copy(), 30), "ones outside masks") == [0]
    assert counts(agrees(invert, X.copy() + 1, 30), "ones outside masks") == [1]  # else 1 / 0 is an error
    agrees(reflect, np.arange(-20, 20), np.arange(40) - 9, 30, loops=0)  # an error: floats into integers


def test_arithmetic_under_a_mask_is_done_again_where_what_it_leaves_out_has_errors():
    def halve(A, B, n):
        for _ in range(n):
            A[B > 0] = 1.5e308 - A[B > 0]
            B += 1

    lanes_agree(halve, np.where(Y > 0, 1.0, -1e308), Y - 10, 30)
    lanes_agree(halve, np.where(Y > 0, 1.0, np.inf), Y - 10, 30)


def test_what_the_next_iteration_does_not_read_has_errors_too():
    def inverses(A, B, n):
        for _ in range(n):
            C = 1 / A
            A -= B
        return A, C

    lanes_agree(inverses, np.arange(1.0, 21.0), np.full(20, 0.3), 30, expected=False)
    lanes_agree(inverses, np.arange(1.0, 21.0), np.full(20, 1.0), 30, expected=False)


def test_numbers_and_elements_change_from_iteration_to_iteration():
    def decay(A, B, c, n):
        s = 1.0
        for t in range(3, n, 2):
            s = s * 0.5 + c[t]
            A += B * s
            B = B - t * c[-t]
        return s, t, A, B

    blocks_agree(decay, X, Y, rng.standard_normal(40), 40)


def test_rows_of_an_iterator():
    def paths(A, R):
        last = A
        for row in R:
            last = np.maximum(last, A + row)
            A = A + row
        return A, last

    blocks_agree(paths, X, rng.standard_normal((30, N)))
    blocks_agree(paths, X, rng.standard_normal((N, 30)).T)


def test_columns_and_broadcasts():
    def turn(M, A, d):
        for _ in range(20):
            M[:, 0] += M[:, 1] * 0.1
            M -= d * A[:, None]
            A *= 0.99
            M[:, 1] = M[:, 0] - M[:, -1]
        return M

    blocks_agree(turn, PAIRS, X, np.array([0.5, 0.25]))


def test_arrays_of_one_memory():
    def program(A, B, n):
        for _ in range(n):
            A += B * 0.5
            B = B - A
        return B

    def names(A, n):
        v = A * 2
        for _ in range(n):
            w = v
            v += 1
            v = w * 0.5
        return v, w

    blocks_agree(program, X, Y, 20)
    compiled = npc.compile(program)
    for given in (lambda: (x := X.copy(), x), lambda: ((x := np.resize(X, N + 1))[1:], x[:-1])):
        theirs, ours = given(), given()
        for _ in range(3):
            np.testing.assert_array_equal(compiled(*ours, 20), program(*theirs, 20))
            np.testing.assert_array_equal(ours[0], theirs[0])
    agrees(names, X, 20)


def test_rows_that_need_others():
    def shifted(A, n):
        for _ in range(n):
            A[1:] += A[:-1] * 0.5
        return A

    def reversed_(A, B, n):
        for _ in range(n):
            A += B
            B = A[::-1] * 0.5
        return B

    def transposed(M, n):
        for _ in range(n):
            M *= M.T
        return M

    for program, given in ((shifted, (X, 20)), (reversed_, (X, Y, 20)), (transposed, (np.ones((20, 20)), 20))):
        blocks_agree(program, *given, expected=False)


def test_rows_that_read_all_of_what_the_iteration_before_left():
    def broadcast(M, v, n):
        for _ in range(n):
            M = M * 0.5 + v
            v = v * 0.5
        return M, v

    blocks_agree(broadcast, rng.random((30, 30)), rng.random(30), 20, expected=False)


def test_errors_are_reported_where_they_happen():
    def program(A, B, n):
        for t in range(n):
            A *= 2.0
            B = B + 1 / A
            if_any = B > t
            B[if_any] = np.sqrt(B[if_any] - 5)
        return B

    grown = X.copy()
    grown[500] = 1e308
    zero = np.abs(X) + 1
    zero[600] = 0
    for given in (np.abs(X) + 1, grown, zero):
        for state in ({}, {"over": "ignore"}, {"all": "ignore"}):
            with np.errstate(**state):
                agrees(program, given, 10 + np.abs(Y), 25)
    with np.errstate(all="raise"):
        agrees(program, grown, Y, 25, loops=0)


def test_only_what_a_mask_selects_has_errors():
    def program(A, n):
        inside = A > 0
        for _ in range(n):
            A[inside] = np.sqrt(A[inside])
            A[~inside] *= 2
        return A

    blocks_agree(program, X, 20)


def test_integers_wrap_around_and_scalars_do_not():
    def program(A, B, s, n):
        for t in range(n):
            A *= 3
            B += A
            s = s * s
        return s

    agrees(program, np.arange(N, dtype=np.int32), np.arange(N, dtype=np.int64), np.int32(7), 30)
    agrees(program, np.arange(N, dtype=np.int32), np.arange(N, dtype=np.int64), 7, 20, loops=0)


def test_no_iterations_and_no_elements():
    def program(A, n):
        B = A * 1
        for t in range(n):
            B = B * 0.5
            A += B
        return B

    compiled = npc.compile(program)
    for n, size in ((30, N), (0, N), (1, N), (2, N), (30, 0), (30, 1)):
        ours, theirs = X[:size].copy(), X[:size].copy()
        np.testing.assert_array_equal(compiled(ours, n), program(theirs, n), strict=True)
        np.testing.assert_array_equal(ours, theirs)
    for shape in ((5, 0), (0, 5), (1, 1), (3, 400)):
        np.testing.assert_array_equal(compiled(np.ones(shape), 30), program(np.ones(shape), 30), strict=True)
    assert fired(compiled, "row tiling")


@pytest.mark.parametrize("size", [10, 100_000])
def test_interrupts(size):
    def program(A, n):
        for k in range(n):  # other numbers in each iteration: what changes nothing would end at once
            A *= 0.5
            A += k

    compiled, A = npc.compile(program), np.ones(size)
    compiled(A, 100)
    ends_when_interrupted(lambda: compiled(A, 10**10))
    assert fired(compiled, "row tiling")


def test_random_programs():
    check_examples(draw_program, check, "cpu", 4)
