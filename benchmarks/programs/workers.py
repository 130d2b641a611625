"""A process for each side of each program, so that one that hangs or dies is stopped alone and threads stay apart."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import batch_seconds, rest
from benchmarks.programs.copy_in_c import copy_call
from benchmarks.programs.families import PROGRAMS
from benchmarks.sides import jax_side, npcompile_side, numba_side, numpy_side, torch_side

TIME_TO_START = 120.0  # seconds: imports on a busy machine
# Compilers in the process itself: as many processes compile as the machine has cores, and none is left that would disturb.
ENVIRONMENT = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
# Sides to what they import, which is also the name of their versions.
IMPORTS = {
    "NumPy": "",
    "npcompile": "",
    "numba plain": "numba",
    "numba parallel": "numba",
    "JAX": "jax",
    "torch.compile": "torch",
    "copy in C": "",
}
Call = Callable[[], Any]


@dataclass(frozen=True)
class Prepared:
    """What a side's first call of a program gave, and the time of its second."""

    answer: Any
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


def processors() -> list[int]:
    """Those that this process may run on; none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def move_to(processor: int) -> None:
    """Have the calling thread go on there. It may run on all of them as before, and other threads stay where they are."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    os.sched_setaffinity(0, every)


def serve(side: str, name: str, size: str, pipe: Any) -> None:
    """Say that the imports are done, give what was prepared, then samples, and rest after each.

    A sample is asked for by (calls, warm up or not, the processor to begin on or None).
    """
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    os.environ.update(ENVIRONMENT)
    try:
        if IMPORTS[side]:
            importlib.import_module(IMPORTS[side])
        pipe.send(None)
        call = prepare(side, name, size)
        assert call is not None, (side, name)
        answer = plain(call())
        second = batch_seconds(call, 1)
        rest()
        pipe.send(Prepared(answer, second))
        del answer
        while True:
            count, warm, processor = pipe.recv()
            if processor is not None:
                move_to(processor)
            gc.collect()
            gc.disable()
            if warm:
                call()
            seconds = batch_seconds(call, count)
            gc.enable()
            rest()
            pipe.send(seconds)
    except (EOFError, BrokenPipeError):  # nobody asks any more
        return
    except Exception as error:
        pipe.send(Stopped("".join(traceback.format_exception_only(error)).strip()[:300]))


class Worker:
    """One side's process for a program of one size. It begins at once; `receive` gives None, then Prepared, then samples."""

    def __init__(self, side: str, name: str, size: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(side, name, size, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def receive(self, limit: float, late: str = "over {:.0f} s") -> Any:
        """What the process sends within `limit` seconds. Stopped, with `late` for a reason, when it sends nothing."""
        try:
            if not self.pipe.poll(max(0.0, limit)):
                self.stop()
                raise Stopped(late.format(limit))
            reply = self.pipe.recv()
        except (EOFError, OSError):
            self.stop()
            raise Stopped("its process ended") from None
        if isinstance(reply, Stopped):
            self.stop()
            raise reply
        return reply

    def sample(self, count: int, warm: bool, limit: float, processor: int | None = None) -> float:
        """Seconds of one call. `processor`: where they begin, if that is to be said."""
        try:
            self.pipe.send((count, warm, processor))
        except OSError:
            self.stop()
            raise Stopped("its process ended") from None
        return self.receive(limit)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
