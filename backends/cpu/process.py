"""Run the compiler as a child that never outlives the call: imported only when there is something to compile."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence

from npcompile.backends.cpu.errors import CompilerError, CompilerRefused, CompilerTimeout


def run(command: Sequence[str], text: str, timeout: float) -> str:
    """What `command` prints when given `text`. Raises CompilerError; CompilerTimeout after `timeout` seconds."""
    try:
        # Its own process group: what the driver starts must be killed with it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, ValueError) as error:
        raise CompilerError(f"{shlex.join(command)}\ncannot be started: {error}") from error
    with process:
        try:
            output, errors = process.communicate(text.encode(), timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise CompilerTimeout(f"{shlex.join(command)}\nwas stopped after {timeout:g} s") from error
        finally:
            if process.returncode is None:
                kill_group(process.pid)
    if process.returncode != 0:
        tail = "\n".join(errors.decode(errors="replace").splitlines()[-20:])
        kind = CompilerRefused if process.returncode > 0 else CompilerError  # a signal says nothing about the source
        raise kind(f"{shlex.join(command)}\nfailed with status {process.returncode}:\n{tail}")
    return output.decode(errors="replace")


def kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has ended by itself
        return
