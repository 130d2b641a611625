"""NVRTC of its wheel: CUDA C++ to a cubin for an architecture, on any machine. API: https://docs.nvidia.com/cuda/nvrtc/."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path

OPTIONS = ("--fmad=false", "--std=c++17")


class NoNvrtc(Exception):
    """There is no NVRTC: the wheel nvidia-cuda-nvrtc-cu12 is not installed."""


class Refused(Exception):
    """NVRTC does not compile a text: its log."""


@functools.cache
def library() -> ctypes.CDLL:
    """The library of the wheel. Raises NoNvrtc."""
    try:
        found = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        found = None
    folders = found.submodule_search_locations if found is not None else None
    for folder in folders or ():
        for path in sorted(Path(folder, "lib").glob("libnvrtc.so*")):
            return ctypes.CDLL(str(path))
    raise NoNvrtc("nvidia-cuda-nvrtc-cu12 is not installed")


def compile_cubin(source: str, architecture: int) -> bytes:
    """Machine code for devices of an architecture (90: H100). Raises NoNvrtc, or Refused with NVRTC's log.

    Example: `compile_cubin(text, 90)[:4] == b"\\x7fELF"`.
    """
    nvrtc, program = library(), ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"loop.cu", 0, None, None)
    try:
        options = [option.encode() for option in (f"--gpu-architecture=sm_{architecture}", *OPTIONS)]
        failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if failed:
            raise Refused(read(nvrtc, program, "ProgramLog").decode())
        return read(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.raw
