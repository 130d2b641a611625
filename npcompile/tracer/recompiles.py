"""Why compiled programs do not fit a call: the guard that failed, and the value that it is about.

Of the programs that are for values of the same kinds (types, dtypes, layouts of arrays) there are no more than
`config.recompile_limit`. Kinds are few: programs for others are not counted. The limit is asked while a function is captured,
when no time of what would be compiled is known: that pays is found out later (`profitability`).
"""

from __future__ import annotations

import enum
import gc
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npcompile.backends.array_guards import is_kind
from npcompile.logs import log
from npcompile.settings import config
from npcompile.tensor_core.dtypes import is_number
from npcompile.tensor_core.events import COUNTS
from npcompile.tensor_core.guards import (
    All,
    Axis,
    Binds,
    Either,
    Equals,
    Flags,
    Guard,
    HasAttribute,
    HasKey,
    Is,
    Keys,
    Layout,
    Length,
    OfDType,
    OfType,
    OneSource,
    Ordered,
    Truth,
    parts_of,
)
from npcompile.tensor_core.source import (
    GLOBALS,
    Attribute,
    Bound,
    Call,
    Compared,
    Formula,
    Item,
    Name,
    Object,
    Source,
    builtin,
)
from npcompile.tensor_core.user_warnings import warn_user
from npcompile.tracer.assumptions import MOST_FORMS, most_values
from npcompile.tracer.fresh_classes import IS_OF_PYTHON
from npcompile.tracer.guard_text import text_of
from npcompile.tracer.guard_words import spoken, text_of_value
from npcompile.tracer.integer_guards import name_fixed
from npcompile.tracer.profitability import may_make_more
from npcompile.tracer.variant import Variant

Guards = Sequence[Guard]
Scope = dict[str, Any]

MOST_DROPPED = 4  # times `config.recompile_limit` are the programs that may be dropped for what is gone
CONSTANTS = ("values of", "code of", "length of", "keys of", "members of")  # what a few values are assumed of
OTHER = 1 << 64  # no integer of a program is as large


def has_room(point: Any, state: tuple[Any, ...]) -> bool:
    """May another program be made for a Point? There are not too many for values of the same kinds."""
    limit, computing = config.recompile_limit, [v for v in point.variants if v.computes]
    if len(point.variants) < limit:
        return True
    values, layouts = dict(zip(point.parameters, state)), point.function.options.dynamic is not False
    if point.dropped < MOST_DROPPED * limit:
        stale = last_stale([v.guards for v in point.variants], point.function.namespace, values)
        if stale is not None:
            del point.variants[stale]
            point.dropped += 1
            return True
    fitting = [v for v in point.variants if not is_of_other_kind(v.guards, point.function.namespace, values, layouts)]
    alike = [v for v in fitting if v.computes]
    counted = fitting if any(map(is_array, state)) else point.variants
    are_few = may_make_more(limit, len(computing), sum(not v.computes for v in counted))
    return are_few and (len(alike) < limit or assume_less(point, alike, values))


def count_capture(point: Any, state: tuple[Any, ...]) -> None:
    """A Point begins to capture; or it goes on where a capture has waited for a compiler, which is counted already."""
    if point.captured is not None:
        return
    COUNTS["captures"] += 1
    if point.variants:
        COUNTS["recompiles"] += 1
        name = point.function.code.co_qualname
        log("recompiles", lambda: f"{name} is compiled again at {point.location}: {'; '.join(changed(point, state))}")


def warn_of_limit(point: Any, state: tuple[Any, ...]) -> None:
    message = (
        f"{point.function.code.co_qualname} was compiled {len(point.variants)} times at {point.location}, and from "
        f"there will run uncompiled for other arguments. What changed: {'; '.join(changed(point, state)) or 'nothing'}. "
        "npcompile.config.recompile_limit says how often it may be for arguments of the same kinds."
    )
    log("recompiles", lambda: message)
    warn_user(message)


def changed(point: Any, state: tuple[Any, ...]) -> list[str]:
    """The first guard of each program that does not hold, and the value that it is about; those of latest programs."""
    values = dict(zip(point.parameters, state))
    found = [why_not(v.guards, point.function.namespace, values, point.users_names) for v in point.variants]
    return [*dict.fromkeys(text for text in found if text is not None)][:3]


def is_array(value: Any) -> bool:
    """Is it one that programs compute with? What other kinds of values had none says nothing of it."""
    return type(value) is np.ndarray and is_number(value.dtype)


def assume_less(point: Any, alike: list[Variant], values: Scope) -> bool:
    """Stop to ask for the values that tell these variants from a call, where the graph can end instead; room for one more."""
    found, most = False, max(most_values(), MOST_FORMS) + 1
    for variant in alike:
        asked, source = asked_of(variant.guards, point.function.namespace, values)
        keys = [key for key in point.seen if key[0] in CONSTANTS and is_about(asked, key[1])]
        found |= bool(keys) or source in point.fixed
        point.seen |= {key: [("others",)] * most for key in keys}
        if source is not None and source in point.fixed:
            point.fixed[source] = frozenset(range(OTHER, OTHER + most))
    if found:
        point.variants.remove(alike[-1])
    return found


