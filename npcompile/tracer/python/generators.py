"""Generators of captured code: a frame that runs to its next `yield` when it is asked, and what is thrown into it.

One that has begun is nothing that native code could be given: the graph then ends before it was made. The same where one
with `try` or `with` blocks is never asked to its end: when it is forgotten, Python raises GeneratorExit in it.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable
from typing import Any, Final

from npcompile.tensor_core.meta import Decline
from npcompile.tracer import raising
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.bytecode.versions import RUNNING
from npcompile.tracer.frame import INLINE_DEPTH, Frame, Return, Yielded, running
from npcompile.tracer.python import iteration, operators
from npcompile.tracer.values import (
    Constant,
    ExceptionValue,
    Generator,
    Iterator,
    OutsideMapping,
    OutsideSequence,
    Partial,
    children,
)

Arguments = list[Any]
Keywords = dict[str, Any]


def generator(frame: Frame, inner: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Generator:
    """A generator that runs `inner`. `function(*positional, **keywords)` makes the same one."""
    if asks_when_made(inner.program.code):
        iterator = inner.locals[ITERATED] = iteration.iterator_of(frame.capture, frame.capture.realize(inner.locals[ITERATED]))
        frame.capture.frame = frame
        positional = [iterator, *positional[1:]]
    maker = [Partial(functools.partial, [function, *positional], keywords)] if keywords else [function, *positional]
    made = Generator("lazy", maker, made_at=frame.root.index, frame=inner, bodies=frame.capture.bodies)
    made.has_blocks = has_blocks(inner.program.code)
    made.advance = resume
    return made


def frame_of(made: Generator) -> Frame:
    assert isinstance(made.frame, Frame), made.frame
    return made.frame


ITERATED: Final = ".0"  # what a generator expression is given


@functools.cache
def asks_when_made(code: types.CodeType) -> bool:
    """Is a generator expression given something to iterate over, and not its iterator, as the function around it has it?"""
    before = itertools.takewhile(lambda i: i.traits.defines != "generator", decode(code).instructions)
    return any(i.traits.stack == "iterator" for i in before)


def has_blocks(code: types.CodeType) -> bool:
    """Does a generator have `try` or `with` blocks, other than what CPython puts around all of it?"""
    instructions = decode(code).instructions
    targets = {i.handler.target for i in instructions if i.handler is not None}
    return any(instructions[k].opname not in ("STOPITERATION_ERROR", "CLEANUP_THROW") for k in targets)


def resume(made: Generator, thrown: raising.Raises | None = None) -> Any | None:
    """What the generator yields next, with an exception raised where it stands; None when it has returned."""
    inner = frame_of(made)
    capture, asking = inner.capture, running(inner.capture)
    if capture.bodies != made.bodies:
        capture.require_no_body("a generator goes on")
    native = capture.decisions.native_calls.get(asking.index) if asking.parent is None else None
    if native is not None:
        raise Decline(native.reason, native.hint)
    if made.is_running:
        raise Decline("a generator that is running is asked for an item")
    inner.parent = asking
    if inner.depth >= INLINE_DEPTH:
        raise Decline("calls are nested too deeply")
    if made.has_blocks and made not in capture.begun:
        capture.begun.append(made)
    handled = asking.root.handled
    outside = len(handled)
    handled += made.handled
    made.is_running = True
    try:
        item = throw_into(inner, thrown) if thrown is not None else None
        outcome = inner.run() if item is None else Yielded(item)
    except raising.Raises as raised:
        made.is_exhausted = True
        raise raising.out_of_generator(raised) from None
    finally:
        made.is_running = False
        made.handled = handled[outside:]
        del handled[outside:]
    capture.frame = asking
    if isinstance(outcome, Yielded):
        return outcome.value
    assert isinstance(outcome, Return), outcome
    made.is_exhausted, made.returned = True, outcome.value
    return None


# --- yield from


def begin(value: Any, capture: Any) -> Any:
    """The iterator that `yield from value` asks."""
    return value if isinstance(value, Generator) else iteration.iterator_of(capture, value)


def ask(frame: Frame, delegate: Any, sent: Any) -> Any | None:
    """What `yield from` gets from the iterator, to which a value is sent; None at its end."""
    if not isinstance(delegate, Iterator):
        raise Decline("yield from an iterator from outside")
    if not operators.is_none(sent):
        if not isinstance(delegate, Generator) or not delegate.position:
            raise Decline("a value is sent to what takes none")
        frame_of(delegate).stack[-1] = sent
    had_ended = delegate.is_exhausted
    item = iteration.next_item(frame.capture, delegate)
    if item is None and had_ended and isinstance(delegate, Generator):
        delegate.returned = None
    return item


def end(frame: Frame, delegate: Any) -> None:
    """Put the result of `yield from` where the iterator stands on the stack, or above it for END_SEND."""
    result = delegate.returned if isinstance(delegate, Generator) and delegate.returned is not None else Constant(None)
    if RUNNING.keeps_delegate:
        frame.push(result)
    else:
        frame.stack[-1] = result


def throw_into(inner: Frame, thrown: raising.Raises) -> Any | None:
    """Raise an exception where a generator stands: in what it asks by `yield from`, whose next item this gives, or in itself."""
    instructions = inner.program.instructions
    stands = instructions[inner.index]
    is_delegating = stands.traits.flow == "start" and stands.arg & 3 == 2
    delegate = inner.stack[-2] if is_delegating else None
    if not isinstance(delegate, Generator):
        inner.throw(thrown)
        return None
    inner.index -= 1
    inner.capture.frame = inner
    is_closing = issubclass(thrown.value.kind, GeneratorExit)
    try:
        item = close(delegate) if is_closing else resume(delegate, thrown)
    except raising.Raises as raised:
        inner.index += 1
        inner.throw(raised)
        return None
    inner.index += 1
    if is_closing:
        inner.throw(thrown)
        return None
    if item is not None:
        delegate.position += 1
        return item
    inner.stack.pop()
    end(inner, delegate)
    inner.index = instructions[instructions[inner.index + 1].target].target
    return None


def stop_iteration(ended: Any = None) -> raising.Raises:
    """What an iterator raises that has no more items. A generator that has just `ended` gives what it has returned."""
    value = ended.returned if isinstance(ended, Generator) else None
    is_none = value is None or isinstance(value, Constant) and value.value is None
    return raising.Raises(ExceptionValue(StopIteration, [] if is_none else [value]), "StopIteration")


# --- methods


def item_or_stop(made: Generator, item: Any | None) -> Any:
    if item is None:
        raise stop_iteration(made)
    made.position += 1
    return item


def send(made: Generator, value: Any) -> Any:
    if made.is_exhausted:
        raise stop_iteration()
    value = frame_of(made).capture.realize(value)
    is_none = isinstance(value, Constant) and value.value is None
    if not made.position and not is_none:
        raise Decline("a value is sent to a generator that has just been made")
    if made.position:
        frame_of(made).stack[-1] = value
    return item_or_stop(made, resume(made))


def throw(made: Generator, kind: Any, value: Any = None, traceback: Any = None) -> Any:
    capture = frame_of(made).capture
    given = [capture.realize(v) for v in (kind, value) if v is not None]
    given = [v for v in given if not (isinstance(v, Constant) and v.value is None)]
    if len(given) == 2 and not isinstance(given[1], ExceptionValue):
        raise Decline("an exception that was not made here is thrown into a generator")
    error = raising.raised(given[-1])
    if made.is_exhausted or not made.position:
        made.is_exhausted = True
        try:
            raise error
        finally:
            del error
    return item_or_stop(made, resume(made, error))


def close(made: Generator) -> Any:
    if made.is_exhausted or not made.position:
        made.is_exhausted = True
        return Constant(None)
    asking = running(frame_of(made).capture)
    asking.catches = True  # what comes out of it is looked at here
    try:
        item = resume(made, raising.Raises(ExceptionValue(GeneratorExit, [])))
    except raising.Raises as raised:
        if not issubclass(raised.value.kind, (GeneratorExit, StopIteration)):
            raise
        frame_of(made).capture.frame = asking
        return Constant(None)
    finally:
        asking.catches = False
    if item is not None:
        raise raising.raises(RuntimeError, "generator ignored GeneratorExit")
    return made.returned if RUNNING.returns_when_closed else Constant(None)


def drop(frame: Frame, made: Generator) -> None:
    """A loop over a generator ends early: Python closes one that nothing else refers to."""
    if is_referred_to(frame, made):
        return
    try:
        close(made)
    except raising.Raises as raised:
        raise Decline(f"a generator that is forgotten raises: {raised.reason}") from None
    frame.capture.frame = frame


def is_referred_to(frame: Frame, made: Generator) -> bool:
    pending: list[Any] = []
    frames = [frame, *(frame_of(g) for g in frame.capture.begun)]
    while frames:
        each = frames.pop()
        pending += [*each.stack, *each.locals.values(), *each.cells.values()]
        frames += [each.parent] if each.parent is not None else []
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if value is made:
            return True
        if id(value) not in seen and not is_unread(value):
            seen.add(id(value))
            pending += children(value)
    return False


def is_unread(value: Any) -> bool:
    """Is this something from outside that nobody has looked at? It holds nothing that the program made."""
    return isinstance(value, (OutsideSequence, OutsideMapping)) and not value.is_loaded


METHODS: dict[str, Callable[..., Any]] = {
    "send": send,
    "throw": throw,
    "close": close,
    "__next__": lambda made: send(made, Constant(None)),
}


def call_method(made: Generator, name: str, positional: Arguments, keywords: Keywords) -> Any:
    if keywords:
        raise Decline(f"generator.{name}() takes no keyword arguments")
    try:
        return METHODS[name](made, *positional)
    except TypeError as error:
        raise Decline(str(error)) from None
