"""A process in which every C compiler is GCC with a sanitizer: what is generated and the runtime are checked as they run.

Code without optimisation compiles four times as fast, and shows the most: nothing undefined is optimised away.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FLAGS = {
    "address": "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer",
    "thread": "-fsanitize=thread",
}
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}  # loaded before Python, which was not compiled with them
REPORTED = 66  # the exit status of a process with a report
# What Python never frees is no leak, and units have functions of the same names. How OpenBLAS's threads wait for each other
# ThreadSanitizer does not see, so there is one.
OPTIONS = {
    # Where memory is lacking programs are told, as they are without a sanitizer.
    "ASAN_OPTIONS": f"detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1:exitcode={REPORTED}:"
    "malloc_context_size=4:quarantine_size_mb=32",
    "UBSAN_OPTIONS": f"print_stacktrace=1:exitcode={REPORTED}",
    "TSAN_OPTIONS": f"halt_on_error=1:exitcode={REPORTED}:history_size=4",
    "OPENBLAS_NUM_THREADS": "1",
}
# The sanitizer's library is for this process alone: it slows a compiler down tenfold, and shells crash with it.
AT_START = """import os
os.environ.pop("LD_PRELOAD", None)
"""
# Reports name lines of the source, which is kept.
COMPILER = """#!/bin/sh
source=$(mktemp "{folder}/XXXXXX.c")
cat > "$source"
{{ echo "#line 1 \\"$source\\""; cat "$source"; }} | {gcc} "$@" {flags} -O{level} -g1
"""


def library_of(kind: str) -> str | None:
    """The library of a sanitizer, "address" or "thread", that the GCC of this machine has."""
    gcc = shutil.which("gcc")
    if gcc is None or sys.platform != "linux":
        return None
    path = subprocess.run([gcc, f"-print-file-name={LIBRARIES[kind]}"], capture_output=True, text=True, check=True).stdout.strip()
    return path if os.path.isabs(path) and os.path.exists(path) else None  # a bare name is what GCC did not find


def environment(kind: str, folder: Path, level: int = 0) -> dict[str, str]:
    """The variables of such a process, whose compiler and compiled units are in `folder`; code is compiled with -O`level`."""
    library, gcc = library_of(kind), shutil.which("gcc")
    assert library is not None and gcc is not None
    compiler = folder / f"{kind}-{level}"
    compiler.write_text(COMPILER.format(gcc=gcc, folder=folder, flags=FLAGS[kind], level=level))
    compiler.chmod(0o700)
    (folder / "sitecustomize.py").write_text(AT_START)
    cache = folder / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    paths = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    own = {"CC": str(compiler), "NPCOMPILE_CACHE_DIR": str(cache), "LD_PRELOAD": library, "PYTHONPATH": paths}
    return {**os.environ, **OPTIONS, **own}


def run(kind: str, folder: Path, *command: str, level: int = 0) -> int:
    """The exit status of `python COMMAND` in such a process; what it prints is printed."""
    return subprocess.run([sys.executable, *command], env=environment(kind, folder, level)).returncode
