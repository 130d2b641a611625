"""Every instruction of the running Python has a handler, or a reason why it has none."""

from __future__ import annotations

import asyncio.base_events
import contextlib
import dataclasses
import dis
import enum
import inspect
import re
import sys
import tarfile
import types
import typing
import unittest.mock
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.bytecode.declined import DECLINED, why_declined
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.bytecode.opcodes import HALVES, NO_FALL_THROUGH, OR_POP, SAME
from npcompile.tracer.bytecode.traits import TRAITS
from npcompile.tracer.instructions.table import HANDLERS
from npcompile.tracer.native.instructions import MEANINGS
from tests.tracer import sample_functions

GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# What CPython's instructions stand for, where it is not one that `SAME` names, or their own name.
OTHERWISE = {
    **dict.fromkeys(("CACHE", "EXTENDED_ARG", "END_FOR"), ()),
    **HALVES,
    **{name: ("COPY", common, "POP_TOP") for name, (common, _) in OR_POP.items()},
    "KW_NAMES": ("CALL_KW",),
    "RETURN_CONST": ("LOAD_CONST", "RETURN_VALUE"),
    "LOAD_ATTR": ("LOAD_ATTR", "LOAD_METHOD"),
    "BINARY_OP": ("BINARY_OP", "BINARY_SUBSCR"),
    "LOAD_SPECIAL": ("LOAD_SPECIAL", "BEFORE_WITH"),
    "GET_ITER": ("GET_ITER", "GET_YIELD_FROM_ITER"),
    "CALL_INTRINSIC_1": ("CALL_INTRINSIC_1", "STOPITERATION_ERROR", "UNARY_POSITIVE", "LIST_TO_TUPLE"),
    "CALL_INTRINSIC_2": ("CALL_INTRINSIC_2", "PREP_RERAISE_STAR"),
}
TRACER = Path(npc.__file__).parent / "tracer"
MODULES = (
    *(asyncio.base_events, contextlib, dataclasses, enum, inspect, tarfile, types, typing, unittest.mock, np.lib._npyio_impl),
    sample_functions,
)


def test_every_instruction_is_handled_or_declines():
    found = {common for name in dis.opmap for common in OTHERWISE.get(name, (SAME.get(name, name),))}
    handled = {name for name in found if name in HANDLERS}
    declined = {name for name in found if why_declined(name) is not None}
    assert handled | declined == found
    assert not handled & declined


def test_what_asks_traits_knows_what_is_handled():
    """Of what native programs have a meaning for, each instruction has traits; and none has traits that nobody gives."""
    given = {common for names in [*OTHERWISE.values(), SAME.values(), dis.opmap] for common in names} | {"END_FOR"}
    of_other_versions = {*HANDLERS, *DECLINED}
    assert MEANINGS.keys() - TRAITS.keys() == {"LIST_EXTEND", "LIST_APPEND"}
    assert TRAITS.keys() - given - of_other_versions == set()
    assert {name for name, traits in TRAITS.items() if traits.ends_block} <= NO_FALL_THROUGH


def test_names_of_versions_are_in_one_place():
    """Instructions that the decoder does not give are named where it reads and the assembler writes, nowhere else."""
    known = {*dis.opmap, *SAME, *HALVES, *OR_POP, "KW_NAMES", "RETURN_CONST", "LOAD_SPECIAL"}
    gone = {name for name in known if name not in OTHERWISE.get(name, (SAME.get(name, name),))} - set(SAME.values())
    assert len(gone) > 30
    for path in TRACER.rglob("*.py"):
        if path.parent.name != "bytecode":
            assert not gone & set(re.findall(r"[\"']([A-Z][A-Z_0-9]+)[\"']", path.read_text())), path


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def places() -> dict[str, set[str]]:
    """Where each instruction is met: in functions, generators, or namespaces."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        for code in code_objects(compile(inspect.getsource(module), str(module.__file__), "exec")):
            is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<generic")
            where = "generator" if code.co_flags & GENERATORS else "function" if is_function else "namespace"
            for instruction in decode(code).instructions:
                found.setdefault(instruction.opname, set()).add(where)
    return found


def test_declined_instructions_are_where_their_reason_says():
    found = places()
    assert len(found) > 80
    for name, declined in DECLINED.items():
        if declined.where == "interpreter":
            assert name not in found
        elif declined.where != "function":
            assert "function" not in found.get(name, ())


def deletes_a_cell(x):
    y = x + 1

    def inner():
        return y  # noqa: F821

    z = inner()
    del y
    return z * 2


@pytest.mark.parametrize("function", [deletes_a_cell], ids=lambda f: f.__name__)
def test_declined_instructions_of_functions_say_why(function):
    x = np.ones(3)
    compiled = npc.compile(function, backend="eager")
    assert repr(compiled(x)) == repr(function(x))
    names = {i.opname for i in decode(function.__code__).instructions}
    reasons = {DECLINED[name].reason for name in names if name in DECLINED and DECLINED[name].where == "function"}
    assert reasons & {taken.reason for taken in compiled_function(compiled).breaks}


@pytest.mark.skipif(sys.version_info < (3, 14), reason="template strings and functions that make annotations are CPython 3.14's")
@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_what_is_new_in_3_14(backend):
    space: dict[str, typing.Any] = {}
    exec('def template(x):\n    y = x + 1\n    return y * 2, len(t"{x}".strings)', space)
    text = "def annotated(x):\n    def inner(a: later) -> float:\n        return a\n    return inner, x + 1"
    exec(compile(text, "annotated", "exec", dont_inherit=True), space)
    x = np.ones(3)
    for name in ("template", "annotated"):
        compiled = npc.compile(space[name], backend=backend)
        for _ in range(2):
            first, second = compiled(x)
            theirs, expected = space[name](x)
            assert repr(second) == repr(expected)
    space["later"] = int  # annotations are made when they are asked for
    assert first.__annotations__ == theirs.__annotations__ == {"a": int, "return": float}
