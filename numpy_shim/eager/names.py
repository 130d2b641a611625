"""Which of NumPy's names are re-hosted on Tensors, and which are NumPy's own objects."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

SHIM = "npcompile.numpy_shim"
# Modules of NumPy with functions of arrays, by the name that they have in NumPy. Others are NumPy's own: they are about
# strings, masked arrays, records or types.
PARTS = ("linalg", "fft", "random")  # modules of files
REHOSTED = (*PARTS, "emath", "lib", "lib.stride_tricks", "lib.scimath", "testing")
DUNDERS = ("__all__", "__array_api_version__", "__array_namespace_info__", "__version__", "__config__")
# Of np.testing: they call a function with the arguments that they are given.
CALLING = ("assert_raises", "assert_raises_regex", "assert_warns", "assert_no_warnings", "assert_no_gc_cycles")
# Functions about dtypes, settings, text and files alone: NumPy's own objects.
OWN_NAMES = """
    add_docstring add_newdoc base_repr binary_repr broadcast_shapes datetime_data format_float_positional
    format_float_scientific get_include get_printoptions getbufsize geterr geterrcall info isdtype issubdtype mintypecode
    printoptions promote_types set_printoptions setbufsize seterr seterrcall show_config show_runtime typename test
    get_bit_generator set_bit_generator get_state set_state seed bytes
"""
OWN = frozenset(OWN_NAMES.split())


def rehosted(value: Any, name: str, module: str) -> Any:
    """What stands for NumPy's object `value` of the module that NumPy calls `module` ("" is numpy itself)."""
    from npcompile.numpy_shim.eager import classes, functions  # when a name is first asked for

    path = f"{module}.{name}" if module else name
    if isinstance(value, types.ModuleType):
        if path in PARTS:
            return importlib.import_module(f"{SHIM}.{name}")
        return namespace(path) if path in REHOSTED else value
    if module == "random" and name in classes.random_classes():
        return classes.random_classes()[name]
    if isinstance(value, np.ufunc):
        return functions.rehosted_ufunc(value)
    if value is np.frompyfunc or name in OWN:  # ufuncs of Python functions give objects
        return value
    if module == "testing":
        reads = name.startswith("assert") and name not in CALLING and not isinstance(value, type)
        return functions.reading(value) if reads else value
    if isinstance(value, type):
        same_name = getattr(classes, name, None)
        return same_name if isinstance(same_name, type) and not module else value
    if not module and name in ("r_", "c_", "mgrid", "ogrid"):
        return functions.Subscripted(value, name)
    if callable(value):
        return functions.rehosted_function(value, name, f"{SHIM}.{module}" if module else SHIM)
    return value


@functools.cache
def namespace(path: str) -> types.ModuleType:
    """The module that stands for numpy.`path`."""
    made = types.ModuleType(f"{SHIM}.{path}", f"numpy.{path}, whose arrays are Tensors.")
    made.__getattr__, made.__dir__ = lookup(made.__dict__, path)  # type: ignore[method-assign, assignment]
    return made


def lookup(names: dict[str, Any], path: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module with the dict `names`, which stands for numpy.`path`."""

    @functools.cache
    def native() -> Any:
        return importlib.import_module(f"numpy.{path}" if path and path != "emath" else "numpy.lib.scimath" if path else "numpy")

    def find(name: str) -> Any:
        if is_private(name):
            raise AttributeError(f"module {names['__name__']!r} has no attribute {name!r}")
        try:
            value = getattr(native(), name)
        except AttributeError as error:
            raise AttributeError(str(error).replace("'numpy", f"'{SHIM}", 1), name=name) from None
        names[name] = made = rehosted(value, name, path)
        return made

    return find, lambda: [name for name in dir(native()) if not is_private(name)]


def is_private(name: str) -> bool:
    """Is it a module's own: its file, its loader?"""
    return name.startswith("__") and name not in DUNDERS
