"""The C compiler of this machine: which one, and what it can do."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from npcompile.backends.cache import Cache, key_of
from npcompile.backends.errors import CompilerError, CompilerRefused, CompilerTimeout, NoCompiler, WrongSetting
from npcompile.backends.native_profiling import FLAGS, FOR_PROFILERS

__all__ = ["Compiler", "CompilerError", "CompilerTimeout", "NoCompiler", "find_compiler"]

TIMEOUT = 120.0  # seconds, for one unit
LEAST_TIMEOUT = 1.0  # seconds, for reading what a process has printed
PROBE_TIMEOUT = 30.0  # seconds, for an empty one

# Exact floating point: no contraction into fused multiply-add, nothing of -ffast-math. Integers wrap around.
BASE_FLAGS: tuple[str, ...] = ("-x", "c", "-std=gnu11", "-O3", "-fPIC", "-shared", "-w", "-fwrapv", "-fno-strict-aliasing")
# What $CC may ask for is taken back first: -ffast-math links what switches off subnormal numbers in the whole process.
BASE_FLAGS += ("-fno-fast-math", "-fno-unsafe-math-optimizations", "-fno-finite-math-only", "-fsigned-zeros")
BASE_FLAGS += ("-fno-associative-math", "-fno-reciprocal-math", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")
# Where places of a loop differ by a multiple of a pointer, GCC may count from address 0. It then takes the access for one of a
# null pointer, after which nothing can follow: it finds that the function writes nothing, and drops calls of it (GCC 12).
BASE_FLAGS += ("-fno-delete-null-pointer-checks",)
# GCC 14 makes x87's fprem of it, whose errors are noted in a word of x87's own, where nothing looks for them.
BASE_FLAGS += ("-fno-builtin-fmod", "-fno-builtin-fmodf")
if sys.platform == "darwin":
    BASE_FLAGS += ("-Wl,-undefined,dynamic_lookup",)  # CPython's functions are the process's own
# Used where the compiler takes them. np.where(c, np.exp(x), y) computes exp everywhere, for NumPy's warnings and in vectors:
# it may not sink into a branch, and two choices by one condition may not become two paths.
# Nor may a comparison move into both arms of the choice before it (pre): of truth values that were chosen GCC makes no vectors.
# The last elements, fewer than a vector has, are not done by a whole one whose other lanes are 0: 0 / 0 is an error (GCC 16).
# Where a short loop begins decides an eighth of its time: on a line of the cache, whatever stands before it.
OPTIONAL_FLAGS: tuple[str, ...] = ("-mprefer-vector-width=512", "-fopenmp", "-fopenmp-simd")
OPTIONAL_FLAGS += ("-fno-tree-sink", "-fno-thread-jumps", "-fno-tree-pre", "--param=vect-partial-vector-usage=0")
OPTIONAL_FLAGS += ("-falign-loops=64",)
# What GCC's time grows faster with than the code does, and finds nothing in straight lines: 1,000 products and sums that wait for
# each other take it 1.3 s, and 0.5 s so.
LARGE_UNIT = 150_000  # characters
LARGE_FLAGS = ("-fno-gcse",)
# LLVM knows pow by its symbol, whatever its name in C: it makes x ** -1 a quotient, which is rounded otherwise.
NO_BUILTINS = ("-fno-builtin-pow", "-fno-builtin-powf")
GATHERS = Path("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling")  # of Linux
OPTIONAL_LIBRARIES = ("-lmvec", "-lm")  # in the order of the link; vector mathematics is of glibc only

# An option may be taken and still lead nowhere: the probe calls what it is for.
PROBE = "void probe(void) {}"
VECTOR_FORMS = "NPC_CALLS_VECTOR_FORMS"
ABOUT = f"""#ifdef __has_attribute
#if __has_attribute(simd)
#define {VECTOR_FORMS}
#endif
#endif
"""  # read with the macros that are predefined. clang has no such attribute, and takes no notice of OpenMP's `declare simd`
PROBES = {
    "-fopenmp": "int omp_get_max_threads(void); int probe_openmp(void) { return omp_get_max_threads(); }",
    "-lmvec": """
