"""What is asked before a program of the loop IR runs: what names stand for, and the types of its params."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

import numpy as np

from npcompile.tensor_core.guards import All, Flags, Guard, HasKey, Is, Layout, OfDType, OfType, within
from npcompile.tensor_core.loop_ir.types import DTYPES, PYTHON, Kind, Memref, Scalar, Type
from npcompile.tensor_core.source import GLOBALS, Literal, Source
from npcompile.tracer.assumptions import of_entry
from npcompile.tracer.compiled import Compiled
from npcompile.tracer.loop_ir.sources import (
    CellContents,
    DefaultOfKeyword,
    Entered,
    GlobalName,
    ModuleAttribute,
    PartOfFunction,
    Same,
)
from npcompile.tracer.loop_ir.sources import Source as Place

C_CONTIGUOUS = 0x1  # of ndarray.flags.num
TYPES = {kind: python for python, kind in PYTHON.items()}


def guards_of_name(function: Compiled[Any], same: Same) -> Iterator[Guard]:
    """That a name stands for what it stood for when the program of a CompiledFunction was made."""
    if isinstance(same.source, Entered):
        entry = same.source.function
        yield of_entry(function.object_of(entry), entry, function.object_of)
        return
    if isinstance(same.source, GlobalName) and same.source.name not in same.source.namespace:
        yield HasKey(namespace_of(function, same.source), Literal(same.source.name), False)
    yield Is(expression_of(function, same.source), function.object_of(same.found))


def namespace_of(function: Compiled[Any], place: GlobalName) -> Source:
    """The user's globals, or those of another module's function."""
    is_own = place.namespace is function.python.__globals__
    return GLOBALS if is_own else function.object_of(place.namespace)


def expression_of(function: Compiled[Any], place: Place) -> Source:
    """The place, as generated programs of the CompiledFunction read it."""
    match place:
        case GlobalName(namespace, name) if name in namespace:
            return namespace_of(function, place).item(name)
        case GlobalName(_, name):
            return function.object_of(vars(builtins)).item(name)
        case ModuleAttribute(module, name):
            return function.object_of(vars(module)).item(name)
        case CellContents(cell):
            return function.object_of(cell).attribute("cell_contents")
        case PartOfFunction(called, name):
            return function.object_of(called).attribute(name)
        case DefaultOfKeyword(called, name):
            return function.object_of(called).attribute("__kwdefaults__").item(name)
        case Entered(called):
            return function.object_of(called)


def guards_of_type(function: Compiled[Any], kind: Type, source: Source) -> Iterator[Guard]:
    """That a number or an array is of this type."""
    of = function.object_of
    match kind:
        case Memref(element, rank, is_contiguous):
            yield All((OfType(source, of(np.ndarray)), OfDType(source, of(DTYPES[element]), True)))
            if is_contiguous:
                yield Flags(source, C_CONTIGUOUS, C_CONTIGUOUS)
            yield Layout(source, "ndim", rank)
        case Scalar(number) if number in TYPES:
            yield OfType(source, of(TYPES[number]))
            if number is Kind.INT:
                yield within(Literal(-(2**63)), source, Literal(2**63), ("<", "<"))
        case Scalar(number):
            yield OfType(source, of(DTYPES[number].type))
