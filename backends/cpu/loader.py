"""From C text to a Python function: compile it or find it in the cache, load it, bind it to the runtime."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from npcompile.backends.array_guards import LIKENESS
from npcompile.backends.background import PATIENCE, InBackground, Job, NotYet, Pool
from npcompile.backends.cache import Cache, key_of, open_cache
from npcompile.backends.cpu.binding import MAKERS, UNITS, Library, bind, python_function
from npcompile.backends.cpu.blas import ROUTINES, capsule_pointer, find_blas
from npcompile.backends.cpu.compiler import Compiler, Making, Trial, begin_finding, find_compiler
from npcompile.backends.cpu.control_groups import memory_quota
from npcompile.backends.cpu.library_files import load_library, why_incomplete
from npcompile.backends.cpu.prelude import PRELUDE, TYPES
from npcompile.backends.cpu.product import product_library
from npcompile.backends.cpu.runtime import runtime_source
from npcompile.backends.cpu.threads import register_pool, thread_limit, usable_processors
from npcompile.backends.entering import ENTERING
from npcompile.backends.errors import CompilerError, CompilerRefused, CompilerTimeout, NoCompiler, WrongSetting
from npcompile.backends.native_profiling import profiled, with_lines
from npcompile.backends.overlap import OVERLAP
from npcompile.backends.registry import _DEFAULT_STATE, _ERROR_STATE, ErrorStates, FloatingPointSignal
from npcompile.backends.together import Steps, finished
from npcompile.tensor_core.events import COUNTS, moment, stretch

__all__ = ["PRELUDE", "CompilerError", "Loaded", "Loader", "NoCompiler", "load", "loader", "release_memory"]

MOST_FAILURES = 3  # units one after another that a compiler makes no library of, before it is asked for no more
AHEAD = Pool(usable_processors(), between=5e-4)  # units that calls wait for
MOST_KEPT = 1 << 29  # bytes of freed arrays kept for the next ones, but at most 1/16 of the memory: arrays.c says when fewer


@dataclass(frozen=True, slots=True)
class Loaded:
    """A unit ready to be called."""

    call: Callable[..., tuple[Any, ...]]
    seconds: float  # to compile and load it
    path: Path
    was_cached: bool


@dataclass(slots=True, eq=False)
class Part:
    """A library that a unit needs, its own among them: it defines the function `entry`."""

    source: str
    key: str
    entry: str
    path: Path | None = None  # in the cache
    made: Library | None = None


@dataclass(slots=True, eq=False)
class Loader:
    """What one compiler made for this process. Every method may be called from many threads."""

    cache: Cache
    compiler: Compiler
    table: int = 0  # address of the runtime's struct npc_runtime once it has started
    begun: Making | None = None  # the runtime, while it is being made
    failures: int = 0  # units since the last one that was compiled
    given_up: CompilerError | None = None  # the last of them: the compiler hangs, or makes nothing
    jobs: dict[str, Job[Making, Library]] = field(default_factory=dict)  # by key: what is made beside the program, or ahead
    products: dict[str, Library] = field(default_factory=dict)  # by dtype: what the table has for matrix products
    _functions: WeakValueDictionary[str, Callable[..., Any]] = field(default_factory=WeakValueDictionary)
    _locks: WeakValueDictionary[str, Any] = field(default_factory=WeakValueDictionary)  # one per unit, while it is held
    _lock: threading.Lock = field(default_factory=threading.Lock)  # of the locks

    def load(self, source: str, dtypes: Sequence[np.dtype]) -> Loaded:
        """The unit of PRELUDE and `source`, loaded once while its function is in use. Raises NoCompiler; NotYet if told to."""
        return finished(self.loading(source, dtypes))

    def loading(self, source: str, dtypes: Sequence[np.dtype]) -> Steps[Loaded]:
        """The same in steps. What is missing begins; what began here is waited for; what others make is waited for."""
        began = time.perf_counter()
        text = with_lines(PRELUDE + source)
        # `npc_dtypes` is a static of the library; dtypes of C's long long equal those of its long.
        unit = self.part(text, "npc_run", *(dtype.str + dtype.char * (dtype.char in "qQ") for dtype in dtypes))
        function = self._functions.get(unit.key)
        COUNTS["units_in_memory"] += function is not None
        if function is None:
            runtime = None if self.table or self.begun else self.part(runtime_text(), "npc_start")
            products = {tag: self.part(product_text(tag), "npc_offer") for tag in self.missing_products(text)}
            parts = [*([runtime] if runtime else []), *products.values(), unit]
            with ExitStack() as held:  # of processes that nobody waits for after an error
                for part in parts:
                    self.begin(part, held)
                yield
                for part in parts:
                    self.ask(part)
                for part in parts:
                    self.take(part)
                if not all(part.made or part.path for part in parts):
                    yield  # others do not wait for what this process holds
                self.table = self.table or self.start_runtime(runtime)
                for tag, part in products.items():
                    self.offer(tag, part)
                function = self.function(unit, dtypes)
            UNITS[function].seconds = UNITS[function].seconds or time.perf_counter() - began
        moment("unit", subject=(text, " ".join(self.compiler.command_for(text, "unit.so"))))
        of = UNITS[function]
        return Loaded(function, of.seconds, of.library.path, of.library.was_cached)

    def function(self, unit: Part, dtypes: Sequence[np.dtype]) -> Callable[..., Any]:
        with self.lock(unit.key):
            function = self._functions.get(unit.key)
            if function is None:
                function = self._functions[unit.key] = bind(self.library(unit), self.table, dtypes)
            return function

    def offer(self, tag: str, part: Part) -> None:
        """Give the runtime what matrix products of a dtype need."""
        with self.lock(part.key):
            if tag not in self.products:
                product = self.library(part)
                product.handle.npc_offer(ctypes.c_void_p(self.table))
                self.products[tag] = product  # now that the table has it: other threads look here

    def part(self, source: str, entry: str, *others: str) -> Part:
        compiler = self.compiler
        flags = compiler.flags_for("".join((source, *others)))
        return Part(source, key_of(compiler.identity, *flags, *compiler.libraries, source, *others), entry)

    def lock(self, name: str) -> threading.Lock:
        with self._lock:
            lock = self._locks.get(name)
            if lock is None:
                lock = self._locks[name] = threading.Lock()
            return lock

    def begin(self, part: Part, held: ExitStack) -> None:
        """Let a process make the library where that is missing: until `held` ends, or beside the program."""
        lock = self.lock(part.key)
        if not lock.acquire(blocking=False):
            return
        try:
            if part.key in self.jobs:
                return
            part.path = self.cache.find(part.key, ".so")
            if part.path is not None or self.given_up is not None:
                return
            begin, finish = partial(self.compiler.begin, part.source, self.cache), partial(self.found_or_made, part)
            if PATIENCE.waits:
                job = Job(partial(begin, key=part.key), finish, AHEAD)
                held.callback(self.drop, part.key, job)
            else:
                job = Job(partial(begin, is_beside=True), finish)
                end_last()
            with self._lock:
                self.jobs[part.key] = job
        finally:
            lock.release()

    def drop(self, key: str, job: Job[Making, Library]) -> None:
        """End a process that nobody has waited for."""
        with self._lock:
            if self.jobs.get(key) is not job:
                return
            del self.jobs[key]
        job.end()

    def ask(self, part: Part) -> None:
        """Raises NotYet where a process makes the library, and the caller does not wait."""
        job = self.jobs.get(part.key)
        if job is not None and not PATIENCE.waits and job.is_alive():
            raise NotYet(job)

    def take(self, part: Part) -> None:
        """Wait for a process that makes the library, unless another thread does, or another program makes it."""
        lock = self.lock(part.key)
        if (job := self.jobs.get(part.key)) is not None and lock.acquire(blocking=False):
            try:
                with stretch("wait for the C compiler"):
                    job.join()
                if job.work is not None:
                    part.made = self.library(part)
            finally:
                lock.release()

    def start_runtime(self, part: Part | None = None) -> int:
        """The address of the runtime's table."""
        part = part or self.part(begun.source if (begun := self.begun) else runtime_text(), "npc_start")
        with self.lock(part.key):
            if self.table:
                return self.table
            begun, self.begun = self.begun, None
            with begun or nullcontext():
                made = self.library(part, begun)
            return start(made)

    def missing_products(self, text: str) -> list[str]:
        """The dtypes of which the unit multiplies matrices, and the runtime cannot yet."""
        return sorted(set(re.findall(r"rt->(?:rows_)?product_(\w+)\(", text)) - self.products.keys())

    def library(self, part: Part, begun: Making | None = None) -> Library:
        """Of one caller at a time. Raises CompilerError."""
        with self._lock:
            job = self.jobs.pop(part.key, None)
        return part.made or (job.result() if job else self.found_or_made(part, begun))

    def found_or_made(self, part: Part, begun: Making | None = None) -> Library:
        """The library from the cache, or from the compiler: `begun` makes it already."""
        try:
            found = self.find(part.key, part.path)
            if found is None:
                with self.cache.locked(part.key):  # another process may be compiling it now
                    found = self.find(part.key) or self.compile(part, begun)
            COUNTS["units_from_disk"] += found.was_cached
            return found
        except OSError as error:
            raise CompilerError(f"compiled code cannot be kept anywhere: {error}") from error

    def find(self, key: str, path: Path | None = None) -> Library | None:
        """The library in the cache, where `path` is its file."""
        path = path or self.cache.find(key, ".so")
        try:
            with stretch("load"):
                return Library(load_library(str(path)), path, True) if path else None
        except OSError:  # removed meanwhile, or nothing may be executed from that disk
            return None

    def compile(self, part: Part, begun: Making | None) -> Library:
        """A compiler that hung once, or failed some times in a row, is not asked again: each time it would take as long."""
        if self.given_up is not None:
            raise CompilerError(*self.given_up.args)
        try:
            made = self.made(part, begun)
        except CompilerError as error:
            self.failures += PATIENCE.gives_up
            if PATIENCE.gives_up and (isinstance(error, CompilerTimeout) or self.failures >= MOST_FAILURES):
                self.given_up = error
            raise
        self.failures = 0
        return made

    def made(self, part: Part, begun: Making | None) -> Library:
        key = part.key
        with begun or self.compiler.begin(part.source, self.cache) as making:
            made = making.finish()
            COUNTS["units_compiled"] += 1
            payload = made.read_bytes()
            if fault := why_incomplete(payload):
                raise CompilerError(f"{self.compiler.command[0]} made a library that is not whole: {fault}")
            # Debuggers and profilers look for the file of a library: the one in the cache stays.
            kept = self.cache.write(key, ".so", payload)
            found = self.find(key, kept) if kept else None
            try:
                handle = found.handle if found else load_library(str(made))
            except OSError as error:
                self.cache.forget(key, ".so")
                raise CompilerError(f"{self.compiler.command[0]} made a library that cannot be loaded: {error}") from error
            if not hasattr(handle, part.entry):
                self.cache.forget(key, ".so")
                raise CompilerError(f"{self.compiler.command[0]} made a library without {part.entry}")
            return Library(handle, kept or made, False)


