"""Which functions count as callers of fori_loop, while_loop and scan."""

import types

import npcompile as npc
from npcompile.loop_gradients import has_loops
from npcompile.tracer.control_calls import calls_loops, reached

MANY = 80


def helpers(count, last=""):
    """Functions each of which names all the others."""
    names = ", ".join(f"h{k}(x)" for k in range(count))
    text = "".join(f"def h{k}(x, go=False):\n    if go:\n        return {names}\n    return x + {k}\n" for k in range(count))
    scope = {"npc": npc, "control": types.SimpleNamespace(**vars(npc))}
    exec(text + last, scope)
    return scope


def test_each_function_is_looked_at_once():
    scope = helpers(MANY)
    assert len([*reached(scope["h0"])]) == MANY
    assert not calls_loops(scope["h0"])
    assert not has_loops(scope["h0"])


def test_loops_behind_other_functions():
    for call in (
        "npc.fori_loop(0, 3, lambda i, c: c + x, 0.0)",
        "[npc.scan(lambda c, v: (c, v), x, x)]",
        "(lambda: npc.while_loop)()",
    ):
        scope = helpers(3, f"def h2(x):\n    return {call}\n")
        assert calls_loops(scope["h0"])
        assert has_loops(scope["h0"])


def test_a_loop_under_another_name_and_in_a_cell():
    loop = npc.fori_loop

    def in_cell(x):
        return loop(0, 3, lambda i, c: c + x, 0.0)

    assert calls_loops(in_cell)
    assert calls_loops(eval("lambda x: repeated(0, 3, x, 0.0)", {"repeated": loop}))


def test_other_things_of_these_names():
    class Reader:
        def scan(self, text):
            return text

    reader = Reader()

    def reads(text):
        return reader.scan(text)

    assert not calls_loops(reads)
    assert not calls_loops(eval("lambda x: scan(x)", {"scan": len}))
    assert not calls_loops(eval("lambda x: types.scan(x)", {"types": types}))
