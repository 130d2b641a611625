"""Triton texts to cubins: found in the cache, or compiled by worker processes, so that Triton is never imported here."""

from __future__ import annotations

import atexit
import base64
import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache as once
from pathlib import Path
from typing import IO, Any

from npcompile.backends.cache import SCRATCH, Cache, key_of, mark_as_used, open_cache

MOST_WORKERS = 8
WORTH_A_WORKER = 3  # functions: as many are compiled while another process imports Triton
TIMEOUT = 300.0  # seconds for one function: a compiler that needs more does not end
ATTEMPTS = 2  # a worker may be killed for reasons of its own: out of memory, a user's signal
MOST_SAID = 4000  # characters of stderr in an error
SUFFIX = ".cubin.json"


class CompileFailed(RuntimeError):
    """Triton refused a generated text, or died over it: an internal mistake."""


class WorkerDied(Exception):
    """There is no answer, nor will there be one."""


@dataclass(frozen=True, slots=True)
class Request:
    """One function to compile. `signature`: (parameter, Triton type); `divisible`: those known to be multiples of 16."""

    name: str
    source: str
    signature: tuple[tuple[str, str], ...]
    divisible: tuple[int, ...] = ()
    warps: int = 4
    stages: int = 3
    is_fast: bool = False  # may it round otherwise than NumPy?


@dataclass(frozen=True, slots=True)
class Binary:
    name: str
    cubin: bytes
    types: tuple[str, ...]  # of the arguments
    warps: int
    shared: int  # bytes of dynamic shared memory
    hidden: int  # pointers that the kernel takes after its arguments


@once
def triton_version() -> str:
    """Found without importing it, which takes a second, and without asking for all that is installed."""
    found = importlib.util.find_spec("triton")
    if found is None or found.origin is None:
        raise CompileFailed("the CUDA backend needs Triton, which is not installed: pip install triton")
    text = Path(found.origin).read_text()
    version = re.search(r"^__version__ = ['\"](.+)['\"]", text, re.M)
    return version[1] if version else key_of(text)


def compile_all(requests: Sequence[Request], architecture: int) -> list[Binary]:
    """The machine code of each function for one architecture (90 for sm_90). Raises CompileFailed."""
    answers: list[dict[str, Any] | None] = []
    keys = [key_of(json.dumps(asdict(r)), str(architecture), triton_version()) for r in requests]
    for key in keys:
        payload = cubin_cache().read(key, SUFFIX)
        answers.append(None if payload is None else json.loads(payload))
    missing = [k for k, answer in enumerate(answers) if answer is None]
    if missing:
        made = workers().compile([{**asdict(requests[k]), "architecture": architecture} for k in missing])
        for k, answer in zip(missing, made):
            if "error" in answer:
                raise CompileFailed(f"{requests[k].name}:\n{answer['error']}\n{requests[k].source}")
            cubin_cache().write(keys[k], SUFFIX, json.dumps(answer).encode())
            answers[k] = answer
    return [binary_of(request, answer) for request, answer in zip(requests, answers) if answer is not None]


def binary_of(request: Request, answer: dict[str, Any]) -> Binary:
    types = tuple(t for _, t in request.signature)
    hidden = answer["parameters"] - len(types)
    assert hidden >= 0, (request.name, answer["parameters"], types)
    return Binary(answer["name"], base64.b64decode(answer["cubin"]), types, answer["warps"], answer["shared"], hidden)


@once
def cubin_cache() -> Cache:
    return open_cache()


