"""Run a program and compare everything that can be seen of it: by NumPy and compiled."""

from __future__ import annotations

import itertools
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.fuzz import user_code
from tests.fuzz.places import leave_there, left_there, placed
from tests.fuzz.programs import Program, define
from tests.fuzz.writer import is_dyadic
from tests.limits import TooLong, time_limit
from tests.ops.bits import different
from tests.shim.harness import compare, compare_aliasing

LOOSE = {2: 2e-2, 4: 1e-4, 8: 1e-9}  # of inexact programs: error of each float size, against the largest value
PRODUCTS = ("@", "np.dot", "np.kron", "np.outer", "np.cross")
SUMS = (*PRODUCTS, "sum", "mean", "add.reduce", "add.accumulate", "average", "trace", "einsum")
ROUNDED = ("**", "power", "abs", "/", "divide", "reciprocal", "sqrt")  # of complex numbers: what is left where they cancel
LOOPS = ("for ", "while ", "recursive", "map(")
FAULTS = (AssertionError, ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)


@dataclass
class Outcome:
    """One call: what it returned or raised, and what it left behind."""

    value: Any
    error: BaseException | None
    frames: list[tuple[str, str, int | None]]  # of the user's functions, where the exception came through
    arguments: list[Any]
    state: list[Any]
    said: list[tuple[type[Warning], str, int]]  # warnings from the program's lines
    go_back: Callable[[], None]  # to what names outside of the program had then: generators go on with these


def check_program(program: Program, backend: str) -> None:
    """The program by NumPy and compiled, in each round with other arguments of other sizes."""
    filename = f"<fuzz {abs(hash(program)):x}>"
    user = define(program.source, "program", filename)
    make = define(program.arguments_source, "arguments", f"{filename[:-1]} arguments>")
    compiled = npc.compile(user, backend=backend, dynamic=program.dynamic)
    raised = False  # by NumPy, in any round so far
    for round, sizes in enumerate(program.sizes):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs_arguments, ours_arguments = (make(*sizes, round) for _ in range(2))
        except (AttributeError, IndexError, TypeError, ValueError):  # in this round the view does not exist
            continue
        try:
            with time_limit(5):
                theirs = run(user, user, theirs_arguments, program, round)
        except TooLong:  # sizes that make it endless
            return
        with time_limit(60), npc.config.patch(internal_errors="raise"):
            ours = run(compiled, user, ours_arguments, program, round)
        same_outcome(ours, theirs, program)
        raised |= theirs.error is not None
        if not raised:
            raises_nothing_while_capturing(compiled, program)


