"""Each rule of the IR, broken once: the verifier names it."""

from __future__ import annotations

import pytest

from npcompile.tensor_core.loop_ir.parser import ParseError, parse_program
from npcompile.tensor_core.loop_ir.verifier import Invalid, Rule, Stage, stage_of, verify

STRUCTURED = """def f(x_0: f64[1, writeable] = 0, n_1: int = 1, w_2: f64[2] = 2):  # f.py
    v3: int = constant(0)
    s_4: f64 = constant(0.0)
    s_5: f64
    for v6 in serial(v3, n_1, s_7=s_4):  # 3
        frame_state(0, 8, [range_iterator(v3, 1, n_1, v6)], {0: x_0, 1: n_1, 3: s_7})  # 3
        poll(0)  # 3
        n_8: int = size(x_0, 0)  # 4
        v9: bool = is_index(v6, n_8)  # 4
        check(v9, 0)  # 4
        v10: f64 = load(x_0, [v6])  # 4
        s_11: f64 = add(s_7, v10)  # 4
        fp_check(0, 15)  # 4
        store(x_0, [v6], s_11)  # 5
        v12: bool = less(v6, n_8)  # 6
        v13: f64
        with scope(0):  # 6
            if v12:  # 6
                leave(0, [s_11])  # 6
            else:
                with loop(1, v14=s_11):  # 6
                    leave(0, [v14])  # 6
        yield [v13]  # 3
    return s_5  # 7
"""
PARALLEL = """def f(x_0: f64[1, contiguous, writeable] = 0, n_1: int = 1):  # f.py
    v2: int = constant(0)  # 3
    v3: f64 = constant(0.0)  # 3
    for v4 in parallel(v2, n_1):  # 3
        v5: bool = less(v2, n_1)  # 3
        store(x_0, [v4], v3)  # 3
        yield []  # 3
    return None  # 4
"""
BLOCKS = """def f(n_0: int = 0):  # f.py
    with cfg():
        with block(0):
            frame_state(0, 0, [], {0: n_0})  # 2
            v1: int = constant(0)  # 2
            jump(1, [v1])  # 2
        with block(1, k_2=int):
            v3: bool = less(k_2, n_0)  # 3
            branch(v3, 2, [], 3, [k_2])  # 3
        with block(2):
            v4: int = constant(1)  # 4
            v5: int = add(k_2, v4)  # 4
            jump(1, [v5])  # 4
        with block(3, k_6=int):
            return k_6  # 5
"""
SPECULATING = """def f(x_0: f64[1, contiguous, writeable] = 0, n_1: int = 1):  # f.py
    old_2: f64[1, contiguous, writeable, owned] = scratch(512)
    v3: int = constant(0)
    frame_state(0, 8, [], {0: x_0, 1: n_1})  # 3
    v4: f64 = load(x_0, [v3])  # 3
    store(old_2, [v3], v4)  # 3
    with speculate(15):  # 3
        with body():
            poll(0)  # 3
            v5: f64 = load(x_0, [v3])  # 3
            v6: f64 = add(v5, v5)  # 3
            store(x_0, [v3], v6)  # 3
            yield []
        with undo():
            v7: f64 = load(old_2, [v3])  # 3
            store(x_0, [v3], v7)  # 3
            yield []
        with slow():
            yield []
    return None  # 4
"""
SABOTAGE = [
    (Rule.DEFINED_ONCE, STRUCTURED, "n_8: int = size(x_0, 0)  # 4", "n_8: int = size(x_0, 0)\n        n_8: int = size(x_0, 0)"),
    (Rule.VISIBLE, STRUCTURED, "return s_5", "return s_11"),  # of the loop's body
    (Rule.VISIBLE, STRUCTURED, "store(x_0, [v6], s_11)", "store(x_0, [v6], v13)"),  # before its definition
    (Rule.VISIBLE, BLOCKS, "return k_6", "return v5"),  # of a block that does not dominate
    (Rule.KNOWN_STATE, STRUCTURED, "poll(0)", "poll(1)"),
    (Rule.STAGE, STRUCTURED, "yield [v13]", "jump(0, [])"),
    (Rule.STAGE, BLOCKS, "jump(1, [v5])", "yield [v5]"),
    (Rule.ENDS, STRUCTURED, "        yield [v13]  # 3\n", ""),
    (Rule.ENDS, STRUCTURED, "yield [v13]  # 3", "yield [v13]\n        poll(0)"),
    (Rule.ENDS, BLOCKS, "            jump(1, [v5])  # 4\n", ""),
    (Rule.TARGET, STRUCTURED, "leave(0, [v14])", "leave(7, [v14])"),
    (Rule.TARGET, STRUCTURED, "leave(0, [v14])", "again(7, [v14])"),
    (Rule.TARGET, BLOCKS, "jump(1, [v5])", "jump(9, [v5])"),
    (Rule.TARGET, BLOCKS, "branch(v3, 2, [], 3, [k_2])", "branch(v3, 2, [], 2, [])"),  # a block is not reached
    (Rule.ARGUMENTS, STRUCTURED, "yield [v13]", "yield [v6]"),
    (Rule.ARGUMENTS, STRUCTURED, "leave(0, [v14])", "leave(0, [])"),
    (Rule.ARGUMENTS, BLOCKS, "jump(1, [v5])", "jump(1, [v3])"),
    (Rule.TYPES, STRUCTURED, "s_11: f64 = add(s_7, v10)", "s_11: f64 = add(s_7, x_0)"),
    (Rule.TYPES, STRUCTURED, "v10: f64 = load", "v10: i64 = load"),
    (Rule.TYPES, STRUCTURED, "s_4: f64 = constant(0.0)", "s_4: f64 = constant(0)"),
    (Rule.INDEX, STRUCTURED, "load(x_0, [v6])", "load(x_0, [v6, v6])"),
    (Rule.INDEX, STRUCTURED, "size(x_0, 0)", "size(x_0, 1)"),
    (Rule.WRITEABLE, STRUCTURED, "store(x_0, [v6], s_11)", "store(w_2, [v6, v6], s_11)"),
    (Rule.CONDITION, STRUCTURED, "check(v9, 0)", "check(n_8, 0)"),
    (Rule.EFFECT, STRUCTURED, "store(x_0, [v6], s_11)  # 5", "store(x_0, [v6], s_11)\n        check(v9, 0)"),
    (Rule.EFFECT, STRUCTURED, "store(x_0, [v6], s_11)  # 5", "store(x_0, [v6], s_11)\n        poll(0)"),
    (Rule.FLAGS, STRUCTURED, "        fp_check(0, 15)  # 4\n", ""),
    (Rule.UNDO, SPECULATING, "store(x_0, [v3], v7)", "store(old_2, [v3], v7)"),
    (Rule.UNDO, SPECULATING, "v6: f64 = add(v5, v5)  # 3", "v6: f64 = add(v5, v5)  # 3\n            fp_check(0, 15)  # 3"),
    (Rule.UNDO, SPECULATING, "store(x_0, [v3], v7)  # 3", "store(x_0, [v3], v7)  # 3\n            v8: f64 = add(v7, v7)"),
    (Rule.EFFECT, SPECULATING, "    with speculate(15)", "    store(x_0, [v3], v4)\n    with speculate(15)"),
    (Rule.FLAGS, SPECULATING, "    with speculate(15)", "    v8: f64 = add(v4, v4)\n    with speculate(15)"),
    (Rule.PARALLEL, PARALLEL, "yield []", "frame_state(0, 8, [], {0: x_0})\n        yield []"),
    (Rule.TARGET, PARALLEL, "yield []", "guard(v5)\n        yield []"),
    (Rule.FLAGS, STRUCTURED, "return s_5", "v15: f64 = add(s_5, s_5)\n    return v15"),
]