#if defined(__x86_64__)
void _ZGVbN2v_sin(void); void probe_vectors(void) { _ZGVbN2v_sin(); }
#elif defined(__aarch64__)
void _ZGVnN2v_sin(void); void probe_vectors(void) { _ZGVnN2v_sin(); }
#endif
""",
    "-lm": "double sin(double); double probe_mathematics(double x) { return sin(x); }",
}
MISSING_IS_AN_ERROR = () if sys.platform == "darwin" else ("-Wl,--no-undefined",)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that was seen to compile and link a shared library on this machine."""

    command: tuple[str, ...]
    identity: str  # digest of its version and of every macro that it predefines, the instruction set's included
    flags: tuple[str, ...]  # for every unit
    libraries: tuple[str, ...]
    calls_vector_forms: bool = False  # does it make calls of vector forms (`_ZGV...`) of functions that are said to have such?

    @property
    def has_openmp(self) -> bool:
        return "-fopenmp" in self.flags

    @property
    def has_vector_math(self) -> bool:
        return "-lmvec" in self.libraries

    def flags_for(self, source: str) -> tuple[str, ...]:
        """For one unit. What takes -fno-tree-pre takes -fno-gcse."""
        large = LARGE_FLAGS if len(source) > LARGE_UNIT and "-fno-tree-pre" in self.flags else ()
        profiled = FLAGS if FOR_PROFILERS in source else ()
        return (*self.flags, *large, *profiled, *(() if self.calls_vector_forms else NO_BUILTINS))

    def command_for(self, source: str, output: str) -> list[str]:
        """What makes the library of one unit, which it reads."""
        return [*self.command, *self.flags_for(source), "-o", output, "-", *self.libraries]

    def begin(self, source: str, cache: Cache, is_beside: bool = False, key: str | None = None) -> Making:
        """Begin to make a shared library of one C translation unit, maybe beside the program. Raises CompilerError.

        With the `key` of its entry, it is made ahead of a caller that waits. BlockingIOError where another process makes it.
        """
        return Making(self, source, cache, is_beside, key)


class Making:
    """A shared library that is being made, in a folder of its own, which goes at the end of the `with` block."""

    def __init__(self, compiler: Compiler, source: str, cache: Cache, is_beside: bool = False, key: str | None = None):
        from npcompile.backends.cpu.process import Child  # here, because a warm start runs no process

        self.source, self.latest = source, perf_counter() + TIMEOUT
        with ExitStack() as held:
            if key is not None and not held.enter_context(cache.locked(key, timeout=0.0)):
                raise BlockingIOError(key)
            folder = held.enter_context(cache.scratch_directory())
            self.output = folder / "unit.so"
            command = compiler.command_for(source, str(self.output))
            kept = {"ZIG_LOCAL_CACHE_DIR": str(folder)}  # else zig keeps what it makes of each unit in its own cache, for ever
            self.child = held.enter_context(Child(command, source, is_beside, kept, is_ahead=key is not None))
            self.held = held.pop_all()

    def has_ended(self) -> bool:
        """Does `finish` tell at once?"""
        return self.child.has_ended() or perf_counter() > self.latest

    def finish(self, timeout: float = TIMEOUT) -> Path:
        """The library, when it is made. Raises CompilerError."""
        try:
            self.child.result(min(timeout, max(self.latest - perf_counter(), LEAST_TIMEOUT)))
        finally:
            self.child.count(self.source)
        if not self.output.is_file() or self.output.stat().st_size == 0:
            raise CompilerRefused(f"{' '.join(self.child.command)}\nsucceeded, but wrote no library")
        return self.output

    def __enter__(self) -> Making:
        return self

    def __exit__(self, *raised: object) -> None:
        self.held.close()


