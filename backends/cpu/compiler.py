"""The C compiler of this machine: which one, what it can do, and how it is run."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from npcompile.backends.cpu.cache import Cache

TIMEOUT = 120.0  # seconds, for one run of the compiler

# Exact floating point: no contraction into fused multiply-add, nothing of -ffast-math. Integers wrap around.
BASE_FLAGS = ("-x", "c", "-std=gnu11", "-O3", "-fPIC", "-shared", "-w", "-fwrapv", "-fno-strict-aliasing")
BASE_FLAGS += ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")
OPTIONAL_FLAGS = ("-mprefer-vector-width=512", "-fopenmp")  # used where the compiler takes them
OPTIONAL_LIBRARIES = ("-lmvec", "-lm")  # in the order of the link; vector mathematics is of glibc only


class NoCompiler(Exception):
    """No C compiler can be had here. The message says what was tried."""


class CompilerError(NoCompiler):
    """There is a compiler, but it failed: the message has the command and the end of what it said."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that was seen to compile and link a shared library on this machine."""

    command: tuple[str, ...]
    identity: str  # digest of its version and of every macro that it predefines, the instruction set's included
    flags: tuple[str, ...]  # for every unit
    libraries: tuple[str, ...]

    @property
    def has_openmp(self) -> bool:
        return "-fopenmp" in self.flags

    @property
    def has_vector_math(self) -> bool:
        return "-lmvec" in self.libraries

    def compile(self, source: str, output: Path) -> None:
        """Make the shared library `output` of one C translation unit. Raises CompilerError."""
        command = [*self.command, *self.flags, "-o", str(output), "-", *self.libraries]
        run(command, source)
        if not output.is_file() or output.stat().st_size == 0:
            raise CompilerError(f"{shlex.join(command)}\nsucceeded, but wrote no library")


def run(command: Sequence[str], text: str = "") -> str:
    """What `command` prints when given `text`. It never outlives this call. Raises CompilerError."""
    try:
        # Its own process group: the driver's own children must be killed with it.
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
            output, errors = process.communicate(text.encode(), timeout=TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise CompilerError(f"{shlex.join(command)}\nwas stopped after {TIMEOUT:g} s") from error
        finally:
            if process.poll() is None:
                kill_group(process.pid)
    if process.returncode != 0:
        tail = "\n".join(errors.decode(errors="replace").splitlines()[-20:])
        raise CompilerError(f"{shlex.join(command)}\nfailed with status {process.returncode}:\n{tail}")
    return output.decode(errors="replace")


def kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def candidates() -> list[tuple[str, ...]]:
    """Commands that may be a C compiler, best first. $CC, when set, is the only one beside ziglang."""
    names = [os.environ["CC"]] if os.environ.get("CC", "").strip() else ["cc", "gcc", "clang"]
    commands = [(path, *rest) for first, *rest in map(shlex.split, names) if (path := shutil.which(first))]
    if importlib.util.find_spec("ziglang"):
        commands.append((sys.executable, "-m", "ziglang", "cc"))
    return commands


def architecture() -> str:
    """The value of -march: NPCOMPILE_MARCH lets one cache serve a cluster of unequal machines."""
    return os.environ.get("NPCOMPILE_MARCH") or "native"


def find_compiler(cache: Cache) -> Compiler:
    """The first candidate that works. What was found is kept in `cache`, so that a warm start runs no process.

    Raises NoCompiler (or the CompilerError of the last candidate).
    """
    failure = NoCompiler(f"no C compiler: none of $CC, cc, gcc, clang is on PATH={os.environ.get('PATH', '')!r} and ziglang is not installed")
    for command in candidates():
        key = fingerprint(command)
        known = cache.read(key, ".json")
        if known is not None:
            return restore(known)
        try:
            compiler = probe(command, cache)
        except CompilerError as error:
            failure = error
            continue
        cache.write(key, ".json", json.dumps(asdict(compiler)).encode())
        return compiler
    raise failure


def restore(known: bytes) -> Compiler:
    fields = json.loads(known)
    return Compiler(tuple(fields["command"]), fields["identity"], tuple(fields["flags"]), tuple(fields["libraries"]))


def fingerprint(command: Sequence[str]) -> str:
    """Changes whenever another compiler, another processor or another target would answer the probe."""
    status = os.stat(os.path.realpath(command[0]))
    parts = (*command, str(status.st_mtime_ns), str(status.st_size), architecture(), processor())
    return hashlib.sha256("\0".join(("compiler", *parts)).encode()).hexdigest()


def processor() -> str:
    """Model and features of the first processor."""
    try:
        # One page: the rest is the same for every processor, and slow to produce on a large machine.
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            lines = file.read(4096).decode(errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return repr(os.uname() if hasattr(os, "uname") else sys.platform)
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags", "features", "cpu implementer", "cpu part")
    return "\n".join(line for line in lines if line.partition("\t")[0].strip().lower() in wanted)


def probe(command: tuple[str, ...], cache: Cache) -> Compiler:
    """Try what a unit needs, all at once first, one by one when that fails. Raises CompilerError."""
    target = (f"-march={architecture()}",)
    flags, libraries = (*target, *OPTIONAL_FLAGS), OPTIONAL_LIBRARIES
    with cache.scratch_directory() as folder:
        if not links(command, (*flags, *libraries), folder):
            flags = tuple(f for f in flags if links(command, (f,), folder))
            libraries = tuple(lib for lib in libraries if links(command, (lib,), folder))
            Compiler(command, "", (*BASE_FLAGS, *flags), libraries).compile("int probe;", folder / "probe.so")
    macros = run([*command, *flags, "-dM", "-E", "-x", "c", "-"])
    identity = hashlib.sha256("\n".join(sorted(macros.splitlines())).encode()).hexdigest()
    return Compiler(command, identity, (*BASE_FLAGS, *flags), libraries)


def links(command: tuple[str, ...], options: tuple[str, ...], folder: Path) -> bool:
    flags = tuple(o for o in options if not o.startswith("-l"))
    libraries = tuple(o for o in options if o.startswith("-l"))
    try:
        Compiler(command, "", (*BASE_FLAGS, *flags), libraries).compile("int probe;", folder / "probe.so")
    except CompilerError:
        return False
    return True
