"""Triton texts to cubins: found in the cache, or compiled by worker processes, so that Triton is never imported here."""

from __future__ import annotations

import atexit
import base64
import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache as once
from pathlib import Path
from typing import Any

from npcompile.backends.cache import Cache, key_of, open_cache

MOST_WORKERS = 8
SUFFIX = ".cubin.json"


class CompileFailed(RuntimeError):
    """Triton refused a generated text, or died over it: an internal mistake."""


@dataclass(frozen=True, slots=True)
class Request:
    """One function to compile. `signature`: (parameter, Triton type); `divisible`: those known to be multiples of 16."""

    name: str
    source: str
    signature: tuple[tuple[str, str], ...]
    divisible: tuple[int, ...] = ()
    warps: int = 4


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
    """Found without importing it, which takes a second."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise CompileFailed(
            "the CUDA backend needs Triton, which is not installed: pip install 'npcompile[cuda12]' or 'npcompile[cuda13]'"
        ) from None


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

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer; an error where the process has died."""
        try:
            assert self.process.stdin is not None and self.process.stdout is not None
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except (BrokenPipeError, OSError) as error:
            return {"error": f"the compile worker died: {error}"}
        return json.loads(line) if line else {"error": f"the compile worker died with status {self.process.wait()}"}

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True, eq=False)
class Workers:
    """Processes of this process, started when there is work for them."""

    owner: int = field(default_factory=os.getpid)
    idle: list[Worker] = field(default_factory=list)
    folder: tempfile.TemporaryDirectory[str] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def compile(self, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        most = max(min(MOST_WORKERS, len(os.sched_getaffinity(0)), len(requests)), 1)
        with ThreadPoolExecutor(most) as pool:
            return list(pool.map(self.compile_one, requests))

    def compile_one(self, request: dict[str, Any]) -> dict[str, Any]:
        with self.worker() as worker:
            return worker.ask(request)

    @contextlib.contextmanager
    def worker(self) -> Iterator[Worker]:
        with self.lock:
            found = self.idle.pop() if self.idle else None
            if self.folder is None:
                self.folder = tempfile.TemporaryDirectory(prefix="npcompile-triton-", ignore_cleanup_errors=True)
            folder = self.folder.name
        if found is None or not found.is_alive:
            found = start_worker(folder)
        yield found
        if found.is_alive:
            with self.lock:
                self.idle.append(found)

    def stop(self) -> None:
        if self.owner != os.getpid():  # of the parent
            return
        with self.lock:
            for worker in self.idle:
                worker.stop()
            self.idle.clear()
            if self.folder is not None:
                self.folder.cleanup()
                self.folder = None


def start_worker(folder: str) -> Worker:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True)
    return Worker(process)


_workers: list[Workers] = []


def workers() -> Workers:
    """Those of this process: a forked child starts its own."""
    if not _workers or _workers[0].owner != os.getpid():
        _workers[:] = [Workers()]
        atexit.register(_workers[0].stop)
    return _workers[0]
