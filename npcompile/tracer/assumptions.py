"""What one capture assumes of what is outside: guards, integers that become symbols, sizes that were seen to change."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.marks import LEAST, marks_of
from npcompile.settings import config
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.dtypes import is_number
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.guards import (
    All,
    Axis,
    Binds,
    Either,
    Equals,
    Guard,
    HasAttribute,
    Is,
    Keys,
    KeyTypes,
    Layout,
    OfType,
    Truth,
    compared,
)
from npcompile.tensor_core.meta import Decline, contiguous_strides
from npcompile.tensor_core.source import Bound, Compared, Formula, Literal, Object, Source, builtin
from npcompile.tracer.bytecode.decode import decode
from npcompile.tracer.constant_kinds import LONGEST_INTEGER
from npcompile.tracer.entry import compiled_function
from npcompile.tracer.restarts import Decisions
from npcompile.tracer.values import Comparison, Constant, Lazy, Opaque, OutsideMapping, SetValue
from npcompile.tracer.variant import ConstantSize

Seen = dict[tuple[str, Source], list[tuple]]
MOST_FORMS = 3  # integers (an axis), lengths, keys, functions from outside that programs are made for; for others they end there

# Numbers, and a text that is the same for equal ones alone: 0.0 equals -0.0, and NaN does not equal itself.
EXACT: dict[type, tuple[str, Callable[[Any], Any]]] = {
    float: ("{}.hex()", float.hex),
    complex: ("({0}.real.hex(), {0}.imag.hex())", lambda x: (x.real.hex(), x.imag.hex())),
    np.generic: ("{}.tobytes()", np.generic.tobytes),  # but long doubles, which have bytes that mean nothing
}


def most_values() -> int:
    """Of a string from outside: for how many are programs made? One more is for all others."""
    return config.recompile_limit - 1


def of_function(source: Source, x: types.FunctionType, object_of: Callable[[Any], Source]) -> list[Guard]:
    """Guards that a function is of the same code and globals: one made anew, in each call or by text that is run again, is."""
    asked, code = source.attribute("__code__"), object_of(x.__code__)
    same_code = Either((Is(asked, code), Equals(asked, code)))
    if not asks_globals(x.__code__):
        return [same_code]
    return [Is(source.attribute("__globals__"), object_of(x.__globals__)), same_code]


def of_entry(source: Source, entry: types.FunctionType, object_of: Callable[[Any], Source]) -> Guard:
    """A guard that an entry enters what it enters now, compiled or as it is."""
    code, current = source.attribute("__code__"), object_of(compiled_function(entry).current)
    return Either(tuple(Is(code, current.attribute(each)) for each in ("stub", "fast_stub", "aside", "first_stub")))


def asks_globals(code: types.CodeType) -> bool:
    """Does it matter which globals a function of this code has? Not to one that names none and makes no function."""
    return any(i.traits.uses_globals for i in decode(code).instructions)


@dataclass(slots=True, eq=False)
class Assumptions:
    """The guards of one attempt, and what earlier ones at the same Point have met."""

    builder: Builder
    decisions: Decisions
    seen: Seen  # what, and its source -> what earlier captures at this Point met; of arrays (shape, strides)
    fixed_before: dict[Source, frozenset[int]]  # source of an integer -> values that earlier programs at this Point are for
    dynamic: bool | None  # None: a size becomes symbolic when a second one is seen
    known_object: Callable[[Any], Object]  # an object that is the same in every call, by its name in the generated program
    may_break: bool = True  # not where the user asks for one graph
    is_asked: bool = True  # has the user named the function, and not only its package?
    static: frozenset[Source] = frozenset()  # of arguments that are constants, with all that is in them
    attributes: dict[Source, Guard] = field(default_factory=dict)  # those that were read -> that they are there
    texts: set[Source] = field(default_factory=set)  # sources of strings that are inputs here, and may be constants
    symbols: dict[str, Source] = field(default_factory=dict)  # name of a symbolic integer -> its source
    anew: dict[int, tuple[Source, Any]] = field(
        default_factory=dict
    )  # id of a class made anew, or a part of it -> its source, it

    def object_of(self, value: Any) -> Source:
        """An expression of the generated program for an object: a name, where it is no part of a class that is made anew."""
        known = self.anew.get(id(value))
        return self.known_object(value) if known is None else known[0]

    def name_constant(self, value: Any) -> str:
        """The same as text."""
        return str(self.object_of(value))

    def guard(self, guard: Guard) -> None:
        self.builder.env.assume(guard)

    def attribute(self, owner: Source, name: str, value: Any) -> Lazy:
        """An attribute from outside, which a call may find gone: that is guarded where nothing else is asked of it."""
        source = owner.attribute(name)
        self.attributes[source] = HasAttribute(owner, name)
        return Lazy(source, value)

    def still_there(self, guards: Collection[Guard]) -> list[Guard]:
        """Guards that attributes are there of which these ask nothing."""
        asked = {source for guard in guards for source in guard.walk()} if self.attributes else set()
        return [guard for source, guard in self.attributes.items() if source not in asked and guard not in guards]

    def guard_name(self, namespace: dict[str, Any], name: str) -> None:
        """A module's attribute, or a builtin, is what it is now. One that a module makes when asked is assumed so."""
        if name in namespace:
            self.guard(Is(self.object_of(namespace).item(name), self.object_of(namespace[name])))

    def guard_class(self, kind: type, name: str) -> None:
        """Objects of this class find under `name`, unless they have one of their own, what they find now."""
        found = getattr(kind, name)
        asked = self.object_of(kind).attribute(name)
        if isinstance(found, types.MethodType):  # of a class method: made anew each time
            asked, found = asked.attribute("__func__"), found.__func__
        self.guard(Is(asked, self.object_of(found)))

    def guard_code(self, source: Source, function: types.FunctionType) -> None:
        self.guard(Is(source.attribute("__code__"), self.object_of(function.__code__)))

    def guard_entry(self, source: Source, entry: types.FunctionType) -> None:
        self.guard(of_entry(source, entry, self.object_of))

    def ask(self, comparison: Comparison) -> Constant:
        """Its answer in this call, which becomes a guard."""
        asked = comparison.source
        if isinstance(asked, Compared) and asked.symbol == ("==" if comparison.hint else "!="):
            self.builder.env.require_other_sizes(asked.left, asked.right)
        self.guard(Truth(asked, comparison.hint))
        return Constant(comparison.hint)

    def guard_apart(self, one: Any, other: Any) -> None:
        """Two objects from outside, one of which the program changes, are not one, nor is a dict that of an object."""
        if one is not other and type(one) is type(other):
            self.guard(Is(one.source, other.source, False))
        for held, owner in ((one, other), (other, one)):
            if isinstance(held, OutsideMapping) and isinstance(owner, Opaque) and type(owner.example).__dictoffset__:
                if owner.example.__dict__ is held.example:
                    raise Decline("the dict of an object's attributes is known by itself, and one of both is changed")
                assert held.source is not None
                self.guard(Is(held.source, owner.source.attribute("__dict__"), False))

    def guard_key_types(self, source: Source, x: Any) -> None:
        if x:  # True equals 1, and np.str_("a") equals "a"
            self.guard(KeyTypes(source, tuple(self.object_of(type(k)) for k in x)))

    def guard_order(self, value: SetValue) -> None:
        """A set is iterated over: equal ones may be in another order. That of one from outside is known until it is changed."""
        if value.source is not None:
            if value.resizes:
                raise Decline("the order of a set from outside that was changed")
            self.guard(Keys(value.source, self.object_of([*value.items])))

    def static_number(self, source: Source, x: Any) -> Constant | None:
        """A number that is a constant argument, or part of one, as a constant of the program. None for anything else."""
        kind = type(x)
        is_scalar = isinstance(x, np.generic) and is_number(x.dtype) and kind is x.dtype.type and x.dtype.char not in "gG"
        is_short = kind is int and x.bit_length() < LONGEST_INTEGER
        if not (is_scalar or is_short or kind in EXACT) or not self.is_static(source):
            return None
        if is_short:
            same = Equals(source, Literal(x))
        else:
            text, exact = EXACT[np.generic if is_scalar else kind]
            same = Equals(Formula(text, source), Literal(exact(x)))
        self.guard(All((OfType(source, self.object_of(kind) if is_scalar else builtin(kind)), same)))
        return Constant(x, source)

    # --- integers and sizes

    def is_new(self, what: str, source: Source, value: Any, known: int = MOST_FORMS) -> bool:
        """Is this none of the first values that were met here, so that no more programs are made for single ones?"""
        earlier = self.seen.setdefault((what, source), [])
        if (value,) not in earlier and len(earlier) <= known:
            earlier.append((value,))
        return (value,) not in earlier[:known] and self.may_break and not self.is_static(source)

    def is_static(self, source: Source) -> bool:
        """Is it an argument, or a part of one, that is a constant of the program?"""
        return bool(self.static) and not self.static.isdisjoint(source.walk())

    def is_input(self, source: Source, text: str) -> bool:
        """Is a string read when the program is called? The first one that is met is a constant, and so are a few others where
        something was not captured that may need one.
        """
        if self.is_static(source):
            return False
        is_new, (first, *_) = self.is_new("values of", source, text, most_values()), self.seen["values of", source]
        if first == (text,):
            return False
        if not is_new:
            self.texts.add(source)
        return is_new or source not in self.decisions.known_texts

    def fix_texts(self) -> bool:
        """Something was not captured of a string: are those of which few values were met constants in the next attempt?"""
        found = self.texts - self.decisions.known_texts
        self.decisions.known_texts |= found
        return bool(found)

    def is_first(self, source: Source, x: Any) -> bool:
        """Is this the first object that was met here? Globals are seldom others, but in programs that change them."""
        earlier = self.seen.setdefault(("object", source), [(x,)])
        return earlier[0][0] is x

    def is_first_function(self, source: Source, x: Any) -> bool:
        """The same of functions, which are not kept for that."""
        return self.seen.setdefault(("function", source), [(id(x),)])[0] == (id(x),)

    def bind(self, source: Source, value: int, values: int = 1) -> str:
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
        self.guard(Binds(source, name))
        return name

    def fixed_now(self) -> dict[Source, frozenset[int]]:
        """Sources of integers that became part of the program, with the values that programs are for."""
        env = self.builder.env
        fixed = {self.symbols[name]: env.hints[name] for name in env.fixed if name in self.symbols}
        return {source: self.fixed_before.get(source, frozenset()) | {value} for source, value in fixed.items()}

    def sizes_of(self, source: Source, x: np.ndarray) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
        """Shape and strides: integers fixed by a guard, or symbols for those that were seen to change."""
        met = self.seen.setdefault(("sizes of", source), [])
        earlier = [s for s in met if len(s[0]) == x.ndim]
        met.append((x.shape, x.strides))
        changed = [any(s[0][a] != x.shape[a] for s in earlier) for a in range(x.ndim)]
        if self.dynamic is not None:
            changed = [self.dynamic] * x.ndim
        marks = marks_of(x)
        changed = [marks[a].is_dynamic if a in marks else each for a, each in enumerate(changed)]
        is_canonical = x.strides == contiguous_strides(x.shape, x.itemsize)
        moved = [self.dynamic is not False and any(s[1][a] != x.strides[a] for s in earlier) for a in range(x.ndim)]
        if not any(n > 1 and c for n, c in zip(x.shape, changed)) and (is_canonical or not any(moved)):
            self.guard(Layout(source, "shape", x.shape))
            if not is_canonical:
                self.guard(Layout(source, "strides", x.strides))
            return x.shape, x.strides
        self.guard(Layout(source, "ndim", x.ndim))
        shape: list[Size] = []
        for axis, n in enumerate(x.shape):
            if changed[axis] and n > 1:
                name = self.bind(source.attribute("shape").item(axis), n)
                self.builder.env.changed.add(name)  # no program is made for one more value of it
                self.builder.env.changing.add(name)
                least = marks[axis].least if axis in marks else LEAST
                self.guard(compared(Bound(name), ">=", Literal(least)))
                shape.append(self.builder.env.symbol(name, n, at_least=least))
                if axis in marks:
                    self.keep(name, marks[axis].most)
            else:
                self.guard(Axis(source, "shape", axis, n))
                shape.append(n)
        if is_canonical:
            return tuple(shape), contiguous_strides(tuple(shape), x.itemsize)
        strides: list[Size] = []
        for axis, stride in enumerate(x.strides):
            if moved[axis] and stride:
                name = self.bind(source.attribute("strides").item(axis), stride)
                self.guard(compared(Bound(name), ">" if stride > 0 else "<", Literal(0)))
                strides.append(self.builder.env.symbol(name, stride, at_least=1 if stride > 0 else None))
            else:
                self.guard(Axis(source, "strides", axis, stride))
                strides.append(stride)
        return tuple(shape), tuple(strides)

    def keep(self, name: str, most: int | None) -> None:
        """The user has said that this size is no constant, and how large it is."""
        env = self.builder.env
        if most is not None:
            self.guard(compared(Bound(name), "<=", Literal(most)))
        env.kept[name] = lambda: ConstantSize(
            f"{self.symbols[name]} is marked with npc.mark_dynamic, and would be the constant {env.hints[name]} at "
            f"{self.builder.location}. Mark there what it is compared with as well, or take the mark away."
        )
