"""A compiled program as a function of Python objects: words go in, and the words of a way out become objects."""

from __future__ import annotations

import _ctypes
import ctypes
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.cpu.loader import Library, loader
from npcompile.backends.cpu.loop_ir.memory import Frame, Heap
from npcompile.backends.cpu.loop_ir.target import CPU, OUT_OF_MEMORY, PATIENCE
from npcompile.backends.loop_ir.c_text import unit
from npcompile.backends.loop_ir.exits import Ways, words_of
from npcompile.backends.loop_ir.statements import print_function
from npcompile.tensor_core.loop_ir.ops import ALL_ERRORS, Program
from npcompile.tensor_core.loop_ir.outcome import Exited, Outcome, Returned, ignored_errors, made
from npcompile.tensor_core.loop_ir.types import DTYPES, Kind, List, Memref, Scalar, Type


@dataclass(frozen=True, slots=True)
class Ended:
    """A run's outcome, and the exception that a handler of signals raised meanwhile."""

    outcome: Outcome
    raised: BaseException | None = None


@dataclass(slots=True)
class CompiledLoop:
    """A program in machine code. Its calls are those of one thread at a time."""

    program: Program
    source: str
    ways: Ways
    library: Library
    seconds: float  # to compile and load it
    words: int
    inputs: ctypes.Array[ctypes.c_int64] = field(init=False)
    floats: ctypes.Array[ctypes.c_double] = field(init=False)  # the inputs as doubles
    outputs: ctypes.Array[ctypes.c_int64] = field(init=False)
    kinds: list[Type] = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = (ctypes.c_int64 * max(1, self.words))()
        self.floats = (ctypes.c_double * len(self.inputs)).from_buffer(self.inputs)
        self.outputs = (ctypes.c_int64 * max(1, self.ways.words))()
        self.kinds = [self.program.types[param.value] for param in self.program.params]
        self.library.handle.npc_loop.restype = ctypes.c_int64

    def __del__(self) -> None:
        if not sys.is_finalizing():
            _ctypes.dlclose(self.library.handle._handle)

    def __call__(self, arguments: Sequence[object], leave_at: int = -1) -> Ended:
        """Run on arguments of the program's types. `leave_at`: the number of the Poll that leaves, counted from 0."""
        self.pack(arguments)
        frame = Frame(ALL_ERRORS & ~ignored_errors(), leave_at if leave_at >= 0 else PATIENCE, leave_at >= 0)
        raised = None
        try:
            way = self.library.handle.npc_loop(ctypes.byref(frame), self.inputs, self.outputs)
        except BaseException as error:  # noqa: BLE001  (of a handler of signals: Python raises it where it goes on)
            raised = error
            way = frame.way
        heap = Heap(frame, arguments)
        try:
            return Ended(self.outcome(way, heap), raised)
        finally:
            heap.free_rest()

    def pack(self, arguments: Sequence[object]) -> None:
        floats, word = self.floats, 0
        for kind, argument in zip(self.kinds, arguments, strict=True):
            if isinstance(argument, np.ndarray):
                rank = argument.ndim
                self.inputs[word] = argument.__array_interface__["data"][0]
                self.inputs[word + 3 : word + 3 + rank] = argument.shape
                self.inputs[word + 3 + rank : word + 3 + 2 * rank] = argument.strides
            elif isinstance(kind, Scalar) and kind.kind in (Kind.FLOAT, Kind.F64):
                floats[word] = argument  # type: ignore[call-overload]
            else:
                self.inputs[word] = int(argument)  # type: ignore[call-overload]
            word += words_of(kind)

    def outcome(self, number: int, heap: Heap) -> Outcome:
        if number == OUT_OF_MEMORY:
            raise MemoryError
        way = self.ways.found[number]
        values = {leaf.value: self.value(leaf.kind, leaf.word, heap) for leaf in way.leaves}
        stack = tuple(made(recipe, values) for recipe in way.stack)
        if way.point is None:
            return Returned(stack[0])
        return Exited(way.point, stack, {slot.index: made(slot.recipe, values) for slot in way.locals}, number)

    def value(self, kind: Type, word: int, heap: Heap) -> object:
        match kind:
            case Scalar(element):
                return number_of(element, self.outputs, word)
            case List(element):
                return heap.items(self.outputs[word], element)
            case Memref(element, rank):
                data, owner, is_view, *rest = self.outputs[word : word + 3 + 2 * rank]
                return heap.array(data, owner, bool(is_view), tuple(rest[:rank]), tuple(rest[rank:]), DTYPES[element])
        raise AssertionError(kind)


def number_of(kind: Kind, words: ctypes.Array[ctypes.c_int64], word: int) -> object:
    if kind in (Kind.FLOAT, Kind.F64):
        found = ctypes.c_double.from_buffer(words, 8 * word).value
        return found if kind is Kind.FLOAT else np.float64(found)
    value = words[word]
    return {Kind.BOOL: bool, Kind.INT: int, Kind.B1: np.bool_, Kind.I64: np.int64}[kind](value)


def compile_program(program: Program) -> CompiledLoop:
    """Machine code of a program. Raises Unsupported with the user's line, NoCompiler, or CompilerError."""
    lines, ways = print_function(program, CPU)
    source = unit(lines)
    began = time.perf_counter()
    found = loader()
    library = found.library(source, found.key(source), "npc_loop")
    words = sum(words_of(program.types[param.value]) for param in program.params)
    return CompiledLoop(program, source, ways, library, time.perf_counter() - began, words)
