"""Variables that are Python's floats when a loop inside of a strip begins, and NumPy's from its first iteration on.

The loop would be written twice, for its first iteration and for the others, and C compilers know little of a loop around it that
is entered in the middle. Where both are the same C, the variable is NumPy's from the beginning; the loop must have an iteration.
"""

from __future__ import annotations

import re
from typing import Any

from npcompile.tracer.bytecode.analysis import CodeFacts
from npcompile.tracer.native.blocks import Inside
from npcompile.tracer.native.variables import set_always

READ = re.compile(r"const double (t\d+) = (\w+)_float;")
SET = re.compile(r"(\w+)_f8 = (t\d+);")
LABEL = re.compile(r"(\w+):;")
TEMPORARY = re.compile(r"\bt\d+\b")
KIND = re.compile(r"\b([LS]\w*)_(?:float|f8)\b")
BLOCK = re.compile(r"\bgoto \w*block\d+_(\d+);")


def widened(inside: Inside, body: list[str], facts: CodeFacts, loops: dict[int, frozenset[int]]) -> dict[int, frozenset[str]]:
    """Headers of loops inside, written twice -> the variables that may be NumPy's from the beginning."""
    blocks = blocks_of(body)
    found = {}
    for header in loops.keys() & inside.region - {inside.header}:
        keys = [key for key in inside.labels if key[0] == header]
        if len(keys) == 2 and (names := changed(*keys)) and names <= set_always(facts, header, loops[header], inside.widened):
            one, other = (plain(blocks.get(inside.labels[key], [])) for key in keys)
            if one == other:
                found[header] = names
    return found


def blocks_of(body: list[str]) -> dict[str, list[str]]:
    """The lines after each label, up to the next."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in body:
        if label := LABEL.fullmatch(line):
            lines = found[label[1]] = []
        else:
            lines.append(line)
    return found


def plain(lines: list[str]) -> list[str]:
    """The lines of a block without what depends on when it was written."""
    names: dict[str, str] = {}
    lines = without_changes(lines)

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"t{len(names)}_")

    return [BLOCK.sub(r"goto \1;", KIND.sub(r"\1", TEMPORARY.sub(named, line))) for line in lines if line]


def without_changes(lines: list[str]) -> list[str]:
    """The lines but those in which a variable becomes NumPy's."""
    read = {at[1]: at[2] for line in lines if (at := READ.fullmatch(line))}
    made = {at[2] for line in lines if (at := SET.fullmatch(line)) and read.get(at[2]) == at[1]}
    kept = [line for line in lines if made.isdisjoint(TEMPORARY.findall(line))]
    return kept if len(kept) == len(lines) - 2 * len(made) else lines  # what was read is not used besides


def changed(one: tuple[Any, ...], other: tuple[Any, ...]) -> frozenset[str]:
    """The variables that are Python's floats in one block and NumPy's in the other; none where these differ by more."""
    if one[1] != other[1] or len(one[2]) != len(other[2]):
        return frozenset()
    names = set()
    for (name, kind), (other_name, other_kind) in zip(one[2], other[2]):
        if name != other_name or kind != other_kind and {kind, other_kind} != {("number", "float"), ("number", "f8")}:
            return frozenset()
        if kind != other_kind:
            names.add(name)
    return frozenset(names)
