"""The entry: the function that `compile` returns. Its code hands the arguments on to what is compiled, or to the user's."""

from __future__ import annotations

import functools
import linecache
import sys
import threading
import timeit
import types
import weakref
from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

import numpy as np

from npcompile.backends.entering import ENTERING, FastPaths, names_of_tools, slot_number, words_of
from npcompile.checking import checked
from npcompile.switch import SWITCH, TOOLS, Switch, runs_plain
from npcompile.tensor_core.user_warnings import GENERATED
from npcompile.tracer.bytecode.aside import Others, taking_an_item
from npcompile.tracer.bytecode.given_code import is_profiled
from npcompile.tracer.bytecode.parameters import Parameters
from npcompile.tracer.bytecode.tracebacks import UNCOUNTED, generated_name, hide_frames
from npcompile.tracer.faults import is_fault
from npcompile.tracer.parts import SIZED, Types

TIMED = 50  # calls that are timed together


class Counts(chain):  # type: ignore[type-arg]
    """What the code of a function that has stepped aside takes an item of in each call."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return repeat, (0,)  # what is unpickled has its first code, or stays as it is


class Refill:
    """The iterators of Counts: after as many items as calls are not timed the entry enters what times the next."""

    __slots__ = ("handle", "is_begun")

    def __init__(self, current: Current) -> None:
        self.handle, self.is_begun = Handle(current), False

    def __iter__(self) -> Refill:
        return self

    def __next__(self) -> Any:
        current = self.handle()
        if current is None:
            return repeat(0)
        self.is_begun = not self.is_begun
        if self.is_begun:
            return repeat(0, current.calls - 1)
        current.ask_again()
        return repeat(0, 1)  # the call that asks


class Current:
    """What an entry enters, which `reset` replaces: one CompiledFunction after another. The entry's `__dict__` holds it."""

    __slots__ = (
        "__weakref__", "aside", "aside_for", "calls", "compiled", "enter", "first_stub", "is_native", "fast_stub", "fast_paths",
        "lock", "stub", "user", "words",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lock = threading.RLock()  # around what changes what is entered; who holds it takes no other
        self.compiled: Any = None  # the CompiledFunction
        self.stub: Any = None  # code of the entry that enters
        self.fast_stub: Any = None  # the same that takes a fast path first
        self.fast_paths: FastPaths | None = None  # around what is entered
        self.words: Any = None  # of these, where the entry takes them
        self.aside: Any = None  # its code where the function runs as it is: the user's
        self.aside_for: tuple[Any, ...] | None = None  # the types that it is for, and how it enters for others; None: for all
        self.first_stub: Any = None  # the same before that asked natively: other functions may have been given it
        self.is_native = False  # does it ask natively?
        self.calls = 1  # that are not timed, once it has stepped aside
        self.enter: Callable[..., Any]  # its dispatch, whose calls may be checked
        self.user: types.FunctionType  # what runs where nothing compiled may; profilers of lines give it other code

    def be(self, compiled: Any, known: Any) -> None:
        """Enter `compiled` instead of `known`, which it may be itself, by its latest dispatch; if that was replaced, nothing.

        While this runs, other threads may find an `enter` and a `compiled` that do not belong together.
        """
        with self.lock:
            if self.compiled is not known:
                return
            if is_other := compiled is not known:
                self.compiled = compiled
            self.enter = checked(compiled, compiled.entered, getattr(self, "enter", None))
            start = next(iter(compiled.points.values()), None)
            self.fast_paths = None if start is None or not compiled.is_switched else start.fast_paths
            self.words = None if self.fast_paths is None else self.fast_paths.words
            is_left = is_other or not compiled.is_measured
            if is_left or self.aside_for is not None:
                self.come_back()
            if is_left:
                self.aside, self.aside_for = None, None
            self.user = compiled.user
            if self.stub is not None and not self.is_native and native_question() is not None:
                self.make_stub()
            self.choose_stub()
            self.stay_with(compiled)

    def stay_with(self, compiled: Any) -> None:
        """Undo what was just done for `compiled` if a handler of signals has replaced it meanwhile."""
        if self.compiled is not compiled:
            self.be(self.compiled, self.compiled)

    def lead_to(self, compiled: Any, enter: Callable[..., Any]) -> None:
        """Let calls of `compiled` begin with `enter`, if it was not replaced."""
        with self.lock:
            if self.compiled is compiled:
                self.enter = enter
                self.choose_stub()
                self.stay_with(compiled)

    def choose_stub(self) -> None:
        """Let the entry take a fast path first where one leads around what it enters."""
        if self.stub is not None and self.enters:
            self.compiled.entry.__code__ = self.entering_code()

    @property
    def enters(self) -> bool:
        """Has the entry code that enters? Not where it is the user's own, or was given other code."""
        code = self.compiled.entry.__code__
        return code is self.stub or code is self.fast_stub

    @property
    def asks_types(self) -> bool:
        """May its code ask for types of arguments? Not without a backend that does it."""
        return ENTERING.npc_is_of_kind is not None

    @property
    def is_fast(self) -> bool:
        """Does a fast path lead around what it enters?"""
        is_around = self.fast_paths is not None and self.fast_paths.enter is self.enter
        return is_around and self.is_native and ENTERING.npc_fast_path is not None

    def entering_code(self) -> types.CodeType:
        """The code of the entry while it enters."""
        if not self.is_fast:
            return self.stub  # type: ignore[no-any-return]
        if self.fast_stub is None:
            compiled = self.compiled
            self.fast_stub = entry_code(compiled.code, compiled.parameters, Handle(self), compiled.is_switched, is_fast=True)
        return self.fast_stub  # type: ignore[no-any-return]

    def entering_function(self) -> types.FunctionType:
        """A function that does the same, called with a value for each parameter.

        Code holds it, so nothing that it holds may lead back to the entry.
        """
        compiled, is_fast = self.compiled, self.is_fast
        code = entry_code(compiled.code, compiled.parameters, Handle(self), compiled.is_switched, is_fast, is_inside=True)
        return types.FunctionType(code, {})

    def others_than(self, kinds: tuple[Types, ...]) -> Others:
        """Calls with arguments of other types. All are counted where arguments of these types may be larger than so far."""
        are_counted_alone = SIZED.isdisjoint(chain(*kinds))
        assert ENTERING.npc_is_of_kind is not None
        return Others(ENTERING.npc_is_of_kind, words_of(kinds), self.entering_function(), are_counted_alone)

    def make_stub(self) -> None:
        """Make the code that enters; where the entry has it, give it the new one."""
        compiled, before = self.compiled, self.stub
        self.first_stub = before
        self.stub = entry_code(compiled.code, compiled.parameters, Handle(self), compiled.is_switched)
        self.is_native = native_question() is not None
        if before is None or compiled.entry.__code__ is before:
            compiled.entry.__code__ = self.stub

    def step_aside(self, compiled: Any, calls: int, kinds: tuple[Types, ...] | None = None) -> bool:
        """Let the entry be the user's own code, until it was called so often; for good where that is too long to be compiled.

        So it is for arguments of the types `kinds`, if they are given; others enter what is compiled. False where nothing is
        done: a profiler of lines, which may trace any call, knows other code.
        """
        with self.lock:
            if self.compiled is not compiled or is_profiled(self.user, compiled.code):
                return False
            self.calls = calls
            is_ours = self.enters or compiled.entry.__code__ is self.aside
            made_for = None if kinds is None else (kinds, self.is_fast, self.is_native)
            if self.aside is None or self.aside_for != made_for:
                code = compiled.python.__code__
                if compiled.is_too_long:
                    self.aside = code.replace(co_consts=(*code.co_consts, Handle(self)))
                else:
                    others = None if kinds is None else self.others_than(kinds)
                    self.aside = taking_an_item(code, Counts.from_iterable(Refill(self)), Handle(self), others)
                self.aside_for = made_for
            if is_ours:
                compiled.entry.__code__ = self.aside
            self.stay_with(compiled)
            return True

    def come_back(self) -> None:
        """Let the entry enter what is compiled again."""
        if self.aside is not None and self.compiled.entry.__code__ is self.aside:
            self.compiled.entry.__code__ = self.entering_code()

    def ask_again(self) -> None:
        """Let the next call enter what decides whether the function runs compiled."""
        if self.aside_for is None:
            self.come_back()
        else:
            self.be(self.compiled, self.compiled)

    def __reduce__(self) -> tuple[Any, ...]:
        return Current, (), self.compiled  # as state: it leads back here

    def __setstate__(self, compiled: Any) -> None:
        self.be(compiled, None)


class Handle(weakref.ref):  # type: ignore[type-arg]
    """What the code of an entry holds of what it enters, a Current.

    A constant of the code, so that code put into another function, as IPython's autoreload does, brings with it what is
    compiled. Weak, as the garbage collector does not look into code.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Handle, (self(),)


def make_entry(user: types.FunctionType, parameters: Parameters, current: Current, is_switched: bool) -> types.FunctionType:
    """A function of the user's signature, names and globals."""
    current.stub = entry_code(user.__code__, parameters, Handle(current), is_switched)
    entry = types.FunctionType(current.stub, user.__globals__, user.__name__, user.__defaults__, user.__closure__)
    entry.__kwdefaults__ = user.__kwdefaults__
    functools.update_wrapper(entry, user)
    entry.__npcompile_original__ = user  # type: ignore[attr-defined]
    entry.__npcompile__ = current  # type: ignore[attr-defined]
    return entry


def entry_code(
    code: types.CodeType,
    parameters: Parameters,
    handle: Handle,
    is_switched: bool,
    is_fast: bool = False,
    is_inside: bool = False,
) -> types.CodeType:
    """The entry's code, or that of a function inside it, which has positional parameters alone.

    Its objects are constants, so that no name of it is looked up in the user's globals.
    """
    asks_natively = native_question()
    free = () if is_inside else code.co_freevars
    lines, made = entry_text(parameters, is_switched, asks_natively is not None, len(free), is_fast, is_inside)
    filename = generated_name(code, "entry")
    linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
    held: dict[Any, Callable[..., Any] | Any] = {
        "handle": handle,
        "entered": asks_natively,
        "fast_path": ENTERING.npc_fast_path,
        "switch": SWITCH,
        "gettrace": sys.gettrace,
        "runs_plain": runs_plain,
        "hide_frames": hide_frames,
    }
    constants = tuple(held.get(c, c) for c in made.co_consts)
    made = made.replace(co_consts=constants, co_freevars=free, co_filename=filename)
    return made.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def native_question() -> Callable[..., Any] | None:
    """What gives what an entry enters, and None where `runs_plain` is to be asked; None without a backend that has it."""
    if ENTERING.begin is not None and ENTERING.npc_entered is not None:
        current, switch, tools = Current(), Switch(), TOOLS
        current.enter, current.words, switch.is_asked = marks = object(), object(), object()  # type: ignore[assignment]
        slots = [slot_number(switch, marks[2]), *(slot_number(current, mark) for mark in marks[:2]), names_of_tools()]
        ENTERING.begin(np.array(slots, np.int64), SWITCH, None, False, is_fault, sys.gettrace, SWITCH.get_tool, *tools)
        ENTERING.begin = None
    return ENTERING.npc_entered


@functools.cache
def entry_text(
    parameters: Parameters, is_switched: bool, is_native: bool, free: int, is_fast: bool, is_inside: bool
) -> tuple[list[str], types.CodeType]:
    """Lines in which strings stand for the objects, and their code: the same for all functions of these parameters.

    Python warns where a string is called, but not of a choice, though it knows which it is. What each call goes through is on the
    stack alone, in no variable.
    The code has `free` free variables. It reads none, but its frames hold their cells, as CPython assumes where somebody reads
    `f_locals`.
    """
    call, ask, found = (f"_{name}{'_' * max(map(len, ('', *parameters.names)))}" for name in ("call", "ask", "found"))
    traced = [f"{call}() is not None", *(f"{ask}({k}) is not None" for k in TOOLS)]
    switched = [
        f"        {call} = 'gettrace'",
        *([f"        {ask} = 'switch'.get_tool"] if TOOLS else []),
        f"        if 'switch'.is_asked or {' or '.join(traced)}:",
        f"            {call} = 'runs_plain'",
        f"            if {call}():",
        f"                {found} = 'handle'",
        f"                return {found}().user({parameters.handed_on(parameters.names)})",
    ]
    entered = [*(switched if is_switched else []), f"        {found} = 'handle'", f"        {call} = {found}().enter"]
    if is_switched and is_native:
        asked = [f"        {found} = 'handle'", f"        {call} = 'entered'", f"        {call} = {call}({found})"]
        entered = [*asked, f"        if {call} is None:", *(f"    {line}" for line in entered)]
    if is_fast:
        handle, fast_path = (f"({name!r} if True else 0)" for name in ("handle", "fast_path"))
        given = f"({call} := {fast_path}({', '.join([handle, *parameters.names])}))"
        entered = [f"        if {given} is not {handle}:", f"            return {call}", *entered]
    lines = [
        f"def entry({', '.join(parameters.names) if is_inside else parameters.signature}):",
        "    try:",
        *entered,
        f"        return {call}({', '.join(parameters.names)})",
        "    except:",
        f"        {call} = 'hide_frames'",
        f"        {call}()",
        "        raise",
    ]
    if free:
        cells = ", ".join(f"_cell{k}_{call}" for k in range(free))
        around = ["def outer():", f"    {cells} = range({free})" if free > 1 else f"    {cells} = None"]
        lines = [*around, *(f"    {line}" for line in [lines[0], f"    if 0: {cells}", *lines[1:]])]
    source = "\n".join([*lines, ""])
    made = compile(source, GENERATED, "exec")
    for _ in range(2 if free else 1):
        (made,) = (c for c in made.co_consts if isinstance(c, types.CodeType))
    return source.splitlines(True), made


@functools.cache
def handing_on(parameters: Parameters) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes of a function one that calls it with a value for each parameter: the same for all of these parameters."""
    call = f"_call{'_' * max(map(len, ('', *parameters.names)))}"
    names = parameters.names
    text = f"def hand_on({call}):\n    return lambda {', '.join(names)}: {call}({parameters.handed_on(names)})\n"
    filename = f"{GENERATED}handing on, {UNCOUNTED}>"
    scope: dict[str, Any] = {}
    exec(compile(text, filename, "exec"), scope)
    made: Callable[[Callable[..., Any]], Callable[..., Any]] = scope["hand_on"]
    return made


@functools.cache
def overheads() -> tuple[float, float]:
    """Seconds that an entry adds to what it enters, and a function that hands its arguments on to what it calls."""

    def direct(first: Any) -> Any:
        return first

    def called(function: Callable[..., Any]) -> float:
        return min(timeit.repeat(lambda: function(0), number=TIMED, repeat=TIMED)) / TIMED

    def plain(first: Any) -> Any:
        return direct(first)

    assert isinstance(direct, types.FunctionType)
    current = Current()
    current.enter = current.user = direct
    entry = make_entry(direct, Parameters.of(direct.__code__), current, True)
    least = called(direct)
    return max(called(entry) - least, 0.0), max(called(plain) - least, 0.0)


def compiled_function(function: Any) -> Any:
    """What is compiled for a function that `compile` returned: a CompiledFunction. None for others.

    As its code says: the attributes may be those of another function, under functools.wraps for one.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    current = next((c() for c in code.co_consts if type(c) is Handle), None)
    return None if current is None else current.compiled


def plain_function(function: Any) -> Any:
    """What a function was made of by `compile`; itself, if it was not or holds other code since."""
    known = compiled_function(function)
    if known is not None:
        return known.user
    return function if hasattr(function, "__npcompile__") else getattr(function, "__npcompile_original__", function)


def copied(function: types.FunctionType) -> types.FunctionType:
    """Another function of the same parts, which stay when the first is given others."""
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made


def wrapped_behind(function: Any) -> Any:
    """What a function that `wrap_numpy` made runs, None for others: those made by functools.wraps have its attributes."""
    wrapped = getattr(function, "__npcompile_wrapped__", None)
    return wrapped if wrapped is not None and wrapped.outside is function else None


def as_found(function: Any) -> Any:
    """What pickle finds under a function's name, if that was made of the function: the compiled one of a decorated function.

    Those of `__main__` are pickled by value, if at all.
    """
    module = getattr(function, "__module__", None)
    found: Any = None if module == "__main__" else sys.modules.get(module or "")
    for name in getattr(function, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found if plain_function(found) is function else function
