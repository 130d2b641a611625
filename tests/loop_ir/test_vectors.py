"""Blocks of iterations and vectors: which loops become these, what is said of others; answers stay exact to the last write."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir import vectorize as vectorize_module
from npcompile.tensor_core.loop_ir.forms import all_regions, walk
from npcompile.tensor_core.loop_ir.ops import (
    Check,
    Disjoint,
    For,
    Guard,
    If,
    Let,
    LoopKind,
    Op,
    Poll,
    Program,
    Scratch,
    Speculate,
)
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.pipeline import Ran, run_passes
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.report import WORDS
from npcompile.tensor_core.loop_ir.types import Kind, Scalar
from npcompile.tensor_core.loop_ir.verifier import Invalid, Rule, verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import checks_in, compiled, happened, interpreted
from tests.loop_ir.programs import LARGE, numbers, with_


def scaled(x, out, p):
    for i in range(x.size):
        out[i] = x[i] * p + 1.0


def in_place(x, p):
    for i in range(x.size):
        x[i] = x[i] * p


def shifted(x, out):
    for i in range(1, x.size - 1):
        out[i] = np.sqrt(abs(x[i - 1])) - x[i + 1] / x[i]


def columns(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def row_above(a):
    for i in range(1, a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = a[i - 1, j] * 0.5 + a[i, j]


def prefix(x):
    for i in range(1, x.size):
        x[i] = x[i - 1] + x[i]


def distances(x, y, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            s = 0.0
            for k in range(x.shape[1]):
                s += (x[i, k] - y[j, k]) * (x[i, k] - y[j, k])
            out[i, j] = np.sqrt(s)


def greatest_of_rows(x, out):
    for i in range(out.size):
        best = x[i, 0]
        for j in range(x.shape[1]):
            if x[i, j] > best:
                best = x[i, j]
        out[i] = best


def sums_between(x, low, high, out):
    for i in range(out.size):
        s = 0.0
        for j in range(x.shape[1]):
            if (x[i, j] >= low) & (x[i, j] < high) & (x[i, j] != 0.25):
                s += x[i, j]
        out[i] = s


def diagonals(x, out):
    for i in range(out.size):
        s = 1.0
        for j in range(x.shape[1] - out.size):
            s = s * 0.5 + x[out.size - i, i + j]
        out[i] = s


def down_columns(a, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[j, i] * 2.0


def histogram(x, k, out):
    for i in range(x.size):
        out[k[i]] = out[k[i]] + x[i]


def positions(x):
    for i in range(x.size):
        x[i] = np.sqrt(i * 2.0)


def eliminate(a):
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
            for j in range(k + 1, n):
                a[i, j] = a[i, j] - a[i, k] * a[k, j]


def raised_to(x, least):
    for i in range(x.size):
        if x[i] * 2.0 < least:
            x[i] = x[i] / least


def total(x, w):
    s = 0.0
    for i in range(x.size):
        s += x[i] * w[i]
    return s


def backwards(x):
    for i in range(x.size - 1):
        x[i] = x[i + 1] * 0.5


def optimized(function: FunctionType, arguments: tuple[Any, ...], without: str = "") -> tuple[Program, dict[str, Ran]]:
    program = trace(function, arguments).program
    ran = run_passes(program, lambda _: verify(program), without)
    assert parse_program(print_program(program)) == program
    return program, {each.name: each for each in ran}


def agrees(
    function: FunctionType, program: Program, make: Callable[[], tuple[Any, ...]], in_c: bool = True, most: int = 20
) -> None:
    """Also with errors raised, where Python must find no store that it has not come to; and left at some Checks and Polls."""
    loop = compile_program(program) if in_c else None
    for k, mode in enumerate(("warn", "raise", "ignore")):
        with np.errstate(all=mode):
            wanted = happened(function, make())
            count = checks_in(program, make())
            for leave_at in (-1, *range(0, count, 1 + count // 20)[k::3]):  # each in one of the modes
                for call in (interpreted(function, program, leave_at), loop and compiled(function, loop, leave_at)):
                    if call is not None:
                        got = happened(call, make())
                        assert got.same(wanted), (mode, leave_at, got, wanted)


VECTORS = [
    (scaled, [lambda n=n: (numbers(n), np.zeros(n), 0.5) for n in (0, 1, 7, 8, 9, 24, 530, 1100)]),
    (scaled, [lambda: (with_(numbers(700), 600, LARGE), np.zeros(700), 10.0)]),
    (scaled, [lambda: (with_(numbers(20), 11, np.inf), np.zeros(15), 0.0)]),
    (in_place, [lambda n=n: (numbers(n), 0.5) for n in (7, 21, 600)]),
    (in_place, [lambda: (with_(numbers(600), 555, LARGE), 2.0)]),
    (shifted, [lambda n=n: (numbers(n), np.zeros(n)) for n in (1, 2, 10, 11, 40)]),
    (shifted, [lambda: (with_(numbers(40), 17, 0.0), np.zeros(40))]),
    (columns, [lambda n=n: (numbers(2, 3), numbers(3, n), np.zeros((2, n))) for n in (1, 8, 70, 93)]),
    (columns, [lambda: (with_(numbers(3, 4), (1, 2), LARGE), 10 * numbers(4, 20), np.zeros((3, 20)))]),
    (eliminate, [lambda n=n: (numbers(n, n) + n * np.eye(n),) for n in (1, 5, 13)]),
    (eliminate, [lambda: (with_(numbers(12, 12), (5, 5), np.inf),)]),
    (row_above, [lambda n=n: (numbers(4, n),) for n in (1, 9, 40)]),
    (distances, [lambda n=n: (numbers(2, 3), numbers(n, 3), np.zeros((2, n))) for n in (1, 8, 25)]),
    (distances, [lambda: (numbers(2, 3), numbers(40, 3)[::-2], np.zeros((2, 20)))]),
    (distances, [lambda: (numbers(2, 3), with_(numbers(20, 3), (11, 1), LARGE), np.zeros((2, 20)))]),
    (greatest_of_rows, [lambda n=n: (numbers(n, 5), np.zeros(n)) for n in (7, 8, 40)]),
    (greatest_of_rows, [lambda: (with_(numbers(20, 5), (11, 2), np.nan), np.zeros(20)), lambda: (numbers(9, 5), np.zeros(20))]),
    (greatest_of_rows, [lambda: (numbers(20, 5).astype(np.float32), np.zeros(20, np.float32))]),
    (sums_between, [lambda n=n: (with_(numbers(n, 6), (0, 3), 0.25), -0.5, 0.5, np.zeros(n)) for n in (1, 9, 40)]),
    (sums_between, [lambda: (with_(-abs(numbers(20, 6)), (11, 2), -LARGE), -np.inf, 0.0, np.zeros(20))]),
    (diagonals, [lambda n=n: (numbers(50, 50), np.zeros(n)) for n in (3, 8, 21)]),
]


@pytest.mark.parametrize(("function", "makes"), VECTORS, ids=[f"{k}-{f.__name__}" for k, (f, _) in enumerate(VECTORS)])
def test_vectors_are_exact(function: FunctionType, makes: list[Callable[[], tuple[Any, ...]]]) -> None:
    program, ran = optimized(function, makes[0]())
    assert ran["vectorize"].fired and ran["speculate"].fired
    assert any(isinstance(op, For) and op.kind is LoopKind.SIMD for op in walk(program.body))
    for make in makes:
        agrees(function, program, make)


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (prefix, (numbers(20),), "iterations that need what others computed"),
        (backwards, (numbers(20),), "iterations that need what others store"),
        (raised_to, (numbers(20), 2.0), "less of vectors"),
        (total, (numbers(20), numbers(20)), "iterations that need what others computed"),
        (down_columns, (numbers(9, 9).T, np.zeros((9, 9)).T), "elements that are not side by side in memory"),
        (positions, (np.zeros(9),), "the loop's index as a number"),
        (histogram, (numbers(9), np.arange(9), np.zeros(9)), "it has a step after which Python may have to go on"),
    ],
)
def test_a_pass_says_why_not(function: FunctionType, arguments: tuple[Any, ...], reason: str) -> None:
    program, ran = optimized(function, arguments)
    said = {each.reason for each in ran["vectorize"].said}
    assert reason in said, said
    assert all(each.at.line for each in ran["vectorize"].said)
    agrees(function, program, lambda: copy.deepcopy(arguments))


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (raised_to, lambda: (with_(numbers(1100), 700, LARGE), 2.0)),
        (raised_to, lambda: (with_(numbers(1100), 700, np.nan), 2.0)),
        (total, lambda: (with_(numbers(1100), 700, LARGE), 10 * numbers(1100))),
        (total, lambda: (numbers(0), numbers(0))),
        (total, lambda: (numbers(513), numbers(512))),
    ],
)
def test_blocks_without_vectors_are_exact(function: FunctionType, make: Callable[[], tuple[Any, ...]]) -> None:
    """Where a store is in a branch, and where there is none."""
    program, ran = optimized(function, make())
    assert ran["speculate"].fired
    agrees(function, program, make)


@pytest.mark.parametrize(("without", "looks"), [("", 3), ("signals", 1100)])
def test_signals_are_looked_for_once_for_a_block(without: str, looks: int) -> None:
    def last(k, n):  # type: ignore[no-untyped-def]
        s = 0
        for i in range(n):
            s = k - s
        return s

    program, ran = optimized(last, (5, 1100), without)
    polls = [op for op in walk(program.body) if isinstance(op, Poll)]
    for region in all_regions(program.body):
        region[:] = [op for op in region if not isinstance(op, Check)]
    assert polls and checks_in(program, (5, 1100)) == looks
    assert ("signals" in ran) != bool(without)


def gathered(x, k, out):
    for i in range(k.size):
        out[i] = x[k[i]] * 2.0


def test_a_check_of_what_is_loaded_gives_a_block_up() -> None:
    x, k = numbers(9), np.arange(9).repeat(70) % 9 - 4
    program, ran = optimized(gathered, (x, k, np.zeros(k.size)))
    assert ran["speculate"].fired
    loop = compile_program(program)
    for places in (k, with_(k.copy(), 600, 9), with_(k.copy(), 3, -10)):
        for last in (numbers(k.size), numbers(620)):
            arguments = (with_(x.copy(), 5, LARGE) if places is k else x, places, last)
            for call in (interpreted(gathered, program), compiled(gathered, loop)):
                assert happened(call, arguments).same(happened(gathered, arguments))


def test_stores_at_indices_from_memory_are_not_undone() -> None:
    _, ran = optimized(histogram, (numbers(9), np.arange(9), np.zeros(9)))
    assert not ran["speculate"].fired and "a check of the index of a store" in {each.reason for each in ran["speculate"].said}


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 2, 25])
def test_arrays_that_share_memory(offset: int) -> None:
    """What an iteration stores is read by later ones where the arrays overlap, as in Python."""

    def run(call: Callable[..., Any]) -> np.ndarray:
        memory = numbers(60)
        call(memory[5:25], memory[5 + offset : 25 + offset], 0.5)
        return memory

    program, _ = optimized(scaled, (numbers(20), np.zeros(20), 0.5))
    wanted = run(scaled)
    assert np.array_equal(run(interpreted(scaled, program)), wanted)
    assert np.array_equal(run(compiled(scaled, compile_program(program))), wanted)


def test_what_an_inner_loop_hands_on_for_nobody_is_left_out() -> None:
    """Of a sum that nothing may have been added to, only what leaves in the middle asks whether it is Python's number."""
    program, _ = optimized(sums_between, (numbers(9, 5), 0.0, 1.0, np.zeros(9)))
    loops = [op for op in walk(program.body) if isinstance(op, For) and op.kind is LoopKind.SIMD]
    handed = {program.types[arg] for loop in loops for op in walk(loop.body) if isinstance(op, For) for arg in op.args}
    assert handed == {Scalar(Kind.F64, 8)}


