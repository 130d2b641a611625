"""Functions of the user's that loop, written where a native program calls them.

They have blocks and variables of their own, as comprehensions have. What leaves the program in the middle of one does so before
the call, and Python calls the function again: so it may change nothing that is there before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from npcompile.backends.cpu.array_trees import Part
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.native.blocks import Blocks, Left
from npcompile.tracer.native.comprehensions import Comprehension, check, run, within
from npcompile.tracer.native.kinds import CellOf, Elements, Items, Known, Scalar
from npcompile.tracer.native.states import NoProgram, State, is_attribute


@dataclass(slots=True)
class CalledLoops(Comprehension):
    """The code of such a function, while it is written."""

    def back_out(self, is_refused: bool = False) -> str:
        raise NoForm(self.refused.pop() if self.refused else "a loop in a function that is called")

    def note_write(self) -> None:
        raise NoForm("a function that loops and changes an array or a list")

    def shared_value(self, name: str) -> Any:
        return Blocks.shared_value(self, name)

    def note_copies(self, copies: list[tuple[str, str, str]]) -> None:
        for target, text, kind in copies:
            if kind == "data" and self.code.accesses is not None:
                self.code.accesses.moved(target, text)

    def give(self, value: Any, fail: Fail) -> None:
        if any(map(is_attribute, self.state.locals)):
            raise NoForm("a function that loops and sets an attribute")
        self.finish(numbers_alone(self.realize(value)))


def has_loops(facts: CodeFacts) -> bool:
    return any(facts.states[k] is not None for k in facts.loop_headers)


def numbers_alone(value: Any) -> Any:
    """What is returned, if it is numbers: arrays that the function makes are its own."""
    if isinstance(value, Items):
        return Items(tuple(map(numbers_alone, value.items)))
    if not isinstance(value, Scalar | Known):
        raise NoForm("a function that loops and returns something else than numbers")
    return value


def unchanged(b: Blocks, value: Any) -> Any:
    """An argument, if the function can only read it: no list, and no iterator."""
    value = b.realize(value)
    if isinstance(value, Items):
        return Items(tuple(unchanged(b, item) for item in value.items))
    if not isinstance(value, Scalar | Known | Elements | Part):
        raise NoForm("what a function with loops is given")
    return value


def write(b: Blocks, known: Known, arguments: dict[str, Any], following: int, fail: Fail) -> None:
    """Write the function, and what follows its call. `arguments`: its variables. Raises NoForm, or Left."""
    if b.code.pointwise is not None:
        raise NoForm("a function that loops, of each element")
    if b.inside is not None:
        raise NoProgram("a function that loops")
    check(b)
    function, source = known.value, known.source
    own, loop = function.__code__, b.code.loop
    around: Blocks | None = b
    while around is not None:
        if around.program.code is own:
            raise NoForm("a function that loops and calls itself")
        around = around.outer if isinstance(around, Comprehension) else None
    cells = {n: CellOf(f"{source}.__closure__[{k}]", function.__closure__[k]) for k, n in enumerate(own.co_freevars)}
    of_globals = {"globals": function.__globals__, "globals_source": f"{source}.__globals__"}
    inner = within(b, CalledLoops, own, following, fail, cells=cells, **of_globals)
    if loop >= 0:  # all of it is in the caller's loop
        inner.around = dict.fromkeys((i.index for i in inner.program.instructions), loop)
    run(b, inner, State([], {name: unchanged(b, value) for name, value in arguments.items()}))
    raise Left
