"""Random programs that read a part of what they compute, under drawn np.errstate: values and warnings beside NumPy's.

python -m tests.surface.unread [how many] [eager|cpu] [seed]
"""

from __future__ import annotations

import linecache
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import npcompile as npc

ARITHMETIC = """{a} / {b} ; 1 / {a} ; np.sqrt({a}) ; np.log({a}) ; {a} * 1e200 * {b} ; np.exp({a} * 400) ; {a}.astype("f") * 1e30
np.arcsin({a}) ; {a} % {b} ; {a} // {b} ; {a}.astype(int) ; {a} - {b} ; np.maximum({a}, {b}) ; np.where({b} > 0, {a}, {b})"""
PARTS = """{e} ; {e}[1:] ; {e}[::2] ; {e}[k:] ; {e}[:0] ; {e}[[0, 2]] ; {e}[y > 0] ; {e}[k]
{e}.take([1]) ; {e}[idx] ; {e}[None][:0] ; {e}[::-1][:2]
np.broadcast_to({e}, (0, len(x))) + 1 ; {e}.sum(where=y > 0) ; np.diff({e}) ; {e}[1:-1].sum() ; {e}.reshape(2, -1)[0]
np.concatenate([{e}[:0], x]) ; np.trace(np.diag({e})) ; np.delete({e}, 1) ; np.max({e}, initial=0, where=y > 0) ; {e} * 0"""
WRITES = """w[:2] = {e}[:2] ; w[:0] = {e}[0] ; w[y > 0] = {e}[y > 0] ; w[k:] = {e}[k:] ; w[:] = {e}; w[:] = 0
f[:0] = {e}[1] ; f[:] = {e}
w += {e}; w[1:] = 0 ; u = {e}; u[1:] = 0; w[0] = u[1] ; np.copyto(w, {e}, where=y > 0) ; np.add.at(w, idx, {e}[idx])
w[0] = {e}[0]"""
STATES: tuple[dict[str, Any], ...] = ({}, {}, {"all": "raise"}, {"divide": "ignore"}, {"under": "warn"})
SPECIAL = [0.0, -1.0, 1e200, np.inf, np.nan, 1e10, -0.0]


def options(text: str) -> list[str]:
    return [each.strip() for line in text.splitlines() for each in line.split(" ; ")]


def expression(draw: random.Random, depth: int) -> str:
    if not depth:
        return draw.choice("xyz")
    return (
        f"({draw.choice(options(ARITHMETIC)).format(a=expression(draw, depth - 1), b=expression(draw, draw.randrange(depth)))})"
    )


def program(draw: random.Random, name: str) -> Callable[..., Any]:
    lines = [draw.choice(options(WRITES)).format(e=expression(draw, draw.randint(1, 2))) for _ in range(draw.randint(0, 3))]
    result = draw.choice(options(PARTS)).format(e=expression(draw, draw.randint(1, 3)))
    text = "".join(f"    {line}\n" for line in ["", *lines, f"return {result}, w, f"]).replace("    \n", "", 1)
    source, names = f"def f(x, y, z, w, f, idx, k):\n{text}", {"np": np}
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), names)
    return names["f"]  # type: ignore[return-value]


def arguments(draw: random.Random) -> list[Any]:
    n = draw.choice([4, 6, 6, 8])
    data = np.array([[draw.choice([1.0, 2.0, 0.5, 3.0]) for _ in range(n)] for _ in range(3)])
    for row in data:
        row[draw.randrange(n)] = draw.choice(SPECIAL)
    return [*data, np.ones(n), np.ones(n, "f"), np.array([draw.randrange(n) for _ in range(3)]), draw.randrange(1, n)]


def outcome(function: Callable[..., Any], given: list[Any], state: dict[str, Any]) -> tuple[Any, list[Any]]:
    with warnings.catch_warnings(record=True) as found, np.errstate(**state):
        warnings.simplefilter("always")
        try:
            result = function(*(x.copy() if isinstance(x, np.ndarray) else x for x in given))
        except FloatingPointError as error:
            result = str(error)
    return result, [(w.category, str(w.message), w.lineno) for w in found]


def is_same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, tuple):
        return isinstance(ours, tuple) and all(map(is_same, ours, theirs))
    if isinstance(theirs, str):
        return bool(ours == theirs)
    near = 1e-5 if theirs.dtype == np.float32 else 1e-12
    return type(ours) is type(theirs) and ours.shape == theirs.shape and np.allclose(ours, theirs, near, 0, equal_nan=True)


def differences(number: int, backend: str, seed: int | str) -> Iterator[str]:
    for k in range(number):
        draw, name = random.Random(f"{seed} {k}"), f"<unread {seed} {k}>"
        function = program(draw, name)
        compiled = npc.compile(function, backend=backend)
        for _ in range(4):
            given, state = arguments(draw), draw.choice(STATES)
            (expected, warned), (result, ours) = outcome(function, given, state), outcome(compiled, given, state)
            with np.errstate(all="ignore"):
                if warned != ours or not is_same(result, expected):
                    yield f"{''.join(linecache.getlines(name))}{given} {state}\n{expected} {warned}\n{result} {ours}"
                    break


if __name__ == "__main__":
    count, backend, seed = [*sys.argv[1:], *["300", "cpu", "0"][len(sys.argv) - 1 :]]
    found = 0
    for found, text in enumerate(differences(int(count), backend, seed), 1):
        print(text, flush=True)
    print(f"{found} of {count} programs differ")
