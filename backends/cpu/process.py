"""Run the compiler as a child that never outlives the call: imported only when there is something to compile."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import IO, Any

from npcompile.backends.errors import CompilerError, CompilerRefused, CompilerTimeout
from npcompile.backends.progress import Waiting
from npcompile.tensor_core.events import COUNTS, Event, tell
from npcompile.tensor_core.garbage import with_collections

NICE = 10  # what runs beside the program, which goes on, is to leave it the processor: a tenth is left where both want one
RUNNING: weakref.WeakSet[Child] = weakref.WeakSet()


def run(command: Sequence[str], text: str, timeout: float) -> str:
    """What `command` prints when given `text`. Raises CompilerError; CompilerTimeout after `timeout` seconds."""
    with Child(command, text) as child:
        return child.result(timeout)


class Child:
    """A command that was started. It does not outlive the `with` block. Raises CompilerError.

    `is_beside`: nobody waits for it; it leaves the processor to the program. `is_ahead`: somebody will wait for it. Nobody reads
    what either prints before it has ended. `environment`: what differs from that of the program.
    """

    def __init__(
        self,
        command: Sequence[str],
        text: str,
        is_beside: bool = False,
        environment: Mapping[str, str] | None = None,
        is_ahead: bool = False,
    ):
        self.command = command
        self.environment = {**os.environ, **(environment or {}), "LC_ALL": "C"}
        self.printed: list[IO[bytes]] = []
        if is_beside or is_ahead:  # to files: a pipe may be full
            self.printed = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115  (closed by __exit__)
        self.began, self.ended, self.messages = perf_counter(), 0.0, ""
        self.start(text, *(self.printed or (subprocess.PIPE, subprocess.PIPE)))
        RUNNING.add(self)
        if is_beside:
            with contextlib.suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PGRP, self.process.pid, min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19))

    def start(self, text: str, output: Any, errors: Any) -> None:
        command = self.command
        try:
            with tempfile.TemporaryFile() as source:  # nobody has to be there to feed a pipe
                source.write(text.encode())
                source.seek(0)
                # Its own process group: what the driver starts must be killed with it. Not its own session: Linux shares the
                # processors equally between sessions (autogroups), and NICE would mean nothing beside the program.
                self.process = subprocess.Popen(
                    command,
                    stdin=source,
                    stdout=output,
                    stderr=errors,
                    process_group=0,
                    env=self.environment,
                )
        except (OSError, ValueError) as error:
            raise CompilerError(f"{shlex.join(command)}\ncannot be started: {error}") from error

    def has_ended(self) -> bool:
        has_ended = self.process.poll() is not None
        self.ended = self.ended or has_ended * perf_counter()
        return has_ended

    def result(self, timeout: float) -> str:
        """What it prints. Raises CompilerError; CompilerTimeout where it goes on for more than `timeout` seconds from now."""
        ends = time.monotonic() + timeout
        with with_collections(), Waiting(lambda: "waiting for the C compiler") as waiting:
            while True:
                left = ends - time.monotonic()
                try:
                    output, errors = self.process.communicate(timeout=max(0.0, min(waiting.tick(), left)))
                    break
                except subprocess.TimeoutExpired as error:
                    if left <= 0:
                        raise CompilerTimeout(f"{shlex.join(self.command)}\nwas stopped after {timeout:g} s") from error
        self.ended = self.ended or perf_counter()
        if self.printed:
            output, errors = map(whole, self.printed)
        self.messages = errors.decode(errors="replace")
        if self.process.returncode != 0:
            tail = "\n".join(self.messages.splitlines()[-20:])
            kind = CompilerRefused if self.process.returncode > 0 else CompilerError  # a signal says nothing about the source
            raise kind(f"{shlex.join(self.command)}\nfailed with status {self.process.returncode}:\n{tail}")
        return output.decode(errors="replace")

    def count(self, source: str) -> None:
        """It has made a library of this, or failed to."""
        ended = self.ended or perf_counter()  # where it was stopped
        COUNTS["c_compiler_seconds"] += ended - self.began
        about = {"command": shlex.join(self.command), "messages": self.messages}
        tell(Event("C compiler", began=self.began, is_beside=True, about=about, subject=source), ended)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *raised: object) -> None:
        with self.process:  # which closes its pipes and waits
            if self.process.returncode is None:
                kill_group(self.process.pid)
        for file in self.printed:
            file.close()


def whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def forget_running() -> None:
    """In a forked child: what the parent runs is not ours."""
    RUNNING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_running)


@atexit.register
def kill_running() -> None:
    """Commands that go on, or that a thread still waits for, end with the program."""
    for child in [*RUNNING]:
        if child.process.returncode is None:
            kill_group(child.process.pid)


def kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has ended by itself
        return