def run(function: Any, user: Any, arguments: list[Any], program: Program, round: int = 0) -> Outcome:
    """Call `function`, which is the program's, or what is compiled of it."""
    user_code.reset(round)
    module = user.__globals__
    module.update(TABLE=np.arange(3.0), COUNT=round // 2, SCALE=3 if round < 3 else 2.5, NAMES=("a", "b", "c")[: 2 + round // 3])
    module.pop("MADE", None)
    filename, stdout = user.__code__.co_filename, sys.stdout
    name = program.parameters[-1]
    call = placed(program.place, function, user, name, arguments)
    value, error, frames = None, None, []
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn" if program.warns else "ignore"):
        warnings.simplefilter("always")
        sys.stdout = user_code.Screen()  # type: ignore[assignment]
        try:
            value = call()
        except (*FAULTS, RuntimeError, StopIteration, ExceptionGroup) as raised:
            error = raised
            frames = [(f.filename, f.name, f.lineno) for f in traceback.extract_tb(raised.__traceback__)[2:]]
        finally:
            sys.stdout = stdout
    said = [(w.category, str(w.message), w.lineno) for w in caught if w.filename == filename]
    there, names = left_there(program.place, user, name), {n: module.get(n) for n in ("TABLE", "COUNT", "MADE")}

    def go_back() -> None:
        module.update(names)
        leave_there(program.place, user, name, there)

    return Outcome(value, error, frames, arguments, [*user_code.state(), *names.values(), there], said, go_back)


def same_outcome(ours: Outcome, theirs: Outcome, program: Program, on_device: bool = False) -> None:
    if theirs.error is None:
        if ours.error is not None:
            raise ours.error
    else:
        assert ours.error is not None, f"{theirs.error!r} is not raised; the result is {ours.value!r}"
        # CPython reports the line before for a local without a value, and the code of a segment has cells of another kind.
        if not (isinstance(theirs.error, NameError) and isinstance(ours.error, NameError)):
            Comparison(program, on_device, ours.go_back, theirs.go_back).same(ours.error, theirs.error)
            through = f"{ours.error!r} comes through {ours.frames}, not {theirs.frames}"
            assert ours.frames == theirs.frames, through
    comparison = Comparison(program, on_device, ours.go_back, theirs.go_back)
    for attribute in ("state", "arguments", "value"):
        comparison.same(getattr(ours, attribute), getattr(theirs, attribute))
    comparison.finish()
    compare_aliasing(comparison.arrays[0], comparison.arrays[1], [], [])
    assert is_subsequence(ours.said, theirs.said), f"warnings {ours.said}, not {theirs.said}"


def is_subsequence(some: list[Any], all: list[Any]) -> bool:
    """What is computed and never used does not warn: see the known differences in docs/architecture/errors.md."""
    rest = iter(all)
    return not any(item not in rest for item in some)  # `in` consumes the iterator


class Comparison:
    """Two trees of objects: the same values, and the same objects shared in the same places.

    Zeros have the same sign, but for sums of products, where it is that of the BLAS kernel. With NumPy's bits all is equal.
    """

    def __init__(self, program: Program, on_device: bool, *go_back: Callable[[], None]):
        self.program = program
        self.go_back = go_back  # to where ours and theirs ended
        self.is_bitwise = npc.config.accuracy == "bitwise"
        self.signs = self.is_bitwise or not on_device and not program.mentions(PRODUCTS)
        self.objects = not on_device  # arrays of a device are compared as copies
        self.rounds = program.mentions(LOOPS) and program.mentions(SUMS)  # what is exact at first may not be so later
        self.rounds |= any("complex" in line for line in program.arguments) and program.mentions(ROUNDED)
        self.counterparts: dict[int, Any] = {}  # of one side's mutable objects and of the other's, by id
        self.arrays: tuple[list[Any], list[Any]] = [], []
        self.rounded: list[tuple[Any, Any]] = []

    def same(self, ours: Any, theirs: Any) -> None:
        if ours is theirs:  # what outlives both calls is compared as it was after each
            return
        is_same_type = type(ours) is type(theirs) or is_made_by_program(ours, theirs) or is_iterator(ours, theirs)
        assert is_same_type, f"{ours!r} instead of {theirs!r}"
        if isinstance(theirs, (int, float, complex, str, type(None), np.generic)):
            self.same_value(ours, theirs)
            return
        is_mutable = isinstance(theirs, (list, dict, set, np.ndarray, types.FunctionType)) or is_instance_of_user_class(theirs)
        if is_mutable and self.objects:
            known = self.counterparts.get(id(theirs))
            other = self.counterparts.get(id(ours))
            assert known is other is None or (known is ours and other is theirs), f"another object: {ours!r} {theirs!r}"
            if known is not None:
                return
            self.counterparts[id(theirs)], self.counterparts[id(ours)] = ours, theirs
        match theirs:
            case np.ndarray():
                self.arrays[0].append(ours)
                self.arrays[1].append(theirs)
                if theirs.dtype == object:
                    self.same(ours.tolist(), theirs.tolist())
                else:
                    self.same_value(ours, theirs)
            case dict():
                self.same_all(ours, theirs)
                self.same_all(ours.values(), theirs.values())
            case list() | tuple():
                self.same_all(ours, theirs)
            case set() | frozenset():
                self.same_all(in_order(ours - theirs), in_order(theirs - ours))  # each run has its own objects
            case BaseException():
                self.same(str(ours), str(theirs))
                self.same_all(self.context(ours), self.context(theirs))
            case types.FunctionType():
                for name in ("__name__", "__qualname__", "__defaults__", "__kwdefaults__", "__doc__", "__dict__"):
                    self.same(getattr(ours, name), getattr(theirs, name))
                self.same_all(*([cell_contents(c) for c in f.__closure__ or ()] for f in (ours, theirs)))
            case np.random.Generator():
                self.same(ours.bit_generator.state, theirs.bit_generator.state)
            case slice():
                self.same_all((ours.start, ours.stop, ours.step), (theirs.start, theirs.stop, theirs.step))
            case range() | np.dtype() | type():
                assert str(ours) == str(theirs), f"{ours!r} instead of {theirs!r}"
            case types.MethodType():
                self.same(ours.__func__, theirs.__func__)
                self.same(ours.__self__, theirs.__self__)
            case types.GeneratorType():
                self.same(*map(given_by, (ours, theirs), self.go_back))
            case _ if is_instance_of_user_class(theirs):
                self.same(attributes(ours), attributes(theirs))
            case _ if is_iterator(ours, theirs):
                self.same(*map(given_by, (ours, theirs), self.go_back))
            case _:
                assert type(ours).__name__ == type(theirs).__name__

    def same_all(self, ours: Any, theirs: Any) -> None:
        ours, theirs = list(ours), list(theirs)
        assert len(ours) == len(theirs), f"{ours!r} instead of {theirs!r}"
        for a, b in zip(ours, theirs):
            self.same(a, b)

    @staticmethod
    def context(error: BaseException) -> list[Any]:
        names = getattr(error, "__notes__", [])
        return [error.__cause__, None if error.__suppress_context__ else error.__context__, names]

    def same_value(self, ours: Any, theirs: Any) -> None:
        if isinstance(theirs, str) and (theirs == "UnboundLocalError" or "cannot access" in theirs):
            return  # a closure's variable without a value: see the known differences in docs/architecture/errors.md
        if isinstance(theirs, str):
            ours, theirs = (re.sub(r"0x[0-9a-fA-F]+", "0x", text) for text in (ours, theirs))  # where an object is
        is_rounded = not self.program.is_exact or (self.rounds and not is_dyadic(theirs))
        if not is_rounded or not isinstance(theirs, (np.ndarray, np.generic)) or theirs.dtype.kind not in "fc":
            compare(ours, theirs, 0 if self.is_bitwise else 2, self.signs)
            return
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        kept = [k for k, n in enumerate(theirs.shape) if n > 1 and theirs.size]
        assert [ours.strides[k] for k in kept] == [theirs.strides[k] for k in kept]
        self.rounded.append((np.copy(ours), np.copy(theirs)))

    def finish(self) -> None:
        """Rounded numbers differ by what rounding makes of the largest of them."""
        if self.is_bitwise:
            assert not (found := [d for ours, theirs in self.rounded if (d := different(ours, theirs))]), found
            return
        finite = [np.abs(x[np.isfinite(x)]).max(initial=0) for _, x in self.rounded]
        scale = max(map(float, finite), default=0.0)
        for ours, theirs in self.rounded:
            loose = LOOSE[theirs.real.dtype.itemsize] if scale < 1e30 else np.inf
            with np.errstate(all="ignore"):
                close = np.isclose(ours, theirs, rtol=loose, atol=loose * scale, equal_nan=True)
            assert (close | ~np.isfinite(theirs) | ~np.isfinite(ours)).all(), (ours, theirs)


def is_instance_of_user_class(value: Any) -> bool:
    return not isinstance(value, BaseException) and type(value).__module__ in (user_code.__name__, "program")


def is_made_by_program(ours: Any, theirs: Any) -> bool:
    """Objects of classes that the program itself makes: each call has its own."""
    return type(theirs).__module__ == "program" and type(ours).__qualname__ == type(theirs).__qualname__


def is_iterator(ours: Any, theirs: Any) -> bool:
    """What a captured program hands over gives the same items, and may be of another type."""
    return hasattr(ours, "__next__") and hasattr(theirs, "__next__")


def given_by(iterator: Any, go_back: Callable[[], None]) -> list[Any]:
    """The items that are left, and what ends them if it is an exception."""
    items = []
    go_back()
    with time_limit(5), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for item in itertools.islice(iterator, 1000):
                items.append(item)
        except FAULTS as error:
            items.append(error)
    return items


def attributes(value: Any) -> dict[str, Any]:
    slots = getattr(type(value), "__slots__", ())
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots if hasattr(value, name)}}


def cell_contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "<empty>"


def raises_nothing_while_capturing(compiled: Any, program: Program) -> None:
    """A break for an error that NumPy does not raise is a mistake in what is captured. (getattr() asks for what is not there.)"""
    known = compiled_function(compiled)
    if known is not None and not any("try:" in line for line in program.body):
        own = [b for b in known.breaks if "site-packages" not in b.location.filename]  # NumPy's code has its own handlers
        wrong = [b for b in own if re.match(r"(?!Attribute)\w+Error: ", b.reason)]
        assert not wrong, wrong


def difference(program: Program, backend: str) -> str | None:
    """How the compiled program differs from NumPy's, if it does."""
    try:
        check_program(program, backend)
    except (Exception, TooLong) as error:
        return f"{type(error).__name__}: {error}"
    return None


def in_order(members: set[Any] | frozenset[Any]) -> list[Any]:
    return sorted(members, key=lambda m: (type(m).__qualname__, getattr(m, "__qualname__", "")))
