"""Groups of exceptions that captured code makes, splits and handles: https://peps.python.org/pep-0654/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npcompile.tensor_core.meta import Decline
from npcompile.tracer import raising
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import forward, operators
from npcompile.tracer.values import Constant, ExceptionValue, Sequence

Parts = tuple[ExceptionValue | None, ExceptionValue | None]  # of a group: what is asked for, and the rest


def is_group(kind: Any) -> bool:
    return raising.is_exception(kind) and issubclass(kind, BaseExceptionGroup)


def make(frame: Frame, kind: type[BaseException], positional: list[Any], keywords: dict[str, Any]) -> ExceptionValue:
    """`kind(message, exceptions)`"""
    if keywords or len(positional) != 2 or not raising.is_plain(kind, groups=True):
        raise Decline(f"{kind.__qualname__} has a constructor of its own")
    message, given = map(frame.capture.realize, positional)
    if not isinstance(message, Constant) or type(message.value) is not str or not isinstance(given, Sequence):
        raise Decline(f"arguments of {kind.__qualname__}")
    return of(kind, message.value, [frame.capture.realize(v) for v in given.items], given.kind)


def of(kind: type[BaseException], message: str, members: list[Any], given_as: type = tuple) -> ExceptionValue:
    """A group as the class makes it; one of BaseExceptionGroup is an ExceptionGroup where its members allow."""
    if not members or not all(isinstance(m, ExceptionValue) for m in members) or given_as not in (list, tuple):
        raise Decline("a group of what are not exceptions made here")
    are_exceptions = all(issubclass(m.kind, Exception) for m in members)
    if kind is BaseExceptionGroup and are_exceptions:
        kind = ExceptionGroup
    if issubclass(kind, Exception) and not are_exceptions:
        raise Decline(f"{kind.__qualname__} of exceptions that are not an Exception")
    return ExceptionValue(kind, [Constant(message), Sequence(given_as, list(members))])


def message_of(group: ExceptionValue) -> str:
    return str(group.arguments[0].value)


def members_of(group: ExceptionValue) -> list[ExceptionValue]:
    return list(group.arguments[1].items)


def derived(group: ExceptionValue, members: list[ExceptionValue]) -> ExceptionValue | None:
    """The part of the group that has these members, with its traceback, cause and context."""
    if not members:
        return None
    owner = next(c for c in group.kind.__mro__ if "derive" in vars(c))
    if owner is not BaseExceptionGroup:
        raise Decline(f"{group.kind.__qualname__}.derive is the user's")
    made = of(BaseExceptionGroup, message_of(group), members)
    made.origin = group.origin or group
    made.cause, made.context = group.cause, group.context
    made.raised_at, made.location = group.raised_at, group.location
    return made


def split(value: ExceptionValue, matches: Callable[[ExceptionValue], bool]) -> Parts:
    """The exceptions in `value` that match, and the others."""
    if matches(value):
        return value, None
    if not is_group(value.kind):
        return None, value
    parts = [split(member, matches) for member in members_of(value)]
    found, rest = ([p for p in side if p is not None] for side in zip(*parts))
    return derived(value, found), derived(value, rest)


# --- except*


def match(value: Any, kinds: Any) -> Parts:
    """What `except* kinds` handles of the exception, as a group, and what it leaves."""
    if not isinstance(value, ExceptionValue):  # None: the clauses before have handled all of it
        return None, None
    if any(map(is_group, kinds if isinstance(kinds, tuple) else (kinds,))):
        raise Decline("catching ExceptionGroup with except* is not allowed")
    if not is_group(value.kind):
        if not raising.matches(value, kinds):
            return None, value
        made = of(BaseExceptionGroup, "", [value])
        made.raised_at, made.location = value.raised_at, value.location
        return made, None
    return split(value, lambda each: raising.matches(each, kinds))


def left_to_raise(original: ExceptionValue, raised: list[Any]) -> ExceptionValue | None:
    """What is raised after the `except*` clauses, which have `raised` these, and have left the last of them."""
    if not is_group(original.kind):
        return raised[0] if isinstance(raised[0], ExceptionValue) else None
    errors = [e for e in raised if isinstance(e, ExceptionValue)]
    again = [e for e in errors if (e.origin or e) is (original.origin or original)]
    new = [e for e in errors if not any(e is a for a in again)]
    kept = {id(leaf) for e in again for leaf in leaves(e)}
    rest, _ = split(original, lambda each: id(each) in kept)
    if not new:
        return rest
    new += [rest] if rest is not None else []
    if len(new) == 1:
        return new[0]
    made = of(BaseExceptionGroup, "", new)
    first = min(new, key=lambda e: e.raised_at or 0)
    made.raised_at, made.location = first.raised_at, first.location
    return made


def leaves(value: ExceptionValue) -> list[ExceptionValue]:
    return [leaf for member in members_of(value) for leaf in leaves(member)] if is_group(value.kind) else [value]


# --- attributes and methods


def load(group: ExceptionValue, name: str) -> Any:
    """`group.message` and `group.exceptions`; None for other names."""
    if name == "message":
        return group.arguments[0]
    if name == "exceptions":
        return Sequence(tuple, list(members_of(group)))
    return None


def text_of(group: ExceptionValue) -> str:
    count = len(members_of(group))
    return f"{message_of(group)} ({count} sub-exception{'s' * (count != 1)})"


def call_method(frame: Frame, group: ExceptionValue, name: str, positional: list[Any], keywords: dict[str, Any]) -> Any:
    if len(positional) != 1 or keywords:
        raise Decline(f"arguments of {name}() of a group of exceptions")
    asked = frame.capture.realize(positional[0])
    if name == "derive":
        return derive(group, [frame.capture.realize(v) for v in asked.items] if isinstance(asked, Sequence) else [])

    def holds(each: ExceptionValue) -> bool:
        answer = operators.truth(frame.capture, forward.call_function(frame.capture, asked, [each]))
        if not isinstance(answer, Constant):
            raise Decline(f"{name}() by array data")
        return bool(answer.value)

    is_of_kinds = isinstance(asked, Sequence) or isinstance(asked, Constant) and isinstance(asked.value, type)
    kinds = operators.plain(frame.capture, asked) if is_of_kinds else None
    found, rest = split(group, holds if kinds is None else lambda each: raising.matches(each, kinds))
    if name == "subgroup":
        return found or Constant(None)
    return Sequence(tuple, [found or Constant(None), rest or Constant(None)])


def derive(group: ExceptionValue, members: list[Any]) -> ExceptionValue:
    """A new group with the same message, and nothing else of it."""
    owner = next(c for c in group.kind.__mro__ if "derive" in vars(c))
    if owner is not BaseExceptionGroup:
        raise Decline(f"{group.kind.__qualname__}.derive is the user's")
    return of(BaseExceptionGroup, message_of(group), members)


METHODS = ("split", "subgroup", "derive")
