"""From C text to a Python function: compile or find in the cache, load, bind to the runtime."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from npcompile.backends.cpu.cache import Cache, key_of, open_cache
from npcompile.backends.cpu.compiler import Compiler, CompilerError, NoCompiler, find_compiler
from npcompile.backends.cpu.prelude import PRELUDE, TYPES
from npcompile.backends.cpu.threads import thread_limit

METH_FASTCALL = 0x80
BLAS_ROUTINES = ("sgemm", "dgemm", "cgemm", "zgemm", "sgemv", "dgemv", "cgemv", "zgemv", "ssyrk", "dsyrk", "sdot", "ddot")
BLAS_NAMES = (  # how builds of NumPy name their BLAS's routines, and the largest integer that these take
    ("scipy_{}_64_", 2**63 - 1),
    ("{}_64_", 2**63 - 1),
    ("{}64_", 2**63 - 1),
    ("scipy_{}_", 2**31 - 1),
    ("{}_", 2**31 - 1),
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A unit ready to be called."""

    call: Callable[..., tuple[Any, ...]]
    seconds: float  # to compile and load it
    path: Path
    was_cached: bool


class MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@dataclass(slots=True, eq=False)
class Loader:
    """What this process has loaded. Libraries stay loaded: compiled functions point into them."""

    cache: Cache
    compiler: Compiler
    table: int = 0  # address of the runtime's struct npc_runtime
    _loaded: dict[str, Loaded] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)  # what the libraries point to

    def lock(self, key: str) -> threading.Lock:
        return self._locks.setdefault(key, threading.Lock())

    def library(self, source: str, key: str) -> tuple[ctypes.PyDLL, Path, bool]:
        """The library of a unit, its file, and whether it was in the cache."""
        path = self.cache.find(key, ".so")
        if path is not None:
            try:
                return ctypes.PyDLL(str(path)), path, True
            except OSError:
                self.cache.forget(key, ".so")
        with self.cache.locked(key), self.cache.scratch_directory() as folder:
            made = folder / "unit.so"
            self.compiler.compile(source, made)
            path = self.cache.write(key, ".so", made.read_bytes()) or made
            try:
                return ctypes.PyDLL(str(path)), path, False
            except OSError as error:
                raise CompilerError(f"{self.compiler.command[0]} made a library that cannot be loaded: {error}") from error

    def key(self, source: str, dtypes: Sequence[np.dtype] = ()) -> str:
        compiler = self.compiler
        return key_of(source, compiler.identity, *compiler.flags, *compiler.libraries, *(d.str for d in dtypes))

    def start_runtime(self) -> int:
        """Load the runtime, once."""
        with self.lock("runtime"):
            if not self.table:
                source = TYPES + '#line 1 "runtime.c"\n' + resources.files(__package__).joinpath("runtime.c").read_text()
                library, _, _ = self.library(source, self.key(source))
                self.table = start(library)
            return self.table

    def load(self, source: str, dtypes: Sequence[np.dtype]) -> Loaded:
        started = time.perf_counter()
        text = PRELUDE + source
        key = self.key(text, dtypes)
        with self.lock(key):
            if key in self._loaded:
                return self._loaded[key]
            if self.table:
                library, path, was_cached = self.library(text, key)
            else:
                with ThreadPoolExecutor(1) as pool:
                    runtime = pool.submit(self.start_runtime)
                    library, path, was_cached = self.library(text, key)
                    runtime.result()
            call = self.bind(library, dtypes)
            loaded = self._loaded[key] = Loaded(call, time.perf_counter() - started, path, was_cached)
            return loaded

    def bind(self, library: ctypes.PyDLL, dtypes: Sequence[np.dtype]) -> Callable[..., tuple[Any, ...]]:
        objects = (ctypes.py_object * max(1, len(dtypes)))(*dtypes)
        library.npc_bind(ctypes.c_void_p(self.table), objects)
        definition = MethodDef(b"npc_run", ctypes.cast(library.npc_run, ctypes.c_void_p).value, METH_FASTCALL, None)
        self._kept += [library, objects, definition]
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        return make(ctypes.addressof(definition), None, None)


def start(library: ctypes.PyDLL) -> int:
    """Give the runtime what it needs of NumPy and of this machine. The address of its table."""
    umath = np._core._multiarray_umath
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    blas, limit = find_blas(umath.__file__)
    library.npc_start.restype = ctypes.c_void_p
    library.npc_start.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    return library.npc_start(pointer(umath._ARRAY_API, None), np.generic, thread_limit(), most_kept(), blas, limit)


def most_kept() -> int:
    """Bytes of freed arrays that the runtime keeps for the next ones."""
    return 1 << 29


def find_blas(module: str) -> tuple[ctypes.Array | None, int]:
    """Addresses of BLAS_ROUTINES in the library that NumPy itself is linked to, so that products are bitwise NumPy's."""
    library = ctypes.CDLL(module)
    for name, limit in BLAS_NAMES:
        try:
            functions = [getattr(library, name.format(routine)) for routine in BLAS_ROUTINES]
        except AttributeError:
            continue
        return (ctypes.c_void_p * len(functions))(*(ctypes.cast(f, ctypes.c_void_p).value for f in functions)), limit
    return None, 0


_LOADER: list[Loader] = []
_STARTING = threading.Lock()


def loader() -> Loader:
    """The loader of this process. Raises NoCompiler."""
    with _STARTING:
        if not _LOADER:
            if sys.platform == "win32" or sys.maxsize < 2**32 or int(np.__version__.split(".")[0]) < 2:
                raise NoCompiler("compiled code needs a 64-bit POSIX system and NumPy 2")
            cache = open_cache()
            _LOADER.append(Loader(cache, find_compiler(cache)))
        return _LOADER[0]


def load(source: str, dtypes: Sequence[np.dtype] = ()) -> Loaded:
    """Compile `source`, C text that follows PRELUDE, and load it; `npc_dtypes` will point to `dtypes`.

    Safe to call from many threads: a unit is compiled once. Raises NoCompiler.
    """
    return loader().load(source, dtypes)
