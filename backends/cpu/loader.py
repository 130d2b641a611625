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
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from npcompile.backends.array_guards import LIKENESS
from npcompile.backends.background import PATIENCE, InBackground, Job, NotYet
from npcompile.backends.cache import Cache, key_of, open_cache
from npcompile.backends.cpu.blas import ROUTINES, capsule_pointer, find_blas
from npcompile.backends.cpu.compiler import Compiler, Making, Trial, begin_finding, find_compiler
from npcompile.backends.cpu.control_groups import memory_quota
from npcompile.backends.cpu.library_files import load_library, why_incomplete
from npcompile.backends.cpu.numpy_loops import give_loops
from npcompile.backends.cpu.prelude import PRELUDE, TYPES
from npcompile.backends.cpu.product import product_library
from npcompile.backends.cpu.runtime import runtime_source
from npcompile.backends.cpu.threads import register_pool, thread_limit, usable_processors
from npcompile.backends.entering import ENTERING
from npcompile.backends.errors import CompilerError, CompilerRefused, CompilerTimeout, NoCompiler, WrongSetting
from npcompile.backends.overlap import OVERLAP
from npcompile.backends.registry import _DEFAULT_STATE, _ERROR_STATE, ErrorStates, FloatingPointSignal

__all__ = ["PRELUDE", "CompilerError", "Loaded", "Loader", "NoCompiler", "load", "loader", "release_memory"]

METH_FASTCALL = 0x80
MOST_FAILURES = 3  # units one after another that a compiler makes no library of, before it is asked for no more
MOST_KEPT = 1 << 29  # bytes of freed arrays kept for the next ones, but at most 1/16 of the memory: arrays.c says when fewer


@dataclass(frozen=True, slots=True)
class Loaded:
    """A unit ready to be called."""

    call: Callable[..., tuple[Any, ...]]
    seconds: float  # to compile and load it
    path: Path
    was_cached: bool


@dataclass(frozen=True, slots=True)
class Library:
    """A shared library in this process. That of the runtime is never unloaded: arrays point into it."""

    handle: ctypes.PyDLL
    path: Path
    was_cached: bool


class MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@dataclass(slots=True, eq=False)
class Unit:
    """What is known of a unit while its function is there, with which its library goes."""

    library: Library
    table: int
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class Loader:
    """What one compiler made for this process. Every method may be called from many threads."""

    cache: Cache
    compiler: Compiler
    table: int = 0  # address of the runtime's struct npc_runtime once it has started
    begun: Making | None = None  # the runtime, while it is being made
    compiled: int = 0  # units that were not in the cache
    failures: int = 0  # units since the last one that was compiled
    given_up: CompilerError | None = None  # the last of them: the compiler hangs, or makes nothing
    jobs: dict[str, Job[Making, Library]] = field(default_factory=dict)  # by key: units that are made beside the program
    products: dict[str, Library] = field(default_factory=dict)  # by dtype: what the table has for matrix products
    _functions: WeakValueDictionary[str, Callable[..., Any]] = field(default_factory=WeakValueDictionary)
    _locks: WeakValueDictionary[str, Any] = field(default_factory=WeakValueDictionary)  # one per unit, while it is held
    _lock: threading.Lock = field(default_factory=threading.Lock)  # of the locks
    _compiling: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(usable_processors() + 1))

    def load(self, source: str, dtypes: Sequence[np.dtype]) -> Loaded:
        """The unit of PRELUDE and `source`, loaded once while its function is in use. Raises NoCompiler; NotYet if told to."""
        text = PRELUDE + source
        # `npc_dtypes` is a static of the library; dtypes of C's long long equal those of its long.
        key = self.key(text, *(dtype.str + dtype.char * (dtype.char in "qQ") for dtype in dtypes))
        with self.lock(key):
            function = self._functions.get(key)
            if function is None:
                made_beside = self.made_beside(text, key)
                began = time.perf_counter()
                with ExitStack() as held:  # of processes that make what else is missing
                    self.begin_runtime()
                    products = {tag: self.begun_product(tag, held) for tag in self.missing_products(text)}
                    try:
                        library = made_beside or self.library(text, key, "npc_run")
                    finally:
                        self.table = self.table or self.start_runtime()
                    for tag, begun in products.items():
                        product = self.product_library(tag, begun)
                        product.handle.npc_offer(ctypes.c_void_p(self.table))
                        self.products[tag] = product  # now that the table has it: other threads look here
                function = self._functions[key] = bind(library, self.table, dtypes)
                UNITS[function].seconds = time.perf_counter() - began
            unit = UNITS[function]
            return Loaded(function, unit.seconds, unit.library.path, unit.library.was_cached)

    def made_beside(self, source: str, key: str) -> Library | None:
        """The unit, where a process beside the program makes it, or begins to. Raises NotYet where the caller does not wait."""
        job = self.jobs.get(key)
        if job is None:
            if PATIENCE.waits or self.given_up is not None or self.cache.find(key, ".so") is not None:
                return None
            begin = partial(self.compiler.begin, source, self.cache, is_beside=True)
            job = self.jobs[key] = Job(begin, partial(self.library, source, key, "npc_run"))
            end_last()
        if not PATIENCE.waits and job.is_alive():
            raise NotYet(job)
        try:
            return job.result()
        finally:
            self.jobs.pop(key, None)

    def key(self, *parts: str) -> str:
        compiler = self.compiler
        return key_of(compiler.identity, *compiler.flags_for("".join(parts)), *compiler.libraries, *parts)

    def lock(self, name: str) -> threading.Lock:
        with self._lock:
            lock = self._locks.get(name)
            if lock is None:
                lock = self._locks[name] = threading.Lock()
            return lock

    def begin_runtime(self) -> None:
        """Let a process make the runtime beside what this thread does, where nobody has made it or does now."""
        if not self.table and (lock := self.lock("runtime")).acquire(blocking=False):
            try:
                if self.begun is None and not self.table:
                    self.begun = self.begun_if_missing(runtime_text())
            finally:
                lock.release()

    def begun_if_missing(self, source: str) -> Making | None:
        return None if self.cache.find(self.key(source), ".so") else self.compiler.begin(source, self.cache)

    def begun_product(self, tag: str, held: ExitStack) -> Making | None:
        begun = self.begun_if_missing(PRELUDE + product_library(tag))
        return begun and held.enter_context(begun)

    def start_runtime(self) -> int:
        """The address of the runtime's table."""
        with self.lock("runtime"):
            if self.table:
                return self.table
            source = runtime_text()
            key = self.key(source)
            begun, self.begun = self.begun, None
            with begun or nullcontext():
                made = self.library(source, key, "npc_start", begun)
            # The one in the cache where it may be: debuggers, profilers and threadpoolctl look for the file of a library.
            return start(made if made.was_cached else self.find(key) or made)

    def missing_products(self, text: str) -> list[str]:
        """The dtypes of which the unit multiplies matrices, and the runtime cannot yet."""
        return sorted(set(re.findall(r"rt->(?:rows_)?product_(\w+)\(", text)) - self.products.keys())

    def product_library(self, tag: str, begun: Making | None = None) -> Library:
        with self.lock(f"product {tag}"):
            source = PRELUDE + product_library(tag)
            return self.products.get(tag) or self.library(source, self.key(source), "npc_offer", begun)

    def library(self, source: str, key: str, entry: str, begun: Making | None = None) -> Library:
        """The library of a whole unit, which defines the function `entry`; `begun` makes it already. Raises CompilerError."""
        try:
            found = self.find(key)
            if found is None:
                with self.cache.locked(key):  # another process may be compiling it now
                    found = self.find(key) or self.compile(source, key, entry, begun)
            return found
        except OSError as error:
            raise CompilerError(f"compiled code cannot be kept anywhere: {error}") from error

    def find(self, key: str) -> Library | None:
        path = self.cache.find(key, ".so")
        try:
            return Library(load_library(str(path)), path, True) if path else None
        except OSError:  # removed meanwhile, or nothing may be executed from that disk
            return None

    def compile(self, source: str, key: str, entry: str, begun: Making | None = None) -> Library:
        """A compiler that hung once, or failed some times in a row, is not asked again: each time it would take as long."""
        if self.given_up is not None:
            raise CompilerError(*self.given_up.args)
        try:
            made = self.made(source, key, entry, begun)
        except CompilerError as error:
            self.failures += 1
            if isinstance(error, CompilerTimeout) or self.failures >= MOST_FAILURES:
                self.given_up = error
            raise
        self.failures = 0
        return made

    def made(self, source: str, key: str, entry: str, begun: Making | None) -> Library:
        with self._compiling, begun or self.compiler.begin(source, self.cache) as making:
            made = making.finish()
            payload = made.read_bytes()
            if fault := why_incomplete(payload):
                raise CompilerError(f"{self.compiler.command[0]} made a library that is not whole: {fault}")
            try:
                handle = load_library(str(made))
            except OSError as error:
                # The compiler lies, or nothing may be executed from that folder: then perhaps from the cache.
                self.cache.write(key, ".so", payload)
                found = self.find(key)
                if found is None:
                    self.cache.forget(key, ".so")
                    raise CompilerError(f"{self.compiler.command[0]} made a library that cannot be loaded: {error}") from error
                handle = found.handle
            if not hasattr(handle, entry):
                self.cache.forget(key, ".so")
                raise CompilerError(f"{self.compiler.command[0]} made a library without {entry}")
            self.compiled += 1
            return Library(handle, self.cache.write(key, ".so", payload) or made, False)


