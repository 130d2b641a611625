"""Innermost parallel loops in strips, between whose stages functions are called on all elements of a strip at once.

A function that takes arrays, as the inner loops of NumPy's ufuncs do, is called for a strip that the nearest cache holds; what is
computed before and after it are loops over the same strip. The round of a call is one more than the last round that its operands
need. A value is computed as late as its first reader allows, and lies in a row of memory for readers of later rounds; what is
only loaded is loaded again. Operands that lie in memory are passed as they are, and a result is made where it is stored. Other
stores come last: they may overwrite what is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.kernels.index import axis_variable, split_linear, symbols_in
from npcompile.backends.kernels.kernel import (
    Call,
    CheckIndex,
    Kernel,
    Let,
    Load,
    Loop,
    Operand,
    Position,
    Statement,
    Store,
    Strips,
    Value,
    walk,
)

CALLED = "by_numpy"
BY_EXPONENT = ("power", "float_power")  # whose loops ask whether the exponent's stride is 0
Made = Let | Load | Position | CheckIndex


def has_calls(body: Sequence[Statement]) -> bool:
    return any(isinstance(s, Let) and s.op == CALLED for s in walk(list(body)))


def cut_in_strips(kernel: Kernel) -> None:
    """Wherever such functions are in an innermost parallel loop. In other places they are called for one number at a time."""
    for s in walk(kernel.body):
        if isinstance(s, Loop) and s.is_parallel and has_calls(s.body):
            made = [x for x in s.body if isinstance(x, (Let, Load, Position, CheckIndex))]
            stores = [x for x in s.body if isinstance(x, Store)]
            cutting = Cutting(s.axis, {x.target.name: x for x in made}, stores)
            if len(made) + len(stores) == len(s.body) and cutting.is_possible():
                s.body = [cutting.strips()]


@dataclass(slots=True)
class Cutting:
    axis: str
    made: dict[str, Made]  # in order
    stores: list[Store]
    rounds: dict[str, int] = field(default_factory=dict)  # of each value: the calls before it is known
    read: dict[str, set[int]] = field(default_factory=dict)  # the rounds after which a loop reads it
    called: dict[str, set[int]] = field(default_factory=dict)  # those after which a call does, from a row
    rows: dict[str, np.dtype] = field(default_factory=dict)
    direct: dict[str, Store] = field(default_factory=dict)  # results of calls that are made where they are stored

    def is_possible(self) -> bool:
        """Can every call have its operands as NumPy's loop has to see them?"""
        for s in self.made.values():
            if isinstance(s, Let) and s.op == CALLED:
                operation, way = (value for _, value in s.params)
                is_same = s.args[-1].name not in self.made
                if way == "one" or operation in BY_EXPONENT and is_same != (way == "last"):
                    return False
        return True

    def strips(self) -> Strips:
        for name, s in self.made.items():
            before = max((self.rounds[x] for x in self.read_by(s)), default=0)
            self.rounds[name] = before + self.is_call(name)
        last = max(self.rounds.values())
        self.store_directly()
        self.find_readers(last)
        parts: list[list[Statement]] = []
        for number in range(last + 1):
            called = [s for name, s in self.made.items() if self.is_call(name) and self.rounds[name] == number]
            calls: list[Statement] = [self.call(s) for s in called]
            parts += [part for part in (calls, self.loop(number, is_last=number == last)) if part]
        return Strips(self.axis, self.rows, parts)

    def is_call(self, name: str) -> bool:
        s = self.made[name]
        return isinstance(s, Let) and s.op == CALLED

    def read_by(self, s: Statement) -> Iterator[str]:
        """The values of the body that a statement reads."""
        match s:
            case Let():
                names = {v.name for v in s.args}
            case Store():
                names = {s.value.name} | symbols_in(s.offset)
            case Load():
                names = symbols_in(s.offset) | ({s.mask.name} if s.mask else set())
            case CheckIndex():
                names = {s.value.name} | ({s.mask.name} if s.mask else set())
            case Position():
                names = symbols_in(s.index)
            case _:
                names = set()
        yield from (name for name in self.made if name in names)

    def is_cheap(self, name: str) -> bool:
        """Is it better read again than kept?"""
        s = self.made[name]
        return isinstance(s, (Load, Position)) and not any(True for _ in self.read_by(s))

    def find_readers(self, last: int) -> None:
        """Which loops and which calls read each value. A statement is in the loop of its first reader, if it is not a call."""
        self.read = {name: set() for name in self.made}
        self.called = {name: set() for name in self.made}
        for store in self.stores:
            for x in self.read_by(store):
                self.read[x].add(last)
        for name, s in reversed(self.made.items()):
            for x in self.read_by(s):
                if not self.is_call(name):
                    self.read[x].add(self.place(name))
                elif self.operand_in_memory(x) is None:
                    self.called[x].add(self.rounds[name] - 1)

    def place(self, name: str) -> int:
        return min(self.read[name] | self.called[name], default=self.rounds[name])

    def operand_in_memory(self, name: str) -> Operand | None:
        """Where a loop of NumPy's may read the value: a load of what lies ahead, in float16 without gaps."""
        s = self.made[name]
        if not isinstance(s, Load) or s.mask is not None or any(True for _ in self.read_by(s)):
            return None
        linear, size = split_linear(s.offset, self.axis), s.target.dtype.itemsize
        if linear is None or not isinstance(linear[0], int) or linear[0] < size or size == 2 and linear[0] != size:
            return None
        return Operand(s.buffer, s.offset, linear[0], s.target.dtype)

    def store_directly(self) -> None:
        loaded = {s.buffer for s in self.made.values() if isinstance(s, Load)}
        for s in list(self.stores):
            name, size = s.value.name, s.value.dtype.itemsize
            linear = split_linear(s.offset, self.axis)
            is_dense = linear is not None and isinstance(linear[0], int) and linear[0] == size
            is_plain = not any(x in self.made for x in symbols_in(s.offset))
            is_apart = s.buffer not in loaded and sum(x.buffer == s.buffer for x in self.stores) == 1
            is_made_here = name in self.made and self.is_call(name) and name not in self.direct
            if is_made_here and is_dense and is_plain and is_apart:
                self.direct[name] = s
                self.stores.remove(s)

    def row(self, value: Value) -> Operand:
        """The memory of a value, for one strip."""
        if (stored := self.direct.get(value.name)) is not None:
            return Operand(stored.buffer, stored.offset, value.dtype.itemsize, value.dtype)
        self.rows[f"row_{value.name}"] = value.dtype
        return Operand(f"row_{value.name}", axis_variable(self.axis) * value.dtype.itemsize, value.dtype.itemsize, value.dtype)

    def call(self, s: Made) -> Call:
        assert isinstance(s, Let)
        args = tuple(self.operand_in_memory(v.name) or self.row(v) if v.name in self.made else v for v in s.args)
        return Call(str(s.params[0][1]), args, self.row(s.target))

    def loop(self, number: int, *, is_last: bool) -> list[Statement]:
        """What is done to each element after so many rounds."""
        body: list[Statement] = []
        for name, s in self.made.items():
            is_here = not self.is_call(name) and number == self.place(name)
            if is_here or self.is_cheap(name) and number in self.read[name]:
                body.append(s)
            elif number in self.read[name]:
                kept = self.row(s.target)
                body.append(Load(s.target, kept.buffer, kept.offset))
            is_read_later = not self.is_cheap(name) and any(r > number for r in self.read[name])
            if is_here and (self.called[name] or is_read_later):
                kept = self.row(s.target)
                body.append(Store(kept.buffer, kept.offset, s.target))
        return [*body, *(self.stores if is_last else [])]
