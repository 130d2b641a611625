"""The same program is the same instructions on every version of CPython."""

from __future__ import annotations

import pytest

import npcompile as npc
from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.bytecode.decode import decode


def listed(function):
    """Instructions in a line each, without the NULLs of calls, of which versions have two orders."""
    found = []
    for i in decode(function.__code__).instructions:
        if i.opname in ("RESUME", "NOP", "PUSH_NULL", "COPY_FREE_VARS", "MAKE_CELL", "END_FOR"):
            continue
        shown = (
            getattr(i.argval, "co_name", i.argval)
            if i.argval is not None
            else "None"
            if i.opname == "LOAD_CONST"
            else i.arg or ""
        )
        found.append(f"{i.opname} {shown}".strip())
    return found


def arithmetic(x, y):
    x += y[0] * 2
    z = not x < y
    return z, +x, -x.shape


def calls(f, x):
    y = f(x, key=x)
    z = f.method(x, *y)
    print(f.method(z), y)
    return f"{x!r}{y:.3f}"


def calls_with_keywords(f, x):
    return f(*x, **x)


def loops(x):
    total = 0
    for i in range(9):
        total = total + i
    return total


def branches(x):
    if x < 0 and x is not None:
        x = 1
    return x


def enters(x):
    with x as y:
        z = y
    return z


def asserted():
    space = {}
    exec("def asserts(x):\n    assert x\n    return None", space)  # pytest would write another one
    return space["asserts"]


def makes(x, y):
    def inner(a, b=x):
        return a, y

    return inner


EXPECTED = {
    arithmetic: """
        LOAD_FAST x|LOAD_FAST y|LOAD_CONST 0|BINARY_SUBSCR|LOAD_CONST 2|BINARY_OP *|BINARY_OP +=|STORE_FAST x|LOAD_FAST x|
        LOAD_FAST y|COMPARE_OP <|UNARY_NOT|STORE_FAST z|LOAD_FAST z|LOAD_FAST x|UNARY_POSITIVE|LOAD_FAST x|LOAD_ATTR shape|
        UNARY_NEGATIVE|BUILD_TUPLE 3|RETURN_VALUE""",
    calls: """
        LOAD_FAST f|LOAD_FAST x|LOAD_FAST x|CALL_KW ('key',)|STORE_FAST y|LOAD_FAST f|LOAD_ATTR method|LOAD_FAST x|BUILD_LIST 1|
        LOAD_FAST y|LIST_EXTEND 1|LIST_TO_TUPLE|CALL_FUNCTION_EX|STORE_FAST z|LOAD_GLOBAL print|LOAD_FAST f|LOAD_METHOD method|
        LOAD_FAST z|CALL ()|LOAD_FAST y|CALL ()|POP_TOP|LOAD_FAST x|FORMAT_VALUE 2|LOAD_FAST y|LOAD_CONST .3f|FORMAT_VALUE 4|
        BUILD_STRING 2|RETURN_VALUE""",
    calls_with_keywords: """
        LOAD_FAST f|LOAD_FAST x|BUILD_MAP|LOAD_FAST x|DICT_MERGE 1|CALL_FUNCTION_EX 1|RETURN_VALUE""",
    loops: """
        LOAD_CONST 0|STORE_FAST total|LOAD_GLOBAL range|LOAD_CONST 9|CALL ()|GET_ITER|FOR_ITER|STORE_FAST i|LOAD_FAST total|
        LOAD_FAST i|BINARY_OP +|STORE_FAST total|JUMP_BACKWARD|LOAD_FAST total|RETURN_VALUE""",
    branches: """
        LOAD_FAST x|LOAD_CONST 0|COMPARE_OP <|POP_JUMP_IF_FALSE|LOAD_FAST x|POP_JUMP_IF_NONE|LOAD_CONST 1|STORE_FAST x|
        LOAD_FAST x|RETURN_VALUE""",
    enters: """
        LOAD_FAST x|BEFORE_WITH|STORE_FAST y|LOAD_FAST y|STORE_FAST z|LOAD_CONST None|LOAD_CONST None|LOAD_CONST None|CALL ()|
        POP_TOP""",
    asserted(): """
        LOAD_FAST x|POP_JUMP_IF_TRUE|LOAD_CONST <class 'AssertionError'>|RAISE_VARARGS 1|LOAD_CONST None|RETURN_VALUE""",
    makes: """
        LOAD_FAST x|BUILD_TUPLE 1|LOAD_FAST y|BUILD_TUPLE 1|LOAD_CONST inner|MAKE_FUNCTION 9|
        STORE_FAST inner|LOAD_FAST inner|RETURN_VALUE""",
}


@pytest.mark.parametrize("function", EXPECTED, ids=lambda f: f.__name__)
def test_instructions_are_the_same_everywhere(function):
    expected = [line.strip() for line in EXPECTED[function].split("|")]
    assert listed(function)[: len(expected)] == expected
    if function is not enters:  # the rest of which compilers put in one or the other order
        assert len(listed(function)) == len(expected)


def decides(x):
    return any(v > 0 for v in x), all(v > 0 for v in x), tuple(v for v in x)


def matches(x):
    match x:
        case True:
            return 1
        case None:
            return 2
    return 3


def test_calls_of_built_in_functions_are_calls_everywhere():
    facts = analyse(decides.__code__)
    reached = [i for i, depth in zip(facts.instructions, facts.depth) if depth is not None]
    names = [i.opname for i in reached if i.opname in ("LOAD_GLOBAL", "CALL", "FOR_ITER", "IS_OP", "POP_JUMP_IF_FALSE")]
    assert names == ["LOAD_GLOBAL", "CALL", "CALL"] * 3
    compiled = npc.compile(decides)
    assert compiled([1, -2]) == decides([1, -2]) == (True, False, (1, -2))


def test_a_pattern_is_still_asked_for_by_identity():
    assert [i.opname for i in decode(matches.__code__).instructions].count("IS_OP") >= 1
    compiled = npc.compile(matches)
    assert [compiled(x) for x in (True, None, 1)] == [1, 2, 3]
