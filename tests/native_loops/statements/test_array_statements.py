"""Statements over parts of arrays in native loops: slices, reductions, products, arrays that are made, errors, and overlaps."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from benchmarks.programs.factorizations import cholesky, gram_schmidt, lu
from benchmarks.programs.images import convolution, convolution_by_elements
from benchmarks.programs.simulation import energy
from benchmarks.programs.solvers import triangular_solve
from benchmarks.programs.sparse import rows_product
from npcompile.compiler import compiled_function
from tests.native_loops.agreement import check, cloned, ends_when_interrupted, outcome
from tests.native_loops.random.array_statements import draw_program
from tests.native_loops.test_native_loops import agrees, native_loops
from tests.random_programs import check_examples

rng = np.random.default_rng(8)
N = 24
SQUARE = rng.random((N, N)) + N * np.eye(N)
VECTOR = rng.standard_normal(N)
PLACES = rng.integers(-N, N, 4 * N)


def nearly(user: Any, *arguments: Any, loops: int = 1) -> None:
    """As `agrees`, where the order of additions decides the last bits."""
    compiled = npc.compile(user)
    for _ in range(3):
        theirs = outcome(user, user, cloned(arguments))
        ours = outcome(compiled, user, cloned(arguments))
        assert ours[2] == theirs[2]
        for a, b in zip((ours[0], *ours[1]), (theirs[0], *theirs[1])):
            assert type(a) is type(b)
            for x, y in zip(a, b) if type(b) is tuple else [(a, b)]:
                assert type(x) is type(y) and np.asarray(x).dtype == np.asarray(y).dtype
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12, strict=True)
    assert native_loops(compiled) >= loops


# --- programs


def moments(M):
    out = np.empty((M.shape[0], 5))
    for k in range(M.shape[0]):
        row = M[k] * 2
        out[k, 0], out[k, 1] = row.mean(), (row - row.mean()).max()
        out[k, 2:4] = row[:2]
        out[k, 4] = row.argmin()
    return out


def test_few_statements_over_large_arrays_share_passes_over_memory():
    """A row of the kernel is added in one pass, not each of its elements in passes of its own."""
    image, kernel = rng.random((200, 200)), rng.random((9, 9))
    compiled = npc.compile(convolution)
    for _ in range(3):
        np.testing.assert_allclose(compiled(image, kernel), convolution(image, kernel), rtol=1e-12, strict=True)
    most = max(len(graph.nodes) for graph in npc.explain(compiled)(image, kernel).graphs)
    assert most >= 3 * kernel.shape[1]


@pytest.mark.parametrize("program", [cholesky, lu, gram_schmidt, moments])
def test_matrices(program):
    nearly(program, SQUARE)


def test_columns_of_a_transpose():
    nearly(gram_schmidt, np.asfortranarray(SQUARE))
    nearly(lu, SQUARE[::-1, ::-1])


def test_rows_against_vectors():
    nearly(triangular_solve, np.tril(SQUARE), SQUARE[:, :3].copy())
    nearly(energy, rng.random((N, 3)), rng.random(N))
    starts = np.arange(0, 4 * N, 4)
    nearly(rows_product, rng.random(4 * N), PLACES, starts, VECTOR)
    nearly(convolution_by_elements, rng.random((N, N)), rng.random((3, 5)))


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_rows_of_a_few_elements(columns):
    def program(X, Y, n):
        total = 0
        for i in range(n):
            d = X[i:] - X[i]
            Y[i:] += d * d
            total = total + (d * d).max(axis=1).max() + np.abs(d).min(axis=1).max()
            X[i, 0] += (d * 0.5).any(axis=1).sum()
        return total

    wide, other = rng.standard_normal((2, N, 8))
    X, Y = wide[:, :columns].copy(), other[:, :columns].copy()
    agrees(program, X, Y, N)
    match columns:
        case 1:
            agrees(program, wide[:, :2:2], Y, N, loops=0)
        case 2:
            agrees(program, X, Y.copy("F"), N)
        case 3:
            agrees(program, X, other[::-1, 5:], N)
            agrees(program, (9 * X).astype(np.int16), Y, N)
        case 4:
            agrees(program, X, X, N)


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
@pytest.mark.parametrize("shape", [(7, 1), (3, 150), (4, 6, 70)])
def test_extremes_along_leading_axes(shape, dtype):
    def program(X, shift, best, least, largest, n):
        for k in range(n):
            Y = X - shift[k]
            best[k], least[k] = Y.argmax(axis=-2), Y.argmin(axis=-2)
            largest[k] = Y.max(axis=-2) + Y.min(axis=-2)

    numbers = rng.integers(0, 4, shape).astype(dtype)  # many are equal
    if dtype != np.int16:
        numbers[numbers == 3] = np.nan
    made = [np.zeros((N, *shape[:-2], shape[-1]), t) for t in (np.int64, np.int64, dtype)]
    agrees(program, numbers, np.arange(N).astype(dtype), *made, N, loops=int(len(shape) == 2))


def test_steps_of_a_sieve():
    def sieve(n):
        prime = np.ones(n + 1, np.bool_)
        prime[:2] = False
        for p in range(2, int(n**0.5) + 1):
            if prime[p]:
                prime[p * p :: p] = False
        return prime

    agrees(sieve, 1000)


def test_large_statements_run_on_all_threads():
    def steps(a, b):
        for k in range(20):
            b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
            a, b = b, a
            a[k] += 1
        return a

    agrees(steps, rng.random((300, 300)), rng.random((300, 300)))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_sums_err_no_more_than_numpys(dtype):
    def program(x, out):
        for k in range(x.size):
            out[k] = x[:k].sum()
        return out

    compiled, errors = npc.compile(program), {"ours": 0.0, "theirs": 0.0}
    for seed in range(6):
        x = np.random.default_rng(seed).random(700).astype(dtype)
        exact = np.array([math.fsum(x[:k]) for k in range(x.size)])
        for name, function in (("ours", compiled), ("theirs", program)):
            made = function(x, np.zeros(x.size, dtype)).astype(float)
            errors[name] += np.abs(made - exact).sum()
    assert native_loops(compiled) == 1
    # 4,200 prefixes of 6 arrays: the two means differ by chance, by up to some hundredths of themselves.
    assert errors["ours"] <= errors["theirs"] * 1.1


# --- arrays that live on


def test_arrays_that_are_made_are_handed_over():
    def program(A):
        kept, rows = A[0] * 0, 0
        for k in range(A.shape[0]):
            row = A[k] - 1.5
            if row.max() > 3:
                kept, rows = row, rows + 1
            last = row[::-1]
        return kept, rows, row, last, last.base is row

    agrees(program, rng.standard_normal((N, N)) * 3)


def test_views_share_memory_after_the_loop():
    def program(A):
        for k in range(20):
            part = A[k : k + 2, ::-1]
        part[0, 0] = 77
        return part, part.base is A, part.flags.writeable

    agrees(program, rng.random((N, N)))


def test_what_one_iteration_made_the_next_one_reads():
    def program(x, n):
        before = x * 0
        for _ in range(n):
            after = x + before
            difference = after - before
            before, x = after, difference * 0.5
        return before, x, after

    agrees(program, VECTOR, 30)


def test_arrays_of_sizes_that_change():
    def program(x, A, n):
        kept, grown = x, x
        for i in range(n):
            v = x[i:] * 2
            M = A[i:, i // 2 :] + v[0]
            grown = A[: i + 1, : n - i] * 2
            if i == 2:
                kept = v
            x[i] = v.max() + M.max() + grown.min()
        return kept, v, M, grown, x

    for n in (18, N):
        compiled = agrees(program, VECTOR, SQUARE, n)
        for made in compiled(VECTOR.copy(), SQUARE, n)[:4]:
            expected = np.empty_like(made)
            assert made.strides == expected.strides and made.flags.owndata and str(made.flags) == str(expected.flags)


def test_arrays_pass_through_branches():
    def program(x, n):
        v = x[:5]
        for k in range(n):
            w = v * 2 if k % 3 else x[k % 7 : k % 7 + 5]
            v = (w if w[0] > v[0] else v) - 1
        return v, w

    agrees(program, VECTOR, 30)


def test_rows_of_a_matrix():
    def program(A):
        most = 0.0
        for row in A:
            for x in row[2:]:
                most = max(most, x)
            row[0] = row[1:].max()
        return most, A

    agrees(program, rng.standard_normal((N, N)))


def test_results_are_in_numpys_order():
    def program(A, B):
        for k in range(20):
            turned = A.T * 2
            both = A[1:, ::2] + B[1:, ::2]
            slices = A[:, :, None] + B[0]
            sums = slices.sum(axis=1)
        return turned, both, slices, sums

    for order in ("C", "F"):
        agrees(program, np.asarray(SQUARE, order=order), np.asarray(SQUARE, order="C"), loops=0)

    def outer(A, x):
        for k in range(20):
            made = np.outer(A[k], x) + A
            column = x[:, None] * A[k]
        return made, column

    agrees(outer, SQUARE, VECTOR)


def test_arrays_of_no_axes_and_powers():
    def program(A, M):
        for k in range(20):
            zero = A[k, ...]
            A[k] = np.power(A[k : k + 2], 0.5).max()
        return zero, type(zero * 2), A

    agrees(program, np.where(np.arange(N) % 3, VECTOR, -0.0), SQUARE, loops=0)


# --- functions that are called


def limited(x, low=0.0, high=1.0):
    if x < low:
        return low
    return high if x > high else x


def shifted(v, factor):
    return v * factor - 1


def length_and_difference(a, b):
    return np.sqrt(a * a + b * b), a - b


def divided(a, b):
    return a / b


def counted(x):
    k = 0
    while k < x:
        k += 1
    return k


def set_to(A, k):
    A[k] = k
    return 2


def test_functions_are_written_where_they_are_called():
    def program(A, M):
        total = 0.0
        for k in range(A.size):
            length, difference = length_and_difference(A[k], total)
            total += limited(difference, high=5) * 0.5 + length
            A[k] = limited(A[k]) + limited(shifted(A[k], 2), -1.0)
            M[k, 1:] = shifted(M[k, 1:], factor=0.5)
            total += shifted(M[k, :3], k + 1).max()
        return total, A, M

    agrees(program, VECTOR, SQUARE)


def test_errors_in_functions_that_are_called():
    def program(A, B):
        total = 0.0
        for k in range(A.size):
            total += divided(A[k], B[k])
            A[k] = divided(k, total - total * (k == 15))
        return total

    B = np.ones(N)
    agrees(program, VECTOR, B)
    B[7] = 0
    agrees(program, VECTOR, B)


def test_functions_with_effects_or_loops_are_called():
    def program(A):
        total = 0
        for k in range(A.size):
            total += counted(A[k]) + set_to(A, k)
        return total, A

    agrees(program, VECTOR, loops=0)


# --- enumerate and zip


def test_loops_over_several_things():
    def program(A, B):
        total = 0.0
        for i, x in enumerate(A):
            total += i * x
            for j, (y, z) in enumerate(zip(B, A[i:]), 5):
                total += y * z * j
                if total > 1e6:
                    break
            for y, k in zip(B[::-1], range(3, 30, 2)):
                total -= y / k
                A[i] += k
        return total, A

    agrees(program, VECTOR, np.arange(1.0, N - 2))
    agrees(program, VECTOR, np.arange(0.0))


def test_loops_over_rows_and_numbers():
    def program(A, M):
        total = 0.0
        for row, x in zip(M, A):
            row[1:] *= x
            total += row.max() / x
        return total, M

    agrees(program, VECTOR, SQUARE)
    agrees(program, np.where(np.arange(N) == 7, 0, VECTOR), SQUARE)


def test_iterators_that_others_have_are_left_where_python_leaves_them():
    def program(A, n):
        total = 0.0
        pairs = enumerate(A)
        for i, x in pairs:
            total += i * x
            if i == n:
                break
        return total, next(pairs)

    agrees(program, VECTOR, 20, loops=0)

    def exhausted(A, n):
        total, steps, rest = 0.0, iter(range(n)), iter(A)
        for i in steps:
            total += A[i]
        for x in rest:
            total += x * x
        return total, list(steps), list(rest)

    agrees(exhausted, VECTOR, 20)

    def taken(A, B):
        total, rest = 0.0, iter(B)
        for x, y in zip(A, rest):
            total += x / y
        return total, len(list(rest))

    agrees(taken, VECTOR[:20], np.arange(1.0, N))


# --- overlaps


@pytest.mark.parametrize(
    "statement",
    ["A[1:] = A[:-1]", "A[:-1] = A[1:] * 2", "A[1:] += A[:-1]", "A[:] = A[::-1]", "A[2:] -= A[:-2] * A[1:-1]", "A[k:] = A[k]"],
)
def test_what_is_read_may_be_what_is_written(statement):
    space: dict[str, Any] = {}
    exec(f"def program(A, n):\n    for k in range(n):\n        {statement}\n        A[0] += 0.5\n", space)
    agrees(space["program"], rng.integers(-4, 4, N).astype(float), 20)
    agrees(space["program"], rng.integers(-4, 4, 600).astype(np.float32), 20)


def test_arguments_that_overlap():
    def program(A, B):
        for k in range(20):
            A[k : k + 4] = B[k : k + 4] + 1
        return A, B

    memory = VECTOR.copy()
    views = memory[1:], memory[:-1]
    theirs = memory.copy()
    program(theirs[1:], theirs[:-1])
    compiled = npc.compile(program)
    compiled(*views)
    np.testing.assert_array_equal(memory, theirs)
    agrees(program, VECTOR, SQUARE[0])


# --- errors and warnings


def test_warnings_name_the_statement():
    def program(A, B, out):
        for k in range(20):
            out[k] = A[k] / B[k]
            out[k, 1:] *= 1e300
            A[k, :3] = np.sqrt(A[k, :3])
        return out

    A, B = rng.standard_normal((20, 6)) * 1e6, rng.random((20, 6))
    agrees(program, np.abs(A), B, np.zeros((20, 6)))
    B[7, 2] = 0
    agrees(program, A, B, np.zeros((20, 6)))


def test_a_statement_that_is_done_again_reads_what_it_read_before():
    def rolled(M, v):
        for _ in range(20):
            M[:] = np.roll(M, 1, 1) * 2 * np.roll(M, 1, 0)
        return M

    def scaled(A, v):
        for _ in range(20):
            v[:] = A * v.max()
        return v

    with np.errstate(over="warn"):
        agrees(rolled, rng.standard_normal((3, 4)) * 1e305, VECTOR)
        agrees(scaled, np.logspace(0, 18, 8), np.arange(1.0, 9.0))


def test_warnings_of_what_is_not_chosen():
    def program(A, B, out):
        for k in range(20):
            out[k] = np.where(B[k] == 0, 0, A[k] / B[k])
            out[k, 0] = np.sum(np.where(B[k] == 0, 0, A[k] / B[k]))
        return out

    agrees(program, np.ones((20, 24)), np.arange(480.0).reshape(20, 24) % 3, np.zeros((20, 24)))


def test_errors_come_where_numpy_has_them():
    def out_of_bounds(A, P):
        out = np.zeros(30)
        for k in range(30):
            out[k] = A[P[k : k + 2]].max()
        return out

    agrees(out_of_bounds, VECTOR, np.arange(40) % N)
    agrees(out_of_bounds, VECTOR, np.arange(40))

    def other_sizes(A, B, n):
        for k in range(n):
            A[k : k + 3] = B[k : k + 3] * 2
        return A

    agrees(other_sizes, np.zeros(20), np.ones(19), 18)

    def empty(A, n):
        for k in range(n):
            A[k] = A[k:].max()
        return A

    agrees(empty, np.zeros(20), 22)


def test_nothing_is_written_before_an_error():
    def program(A, B, P, out):
        for k in range(20):
            out[k] = A[k] / B[k]
            out[:, 0] = A[P[k : k + 20], 1] if k % 2 else A[k, P[k : k + 20] % 9][0]
        return out

    A, B, P = np.ones((20, 6)), np.ones((20, 6)), np.arange(40) % 20
    P[30] = 77
    agrees(program, A, B, P, np.zeros((20, 6)), loops=0)

    def gathered(A, P, out):
        for k in range(20):
            out[k : k + 3] = A[P[k : k + 3]]
        return out

    agrees(gathered, VECTOR, P, np.zeros(30))

    def divided(A, B, out):
        for k in range(20):
            out[k] = A[k] / B[k]
        return out

    B[7, 3] = 0
    compiled = npc.compile(divided)
    for _ in range(2):
        ours, theirs = np.zeros((20, 6)), np.zeros((20, 6))
        for function, out in ((compiled, ours), (divided, theirs)):
            with warnings.catch_warnings(), pytest.raises(RuntimeWarning):
                warnings.simplefilter("error")
                function(A, B, out)
        np.testing.assert_array_equal(ours, theirs)
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            compiled(A, B, ours)
        assert ours[7, 3] == 0


def test_a_view_that_one_branch_makes_of_the_whole():
    def program(x):
        a = x * 1
        v = a[1:]
        for k in range(20):
            a[0] += v[0]
            v = a[1:] if k % 2 else a[:-1]
        return v.sum(), v, a

    nearly(program, VECTOR)


def test_read_only_memory_is_not_written():
    def program(A):
        for k in range(20):
            A[k : k + 2] = 0
        return A

    memory = VECTOR.copy()
    memory.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            npc.compile(program)(memory)


def test_an_interrupt_ends_a_long_loop():
    def program(A, n):
        for k in range(n):
            A[:] = A[::-1] * 0.5 + k % 3
        return A

    compiled, A = npc.compile(program), np.ones(3000)
    compiled(A, 100)
    ends_when_interrupted(lambda: compiled(A, 10**8))
    assert native_loops(compiled)


def test_numbers_are_cast_as_numpy_casts_them():
    def program(A, B, n):
        for k in range(n):
            A[k : k + 2] = B[k : k + 2]
            A[k : k + 2] += 1
            B[k:] += k
        return A, B

    for a in ("i4", "u1", "f4", "i8"):
        for b in ("f8", "f4", "i8", "i2"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arrays = (np.arange(N) * 5).astype(a), (np.arange(N) * 7.0).astype(b)
            agrees(program, *arrays, 20)


def test_random_programs():
    check_examples(draw_program, check, "cpu", 6)


def test_several_statements_about_large_arrays_are_left_to_graphs():
    def steps(x, count):
        for _ in range(count):
            y = np.sqrt(np.abs(x[::-1]))
            y[0] = y[1]
            x = x - 0.1 * y
        return x

    def step(x, count):
        for _ in range(count):
            x = x - 0.1 * np.sqrt(np.abs(x[::-1]))
        return x

    def columns(x, count):
        total = 0.0
        for k in range(count):
            total += (x[k:] * x[: x.size - k]).sum()
        return total

    compiled = agrees(steps, np.linspace(0.5, 1, 30), 20)
    graphs = len(compiled_function(compiled).graphs)
    for size in (5000, 40):
        x = np.linspace(0.5, 1, size)
        np.testing.assert_allclose(compiled(x, 20), steps(x, 20), rtol=1e-15)
    assert native_loops(compiled) == 1 and len(compiled_function(compiled).graphs) > graphs
    agrees(step, np.linspace(0.5, 1, 5000), 20)
    agrees(columns, np.arange(5000.0), 20)
