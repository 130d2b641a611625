"""Effects that outlive a call happen once, in order, and only if the program comes to them, also when an exception ends it."""

from __future__ import annotations

import linecache
import traceback
from typing import Any

import numpy as np
import pytest

import npcompile as npc

pytestmark = pytest.mark.filterwarnings("ignore:.*was compiled .* times:RuntimeWarning")


class Refused(Exception):
    """An exception of the user's own."""


class Box:
    """What the programs change: everything of it outlives the call."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.table: dict[str, Any] = {}
        self.names: set[int] = set()
        self.number = 0
        self.array = np.arange(4.0)
        self.view = np.arange(8.0)[::-2]

    def state(self) -> str:
        return repr((self.log, self.table, sorted(self.names), self.number, self.array, self.view, self.view.base))


# Statement $ of a program, by what it changes. `y` is traced data and `n` a Python number, so that the values come late.
EFFECTS = {
    "list": "box.log.append(($, y + $))",
    "list item": "box.log += [$, $ * n]; box.log[-1] += $",
    "dict": "box.table['$'] = y * $; box.table['last'] = $",
    "dict deletion": "box.table['x'] = $; del box.table['x']; box.table.setdefault('$', n)",
    "set": "box.names.add($); box.names |= {$ * 10}",
    "attribute": "box.number = box.number * 10 + $ + n",
    "new attribute": "setattr(box, 'mark', $); box.number += box.mark",
    "global": "COUNTER = COUNTER * 10 + $",
    "cell": "count = count * 10 + $ + n",
    "argument": "x[$] = y[$] * 2 + $",
    "argument in place": "x += y * $",
    "view of an argument": "x[::-1][:2] *= $ + n",
    "out": "np.multiply(y, $, out=x)",
    "array of an object": "box.array[$:] -= y[$:]",
    "array of an attribute": "box.array += $",
    "view of an object": "box.view[:2] = y[:2] * $",
}

# Statements that raise, with what the arguments have to be for it. `zero` is 0 and `one` an array with a 1 in it.
ERRORS = {
    "ZeroDivisionError of ints": "n // zero",
    "ZeroDivisionError of floats": "(n + 0.5) / (zero * 1.0)",
    "ZeroDivisionError in NumPy's argument": "y = y * (1 % zero)",
    "OverflowError": "(2.5 + zero) ** 10000",
    "IndexError of data": "y = y[np.array([0, 7]) + zero]",
    "IndexError of a list": "[1, 2][n + 5]",
    "IndexError of a scalar index": "y[n + 9]",
    "KeyError": "box.table['absent']",
    "AttributeError": "box.absent",
    "TypeError": "y = y + 'text'",
    "ValueError of shapes": "y = y + np.ones(3)",
    "LinAlgError": "np.linalg.inv(np.zeros((2, 2)) * y[0])",
    "FloatingPointError": "np.errstate(divide='raise').__enter__(); y = y / zero",
    "user": "raise Refused(n, 'why')",
    "user, where data says so": "refuse(y)",
    "chained": "raise Refused(n) from ValueError('cause')",
    "AssertionError": "assert n < 0, 'negative'",
    "AssertionError of data": "assert (y < 0).all(), y",
    "KeyboardInterrupt": "interrupt()",
    "UnboundLocalError": "unbound; unbound = 1",
    "NameError": "absent_name",
    "StopIteration": "next(iter(()))",
    "group": "raise ExceptionGroup('several', [Refused(n), ValueError(1)])",
    "SystemExit": "raise SystemExit(n)",
}

# How a program is put together of statements A and C, and B which raises between them.
SHAPES = {
    "plain": ["A", "B", "C"],
    "handled": ["A", "try:", "    B", "    A", "except Exception as error:", "    box.log.append(repr(error))", "    C", "C"],
    "finally": ["A", "try:", "    A", "    B", "    C", "finally:", "    C"],
    "else": ["try:", "    A", "except ValueError:", "    C", "else:", "    B", "    C", "A"],
    "raised again": ["try:", "    A", "    B", "except BaseException:", "    C", "    raise", "A"],
    "replaced": ["try:", "    A", "    B", "except Exception as error:", "    C", "    raise Refused('other') from error", "A"],
    "second round": ["for k in range(3):", "    A", "    if k == 1:", "        B", "    C"],
    "long loop": ["for k in range(40):", "    A", "    if k == 21:", "        B", "    C"],
    "swallowed": ["with contextlib.suppress(BaseException):", "    A", "    B", "    C", "C"],
    "managed": ["with Noting(box):", "    A", "    B", "    C", "C"],
    "quiet": ["with np.errstate(all='ignore'):", "    A", "    B", "    C", "C"],
    "after a break": ["A", "box.log.append(str(x))", "B", "C"],
    "group": ["A", "try:", "    B", "except* ValueError as error:", "    box.log.append(repr(error))", "    C", "C"],
    "inlined": ["A", "def inner(y):", "    B", "    return y + 1", "y = inner(y)", "C"],
}

PROGRAM = """
import contextlib
import numpy as np

