"""Loops on several threads: which become these, what is said of others; Python goes on as if there were one thread."""

from __future__ import annotations

import copy
import signal
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.backends.cpu.threads import thread_limit
from npcompile.tensor_core.loop_ir import parallelize as parallelize_module
from npcompile.tensor_core.loop_ir.forms import all_regions, walk
from npcompile.tensor_core.loop_ir.kept import Kept
from npcompile.tensor_core.loop_ir.ops import (
    Disjoint,
    For,
    FpCheck,
    FrameState,
    Guard,
    LoopKind,
    Program,
    Room,
    Speculate,
    Threads,
)
from npcompile.tensor_core.loop_ir.outcome import Exited
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.verifier import Invalid, Rule, verify
from tests.loop_ir.agreement import checks_in, compiled, happened, interpreted, same_bits
from tests.loop_ir.programs import LARGE, diffuse, numbers, product, roots, smoothing, triangular, with_
from tests.loop_ir.test_vectors import agrees, optimized

Make = Callable[[], tuple[Any, ...]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loop is worth it, and its blocks have a few iterations."""
    monkeypatch.setattr(parallelize_module, "WORTH", 0)
    monkeypatch.setattr(parallelize_module, "GRAIN", 40)
    monkeypatch.setattr(parallelize_module, "KEEPING", 0)


def scaled(x, out, p):
    for i in range(x.size):
        out[i] = x[i] * p + 1.0


def gathered(x, k, out):
    for i in range(k.size):
        out[i] = x[k[i]] * 2.0


def distances(p, out):
    for i in range(p.shape[0]):
        for j in range(p.shape[0]):
            s = 0.0
            for k in range(p.shape[1]):
                d = p[i, k] - p[j, k]
                s += d * d
            out[i, j] = np.sqrt(s)


def columns(a, out):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            out[i, j] = a[i, j] * 2.0


def both(x, one, other):
    for i in range(x.size - 1):
        one[i + 1] = x[i] * 2.0
        if x[i] > 1.0:
            other[i] = x[i] / 3.0


def counted(x, out):
    for i in range(x.size):
        n = 0
        r = x[i]
        while r > 0.1:
            r = r * 0.5
            n += 1
        out[i] = n


def prefix(x):
    for i in range(1, x.size):
        x[i] = x[i - 1] + x[i]


def rows_below(a):
    for i in range(1, a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = a[i - 1, j] * 0.5


def total(x):
    s = 0.0
    for i in range(x.size):
        s += x[i]
    return s


def scattered(x, k, out):
    for i in range(k.size):
        out[k[i]] = x[i]


def products_onto(a, x):
    for i in range(a.shape[0]):
        x[i] = a[i] @ x


def first_above(x, out):
    for i in range(x.size):
        if x[i] > 1.4:
            break
        out[i] = x[i]


def products(a, x, out):
    for i in range(a.shape[0]):
        out[i] = a[i] @ x


def whole(*shape: int) -> np.ndarray:
    """Numbers whose products are added up without an error, in any order."""
    return np.floor(10 * numbers(*shape))


def below_the_diagonal(a):
    """Rows of products of what stands left of where iterations store."""
    for j in range(a.shape[0]):
        for i in range(j + 1, a.shape[0]):
            a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / a[j, j]


PARALLEL: list[tuple[FunctionType, list[Make]]] = [
    (scaled, [lambda n=n: (numbers(n), np.zeros(n), 0.5) for n in (0, 1, 9, 30)]),
    (scaled, [lambda k=k: (with_(numbers(40), k, LARGE), np.zeros(40), 10.0) for k in (0, 17, 39)]),
    (scaled, [lambda: (numbers(20), np.zeros(15), 1.0)]),  # out[15] raises
    (gathered, [lambda: (numbers(9), np.array([3, -1, 0, 8, 2] * 6), np.zeros(30))]),
    (gathered, [lambda: (numbers(9), with_(np.arange(9), 5, 9), np.ones(9))]),  # x[9] raises
    (distances, [lambda n=n: (numbers(n, 3), np.zeros((n, n))) for n in (0, 1, 7)]),
    (distances, [lambda: (with_(numbers(7, 3), (4, 1), LARGE), np.zeros((7, 7)))]),
    (product, [lambda: (numbers(5, 4), numbers(4, 9), np.zeros((5, 9)))]),
    (product, [lambda: (with_(numbers(5, 4), (3, 1), LARGE), 10 * numbers(4, 9), np.ones((5, 9)))]),
    (columns, [lambda: (with_(numbers(4, 6), (2, 3), LARGE), np.ones((4, 6)))]),
    (both, [lambda: (with_(numbers(30), 21, 5e-324), np.zeros(30), np.ones(30))]),
    (counted, [lambda: (with_(numbers(12), 5, np.inf * 0), np.zeros(12))]),
    (roots, [lambda: (numbers(20), np.zeros(20)), lambda: (with_(numbers(20), 13, 0.0), np.ones(20))]),
    (diffuse, [lambda: (numbers(20), numbers(20, seed=1), 3)]),
    (
        products,
        [lambda: (whole(9, 4), whole(4), np.zeros(9)), lambda: (whole(9, 4), with_(whole(4), 2, 1e308), np.ones(9))],
    ),
    (below_the_diagonal, [lambda: (numbers(7, 7) + 7 * np.eye(7),)]),
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("function", "makes"), PARALLEL, ids=[f"{k}-{f.__name__}" for k, (f, _) in enumerate(PARALLEL)])
def test_parallel_loops_are_exact(function: FunctionType, makes: list[Make]) -> None:
    program, ran = optimized(function, makes[0]())
    assert ran["parallelize"].fired
    assert any(isinstance(op, For) and op.kind is LoopKind.PARALLEL for op in walk(program.body))
    for make in makes:
        agrees(function, program, make)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (prefix, (numbers(20),), "iterations that need what others computed"),
        (rows_below, (numbers(5, 9),), "iterations that need what others store"),
        (smoothing, (numbers(20), 0.3), "iterations that need what others computed"),
        (scattered, (numbers(9), np.arange(9), np.zeros(9)), "iterations that need what others store"),
        (first_above, (numbers(9), np.zeros(9)), "a way out of the loop"),
        (triangular, (np.tril(whole(9, 9), -1) + np.eye(9), whole(9), np.zeros(9)), "iterations that need what others store"),
        (products_onto, (whole(5, 5), whole(5)), "iterations that need what others store"),
    ],
)
def test_it_says_why_not(function: FunctionType, arguments: tuple[Any, ...], reason: str) -> None:
    program, ran = optimized(function, arguments)
    assert reason in {each.reason for each in ran["parallelize"].said}
    agrees(function, program, lambda: copy.deepcopy(arguments))


@pytest.mark.usefixtures("small")
def test_products_of_what_shares_memory_with_the_result() -> None:
    program, ran = optimized(products, (whole(9, 4), whole(4), np.zeros(9)))
    assert ran["parallelize"].fired

    def make() -> tuple[Any, ...]:
        memory = whole(12)
        return whole(9, 4), memory[2:6], memory[:9]

    agrees(products, program, make)


def test_the_inner_loop_of_rows_that_need_each_other_is_parallel() -> None:
    _, ran = optimized(rows_below, (numbers(5, 9),))
    assert ran["parallelize"].fired == 1


def test_small_loops_stay_on_one_thread() -> None:
    """The question for threads is asked where the loop is worth it."""
    program, ran = optimized(distances, (numbers(4, 3), np.zeros((4, 4))))
    assert ran["parallelize"].fired

    def asks(n: int) -> bool:
        found = parse_program(print_program(program))
        for region in all_regions(found.body):
            region[:] = [op for op in region if not isinstance(op, Threads)]  # its result is then not there
        try:
            checks_in(found, (numbers(n, 3), np.zeros((n, n))))
        except KeyError:
            return True
        return False

    assert not asks(40) and asks(160)


@pytest.mark.usefixtures("small")
def test_there_is_no_pass_no_parallel_loop() -> None:
    program, _ = optimized(scaled, (numbers(20), np.zeros(20), 0.5), without="parallelize")
    assert not any(isinstance(op, Room | Guard | Threads) for op in walk(program.body))
    assert not any(isinstance(op, For) and op.kind is LoopKind.PARALLEL for op in walk(program.body))
    agrees(scaled, program, lambda: (numbers(20), np.zeros(20), 0.5))


@pytest.mark.usefixtures("small")
def test_large_loops_on_threads_do_the_same_as_on_one() -> None:
    """With more iterations than blocks, of which one in the middle divides by zero: nothing behind it has been stored."""

    def divided(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = 1.0 / x[i]

    def make() -> tuple[Any, ...]:
        return with_(numbers(30_000), 20_000, 0.0), np.zeros(30_000)

    program, _ = optimized(divided, make())
    loop = compile_program(program)
    for mode in ("warn", "raise", "ignore"):
        with np.errstate(all=mode):
            for _ in range(5):
                assert happened(compiled(divided, loop), make()).same(happened(divided, make()))


@pytest.mark.usefixtures("small")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer on this system")
@pytest.mark.skipif(thread_limit() < 2, reason="one thread: the loop is left in an iteration, as Python leaves it")
def test_what_a_signals_handler_raises_leaves_no_store_behind() -> None:
    def waiting(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            s = 0.0
            for _ in range(60_000):
                s = s * 0.5 + x[i]
            out[i] = s

    def handler(*_: object) -> None:
        raise KeyError("signal")

    program, ran = optimized(waiting, (numbers(6000), np.zeros(6000)))
    assert ran["parallelize"].fired
    loop = compile_program(program)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        out = np.zeros(6000)
        ended = loop((numbers(6000), out))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert isinstance(ended.raised, KeyError) and isinstance(ended.outcome, Exited)
    assert not out.any()  # Python goes on before the loop


# --- sabotage


def parallel_of(program: Program) -> list[For]:
    return [op for op in walk(program.body) if isinstance(op, For) and op.kind is LoopKind.PARALLEL]


@pytest.mark.usefixtures("small")
def test_without_undo_the_verifier_fails() -> None:
    program, _ = optimized(scaled, (numbers(20), np.zeros(20), 0.5))
    for op in walk(program.body):
        if isinstance(op, Speculate) and parallel_of(Program("", "", body=op.body)):
            op.undo[:] = op.undo[-1:]
    with pytest.raises(Invalid) as caught:
        verify(program)
    assert caught.value.rule is Rule.UNDO
    arguments = (with_(numbers(20), 11, LARGE), np.zeros(20), 10.0)
    with np.errstate(all="raise"):
        assert not happened(interpreted(scaled, program), arguments).same(happened(scaled, arguments))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", [FrameState, FpCheck])
def test_a_parallel_loop_only_computes(kind: type) -> None:
    program, _ = optimized(scaled, (numbers(20), np.zeros(20), 0.5))
    state = next(op for op in walk(program.body) if isinstance(op, FrameState))
    for op in parallel_of(program):
        op.body.insert(0, FpCheck(state.name, 15) if kind is FpCheck else FrameState(program.new_state(), 0, [], []))
    with pytest.raises(Invalid) as caught:
        verify(program)
    assert caught.value.rule in (Rule.PARALLEL, Rule.UNDO)


@pytest.mark.usefixtures("small")
def test_a_guard_stands_in_what_can_be_undone() -> None:
    program, _ = optimized(gathered, (numbers(9), np.arange(9), np.zeros(9)))
    guard = next(op for op in walk(program.body) if isinstance(op, Guard))
    program.body.insert(len(program.params), Guard(guard.condition))
    with pytest.raises(Invalid):
        verify(program)


@pytest.mark.usefixtures("small")
def test_without_guards_an_index_is_outside() -> None:
    program, _ = optimized(gathered, (numbers(9), np.arange(9), np.zeros(9)))
    for region in all_regions(program.body):
        region[:] = [op for op in region if not isinstance(op, Guard)]
    with pytest.raises(IndexError):
        checks_in(program, (numbers(9), with_(np.arange(9), 5, 9), np.ones(9)))


@pytest.mark.usefixtures("small")
def test_iterations_that_see_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sabotage: the interpreter runs them in another order than Python."""
    monkeypatch.setattr(parallelize_module, "pairs_apart", lambda *_: [])
    program, ran = optimized(rows_below, (numbers(5, 9),))
    assert ran["parallelize"].fired
    assert not happened(interpreted(rows_below, program), (numbers(5, 9),)).same(happened(rows_below, (numbers(5, 9),)))


@pytest.mark.usefixtures("small")
def test_arrays_that_share_memory() -> None:
    program, _ = optimized(scaled, (numbers(20), np.zeros(20), 0.5))
    for offset in (-1, 0, 1, 25):
        memory, same = numbers(60), numbers(60)
        compiled(scaled, compile_program(program))(memory[5:25], memory[5 + offset : 25 + offset], 0.5)
        scaled(same[5:25], same[5 + offset : 25 + offset], 0.5)
        assert np.array_equal(memory, same)
    assert any(isinstance(op, Disjoint) for op in walk(program.body))


@pytest.mark.usefixtures("small")
def test_a_block_that_keeps_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sabotage: what is put back is then not what was there."""
    monkeypatch.setattr(Kept, "moved", lambda self, made, place, room, low, high, keeps: None)
    with pytest.raises(Invalid) as caught:
        optimized(scaled, (numbers(20), np.zeros(20), 0.5))
    assert caught.value.rule is Rule.UNDO


def test_a_number_from_around_a_loop_on_threads_is_rounded_in_it() -> None:
    """What such a loop is given is constant there, and is hidden from the compiler where it is rounded."""

    def added(x, out):  # type: ignore[no-untyped-def]
        for i in range(out.size):
            s = 0.0
            for k in range(x.shape[1]):
                s += x[i, k]
                s += x[i, k] * i
            out[i] += s

    for shape in ((40, 3), (300, 900)):
        x, mine, pythons = (numbers(*size).astype(np.float32) for size in (shape, shape[:1], shape[:1]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a compiler that refuses it
            npc.compile(added)(x, mine)
        added(x, pythons)
        assert same_bits(mine, pythons)
