"""What differs between versions of CPython, a row each: the decoder and the assembler ask here, and nothing else does.

A new version is a row. Instructions that are new by name are told in `opcodes`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Version:
    """How one version writes what all of them do."""

    name_shifts: dict[str, int] = field(default_factory=dict)  # bits of an argument below the index of a name
    compare_shift: int = 0  # bits of COMPARE_OP's argument below the index of the operator
    bool_bit: int = 0  # of COMPARE_OP: the result becomes True or False
    end_of_loop: tuple[str, ...] = ()  # where an exhausted FOR_ITER jumps to
    null_above: bool = False  # a call finds [callable, NULL, arguments], else [NULL, callable, arguments]
    jumps_ask_truth: bool = True  # conditional jumps and UNARY_NOT take any object, else True or False alone
    null_for_keywords: bool = False  # CALL_FUNCTION_EX finds a NULL where no keywords are given
    has_split_exit: bool = False  # `with` keeps two slots for __exit__: a function, and its object or NULL
    has_split_iterator: bool = False  # loops keep two slots for an iterator: itself, or a sequence and where it stands
    keeps_delegate: bool = True  # `yield from` leaves what it asked below the result, for END_SEND
    sums_exactly: bool = True  # sum() of floats adds with compensation
    counts_from_itself: bool = True  # range_iterator.__setstate__ counts from where the iterator is
    warns_of_inverted_bool: bool = True  # `~True` is deprecated
    returns_when_closed: bool = True  # generator.close() gives what the generator returns
    makes_complex: bool = False  # a real number beside a complex one is made complex; else it meets the other's parts


NAMES: Final = {"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2}
VERSIONS: Final = {
    (3, 11): Version(
        name_shifts={"LOAD_GLOBAL": 1},
        keeps_delegate=False,
        sums_exactly=False,
        counts_from_itself=False,
        warns_of_inverted_bool=False,
        returns_when_closed=False,
        makes_complex=True,
    ),
    (3, 12): Version(NAMES, 4, end_of_loop=("END_FOR",), returns_when_closed=False, makes_complex=True),
    (3, 13): Version(
        NAMES, 5, 16, end_of_loop=("END_FOR", "POP_TOP"), null_above=True, jumps_ask_truth=False, makes_complex=True
    ),
    (3, 14): Version(
        NAMES,
        5,
        16,
        end_of_loop=("END_FOR", "POP_ITER"),
        null_above=True,
        jumps_ask_truth=False,
        null_for_keywords=True,
        has_split_exit=True,
    ),
    (3, 15): Version(
        NAMES | {"IMPORT_NAME": 2},
        5,
        16,
        end_of_loop=("END_FOR", "POP_ITER"),
        null_above=True,
        jumps_ask_truth=False,
        null_for_keywords=True,
        has_split_exit=True,
        has_split_iterator=True,
    ),
}
KNOWN: Final = tuple(VERSIONS)
RUNNING: Final = VERSIONS.get(sys.version_info[:2], VERSIONS[KNOWN[-1]])


def why_unknown() -> str | None:
    """Why nothing is captured in this process, as text for users. None on a CPython whose bytecode is known.

    A free-threaded build (`t` in its ABI's flags) has the same instructions, and other objects and locks.
    """
    version = sys.version_info[:2]
    name = "CPython" if sys.implementation.name == "cpython" else sys.implementation.name
    is_free_threaded = "t" in getattr(sys, "abiflags", "")
    if name == "CPython" and version in KNOWN and not is_free_threaded:
        return None
    build = "a free-threaded build of " if is_free_threaded else ""
    return (
        f"npcompile compiles with CPython {', '.join(f'{major}.{minor}' for major, minor in KNOWN)}, and this is "
        f"{build}{name} {version[0]}.{version[1]}: functions run uncompiled, at NumPy's speed"
    )


WHY_UNKNOWN: Final = why_unknown()
