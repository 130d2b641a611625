"""The CUDA text of loops as C++ on the CPU, a few threads in two blocks: in the place of a device."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
COMPILER = shutil.which("g++")
OPTIONS = ("-std=c++20", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-pthread", "-w")
BLOCKS, THREADS = 2, 2


class KernelOnCpu:
    """See npcompile.backends.cuda.loop_ir.kernel.LoopKernel."""

    processors = BLOCKS

    def __init__(self, source: str):
        if COMPILER is None:
            pytest.skip("there is no C++ compiler")
        (parameters,) = re.findall(r"^void npc_loop\((.*)\)", source, re.M)
        kinds = [parameter.rpartition(" ")[0] for parameter in parameters.split(", ")]
        given = ", ".join(f"({kind})words[{k}]" for k, kind in enumerate(kinds))
        run = (
            f'extern "C" void run(const long long* words) {{ npc_run_grid({BLOCKS}, {THREADS}, [=] {{ npc_loop({given}); }}); }}'
        )
        self.run = library(f"{HEADER.read_text()}{source}{run}\n").run

    def resident(self, threads: int) -> int:
        return BLOCKS

    def __call__(self, blocks: int, threads: int, words: Sequence[int]) -> None:
        self.run((ctypes.c_longlong * len(words))(*words))


def library(source: str) -> ctypes.CDLL:
    folder = Path(tempfile.gettempdir(), f"npcompile-cuda-on-cpu-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:32]}.so"
    if not found.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            text, made = Path(scratch, "loop.cpp"), Path(scratch, "loop.so")
            text.write_text(source)
            assert COMPILER is not None
            done = subprocess.run([COMPILER, *OPTIONS, str(text), "-o", str(made)], capture_output=True, text=True)
            assert not done.returncode, done.stderr
            os.replace(made, found)
    return ctypes.CDLL(str(found))
