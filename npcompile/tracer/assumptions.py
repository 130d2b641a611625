"""What one capture assumes of what is outside: guards, integers that become symbols, sizes that were seen to change."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, contiguous_strides
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.decisions import Decisions
from npcompile.tracer.entry import compiled_function
from npcompile.tracer.values import Comparison, Constant, Opaque, OutsideMapping, SetValue

FIXED_VALUES = 3  # of an integer from outside, an axis for one, that programs are made for; for others they end there


def of_function(source: str, x: types.FunctionType, name_constant: Callable[[Any], str]) -> list[str]:
    """Guards that a function is of the same code and globals: one made anew, in each call or by text that is run again, is."""
    code = name_constant(x.__code__)
    same_code = f"({source}.__code__ is {code} or {source}.__code__ == {code})"
    return [f"{source}.__globals__ is {name_constant(x.__globals__)}", same_code] if asks_globals(x.__code__) else [same_code]


def asks_globals(code: types.CodeType) -> bool:
    """Does it matter which globals a function of this code has? Not to one that names none and makes no function."""
    return any(i.opname in ASK_GLOBALS or "NAME" in i.opname or "GLOBAL" in i.opname for i in decode(code).instructions)


ASK_GLOBALS = ("MAKE_FUNCTION", "LOAD_BUILD_CLASS", "IMPORT_FROM", "IMPORT_STAR")


@dataclass(slots=True, eq=False)
class Assumptions:
    """The guards of one attempt, and what earlier ones at the same Point have met."""

    builder: Builder
    decisions: Decisions
    seen: dict[str, list[tuple]]  # source of an array -> (shape, strides) of earlier captures at this Point
    fixed_before: dict[str, frozenset[int]]  # source of an integer -> values that earlier programs at this Point are for
    dynamic: bool | None  # None: a size becomes symbolic when a second one is seen
    name_object: Callable[[Any], str]  # a name in the generated program for an object that is the same in every call
    may_break: bool = True  # not where the user asks for one graph
    symbols: dict[str, str] = field(default_factory=dict)  # name of a symbolic integer -> its source
    anew: dict[int, tuple[str, Any]] = field(default_factory=dict)  # id of a class made anew, or a part of it -> its source, it

    def name_constant(self, value: Any) -> str:
        """An expression of the generated program for an object: a name, where it is no part of a class that is made anew."""
        known = self.anew.get(id(value))
        return self.name_object(value) if known is None else known[0]

    def guard(self, text: str) -> None:
        self.builder.env.assume(text)

    def guard_name(self, namespace: dict[str, Any], name: str) -> None:
        """A module's attribute, or a builtin, is what it is now. One that a module makes when asked is assumed so."""
        if name in namespace:
            self.guard(f"{self.name_constant(namespace)}[{name!r}] is {self.name_constant(namespace[name])}")

    def guard_class(self, kind: type, name: str) -> None:
        """Objects of this class find under `name`, unless they have one of their own, what they find now."""
        found = getattr(kind, name)
        text = f"{self.name_constant(kind)}.{name}"
        if isinstance(found, types.MethodType):  # of a class method: made anew each time
            text, found = f"{text}.__func__", found.__func__
        self.guard(f"{text} is {self.name_constant(found)}")

    def guard_code(self, source: str, function: types.FunctionType) -> None:
        self.guard(f"{source}.__code__ is {self.name_constant(function.__code__)}")

    def guard_entry(self, source: str, entry: types.FunctionType) -> None:
        """It enters what it enters now, compiled or as it is."""
        code, current = f"{source}.__code__", self.name_constant(compiled_function(entry).current)
        self.guard(f"({' or '.join(f'{code} is {current}.{each}' for each in ('stub', 'aside', 'first_stub'))})")

    def ask(self, comparison: Comparison) -> Constant:
        """Its answer in this call, which becomes a guard."""
        self.guard(comparison.source if comparison.hint else f"not {comparison.source}")
        return Constant(comparison.hint)

    def guard_apart(self, one: Any, other: Any) -> None:
        """Two objects from outside, one of which the program changes, are not one, nor is a dict that of an object."""
        if one is not other and type(one) is type(other):
            self.guard(f"{one.source} is not {other.source}")
        for held, owner in ((one, other), (other, one)):
            if isinstance(held, OutsideMapping) and isinstance(owner, Opaque) and type(owner.example).__dictoffset__:
                if owner.example.__dict__ is held.example:
                    raise Decline("the dict of an object's attributes is known by itself, and one of both is changed")
                self.guard(f"{held.source} is not {owner.source}.__dict__")

    def guard_key_types(self, source: str, x: Any) -> None:
        if x:  # True equals 1, and np.str_("a") equals "a"
            self.guard(f"[*map(type, {source})] == [{', '.join(self.name_constant(type(k)) for k in x)}]")

    def guard_order(self, value: SetValue) -> None:
        """A set is iterated over: equal ones may be in another order."""
        if value.source is not None:
            self.guard(f"[*{value.source}] == {self.name_constant([*value.items])}")

    # --- integers and sizes

    def is_new(self, what: str, source: str, value: Any, known: int = FIXED_VALUES) -> bool:
        """Is this none of the first values that were met here, so that no more programs are made for single ones?"""
        earlier = self.seen.setdefault(f"{what} {source}", [])
        if (value,) not in earlier and len(earlier) <= known:
            earlier.append((value,))
        return (value,) not in earlier[:known] and self.may_break

    def is_first(self, source: str, x: Any) -> bool:
        """Is this the first object that was met here? Globals are seldom others, but in programs that change them."""
        earlier = self.seen.setdefault(f"object {source}", [(x,)])
        return earlier[0][0] is x

    def is_first_function(self, source: str, x: Any) -> bool:
        """The same of functions, which are not kept for that."""
        return self.seen.setdefault(f"function {source}", [(id(x),)])[0] == (id(x),)

    def bind(self, source: str, value: int, values: int = 1) -> str:
        """A symbol whose value the generated program takes from `source` when it checks the guards.

        Programs may be made for that many single values of it.
        """
        env = self.builder.env
        name = f"s{len(env.hints)}"
        self.symbols[name] = source
        before = self.fixed_before.get(source, frozenset())
        if before and value not in before:
            env.changed.add(name)
        if name in env.changed and len(before) >= values:
            env.changing.add(name)
        self.guard(f"(({name} := {source}) is not None)")
        return name

    def fixed_now(self) -> dict[str, frozenset[int]]:
        """Sources of integers that became part of the program, with the values that programs are for."""
        env = self.builder.env
        fixed = {self.symbols[name]: env.hints[name] for name in env.fixed if name in self.symbols}
        return {source: self.fixed_before.get(source, frozenset()) | {value} for source, value in fixed.items()}

    def sizes_of(self, source: str, x: np.ndarray) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
        """Shape and strides: integers fixed by a guard, or symbols for those that were seen to change."""
        earlier = [s for s in self.seen.get(source, []) if len(s[0]) == x.ndim]
        self.seen.setdefault(source, []).append((x.shape, x.strides))
        changed = [any(s[0][a] != x.shape[a] for s in earlier) for a in range(x.ndim)]
        if self.dynamic is not None:
            changed = [self.dynamic] * x.ndim
        is_canonical = x.strides == contiguous_strides(x.shape, x.itemsize)
        moved = [self.dynamic is not False and any(s[1][a] != x.strides[a] for s in earlier) for a in range(x.ndim)]
        if not any(n > 1 and c for n, c in zip(x.shape, changed)) and (is_canonical or not any(moved)):
            self.guard(f"{source}.shape == {x.shape}")
            if not is_canonical:
                self.guard(f"{source}.strides == {x.strides}")
            return x.shape, x.strides
        self.guard(f"{source}.ndim == {x.ndim}")
        shape: list[Size] = []
        for axis, n in enumerate(x.shape):
            if changed[axis] and n > 1:
                name = self.bind(f"{source}.shape[{axis}]", n)
                self.builder.env.changed.add(name)  # no program is made for one more value of it
                self.builder.env.changing.add(name)
                self.guard(f"{name} >= 2")
                shape.append(self.builder.env.symbol(name, n, at_least=2))
            else:
                self.guard(f"{source}.shape[{axis}] == {n}")
                shape.append(n)
        if is_canonical:
            return tuple(shape), contiguous_strides(tuple(shape), x.itemsize)
        strides: list[Size] = []
        for axis, stride in enumerate(x.strides):
            if moved[axis] and stride:
                name = self.bind(f"{source}.strides[{axis}]", stride)
                self.guard(f"{name} {'>' if stride > 0 else '<'} 0")
                strides.append(self.builder.env.symbol(name, stride, at_least=1 if stride > 0 else None))
            else:
                self.guard(f"{source}.strides[{axis}] == {stride}")
                strides.append(stride)
        return tuple(shape), tuple(strides)
