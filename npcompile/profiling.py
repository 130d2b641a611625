"""`npcompile.profile`: when what was compiled, called and left to Python, as a trace that Perfetto and Chrome show."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from types import CodeType, FrameType, TracebackType
from typing import Any

from npcompile.tensor_core.events import WATCHERS, Event, text_of
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.user_warnings import GENERATED, is_ours
from npcompile.tracer.bytecode.tracebacks import program_of
from npcompile.tracer.entry import Current, Handle
from npcompile.transforms import TransformedFunction

CALL, PYTHON, NATIVE = "call", "Python", "compiled code"
NATIVE_NAMES = ("npc_item", "npc_run")  # what generated programs call of libraries
NAMES_OF_CODE = ("co_filename", "co_qualname", "co_firstlineno")  # a part of a function has them from the function
ASIDE = "call as it is"  # of a function that has stepped aside
TRANSFORMED = TransformedFunction.__call__.__code__  # one for all functions that are transformed
OMITTED = ("loop IR", "program", "unit")  # what is told for those who want the texts


class OfThread:
    """What is open in one thread."""

    def __init__(self) -> None:
        self.name = threading.current_thread().name
        self.open: list[tuple[FrameType, Event]] = []  # calls, outermost first
        self.native: Event | None = None
        self.depth = 0  # of what is compiled
        self.waits = False  # is nothing looked at meanwhile?


class Profile:
    """What happens in a `with` block: see `profile`.

    events: what has ended so far, in the order of the ends. Each has a `name`, of which function or pass it is (`what`), the
    user's line (`at`), and when it `began` and `ended`, by `time.perf_counter`.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = path
        self.events: list[Event] = []
        self.threads: dict[int, OfThread] = {}
        self.kinds: dict[int, tuple[CodeType, Event | None]] = {}  # by the identity of code, whose constants may have no hash
        self.is_on = False
        self.began = perf_counter()

    def __enter__(self) -> Profile:
        if (other := sys.getprofile()) is not None:
            raise RuntimeError(
                f"npcompile.profile needs sys.setprofile, which {other!r} uses: end that profiler or npcompile.profile first"
            )
        self.is_on, self.began = True, perf_counter()
        WATCHERS.append(self)
        threading.setprofile(self.look)
        sys.setprofile(self.look)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if sys.getprofile() == self.look:
            sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        self.is_on = False
        WATCHERS.remove(self)
        if self.path is not None:
            self.save(self.path)

    @property
    def here(self) -> OfThread:
        number = threading.get_ident()
        found = self.threads.get(number)
        if found is None:
            found = self.threads[number] = OfThread()
        return found

    # --- what is compiled

    def begin(self, event: Event) -> None:
        here = self.here
        here.depth += 1
        if here.depth == 1:
            here.waits = sys.getprofile() == self.look
            if here.waits:
                sys.setprofile(None)

    def end(self, event: Event) -> None:
        self.events.append(event)
        here = self.here
        here.depth -= 1
        if not here.depth and here.waits and self.is_on:
            sys.setprofile(self.look)

    def meet(self, event: Event) -> None:
        if event.name not in OMITTED:
            self.events.append(event)

    # --- calls

    def look(self, frame: FrameType, event: str, of: Any) -> None:
        """What CPython calls at the beginning and end of each call."""
        if not self.is_on:  # a thread goes on after the block
            sys.setprofile(None)
            return
        if event == "call":
            self.enter(frame)
        elif event == "return":
            here = self.here
            if here.open and here.open[-1][0] is frame:
                self.finish(here.open.pop()[1])
        elif event == "c_call":
            if getattr(of, "__name__", "") in NATIVE_NAMES and is_ours(frame.f_code):
                self.here.native = Event(NATIVE, self.what_is_open(), subject=program_of(frame.f_code))
        elif (native := self.here.native) is not None and getattr(of, "__name__", "") in NATIVE_NAMES:
            self.here.native = None
            self.finish(native)

    def enter(self, frame: FrameType) -> None:
        code, here = frame.f_code, self.here
        if id(code) not in self.kinds:
            self.kinds[id(code)] = code, kind_of(code)
        kind = self.kinds[id(code)][1]
        if code is TRANSFORMED:
            kind = call_of(frame.f_locals["self"])
        is_first = bool(here.open) and here.open[-1][1].name != PYTHON  # what Python calls in turn is part of it
        if kind is None or kind.name == PYTHON and not (is_first and self.is_users(frame)):
            return
        at = text_of(Location(code.co_filename, frame.f_lineno)) if kind.name == PYTHON else kind.at
        here.open.append((frame, Event(kind.name, kind.what, at)))

    def is_users(self, frame: FrameType) -> bool:
        """Does a generated program call it, or is it of the function that is called? This package calls others for itself."""
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename.startswith(GENERATED):
            return True
        current = current_of(self.here.open[-1][0].f_code)
        return current is not None and all(getattr(current.compiled.code, n) == getattr(frame.f_code, n) for n in NAMES_OF_CODE)

    def what_is_open(self) -> str:
        here = self.here
        return here.open[-1][1].what if here.open else ""

    def finish(self, event: Event) -> None:
        event.ended = perf_counter()
        self.events.append(event)

    # --- the trace

    def trace(self) -> dict[str, Any]:
        """The events in the trace format of Chrome, as what `json.dump` takes. Times are microseconds since the block began."""
        return {"traceEvents": [*self.lines()], "displayTimeUnit": "ns"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON. Replaces the file. Raises OSError where it cannot be written."""
        import json  # here: importing npcompile alone does not need it

        Path(path).write_text(json.dumps(self.trace()), encoding="utf-8")

    def lines(self) -> Iterator[dict[str, Any]]:
        process = os.getpid()
        about: dict[str, Any] = {"ph": "M", "pid": process}
        yield about | {"name": "process_name", "tid": 0, "args": {"name": "npcompile"}}
        for number, thread in self.threads.items():
            yield about | {"name": "thread_name", "tid": number, "args": {"name": thread.name}}
        for k, event in enumerate(sorted(self.events, key=lambda each: (each.began, -each.ended))):
            args = {**event.about} | ({"line": event.at} if event.at else {})
            line: dict[str, Any] = {
                "name": f"{event.name} {event.what}".rstrip(),
                "cat": event.name,
                "pid": process,
                "tid": event.thread,
                "ts": self.microseconds(event.began),
                "args": args,
            }
            if event.is_beside:  # on a line of its own: the thread does something else meanwhile
                yield line | {"ph": "b", "id": k}
                yield line | {"ph": "e", "id": k, "ts": self.microseconds(event.ended), "args": {}}
            elif event.ended == event.began:
                yield line | {"ph": "i", "s": "t"}
            else:
                yield line | {"ph": "X", "dur": self.microseconds(event.ended) - line["ts"]}

    def microseconds(self, time: float) -> float:
        return (time - self.began) * 1e6


def kind_of(code: CodeType) -> Event | None:
    """An event for calls of some code; None where these are not looked at."""
    if (current := current_of(code)) is None:
        return None if is_ours(code) else Event(PYTHON, code.co_qualname)
    user = current.compiled.code
    return Event(CALL if is_ours(code) else ASIDE, user.co_qualname, beginning(user))


def call_of(transformed: TransformedFunction) -> Event:
    code = getattr(transformed.function, "__code__", None)
    name = getattr(transformed.function, "__qualname__", repr(transformed.function))
    return Event(CALL, f"{transformed.kind} of {name}", "" if code is None else beginning(code))


def beginning(code: CodeType) -> str:
    return text_of(Location(code.co_filename, code.co_firstlineno))


def current_of(code: CodeType) -> Current | None:
    """What an entry with this code enters; None for other code."""
    handle = next((c for c in code.co_consts if type(c) is Handle), None)
    current = None if handle is None else handle()
    return None if current is None or current.compiled is None else current


def profile(path: str | os.PathLike[str] | None = None) -> Profile:
    """Record what npcompile does in a `with` block: a trace for https://ui.perfetto.dev or chrome://tracing.

    Parameters
    ----------
    path
        Where the trace is written, as JSON, when the block ends, also by an exception; None: nowhere.

    Returns
    -------
    Profile
        A context manager. `events` has what has ended, `trace()` the same for `json.dump`, `save(path)` writes it.

    Raises
    ------
    RuntimeError
        When the block begins while another profiler runs in this thread, `cProfile` for one, or another `profile`.
    OSError
        When it ends, and the file cannot be written.

    Notes
    -----
    These are recorded, each with its thread and the user's line:

    ================= ===========================================================================================================
    event             from the beginning to the end of
    ================= ===========================================================================================================
    call              a call of a compiled function, or of a transformed one, and of those that npcompile makes of it (`grad_f`)
    call as it is     the same of a function that has stepped aside, so that Python runs it
    compiled code     a call of a graph or loop within, by a generated program; a call that is nothing else has no such part
    Python            what Python ran in a call: the rest of a function after a break, or what that calls
    capture           making a program, with all that follows until "load"
    pass, schedule    what is done to a graph or a program of loops; `print` writes its C
    compile graph     all that a backend does
    wait for the C    of a call, for processes that make libraries
    compiler
    C compiler        such a process, which runs beside the thread
    load              loading a library
    break, side exit  a moment: a graph ends, or a loop is left, at this line
    ================= ===========================================================================================================

    Calls are seen in the thread that enters the block, and in threads that begin within. Functions stay compiled, but each call
    in Python takes about a microsecond longer. Without a block nothing does: `sys.setprofile` is not in use then.

    Examples
    --------
    >>> import numpy as np, npcompile as npc
    >>> f = npc.compile(lambda x: np.exp(x) + 2)
    >>> with npc.profile() as p:
    ...     y = f(np.zeros(3))
    >>> [event.name for event in p.events if event.name in ("capture", "call")]
    ['capture', 'call']
    """
    return Profile(path)
