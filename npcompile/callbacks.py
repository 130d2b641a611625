"""`cfunc`: a Python function as a function of C, for libraries that call one: SciPy's integrals and filters, GSL, any DLL.

The loop IR takes the whole function. What it does not take, and each call that its program leaves (an error, a floating-point
error that NumPy reports, an integer that needs more than 64 bits), is a call of Python's function.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import numpy as np

from npcompile.backends.loop_ir import target
from npcompile.backends.loop_ir.native import CType, Parameter
from npcompile.compiler import original
from npcompile.devices import callbacks
from npcompile.logs import log
from npcompile.settings import config
from npcompile.switch import is_plain_now, may_compile
from npcompile.tensor_core.events import COUNTS
from npcompile.tensor_core.loop_ir.activity import written_params
from npcompile.tensor_core.loop_ir.ops import Policy
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.verifier import Stage, stage_of
from npcompile.tracer.faults import is_fault, warn_of_fault
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace

FLOATS: dict[str, Any] = {"double": ctypes.c_double}
INTEGERS: dict[str, Any] = {
    "int": ctypes.c_int,
    "long": ctypes.c_long,
    "long long": ctypes.c_longlong,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "intptr_t": ctypes.c_ssize_t,
    "ssize_t": ctypes.c_ssize_t,
    "npy_intp": ctypes.c_ssize_t,
}
KNOWN = FLOATS | INTEGERS
TYPES = ", ".join(KNOWN)


@dataclass(frozen=True, slots=True)
class Signature:
    """Of a function of C."""

    text: str
    result: str
    parameters: tuple[Parameter, ...]

    @property
    def passed(self) -> list[Parameter]:
        """What Python's function has parameters for: all but `void*`."""
        return [each for each in self.parameters if each.is_passed]

    def prototype(self) -> Any:
        """The type that ctypes has for it."""
        return ctypes.CFUNCTYPE(ctypes_of(self.result), *map(ctypes_of_parameter, self.parameters))


def in_c(name: str) -> CType:
    """Integers by their size: generated C includes no headers."""
    if name == "void" or name in FLOATS:
        return CType(name, name in FLOATS)
    return CType("int" if ctypes.sizeof(INTEGERS[name]) == 4 else "long long")


def ctypes_of(name: str) -> Any:
    return None if name == "void" else KNOWN[name]


def ctypes_of_parameter(each: Parameter) -> Any:
    if not each.is_passed:
        return ctypes.c_void_p
    return ctypes_of(each.type.text) if each.length is None else ctypes.POINTER(ctypes_of(each.type.text))


def read_signature(text: str) -> Signature:
    """Raises ValueError, which says what is wrong."""
    before, opening, rest = text.strip().partition("(")
    if not opening or not rest.endswith(")"):
        raise ValueError(f"{text!r} is not a C signature: write it as 'double(double x, int n)'")
    result, inside = " ".join(before.split()), rest[:-1].strip()
    if result != "void" and result not in KNOWN:
        raise ValueError(f"{text!r}: a result of type {result!r}. Known are void, {TYPES}")
    parts = [] if inside in ("", "void") else inside.split(",")
    parameters = tuple(read_parameter(part, k, text) for k, part in enumerate(parts))
    integers = {each.name for each in parameters if each.length is None and not each.type.is_floating}
    for each in parameters:
        if isinstance(each.length, str) and each.length not in integers:
            raise ValueError(f"{text!r}: the length {each.length!r} is not an integer parameter")
    return Signature(text, result, parameters)


def read_parameter(part: str, k: int, text: str) -> Parameter:
    for sign in "*[]":
        part = part.replace(sign, f" {sign} ")
    words = part.split()
    count = 2 if " ".join(words[:2]) in KNOWN else 1
    kind, rest = " ".join(words[:count]), words[count:]
    is_pointer = rest[:1] == ["*"]
    rest = rest[is_pointer:]
    name = rest.pop(0) if rest and rest[0].isidentifier() else f"p{k}"
    if kind == "void" and is_pointer and not rest:
        return Parameter(name, CType("void"), is_passed=False)
    if kind not in KNOWN:
        raise ValueError(f"{text!r}: a parameter of type {kind!r}. Known are {TYPES}, double x[n] and void*")
    if is_pointer:
        raise ValueError(f"{text!r}: a pointer without a length: write it as '{kind} {name}[n]'")
    match rest:
        case []:
            return Parameter(name, in_c(kind))
        case ["[", length, "]"] if kind == "double":
            return Parameter(name, in_c(kind), int(length) if length.isdigit() else length)
        case ["[", _, "]"]:
            raise ValueError(f"{text!r}: an array of {kind!r}: arrays are of double")
    raise ValueError(f"{text!r}: {' '.join(words)!r} is not a C parameter")


