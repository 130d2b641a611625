"""Guards in words, for people: `x: float64 array of shape (5, 9), C-contiguous`."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
    Keeps,
    Keys,
    KeyTypes,
    Layout,
    Length,
    OfDType,
    OfType,
    Ordered,
    Truth,
    parts_of,
)
from npcompile.tensor_core.source import GLOBALS, UNBOUND, Attribute, Bound, Call, Item, Literal, Name, Object, Source
from npcompile.tracer.conditions import Interval, interval_of
from npcompile.tracer.guard_text import text_of

Say = Callable[[Source], str]
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400  # of ndarray.flags.num
PLAIN = (type(None), bool, int, float, complex, str, bytes)  # what says itself what it is
LENGTHS = {"==": "", ">": "more than ", ">=": "at least "}
KINDS: dict[type, str] = {
    types.FunctionType: "function",
    types.BuiltinFunctionType: "function",
    types.WrapperDescriptorType: "function",
    types.CodeType: "code",
    types.ModuleType: "module",
    type: "class",
}


def spoken(guards: Iterable[Guard], names: Mapping[str, str]) -> Say:
    """What writes a source as the user would. `names` are what the user calls parameters of the generated program."""
    given = {guard.name: guard.source for guard in guards if isinstance(guard, Binds | Keeps)}

    def say(source: Source) -> str:
        match source:
            case Name(name) if name in given:
                return say(given[name])
            case Name(name):
                return names.get(name, name)
            case Object(_, value):
                return label(value)
            case Item(owner, Literal(str() as name)) if owner == GLOBALS:
                return name
            case Item(Object(_, {"__name__": str() as module}), Literal(str() as name)):
                return name if module == "builtins" else f"{module}.{name}"
            case Attribute(Item(Attribute(Object(_, types.FunctionType() as f), "__closure__"), Literal(k)), "cell_contents"):
                return str(f.__code__.co_freevars[k])
        return source.write(say)

    return say


def label(value: Any) -> str:
    """What the user calls an object that does not change."""
    if isinstance(value, np.dtype):
        return str(value)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return name
    is_short = isinstance(value, PLAIN) and len(text := repr(value)) <= 40
    return text if is_short else f"a {type(value).__qualname__}"


@dataclass(slots=True)
class Account:
    """What guards say of one value."""

    kind: str
    dtype: str = ""
    sizes: list[str] | None = None  # of each axis
    limits: str = ""  # of an integer
    notes: dict[str, None] = field(default_factory=dict)

    def __str__(self) -> str:
        what = f"{self.dtype} array" if self.dtype and self.kind == "ndarray" else " ".join(filter(None, (self.kind, self.dtype)))
        if self.sizes is not None:
            what += f" of shape ({', '.join(self.sizes)}{',' * (len(self.sizes) == 1)})"
        return ", ".join([f"{what} {self.limits}".rstrip(), *self.notes])


def words(guards: Sequence[Guard], names: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """What the guards ask, one sentence for each value, or for each guard that is about several.

    `names` are what the user calls parameters of the generated program.
    """
    say = spoken(guards, names or {})
    symbols = {guard.name: guard.source for guard in guards if isinstance(guard, Binds)}
    accounts: dict[Source, Account] = {}
    found: dict[Source | str, None] = {}
    for guard in (part for each in guards for part in parts_of(each)):
        if isinstance(guard, OfType):
            accounts.setdefault(guard.source, Account(say(guard.kind)))
            found[guard.source] = None
        elif not isinstance(guard, Binds | Keeps) and not is_limit(guard, symbols) and not is_told(guard, accounts, say):
            found[sentence(guard, say)] = None
    intervals = intervals_of(guards)
    for name, source in symbols.items():
        if name in intervals and not is_limited(source, intervals[name], accounts):
            found[f"{say(source)}: {limits(intervals[name])}"] = None
    return tuple(f"{say(each)}: {accounts[each]}" if isinstance(each, Source) else each for each in found)


def is_limit(guard: Guard, symbols: Collection[str]) -> bool:
    """Is it about how large a symbol is, which is said of all such guards together?"""
    interval = interval_of(guard) or interval_fixed(guard)
    return interval is not None and interval.name in symbols


def interval_fixed(guard: Guard) -> Interval | None:
    match guard:
        case Ordered((Bound(name), Literal(int() as value)), ("==",), True):
            return Interval(name, value, value)
    return None


def intervals_of(guards: Iterable[Guard]) -> dict[str, Interval]:
    found: dict[str, Interval] = {}
    for guard in guards:
        if (interval := interval_of(guard) or interval_fixed(guard)) is not None:
            found[interval.name] = found.get(interval.name, interval) & interval
    return found


def is_limited(source: Source, interval: Interval, accounts: Mapping[Source, Account]) -> bool:
    """Does the integer belong to the account of a value, as a size or that value itself? Its limits are there from now on."""
    match source:
        case Item(Attribute(owner, "shape"), Literal(axis)) if owner in accounts and (sizes := accounts[owner].sizes) is not None:
            sizes[axis] = f"any >= {interval.least}" if interval.most == math.inf else f"any {limits(interval)}"
        case _ if source in accounts:
            accounts[source].limits = limits(interval)
        case _:
            return False
    return True


def is_told(guard: Guard, accounts: Mapping[Source, Account], say: Say) -> bool:
    """Does the guard belong to the account of a value? Then it is there from now on."""
    match guard:
        case Truth(Attribute(Attribute(owner, "flags"), "c_contiguous"), answer) if owner in accounts:
            accounts[owner].notes["C-contiguous" if answer else "not C-contiguous"] = None
            return True
        case Truth(Attribute(owner, "requires_grad"), answer) if owner in accounts:
            accounts[owner].notes[f"requires {'' if answer else 'no '}gradient"] = None
            return True
        case Equals(Attribute(Attribute(owner, "dtype"), "num")) if owner in accounts:  # as the dtype says
            return True
        case Ordered((Literal(int() as least), source, Literal(int() as most)), ("<", "<"), True) if source in accounts:
            accounts[source].limits = limits(Interval("", least + 1, most - 1))
            return True
    account = accounts.get(guard.sources[0])
    return account is not None and is_added(guard, account, say)


def is_added(guard: Guard, account: Account, say: Say) -> bool:
    match guard:
        case OfDType(_, dtype):
            account.dtype = say(dtype)
        case Layout(_, "shape", tuple() as shape):
            account.sizes = [*map(str, shape)]
        case Layout(_, "ndim", int() as ndim):
            account.sizes = account.sizes or ["any"] * ndim
        case Axis(_, "shape", axis, n) if account.sizes is not None:
            account.sizes[axis] = str(n)
        case Layout(_, part, value):
            account.notes[f"{part} {value}"] = None
        case Axis(_, part, axis, n):
            account.notes[f"{part}[{axis}] {n}"] = None
        case Flags(_, mask, flags):
            account.notes |= dict.fromkeys(notes_of_flags(mask, flags))
        case Equals(_, value):
            account.notes[f"equal to {say(value)}"] = None
        case Length(_, symbol, length):
            account.notes[counted_items(symbol, length)] = None
        case _:
            return False
    return True


def counted_items(symbol: str, length: int) -> str:
    return f"{LENGTHS[symbol]}{length} item{'s' * (length != 1)}"


def notes_of_flags(mask: int, flags: int) -> list[str]:
    is_laid_out = ["C-contiguous" if flags & C_CONTIGUOUS else "not C-contiguous"] * bool(mask & C_CONTIGUOUS)
    is_read_only = ["read-only"] * bool(mask & WRITEABLE and not flags & WRITEABLE)
    return [*is_laid_out, *is_read_only, *["not aligned"] * bool(mask & ALIGNED and not flags & ALIGNED)]


def limits(interval: Interval) -> str:
    """As mathematics writes it: `in [0, 2**31)`."""
    least, most = interval.least, interval.most
    if least == most:
        return f"equal to {least}"
    if most == math.inf:
        return f"of at least {number(int(least))}"
    if least == -math.inf:
        return f"of at most {number(int(most))}"
    low = f"({number(int(least) - 1)}" if is_power(int(least) - 1) else f"[{number(int(least))}"
    high = f"{number(int(most) + 1)})" if is_power(int(most) + 1) else f"{number(int(most))}]"
    return f"in {low}, {high}"


def is_power(n: int) -> bool:
    return abs(n) >= 2**16 and abs(n).bit_count() == 1


def number(n: int) -> str:
    return f"{'-' * (n < 0)}2**{abs(n).bit_length() - 1}" if is_power(n) else str(n)


# --- one guard


def sentence(guard: Guard, say: Say) -> str:
    """What one guard asks."""
    match guard:
        case Is(source, other, answer) if other == UNBOUND:
            return f"{say(source)} has {'no' if answer else 'a'} value"
        case Is(source, Object(_, None | bool() as value), answer):
            return f"{say(source)} is {'' if answer else 'not '}{value}"
        case Is(source, Object(_, value)):
            return still(guard, say(source), value) if guard.answer else f"{say(source)} is not {label(value)}"
        case Is(source, Literal(value), answer):
            return f"{say(source)} is {'' if answer else 'not '}{value}"
        case Is(source, other, True):
            return f"{say(source)} and {say(other)} are the same object"
        case Is(source, other, False):
            return f"{say(source)} and {say(other)} are different objects"
        case HasKey(source, Literal(str() as name), answer) if source == GLOBALS:
            return f"{'a' if answer else 'no'} global is called {name}"
        case HasKey(Attribute(owner, "__dict__"), Literal(str() as name), answer):
            return f"{say(owner)} has {'an' if answer else 'no'} attribute {name!r} of its own"
        case HasKey(source, key, answer):
            return f"{say(source)} has {'the' if answer else 'no'} key {say(key)}"
        case HasAttribute(source, name, answer):
            return f"{say(source)} has {'an' if answer else 'no'} attribute {name!r}"
        case Keys(source, keys):
            return f"{say(source)} has these keys or members: {say(keys)}"
        case KeyTypes(source, kinds):
            return f"{say(source)} has keys or members of types {', '.join(map(say, kinds))}"
        case Length(source, symbol, length):
            return f"{say(source)} has {counted_items(symbol, length)}"
        case Equals(source, value):
            return f"{say(source)} is equal to {say(value)}"
        case Either((Is(source), *_)):
            return f"{say(source)} is still the same"
        case Truth(Call(Attribute(_, "are_disjoint") | Object(_, types.FunctionType(__name__="are_disjoint")), (_, *arrays))):
            names = [*map(say, arrays)]
            return f"{', '.join(names)} share no memory" if names[1:] else f"no elements of {names[0]} share memory"
        case Truth(Call(), answer) | Truth(Attribute(), answer):
            return f"{say(guard.source)} is {'true' if answer else 'false'}"
        case All(guards):
            return ", ".join(sentence(each, say) for each in guards)
    return text_of(guard, say)


def still(guard: Is, name: str, value: Any) -> str:
    module = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
    if isinstance(value, np.ufunc) or module.partition(".")[0] == "numpy":
        return f"`{name}` is still NumPy's"
    return f"`{name}` is still {label(value) if isinstance(value, PLAIN) else f'the same {kind_of(value)}'}"


def kind_of(value: Any) -> str:
    return next((name for kind, name in KINDS.items() if isinstance(value, kind)), "object")
