"""Random programs that change containers, go over them and break: what each iterator gives is what Python's gives."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import pytest

import npcompile as npc

CHANGES = (
    *(
        "l.append({n})",
        "l.pop()",
        "l.insert(0, {n})",
        "del l[0]",
        "l.clear()",
        "l[0] = {n}",
        "l.sort()",
        "l += [{n}]",
        "l.reverse()",
    ),
    *("m.append({n})", "m.pop()", "m.clear()", "m[0] = {n}", "m.extend(l)"),
    *(
        "d[{k}] = {n}",
        "d.pop({k}, 0)",
        "del d[{k}]",
        "d.clear()",
        "d.update({{{k}: {n}}})",
        "d.setdefault({k}, {n})",
        "d.popitem()",
    ),
    *("d |= {{{k}: 1}}", "e[{k}] = {n}", "e.pop({k}, 0)", "e.clear()", "e.update(d)", "s.add({n})", "s.discard({n})"),
    *("box.d = d", "box.e = e", "box.it = {it}"),
)
ITERATORS = (
    *("iter(l)", "reversed(l)", "iter(m)", "reversed(m)", "iter(d)", "iter(d.items())", "iter(d.values())", "reversed(d)"),
    *("iter(e)", "reversed(e.items())", "iter(e.values())", "enumerate(l)", "zip(l, m)", "zip(d, l)", "map(str, d.values())"),
    *("filter(None, l)", "(q for q in d)", "(q for q in l)", "zip({it}, m)", "enumerate({it})", "iter(s)"),
)
LOOPS = ("l[:]", "d", "m", "list(e)", "d.items()")


class Box:
    pass


def program(seed: int) -> str:
    """`l` and `d` come from outside, `m`, `e` and `s` are made in the program."""
    rng = random.Random(seed)
    lines = ["def f(l, d, box):", "    m, e, s, out = [7, 8, 9], {'a': 1, 'b': 2}, {1, 2}, []"]
    names: list[str] = []
    for _ in range(rng.randrange(4, 14)):
        kind, it = rng.random(), rng.choice(names or ["iter(())"])
        if kind < 0.25 or not names:
            names.append(f"i{len(names)}")
            lines.append(f"    {names[-1]} = {rng.choice(ITERATORS).format(it=it)}")
        elif kind < 0.45:
            lines.append(f"    out.append(next({it}, 'end'))")
        elif kind < 0.55:
            lines.append("    stop()")
        elif kind < 0.62:
            lines += [f"    for q in {rng.choice(LOOPS)}:", f"        {rng.choice(('out.append(q)', 'stop()'))}"]
        else:
            lines.append("    " + rng.choice(CHANGES).format(n=rng.randrange(5), k=repr(rng.choice("abcx")), it=it))
    lines.append("    stop()")
    lines.append(f"    return out, [[*map(repr, x)] for x in ({', '.join(names)},)], l, m, [*d.items()], [*e.items()]")
    return "\n".join(lines) + "\n"


def outcome(function: Callable[..., Any]) -> tuple[str, str]:
    numbers, table, box = [3, 1, 2], {"a": 1, "b": 2}, Box()
    try:
        result = repr(function(numbers, table, box))
    except Exception as error:
        result = repr(error)
    return result, repr((numbers, [*table.items()], [*vars(box)]))


@pytest.mark.parametrize("seed", range(150))
def test_iterators_give_what_pythons_give(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npc.config, "internal_errors", "raise")
    text, name = program(seed), f"<iterators {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {"stop": npc.graph_break}
    exec(compile(text, name, "exec"), scope)
    compiled = npc.compile(scope["f"], backend="eager")
    expected = outcome(scope["f"])
    for _ in range(2):
        assert outcome(compiled) == expected, text