def test_without_the_question_for_shared_memory_answers_differ() -> None:
    program, _ = optimized(scaled, (numbers(20), np.zeros(20), 0.5))
    asked = {op.result for op in walk(program.body) if isinstance(op, Disjoint)}
    for region in all_regions(program.body):
        for k, op in enumerate(region):
            if isinstance(op, If) and op.condition in asked:
                region[k : k + 1] = op.then[:-1]
    memory, same = numbers(60), numbers(60)
    interpreted(scaled, program)(memory[5:25], memory[6:26], 0.5)
    scaled(same[5:25], same[6:26], 0.5)
    assert not np.array_equal(memory, same)


def test_without_undo_writes_are_left_behind() -> None:
    program, _ = optimized(scaled, (numbers(20), np.zeros(20), 0.5))
    for op in walk(program.body):
        if isinstance(op, Speculate):
            op.undo[:] = op.undo[-1:]
    with pytest.raises(Invalid) as caught:
        verify(program)
    assert caught.value.rule is Rule.UNDO
    arguments = (with_(numbers(20), 11, LARGE), np.zeros(20), 10.0)
    with np.errstate(all="raise"):
        assert not happened(interpreted(scaled, program), arguments).same(happened(scaled, arguments))


@pytest.mark.parametrize("name", ["speculate", "vectorize"])
def test_without_a_pass_there_are_none_of_its_ops(name: str) -> None:
    program, _ = optimized(columns, (numbers(2, 3), numbers(3, 20), np.zeros((2, 20))), without=name)
    has_vectors = any(isinstance(kind, Scalar) and kind.lanes > 1 for kind in program.types)
    assert not has_vectors if name == "vectorize" else not any(isinstance(op, Scratch) for op in walk(program.body))
    agrees(columns, program, lambda: (numbers(2, 3), numbers(3, 20), np.zeros((2, 20))))