def find_compiler(cache: Cache, trial: Trial | None = None) -> Compiler:
    """The first candidate that works. What was found is kept in `cache`, so that a warm start runs no process.

    `trial`: one that has begun. Raises NoCompiler, or the CompilerError of the last candidate.
    """
    failure = NoCompiler(
        f"no C compiler: none of $CC, cc, gcc, clang is on PATH={os.environ.get('PATH', '')!r} and ziglang is not installed"
    )
    for command in candidates():
        try:
            key = fingerprint(command)
            known = cache.read(key, ".json")
            if known is not None:
                return restore(known)
            with nullcontext(trial) if trial and trial.wanted.command == command else Trial(command, cache) as begun:
                compiler = probe(begun)
        except (CompilerError, OSError) as error:
            failure = (
                error if isinstance(error, CompilerError) else CompilerError(f"{' '.join(command)}\ncannot be tried: {error}")
            )
            continue
        import json  # here and below: what importing npcompile alone does not need

        cache.write(key, ".json", json.dumps(asdict(compiler)).encode())
        return compiler
    try:
        raise failure
    finally:
        del failure


def candidates() -> Iterator[tuple[str, ...]]:
    """Commands that may be a C compiler, best first. $CC, when set, is the only one beside ziglang."""
    chosen = os.environ.get("CC", "").split()
    for first, *rest in [chosen] if chosen else [["cc"], ["gcc"], ["clang"]]:
        path = which(first)
        if path is not None:
            yield (path, *rest)
    ziglang = importlib.util.find_spec("ziglang")
    for folder in (ziglang and ziglang.submodule_search_locations) or ():
        if path := which(os.path.join(folder, "zig")):
            yield (path, "cc")


def which(name: str) -> str | None:
    """The file that a command names. (shutil.which does this, and takes longer to import than a warm start.)"""
    folders = [""] if os.path.dirname(name) else os.get_exec_path()
    paths = (os.path.abspath(os.path.join(folder, name)) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def restore(known: bytes) -> Compiler:
    import json

    fields = json.loads(known)
    lists = {name: tuple(fields[name]) for name in ("command", "flags", "libraries")}
    return Compiler(identity=fields["identity"], calls_vector_forms=fields["calls_vector_forms"], **lists)


def fingerprint(command: Sequence[str]) -> str:
    """Changes whenever another compiler, processor or target, or another choice of flags, would change the probe."""
    files = [os.stat(path) for path in map(which, command) if path]  # $CC may be a wrapper and what it wraps
    wanted = (*BASE_FLAGS, *optional_flags(command), *OPTIONAL_LIBRARIES, ABOUT)
    return key_of("compiler", *command, *(f"{f.st_mtime_ns} {f.st_size}" for f in files), *wanted, processor())


def architecture() -> str:
    """The value of -march: NPCOMPILE_MARCH lets unequal machines of a cluster share one cache.

    >>> architecture()
    'native'
    """
    return os.environ.get("NPCOMPILE_MARCH") or "native"


def march(command: Sequence[str]) -> str:
    """The option, for zig by its names: x86_64_v3 for x86-64-v3."""
    is_zig = {"zig", "ziglang"} & {os.path.basename(word) for word in command}
    return f"-march={architecture().replace('-', '_') if is_zig else architecture()}"


def optional_flags(command: Sequence[str]) -> tuple[str, ...]:
    """What `probe` tries."""
    return (march(command), *tuning(), *OPTIONAL_FLAGS)


def tuning() -> tuple[str, ...]:
    """GCC tunes for no processor at all where it does not know the model, and then gathers nothing from memory.

    Intel's with AVX-512 that gather as fast as they were made to (later than Ice Lake) are much alike.
    """
    if architecture() != "native" or not {"GenuineIntel", "avx512_vbmi2"} <= set(processor().split()):
        return ()
    try:
        is_slowed = "Not affected" not in GATHERS.read_text()
    except OSError:
        return ()
    return () if is_slowed else ("-mtune=sapphirerapids",)


def processor() -> str:
    """Model and features of the first processor."""
    try:
        # Its first pages: the rest says the same of every other processor, and is slow to produce on a large machine.
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(8192).decode(errors="replace").split("\n\n")[0]
    except OSError:
        return repr(os.uname())
    return "\n".join(
        line
        for line in text.splitlines()
        if not re.match(r"processor|cpu MHz|bogomips|apicid|initial apicid|core id", line, re.I)
    )


class Trial:
    """All that units need of a compiler, asked of it at once by processes that run beside this one until `probe` waits.

    `is_beside`: no call waits for them.
    """

    def __init__(self, command: tuple[str, ...], cache: Cache, runtime: str | None = None, is_beside: bool = False):
        from npcompile.backends.cpu.process import Child  # here, because a warm start runs no process

        flags = optional_flags(command)
        self.cache = cache
        self.wanted = Compiler(command, "", (*BASE_FLAGS, *flags), OPTIONAL_LIBRARIES)
        with ExitStack() as held:
            self.attempt = held.enter_context(begin_attempt(command, flags, OPTIONAL_LIBRARIES, cache, is_beside))
            self.macros = held.enter_context(Child(asking_for_macros(command, flags), ABOUT, is_beside))
            self.runtime = (
                None if runtime is None else held.enter_context(self.wanted.begin(runtime, cache, is_beside))
            )  # as if all went well
            self.held = held.pop_all()

    def has_ended(self) -> bool:
        """Has the compiler told all, and made the runtime?"""
        asked = self.attempt, self.macros, self.runtime
        return all(each is None or each.has_ended() for each in asked)

    def is_of(self, compiler: Compiler) -> bool:
        """Did all go well with this compiler?"""
        told = replace(self.wanted, identity=compiler.identity, calls_vector_forms=compiler.calls_vector_forms)
        return compiler == told

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *raised: object) -> None:
        self.held.close()


