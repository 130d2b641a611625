"""Values whose floating-point errors NumPy reports, though what the program stores may not need them.

A C compiler computes no `(int64_t)x * 0`, and of `y == 0 ? 0 : x / y` it makes, where a processor has masks, a division of
only those elements that are chosen. Such a value is joined to one that is stored, in a way that changes nothing, which the
compiler cannot know. Which values are dropped is found by trying: of what changes with the value the compiler needs it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.backends.kernels.finish import operands
from npcompile.backends.kernels.kernel import Accumulate, CheckIndex, Kernel, Let, Statement, Store, Value, children
from npcompile.tensor_core.op import OPS

KEPT = "kept"  # of a Let: its first operand, beside which the others are computed

FAITHFUL = frozenset(["add", "subtract", "multiply", "divide"])  # each result needs both operands, whatever they are

SAMPLES = 64  # of each value, that are tried
MOST_SAMPLES = 1000  # arrays of such that are kept: seeds count from 0 in each kernel
ROLLS = (1, 7, 20)
NUMBERS = np.array([0.0, 1, -1, 0.3, -0.3, 2.5, -7, 17, 100, -1e3, 1e6, 1e10, -1e18, 1e200, np.inf, -np.inf, np.nan])


@dataclass(slots=True)
class Place:
    """A statement that uses values, and the list that it is in."""

    body: list[Statement]
    statement: Statement


def keep_values(kernel: Kernel, checks: Set[str]) -> None:
    """Keep in the kernel what must be computed for its errors alone."""
    if not checks:
        return
    places = list(places_of(kernel.body))
    lets = [p for p in places if isinstance(p.statement, Let)]
    stored = [sunk(p).name for p in places if isinstance(p.statement, (Store, Accumulate))]
    doubtful = {let.target.name for let in not_surely_needed([let_of(p) for p in lets], stored)}
    if not doubtful:
        return
    samples = Samples([let_of(p) for p in lets])
    sinks = [p for p in places if isinstance(p.statement, (Store, Accumulate, CheckIndex))]
    kept: dict[int, list[Value]] = {}
    for place in lets:
        target = let_of(place).target
        if target.name not in doubtful:
            continue
        reached = samples.reached(target)
        ends = [p for p in sinks if sunk(p).name in reached.names]
        if ends and (reached.is_chosen or not samples.is_needed(target, [sunk(p).name for p in ends])):
            end = min(ends, key=lambda p: (p.body is not place.body, sunk(p).dtype.kind not in "fc"))
            kept.setdefault(id(end), []).append(target)
    for k, p in enumerate(sinks):
        if id(p) in kept:
            keep(p if kernel.scattered is None else combining(p), kept[id(p)], f"kept{k}")


def places_of(body: list[Statement]) -> Iterator[Place]:
    for statement in body:
        yield Place(body, statement)
        for part in children(statement):
            yield from places_of(part)


def let_of(place: Place) -> Let:
    assert isinstance(place.statement, Let)
    return place.statement


def sunk(place: Place) -> Value:
    (value,) = operands(place.statement)
    return value


def combining(place: Place) -> Place:
    """What combines a value with the element that it is stored to: slices of a scatter do that apart from all else."""
    if isinstance(place.statement, Store):
        (let,) = [s for s in place.body if isinstance(s, Let) and s.target == place.statement.value]
        return Place(place.body, let)
    return place


def keep(place: Place, values: Sequence[Value], name: str) -> None:
    """Join the values to the last operand of the statement."""
    last = operands(place.statement)[-1]
    value = replace(last, name=name)
    at = next(k for k, s in enumerate(place.body) if s is place.statement)
    if isinstance(place.statement, Let):
        joined: Statement = replace(place.statement, args=(*place.statement.args[:-1], value))
    else:
        assert isinstance(place.statement, (Store, Accumulate, CheckIndex))
        joined = replace(place.statement, value=value)
    place.body[at : at + 1] = [Let(value, KEPT, (last, *values)), joined]


def is_noted(let: Let) -> bool:
    """May the operation note an error that NumPy reports?"""
    old, new = [a.dtype.kind for a in let.args], let.target.dtype.kind
    if let.op == "cast":
        return old[0] in "fc" and new != "b" and not np.can_cast(let.args[0].dtype, let.target.dtype)
    if let.op == "constant" or let.op in OPS and not OPS[let.op].may_report(a.dtype for a in let.args):
        return False
    return bool({*old, new} & {*"fc"})


def not_surely_needed(lets: Sequence[Let], stored: Iterable[str]) -> list[Let]:
    """The last operations of each way to what is stored that may note errors, and are not what it is made of."""
    needed = set(stored)
    found = []
    for let in reversed(lets):
        if is_noted(let) and let.target.name not in needed:
            found.append(let)
            needed.add(let.target.name)
        if let.target.name in needed and needs_operands(let):
            needed.update(a.name for a in let.args)
    return found[::-1]


def not_needed(lets: Sequence[Let], stored: Value) -> list[Value]:
    """What of the operations that a value is made of must be computed for its errors alone, in all elements."""
    own = made_of(lets, stored)
    if not (doubtful := not_surely_needed(own, [stored.name])):
        return []
    samples = Samples(own)
    return [let.target for let in doubtful if not samples.is_needed(let.target, [stored.name])]


def made_of(lets: Sequence[Let], value: Value) -> list[Let]:
    """The definitions that the value needs, in their order."""
    names = {value.name}
    own = []
    for let in reversed(lets):
        if let.target.name in names:
            names.update(a.name for a in let.args)
            own.append(let)
    return own[::-1]


def needs_operands(let: Let) -> bool:
    """Does each result depend on each operand, for the compiler too? (`x - x` is NaN for some x.)"""
    return (len(let.args) == 1 or let.op in FAITHFUL) and all(a.dtype.kind in "fc" for a in (let.target, *let.args))


@dataclass(slots=True)
class Reached:
    """The values that depend on a value, as far as they are made of it."""

    names: set[str] = field(default_factory=set)
    is_chosen: bool = False  # in some elements only, by data


@dataclass(slots=True)
class Samples:
    """Some elements of each value of a kernel."""

    lets: list[Let]
    found: dict[str, np.ndarray | None] = field(default_factory=dict)  # None: of what is made by no operation of the table

    def reached(self, value: Value) -> Reached:
        reached = Reached({value.name})
        for let in self.lets:
            if any(a.name in reached.names for a in let.args):
                reached.names.add(let.target.name)
                reached.is_chosen |= let.op == "where" and any(a.name in reached.names for a in let.args[1:])
        return reached

    def is_needed(self, value: Value, ends: Sequence[str]) -> bool:
        """Does something of what is stored change with the value?"""
        if not self.found:
            self.compute(self.found)
        if (elements := self.found[value.name]) is None:
            return False
        for by in ROLLS:
            others: dict[str, np.ndarray | None] = {value.name: np.roll(elements, by)}
            self.compute(others, self.found)
            for name in ends:
                old, new = self.found[name], others.get(name, self.found[name])
                if old is not None and new is not None and not np.array_equal(old, new, equal_nan=old.dtype.kind in "fc"):
                    return True
        return False

    def compute(self, found: dict[str, np.ndarray | None], known: dict[str, np.ndarray | None] | None = None) -> None:
        """All values; or, where others are `known`, those that depend on what is `found`."""
        for let in self.lets:
            for k, a in enumerate(let.args):
                if known is None and a.name not in found:
                    found[a.name] = samples(a.dtype, len(found) + k)
            if let.target.name not in found and (known is None or any(a.name in found for a in let.args)):
                operands = [found[a.name] if a.name in found or known is None else known[a.name] for a in let.args]
                found[let.target.name] = computed(let, operands)


@functools.lru_cache(MOST_SAMPLES)
def samples(dtype: np.dtype, seed: int) -> np.ndarray:
    """Numbers of all kinds that the dtype has, in another order for each seed. They are shared, and cannot be written to."""
    found = drawn(dtype, seed)
    found.flags.writeable = False
    return found


def drawn(dtype: np.dtype, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(SAMPLES) < 0.5
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        near = rng.integers(max(ends.min, -9), 10, SAMPLES)
        return np.where(rng.random(SAMPLES) < 0.7, near, rng.integers(ends.min, ends.max, SAMPLES, dtype=dtype)).astype(dtype)
    with np.errstate(all="ignore"):
        parts = np.where(rng.random((2, SAMPLES)) < 0.7, rng.choice(NUMBERS, (2, SAMPLES)), rng.normal(0, 3, (2, SAMPLES)))
        return (parts[0] + 1j * parts[1] if dtype.kind == "c" else parts[0]).astype(dtype)


def computed(let: Let, operands: Sequence[np.ndarray | None]) -> np.ndarray | None:
    params: dict[str, Any] = dict(let.params)
    if let.op == "constant":
        return np.full(SAMPLES, params["value"], let.target.dtype)
    if let.op == "laid_out":  # these strides, which may be symbolic, are those of an array
        return operands[0]
    if let.op not in OPS or any(x is None for x in operands):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(OPS[let.op].eager(*operands, **params))


# --- as C

BITS = {"double": "uint64_t", "float": "uint32_t"}
PARTS = {"npc_c16": "double", "npc_c8": "float"}
INTEGERS = frozenset([f"{sign}int{n}_t" for sign in ("", "u") for n in (8, 16, 32, 64)])
BYTES = {name: int(name.strip("uint_")) // 8 for name in INTEGERS} | {"float": 4, "npc_c8": 4}


def kept_text(x: str, c_type: str, others: Sequence[tuple[str, str]], pointer: str = "rt") -> str:
    """`x`, and a use of `others`, (name, type), that changes nothing, which the compiler cannot know (`none_of_bits`).

    It must be one from outside: of a variable on the stack the compiler does know, where it writes a function into its caller.
    """
    bits = [text for name, other in others if (text := bits_text(name, other))]
    if not bits:
        return x
    use = f"({folded(' | '.join(bits), BYTES.get(c_type, 8))} & {none_of_bits(pointer)})"
    if c_type in PARTS:
        return f"({{ const {c_type} npc_z = {x}; ({c_type}){{{changed_part('npc_z.re', PARTS[c_type], use)}, npc_z.im}}; }})"
    if c_type in INTEGERS:
        return f"({c_type})({x} ^ ({c_type}){use})"
    return changed_part(x, c_type, use) if c_type in BITS else x


def none_of_bits(pointer: str) -> str:
    """No bits, all, or all but few, as far as the compiler knows: the pointer is a multiple of 8.

    Of all or none LLVM would make two loops, one of which computes nothing; of one bit it would see what its change leaves as
    it is.
    """
    return f"(0 - ((uint64_t){pointer} & 3))"


def folded(bits: str, size: int) -> str:
    """All bits in the lower `size` bytes."""
    shifts = [n for n in (32, 16, 8) if n >= 8 * size]
    return f"({{ uint64_t npc_k = {bits}; {' '.join(f'npc_k ^= npc_k >> {n};' for n in shifts)} npc_k; }})"


def changed_part(x: str, c_type: str, use: str) -> str:
    return f"({{ union {{ {c_type} x; {BITS[c_type]} n; }} npc_a = {{{x}}}; npc_a.n ^= {use}; npc_a.x; }})"


def bits_text(x: str, c_type: str) -> str:
    """An integer that is made of all that the number is made of."""
    if c_type in PARTS:
        return f"{bits_text(f'{x}.re', PARTS[c_type])} | {bits_text(f'{x}.im', PARTS[c_type])}"
    if c_type in BITS:
        return f"({{ union {{ {c_type} x; {BITS[c_type]} n; }} npc_b = {{{x}}}; npc_b.n; }})"
    return x if c_type in INTEGERS else ""