def test_a_column_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sabotage: without its last strips a loop leaves elements out."""
    monkeypatch.setattr(vectorize_module.Strips, "overlapping", lambda self, start: None)
    with pytest.raises(Invalid) as caught:  # also those that put back what was stored
        optimized(scaled, (numbers(20), np.zeros(20), 0.5))
    assert caught.value.rule is Rule.UNDO
    program = trace(scaled, (numbers(20), np.zeros(20), 0.5)).program
    run_passes(program)
    with pytest.raises(AssertionError):
        agrees(scaled, program, lambda: (numbers(20), np.zeros(20), 0.5), in_c=False)


def halvings(x, least, out):
    for i in range(x.size):
        r, n = x[i], 0
        while r > least:
            r = r * 0.5
            n += 1
        out[i] = r * n


@pytest.mark.parametrize("value", [1.0, LARGE, np.inf * 0])
def test_blocks_hold_loops_that_test_and_checks_that_are_of_no_index(value: float) -> None:
    """The count's check becomes a guard; where `r * n` overflows, in the second block, it is done again one by one."""

    def make() -> tuple[Any, ...]:
        return with_(numbers(600), 555, value), 0.5, np.zeros(600)

    program, ran = optimized(halvings, make())
    assert ran["speculate"].fired and any(isinstance(op, Guard) for op in walk(program.body))
    agrees(halvings, program, make)