def holds(guard: Guard, scope: Scope) -> bool:
    """Does it hold for the values of the names? `scope` also gets those that it gives."""
    return bool(eval(text_of(guard), scope))


def value_of(source: Source, scope: Scope) -> Any:
    return eval(str(source), scope)


def first_failing(guards: Guards, scope: Scope) -> Guard | None:
    """The first guard that does not hold: of what it asks the part that does not."""
    return next((failing(guard, scope) for guard in guards if not holds(guard, scope)), None)


def failing(guard: Guard, scope: Scope) -> Guard:
    *parts, last = parts_of(guard)
    return next((part for part in parts if not holds(part, scope)), last)


def why_not(guards: Guards, namespace: Scope, parameters: Scope, names: dict[str, str]) -> str | None:
    """The first of the guards that does not hold, as text, and the value that it is about. None where all hold.

    `names` are what the user calls parameters.
    """
    scope = namespace | parameters
    say = spoken(guards, names)
    for guard in guards:
        try:
            if holds(guard, scope):
                continue
            asked = subject_of(failing(guard, scope))
            what = "" if asked is None else f", but {say(asked)} is {shortened(value_of(asked, scope))}"
        except CANNOT_ASK as error:
            what = f", but it raises {type(error).__name__}: {error}"
        return f"{text_of(guard, say)}{what}"
    return None


def subject_of(guard: Guard) -> Source | None:
    """What has another value than the guard asks for."""
    match guard:
        case OfType(source):
            return Call(builtin(type), source)
        case Length(source):
            return Call(builtin(len), source)
        case OfDType(source):
            return source.attribute("dtype")
        case Flags(source, mask):
            return Formula(f"{{}} & {mask}", source.attribute("flags").attribute("num"))
        case Layout(source, part):
            return source.attribute(part)
        case Axis(source, part, axis):
            return source.attribute(part).item(axis)
        case Keys(source):
            return Formula("[*{}]", source)
        case Is(source) | Equals(source) | HasKey(source):
            return source
        case Ordered((first, *_), _, True) | Truth(Compared(first), True):
            return first
    return None


FEW = (bool, enum.Enum, type, np.ufunc, types.BuiltinFunctionType, types.ModuleType)  # objects that a program has few of
OF_LAYOUT = ("ndim", "shape", "strides")
OF_KIND = ("dtype", "flags", "requires_grad", "is_leaf")


def is_of_other_kind(guards: Guards, namespace: Scope, parameters: Scope, layouts: bool = True) -> bool:
    """Is a parameter of another kind, or the first guard that does not hold about the kind of a value?

    `layouts`: are those of arrays kinds?
    """
    scope = namespace | parameters
    if not may_fit(guards, scope, parameters):
        return True
    try:
        asked = first_failing(guards, scope)
        if asked is None:
            return False
        if layouts and is_of_layout(asked, guards):
            return True
        if isinstance(asked, Is) and asked.answer:
            left, right = value_of(asked.source, scope), value_of(asked.other, scope)
            return type(left) is not type(right) or isinstance(right, FEW)
        return is_of_kind(asked)
    except CANNOT_ASK:  # what it is about is not there
        return True


def is_of_layout(guard: Guard, guards: Guards) -> bool:
    """Does it ask for sizes or strides of an array, by themselves or by a symbol?"""
    names = guard.names()
    bound = [source for each in guards if isinstance(each, Binds) and each.name in names for source in each.walk()]
    return isinstance(guard, Layout | Axis) or reads(OF_LAYOUT, [*guard.walk(), *bound])


def is_of_kind(guard: Guard) -> bool:
    if isinstance(guard, OfType | OfDType | Flags):
        return True
    return isinstance(guard, HasAttribute) and not guard.answer or reads(OF_KIND, guard.walk())


def reads(names: Sequence[str], sources: Iterator[Source] | list[Source]) -> bool:
    return any(isinstance(source, Attribute) and source.name in names for source in sources)


def may_fit(guards: Guards, scope: Scope, values: Scope) -> bool:
    """May a program fit arguments of the same kinds as these values, as `kind_of` tells kinds? `scope` has the values, too."""
    return all(holds_for_kind(guard, scope, values) for guard in guards)


def holds_for_kind(guard: Guard, scope: Scope, values: Scope) -> bool:
    """Does it hold, or ask for other than what `kind_of` tells apart?"""
    first = parts_of(guard)[0]
    if not isinstance(first, OneSource) or not isinstance(first.source, Name) or first.source.name not in values:
        return True
    if any(isinstance(source, Bound) for source in guard.walk()):  # a name that guards before it give
        return True
    value = values[first.source.name]
    try:
        match guard:
            case OfType() | All((OfType(), OfDType())) | Flags() | Layout(_, "ndim"):
                return holds(guard, scope)
            case Layout(_, "shape", tuple() as shape):
                return bool(value.ndim == len(shape))
            case Is(_, Object(_, known), True):
                return value is known or type(value) is type(known) and not is_kind(value)
        return True
    except CANNOT_ASK:
        return False


