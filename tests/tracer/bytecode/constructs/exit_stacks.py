"""contextlib.ExitStack and other managers of the library, and collections.deque, of which it is made."""

from __future__ import annotations

import contextlib
import sys
from collections import deque

import numpy as np

from tests.tracer.bytecode.constructs import construct
from tests.tracer.bytecode.constructs.managers import Refused, closing, handling, refuse


class Scope:
    def __init__(self, log, swallowed=()):
        self.log, self.swallowed = log, swallowed

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(("out", kind and kind.__name__))
        return kind is not None and issubclass(kind, self.swallowed)


class Opened:
    def __init__(self, log):
        self.log = log

    def close(self):
        self.log.append("closed")

    @contextlib.contextmanager
    def scope(self, name):
        self.log.append(name)
        try:
            yield self
        finally:
            self.log.append(name + " end")


# CPython 3.15's ExitStack finds methods by inspect.getattr_static, which asks descriptors of `type`.
BREAKS = {"breaks": 5, "why": "getset_descriptor.__get__"} if sys.version_info >= (3, 15) else {}


@construct("ExitStack", [], **BREAKS)
def stack_of_managers(log, x):
    with contextlib.ExitStack() as stack:
        n = stack.enter_context(closing(log))
        for _ in range(2):
            stack.enter_context(Scope(log))
        stack.callback(log.append, "callback")
        y = np.sin(x) * n
    return y + 1


@construct("ExitStack left by an exception that is swallowed", [], **BREAKS)
def stack_swallows(log, x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(closing(log))
        scale = stack.enter_context(handling(log))
        stack.push(Scope(log))

        @stack.push
        def leave(kind, error, trace):
            log.append((kind and kind.__name__, str(error)))

        x = x * scale
        refuse(x)
        x = x * 100
    return x + 1


@construct("ExitStack whose callback raises", [], **BREAKS)
def stack_raises(log, x):
    def fail():
        raise KeyError("callback")

    try:
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, 1)
            stack.callback(fail)
            stack.enter_context(Scope(log))
            refuse(x)
    except KeyError as error:
        log.append((error.args, type(error.__context__).__name__))
    return x + 1


@construct("ExitStack.pop_all and close", [], **BREAKS)
def stack_is_kept(log, x):
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(closing(log))
        x = x + 1
        kept = stack.pop_all()
    log.append("still open")
    with contextlib.suppress(Refused):
        refuse(x)
    kept.close()
    return x * 2


@construct("break of the graph under an ExitStack", [], breaks=4, why="print, while a generator is begun")
def stack_with_break(log, x):
    with contextlib.ExitStack() as stack:
        n = stack.enter_context(closing(log))
        y = np.sin(x) * n
        print(end="")
        y = np.cos(y) + 1
    return y * 2


@construct("contextlib.closing, and a contextmanager that is a method", [])
def closed(log, x):
    with contextlib.closing(Opened(log)) as opened, opened.scope("first"), opened.scope(name="second") as same:
        x = x * 2
        log.append(same is opened)
    return x


@construct("collections.deque")
def deques(x):
    items = deque([1.0, x])
    items.append(x * 2)
    items.appendleft(2.0)
    items.extend([3.0, 4.0])
    items.extendleft((5.0, 6.0))
    first, last = items.popleft(), items.pop()
    total = x * 0
    for item in items:
        total = total + item
    kept = items.copy()
    while items:
        items.pop()
    try:
        items.popleft()
    except IndexError as error:
        text = str(error)
    return first, last, total, len(kept), bool(items), text, type(kept) is deque, list(kept)


@construct("sys.exception and sys.exc_info")
def handled_exception(x):
    before = sys.exc_info(), sys.exception()
    try:
        refuse(x)
    except Refused as error:
        kind, value, _ = sys.exc_info()
        found = kind is Refused, value is error, sys.exception() is error
    return x + 1, found, before
