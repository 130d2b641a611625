"""A drawn call captured and run, and called as NumPy: the captured form gives the same, or declines."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np

from npcompile.backends.data_dependent_sizes import compile_measured
from npcompile.backends.eager import compile_eager, compiling_eager
from npcompile.backends.registry import FloatingPointSignal
from npcompile.tensor_core import Array, Decline, Dim, Number
from npcompile.tensor_core.array import view_text
from npcompile.tensor_core.graph import bind
from npcompile.tensor_core.op import OPS
from npcompile.tracer.guard_text import text_of
from tests.shim.harness import Capture, compare, compare_aliasing, copy, flatten, remade
from tests.shim.keywords.calls import Call

# Sums and products whose order is the loop's or the library's: compared with the largest element. The others agree in each.
METHODS = ("mean", "var", "std", "dot", "trace", "sum", "prod", "cumsum", "cumprod")
SUMMED = {
    *METHODS, *(f"ndarray.{name}" for name in METHODS), "ufunc.reduce", "ufunc.accumulate",
    "inner", "vdot", "outer", "matmul", "vecdot", "matvec", "vecmat", "tensordot", "einsum",
    "convolve", "correlate", "correlate2", "_raw_fft", "solve", "inv", "det", "slogdet", "cholesky", "qr", "eigh", "eigvalsh",
    "eig", "eigvals", "svd", "interp", "linspace", "pad",
}  # fmt: skip

# Objects that are compared by what they say.
READ = {
    "ndarray.flags": lambda f: (f.c_contiguous, f.f_contiguous, f.writeable, f.forc, f.fnc),
    "broadcast": lambda b: (b.shape, b.nd, b.size),
}


class Recorded(Capture):
    """Arguments as the tracer hands them over: the same array twice is one; Python numbers are symbols where that is asked."""

    def __init__(self, symbolic: bool):
        super().__init__()
        self.symbolic = symbolic
        self.numbers: dict[str, Any] = {}

    def wrap(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            for array in self.arrays:
                if self.values[array.storage.source] is value:
                    return array
        if self.symbolic and type(value) in (int, float, complex) and (type(value) is not int or abs(value) < 2**31):
            name = f"n{len(self.numbers)}"
            self.numbers[name] = value
            env = self.builder.env
            return env.symbol(name, value) if type(value) is int else Number(env, name, value)
        return super().wrap(value)

    @property
    def arrays(self) -> list[Array]:
        return [Array(s, (), s.meta) for s in self.storages]

    def call(self, result: Any, values: list[Any], numbers: dict[str, Any]) -> Any:
        """What the program gives for arrays and numbers; arrays in `values` are written."""
        graph, storages = self.finished(result)
        numbers = dict(numbers)
        assert self.holds(numbers)  # guards name what is computed of the numbers
        arrays = iter(values)
        inputs = [eval(text, {}, dict(numbers)) if text else next(arrays) for text in self.builder.arguments]
        symbols = {s: numbers[s] for s in graph.symbols}
        program = compile_measured(graph, compiling_eager) if graph.measured else compile_eager(graph, inputs)
        outputs = program(*inputs, *symbols.values())
        numbers = numbers | dict(zip(dict(graph.measured), outputs[len(graph.outputs) :]))

        def real(value: Any) -> Any:
            match value:
                case Array():
                    storage = value.storage
                    base = outputs[storages.index(storage)] if storage.source is None else values[storage.source]
                    return eval(view_text("base", value.steps), {"base": base, "np": np, **numbers}) if value.steps else base
                case Dim():
                    return bind(value, numbers)
                case Number():
                    return eval(value.text, {}, dict(numbers))
                case tuple() | list():
                    return remade(value, map(real, value))
            return value

        return real(result)

    def failures(self, result: Any) -> set[type[Exception]]:
        """What the graph may raise: then the same part of the program runs as NumPy."""
        graph, _ = self.finished(result)
        return {FloatingPointSignal, *(error for node in graph.nodes for error in OPS[node.op].raises)}

    def holds(self, numbers: dict[str, Any]) -> bool:
        return all(eval(text_of(guard), {}, numbers) for guard in self.builder.env.guards)


def duplicate(value: Any, seen: dict[int, Any]) -> Any:
    """The harness's copies, where the same array twice stays one."""
    if isinstance(value, np.ndarray):
        return seen.setdefault(id(value), copy(value))
    if isinstance(value, (tuple, list)):
        return remade(value, [duplicate(v, seen) for v in value])
    if isinstance(value, dict):
        return {k: duplicate(v, seen) for k, v in value.items()}
    return value


def replaced(value: Any, numbers: list[Any]) -> Any:
    """The arguments with other numbers in the places where symbols are."""
    if type(value) in (int, float, complex) and (type(value) is not int or abs(value) < 2**31):
        return numbers.pop(0)
    if isinstance(value, (tuple, list)):
        return remade(value, [replaced(v, numbers) for v in value])
    if isinstance(value, dict):
        return {k: replaced(v, numbers) for k, v in value.items()}
    return value


