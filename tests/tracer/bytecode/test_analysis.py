"""Facts about code objects, against dis and against functions whose facts are plain to see."""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.decode import decode, localsplus_names, raw_instructions, target_of
from tests.tracer import sample_functions
from tests.tracer.sample_functions import CALLS


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested_codes(constant)


def every_code() -> list[types.CodeType]:
    modules = (sample_functions, inspect, dis)
    found = [c for m in modules for c in nested_codes(compile(inspect.getsource(m), m.__file__ or "", "exec"))]
    return found + [function.__code__ for function, _, _ in CALLS]


def test_decoding_agrees_with_dis():
    for code in every_code():
        theirs = [i for i in dis.get_instructions(code) if i.opname not in ("EXTENDED_ARG", "CACHE")]
        ours = raw_instructions(code)
        assert [(r.name, r.arg, 2 * r.word) for r in ours] == [(i.opname, i.arg or 0, i.offset) for i in theirs]
        for raw, i in zip(ours, theirs, strict=True):
            if i.opcode in dis.hasjrel:
                assert 2 * target_of(raw) == i.argval
        places = {tuple(i.positions or ()) for i in theirs}
        assert all(i.positions in places for i in decode(code).instructions)


def test_names_of_variables_agree_with_dis():
    for code in every_code():
        names = localsplus_names(code)
        for i in dis.get_instructions(code):
            if i.opcode in {*dis.haslocal, *dis.hasfree} and isinstance(i.argval, str):
                assert i.arg is not None and names[i.arg] == i.argval


def test_stack_never_exceeds_what_the_compiler_reserves():
    for code in every_code():
        facts = analyse(code)
        assert max(depth for depth in facts.depth if depth is not None) <= code.co_stacksize + 1  # between the parts of one


def index_of(function: Callable[..., Any], name: str, nth: int = 0) -> int:
    return [i.index for i in analyse(function.__code__).instructions if i.opname == name][nth]


def sums(n, unused):
    total = 0
    for i in range(n):
        half = i / 2
        total += half
    return total, i


def test_liveness_and_assignment_at_a_loop_header():
    facts = analyse(sums.__code__)
    header = index_of(sums, "FOR_ITER")
    assert facts.loop_headers == {header}
    assert facts.live[header] == {"total", "i"}
    assert facts.bound[header] == {"n", "unused", "total"}
    assert facts.maybe_bound[header] == {"n", "unused", "total", "i", "half"}
    assert facts.live_locals(header) == ("total", "i")
    assert facts.kept_locals(header) == ("n", "unused", "half")
    assert facts.depth[header] == 1
    body, after = facts.successors[header]
    assert body == header + 1 and facts.depth[after] == 0 and facts.depth[body] == 2
    assert after == facts.instructions[header].target and after in facts.jump_targets


def test_handlers_keep_what_they_read_alive():
    def guarded(x, message):
        try:
            y = x()
            y = y + 1
        except ValueError:
            return message, y
        return y

    facts = analyse(guarded.__code__)
    addition = index_of(guarded, "BINARY_OP")
    assert facts.live[addition] == {"message", "y"}
    assert facts.protected[addition] and facts.enterable[addition]
    push, pop = index_of(guarded, "PUSH_EXC_INFO"), index_of(guarded, "POP_EXCEPT")
    assert not any(facts.enterable[push : pop + 1]) and all(facts.protected[push : pop + 1])
    returns = [i.index for i in facts.instructions if i.opname == "RETURN_VALUE"]
    assert any(facts.enterable[index] and not facts.protected[index] for index in returns)
    assert facts.bound[push] == {"x", "message"} and "y" in facts.maybe_bound[push]


def test_deleting_unbinds():
    def deletes(x):
        y = x
        del y
        return x

    facts = analyse(deletes.__code__)
    delete = index_of(deletes, "DELETE_FAST")
    assert "y" in facts.live[delete] and "y" in facts.bound[delete]
    assert "y" not in facts.maybe_bound[delete + 1] and "y" not in facts.live[delete + 1]


def test_cells_are_no_locals():
    def outer(a, b):
        def inner():
            return a

        return inner, b

    facts = analyse(outer.__code__)
    assert facts.cells == ("a",) and facts.free == ()
    assert facts.instructions[facts.start].opname == "RESUME"
    assert facts.bound[facts.start] == facts.live[facts.start] == {"b"}
    assert not any("a" in names for names in (*facts.live, *facts.maybe_bound))
    assert not any(facts.enterable[: facts.start]) and facts.enterable[facts.start]
    inner = next(c for c in outer.__code__.co_consts if isinstance(c, types.CodeType))
    assert analyse(inner).free == ("a",)


def test_nulls_of_a_global_call():
    def calls(x):
        return len(x)

    facts = analyse(calls.__code__)
    argument = max(i.index for i in facts.instructions if i.opname == "LOAD_FAST")
    null_slot = 1 if sys.version_info >= (3, 13) else 0
    assert facts.nulls(facts.start)[argument] == (null_slot,)
    assert facts.nulls(facts.start)[index_of(calls, "RETURN_VALUE")] == ()
    assert facts.nulls(argument, ())[argument + 1] == ()


def test_nulls_of_a_method_call_are_known_at_run_time():
    def calls(x):
        return x.method(x)

    facts = analyse(calls.__code__)
    argument = max(i.index for i in facts.instructions if i.opname == "LOAD_FAST")
    assert facts.nulls(facts.start)[argument] is None
    assert facts.nulls(facts.start)[index_of(calls, "RETURN_VALUE")] == ()
    assert facts.nulls(argument, (0,))[argument + 1] == (0,)


@pytest.mark.skipif("LOAD_FAST_AND_CLEAR" not in dis.opmap, reason="comprehensions are functions of their own")
def test_inlined_comprehension_saves_the_outer_variable():
    def saves(items, flag):
        kept = [items for items in items if items]
        if flag:
            maybe = 1
            flag = maybe
        lost = [maybe for maybe in kept if flag]
        return lost

    facts = analyse(saves.__code__)
    nulls = facts.nulls(facts.start)
    first, second = index_of(saves, "BUILD_LIST"), index_of(saves, "BUILD_LIST", 1)
    assert nulls[first] == ()
    assert nulls[second] is None
    assert "items" not in facts.maybe_bound[first] and "items" in facts.bound[second]


def test_facts_are_computed_once():
    assert analyse(sums.__code__) is analyse(sums.__code__)


def test_unreachable_code_has_no_facts():
    def stops():
        raise ValueError
        return 1

    facts = analyse(stops.__code__)
    for index, state in enumerate(facts.states):
        assert (state is None) == (facts.depth[index] is None)
        assert state is not None or not facts.enterable[index]


def test_names_are_made_of_the_instructions_that_are_asked_for():
    """Of many variables there are as many sets of names as statements."""
    lines = [f"    a{k} = x + {k}" for k in range(50)]
    space = {}
    exec("\n".join(["def many(x):", *lines, f"    return {', '.join(f'a{k}' for k in range(50))}"]), space)
    facts = analyse(space["many"].__code__)
    assert not facts.live.made
    stores = [i.index for i in facts.instructions if i.opname == "STORE_FAST"]
    assert facts.bound[stores[3]] == {"x", "a0", "a1", "a2"} == facts.live[stores[3]]
    assert len(facts.live.made) == 1
    assert [*facts.bound] == [facts.bound[k] for k in range(len(facts.instructions))]
