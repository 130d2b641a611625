"""Capture one NumPy call through the shim, run the graph with NumPy, and compare everything with NumPy's own call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import npcompile.numpy_shim  # noqa: F401  (fills the registry)
from npcompile.backends.data_dependent_sizes import compile_measured
from npcompile.backends.eager import compile_eager
from npcompile.backends.together import at_once
from npcompile.numpy_shim.registry import ATTRIBUTES, FUNCTIONS, METHODS
from npcompile.tensor_core import Array, Builder, Decline, Dim, Number, Storage, TensorMeta
from npcompile.tensor_core.array import view_text
from npcompile.tensor_core.dim import evaluate
from npcompile.tensor_core.dtypes import is_bfloat16
from npcompile.tensor_core.graph import Graph


class Capture:
    """The arrays of one program, as traced inputs and as what they were."""

    def __init__(self) -> None:
        self.builder = Builder(may_measure=lambda: True, is_plain=lambda: True)
        self.values: list[Any] = []
        self.storages: list[Storage] = []

    def wrap(self, value: Any) -> Any:
        """ndarrays and NumPy scalars become traced inputs, inside tuples, lists and dicts too; the rest stays constant."""
        if isinstance(value, (np.ndarray, np.generic)):
            boxed = isinstance(value, np.ndarray)
            meta = TensorMeta(
                value.shape,
                value.dtype,
                value.strides,
                boxed=boxed,
                writeable=boxed and value.flags.writeable,
            )
            storage = Storage(self.builder, self.builder.input(meta), meta, source=len(self.values))
            self.values.append(value)
            self.storages.append(storage)
            return Array(storage, (), meta)
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.wrap, value))
        if isinstance(value, dict):
            return {k: self.wrap(v) for k, v in value.items()}
        return value

    def finished(self, result: Any) -> tuple[Graph, list[Storage]]:
        """The graph of what was captured, and the new memory that it gives."""
        storages: list[Storage] = []

        def collect(value: Any) -> None:
            if isinstance(value, Array) and value.storage not in storages and value.storage.source is None:
                storages.append(value.storage)
            elif isinstance(value, (tuple, list)):
                for v in value:
                    collect(v)

        collect(result)
        writes = [(s.source, s.node) for s in self.storages if s.is_written]
        return self.builder.finish([s.node for s in storages], [s.meta for s in storages], writes), storages

    def run(self, result: Any, backend: Any = compile_eager) -> Any:
        """Execute what was captured: writes go to the inputs, traced values in `result` become real ones."""
        return self.compile(result, backend)(self.values)

    def compile(self, result: Any, backend: Any = compile_eager) -> Callable[[list[Any]], Any]:
        """The same as a function of the values: these, or others that would be captured alike."""
        graph, storages = self.finished(result)
        program = compile_whole(graph, self.values, backend)

        def run(values: list[Any]) -> Any:
            outputs, sizes = program(values)

            def real(value: Any) -> Any:
                if isinstance(value, Array):
                    storage = value.storage
                    base = outputs[storages.index(storage)] if storage.source is None else values[storage.source]
                    return eval(view_text("base", value.steps), {"base": base, "np": np, **sizes}) if value.steps else base
                if isinstance(value, (tuple, list)):
                    return remade(value, map(real, value))
                if isinstance(value, Dim):
                    return evaluate(value, sizes)
                assert not isinstance(value, Number), value
                return value

            return real(result)

        return run


Program = Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, int]]]


def compile_whole(graph: Graph, values: list[Any], backend: Any) -> Program:
    """From values to the outputs, and the sizes that data decides. It declines where the program would run natively instead."""
    if not graph.measured and not any(n.op == "whole" for n in graph.nodes):
        program = backend(graph, values)
        return lambda values: (program(*values), {})
    try:
        measured = compile_measured(graph, lambda piece: at_once(lambda: backend(piece, ())))
    except Exception as error:
        raise Decline(repr(error)) from None
    count = len(graph.outputs)

    def run(values: list[Any]) -> tuple[tuple[Any, ...], dict[str, int]]:
        try:
            given = measured(*values)
        except Exception as error:
            raise Decline(repr(error)) from None
        return given[:count], dict(zip((name for name, _ in graph.measured), given[count:]))

    return run


def copy(value: Any) -> Any:
    """Fresh arrays with the same values, strides and flags."""
    if isinstance(value, np.ndarray):
        root = value
        while isinstance(root.base, np.ndarray):
            root = root.base
        memory = root.copy(order="K").ravel(order="K")
        offset = value.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        new = np.ndarray(value.shape, value.dtype, memory, offset, value.strides) if value.size else value.copy()
        new.flags.writeable = value.flags.writeable
        return new
    if isinstance(value, (tuple, list)):
        return remade(value, map(copy, value))
    if isinstance(value, dict):
        return {k: copy(v) for k, v in value.items()}
    return value


def remade(sequence: Any, items: Any) -> Any:
    """A list, tuple or named tuple of the same type."""
    return getattr(sequence, "_make", type(sequence))(items)


def check(
    function: Any,
    *args: Any,
    must_capture: bool = True,
    ulp: int = 4,
    signs: bool = True,
    backend: Any = compile_eager,
    **kwargs: Any,
) -> bool:
    """Compare the captured form of a NumPy function with NumPy. False when it declined (or NumPy raised and it declined).

    A string names an ndarray method or attribute: `check("reshape", x, (2, 3))`, `check("T", x)`.
    """
    ours_args, ours_kwargs = copy((args, kwargs))
    theirs_args, theirs_kwargs = copy((args, kwargs))
    capture = Capture()
    traced_args, traced_kwargs = capture.wrap(list(ours_args)), capture.wrap(ours_kwargs)
    captured = find(function)
    try:
        traced = captured(capture.builder, *traced_args, **traced_kwargs)
        with np.errstate(all="ignore"):
            ours, error = capture.run(traced, backend), None
    except Decline as decline:
        ours, error = None, decline
    try:
        theirs = call_numpy(function, theirs_args, theirs_kwargs)
    except Exception as theirs_error:
        assert error is not None, f"NumPy raises {theirs_error!r}, the shim gives {ours!r}"
        return False
    if error is not None:
        assert not must_capture, f"declined: {error}"
        return False
    compare(ours, theirs, ulp, signs)
    compare(capture.values, flatten(theirs_args, theirs_kwargs), ulp, signs)  # arguments mutated the same way
    compare_aliasing(ours, theirs, capture.values, flatten(theirs_args, theirs_kwargs))
    return True


def find(function: Any) -> Any:
    if not isinstance(function, str):
        return FUNCTIONS[function]
    return METHODS.get(function) or ATTRIBUTES[function]


def call_numpy(function: Any, args: Any, kwargs: Any) -> Any:
    with np.errstate(all="ignore"):
        if not isinstance(function, str):
            return function(*args, **kwargs)
        attribute = getattr(args[0], function)
        return attribute(*args[1:], **kwargs) if function in METHODS else attribute


def flatten(*values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, (np.ndarray, np.generic)):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += flatten(*value)
        elif isinstance(value, dict):
            found += flatten(*value.values())
    return found


def compare(ours: Any, theirs: Any, ulp: int = 4, signs: bool = True) -> None:
    """Same type, dtype, shape, strides (of axes longer than 1), flags and values.

    Without `signs` zeros may have either sign: of sums of products it is that of the BLAS kernel which made them.
    """
    assert type(ours) is type(theirs), f"{type(ours)} instead of {type(theirs)}: {ours!r} {theirs!r}"
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            compare(a, b, ulp, signs)
        return
    if isinstance(theirs, float) and not isinstance(theirs, np.generic):
        same_values(np.float64(ours), np.float64(theirs), ulp)
        return
    if not isinstance(theirs, (np.ndarray, np.generic)):
        assert ours == theirs or ours != ours and theirs != theirs, (ours, theirs)
        return
    assert ours.dtype == theirs.dtype, f"{ours.dtype} instead of {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{ours.shape} instead of {theirs.shape}"
    if isinstance(theirs, np.ndarray) and theirs.size:
        kept = [a for a, n in enumerate(theirs.shape) if n > 1]
        assert [ours.strides[a] for a in kept] == [theirs.strides[a] for a in kept], (ours.strides, theirs.strides)
        assert ours.flags.writeable == theirs.flags.writeable
    same_values(np.asarray(ours), np.asarray(theirs), ulp, signs)


def same_values(ours: np.ndarray, theirs: np.ndarray, ulp: int, signs: bool = True) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if is_bfloat16(theirs.dtype):
        with np.errstate(all="ignore"):  # ml_dtypes reports signaling NaN here
            is_nan = np.isnan(theirs)
            np.testing.assert_array_equal(np.isnan(ours), is_nan)
        np.testing.assert_array_equal(ours[~is_nan].view(np.uint16), theirs[~is_nan].view(np.uint16))
        return
    if theirs.dtype.kind not in "fc" or not theirs.size:
        np.testing.assert_array_equal(ours, theirs)
        return
    if theirs.dtype.kind == "c":
        same_values(ours.real, theirs.real, ulp, signs)
        same_values(ours.imag, theirs.imag, ulp, signs)
        return
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite])
    zero = finite & (theirs == 0) & (ours == 0) & signs
    np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(theirs[zero]))
    with np.errstate(all="ignore"):
        error = np.abs(ours[finite] - theirs[finite]) / np.spacing(np.abs(theirs[finite]))
    assert not (error > ulp).any(), f"{error.max()} ULP: {ours!r} {theirs!r}"


def compare_aliasing(ours: Any, theirs: Any, our_inputs: list[Any], their_inputs: list[Any]) -> None:
    """Results share memory with inputs and with each other exactly where NumPy's do."""
    our_all, their_all = [*our_inputs, *flatten(ours)], [*their_inputs, *flatten(theirs)]
    for i, (a, b) in enumerate(zip(our_all, their_all)):
        for c, d in zip(our_all[:i], their_all[:i]):
            if all(isinstance(v, np.ndarray) for v in (a, b, c, d)):
                assert np.shares_memory(a, c) == np.shares_memory(b, d), "views where NumPy copies, or the reverse"
