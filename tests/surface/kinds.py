"""Which public names are functions of numbers, and what the others are."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from tests.surface.calls import SECTIONS

# Callables that are about something else than numbers, by what it is.
OTHERS = {
    "text, files and settings": """array2string array_repr array_str base_repr binary_repr format_float_positional
        format_float_scientific fromfile fromregex fromstring genfromtxt get_include get_printoptions info load loadtxt
        printoptions save savetxt savez savez_compressed set_printoptions show_config show_runtime typename test""",
    "error state and buffers": "errstate geterr geterrcall getbufsize seterr seterrcall setbufsize",
    "objects with methods of their own": """asmatrix bmat matrix recarray memmap poly1d vectorize frompyfunc nditer nested_iters
        ndenumerate ndindex flatiter broadcast ndarray ufunc""",
    "memory, and objects that give arrays": "from_dlpack frombuffer fromiter may_share_memory shares_memory",
    "dates": "busday_count busday_offset busdaycalendar datetime_as_string datetime_data is_busday",
}
KINDS = {name: kind for kind, names in OTHERS.items() for name in names.split()}
NAMESPACES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft, "numpy.random": np.random}


def public_names(namespace: Any) -> list[str]:
    """What a namespace exports, or what it shows."""
    return sorted(n for n in getattr(namespace, "__all__", dir(namespace)) if not n.startswith("_"))


def kind_of(name: str, value: Any) -> str:
    """By what the object is, and for functions that are not about numbers by table."""
    if isinstance(value, types.ModuleType):
        return "modules"
    if isinstance(value, type) and issubclass(value, (np.generic, np.dtype)):
        return "dtypes"
    if isinstance(value, type) and issubclass(value, BaseException):
        return "exceptions"
    if isinstance(value, np.ufunc):
        return "ufuncs"
    if name in KINDS:
        return KINDS[name]
    if isinstance(value, type) and value not in (np.finfo, np.iinfo):
        return "classes"
    return "functions" if callable(value) else "constants"


def kinds(namespace: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in public_names(NAMESPACES[namespace]):
        found.setdefault(kind_of(name, getattr(NAMESPACES[namespace], name)), []).append(name)
    return found


def without_calls() -> list[str]:
    """Functions of numbers, methods and attributes of which the tables have no call."""
    called = {name for calls in SECTIONS.values() for name in calls}
    missing: list[str] = []
    for namespace in NAMESPACES:
        prefix = namespace.replace("numpy", "np", 1)
        found = kinds(namespace)
        names = [*found.get("functions", ()), *found.get("ufuncs", ())]
        missing += [f"{prefix}.{n}" for n in names if f"{prefix}.{n}" not in called]
    missing += [f"ndarray.{n}" for n in dir(np.ndarray) if not n.startswith("_") and n not in SECTIONS["ndarray"]]
    missing += [f"g.{n}" for n in dir(np.random.Generator) if not n.startswith("_") and f"g.{n}" not in called]
    return missing
