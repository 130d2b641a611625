"""Exceptions that captured code raises and handles itself: control that is known while capturing.

One that nobody in the program handles is raised natively, by the user's own code, and so is one that is kept: its traceback,
context and cause are what Python makes of it.
"""

from __future__ import annotations

from typing import Any, NoReturn

from npcompile.tensor_core.meta import Decline
from npcompile.tracer.guard_words import text_of_value
from npcompile.tracer.values import Constant, ExceptionValue, Sequence, TracebackValue

# Their constructors look at more than the number of arguments.
WITH_CONSTRUCTORS = (OSError, ImportError, UnicodeError, SyntaxError, BaseExceptionGroup)


class Raises(Decline):
    """What captured code raises here. Where no handler of the program is in sight, it declines as any other."""

    def __init__(self, value: ExceptionValue, reason: str = ""):
        arguments = ", ".join(text_of_value(a.value) if isinstance(a, Constant) else "..." for a in value.arguments)
        super().__init__(reason or f"{value.kind.__qualname__}({arguments}) is raised")
        self.value = value


def raises(kind: type[BaseException], *arguments: Any) -> Raises:
    """The exception that Python raises here, with constant arguments."""
    return Raises(ExceptionValue(kind, [Constant(a) for a in arguments]), f"{kind.__name__}: {', '.join(map(str, arguments))}")


def raise_again(error: Exception) -> NoReturn:
    """What Python raised when it computed with constants is what the program raises."""
    reason = f"{type(error).__name__}: {error}"
    if is_plain(type(error)) and all(isinstance(a, (str, int, float, type(None))) for a in error.args):
        raise Raises(ExceptionValue(type(error), [Constant(a) for a in error.args]), reason) from None
    raise Decline(reason) from None


def is_exception(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def is_plain(kind: type[BaseException], groups: bool = False) -> bool:
    """Does making one run no code of the user's, and keep the arguments as they are?"""
    makers = ((vars(c)[name], c) for name in ("__new__", "__init__") for c in kind.__mro__ if name in vars(c))
    is_special = issubclass(kind, WITH_CONSTRUCTORS) and not (groups and issubclass(kind, BaseExceptionGroup))
    return type(kind) is type and not is_special and all(c.__module__ == "builtins" for _, c in makers)


def make(kind: type[BaseException], positional: list[Any], keywords: dict[str, Any]) -> ExceptionValue:
    """`kind(*positional, **keywords)`"""
    if keywords or not is_plain(kind):
        raise Decline(f"{kind.__qualname__} has a constructor of its own")
    return ExceptionValue(kind, list(positional))


def raised(value: Any, cause: Any = None) -> Raises:
    """`raise value from cause`"""
    made = [make(v.value, [], {}) if isinstance(v, Constant) and is_exception(v.value) else v for v in (value, cause)]
    if not isinstance(made[0], ExceptionValue):
        raise Decline("an exception that was not made here is raised")
    is_cause = made[1] is None or isinstance(made[1], ExceptionValue) or isinstance(made[1], Constant) and made[1].value is None
    if not is_cause:
        raise Decline("an exception is raised from an object")
    if cause is not None:
        made[0].cause = made[1] if isinstance(made[1], ExceptionValue) else None
    return Raises(made[0])


def set_context(value: ExceptionValue, handled: list[ExceptionValue]) -> None:
    """An exception is raised while another one is handled: `value.__context__`."""
    if not handled or handled[-1] is value:
        return
    each = handled[-1]
    while each.context is not None and each.context is not value:
        each = each.context
    each.context, value.context = None, handled[-1]


def out_of_generator(raised: Raises) -> Raises:
    """What a generator raises where an exception leaves it: https://peps.python.org/pep-0479/."""
    value = raised.value
    if not issubclass(value.kind, StopIteration):
        return raised
    made = raises(RuntimeError, "generator raised StopIteration")
    made.value.cause = made.value.context = value
    made.value.raised_at, made.value.location = value.raised_at, value.location
    return made


def matches(value: Any, kinds: Any) -> bool:
    """Does `except kinds` handle the exception?"""
    if not isinstance(value, ExceptionValue) or not all(map(is_exception, kinds if isinstance(kinds, tuple) else (kinds,))):
        raise Decline("an exception is compared with what is not a class of exceptions")
    return issubclass(value.kind, kinds)


def text_of(capture: Any, value: ExceptionValue) -> Constant:
    """`str(error)`, for arguments that are constants and classes without a `__str__` of the user's."""
    owner = next(c for c in value.kind.__mro__ if "__str__" in vars(c))
    arguments = [capture.realize(a) for a in value.arguments]
    is_known = all(isinstance(a, Constant) and isinstance(a.value, (str, int, float, bool, type(None))) for a in arguments)
    if owner.__module__ != "builtins" or not is_known:
        raise Decline("the text of an exception")
    return Constant(str(value.kind(*(a.value for a in arguments))))


def load(value: ExceptionValue, name: str) -> Any:
    """`error.args`; what Python notes on an exception while it is raised is not known here."""
    has_own = any("args" in vars(c) for c in value.kind.__mro__ if c.__module__ != "builtins")
    if name == "args" and not has_own and not issubclass(value.kind, BaseExceptionGroup):
        return Sequence(tuple, list(value.arguments))
    if name in ("__cause__", "__context__"):
        return getattr(value, name.strip("_")) or Constant(None)
    if name == "__traceback__" and value.raised_at is not None:
        return TracebackValue(value)
    if name == "value" and value.kind is StopIteration:
        return value.arguments[0] if value.arguments else Constant(None)
    raise Decline(f"attribute {name!r} of an exception")


def store(value: ExceptionValue, name: str, given: Any) -> None:
    """`error.__traceback__ = traceback`, which nobody sees of an exception that the program handles."""
    if name == "__context__" and isinstance(given, ExceptionValue) or isinstance(given, Constant) and given.value is None:
        value.context = given if isinstance(given, ExceptionValue) else None
        return
    if name != "__traceback__" or not isinstance(given, TracebackValue) or given.error is not value:
        raise Decline(f"attribute {name!r} of an exception is set")
