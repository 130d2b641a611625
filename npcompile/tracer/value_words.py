"""What guards say in words, of each value together: `x: float64 array of shape (5, 9), C-contiguous`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from npcompile.tensor_core.guards import (
    Axis,
    Binds,
    Equals,
    Flags,
    Guard,
    Keeps,
    Layout,
    Length,
    OfDType,
    OfType,
    Ordered,
    Truth,
    parts_of,
)
from npcompile.tensor_core.source import Attribute, Bound, Item, Literal, Source
from npcompile.tracer.guard_words import Say, counted_items, sentence, spoken
from npcompile.tracer.integer_guards import Interval, interval_of

C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400  # of ndarray.flags.num


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
