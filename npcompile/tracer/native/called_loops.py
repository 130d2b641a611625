"""Functions of the user's that loop, written where a native program calls them.

They have blocks and variables of their own, as comprehensions have. What leaves the program in the middle of one does so before
the call, and Python calls the function again: so it may change nothing that is there before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm
from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.native.blocks import Blocks, Left
from npcompile.tracer.native.nested_code import NestedCode
from npcompile.tracer.native.states import NoProgram, State, is_attribute
from npcompile.tracer.native.types import Elements, Items, Known, Scalar, cells_of


@dataclass(slots=True)
class CalledLoops(NestedCode):
    """The code of such a function, while it is written."""

    name: ClassVar[str] = "a function that loops"

    def give(self, value: Any, fail: Fail) -> None:
        if any(map(is_attribute, self.state.locals)):
            raise NoForm(f"an attribute in {self.name}")
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
    function, source = known.value, known.source
    own, loop = function.__code__, b.code.loop
    around: Blocks | None = b
    while around is not None:
        if around.program.code is own:
            raise NoForm("a function that loops and calls itself")
        around = around.outer if isinstance(around, NestedCode) else None
    of_globals = {"globals": function.__globals__, "globals_source": source.attribute("__globals__")}
    inner = CalledLoops.within(b, own, following, fail, cells=cells_of(known), **of_globals)
    if loop >= 0:  # all of it is in the caller's loop
        inner.around = dict.fromkeys((i.index for i in inner.program.instructions), loop)
    inner.write_from(State([], {name: unchanged(b, value) for name, value in arguments.items()}))
    raise Left
