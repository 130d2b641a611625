"""What was compiled for a function and a transform of it, for who makes the same transformed function again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from npcompile.loop_gradients import LoopGradients

REMEMBERED = ("grad", "value_and_grad", "jacobian")


@dataclass(slots=True, eq=False, weakref_slot=True)
class Made:
    """What was compiled for a function and a transform of it."""

    entry: Callable[..., Any] | None = None
    unchecked: Callable[..., Any] | None = None
    eager: set[Any] = field(default_factory=set)  # signatures that are no one graph
    loops: LoopGradients | None = None

    def __post_init__(self) -> None:
        ALL.add(self)


ALL: WeakSet[Made] = WeakSet()

# A function that its module has lives as long as that, and so may what was compiled: npc.grad(f), made again, has it already. Of
# others only programs of loops are kept, which do not refer to them.
OF_MODULES: dict[FunctionType, dict[Any, Made]] = {}
OF_OTHERS: WeakKeyDictionary[FunctionType, dict[Any, LoopGradients]] = WeakKeyDictionary()


def is_of_module(function: FunctionType) -> bool:
    return function.__closure__ is None and function.__globals__.get(function.__name__) is function


def made_for(kind: str, given: Any, options: dict[str, Any]) -> Made:
    """The same for all that is made of a module's function in the same way."""
    if kind not in REMEMBERED or not isinstance(given, FunctionType) or not is_of_module(given):
        return Made()
    for gone in [each for each in list(OF_MODULES) if not is_of_module(each)]:
        OF_MODULES.pop(gone, None)  # its module has another of this name
    return OF_MODULES.setdefault(given, {}).setdefault((kind, *options.values()), Made())


def forget_programs_of_loops() -> None:
    """Derivatives of loops are compiled again when they are asked for. A call that is under way keeps its own."""
    OF_OTHERS.clear()
    for made in [*ALL]:
        made.loops = None