def runtime_text() -> str:
    """The whole unit of the runtime. Raises NoCompiler."""
    try:
        return profiled(TYPES + runtime_source(), "the runtime")
    except OSError as error:
        raise NoCompiler(f"the source of the runtime cannot be read: {error}") from error


def product_text(tag: str) -> str:
    """The unit of matrix products of a dtype."""
    return profiled(PRELUDE + product_library(tag), "products")


TRIMS: list[Callable[[], int]] = []  # of each runtime: gives back the memory that it keeps
KEPT: list[Any] = []  # what libraries point to that are never unloaded


def start(library: Library) -> int:
    """Give the runtime what it needs of NumPy and of this machine. The address of its table."""
    routines, limit = find_blas()
    begin = ctypes.PYFUNCTYPE(
        ctypes.c_void_p,
        *(ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.py_object),
        *(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64),
    )(("npc_start", library.handle))
    numpy_api = capsule_pointer(np._core._multiarray_umath._ARRAY_API)
    blas = (ctypes.c_void_p * len(ROUTINES))(*routines)
    objects = (np.generic, report_float_errors, _ERROR_STATE, _DEFAULT_STATE)
    table = begin(numpy_api, *objects, thread_limit(), most_kept(), blas, limit)
    makes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, *(ctypes.c_void_p,) * 3)
    MAKERS[table] = makes(("npc_owned_function", library.handle))
    OVERLAP.are_disjoint = python_function(library, "npc_are_disjoint")
    LIKENESS.are_like = python_function(library, "npc_are_like")
    LIKENESS.kind_of = python_function(library, "npc_kind_of")
    ENTERING.begin = python_function(library, "npc_begin_entering")
    ENTERING.npc_entered = python_function(library, "npc_entered", ENTERING)
    ENTERING.npc_is_of_kind = python_function(library, "npc_is_of_kind", ENTERING)
    ENTERING.npc_fast_path = python_function(library, "npc_fast_path", ENTERING)
    TRIMS.append(trim := library.handle.npc_trim)
    trim.restype = ctypes.c_size_t
    register_pool(library.handle)
    return table


