"""What is handed over at an instruction of the user's code: the values of its stack, and locals."""

from __future__ import annotations

import inspect
import types
from dataclasses import dataclass
from typing import Final

from npcompile.tracer.bytecode.analysis import CodeFacts, State, mask_of, null_slots_of


class _Unbound:
    def __repr__(self) -> str:
        return "UNBOUND"


UNBOUND: Final = _Unbound()  # stands for a local that has no value


@dataclass(frozen=True, slots=True)
class Layout:
    """How arguments, or a state handed over, stand for stack and locals at an instruction.

    They are the stack values that are not NULL, the locals that may be read, and where there are kept ones a list of these. The
    segment takes them out of the list, so that nobody else holds an object when the user's code lets go of it.
    """

    index: int
    depth: int
    null_slots: tuple[int, ...]
    local_names: tuple[str, ...]
    kept_names: tuple[str, ...] = ()


def check_entry(
    code: types.CodeType, facts: CodeFacts, entry: int, null_slots: tuple[int, ...], local_names: tuple[str, ...]
) -> None:
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise ValueError(f"{code.co_qualname} is a generator or coroutine")
    if not code.co_flags & inspect.CO_OPTIMIZED:
        raise ValueError(f"{code.co_qualname} is not the code of a function")
    if not facts.enterable[entry]:
        raise ValueError(f"{facts.describe(code, entry)} cannot be entered")
    depth = facts.depth[entry]
    assert depth is not None
    if any(slot >= depth for slot in null_slots):
        raise ValueError(f"{facts.describe(code, entry)} finds {depth} values on the stack, no NULLs at {null_slots}")
    # CPython 3.12 does not check locals that its compiler knows to be assigned.
    missing = (facts.live[entry] & facts.bound[entry]).difference(local_names)
    if missing:
        raise ValueError(f"{facts.describe(code, entry)} needs {', '.join(sorted(missing))}")


def state_at_entry(facts: CodeFacts, layout: Layout) -> State:
    slot_of = {name: slot for slot, name in enumerate(facts.slots)}
    given = mask_of([slot_of[name] for name in (*layout.local_names, *layout.kept_names)])
    bound = mask_of([slot_of[name] for name in layout.local_names if name in facts.bound[layout.index]])
    return State(layout.depth, mask_of(layout.null_slots), 0, 0, bound, given, 0)


def layout_at(code: types.CodeType, facts: CodeFacts, index: int, state: State, protected: bool) -> Layout:
    null_slots = null_slots_of(state)
    if not facts.enterable[index]:
        raise ValueError(f"{facts.describe(code, index)} cannot be an exit")
    if null_slots is None:
        raise ValueError(f"{facts.describe(code, index)} cannot be an exit: which stack slots are NULL is known at run time only")
    if facts.protected[index] and not protected:
        raise ValueError(f"{facts.describe(code, index)} cannot be an exit: it lies in an exception region")
    return Layout(index, state.depth, null_slots, *facts.locals_at(index))