def test_a_block_whose_guard_gives_up_is_undone() -> None:
    program, _ = optimized(halvings, (numbers(20), 0.5, np.zeros(20)), without="parallelize")
    guards = {op.condition for op in walk(program.body) if isinstance(op, Guard)}
    for op in walk(program.body):
        if isinstance(op, Let) and op.result in guards:
            op.op, op.args = "less", [op.args[0], op.args[0]]  # never true
    program = parse_program(print_program(program))
    for make in (lambda: (numbers(20), 0.5, np.ones(20)), lambda: (numbers(0), 0.5, np.ones(0))):
        wanted = happened(halvings, make())
        assert happened(interpreted(halvings, program), make()).same(wanted)
        assert happened(compiled(halvings, compile_program(program)), make()).same(wanted)


def test_floats_are_computed_in_vectors() -> None:
    def product(a, b, out):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                s = np.float32(0)
                for k in range(a.shape[1]):
                    s += a[i, k] * b[k, j]
                out[i, j] = s

    generator = np.random.default_rng(0)
    a, b = (generator.random(shape).astype(np.float32) for shape in ((5, 7), (7, 41)))
    arguments = a, b, np.zeros((5, 41), np.float32)
    program = trace(product, arguments).program
    run_passes(program)
    assert Scalar(Kind.F32, 8) in program.types
    expected = happened(product, arguments)
    assert happened(interpreted(product, program), arguments).same(expected)
    assert happened(compiled(product, compile_program(program)), arguments).same(expected)


def test_every_op_has_words_for_reports() -> None:
    assert set(WORDS) == set(Op.__subclasses__())
