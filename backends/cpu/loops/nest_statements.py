"""What an iteration of a loop over whole arrays does: statements, those that may be one loop nest, and the nest's elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from npcompile.backends.cpu.array_expressions import Apply, Held, Number, Part, Read, Tree, flat, flat_tree, parts_of
from npcompile.backends.cpu.loops.loop_nest import Function, Nest, literal
from npcompile.backends.cpu.primitives import c_type, primitive_text
from npcompile.backends.kernels.kernel import Let, Value

WORD = re.compile(r"[A-Za-z_]\w*")

Sizes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Set:
    """An array that the loop makes."""

    name: str
    tree: Tree
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class Write:
    """An array from before the loop, or a part of one, that the loop writes to."""

    target: Part
    tree: Tree

    @property
    def sizes(self) -> Sizes:
        return self.target.sizes


Statement = Set | Write


@dataclass(frozen=True, slots=True)
class Carried:
    """A variable that holds an array made in the iteration before: at first `init`, in the end `result`."""

    entered: str  # the `Held` that the iteration begins with
    left: str  # and the one that it ends with
    init: Part | None  # None: nothing reads it before it is set
    result: Part


@dataclass(frozen=True, slots=True)
class Loop:
    """What is written as C. Texts of sizes and addresses are the program's."""

    name: str
    statements: Sequence[Statement]
    carried: Sequence[Carried]
    written: Sequence[Part]  # whole arrays, in C order
    first: Sequence[str]  # lines at the beginning of each iteration, about numbers
    last: Sequence[str]  # and at its end
    count: str  # how many there are
    variables: Mapping[str, tuple[str, str]]  # set by the loop -> (C type, what they are at first)
    tests: Sequence[str]  # what must hold
    ignores: str  # are floating-point errors ignored?
    failing: str  # the label where an exception is set


@dataclass(frozen=True, slots=True)
class Chosen(Apply):
    """What a mask selects is set: (mask, new elements, old ones). The new ones count only where the mask is true."""

    @property
    def has_ones(self) -> bool:
        """Is the new one computed, and of ones where the mask is false?"""
        mask, new, _ = self.args
        return not isinstance(new, Number) and in_all(new, mask) is new


class Here(Function):
    """What loop nests in the function name stands there already."""

    def take(self, text: str, c: str = "int64_t") -> str:
        if text.lstrip("-").isdigit():
            return text
        return f"((char*)({text}))" if c == "char*" else f"(({c})({text}))" if not text.isidentifier() else text


def in_all(new: Tree, mask: Tree) -> Tree:
    """What is computed where a mask is true, without ones elsewhere if errors are unlikely: these would make it run again."""
    plain = without_ones(new, mask)
    return new if plain is None else plain


def without_ones(tree: Tree, mask: Tree) -> Tree | None:
    match tree:
        case Apply("where", (asked, selected, Number("1"))) if asked == mask:
            return without_ones(selected, mask)
        case Apply(op, args) if is_harmless(op, args):
            plain = [a if isinstance(a, Number) else without_ones(a, mask) for a in args]
            return None if None in plain else replace(tree, args=tuple(a for a in plain if a is not None))
        case Read() | Held():
            return tree
    return None


def is_harmless(op: str, args: Sequence[Tree]) -> bool:
    """Does it make no error of a number that is none, or that is large already?"""
    if op in ("negative", "absolute"):
        return True
    numbers = [literal(a.text, a.dtype) for a in args if isinstance(a, Number)]
    if len(numbers) != 1 or args[0].dtype.kind != "f":
        return False
    return op in ("add", "subtract") or (op == "multiply" and numbers[0] is not None and 0 < abs(numbers[0]) <= 1)


def held_in(tree: Tree) -> list[str]:
    match tree:
        case Held(name):
            return [name]
        case Apply(_, args):
            return [name for a in args for name in held_in(a)]
    return []


@dataclass(slots=True)
class Group:
    """Statements that are one loop nest."""

    statements: list[Statement] = field(default_factory=list)

    def takes(self, s: Statement) -> bool:
        """May the statement be done to each element when the others have been, not to all when these are done?"""
        return not self.statements or self.statements[0].sizes == s.sizes and self.is_apart(s)

    def is_apart(self, s: Statement) -> bool:
        """Has it no element that another statement has elsewhere?"""
        others = [p for each in self.statements for p in parts_of(each.tree)]
        targets = [each.target for each in self.statements if isinstance(each, Write)]
        mine = [s.target] if isinstance(s, Write) else []
        pairs = [(p, q) for p in [*parts_of(s.tree), *mine] for q in targets] + [(p, q) for p in mine for q in others]
        return all(p.root != q.root or key_of(p) == key_of(q) for p, q in pairs)

    @property
    def made(self) -> list[str]:
        return [s.name for s in self.statements if isinstance(s, Set)]

    @property
    def used(self) -> set[str]:
        return {name for s in self.statements for name in held_in(s.tree)} - {*self.made}


def grouped(statements: Iterable[Statement], empty: Callable[[], Group] = Group) -> list[Group]:
    groups = [empty()]
    for s in statements:
        if not groups[-1].takes(s):
            groups.append(empty())
        groups[-1].statements.append(s)
    return groups


def key_of(part: Part) -> tuple[str, Sizes, Sizes]:
    return part.data, part.sizes, part.strides


def types_of(part: Part) -> dict[str, str]:
    """C types of the variables that say where an array is."""
    names = [t for t in (part.data, *part.sizes, *part.strides) if t.isidentifier()]
    return {t: "int64_t" if t != part.data else "char*" for t in names}


@dataclass(slots=True)
class Row(Nest):
    """The elements of one loop nest: each is read once."""

    storage: dict[str, Part] = field(default_factory=dict)  # of arrays that other nests made
    values: dict[object, str] = field(default_factory=dict)  # what is in a C variable

    def value(self, tree: Tree) -> str:
        match tree:
            case Held(name):
                if name not in self.values:
                    self.keep(name, Nest.value(self, Read(self.storage[name])), tree.dtype)
                return self.values[name]
            case Read(part):
                if key_of(part) not in self.values:
                    self.keep(key_of(part), Nest.value(self, tree), part.dtype)
                return self.values[key_of(part)]
            case Chosen(_, (mask, new, old), dtype):
                arms = (mask, in_all(new, mask), old)
                values = [self.named(self.value(a), a) for a in arms]
                self.made += 1
                let = Let(Value(f"v{self.made}", dtype), "where", tuple(Value(v, a.dtype) for v, a in zip(values, arms)), ())
                self.lets.append(let)
                self.known.hidden(let)
                text = primitive_text("where", values, [a.dtype for a in arms], dtype)
                self.body.append(f"const {c_type(dtype)} v{self.made} = {text};")
                return f"v{self.made}"
        return Nest.value(self, tree)

    def keep(self, key: object, text: str, dtype: np.dtype) -> str:
        if not text.isidentifier():
            self.made += 1
            self.body.append(f"const {c_type(dtype)} e{self.made} = {text};")
            text = f"e{self.made}"
        self.values[key] = text
        return text


def flattened(s: Statement, size: tuple[str]) -> Statement:
    if isinstance(s, Set):
        return Set(s.name, flat_tree(s.tree, size), size)
    return Write(flat(s.target, size), flat_tree(s.tree, size))
