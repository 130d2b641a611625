"""Sets come in the order of their tables, which the way they were made decides: it is the same compiled, also after a break."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function

MADE = (
    *("s = set(range(20)); s -= set(range(18)); s.add(40)", "s = set(range(20)) - set(range(18)) | {40}"),
    *("s = {40, 1} | set(range(30)); s -= set(range(2, 30))", "s = {1, 40}; s |= set(range(30)); s &= {1, 40}"),
    *("s = {0, 8}; s.add(16); s.discard(0)", "s = {0, 8, 16, 24, 32, 40}; s.pop()"),
    "s = set(k * 8 for k in range(7)); s -= {0, 8}",
    *("s = {k * 8 for k in range(9)}; s.clear(); s |= {8, 0, 16}", "s = frozenset(range(30)) - frozenset(range(2, 30)) | {33}"),
    *("s = d.keys() & {72, 64, 8, 0}", "s = d.keys() ^ e.keys()", "s = d.keys() | e", "s = e.keys() & d.keys()"),
    *("s = {64, 0, 8} ^ d.keys()", "s = d.keys() - [8]", "s = set(d)", "s = set(d.keys())"),
    *("s = g - {3, 5}", "s = g.symmetric_difference([1, 129, 64])", "s = g.intersection([128, 64, 1])", "s = g | {128}"),
    *("s = g; g.update({64: 1, 0: 2}, [8, 16])", "s = g; g.symmetric_difference_update([64, 72, 80, 8])", "s = g; g.add(64)"),
)
USED = (
    "return [*s], s, g",
    "stop(); s |= {200}; stop(); return s, g",
    "it = iter(s); stop(); return [*it], g",
    "out = []\n    for k in s:\n        stop(); out.append(k)\n    return out, s, g",
)


def arguments():
    grown = set(range(30))
    grown -= set(range(3, 29))
    return grown, {64: 1, 0: 1, 8: 1, 72: 1}, {8: 1, 128: 2, 64: 1}


@pytest.mark.parametrize("used", USED)
@pytest.mark.parametrize("made", MADE)
def test_the_order_is_that_of_the_same_history(made: str, used: str) -> None:
    scope = {"stop": npc.graph_break}
    exec(f"def f(g, d, e):\n    {made}\n    {used}\n", scope)
    compiled = npc.compile(scope["f"], backend="eager")
    expected = repr(scope["f"](*arguments()))
    for _ in range(2):
        assert repr(compiled(*arguments())) == expected


@pytest.mark.parametrize("use", ["s | {7}", "s ^ {7}", "s.union([7])", "set(s)", "frozenset(s)", "[*s]"])
def test_a_set_from_outside_that_was_changed_has_few_programs(use: str) -> None:
    """A guard asks for the order that the set comes in, not for that after its changes."""
    scope = {}
    exec(f"def f(s, x):\n    x = x * 2\n    s.add(3)\n    return {use}, x + 1\n", scope)
    compiled = npc.compile(scope["f"], backend="eager")
    for _ in range(3):
        ours, theirs = compiled({1, 2}, np.ones(3)), scope["f"]({1, 2}, np.ones(3))
        assert repr(ours) == repr(theirs)
    assert all(len(point.variants) == 1 for point in compiled_function(compiled).points.values())
