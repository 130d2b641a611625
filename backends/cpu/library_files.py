"""Is a shared library whole, and harmless to load? What the compiler's exit status does not tell."""

from __future__ import annotations

import ctypes
import struct
import sys

ELF, MACH_O = b"\x7fELF\x02\x01", b"\xcf\xfa\xed\xfe"  # of 64 bits, little-endian
PT_LOAD, LC_SEGMENT_64 = 1, 0x19
SUBNORMAL = 1.1125369292536007e-308  # half of the smallest normal number


def why_incomplete(content: bytes) -> str:
    """What of the file is missing that the system would map into memory: to touch it is SIGBUS. Nothing where it is whole.

    >>> why_incomplete(b"no library")  # which is an error of the system's, when it is loaded
    ''
    """
    try:
        if content.startswith(ELF):
            needed = elf_size(content)
        elif content.startswith(MACH_O):
            needed = mach_o_size(content)
        else:
            return ""
    except struct.error:
        return "its headers are cut off"
    return f"it has {len(content)} bytes of {needed}" if needed > len(content) else ""


def elf_size(content: bytes) -> int:
    """The end of the last segment, and of both tables (elf.h: Elf64_Ehdr, Elf64_Phdr)."""
    segments, sections = struct.unpack_from("<QQ", content, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", content, 54)
    ends = [segments + segment_size * segment_count, sections + section_size * section_count]
    for k in range(segment_count):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", content, segments + k * segment_size)
        if kind == PT_LOAD:
            ends.append(offset + size)
    return int(max(ends))


def mach_o_size(content: bytes) -> int:
    """The end of the last segment (mach-o/loader.h: mach_header_64, segment_command_64)."""
    count, size = struct.unpack_from("<II", content, 16)
    at, ends = 32, [32 + size]
    for _ in range(count):
        kind, length = struct.unpack_from("<II", content, at)
        if kind == LC_SEGMENT_64:
            ends.append(sum(struct.unpack_from("<QQ", content, at + 40)))
        at += max(length, 8)
    return max(ends)


def load_library(path: str) -> ctypes.PyDLL:
    """Raises OSError where it cannot be loaded, or switches off subnormal numbers, as what -ffast-math links does."""
    had_subnormals = has_subnormals()
    handle = ctypes.PyDLL(path)
    if had_subnormals and not has_subnormals():
        reset = getattr(ctypes.CDLL(None), "fesetenv", None)
        if reset is not None and sys.platform == "linux":
            reset(ctypes.c_void_p(-1))  # FE_DFL_ENV
        raise OSError(f"{path}: it switches off subnormal numbers for the whole process; is -ffast-math in $CC?")
    return handle


def has_subnormals() -> bool:
    """Does arithmetic of this thread give subnormal numbers, and take them for what they are?"""
    smallest, half = sys.float_info.min, 0.5
    return smallest * half == SUBNORMAL and smallest == SUBNORMAL + SUBNORMAL
