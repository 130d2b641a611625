"""NumPy's own inner loops of its ufuncs: what of them generated C calls, and their addresses.

C text names a loop after the ufunc and the dtypes' letters, outputs last. For `np.exp` of float64 it calls

    npc_numpy_loop_exp_dd(operands, count, strides)   with char* operands[] and int64_t strides[], in bytes
    npc_numpy_one_exp_dd(x)                           of one number, in a register, as the ufunc does of a scalar
    npc_numpy_each_exp_dd(x)                          the same as it does of one of many
    npc_numpy_last_power_ddd(x, y)                    the same where the last operand is one number for all

`loops_text` declares both, in `functions_text`. A unit has names of loops, and no addresses: the loader fills these in from the
NumPy of the process, so that a unit in the cache serves every version which has the loops. Text is only made for loops that this
NumPy has (`loop_of`). They are those that NumPy has chosen for this processor; they take no lock, and any thread may call them.
Layout: struct _tagPyUFuncObject of numpy/_core/include/numpy/ufuncobject.h, which is part of NumPy's stable ABI.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Collection, Sequence

import numpy as np

LETTERS = "efdgFD"  # dtypes of which loops are called: they need neither the GIL nor Python's objects
LOOP = "npc_numpy_loop_"  # before the name and the letters
WAYS = {way: f"npc_numpy_{way}_" for way in ("one", "each", "last")}
IN_REGISTER = {"e": "float", "f": "float", "d": "double", "g": "long double", "F": "npc_c8", "D": "npc_c16"}
IN_MEMORY = IN_REGISTER | {"e": "_Float16"}
NAMES, LOOPS = "npc_numpy_loop_names", "npc_numpy_loops"  # what a unit exports


class UFunc(ctypes.Structure):
    """The leading fields of PyUFuncObject, after those of every object."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    ]


class Loop(ctypes.Structure):
    """struct npc_numpy_loop of prelude.py."""

    _fields_ = [("function", ctypes.c_void_p), ("data", ctypes.c_void_p)]


def loop_of(ufunc: np.ufunc, dtypes: Sequence[np.dtype]) -> str | None:
    """The name in C of the loop that NumPy runs on operands of these dtypes, outputs left out. None: none that can be called.

    >>> loop_of(np.exp, [np.dtype(np.float64)])
    'npc_numpy_loop_exp_dd'
    """
    given = "".join(dtype.char for dtype in dtypes)
    if len(given) != ufunc.nin or set(given) - set(LETTERS) or not all(dtype.isnative for dtype in dtypes):
        return None
    types = next((types for types in loops_by_types(ufunc) if types.startswith(given)), None)
    return types and f"{LOOP}{ufunc.__name__}_{types}"


@functools.cache
def loops_by_types(ufunc: np.ufunc) -> dict[str, tuple[int, int]]:
    """Letters of the operands, outputs last, to the address of the loop and of what it is given beside them."""
    fields = UFunc.from_address(id(ufunc) + object.__basicsize__)
    found: dict[str, tuple[int, int]] = {}
    for k, types in enumerate(ufunc.types):
        letters = types.replace("->", "")
        if set(letters) <= set(LETTERS):
            numbers = [fields.types[k * ufunc.nargs + i][0] for i in range(ufunc.nargs)]
            assert numbers == [np.dtype(letter).num for letter in letters], (ufunc, k, numbers)
            found.setdefault(letters, (fields.functions[k] or 0, fields.data[k] or 0))
    return found


def number_text(ufunc: np.ufunc, arguments: Sequence[str], dtypes: Sequence[np.dtype], way: str) -> str:
    """What the loop gives for numbers that are in registers, in one of the WAYS."""
    loop = loop_of(ufunc, dtypes)
    assert loop is not None, (ufunc, dtypes)
    return f"{loop.replace(LOOP, WAYS[way])}({', '.join(arguments)})"


def loops_text(called: Collection[str]) -> str:
    """Declarations of the loops among the functions that C text calls, after those of complex numbers."""
    ones = {name: name.replace(prefix, LOOP) for prefix in WAYS.values() for name in called if name.startswith(prefix)}
    loops = sorted({*ones.values(), *(name for name in called if name.startswith(LOOP))})
    if not loops:
        return ""
    words = [name.removeprefix(LOOP).rpartition("_") for name in loops]
    text = f"struct npc_numpy_loop {LOOPS}[{len(loops)}];\n"
    text += f'const char {NAMES}[] = "{" ".join(f"{name} {letters}" for name, _, letters in words)}";\n'
    for k, (loop, (_, _, letters)) in enumerate(zip(loops, words)):
        text += f"#define {loop}(operands, count, strides) rt->run_numpy_loop(&{LOOPS}[{k}], operands, count, strides)\n"
        text += "".join(one_text(name, loop, letters) for name, of in sorted(ones.items()) if of == loop)
    return text


def one_text(name: str, loop: str, letters: str) -> str:
    """The function `name` of one number for each operand. Of operands of no dimensions ufuncs have strides of 0, and of what
    comes of a single one too: squares of complex numbers fuse in another way then.

    Others are as long as a number: of longer ones operands would seem to overlap, for which loops do without vectors.
    """
    given, made = letters[:-1], letters[-1]
    named = ", ".join(f"{IN_REGISTER[letter]} x{k}" for k, letter in enumerate(given))
    copies = "".join(f" {IN_MEMORY[letter]} m{k} = x{k};" for k, letter in enumerate(given))
    places = ", ".join(f"(char*)&m{k}" for k in range(len(given)))
    zeros = {"one": range(max(len(given), 2)), "last": [len(given) - 1]}.get(name.split("_")[2], [])
    strides = ", ".join("0" if k in zeros else f"sizeof({IN_MEMORY[letter]})" for k, letter in enumerate(letters))
    return (
        f"static inline {IN_REGISTER[made]} {name}({named}) {{\n"
        f"  {IN_MEMORY[made]} made;{copies}\n"
        f"  char* operands[] = {{{places}, (char*)&made}};\n"
        f"  const int64_t strides[] = {{{strides}}};\n"
        f"  {loop}(operands, 1, strides);\n"
        "  return made;\n}\n"
    )


def give_loops(library: ctypes.CDLL) -> None:
    """Fill in the addresses of the loops that a unit names. Before it is called for the first time."""
    if not hasattr(library, NAMES):
        return
    words = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, NAMES))).decode().split()
    wanted = list(zip(words[::2], words[1::2], strict=True))
    loops = (Loop * len(wanted)).in_dll(library, LOOPS)
    for loop, (name, letters) in zip(loops, wanted):
        loop.function, loop.data = loops_by_types(getattr(np._core.umath, name))[letters]