CANNOT_ASK = (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError)


def last_stale(programs: Sequence[Guards], namespace: Scope, parameters: Scope) -> int | None:
    """The last of the programs that is not missed: for a global function that is another now, or for a class that is gone."""
    scope = namespace | parameters
    asked = [what_fails(guards, scope) for guards in programs]
    kinds = {id(v): v for guard in asked for v in objects_of(guard) if isinstance(v, type)}
    gone = those_gone(kinds, namespace, scope)
    return max((k for k, guard in enumerate(asked) if is_stale(guard, gone)), default=None)


def what_fails(guards: Guards, scope: Scope) -> Guard | None:
    try:
        return first_failing(guards, scope)
    except CANNOT_ASK:
        return None


def objects_of(guard: Guard | None) -> Iterator[Any]:
    """The objects that a guard names."""
    return (source.value for source in (() if guard is None else guard.walk()) if isinstance(source, Object))


def is_stale(asked: Guard | None, gone: set[int]) -> bool:
    """Does a program whose guard fails so ask for one of the classes that are gone, or for a global's former function?"""
    if asked is not None and is_of_global(asked) and any(isinstance(v, FUNCTIONS) for v in objects_of(asked)):
        return True
    return any(id(v) in gone for v in objects_of(asked))


FUNCTIONS = (types.FunctionType, types.CodeType)


def is_of_global(guard: Guard) -> bool:
    """Does it ask which object a global is, or what its code is?"""
    match guard:
        case Either((first, *_)):
            return is_of_global(first)
        case Is(Item(owner) | Attribute(Item(owner), "__code__")) | Equals(Item(owner) | Attribute(Item(owner), "__code__")):
            return bool(owner == GLOBALS)
    return False


def those_gone(kinds: dict[int, type], *programs: Scope) -> set[int]:
    """Addresses of the classes that nothing but their own parts, and the programs, refer to. All objects are gone over once."""
    left = {address: kind for address, kind in kinds.items() if may_be_gone(kind)}
    if not left:
        return set()
    ours = {id(each) for kind in left.values() for each in own_parts(kind)} | {*map(id, programs), id(kinds), id(left)}
    references, is_held = dict.fromkeys(left, 0), set()
    for each in referrers_of(tuple(left.values())):
        is_ours = id(each) in ours or isinstance(each, types.FrameType | Object)
        for address in map(id, gc.get_referents(each)):
            if address in left:
                references[address] += 1
                if not is_ours and getattr(each, "__objclass__", None) is not left[address]:
                    is_held.add(address)
    # The collector does not show frozen objects, nor the variables of functions that run: their references are missing here.
    return {address for address, found in references.items() if sys.getrefcount(left[address]) <= found + 1} - is_held


def referrers_of(objects: tuple[Any, ...]) -> list[Any]:
    """All that refers to one of them, but for this tuple, which some versions of CPython find too."""
    return [each for each in gc.get_referrers(*objects) if each is not objects]


def may_be_gone(kind: type) -> bool:
    """Was it made by a `class` statement, and does its module not have it?"""
    module = sys.modules.get(kind.__module__)
    return bool(kind.__flags__ & IS_OF_PYTHON) and getattr(module, kind.__qualname__, None) is not kind


def own_parts(kind: type) -> Iterator[Any]:
    """What a class has that refers to it: its order of bases, and where its methods find it for `super()`."""
    yield kind.__mro__
    for value in vars(kind).values():
        yield from getattr(getattr(value, "__func__", value), "__closure__", None) or ()


def asked_of(guards: Guards, namespace: Scope, parameters: Scope) -> tuple[Guard | None, Source | None]:
    """The part of a guard that does not hold, and the source of the integer that it is about, if it is about one alone."""
    try:
        asked = first_failing(guards, namespace | parameters)
    except CANNOT_ASK:
        return None, None
    name = None if asked is None else name_fixed(asked)
    return asked, next((each.source for each in guards if isinstance(each, Binds) and each.name == name), None)


def is_about(asked: Guard | None, source: Source) -> bool:
    """Does a guard ask for what the source gives, or its code, and not for another part of it?"""
    if asked is None or isinstance(asked, OfDType | Flags | Layout | Axis):
        return False
    return any(source in whole(each) for each in asked.sources)


def whole(source: Source) -> Iterator[Source]:
    """The sources in this one of which not only a part is asked."""
    yield source
    if isinstance(source, Attribute | Item):
        if isinstance(source, Attribute) and source.name == "__code__":
            yield source.owner
        return
    for part in source.parts:
        yield from whole(part)


def shortened(value: Any) -> str:
    text = value.__qualname__ if isinstance(value, type) else text_of_value(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
