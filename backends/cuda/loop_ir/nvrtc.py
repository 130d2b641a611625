"""NVRTC: CUDA C++ to a cubin for an architecture, on any machine. API: https://docs.nvidia.com/cuda/nvrtc/."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from npcompile.backends.cache import Cache, key_of, open_cache

SUFFIX = ".loop.cubin"
OPTIONS = ("--fmad=false", "--std=c++17")


class NoNvrtc(Exception):
    """NVRTC is not installed, neither as a wheel nor as a library of the system."""


class Refused(Exception):
    """NVRTC does not compile a text: its log."""


WHEELS = ("nvidia.cuda_nvrtc", "nvidia.cu13")  # folders of nvidia-cuda-nvrtc-cu12, and of what is for CUDA 13
NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")


@functools.cache
def library() -> ctypes.CDLL:
    """The library of a wheel, the system's, or that of the toolkit. Raises NoNvrtc."""
    toolkit = Path(os.environ.get("CUDA_PATH", "/usr/local/cuda"), "lib64", "libnvrtc.so")
    for name in [*map(str, in_wheels()), *NAMES, str(toolkit)]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NoNvrtc("nvidia-cuda-nvrtc-cu12 is not installed")


def in_wheels() -> Iterator[Path]:
    for wheel in WHEELS:
        try:
            found = importlib.util.find_spec(wheel)
        except ModuleNotFoundError:
            continue
        for folder in (found.submodule_search_locations if found is not None else None) or ():
            yield from sorted(Path(folder, "lib").glob("libnvrtc.so*"))


@functools.cache
def version() -> str:
    """Of the library: "12.9". Raises NoNvrtc."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


@functools.cache
def cubins() -> Cache:
    return open_cache()


def cached_cubin(source: str, architecture: int) -> bytes:
    """The same as `compile_cubin`, from the disk cache where it is there."""
    key = key_of(source, str(architecture), version(), *OPTIONS)
    found = cubins().read(key, SUFFIX)
    if found is None:
        found = compile_cubin(source, architecture)
        cubins().write(key, SUFFIX, found)
    return found


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
