"""Ops on arrays and lists as statements: where an element stands, views, and memory for new arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from npcompile.backends.loop_ir.c_text import CText, c, joined
from npcompile.backends.loop_ir.c_values import c_type, element_type, extent, lanes_of, room
from npcompile.backends.loop_ir.target import Ability, Target, Unsupported
from npcompile.tensor_core.loop_ir.ops import (
    Alloc,
    Append,
    Disjoint,
    Gather,
    Load,
    NewList,
    Program,
    Room,
    Scratch,
    Size,
    Store,
    View,
)
from npcompile.tensor_core.loop_ir.types import List, Memref, Scalar

OF_LIST = "(({}*){}->data)[{}]"  # of its type, it, and the index


@cache
def element_template(rank: int, is_dense: bool) -> str:
    """An element of an array, for its type, the array, and for each axis the index and the array: the last one not where dense.

    >>> element_template(2, True), element_template(1, False)
    ('(({}*){}.data)[({}) * {}.n[1] + {}]', '*({}*)({}.data + {} * {}.s[0])')
    """
    if not is_dense:
        return f"*({{}}*)({{}}.data + {' + '.join(f'{{}} * {{}}.s[{axis}]' for axis in range(rank))})"
    place = "{}"
    for axis in range(1, rank):
        place = f"({place}) * {{}}.n[{axis}] + {{}}"
    return f"(({{}}*){{}}.data)[{place}]"


@dataclass(slots=True)
class MemoryStatements:
    program: Program
    target: Target
    names: list[CText] = field(init=False)  # of the values
    lines: list[CText] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.names = [CText(f"v{value}") for value in range(len(self.program.types))]

    def line(self, template: str, *parts: CText | int) -> None:
        self.lines.append(c(template, *parts))

    def name(self, value: int) -> CText:
        return self.names[value]

    def set(self, value: int, text: CText) -> None:
        self.line("  {} = {};", self.name(value), text)

    def vector(self, value: int) -> CText:
        name = self.name(value)
        kind = self.program.types[value]
        assert isinstance(kind, Memref), kind
        if kind.rank == 2:
            return c("{}.data, {}.n[0], {}.s[0], {}.n[1], {}.s[1]", name, name, name, name, name)
        return c("{}.data, {}.n[0], {}.s[0]", name, name, name)

    def memory(self, op: Size | Load | Gather | Store | View) -> None:
        kind = self.program.types[op.array]
        match op:
            case Size(result, array, axis):
                field_text = "{} = {}->length" if isinstance(kind, List) else f"{{}} = {{}}.n[{axis}]"
                self.line(f"  {field_text};", self.name(result), self.name(array))
            case Load(result, array, index):
                template, parts = self.element(array, index, result)
                self.line(f"  {{}} = {template};", self.name(result), *parts)
            case Gather(result, array, index, steps):
                template, parts = self.element(array, index, array)
                by = [c("{} * {}.s[{}]", step, self.name(array), axis) for axis, step in enumerate(steps) if step]
                gather = f"npc_gather_{{}}((const char*)&{template}, {{}})"
                self.line(
                    f"  {{}} = {gather};", self.name(result), lanes_of(self.program.types[result]), *parts, joined(" + ", by)
                )
            case Store(array, index, value):
                template, parts = self.element(array, index, value)
                self.line(f"  {template} = {{}};", *parts, self.name(value))
            case View():
                self.view(op)

    def element(self, array: int, index: list[int], value: int) -> tuple[str, list[CText]]:
        """An element, or so many side by side as the value has lanes: a template, and its parts."""
        kind, vector, name = self.program.types[array], self.program.types[value], self.name(array)
        assert isinstance(kind, (List, Memref)), kind
        parts = [element_type(kind), name]
        for i in index:
            parts += (self.name(i), name)
        if is_dense := isinstance(kind, List) or kind.contiguous:
            parts.pop()
        template = OF_LIST if isinstance(kind, List) else element_template(kind.rank, is_dense)
        if isinstance(vector, Scalar) and vector.lanes > 1:
            return f"*({{}}_at*)&{template}", [c_type(vector), *parts]
        return template, parts

    def view(self, op: View) -> None:
        name, base = self.name(op.result), self.name(op.array)
        offsets = [c("{} * {}.s[{}]", self.name(start), base, axis) for axis, start in enumerate(op.starts)]
        data = (name, base, joined(" + ", offsets), name, base, name)
        self.line("  {}.data = {}.data + {}; {}.owner = {}.owner; {}.is_view = 1;", *data)
        kept = [axis for axis, is_kept in enumerate(op.kept) if is_kept]
        for k, (axis, size) in enumerate(zip(kept, op.sizes, strict=True)):
            self.line("  {}.n[{}] = {}; {}.s[{}] = {}.s[{}];", name, k, self.name(size), name, k, base, axis)

    def alloc(self, op: Alloc, line: int) -> None:
        if Ability.ALLOCATE not in self.target.abilities:
            raise Unsupported(f"{self.target.name} has no {Ability.ALLOCATE.value}", line)
        kind, name = self.program.types[op.result], self.name(op.result)
        assert isinstance(kind, Memref), kind
        stride = c("(npc_i64)sizeof({})", element_type(kind, line))
        for axis in reversed(range(kind.rank)):
            self.line("  {}.n[{}] = {}; {}.s[{}] = {};", name, axis, self.name(op.sizes[axis]), name, axis, stride)
            stride = c("{}.s[{}] * {}.n[{}]", name, axis, name, axis)
        if op.turns:
            self.line(
                "  NPC_TURN({}, turns_{}, {}, {}, {}, {}, {});",
                name,
                op.result,
                op.turns,
                c(kind.element.name),
                kind.rank,
                stride,
                int(op.zeroed),
            )
            return
        where = c("NPC_TAKE({}, taken_{}", name, op.result) if op.again else c("NPC_ALLOCATE({}, {}", name, c(kind.element.name))
        self.line("  {}, {}, {}, {});", where, kind.rank, stride, int(op.zeroed))

    def own_memory(self, op: Disjoint | Scratch | Room) -> None:
        """What the program keeps for itself, and whether arrays share memory."""
        name = self.name(op.result)
        match op:
            case Disjoint(_, one, other):
                self.set(op.result, c("npc_apart({}, {})", *(extent(self.program.types[x], self.name(x)) for x in (one, other))))
            case Scratch(result, elements):
                self.line("  {}.data = (char*)s{}; {}.owner = 0; {}.is_view = 0;", name, result, name, name)
                self.line("  {}.n[0] = {}; {}.s[0] = sizeof *s{};", name, elements, name, result)
            case Room(result, elements):
                self.lines += room(self.program.types[result], name, result, self.name(elements))

    def lists(self, op: NewList | Append, line: int) -> None:
        if Ability.LISTS not in self.target.abilities:
            raise Unsupported(f"{self.target.name} has no {Ability.LISTS.value}", line)
        match op:
            case NewList(result):
                self.line("  NPC_NEW_LIST({});", self.name(result))
            case Append(items, value):
                kind = self.program.types[items]
                assert isinstance(kind, List), kind
                self.line("  NPC_APPEND({}, {}, {});", element_type(kind, line), self.name(items), self.name(value))