COUNTER = 7


class Noting:
    def __init__(self, box):
        self.box = box

    def __enter__(self):
        self.box.log.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.box.log.append(("exit", kind))
        return kind is Refused


def refuse(y):
    if (y > 0).any():
        raise Refused("positive")


def interrupt():
    raise KeyboardInterrupt


def make():
    count = 0

    def f(x, box, n, zero):
        global COUNTER
        nonlocal count
        y = np.sqrt(x) + n
        ...
        return y * 2

    return f, lambda: count
"""


def program(shape: str, effect: str, error: str | None) -> dict[str, Any]:
    """The namespace of a function made of the statements; `error` None: nothing is raised."""
    body, count = [], 0
    for line in SHAPES[shape]:
        indent, word = line[: len(line) - len(line.lstrip())], line.strip()
        if word in ("A", "C"):
            count += 1
            word = EFFECTS[effect].replace("$", str(count))
        elif word == "B":
            word = "y = y + zero" if error is None else ERRORS[error]
        body.append(f"        {indent}{word}\n")
    text = PROGRAM.replace("        ...\n", "".join(body))
    filename = f"<{shape}, {effect}, {error}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": "a_program", "Refused": Refused}
    exec(compile(text, filename, "exec"), namespace)
    return namespace


def outcome(shape: str, effect: str, error: str | None, backend: str | None) -> list[Any]:
    """All that can be seen of three calls; compiled if there is a `backend`."""
    namespace = program(shape, effect, error)
    function, count_now = namespace["make"]()
    if backend is not None:
        function = npc.compile(function, backend=backend)
    seen = []
    for zero in (0, 0, 1):
        box, x, result, raised = Box(), np.array([1.0, 4.0, 0.25, 9.0]), None, None
        try:
            with np.errstate(all="ignore"):
                result = function(x, box, 3, zero)
        except BaseException as caught:
            raised = description(caught)
        seen.append((repr(result), raised, repr(x), box.state(), count_now(), namespace["COUNTER"]))
    return seen


def description(error: BaseException | None) -> Any:
    """An exception with its lines, its cause and its context."""
    if error is None:
        return None
    steps = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<")]
    inner = tuple(map(description, getattr(error, "exceptions", ())))
    return repr(error), steps, description(error.__cause__), description(error.__context__), error.__suppress_context__, inner


def shape_of(effect: str, error: str | None) -> str:
    """Each pair in one shape, so that each effect and each error comes in all of them. (All 5,600 take a minute.)"""
    shapes, errors = list(SHAPES), [*ERRORS, None]
    return shapes[(list(EFFECTS).index(effect) + 3 * errors.index(error)) % len(shapes)]


def test_every_effect_and_every_error_comes_in_every_shape():
    for one, others in ((EFFECTS, [*ERRORS, None]), ([*ERRORS, None], EFFECTS)):
        for x in one:
            assert {shape_of(x, y) if x in EFFECTS else shape_of(y, x) for y in others} == set(SHAPES)


@pytest.mark.parametrize("error", [*ERRORS, None])
@pytest.mark.parametrize("effect", EFFECTS)
def test_effects(effect, error):
    shape = shape_of(effect, error)
    assert outcome(shape, effect, error, "eager") == outcome(shape, effect, error, None)


OF_KERNELS = [e for e in ERRORS if "data" in e or "Error of" in e or e.startswith(("LinAlg", "Floating"))]


@pytest.mark.parametrize("error", OF_KERNELS)
def test_effects_of_kernels(error):
    effect = ("argument", "view of an argument", "array of an object")[OF_KERNELS.index(error) % 3]
    shape = shape_of(effect, error)
    assert outcome(shape, effect, error, "cpu") == outcome(shape, effect, error, None)