FLOAT_ERROR_BITS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}  # np.errstate's names; prelude.py has the bits


def report_float_errors(errors: int) -> None:
    """Raise FloatingPointSignal when np.errstate does not ignore one of the errors, or they are -1: NumPy is to run it."""
    if errors < 0 or not IGNORED[errors].holds():
        raise FloatingPointSignal


def ignored(errors: int) -> ErrorStates:
    """The states in which NumPy says nothing about these errors."""
    names = [name for name, bit in FLOAT_ERROR_BITS.items() if errors & bit]
    return ErrorStates(lambda state: all(state[name] == "ignore" for name in names))


IGNORED = [ignored(errors) for errors in range(16)]


def most_kept() -> int:
    """Bytes of freed arrays that the runtime keeps for the next ones at most."""
    granted = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), memory_quota()]
    return min(MOST_KEPT, *(limit // 16 for limit in granted if limit is not None))


def release_memory() -> int:
    """Return to the system the memory that is kept of freed arrays. The number of bytes."""
    return sum(trim() for trim in TRIMS)


@dataclass(slots=True)
class Process:
    """The loader of this process, made when first asked for."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    loader: Loader | None = None
    refused: CompilerError | WrongSetting | None = None  # what a compiler said that would say so again
    has_begun: bool = False
    trial: Trial | None = None  # of the compiler, until the loader is made
    job: Job[Trial, None] | None = None  # the same where calls do not wait for it


PROCESS = Process()


def loader() -> Loader:
    """The loader of this process. Raises NoCompiler; NotYet where the compiler is still asked, and the caller does not wait."""
    end_trial()
    with PROCESS.lock:
        if PROCESS.refused:
            raise type(PROCESS.refused)(*PROCESS.refused.args)
        if PROCESS.loader is None:
            if why := why_unsupported():
                raise NoCompiler(f"no compiled code: {why}")
            try:
                PROCESS.loader = found_loader()
            except (CompilerRefused, CompilerTimeout, WrongSetting) as error:
                PROCESS.refused = error
                raise
        return PROCESS.loader


def end_trial() -> None:
    """Take what the processes made that `begin` has started. Raises NotYet where they go on, and the caller does not wait."""
    if (job := PROCESS.job) is not None:
        if not PATIENCE.waits and job.is_alive():
            raise NotYet(job)
        PROCESS.job = None
        with suppress(NoCompiler, WrongSetting):  # whoever needs the runtime is told
            job.result()


def found_loader() -> Loader:
    trial, PROCESS.trial = PROCESS.trial, None
    if trial is None:
        cache = open_cache()
        return Loader(cache, find_compiler(cache))
    compiler = find_compiler(trial.cache, trial)
    return Loader(trial.cache, compiler, begun=trial.runtime if trial.is_of(compiler) else None)


def begin() -> None:
    """Ask the compiler what it can and make the runtime, where that is not known, beside what the caller does next.

    Processes are started here: a thread would wait for the GIL before each of its steps.
    """
    with PROCESS.lock:
        if PROCESS.has_begun:
            return
        PROCESS.has_begun = True
        if PROCESS.loader or PROCESS.refused or why_unsupported():
            return
        found = begin_finding(cache := open_cache(), runtime_text, not PATIENCE.waits)
        if isinstance(found, Compiler):
            PROCESS.loader = Loader(cache, found)
        PROCESS.trial = trial = found if isinstance(found, Trial) else None
    if trial and not PATIENCE.waits:  # no thread, as in Job
        PROCESS.job = Job(lambda: trial, lambda _: finish(trial))
        end_last()
    elif trial:
        InBackground(partial(finish, trial), daemon=False)  # so that no process is left behind where the program ends before


def finish(trial: Trial) -> None:
    with trial:
        loader().start_runtime()


def why_unsupported() -> str:
    """The layouts in the runtime are those of these systems only."""
    if sys.platform == "win32" or sys.maxsize < 2**32 or sys.byteorder != "little":
        return "it needs a 64-bit little-endian POSIX system"
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "it needs CPython with the GIL"
    if int(np.__version__.split(".")[0]) < 2:
        return "it needs NumPy 2"
    return ""


def forget_locks() -> None:
    """In a forked child: other threads held locks when the process was copied, and are not there to release them."""
    PROCESS.lock = threading.Lock()
    KEPT.extend(
        (PROCESS.trial, PROCESS.loader, PROCESS.job)
    )  # what the parent is making is in folders that are not to be removed here
    PROCESS.has_begun, PROCESS.trial, PROCESS.job = False, None, None
    AHEAD.forget()
    if (known := PROCESS.loader) is not None:
        fresh = Loader(known.cache.in_child(), known.compiler, known.table, given_up=known.given_up)
        fresh._functions, fresh.products = known._functions, known.products
        PROCESS.loader = fresh


def end_last() -> None:
    """What is registered last is called first: before `tempfile` removes its folders."""
    atexit.unregister(end_jobs)
    atexit.register(end_jobs)


def end_jobs() -> None:
    """Keep what was made beside the program for the next one, stop the other compilers, and remove their files."""
    trial, PROCESS.job = PROCESS.job, None
    jobs: list[Job[Any, Any]] = [trial] if trial else []
    for job in jobs + [*(PROCESS.loader.jobs.values() if PROCESS.loader else ())]:
        if not job.is_alive():
            with suppress(NoCompiler, WrongSetting):  # nobody is there to be told
                job.result()
        job.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_locks)


def load(source: str, dtypes: Sequence[np.dtype] = ()) -> Loaded:
    """Compile `source`, C text that follows PRELUDE, and load it; its `npc_dtypes` will point to `dtypes`.

    Safe to call from many threads and processes: a unit is compiled once. Raises NoCompiler.

    >>> unit = load("PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) { return rt->tuple(0); }")
    >>> unit.call()
    ()
    """
    return finished(loading(source, dtypes))


def loading(source: str, dtypes: Sequence[np.dtype]) -> Steps[Loaded]:
    return loader().loading(source, dtypes)
