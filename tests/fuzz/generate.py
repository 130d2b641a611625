"""Draw a whole program: arguments, statements, what is returned."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz import containers, control_flow, functions, language, statements
from tests.fuzz.blocks import Statement, grow
from tests.fuzz.places import PLACES
from tests.fuzz.programs import DTYPES, LAYOUTS, SHAPES, SIZES, Program
from tests.fuzz.writer import Draw, Writer

SIMPLE: tuple[Statement, ...] = (
    *[statements.assign] * 5,
    *[statements.inplace] * 3,
    *[statements.setitem] * 3,
    statements.write_through,
    statements.call_with_out,
    statements.python_number,
    statements.swap,
    statements.leave_graph,
    *[containers.container, containers.used, containers.stateful, containers.objects],
    *[language.python_code] * 3,
    language.random_numbers,
    *[language.anything] * 2,
)
COMPOUND: tuple[Statement, ...] = (
    *[control_flow.element_loops] * 2,
    *[control_flow.loop] * 3,
    control_flow.while_loop,
    *[control_flow.branch] * 2,
    control_flow.joining_branch,
    control_flow.match_statement,
    *[control_flow.try_statement] * 2,
    control_flow.with_statement,
    functions.small_function,
    *[functions.drawn_function] * 3,
    control_flow.multiple_return,
)
STATEMENTS: tuple[Statement, ...] = (
    *SIMPLE * 2,
    statements.alias,
    *[language.python_code] * 6,
    *[containers.used, containers.stateful] * 3,
    *[containers.objects] * 4,
    *[language.random_numbers, language.other_arrays] * 2,
    *[language.anything] * 8,
    *COMPOUND * 2,
)
INSIDE = (*SIMPLE * 2, *COMPOUND)  # of blocks
ABOUT_ARRAYS: tuple[Statement, ...] = (
    *SIMPLE[: SIMPLE.index(containers.used)] * 2,
    *[control_flow.loop, control_flow.while_loop, control_flow.branch, control_flow.joining_branch] * 2,
    control_flow.multiple_return,
)

VIEWS_OF_ANOTHER = ("{0}", "{0}[1:]", "{0}[::-1]", "{0}.T", "{0}[...]", "{0}.reshape(-1)", "{0}.copy()")
NO_LONGER_ARRAYS = ("[1.0, 2.0]", "2.5", "None", "[[1, 2], [3, 4]]", "np.float32(2)", "np.ones(2, 'f2')", "np.array(['a'])")
PLAIN = (
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
)
NOT_ARRAYS = (
    *PLAIN,
    *["Box(x)", "Vector(x)", "Model(x)", "Settings(data=x)", "Meter(x, 'k')", "Pair(x, 1)", "Point(x, x)", "Size(2, 3)"],
    *["[x, [x, 1]]", "{'k': {'a': x}}", "{1, 2}", "range(3)", "Color.RED", "np.sin", "helper", "np.dtype('f4')", "b'ab'", "[]"],
    *["x.tolist()", "[1, 2, 3]", "(1, (2, 3))", "OrderedDict(a=x)", "[Box(x), x]", "{'a': 1, 'b': 2.5}", "SHARED", "LOG", "..."],
    *["Box(x) if round != 1 else Meter(x)", "[x] * (round + 1)", "{'abc'[round % 3]: x}", "'ab' if round < 2 else 'c'"],
    *["(x, x)[: 1 + round % 2]", "Box([x, 1])", "lambda p: p * 2", "np.newaxis", "float('inf')", "-0.0"],
    *["np.random.default_rng(round)"] * 3,
    *["np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])", "np.array(['ab', 'c'])", "np.array([1, None])", "np.matrix('1 2; 3 4')"],
    *["np.array(['2020-01', '2021-02'], 'M8[D]')", "np.zeros(2, [('f', float), ('i', int)])", "np.arange(3).view(np.recarray)"],
)


def add_arguments(w: Writer, arrays_only: bool) -> None:
    for position in range(w.integer(1, 3)):
        name = "xyz"[position]
        dtype = repr(w.pick(DTYPES))
        if w.chance(8):
            dtype = f"{dtype} if round != 2 else {w.pick(DTYPES)!r}"
        text = f"laid_out({w.pick(SHAPES)}, {dtype}, {w.integer(0, 5)} + round, {w.pick(LAYOUTS)!r})"
        if w.chance(10) and not arrays_only:
            text += f" if round != {w.integer(1, 3)} else {w.pick(NO_LONGER_ARRAYS)}"
        elif w.chance(10):
            text += f" if round != 2 else laid_out({w.pick(SHAPES)}, {dtype}, 1, {w.pick(LAYOUTS)!r})"
        if position and w.chance(4):
            text = w.pick(VIEWS_OF_ANOTHER).format(w.pick(w.parameters))
            if w.chance(3):
                text += " if round != 1 else np.ones(3)"
        w.arguments.append(f"{name} = {text}")
        w.parameters.append(name)
    for position in range(w.integer(0, 2)):
        name = "ab"[position]
        w.arguments.append(f"{name} = {w.pick(PLAIN if arrays_only else NOT_ARRAYS)}")
        w.parameters.append(name)


def draw_program(draw: Draw, arrays_only: bool = False) -> Program:
    """A program of any kind, or one that keeps arrays nowhere but in variables, tuples, lists and dicts."""
    w = Writer(draw)
    w.is_exact = not w.chance(5)
    w.statements = ABOUT_ARRAYS if arrays_only else INSIDE
    first = w.pick(SIZES[:5]) if not w.chance(5) else w.pick(SIZES)
    second = w.pick(SIZES)
    w.sizes = (first, second, w.pick([first, second, *SIZES]), w.pick([first, *SIZES]))
    add_arguments(w, arrays_only)
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
        wanted -= grow(w, ABOUT_ARRAYS if arrays_only else STATEMENTS)
        if not wanted:
            break
    names = list(w.env)
    returned = names[-8:] if w.chance(2) else [w.pick(names[::-1]) for _ in range(w.integer(1, 4))]
    last = f"return {', '.join(returned)}"
    if w.chance(10):
        raising = ["[77]", " + np.ones(23)", ".sum(axis=5)", ".reshape(-7, 3)", ".nothing", "[(0,) * 9]"]
        last = f"return {w.pick(w.arrays() or names)}{w.pick(raising)}"
    dynamic = w.pick([None, None, None, True, False])
    program = Program(tuple(w.parameters), (*w.body, last), tuple(w.arguments), w.sizes, w.is_exact, dynamic, w.chance(4))
    moved = replace(program, place="position" if arrays_only else w.pick(PLACES))
    return moved if moved.is_valid else program
