"""`config.debug_dir`: what was made of each compiled function, as files: graphs, guards, loop IR, C, its compiler's messages."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from npcompile.backends.background import NotYet
from npcompile.explain import account
from npcompile.settings import after_change, config
from npcompile.tensor_core.events import WATCHERS, Event
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.user_warnings import warn_once
from npcompile.tracer.value_words import words
from npcompile.tracer.variant import Variant

LONGEST = 120  # characters of a folder's name
FOUND = "It was found in the cache: no compiler has run."


@dataclass(slots=True)
class Unit:
    """How one translation unit of C became a library."""

    command: str
    messages: str | None = None  # None: no compiler has run


@dataclass(slots=True)
class Found:
    """What one capture has made so far."""

    code: CodeType
    at: str
    loops: list[str] = field(default_factory=list)  # programs of the loop IR, as text
    units: dict[str, Unit] = field(default_factory=dict)  # by source
    made: list[tuple[Any, Variant]] = field(default_factory=list)  # Point and program

    def files(self) -> Iterator[tuple[str, str]]:
        """Their names and texts."""
        for point, variant in self.made:
            told = [f"A program for calls that come to {point.location} with:"]
            told += [f"    {line}" for line in words(variant.guards, point.users_names)] or ["    any arguments"]
            told += [f"It ends at a break: {variant.reason}"] * (variant.reason is not None)
            yield "guards.txt", "\n".join(told)
            yield "program.py", "\n".join(variant.body)
            if variant.graph is not None:
                yield "graph.txt", str(variant.graph)
            if variant.compiled is not None and variant.compiled.generated:
                yield "generated.txt", variant.compiled.generated
        for k, text in enumerate(self.loops):
            yield f"loop_ir_{k}.txt", text
        for k, (source, unit) in enumerate(self.units.items()):
            yield f"unit_{k}.c", source
            said = FOUND if unit.messages is None else unit.messages or "It said nothing."
            yield f"unit_{k}_compiler.txt", f"unit_{k}.c is the standard input of:\n{unit.command}\n\n{said}"


class Captures(threading.local):
    """Those that are under way in a thread, outermost first."""

    def __init__(self) -> None:
        self.found: list[Found] = []


class Folders:
    """Writes what it is told of."""

    def __init__(self) -> None:
        self.here = Captures()
        self.waiting: dict[int, Found] = {}  # for a compiler that runs beside the program, by the identity of the code
        self.numbers: Counter[Path] = Counter()  # of programs in each folder
        self.lock = threading.Lock()

    def update(self) -> None:
        """Do what `config.debug_dir` says."""
        WATCHERS[:] = [each for each in WATCHERS if each is not self]
        if config.debug_dir is not None:
            WATCHERS.append(self)

    def begin(self, event: Event) -> None:
        if event.name == "capture":
            known = self.waiting.pop(id(event.subject), None)
            self.here.found.append(known or Found(event.subject, event.at))

    def end(self, event: Event) -> None:
        if event.name != "capture" or not self.here.found:
            return
        found = self.here.found.pop()
        if isinstance(sys.exception(), NotYet):
            self.waiting[id(found.code)] = found
        elif found.made or found.loops or found.units:
            try:
                self.write(found)
            except OSError as error:
                warn_once(f"npcompile.config.debug_dir: {error}. Nothing is written there.")

    def meet(self, event: Event) -> None:
        if not self.here.found:  # begun before the folder was set, or no part of a function
            return
        found, subject = self.here.found[-1], event.subject
        match event.name:
            case "program":
                found.made.append(subject)
            case "loop IR":
                from npcompile.tensor_core.loop_ir.printer import (
                    print_program,
                )  # here: functions without loops need nothing of it

                assert isinstance(subject, Program)
                found.loops.append(print_program(subject))
            case "unit":
                source, command = subject
                found.units.setdefault(source, Unit(command)).command = command
            case "C compiler":
                found.units[subject] = Unit(event.about["command"], event.about["messages"])

    def write(self, found: Found) -> None:
        if config.debug_dir is None:
            return
        folder = Path(config.debug_dir) / folder_name(found.code)
        with self.lock:
            number, self.numbers[folder] = self.numbers[folder], self.numbers[folder] + 1
        inside = folder / f"program_{number}"
        inside.mkdir(parents=True, exist_ok=True)
        for name, text in found.files():
            write_text(inside / name, text)
        if found.made:
            write_text(folder / "explain.txt", str(account(found.made[-1][0].function, None)))


def write_text(path: Path, text: str) -> None:
    """Without the name of the user's home, so that folders may be sent to others."""
    home = os.path.expanduser("~")
    path.write_text(f"{text.replace(home, '~') if len(home) > 1 else text}\n", encoding="utf-8")


def folder_name(code: CodeType) -> str:
    """The same in each run of a program.

    >>> folder_name(write_text.__code__).rpartition(".")[0]
    'debug_folders.write_text'
    """
    name = f"{Path(code.co_filename).stem}.{code.co_qualname[-LONGEST:]}.{code.co_firstlineno}"
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


FOLDERS = Folders()
after_change["debug_dir"] = [FOLDERS.update]
