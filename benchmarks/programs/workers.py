"""A process for each side, asked in turn, so that one that hangs or dies is stopped alone and threads stay apart."""

from __future__ import annotations

import gc
import multiprocessing
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import batch_seconds
from benchmarks.programs.copy_in_c import copy_call
from benchmarks.programs.families import PROGRAMS
from benchmarks.sides import jax_side, npcompile_side, numba_side, numpy_side, torch_side

TIME_TO_START = 120.0  # seconds: imports on a busy machine
Call = Callable[[], Any]


@dataclass(frozen=True)
class Prepared:
    """What a side's first two calls of a program gave."""

    answer: Any
    first: float  # seconds, compilation included
    second: float


class Stopped(Exception):
    """A side did not answer: it took too long, raised, or its process ended."""


def prepare(side: str, name: str, size: str) -> Call | None:
    program = PROGRAMS[name]
    case, inputs = program.case(size), program.arguments(size)
    match side:
        case "NumPy":
            return numpy_side(case, inputs)
        case "npcompile":
            return npcompile_side(case, inputs)
        case "numba plain" | "numba parallel":
            return numba_side(case, inputs, parallel=side == "numba parallel")
        case "JAX":
            return jax_side(case, inputs)
        case "torch.compile":
            return torch_side(case, inputs)
        case "copy in C":
            assert program.moved is not None, name
            return copy_call(program.moved(*program.numbers(size)))
    raise AssertionError(side)


def plain(answer: Any) -> Any:
    """As NumPy's arrays and scalars, which other processes know."""
    if isinstance(answer, (tuple, list)):
        return tuple(map(plain, answer))
    if answer is None or isinstance(answer, (np.ndarray, np.generic, int, float, bool)):
        return answer
    return np.asarray(answer)


def serve(side: str, pipe: Any) -> None:
    """Answer until the pipe closes: ("prepare", program, size) and ("sample", calls, warm up or not)."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    call: Call | None = None
    pipe.send(None)
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            return
        try:
            match message:
                case ("prepare", name, size):
                    began = time.perf_counter()
                    call = prepare(side, name, size)
                    assert call is not None, (side, name)
                    answer = plain(call())
                    first = time.perf_counter() - began
                    pipe.send(Prepared(answer, first, batch_seconds(call, 1)))
                case ("sample", count, warm):
                    assert call is not None
                    gc.collect()
                    gc.disable()
                    if warm:
                        call()
                    pipe.send(batch_seconds(call, count))
                    gc.enable()
        except Exception as error:
            pipe.send(Stopped("".join(traceback.format_exception_only(error)).strip()[:300]))


class Worker:
    """One side's process, started when it is asked for the first time and again after it was stopped."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.process: Any = None
        self.pipe: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(self.side, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.receive(TIME_TO_START)

    def receive(self, limit: float, began: float | None = None) -> Any:
        """The answer to what was sent, or Stopped: within `limit` seconds of `began`, which is now by default."""
        try:
            if not self.pipe.poll(limit if began is None else max(0.0, began + limit - time.perf_counter())):
                self.stop()
                raise Stopped(f"over {limit:.0f} s")
            reply = self.pipe.recv()
        except (EOFError, OSError):
            self.stop()
            raise Stopped("its process ended") from None
        if isinstance(reply, Stopped):
            raise reply
        return reply

    def send(self, *message: Any) -> None:
        """Ask; what `receive` gives next is the answer."""
        if self.process is None:
            self.start()
        self.pipe.send(message)

    def sample(self, count: int, warm: bool, limit: float) -> float:
        """Seconds of one call of what was prepared last."""
        self.send("sample", count, warm)
        return self.receive(limit)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
        self.process = None