def begin_finding(cache: Cache, runtime_text: Callable[[], str], is_beside: bool) -> Compiler | Trial | None:
    """The best candidate, or, where it is not known, its trial. None where it cannot be tried: `find_compiler` will tell."""
    command = next(candidates(), None)
    try:
        if command is None:
            return None
        known = cache.read(fingerprint(command), ".json")
        return Trial(command, cache, runtime_text(), is_beside) if known is None else restore(known)
    except (CompilerError, OSError):
        return None


def probe(trial: Trial) -> Compiler:
    """Try what a unit needs, all at once first, one by one when that fails. Raises CompilerError."""
    from npcompile.backends.cpu.process import run  # here, because a warm start runs no process

    if succeeds(trial.attempt):
        return replace(trial.wanted, **told_by(trial.macros.result(PROBE_TIMEOUT)))
    command, cache = trial.wanted.command, trial.cache
    flags = tuple(flag for flag in optional_flags(command) if links(command, (flag,), (), cache))
    if (chosen := os.environ.get("NPCOMPILE_MARCH")) and march(command) not in flags:
        raise WrongSetting(
            f"NPCOMPILE_MARCH={chosen!r} in the environment: {' '.join(command)} makes no program for such a processor. "
            f"It takes what the compiler's -march= takes, x86-64-v3 for one; unset it for this machine's own processor"
        )
    libraries = tuple(library for library in OPTIONAL_LIBRARIES if links(command, (), (library,), cache))
    with begin_attempt(command, flags, libraries, cache) as attempt:
        attempt.finish(PROBE_TIMEOUT)
    told = told_by(run(asking_for_macros(command, flags), ABOUT, PROBE_TIMEOUT))
    return Compiler(command, flags=(*BASE_FLAGS, *flags), libraries=libraries, **told)


def begin_attempt(
    command: tuple[str, ...], flags: tuple[str, ...], libraries: tuple[str, ...], cache: Cache, is_beside: bool = False
) -> Making:
    source = "\n".join((PROBE, *(PROBES[option] for option in (*flags, *libraries) if option in PROBES)))
    return Compiler(command, "", (*BASE_FLAGS, *flags, *MISSING_IS_AN_ERROR), libraries).begin(source, cache, is_beside)


def succeeds(attempt: Making) -> bool:
    try:
        attempt.finish(PROBE_TIMEOUT)
    except CompilerRefused:
        return False
    return True


def links(command: tuple[str, ...], flags: tuple[str, ...], libraries: tuple[str, ...], cache: Cache) -> bool:
    with begin_attempt(command, flags, libraries, cache) as attempt:
        return succeeds(attempt)


def asking_for_macros(command: tuple[str, ...], flags: tuple[str, ...]) -> list[str]:
    return [*command, *flags, "-dM", "-E", "-x", "c", "-"]


def told_by(macros: str) -> dict[str, Any]:
    """The fields of a Compiler that its macros tell."""
    lines = sorted(macros.splitlines())
    identity = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return {"identity": identity, "calls_vector_forms": any(VECTOR_FORMS in line for line in lines)}