def runtime_text() -> str:
    """The whole unit of the runtime. Raises NoCompiler."""
    try:
        return TYPES + runtime_source()
    except OSError as error:
        raise NoCompiler(f"the source of the runtime cannot be read: {error}") from error


TRIMS: list[Callable[[], int]] = []  # of each runtime: gives back the memory that it keeps
DTYPES: dict[tuple[tuple[np.dtype, str], ...], Any] = {}  # arrays of pointers to dtypes, which libraries point to
KEPT: list[Any] = []  # what libraries point to that are never unloaded
UNITS: WeakKeyDictionary[Callable[..., Any], Unit] = WeakKeyDictionary()
MAKERS: dict[int, Callable[..., Any]] = {}  # of functions that own something, by the address of a runtime's table


def bind(library: Library, table: int, dtypes: Sequence[np.dtype]) -> Callable[..., tuple[Any, ...]]:
    """The Python function of a unit: CPython calls `npc_run` directly. Its library is unloaded after it is gone."""
    objects = DTYPES.setdefault(tuple((dtype, dtype.char) for dtype in dtypes), (ctypes.py_object * max(1, len(dtypes)))(*dtypes))
    library.handle.npc_bind(ctypes.c_void_p(table), objects)
    give_loops(library.handle)
    drop = address_of(library, "npc_drop") if hasattr(library.handle, "npc_drop") else None
    function = MAKERS[table](address_of(library, "npc_run"), b"npc_run", library.handle._handle, drop, None)
    UNITS[function] = Unit(library, table)
    return function


def beside(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Another Python function of the unit of `function`, which goes no sooner."""
    unit = UNITS[function]
    return MAKERS[unit.table](address_of(unit.library, name), name.encode(), None, None, id(function))


def address_of(library: Library, name: str) -> int:
    address = ctypes.cast(getattr(library.handle, name), ctypes.c_void_p).value
    assert address is not None
    return address


def python_function(library: Library, name: str, owner: Any = None) -> Callable[..., Any]:
    """A function that takes what METH_FASTCALL passes, of a library that is never unloaded; pickled as its owner's attribute."""
    definition = MethodDef(name.encode(), address_of(library, name), METH_FASTCALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))  # for good: CPython reads it at the end of a process too
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., Any] = make(("PyCFunction_NewEx", ctypes.pythonapi))(ctypes.addressof(definition), owner, None)
    return made


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
        PROCESS.job = Job(lambda: trial, finish)
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
    if (known := PROCESS.loader) is not None:
        fresh = Loader(known.cache.in_child(), known.compiler, known.table, compiled=known.compiled, given_up=known.given_up)
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
    return loader().load(source, dtypes)