@dataclass(slots=True, eq=False)
class Worker:
    process: subprocess.Popen[str]
    said: IO[str]  # what it wrote to stderr

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer. Raises WorkerDied, also where there is none in time."""
        assert self.process.stdin is not None and self.process.stdout is not None
        too_late = threading.Timer(TIMEOUT, self.process.kill)
        too_late.daemon = True
        too_late.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:  # a broken pipe
            line = ""
        finally:
            too_late.cancel()
        if not line.endswith("\n"):
            raise WorkerDied(self.last_words())
        return json.loads(line)

    def last_words(self) -> str:
        self.process.kill()
        status = self.process.wait()
        self.said.seek(0)
        return f"the compile worker died with status {status}\n{self.said.read()[-MOST_SAID:]}".rstrip()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        self.process.kill()  # all that it writes is in a folder that goes with it
        self.process.wait()
        self.close()

    def close(self) -> None:
        for file in (self.process.stdin, self.process.stdout, self.said):
            with contextlib.suppress(OSError):
                if file is not None:
                    file.close()


@dataclass(slots=True, eq=False)
class Workers:
    """Processes of this process, started when there is work for them."""

    idle: list[Worker] = field(default_factory=list)
    all: list[Worker] = field(default_factory=list)
    folder: tempfile.TemporaryDirectory[str] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def compile(self, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        wanted = max(len(self.idle), -(-len(requests) // WORTH_A_WORKER))
        most = min(MOST_WORKERS, len(os.sched_getaffinity(0)), len(requests), wanted)
        if most == 1:
            return [self.compile_one(r) for r in requests]
        with ThreadPoolExecutor(most) as pool:
            return list(pool.map(self.compile_one, requests))

    def compile_one(self, request: dict[str, Any]) -> dict[str, Any]:
        for attempt in range(ATTEMPTS):
            try:
                with self.worker() as worker:
                    return worker.ask(request)
            except WorkerDied as error:
                if attempt == ATTEMPTS - 1:
                    return {"error": str(error)}
        raise AssertionError(request)

    def start(self) -> None:
        """Have a worker ready, which imports Triton meanwhile. Where that fails, whoever needs one is told."""
        with contextlib.suppress(OSError), self.worker():
            pass

    @contextlib.contextmanager
    def worker(self) -> Iterator[Worker]:
        with self.lock:
            found = self.idle.pop() if self.idle else None
            if found is None or not found.is_alive:
                if self.folder is None:
                    self.folder = tempfile.TemporaryDirectory(prefix=f"{SCRATCH}triton-", ignore_cleanup_errors=True)
                    mark_as_used(self.folder.name)
                self.all = [w for w in self.all if w.is_alive]
                found = start_worker(self.folder.name)
                self.all.append(found)
        try:
            yield found
        finally:
            with self.lock:
                if found.is_alive and found in self.all:
                    self.idle.append(found)

    def stop(self) -> None:
        with self.lock:
            for worker in self.all:  # busy ones too: whoever waits for them is told that they died
                worker.process.kill()
                worker.process.wait()
            self.all.clear()
            self.idle.clear()
            if self.folder is not None:
                self.folder.cleanup()
                self.folder = None

    def leave_to_parent(self) -> None:
        """In a forked child: the pipes are closed, else a worker would not see that the parent ended."""
        for worker in self.all:
            worker.process.returncode = 0  # it is no process of this one's
            worker.close()
        if self.folder is not None:
            self.folder._finalizer.detach()  # type: ignore[attr-defined]  # the parent removes it


def start_worker(folder: str) -> Worker:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    found = importlib.util.find_spec("triton")
    assert found is not None and found.origin is not None
    paths = [str(Path(found.origin).parents[1]), environment.get("PYTHONPATH", "")]  # where this process would import it
    environment |= {"TRITON_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  (the worker's, as long as it lives)
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        env=environment,
        text=True,
    )
    return Worker(process, said)


_workers: list[Workers] = []
_starting = threading.Lock()


def workers() -> Workers:
    """Those of this process."""
    with _starting:
        if not _workers:
            _workers.append(Workers())
            atexit.register(stop_workers)
        return _workers[0]


def stop_workers() -> None:
    for found in _workers:
        found.stop()


def forget_workers() -> None:
    """In a forked child, which starts its own when it needs some."""
    global _starting
    _starting = threading.Lock()
    for found in _workers:
        found.leave_to_parent()
    _workers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_workers)
