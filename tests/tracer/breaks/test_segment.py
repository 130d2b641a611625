"""User functions left and entered again at every instruction do what they do when they are called."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import sys
import traceback
import types
import weakref
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

import pytest

from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.layout import UNBOUND
from npcompile.tracer.bytecode.segment import Segment, assemble, make_segment
from tests.tracer import sample_functions
from tests.tracer.sample_functions import CALLS, LOG, Box, big_function

IDS = [f"{function.__name__}-{number}" for number, (function, _, _) in enumerate(CALLS)]
MANY, FEW = 400, 20  # of a function with many instructions, a few are tried
HOP_LIMIT = 100_000


@functools.cache
def possible_exits(
    code: types.CodeType, entry: int, null_slots: tuple[int, ...] = (), *, protected: bool = False
) -> frozenset[int]:
    """The instructions at which a segment that enters at `entry` can be left.

    Those in exception regions count only if `protected`: the region is then left without running its handler.
    """
    facts = analyse(code)
    return frozenset(
        index
        for index, known in enumerate(facts.nulls(entry, null_slots))
        if known is not None and facts.enterable[index] and (protected or not facts.protected[index])
    )


def run(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """What a call does: value or exception, where it was raised, effects on arguments, on cells and elsewhere."""
    arguments, keywords = copy.deepcopy((arguments, keywords))
    closure = [cell.cell_contents for cell in inner_closure(function)]
    saved = copy.deepcopy(closure)
    LOG.clear()
    try:
        result: tuple[Any, ...] = ("returned", function(*arguments, **keywords))
    except Exception as error:
        result = ("raised", *described(error))
    effects = copy.deepcopy(closure), [cell.cell_contents for cell in inner_closure(function)]
    for cell, value in zip(inner_closure(function), saved, strict=True):
        cell.cell_contents = value
    return *result, arguments if "self" not in inspect.signature(function).parameters else (), keywords, effects, list(LOG)


def inner_closure(function: Callable[..., Any]) -> tuple[types.CellType, ...]:
    names = getattr(function, "free", function.__code__.co_freevars if isinstance(function, types.FunctionType) else ())
    return tuple(c for n, c in zip(names, function.__closure__ or (), strict=True) if n != "__class__")


def described(error: BaseException | None) -> tuple[Any, ...]:
    if error is None:
        return ()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == sample_functions.__file__]
    places = [(f.name, f.lineno, f.end_lineno, f.colno, f.end_colno) for f in frames]
    return type(error), str(error), places, described(error.__context__), type(error.__cause__)


class Stepped:
    """The function cut at some of its instructions, behind the same signature."""

    def __init__(self, function: Callable[..., Any], cuts: Iterable[int]):
        self.function = function
        self.code, self.__closure__, self.free = function.__code__, function.__closure__, function.__code__.co_freevars
        self.__signature__ = inspect.signature(function)
        self.cuts = frozenset(cuts)
        self.facts = analyse(self.code)
        self.segments: dict[tuple[int, tuple[int, ...]], Segment] = {}
        self.hops = 0

    def segment(self, index: int, null_slots: tuple[int, ...], names: tuple[str, ...], kept: tuple[str, ...] = ()) -> Segment:
        known = self.segments.get((index, null_slots))
        if known is None:
            exits = {cut: ("exit", cut) for cut in self.cuts & possible_exits(self.code, index, null_slots, protected=True)}
            known = assemble(self.code, index, null_slots, names, exits, protected=True, kept_names=kept)
            self.segments[index, null_slots] = known
        return known

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        bound = self.__signature__.bind(*arguments, **keywords)
        bound.apply_defaults()
        values = bound.arguments
        cells = tuple(types.CellType(values[n]) if n in values else types.CellType() for n in self.code.co_cellvars)
        cells += self.__closure__ or ()
        names = tuple(n for n in self.code.co_varnames if n in values and n not in self.code.co_cellvars)
        state = tuple(values[n] for n in names)
        segment = self.segment(self.facts.start, (), names)
        for self.hops in range(HOP_LIMIT):
            exit, state = segment.bind(self.function, cells)(*state)
            if exit is None:
                return state
            layout = segment.layouts[exit[1]]
            assert len(state) == layout.depth - len(layout.null_slots) + len(layout.local_names) + bool(layout.kept_names)
            segment = self.segment(layout.index, layout.null_slots, layout.local_names, layout.kept_names)
        raise AssertionError("no end")


def cut_indices(function: Callable[..., Any]) -> list[int]:
    found = sorted(possible_exits(function.__code__, analyse(function.__code__).start, protected=True))
    return found if len(found) < MANY else found[:: len(found) // FEW]


@pytest.mark.parametrize("function, arguments, keywords", CALLS, ids=IDS)
def test_cut_at_every_instruction(function, arguments, keywords):
    expected = run(function, arguments, keywords)
    indices = cut_indices(function)
    assert len(indices) > 3
    half = len(indices) - len(indices) // 2
    for cuts in zip_longest(indices[:half], indices[half:], fillvalue=indices[-1]):  # far from each other
        stepped = Stepped(function, cuts)
        names = [stepped.facts.instructions[index].opname for index in cuts]
        assert run(stepped, arguments, keywords) == expected, f"cut at {cuts}, {names}"


@pytest.mark.parametrize("function, arguments, keywords", CALLS, ids=IDS)
def test_cut_at_all_instructions(function, arguments, keywords):
    stepped = Stepped(function, cut_indices(function))
    assert run(stepped, arguments, keywords) == run(function, arguments, keywords)
    assert stepped.hops >= 2


def index_of(function: Callable[..., Any], name: str, nth: int = 0) -> int:
    return [i.index for i in analyse(function.__code__).instructions if i.opname == name][nth]


def counting(n):
    total = 0
    for i in range(n):
        total += i
        half = total / 2
    return total, half


def test_exit_at_the_entry_means_arriving_there_again():
    header = index_of(counting, "FOR_ITER")
    names, kept = analyse(counting.__code__).locals_at(header)
    segment = make_segment(counting, header, (), names, {header: "again"}, kept_names=kept)
    state = iter(range(3)), *({"total": 5}.get(name, UNBOUND) for name in names), [UNBOUND] * len(kept)
    hops = 0
    point, state = segment(*state)
    while point is not None:
        assert point == "again" and len(state) == 2 + len(names) and kept == ("n", "i") and state[-1] == [UNBOUND, hops]
        hops += 1
        point, state = segment(*state)
    assert (hops, state) == (3, (8, 4.0))


def test_unbound_locals_are_unbound_inside_and_handed_over_as_such():
    header = index_of(counting, "FOR_ITER")
    names = analyse(counting.__code__).live_locals(header)
    assert "half" in names
    given = tuple({"total": 0}.get(name, UNBOUND) for name in names)
    with pytest.raises(UnboundLocalError, match="half"):
        make_segment(counting, header, (), names, {})(iter(()), *given)
    start = analyse(counting.__code__).start
    point, state = make_segment(counting, start, (), ("n",), {header: "header"})(3)
    assert point == "header" and state[1 + names.index("half")] is UNBOUND


def calls_method(box, n):
    return box.add(n, n)


def test_entry_between_method_and_call():
    """Whether the method was found bound is known where the segment is made, not before."""
    call = min(i.index for i in analyse(calls_method.__code__).instructions if i.opname == "CALL")
    facts = analyse(calls_method.__code__)
    assert facts.nulls(facts.start)[call] is None and call not in possible_exits(calls_method.__code__, facts.start)
    box = Box(1)
    bound = make_segment(calls_method, call, (), (), {})
    assert bound(Box.add, box, 2, 2) == (None, Box(5))
    null_slot = 1 if sys.version_info >= (3, 13) else 0
    unbound = make_segment(calls_method, call, (null_slot,), (), {})
    assert unbound(box.add, 1, 1) == (None, Box(7))


def handles(x):
    try:
        y = 1 / x
    except ZeroDivisionError:
        y = 0
        y += 1
    return y


def generator(x):
    yield x


def test_a_call_with_keywords_is_one_instruction():
    def keyword_call(f, x):
        return f(x, key=x)

    call = index_of(keyword_call, "CALL_KW")
    facts = analyse(keyword_call.__code__)
    assert facts.enterable[call] and facts.instructions[call].argval == ("key",)


def test_refusals():
    facts = analyse(handles.__code__)
    start, in_handler, in_try = facts.start, index_of(handles, "POP_EXCEPT"), index_of(handles, "BINARY_OP")
    with pytest.raises(ValueError, match="cannot be entered"):
        assemble(handles.__code__, in_handler, (), ("x",), {})
    with pytest.raises(ValueError, match="cannot be an exit"):
        assemble(handles.__code__, start, (), ("x",), {in_handler: "p"}, protected=True)
    with pytest.raises(ValueError, match="exception region"):
        assemble(handles.__code__, start, (), ("x",), {in_try: "p"})
    with pytest.raises(ValueError, match="needs x"):
        assemble(handles.__code__, start, (), (), {})
    with pytest.raises(ValueError, match="generator"):
        assemble(generator.__code__, analyse(generator.__code__).start, (), ("x",), {})
    with pytest.raises(ValueError, match="not the code of a function"):
        module = compile("x = 1", "module", "exec")
        assemble(module, analyse(module).start, (), (), {})
    with pytest.raises(ValueError, match="no NULLs at"):
        assemble(handles.__code__, start, (0,), ("x",), {})
    with pytest.raises(ValueError, match="run time only"):
        call = min(i.index for i in analyse(calls_method.__code__).instructions if i.opname == "CALL")
        assemble(calls_method.__code__, analyse(calls_method.__code__).start, (), ("box", "n"), {call: "p"})


def test_exit_in_region_leaves_it_without_running_its_handler():
    def guarded(log):
        try:
            log.append(1)
            log.append(2)
        finally:
            log.append("finally")
        return log

    code = guarded.__code__
    start = analyse(code).start
    second = index_of(guarded, "POP_TOP")
    segment = assemble(code, start, (), ("log",), {second: "second"}, protected=True)
    log: list[Any] = []
    point, state = segment.bind(guarded)(log)
    assert (point, state, log) == ("second", (None, log), [1])


def test_code_keeps_names_and_flags():
    code = big_function(2).__code__
    segment = assemble(code, analyse(code).start, (), ("n",), {})
    kept = ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_names")
    assert all(getattr(segment.code, name) == getattr(code, name) for name in kept)
    star = sample_functions.star_arguments.__code__
    flags = assemble(star, analyse(star).start, (), ("a", "b", "rest", "key", "other", "keywords"), {}).code.co_flags
    assert not flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) and flags & inspect.CO_OPTIMIZED


def test_jumps_longer_than_two_bytes():
    function = big_function(2400, variables=10)
    header = index_of(function, "FOR_ITER")
    stepped = Stepped(function, [header])
    assert stepped(3) == function(3) and stepped.hops == 4


def test_cycles_through_exits_are_collected():
    class Point:
        segment: Any = None

    point = Point()
    header = index_of(counting, "FOR_ITER")
    point.segment = make_segment(counting, analyse(counting.__code__).start, (), ("n",), {header: point})
    assert point.segment(3)[0] is point
    reference = weakref.ref(point)
    del point
    gc.collect()
    assert reference() is None


def test_equal_but_distinct_constants_stay_apart():
    def constants(n):
        return n, 0.0, -0.0, 1, True, 1.0, "a", b"a"

    first = index_of(constants, "BUILD_TUPLE")
    assert repr(Stepped(constants, [first])(2)) == repr(constants(2))


def test_stack_values_are_not_kept_alive():
    class Tracked:
        pass

    def drops(make, is_gone):
        make()
        return is_gone()

    tracked = Tracked()
    reference = weakref.ref(tracked)
    segment = make_segment(drops, index_of(drops, "POP_TOP"), (), ("is_gone",), {})
    held = [tracked]
    del tracked
    result = segment(held.pop(), lambda: reference() is None)  # not in the assertion, which keeps what it compares
    assert result == (None, True)
