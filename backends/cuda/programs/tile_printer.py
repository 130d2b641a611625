"""Scalar instructions printed for a whole tile: every value is a block over the rows and columns that it depends on.

A tile has `ROWS` rows and `BLOCK` columns. A value known for the whole program is a scalar, one of a row has the shape
[ROWS, 1], one of a column [1, BLOCK], so that Triton's broadcasting joins them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.cuda.programs.primitives import (
    cast_text,
    constant_texts,
    expressions,
    loaded_text,
    part_of,
    stored_text,
    triton_type,
)
from npcompile.backends.cuda.programs.program import NotPrintable, Parameter, pointer_type
from npcompile.backends.kernels.index import divide_term, substitute, symbols_in
from npcompile.backends.kernels.kernel import CheckIndex, Kernel, Let, Load, Position, Statement, Store, Value
from npcompile.tensor_core.dim import Dim, Size, c_call, terms_of, text_of
from npcompile.tensor_core.dtypes import short

Deps = frozenset[str]  # of "row" and "column": along which a value differs within a tile
NONE, ROW, COLUMN = frozenset[str](), frozenset(["row"]), frozenset(["column"])
BOTH = ROW | COLUMN
SHAPES = {NONE: "[1, 1]", ROW: "[ROWS, 1]", COLUMN: "[1, BLOCK]", BOTH: "[ROWS, BLOCK]"}


def divided(size: Size, n: int) -> Size:
    """A byte offset as a number of elements."""
    if n == 1:
        return size
    total: Size = 0
    for monomial, coefficient in terms_of(size) or ():
        if coefficient % n:
            raise NotPrintable(f"elements of {n} bytes at offset {size}")
        if monomial:
            assert isinstance(size, Dim)
            part = divide_term(Dim(size.env, ((monomial, coefficient),)), n)
            assert part is not None
            total = total + part
        else:
            total = total + coefficient // n
    return total


def parts(value: Value) -> list[str]:
    """The names that hold it."""
    return [f"{value.name}_r", f"{value.name}_i"] if value.dtype.kind == "c" else [value.name]


@dataclass(slots=True)
class Writer:
    """The text of one Triton function."""

    kernel: Kernel
    types: dict[str, np.dtype]  # of buffers
    symbols: frozenset[str]
    on_device: frozenset[str] = frozenset()  # 0-D inputs that are read from memory
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    deps: dict[str, Deps] = field(default_factory=dict)  # of values and axes
    masks: dict[Deps, str] = field(default_factory=dict)  # names of the tile's own masks
    parameters: dict[str, Parameter] = field(default_factory=dict)
    registers: dict[str, Value] = field(default_factory=dict)  # buffers of rows that stay on the chip
    checked: dict[str, str] = field(default_factory=dict)  # name of an index -> where it is inside
    loaded: dict[tuple[str, ...], Value] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)  # axis -> the text that it was last given
    rows: set[str] = field(default_factory=set)  # buffers of rows
    keeps_rows: bool = True  # do these stay in registers?
    is_fast: bool = False

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines in a loop: what is assigned there is not known after it."""
        self.line(head)
        self.indent += 1
        loaded, written = dict(self.loaded), dict(self.written)
        yield
        self.loaded, self.written = loaded, written
        self.indent -= 1

    def use(self, parameter: Parameter) -> str:
        self.parameters[parameter.name] = parameter
        return parameter.name

    # --- sizes and axes

    def size(self, size: Size) -> str:
        """A size or index as text; its symbols become parameters."""
        renamed = {}
        for name in sorted(symbols_in(size)):  # a set has another order in each process, and texts of before are looked for
            if name in self.symbols:
                renamed[name] = self.use(Parameter(f"size_{name}", "INDEX", "size", name))
        return text_of(rename(size, renamed), c_call)

    def depends_on(self, size: Size) -> Deps:
        return NONE.union(*(self.deps.get(name, NONE) for name in symbols_in(size)))

    def axes(self, flat: str, axes: Sequence[tuple[str, Size]], deps: Deps) -> None:
        """Axes, outermost first, from their position counted along all of them."""
        rest = flat
        for k, (axis, size) in reversed(list(enumerate(axes))):
            text = rest if k == 0 else f"{rest} % {self.size(size)}"
            if self.written.get(axis) != text:
                self.line(f"{axis} = {text}")
                self.written[axis] = text
                self.loaded = {key: v for key, v in self.loaded.items() if axis not in key[1]}
            rest = f"({rest} // {self.size(size)})"
            self.deps[axis] = deps

    # --- statements

    def statements(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        match s:
            case Let(target, "constant", _, ((_, value),)):
                self.assign(target, constant_texts(value, target.dtype), NONE)
            case Let(target, op, args, _):
                deps = NONE.union(*(self.deps_of(a) for a in args))
                texts = expressions(op, [a.name for a in args], [a.dtype for a in args], target.dtype, is_fast=self.is_fast)
                self.assign(target, texts, deps)
            case Position(target, index):
                deps = self.depends_on(index)
                self.assign(target, [f"{self.tensor(index)}.to(tl.int64)"], deps)
            case Load():
                self.load(s)
            case Store():
                self.store(s)
            case CheckIndex():
                self.check(s)
            case _:
                raise NotPrintable(f"{type(s).__name__} in a {self.kernel.name}")

    def tensor(self, index: Size) -> str:
        """An index as a Triton value, also where its text is a number."""
        text = self.size(index)
        return f"tl.full((), {text}, tl.int64)" if isinstance(index, int) else f"({text})"

    def assign(self, target: Value, texts: Sequence[str], deps: Deps) -> None:
        names = parts(target)
        comment = f"  # {short(target.dtype)}"
        if len(texts) == len(names):
            for name, text in zip(names, texts):
                self.line(f"{name} = {text}{comment}")
        else:
            self.line(f"{', '.join(names)} = {texts[0]}{comment}")
        self.deps[target.name] = deps

    def deps_of(self, value: Value) -> Deps:
        if value.name not in self.deps:  # a scalar argument
            self.argument(value)
        return self.deps[value.name]

    def argument(self, value: Value) -> None:
        """A 0-D input: read from memory, or passed in the widest type of its kind, which has its every value."""
        assert value.name in self.kernel.scalars, value
        wide = {"b": "i32", "i": "i64", "u": "u64"}.get(value.dtype.kind, "fp64")
        texts = []
        for k, name in enumerate(parts(value)):
            if value.name in self.on_device:
                self.use(Parameter(f"{value.name}_given", pointer_type(value.dtype), "buffer", value.name))
                text = f"tl.load({value.name}_given + {k})"
                texts.append(loaded_text(text, value.dtype))
                continue
            self.use(Parameter(f"{name}_given", wide, "scalar", name))
            if value.dtype.kind == "b":
                texts.append(f"({name}_given != 0)")
            else:
                texts.append(f"{name}_given.to({triton_type(value.dtype)})")
        # At the top of the function: other passes use it too.
        self.lines[0:0] = [f"    {name} = {text}" for name, text in zip(parts(value), texts)]
        self.deps[value.name] = NONE

    def mask(self, deps: Deps, *more: str | None) -> str:
        found = [name for d, name in self.masks.items() if d <= deps]
        found += [m for m in more if m]
        return " & ".join(found) if found else ""

    def address(self, buffer: str, offset: Size, dtype: np.dtype, deps: Deps) -> str:
        """A pointer with the shape that `deps` tells."""
        itemsize = part_of(dtype).itemsize
        elements = divided(offset, itemsize)
        text = self.size(elements)
        missing = deps - self.depends_on(offset)
        for which in sorted(missing):
            text += f" + no_{which}"
        role = "scratch" if buffer in self.rows else "literal" if buffer.startswith("literal") else "buffer"
        name = self.use(Parameter(buffer, pointer_type(dtype), role, buffer))
        if role == "scratch":
            name = f"{name}_here"
        return name if text == "0" else f"{name} + ({text})"

    def guards(self, offset: Size) -> list[str]:
        """Where the indices in it are inside."""
        return [self.checked[name] for name in sorted(symbols_in(offset)) if name in self.checked]

    def reached(self, offset: Size) -> Deps:
        """What an element there, and whether there is one, depends on."""
        return self.depends_on(offset).union(*(self.deps.get(f"{name}_ok", NONE) for name in symbols_in(offset)))

    def load(self, s: Load) -> None:
        if s.buffer in self.registers:
            value = self.registers[s.buffer]
            self.assign(s.target, parts(value), self.deps[value.name])
            return
        dtype = s.target.dtype
        deps = self.reached(s.offset)
        guards = self.guards(s.offset)
        if s.mask is not None:
            deps |= self.deps_of(s.mask)
            guards.append(s.mask.name)
        address = self.address(s.buffer, s.offset, dtype, deps)
        mask = self.mask(deps, *guards)
        key = (s.buffer, address, mask)
        if key in self.loaded:
            value = self.loaded[key]
            self.assign(s.target, parts(value), self.deps[value.name])
            return
        texts = []
        for k in range(len(parts(s.target))):
            place = f"{address} + {k}" if k else address
            text = f"tl.load({place}, mask={mask}, other=0)" if mask else f"tl.load({place})"
            texts.append(loaded_text(text, dtype))
        self.assign(s.target, texts, deps)
        self.loaded[key] = s.target

    def store(self, s: Store) -> None:
        if s.buffer in self.registers or (s.buffer in self.rows and self.keeps_rows):
            self.registers[s.buffer] = s.value
            return
        deps = self.reached(s.offset) | self.deps_of(s.value)
        address = self.address(s.buffer, s.offset, s.value.dtype, deps)
        mask = self.mask(deps, *self.guards(s.offset))
        for k, name in enumerate(parts(s.value)):
            value = stored_text(name, s.value.dtype)
            place = f"{address} + {k}" if k else address
            self.line(f"tl.store({place}, {value}, mask={mask})" if mask else f"tl.store({place}, {value})")
        self.loaded = {key: v for key, v in self.loaded.items() if key[0] != s.buffer}

    def check(self, s: CheckIndex) -> None:
        deps = self.deps_of(s.value) | (self.deps_of(s.mask) if s.mask else NONE)
        name, value, size = s.target.name, s.value.name, self.size(s.size)
        self.line(f"{name} = {value} + tl.where({value} < 0, {size}, 0)")
        is_inside = f"({name} >= 0) & ({name} < {size})"
        self.line(f"{name}_ok = {is_inside}{f' & {s.mask.name}' if s.mask else ''}")
        fails = self.mask(deps, s.mask.name if s.mask else None, f"({name}_ok == 0)")
        error = self.use(Parameter("error", "*i32", "error"))
        zeros = "".join(f" + no_{which}" for which in sorted(deps))
        one = f"tl.full({SHAPES[deps]}, 1, tl.int32)" if deps else "tl.full((), 1, tl.int32)"
        self.line(f"tl.store({error}{zeros}, {one}, mask={fails})")
        self.line(f"{name} = tl.where({name}_ok, {name}, 0).to(INDEX)")
        self.deps[name] = self.deps[f"{name}_ok"] = deps
        self.checked[name] = f"{name}_ok"

    # --- shapes

    def spread(self, value: Value, dtype: np.dtype) -> list[str]:
        """Its parts as blocks of the whole tile, of `dtype`; booleans as integers."""
        self.deps_of(value)
        texts = parts(value)
        if value.dtype.kind == "b":
            texts = [f"{t}.to(tl.int32)" for t in texts]
        elif value.dtype != dtype:
            texts = [cast_text(t, part_of(value.dtype), part_of(dtype)) for t in texts]
        if self.deps[value.name] == BOTH:
            return texts
        return [f"tl.broadcast_to({t}, {SHAPES[BOTH]})" for t in texts]

    def tile_indices(self, row: str | None, column: str | None) -> None:
        """Names for rows and columns of the tile, given their first ones."""
        self.line("no_row = tl.zeros([ROWS, 1], INDEX)")
        self.line("no_column = tl.zeros([1, BLOCK], INDEX)")
        if row is not None:
            self.line(f"row = {row} + tl.arange(0, ROWS).to(INDEX)[:, None]")
        if column is not None:
            self.line(f"column = {column} + tl.arange(0, BLOCK).to(INDEX)[None, :]")

    def program_text(self, name: str) -> str:
        """The whole function."""
        head = f"@triton.jit\ndef {name}({', '.join(self.parameters)}):"
        return "\n".join([head, *self.lines]) + "\n"


def rename(size: Size, names: dict[str, str]) -> Size:
    if not isinstance(size, Dim) or not names:
        return size
    return substitute(size, {old: Dim(size.env, (((new,), 1),)) for old, new in names.items()})