@dataclass(eq=False)
class CFunction:
    """A Python function as a function of C: see `cfunc`.

    address: of the function of C, an integer. ctypes: the same, as ctypes calls it. reason: why each of its calls is one of
    Python's function; empty where it is compiled.
    """

    function: Callable[..., Any]
    signature: str
    address: int = field(init=False)
    reason: str = field(init=False, default="")

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)
        signature = read_signature(self.signature)
        prototype = signature.prototype()
        python = prototype(calling(self.function, signature))
        self.address = ctypes.cast(python, ctypes.c_void_p).value or 0
        self._keeps: list[Any] = [python]
        try:
            self.address = self._compiled(signature)
        except (Unsupported, target.Unsupported) as error:
            self.reason = str(error)
        except Exception as error:
            if config.internal_errors == "raise" or not is_fault(error):
                raise
            name = self.__name__  # type: ignore[attr-defined]
            warn_of_fault(error, f"compiling {name} for C", "C calls Python's function.")
            self.reason = repr(error)
        if self.reason:
            log("graph_breaks", lambda: f"{self!r} calls Python's function: {self.reason}")
        self.ctypes = prototype(self.address)
        self.ctypes.keeps = self._keeps  # who has only that may call it

    def _compiled(self, signature: Signature) -> int:
        """Raises Unsupported, of the front end or a backend."""
        function = original(self.function)
        if not isinstance(function, FunctionType):
            raise Unsupported("it is not a Python function")
        if is_plain_now() or not may_compile():
            raise Unsupported("compiling is switched off")
        traced = trace(function, [example(each) for each in signature.passed], Policy.ABORT)
        run_passes(traced.program)
        if stage_of(traced.program) is not Stage.STRUCTURED:
            raise Unsupported("a loop that is entered at several places")
        outside = [source.read() for source in traced.inputs]
        written = written_params(traced.program, len(traced.program.params))
        if any(written[len(signature.passed) :]):
            raise Unsupported("an array from outside is written")
        passed = iter(written)
        parameters = [replace(each, is_written=each.is_passed and next(passed)) for each in signature.parameters]
        made = callbacks()(traced.program, parameters, in_c(signature.result), outside)
        COUNTS["loop_programs"] += 1
        self.source = made.source
        self._keeps += [made, outside]  # the library, and the arrays that it reads
        return made.address(self.address)

    def __call__(self, *args: Any) -> Any:
        """Python's function."""
        return self.function(*args)

    def __repr__(self) -> str:
        return f"<npcompile.cfunc of {getattr(self.function, '__qualname__', self.function)}: {self.signature}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        module = sys.modules.get(self.function.__module__ or "")
        name = getattr(self.function, "__qualname__", "")
        return name if getattr(module, name, None) is self else (CFunction, (self.function, self.signature))

    def low_level_callable(self, user_data: Any = None) -> Any:
        """As `scipy.LowLevelCallable`, for scipy.integrate, scipy.ndimage and others. Raises ImportError without SciPy."""
        from scipy import LowLevelCallable

        return LowLevelCallable(self.ctypes, user_data)


def example(each: Parameter) -> Any:
    """An argument of this type."""
    if each.length is not None:
        return np.ones(each.length if isinstance(each.length, int) else 2)
    return 1.0 if each.type.is_floating else 1


def calling(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """What ctypes calls: pointers become arrays of the same memory."""
    places = {each.name: k for k, each in enumerate(signature.parameters)}

    def argument(each: Parameter, given: Sequence[Any]) -> Any:
        x = given[places[each.name]]
        if each.length is None:
            return x
        length = each.length if isinstance(each.length, int) else given[places[each.length]]
        return np.ctypeslib.as_array(x, (length,))

    passed, is_void, is_floating = signature.passed, signature.result == "void", signature.result in FLOATS

    def call(*given: Any) -> Any:
        try:
            found = function(*(argument(each, given) for each in passed))
            return None if is_void else float(found) if is_floating else int(found)
        except BaseException as error:  # noqa: BLE001  (C cannot take it)
            traceback = error.__traceback__
            sys.excepthook(type(error), error, traceback and traceback.tb_next)
            return None if is_void else math.nan if is_floating else 0

    return call


def cfunc(signature: str) -> Callable[[Callable[..., Any]], CFunction]:
    """Make a function of C of a Python function, for a library that calls one.

    Parameters
    ----------
    signature
        In C's words: "double(double x, double y)". Numbers are double and integers, arrays `double x[n]`, with a number or the
        name of an integer parameter as length; names may be left out otherwise. A `void*` is not handed on. The result may be
        void.

    Returns
    -------
    callable
        Takes the function and gives a `CFunction` with `address`, `ctypes` and `low_level_callable()`.

    Raises
    ------
    ValueError
        For another signature; the message says what is wrong in it.

    Notes
    -----
    The function gets Python floats and ints, and arrays of float64 of the caller's memory, which it may write to. Numbers,
    functions and arrays of its globals and closure stay those of now; what is in the arrays may change. The function of C
    takes Python's lock while it runs. An exception goes to sys.excepthook, which prints it, and the result is NaN or 0.

    Examples
    --------
    >>> import math
    >>> @cfunc("double(double)")
    ... def bell(x):
    ...     return math.exp(-x * x)
    >>> bell.ctypes(0.0)
    1.0
    """
    read_signature(signature)
    return lambda function: CFunction(function, signature)
