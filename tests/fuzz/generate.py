"""Draw a whole program: arguments, statements, what is returned."""

from __future__ import annotations

from tests.fuzz.programs import DTYPES, LAYOUTS, SHAPES, SIZES, Program
from tests.fuzz.statements import grow
from tests.fuzz.writer import Draw, Writer

VIEWS_OF_ANOTHER = ("{0}", "{0}[1:]", "{0}[::-1]", "{0}.T", "{0}[...]", "{0}.reshape(-1)", "{0}.copy()")
NOT_ARRAYS = (
    "2 + round",
    "3",
    "1.5 * (round + 1)",
    "-0.5",
    "True",
    "round > 0",
    "np.float32(1.5)",
    "np.int64(round)",
    "0",
    "(x, 2)",
    "[x, x]",
    "{'a': x}",
    "None",
    "'abc'",
    "x[0] if x.size and x.ndim else x",
    "slice(None, None, -1)",
    "1 + 2j",
    "2 if round != 2 else 2.5",
    "1 if round != 2 else np.float64(1)",
    "(x, 1) if round != 2 else [x, 1]",
    "None if round != 1 else 2",
    "-3 + round",
    "{'a': x, 'b': [1, x]}",
    "Box(x)",
)


def add_arguments(w: Writer) -> None:
    for position in range(w.integer(1, 3)):
        name = "xyz"[position]
        dtype = repr(w.pick(DTYPES))
        if w.chance(8):
            dtype = f"{dtype} if round != 2 else {w.pick(DTYPES)!r}"
        text = f"laid_out({w.pick(SHAPES)}, {dtype}, {w.integer(0, 5)} + round, {w.pick(LAYOUTS)!r})"
        if w.chance(10):
            text += f" if round != 2 else laid_out({w.pick(SHAPES)}, {dtype}, 1, {w.pick(LAYOUTS)!r})"
        if position and w.chance(4):
            text = w.pick(VIEWS_OF_ANOTHER).format(w.pick(w.parameters))
            if w.chance(3):
                text += " if round != 1 else np.ones(3)"
        w.arguments.append(f"{name} = {text}")
        w.parameters.append(name)
    for position in range(w.integer(0, 2)):
        name = "ab"[position]
        w.arguments.append(f"{name} = {w.pick(NOT_ARRAYS)}")
        w.parameters.append(name)


def draw_program(draw: Draw, breaks: bool = True) -> Program:
    w = Writer(draw, breaks=breaks)
    w.is_exact = not w.chance(5)
    first = w.pick(SIZES[:5]) if not w.chance(5) else w.pick(SIZES)
    second = w.pick(SIZES)
    w.sizes = (first, second, w.pick([first, second, *SIZES]))
    add_arguments(w)
    try:
        env = w.probe([])
    except Exception:  # the view of another argument does not exist
        w.arguments = [
            a
            if " if round" not in a and a.count("laid_out")
            else f"{a.split(' = ')[0]} = laid_out((n,), 'float64', 1 + round, '')"
            for a in w.arguments
        ]
        env = w.probe([])
    assert env is not None
    w.env = env
    wanted = w.integer(1, 9)
    for _ in range(3 * wanted):
        wanted -= grow(w)
        if not wanted:
            break
    names = list(w.env)
    returned = names[-8:] if w.chance(2) else [w.pick(names[::-1]) for _ in range(w.integer(1, 4))]
    last = f"return {', '.join(returned)}"
    if w.chance(10):
        raising = ["[77]", " + np.ones(23)", ".sum(axis=5)", ".reshape(-7, 3)", ".nothing", "[(0,) * 9]"]
        last = f"return {w.pick(w.arrays() or names)}{w.pick(raising)}"
    dynamic = w.pick([None, None, None, True, False])
    return Program(tuple(w.parameters), (*w.body, last), tuple(w.arguments), w.sizes, w.is_exact, dynamic)
