"""Index arithmetic: where an element of one array is in another, as polynomials over loop axes.

Questions are only asked structurally: nothing here may add a guard to the graph's ShapeEnv.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from npcompile.tensor_core.dim import Call, Dim, ShapeEnv, Size, call, divide_by_monomial, hint_of, same, terms_of
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import product

Index = tuple[Size, ...]
AXES = ShapeEnv()  # axes of loops are symbols too; never asked anything


def axis_variable(name: str) -> Dim:
    return Dim(AXES, (((name,), 1),))


def is_one(n: Size) -> bool:
    return isinstance(n, int) and n == 1


def is_number(n: Size, value: int) -> bool:
    return isinstance(n, int) and n == value


def symbols_in(size: Size) -> set[str]:
    return set(size.symbols()) if isinstance(size, Dim) else set()


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """`size` with some symbols replaced."""
    if not isinstance(size, Dim) or not any(s in values for s in size.symbols()):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        term: Size = coefficient
        for atom in monomial:
            if isinstance(atom, str):
                part: Size = values[atom] if atom in values else Dim(size.env, (((atom,), 1),))
            else:
                part = call(atom.fn, *(substitute(a, values) for a in atom.args))
            term = term * part
        total = total + term
    return total


def split_linear(size: Size, axis: str) -> tuple[Size, Size] | None:
    """(coefficient, rest) with size == coefficient * axis + rest, or None where it is not linear in `axis`."""
    if not isinstance(size, Dim):
        return 0, size
    coefficient: Size = 0
    rest: Size = 0
    for monomial, factor in size.terms:
        here = [a for a in monomial if a == axis]
        others = tuple(a for a in monomial if a != axis)
        if len(here) > 1 or any(isinstance(a, Call) and axis in symbols_in(Dim(size.env, (((a,), 1),))) for a in others):
            return None
        part = Dim(size.env, ((others, factor),)) if others else factor
        if here:
            coefficient = coefficient + part
        else:
            rest = rest + part
    return coefficient, rest


def largest(size: Size, ranges: Mapping[str, Size]) -> Size | None:
    """An upper bound of an index whose axes are in 0 .. ranges[axis] - 1, when it is a sum of non-negative terms."""
    if not isinstance(size, Dim):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        if any(isinstance(a, Call) for a in monomial) or coefficient < 0:
            return None
        term: Size = coefficient
        for atom in monomial:
            term = term * (ranges[atom] - 1 if isinstance(atom, str) and atom in ranges else Dim(size.env, (((atom,), 1),)))
        total = total + term
    return total


def is_at_least_zero(size: Size, env: ShapeEnv | None) -> bool:
    if isinstance(size, int):
        return size >= 0
    bound = (env or size.env).bound(size)
    return bound is not None and bound >= 0


def divide_index(a: Size, n: Size, ranges: Mapping[str, Size]) -> tuple[Size, Size]:
    """(a // n, a % n) for an index a >= 0 and a size n > 0, written without division where that can be seen."""
    if is_one(n) or (isinstance(n, int) and n == 0):  # of an empty array nothing is read
        return a, 0
    quotient: Size = 0
    rest: Size = 0
    for monomial, coefficient in terms_of(a) or ():
        env = a.env if isinstance(a, Dim) else AXES
        term: Size = Dim(env, ((monomial, coefficient),)) if monomial else coefficient
        part = divide_term(term, n)
        if part is None:
            rest = rest + term
        else:
            quotient = quotient + part
    if isinstance(n, int):
        # What is left of an index from zero on may itself be negative: 6 * i - 6 + j, divided by 2.
        offset = dict(terms_of(rest) or ()).get((), 0)
        quotient, rest = quotient + offset // n, rest - offset // n * n
    if isinstance(rest, int) and isinstance(n, int):
        return quotient, rest
    if isinstance(rest, int) and rest < 0 and is_at_least_zero(n + rest, None):  # the last elements of s * n: s * n - 1
        return quotient - 1, rest + n
    bound = largest(rest, ranges)
    is_from_zero = not isinstance(rest, int) or rest >= 0
    if is_from_zero and bound is not None and is_at_least_zero(n - 1 - bound, n.env if isinstance(n, Dim) else None):
        return quotient, rest
    return quotient + call("floordiv", rest, n), call("mod", rest, n)


def divide_term(term: Size, n: Size) -> Size | None:
    if isinstance(n, int):
        if isinstance(term, int):
            return None
        (monomial, coefficient), *_ = term.terms
        return Dim(term.env, ((monomial, coefficient // n),)) if coefficient % n == 0 else None
    return divide_by_monomial(term, n) if len(n.terms) == 1 and isinstance(term, Dim) else None


def rejoin(size: Size) -> Size:
    """c * n * (a // n) + c * (a % n) written as c * a."""
    if not isinstance(size, Dim):
        return size
    for monomial, coefficient in size.terms:
        for k, atom in enumerate(monomial):
            if isinstance(atom, Call) and atom.fn == "mod":
                a, n = atom.args
                others = (*monomial[:k], *monomial[k + 1 :])
                scale: Size = Dim(size.env, ((others, coefficient),)) if others else coefficient
                whole = scale * n * call("floordiv", a, n)
                rest = size - whole - scale * call("mod", a, n)
                before = dict(size.terms)
                if all(m in before for m, _ in terms_of(whole) or ()) and len(terms_of(rest) or ()) < len(size.terms):
                    return rejoin(rest + scale * a)
    return size


def flatten(index: Sequence[Size], shape: Sequence[Size]) -> Size:
    flat: Size = 0
    for i, n in zip(index, shape):
        flat = flat * n + i
    return flat


def unflatten(flat: Size, shape: Sequence[Size], ranges: Mapping[str, Size]) -> Index:
    index: list[Size] = []
    for k in range(len(shape) - 1, 0, -1):
        flat, part = divide_index(flat, shape[k], ranges)
        index.append(part)
    return (*([flat] if shape else []), *reversed(index))


def reshape_groups(old: Sequence[Size], new: Sequence[Size]) -> list[tuple[list[int], list[int]]]:
    """Axes of two shapes of one size, in the smallest groups that hold equally many elements. Ones are left out."""
    a = [k for k, n in enumerate(old) if not is_one(n)]
    b = [k for k, n in enumerate(new) if not is_one(n)]
    groups: list[tuple[list[int], list[int]]] = []
    while a or b:
        left, right = [a.pop(0)] if a else [], [b.pop(0)] if b else []
        while not same(product([old[k] for k in left]), product([new[k] for k in right])):
            n, m = (hint_of(product([s[k] for k in ks])) for s, ks in ((old, left), (new, right)))
            if a and (n <= m or not b):
                left.append(a.pop(0))
            elif b:
                right.append(b.pop(0))
            else:
                break
        groups.append((left, right))
    return groups


def reshape_index(old: Sequence[Size], new: Sequence[Size], index: Index, ranges: Mapping[str, Size]) -> Index:
    result: list[Size] = [0] * len(old)
    for left, right in reshape_groups(old, new):
        flat = flatten([index[k] for k in right], [new[k] for k in right])
        for k, i in zip(left, unflatten(flat, [old[k] for k in left], ranges)):
            result[k] = i
    return tuple(result)


def broadcast_index(old: Sequence[Size], new: Sequence[Size], index: Index) -> Index:
    lead = len(new) - len(old)
    result: list[Size] = []
    for n, m, i in zip(old, new[lead:], index[lead:]):
        repeats = (is_one(n) and not is_one(m)) or (isinstance(n, Dim) and not same(n, m) and hint_of(n) == 1 != hint_of(m))
        result.append(0 if repeats or is_one(n) else i)
    return tuple(result)


def source_index(node: Node, index: Index, ranges: Mapping[str, Size]) -> Index:
    """Which element of a movement node's input its element `index` is."""
    (x,) = node.inputs
    match node.op:
        case "permute":
            result: list[Size] = [0] * x.meta.ndim
            for k, axis in enumerate(node.params["axes"]):
                result[axis] = index[k]
            return tuple(result)
        case "slice":
            return tuple(a + s * i for a, s, i in zip(node.params["start"], node.params["step"], index))
        case "broadcast_to":
            return broadcast_index(x.shape, node.shape, index)
        case "reshape":
            return reshape_index(x.shape, node.shape, index, ranges)
    raise AssertionError(node.op)


def computed_index(indices: Node, index: Index, size: Size, ranges: Mapping[str, Size]) -> Size | None:
    """Element `index` of an array of indices where that is a polynomial over the axes, from 0 to size - 1: no data."""
    found = polynomial_of(indices, index, ranges)
    if found is None:
        return None
    bound = largest(found, ranges)
    if bound is None or not is_at_least_zero(bound, None) or not is_at_least_zero(size - 1 - bound, None):
        return None
    return found


def polynomial_of(node: Node, index: Index, ranges: Mapping[str, Size]) -> Size | None:
    """An element of an array of int64 that is computed of positions and sizes alone, else None."""
    if node.dtype != np.int64:
        return None
    match node.op:
        case "index":
            return index[node.params["axis"]]
        case "size":
            value: Size = node.params["value"]
            return value
        case "constant":
            return int(node.params["value"])
        case "permute" | "slice" | "broadcast_to" | "reshape":
            return polynomial_of(node.inputs[0], source_index(node, index, ranges), ranges)
        case "add" | "subtract" | "multiply":
            a, b = (polynomial_of(x, index, ranges) for x in node.inputs)
            if a is None or b is None:
                return None
            return a + b if node.op == "add" else a - b if node.op == "subtract" else a * b
    return None
