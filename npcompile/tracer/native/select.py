"""min() and max() of numbers of several types in a native loop: the result is of the type of the one that is chosen.

Where it is only stored in an array, its type does not matter. Else the program goes on separately for each type.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from npcompile.backends.cpu.loops.scalar_loops import Fail
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.native import outside
from npcompile.tracer.native.blocks import Blocks
from npcompile.tracer.native.meanings import is_known
from npcompile.tracer.native.numbers import compared, truth
from npcompile.tracer.native.types import Elements, Known, Scalar

SIGNS: dict[Any, str] = {min: "<", max: ">"}
ALIKE = {"float": "f8", "f8": "f8", "int": "i8", "i8": "i8"}  # kinds -> that of the arrays in which they are the same


def is_of_several_types(function: Any, arguments: Sequence[Any]) -> bool:
    """Is it a call of min() or max() that has no one type?"""
    is_extreme = isinstance(function, Known) and is_known(function.value, SIGNS)
    return is_extreme and all(isinstance(x, Scalar) for x in arguments) and len({x.kind for x in arguments}) > 1


def extreme(b: Blocks, function: Known, arguments: Sequence[Scalar], following: int, fail: Fail) -> Scalar:
    """The first of the least, or greatest: what the program goes on with from the instruction `following`."""
    sign = SIGNS[function.value]
    found, *others = arguments
    dtype = ALIKE.get(found.kind)
    if dtype is not None and all(ALIKE.get(x.kind) == dtype for x in others) and is_only_stored(b, dtype, following):
        for x in others:
            is_better = truth(b.code, compared(b.code, sign, x, found, fail))
            found = Scalar(dtype, b.code.choose(dtype, is_better, x.text, found.text))
        return found
    return going_on(b, sign, found, others, following, fail)


def going_on(b: Blocks, sign: str, found: Scalar, others: Sequence[Scalar], following: int, fail: Fail) -> Scalar:
    """What was found, where no other is better. Where one is that has another type, the program goes on with it there."""

    def with_another(x: Scalar, others: Sequence[Scalar]) -> None:
        b.push(going_on(b, sign, x, others, following, fail))

    for k, x in enumerate(others):
        is_better = truth(b.code, compared(b.code, sign, x, found, fail))
        if x.kind == found.kind:
            found = Scalar(x.kind, b.code.choose(x.kind, is_better, x.text, found.text))
        else:
            b.branch(is_better, following, partial(with_another, x, others[k + 1 :]))
    return found


def is_only_stored(b: Blocks, dtype: str, following: int) -> bool:
    """Is the result, which the stack has on top at the instruction `following`, only put into an array of this dtype?

    Or given to min() or max() with others that are alike, whose result is.
    """
    top = len(b.state.stack)  # where the result will be
    loaded: list[Any] = []  # what is above it

    def value_at(place: int) -> Any:
        return b.state.stack[place] if place < top else loaded[place - top - 1]

    index = following
    while True:
        i = b.program.instructions[index]
        if i.traits.writes("element"):
            owner = value_at(top + 1) if len(loaded) == 2 else None
            return isinstance(owner, Elements) and owner.input.kind == dtype
        if i.traits.call == "positional":
            depth = top + len(loaded) + 1 - i.arg
            is_given = depth <= top and depth >= 2
            function = next((x for x in b.state.stack[depth - 2 : depth] if isinstance(x, Known)), None) if is_given else None
            if function is None or not is_known(function.value, SIGNS):
                return False
            given = [value_at(place) for place in range(depth, depth + i.arg) if place != top]
            if not all(isinstance(x, Scalar) and ALIKE.get(x.kind) == dtype for x in given):
                return False
            top, loaded = depth - 2, []
        elif i.traits.is_constant or i.traits.builds is tuple or i.traits.reads("local"):
            load(b, i, loaded)
        else:
            return False
        index += 1


def load(b: Blocks, i: Instruction, loaded: list[Any]) -> None:
    """Put what the instruction loads above the result."""
    if i.traits.is_constant:
        loaded.append(outside.constant_value(b, i.argval))
    elif i.traits.builds is tuple:
        loaded[max(len(loaded) - i.arg, 0) :] = [None]
    else:
        loaded.append(b.realize(b.state.locals[i.argval]) if i.argval in b.state.locals else None)