def test_the_programs_are_valid() -> None:
    for text, stage in (
        (STRUCTURED, Stage.STRUCTURED),
        (SPECULATING, Stage.STRUCTURED),
        (PARALLEL, Stage.STRUCTURED),
        (BLOCKS, Stage.CFG),
    ):
        program = parse_program(text)
        verify(program)
        assert stage_of(program) is stage


@pytest.mark.parametrize(("rule", "text", "old", "new"), SABOTAGE, ids=[f"{k}-{case[0].name}" for k, case in enumerate(SABOTAGE)])
def test_sabotage_is_named(rule: Rule, text: str, old: str, new: str) -> None:
    assert text.count(old) == 1
    with pytest.raises(Invalid) as caught:
        verify(parse_program(text.replace(old, new)))
    assert caught.value.rule is rule, caught.value


def test_every_rule_is_broken() -> None:
    assert {case[0] for case in SABOTAGE} == set(Rule)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("load(x_0, [v6])", "load(x_0, v6)", "line 11: list"),
        ("check(v9, 0)", "check(v9, zero)", "line 10: an integer is expected, not zero"),
        ("poll(0)", "poll()", "line 7: 1 arguments, not 0"),
        ("poll(0)", "lambda: 0", "line 7: an op is expected"),
        ("f64[1, writeable]", "f64(1)", "a type is expected"),
        ("n_8: int", "n8: int", "n8 is not a value"),
        ("v3: int = constant(0)", "v30: int = constant(0)", "values without a definition"),
        ("def f(", "def f((", "not one printed function"),
    ],
)
def test_wrong_text_says_where(old: str, new: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("(", r"\(")):
        parse_program(STRUCTURED.replace(old, new))
