"""A pytest plugin: NumPy's own tests call the captured forms, each call a graph of its own that the eager backend runs.

`pytest -p tests.shim.through_shim --pyargs numpy.lib.tests.test_shape_base`. What the shim declines runs as NumPy.
"""

from __future__ import annotations

import collections
import types
from typing import Any

import numpy as np
import pytest
from numpy.fft import _pocketfft

from npcompile.backends.registry import FloatingPointSignal
from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core import Array, Decline
from npcompile.tensor_core.dtypes import is_number
from npcompile.tensor_core.ops.extern import Unexpected
from tests.shim.harness import Capture

CONSTANTS = (int, float, complex, str, type, np.dtype, type(None), type(Ellipsis), slice, type(np._NoValue))
captured_calls: collections.Counter[str] = collections.Counter()


class Unsupported(Exception):
    """An argument that the tracer would not hand to the shim."""


def described(value: Any, arrays: list[Any]) -> Any:
    """All that the shim may ask of an argument, to be compared with other calls'; the arrays in it are added to `arrays`."""
    if isinstance(value, (np.ndarray, np.generic)):
        return described_array(value, arrays)
    if type(value) in (tuple, list):
        return type(value), *(described(v, arrays) for v in value)
    if type(value) is dict:
        return dict, *((k, described(v, arrays)) for k, v in value.items())
    if not isinstance(value, CONSTANTS):
        raise Unsupported(type(value))
    return type(value), value if isinstance(value, type) else repr(value)


def described_array(value: Any, arrays: list[Any]) -> Any:
    is_plain = type(value) is np.ndarray or isinstance(value, np.generic)
    if not is_plain or not is_number(value.dtype) or value.dtype.char == "g":
        raise Unsupported(value.dtype)
    for number, other in enumerate(arrays):
        if other is value:
            return "the same as", number
    if any(np.may_share_memory(value, other) for other in arrays):
        raise Unsupported("overlapping arguments")
    arrays.append(value)
    return isinstance(value, np.ndarray), value.shape, value.strides, value.dtype, value.flags.writeable


class Arguments(Capture):
    """Arguments as the tracer hands them over: arrays traced, numbers constant, the same array twice the same."""

    def wrap(self, value: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)):
            for storage in self.storages:
                if self.values[storage.source] is value:
                    return Array(storage, (), storage.meta)
        return super().wrap(value)


def holds_arrays(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return len(value) < 1000 and any(map(holds_arrays, value))
    return isinstance(value, (np.ndarray, np.generic))


def through_shim(function: Any, name: str) -> Any:
    captured = FUNCTIONS[function]
    programs: dict[Any, Any] = {}  # calls -> their program; None where the shim declines them
    is_running = False

    def program_of(args: Any, kwargs: Any) -> Any:
        arguments = Arguments()
        try:
            traced_args, traced_kwargs = arguments.wrap(list(args)), arguments.wrap(kwargs)
            result = captured(arguments.builder, *traced_args, **traced_kwargs)
        except Decline:
            return None
        return arguments.compile(result)

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_running
        if is_running or not holds_arrays([*args, *kwargs.values()]):
            return function(*args, **kwargs)
        arrays: list[Any] = []
        try:
            key = described([args, kwargs], arrays)
        except Unsupported:
            return function(*args, **kwargs)
        if key not in programs:
            programs[key] = program_of(args, kwargs)
        if programs[key] is None:
            return function(*args, **kwargs)
        captured_calls[name] += 1
        is_running = True  # NumPy runs the graph
        try:
            return programs[key](arrays)
        except (FloatingPointSignal, Unexpected, np.linalg.LinAlgError):  # for these data the program runs with NumPy
            return function(*args, **kwargs)
        finally:
            is_running = False

    return call


class Namespace(types.ModuleType):
    """numpy, or a part of it, with the captured functions in place."""

    def __init__(self, module: types.ModuleType):
        super().__init__(module.__name__)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = replaced(getattr(self._module, name), name)
        self.__dict__[name] = found
        return found


PARTS = (np, np.linalg, np.fft)


def replaced(value: Any, name: str) -> Any:
    if any(value is part for part in PARTS):
        return Namespace(value)
    is_captured = isinstance(value, (types.FunctionType, type(np.sum))) and value in FUNCTIONS
    return through_shim(value, name) if is_captured else value


def one_layout_at_a_time(cases: list[Any]) -> list[Any]:
    """The cases of linear algebra in which an argument has a layout that it has in none before.

    NumPy tries all pairs, for functions of one argument too, which are then the same calls again.
    """
    met: set[Any] = set()
    kept = []
    for case in cases:
        kind = case.name.split("_stride_")[0]
        both = {(kind, k, x.shape, x.strides) for k, x in enumerate((case.a, case.b)) if isinstance(x, np.ndarray)}
        if not both or not both <= met:
            kept.append(case)
        met |= both
    return kept


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        if hasattr(module, "CASES"):
            module.CASES[:] = one_layout_at_a_time(module.CASES)
        for name, value in list(vars(module).items()):
            setattr(module, name, replaced(value, name))
    # The only function of numpy.fft that is captured is not public.
    _pocketfft._raw_fft = replaced(_pocketfft._raw_fft, "_raw_fft")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"captured calls: {sum(captured_calls.values())} of {len(captured_calls)} functions")
