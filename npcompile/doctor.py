"""What this machine offers npcompile, and what to do about what is missing: `python -m npcompile.doctor`."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

import npcompile
from npcompile.backends.cache import Cache, open_cache
from npcompile.backends.cpu import inline_angles, vector_math
from npcompile.backends.cpu.c_library import unit_of_calls
from npcompile.backends.cpu.compiler import MISSING_IS_AN_ERROR, PROBE_TIMEOUT, Compiler, find_compiler
from npcompile.backends.cpu.process import run
from npcompile.backends.cpu.threads import thread_limit
from npcompile.backends.errors import CompilerError, NoCompiler, WrongSetting
from npcompile.tracer.bytecode.versions import WHY_UNKNOWN

DEPENDENCIES = ("npcompile", "numpy", "platformdirs", "threadpoolctl")  # without which nothing is compiled
CUDA_PARTS = {"cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"), "triton": ("triton",)}  # import name to distributions
INSTALL_COMPILER = "install one (Debian: apt-get install gcc; without root: pip install ziglang) or point CC at it"
ANOTHER = "point CC at another compiler, or unset it"
# What a compiler that fails says -> what to do. The first that is found counts.
ADVICE = {
    r"No space left on device": "make room there, or set TMPDIR to a folder on another disk",
    r"crt[1in]\.o|cannot find -l(c|gcc)\b|ld: library not found": "files that programs are linked with are missing: install them "
    "(Debian: apt-get install libc6-dev; Fedora: dnf install glibc-devel; macOS: xcode-select --install)",
    r"xcrun|xcode-select": "run xcode-select --install",
    r"cannot execute|execvp|posix_spawn|cannot find 'ld'": "a part of the compiler is missing: install it again, with its linker "
    "(Debian: apt-get install --reinstall gcc binutils)",
    r"cannot be (started|tried)": f"it cannot be run: {ANOTHER}",
    r"was stopped after": f"it hangs: run the command above by hand, or {ANOTHER}",
    r"cannot be loaded|failed to map|Operation not permitted": "nothing can be executed from that folder, or the library is for "
    f"another machine: set TMPDIR and NPCOMPILE_CACHE_DIR to folders that are not mounted noexec, or {ANOTHER}",
    r"[Uu]ndefined (reference|symbol)|undeclared|implicit declaration": "its C library has not all functions that compiled code "
    f"calls: {ANOTHER}, and report it with this output",
}
SLOWER = "Without it functions still give NumPy's answers, at NumPy's speed."


@dataclass(frozen=True)
class Finding:
    """One line of the report. A remedy says that something is wrong and what to do."""

    subject: str
    text: str
    remedy: str = ""


def version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_versions() -> Iterator[Finding]:
    yield Finding("Python", f"{platform.python_implementation()} {platform.python_version()} on {platform.platform()}")
    if WHY_UNKNOWN:
        yield Finding("Python", WHY_UNKNOWN, "use one of these versions, with its usual build")
    for name in DEPENDENCIES:
        if importlib.util.find_spec(name) is None:
            yield Finding(name, "not installed", f"pip install {name}")
        else:
            yield Finding(name, version_of(name) or "not installed, imported from its sources")


def check_compiler() -> Iterator[Finding]:
    cache = open_cache()
    try:
        compiler = find_compiler(cache)
        yield Finding("C compiler", version_text(compiler))
        yield Finding("its options", " ".join((*compiler.command, *compiler.flags, *compiler.libraries)))
        check_library(compiler, cache)
    except NoCompiler as error:
        yield Finding("C compiler", str(error), f"{advice(error)}. {SLOWER}")
        return
    except WrongSetting as error:
        yield Finding("C compiler", str(error), "set it anew: until then calls of compiled functions raise this error")
        return
    yield Finding("C library", "it has every mathematical function that compiled code calls")
    if not compiler.has_openmp:
        yield Finding("OpenMP", "the compiler has none: loops run in parallel, but omp_set_num_threads does not limit them")
    yield from vector_mathematics(compiler)


def vector_mathematics(compiler: Compiler) -> Iterator[Finding]:
    """Says which functions compute one number at a time."""
    if compiler.has_vector_math and compiler.calls_vector_forms:
        return
    functions = [*vector_math.NAMES, *(() if compiler.has_vector_math else inline_angles.FUNCTIONS)]
    inline = [*dict.fromkeys(name.removesuffix("f") for name in functions)]
    if compiler.has_vector_math:
        why = "the compiler calls none of libmvec's functions in the loops that it makes vectors of; GCC does"
        others = "the others, such as sin, cos and tan, compute one number at a time in these loops: 4 to 20 ns each, and not 1"
    else:
        why = "no libmvec, which is part of glibc on x86-64, and from 2.38 on of glibc on AArch64; macOS and musl have none"
        others = "sin, cos and tan of single elements in loops cost as much as a call, "
        others += "and the others, such as arctan, sinh and cbrt, compute one number at a time: 4 to 11 ns each, and not 1"
    yield Finding(
        "vector mathematics",
        f"{why}. {', '.join(inline[:-1])} and {inline[-1]} are npcompile's own, written into the loops, 1.5 to 14 times faster "
        f"than a call for each number; {others}",
    )


def version_text(compiler: Compiler) -> str:
    """What the compiler says it is. Raises CompilerError."""
    said = run([*compiler.command, "--version"], "", PROBE_TIMEOUT).splitlines()
    return f"{said[0] if said else 'it does not tell its version'} ({' '.join(compiler.command)})"


def check_library(compiler: Compiler, cache: Cache) -> None:
    """Make a unit that calls each function of the mathematical library, and load it. Raises CompilerError."""
    strict = replace(compiler, flags=(*compiler.flags, *MISSING_IS_AN_ERROR))
    with strict.begin(unit_of_calls(), cache) as making:
        made = making.finish()
        try:
            ctypes.CDLL(str(made))
        except OSError as error:
            raise CompilerError(f"{compiler.command[0]} made a library that cannot be loaded: {error}") from error


def advice(error: NoCompiler) -> str:
    """What to do about it."""
    if not isinstance(error, CompilerError):
        chosen = os.environ.get("CC", "")
        return f"CC={chosen} names no program: unset CC, or {INSTALL_COMPILER}" if chosen else INSTALL_COMPILER
    return next((text for said, text in ADVICE.items() if re.search(said, str(error))), f"see what it says above; {ANOTHER}")


def check_cache() -> Iterator[Finding]:
    with warnings.catch_warnings(record=True) as refused:
        warnings.simplefilter("always")
        cache = open_cache()
    if cache.folder is None:
        reason = "; ".join(str(each.message) for each in refused) or "it cannot be made"
        yield Finding(
            "cache", reason, "set NPCOMPILE_CACHE_DIR to a directory of your own (mode 0700): now each process compiles again"
        )
    elif not os.access(cache.folder, os.W_OK | os.X_OK):
        yield Finding("cache", f"{cache.folder} is read-only", "make it writable or set NPCOMPILE_CACHE_DIR")
    else:
        yield Finding("cache", str(cache.folder))


def check_threads() -> Iterator[Finding]:
    limits = {name: os.environ[name] for name in ("NPCOMPILE_NUM_THREADS", "OMP_NUM_THREADS") if name in os.environ}
    because = f" ({', '.join(f'{name}={value}' for name, value in limits.items())})" if limits else ""
    yield Finding("threads", f"{thread_limit()}{because}")


def check_cuda() -> Iterator[Finding]:
    """Says which parts of the extras are there. Imports none of them: that alone would start the driver."""
    present = {name: next(filter(None, map(version_of, names)), None) for name, names in CUDA_PARTS.items()}
    if not present["cupy"]:  # Triton alone comes with other packages
        yield Finding("CUDA extra", "not installed")
    elif not present["triton"]:
        yield Finding("CUDA extra", "triton missing", "pip install triton")
    else:
        yield Finding("CUDA extra", ", ".join(f"{name} {version}" for name, version in present.items()))


def sample(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sqrt(x * x + y) - y.sum() / 2


def check_itself() -> Iterator[Finding]:
    """Compile a small function and compare it with NumPy."""
    x, y = np.linspace(0, 1, 1000), np.linspace(1, 2, 1000)
    expected = sample(x, y)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        answer = npcompile.compile(sample)(x, y)
    for warning in said:
        yield Finding(
            "self-test",
            f"ran, but warned: {warning.message}",
            "see above, and report it with this output when a compiler was found",
        )
    if type(answer) is not type(expected) or answer.dtype != expected.dtype or not np.allclose(answer, expected, 1e-14, 0):
        yield Finding(
            "self-test", f"compiled answer differs: {answer!r} instead of {expected!r}", "please report it with this output"
        )
    else:
        yield Finding("self-test", "a compiled function answers as NumPy does")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_versions,
    check_compiler,
    check_cache,
    check_threads,
    check_cuda,
    check_itself,
)


def main() -> int:
    """Print each finding as it is made. 0 when nothing needs doing, 1 otherwise."""
    problems = 0
    for check in CHECKS:
        if check is check_compiler and problems:
            print("\nThe rest was not looked at: it needs the above.")
            return 1
        for finding in check():
            print(f"{finding.subject:<18} {finding.text}", flush=True)
            if finding.remedy:
                problems += 1
                print(f"{'':<18} -> {finding.remedy}", flush=True)
    print("\nall is well" if not problems else f"\n{problems} thing{'s' * (problems > 1)} to look at")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