def check_call(call: Call, symbolic: bool = False, other: int = 0) -> bool:
    """Was it captured? AssertionError where the captured form differs from NumPy.

    With `symbolic`, the program is also called with other Python numbers, where its guards let them through.
    """
    arguments = [call.args, call.keywords]
    args, keywords = duplicate(arguments, {})
    recorded = Recorded(symbolic)
    traced_args, traced_keywords = recorded.wrap(args), recorded.wrap(keywords)
    result, declined = None, None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = call.entry.captured(recorded.builder, *traced_args, **traced_keywords)
        except Decline as reason:
            declined = reason
        except TypeError as error:
            if takes(call.entry.captured, [recorded.builder, *traced_args], traced_keywords):
                raise AssertionError(f"{type(error).__name__}: {error}") from error
            declined = Decline(str(error))
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} while capturing: {error}") from error
    assert not warned, f"capturing warns: {warned[0].message}"
    if declined is not None:
        return False
    compare_runs(call, recorded, result, recorded.values, recorded.numbers, arguments)
    if recorded.numbers:
        numbers = {k: moved(v, other) for k, v in recorded.numbers.items()}
        if recorded.holds(numbers):
            changed = replaced(arguments, list(numbers.values()))
            compare_runs(call, recorded, result, different(*duplicate(changed, {})), numbers, changed)
    return True


def takes(captured: Any, args: list[Any], keywords: dict[str, Any]) -> bool:
    try:
        inspect.signature(captured).bind(*args, **keywords)
    except TypeError:
        return False
    return True


def moved(value: Any, by: int) -> Any:
    return value + by if type(value) is int else value * (1 + by / 4) - by


def compare_runs(call: Call, recorded: Recorded, result: Any, values: list[Any], numbers: dict[str, Any], arguments: Any) -> None:
    """The program called with these arrays and numbers, and NumPy with arguments that hold the same."""
    name = call.entry.name
    args, keywords = duplicate(arguments, {})
    expected = recorded.failures(result)
    theirs, refused = None, None
    with warnings.catch_warnings(record=True) as warned, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            theirs = call.entry.numpy(*args, **keywords)
        except Exception as error:
            refused = error
    try:
        with np.errstate(all="raise" if warned else "ignore"):
            ours = recorded.call(result, values, numbers)
    except Exception as error:
        if isinstance(error, (MemoryError, *expected)):  # the same part of the program runs as NumPy
            return
        raise AssertionError(f"{type(error).__name__} while running: {error}") from error
    assert refused is None, f"NumPy raises {refused!r}, the captured form gives {ours!r}"
    assert not warned, f"NumPy warns: {warned[0].message}"
    ours, theirs = (READ[name](r) if name in READ else r for r in (ours, theirs))
    if is_unspecified(call):
        assert blank(ours) == blank(theirs)
        return
    their_values = different(args, keywords)
    agree(name, ours, theirs)
    agree(name, values, their_values)
    compare_aliasing(ours, theirs, values, their_values)


def different(*arguments: Any) -> list[Any]:
    """The arrays and NumPy scalars among arguments, an array that is there twice once."""
    found: list[Any] = []
    for value in flatten(*arguments):
        if not any(value is v for v in found if isinstance(v, np.ndarray)):
            found.append(value)
    return found


def is_unspecified(call: Call) -> bool:
    """Are there elements that NumPy leaves as they happen to be?"""
    keywords = call.keywords
    if call.entry.name == "pad":
        return (
            "empty" in (*call.args[2:3], keywords.get("mode"))
            if not any(isinstance(a, np.ndarray) for a in call.args[2:3])
            else False
        )
    is_masked = keywords.get("where", True) is not True and (
        isinstance(call.entry.function, np.ufunc) or "clip" in call.entry.name
    )
    return call.entry.name in ("empty", "empty_like") or is_masked and not isinstance(keywords.get("out"), (np.ndarray, tuple))


def blank(value: Any) -> Any:
    """All but the elements."""
    if isinstance(value, (np.ndarray, np.generic)):
        kept = [s for s, n in zip(value.strides, value.shape) if n > 1 and value.size]
        return type(value), value.dtype, value.shape, kept, bool(value.flags.writeable)
    return [type(value), *map(blank, value)] if isinstance(value, (tuple, list)) else repr(value)  # nan is nan


def agree(name: str, ours: Any, theirs: Any) -> None:
    if name not in SUMMED:
        compare(ours, theirs)
        return
    assert blank(ours) == blank(theirs)
    for a, b in zip(flatten(ours), flatten(theirs)):
        if b.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b)
            continue
        finite = np.isfinite(b)
        np.testing.assert_array_equal(np.isfinite(a), finite)
        if b.dtype.kind == "f":  # of complex numbers, which one it is depends on how BLAS multiplies
            np.testing.assert_array_equal(a[~finite], b[~finite])
        with np.errstate(all="ignore"):
            limit = 64 * np.finfo(b.dtype).eps * np.abs(b[finite]).max(initial=0)
            assert not (np.abs(a[finite] - b[finite]) > limit).any(), f"{ours!r} {theirs!r}"
