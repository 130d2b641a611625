"""What a program changes in objects from outside, beside arrays: done in order, when the graph has run.

While capturing only the values that stand for these objects change. A graph that fails leaves the objects as they were, so
that the native run, which reports the error, does everything once.

The statements call nothing (`l += (x,)` instead of `l.append(x)`): CPython looks for signals after each call, and a handler that
raises between two of them would see what no statement of the user's has left.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import Any

from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.source import Source
from npcompile.tracer.capture import Capture
from npcompile.tracer.values import UNASSIGNED, Opaque


@dataclass(slots=True, eq=False)
class Effect:
    """Statements of the generated program, in one line. `{0}`, `{1}` ... in their text are the values."""

    text: str
    values: list[Any]
    target: tuple[int, str] | None = None  # the attribute or global that it sets: set again, the first one is not needed


def change(capture: Capture, owner: Any, text: str, *values: Any) -> None:
    """Note that `owner`, an object from outside, is changed by a statement, in which it is `{0}` and the values follow."""
    require_effects(capture, owner)
    capture.effects.append(Effect(text, [owner, *values]))


def require_effects(capture: Capture, owner: Any) -> None:
    """May `owner` be changed here? Then no other object that was met is the same one: guarded."""
    capture.require_no_body("an object from outside is changed")
    if capture.transforming:
        raise Decline("an object from outside is changed in a function that is transformed")
    capture.require_distinct(owner)


def set_attribute(capture: Capture, owner: Opaque, name: str, value: Any, is_hidden: bool = False) -> None:
    """`owner.name = value` where nothing but that happens. `is_hidden`: by a descriptor of the class, which is not asked."""
    require_effects(capture, owner)
    target = (id(owner), name)
    earlier = next((e for e in reversed(capture.effects) if e.target == target), None)
    if earlier is not None and owner.written.get(name, UNASSIGNED) is not UNASSIGNED:
        earlier.values[1] = value
    else:
        setter: Any = type(owner.example).__setattr__
        is_plain = setter is object.__setattr__  # else the class's own has been run already
        put = capture.name_constant(object.__setattr__)
        text = f"{{0}}.{name} = {{1}}" if is_plain else f"{put}({{0}}, {name!r}, {{1}})"
        if is_hidden:
            text = f"{{0}}.__dict__[{name!r}] = {{1}}"
        capture.effects.append(Effect(text, [owner, value], target))
    owner.written[name] = value


def is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def delete_attribute(capture: Capture, owner: Opaque, name: str) -> None:
    change(capture, owner, f"del {{0}}.{name}")
    owner.written[name] = UNASSIGNED


def set_global(capture: Capture, namespace: dict[str, Any], source: Source, name: str, value: Any) -> None:
    capture.require_no_body("a global is set")
    if capture.transforming:
        raise Decline("a global is set in a function that is transformed")
    target = (id(namespace), name)
    earlier = next((e for e in reversed(capture.effects) if e.target == target), None)
    if earlier is not None and capture.globals_written.get(target) is not UNASSIGNED:
        earlier.values[0] = value
    else:
        capture.effects.append(Effect(f"{source}[{name!r}] = {{0}}", [value], target))
    capture.globals_written[target] = value


def delete_global(capture: Capture, namespace: dict[str, Any], source: Source, name: str) -> None:
    capture.require_no_body("a global is deleted")
    if capture.transforming:
        raise Decline("a global is deleted in a function that is transformed")
    capture.effects.append(Effect(f"del {source}[{name!r}]", []))
    capture.globals_written[id(namespace), name] = UNASSIGNED
