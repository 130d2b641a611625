"""Branches and loops that a compiled function keeps as such: cond, while_loop, fori_loop and scan, as JAX has them.

Called outside of compiled code they run their functions as Python would, on whatever these are given: NumPy arrays give
NumPy's results, Tensors record their gradients. In a compiled function loops become native loops, as Python's own do; where
that is not possible they, and cond, become one node of the graph, so that a loop is compiled once however often it runs, and
a branch on data does not end the graph. In compiled code each function is read once, not called for every iteration, so it
should have no effects, but for writes to its own arguments: a loop copies its first carry, so that a body may write to what it
is given (`c[0] += 1; return c`) and `init_val` stays as it was; a branch that writes to an operand writes to the caller's. In
compiled code results are new arrays; elsewhere they are what the functions return.

Carries, operands and results may be trees: tuples, lists, dicts and dataclasses of arrays and numbers (`trees.flatten`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from npcompile import trees
from npcompile.tensor_core.control import agree, described, is_same_shape
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.tensor import Tensor

T = TypeVar("T")
NUMBERS = (int, float, complex)


def cond(pred: Any, true_fun: Callable[..., T], false_fun: Callable[..., T], *operands: Any) -> T:
    """`true_fun(*operands)` if `pred` is true, else `false_fun(*operands)`.

    Parameters
    ----------
    pred
        A bool or number, or a 0-D array of one.
    true_fun, false_fun
        Return trees alike, with leaves of the same shapes and dtypes. Only one of them runs.
    *operands
        Their arguments. What the functions read of the variables around them need not be among these.

    Raises
    ------
    TypeError
        `pred` is an array of more than 0 dimensions; in compiled code also if the results differ.

    Examples
    --------
    >>> cond(x.sum() > 0, np.sqrt, np.zeros_like, x)
    """
    return true_fun(*operands) if is_true(pred) else false_fun(*operands)


def while_loop(cond_fun: Callable[[T], Any], body_fun: Callable[[T], T], init_val: T) -> T:
    """The carry after `carry = body_fun(carry)` ran for as long as `cond_fun(carry)` was true.

    Parameters
    ----------
    cond_fun
        Returns a bool or number, or a 0-D array of one.
    body_fun
        Returns a tree like its argument: its leaves keep their shapes and dtypes. A Python number takes the dtype that
        the first iteration gives it, as NumPy's promotion has it.
    init_val
        The first carry. Its arrays are copied: the body may write to its argument.

    Raises
    ------
    TypeError
        The body changes the tree, or a leaf's shape or dtype; the message names the leaf.

    Notes
    -----
    Gradients keep the carry of every iteration. As the number of iterations is data, gradients of gradients are no one
    graph: they run on eager Tensors. Those of `fori_loop` and `scan` are compiled.

    Examples
    --------
    >>> while_loop(lambda c: c[0] > 1, lambda c: (c[0] // 2, c[1] + 1), (1000, 0))
    (1, 9)
    """
    carry = Carry.of("while_loop", init_val)
    while is_true(cond_fun(carry.tree)):
        carry.step(body_fun(carry.tree))
    return carry.tree


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, T], T], init_val: T) -> T:
    """The carry after `carry = body_fun(i, carry)` for i in range(lower, upper).

    Parameters
    ----------
    lower, upper
        Integers, or 0-D integer arrays: with these it is a `while_loop`.
    body_fun, init_val
        As in `while_loop`.

    Raises
    ------
    TypeError
        A bound is not an integer, or the body changes the tree, or a leaf's shape or dtype.

    Examples
    --------
    >>> fori_loop(0, 5, lambda i, total: total + i, 0)
    10
    """
    carry = Carry.of("fori_loop", init_val)
    for i in range(operator.index(lower), operator.index(upper)):
        carry.step(body_fun(i, carry.tree))
    return carry.tree


def scan(
    f: Callable[[T, Any], tuple[T, Any]], init: T, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[T, Any]:
    """The last carry, and the stacked outputs, of `carry, y = f(carry, x)` for each x along axis 0 of `xs`.

    Parameters
    ----------
    f
        Takes a carry and a tree of elements, returns the next carry and a tree y of arrays or numbers, or None.
    init
        The first carry, which keeps its leaves' shapes and dtypes as in `while_loop`.
    xs
        A tree of arrays whose axis 0 has one length; None where f needs no elements.
    length
        Number of iterations; may be left out when `xs` has arrays.
    reverse
        Go from the last element to the first. The outputs are still stacked in the order of `xs`.

    Returns
    -------
    carry, ys
        `ys` is a tree like y; its leaves have one more axis, axis 0, of `length`. For no iterations `f` is called once,
        with zeros, to learn their shapes.

    Raises
    ------
    TypeError
        A leaf of `xs` has no axis 0, lengths differ, or the carry or y change their tree, or a leaf's shape or dtype.

    Examples
    --------
    >>> scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 1., 3.]))
    """
    arrays, treedef = trees.flatten(xs)
    count = length_of(arrays, treedef.paths, length)
    carry = Carry.of("scan", init)
    outputs = Outputs()
    for k in range(count - 1, -1, -1) if reverse else range(count):
        after, y = pair(f(carry.tree, treedef.unflatten([x[k] for x in arrays])))
        carry.step(after)
        outputs.append(y)
    if not count:
        with np.errstate(all="ignore"):
            outputs.append(pair(f(init, treedef.unflatten([np.zeros(x.shape[1:], x.dtype)[()] for x in arrays])))[1])
    return carry.tree, outputs.stacked(count, reverse)


def is_true(pred: Any) -> bool:
    if np.ndim(pred):
        raise TypeError(f"the condition is {described(meta_of(pred, 'it'))}; it must be one number: use np.all or np.any")
    return bool(pred)


def pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"scan: the function must return a tuple (carry, y), not {trees.described(result)}")
    return result


def length_of(arrays: Sequence[Any], paths: Sequence[str], length: int | None) -> int:
    found = None if length is None else operator.index(length)
    for x, path in zip(arrays, paths):
        meta = meta_of(x, f"xs{path}")
        if not meta.ndim:
            raise TypeError(f"scan: xs{path} is {described(meta)}: it has no axis 0 to go along")
        if found is not None and meta.shape[0] != found:
            raise TypeError(f"scan: xs{path} is {described(meta)}, where axis 0 must have length {found}")
        found = int(meta.shape[0])
    if found is None:
        raise TypeError("scan: xs has no arrays; give length=")
    return found


def meta_of(leaf: Any, name: str) -> TensorMeta:
    """Shape, dtype, and scalar or array, of an array, Tensor or number."""
    if isinstance(leaf, NUMBERS) and not isinstance(leaf, (bool, np.generic)):
        return TensorMeta((), np.dtype(type(leaf)), boxed=False, weak=True)
    dtype = np.dtype(bool) if isinstance(leaf, bool) else getattr(leaf, "dtype", None)
    if not isinstance(dtype, np.dtype):
        raise TypeError(f"{name} is a {type(leaf).__name__}; the leaves of trees must be arrays or numbers")
    return TensorMeta(
        np.shape(leaf) if isinstance(leaf, bool) else tuple(leaf.shape), dtype, boxed=not isinstance(leaf, (bool, np.generic))
    )


def copied(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf


@dataclass(slots=True)
class Carry:
    """What goes from iteration to iteration, and what its leaves must be."""

    loop: str
    tree: Any
    treedef: trees.TreeDef
    metas: list[TensorMeta]

    @classmethod
    def of(cls, loop: str, tree: Any) -> Carry:
        """The first one, in memory of its own."""
        leaves, treedef = trees.flatten(tree)
        metas = [meta_of(x, f"{loop}: carry{p}") for x, p in zip(leaves, treedef.paths)]
        return cls(loop, treedef.unflatten([copied(x) for x in leaves]), treedef, metas)

    def step(self, tree: Any) -> None:
        """`tree` is the next carry. TypeError if it is not like the one before."""
        leaves = self.treedef.leaves_of(tree, f"{self.loop}: carry")
        for k, (leaf, path) in enumerate(zip(leaves, self.treedef.paths)):
            after = meta_of(leaf, f"{self.loop}: carry{path}")
            if after is not self.metas[k]:
                self.metas[k] = agree(self.loop, f"carry{path}", self.metas[k], after)
        self.tree = self.treedef.unflatten(leaves)


class Outputs:
    """The outputs of a scan, leaf by leaf."""

    def __init__(self) -> None:
        self.treedef: trees.TreeDef = trees.NONE
        self.metas: list[TensorMeta] = []
        self.leaves: list[list[Any]] = []

    def append(self, y: Any) -> None:
        if not self.leaves:
            first, self.treedef = trees.flatten(y)
            self.leaves = [[] for _ in first]
            self.metas = [meta_of(x, f"scan: y{p}") for x, p in zip(first, self.treedef.paths)]
        for leaves, leaf, before, path in zip(self.leaves, self.treedef.leaves_of(y, "scan: y"), self.metas, self.treedef.paths):
            after = meta_of(leaf, f"scan: y{path}")
            if after.dtype != before.dtype or not is_same_shape(before, after):
                raise TypeError(
                    f"scan: y{path} is {described(before)} in one iteration and {described(after)} in another; it must "
                    "keep its shape and dtype"
                )
            leaves.append(copied(leaf))  # the next iteration may write to it

    def stacked(self, length: int, reverse: bool) -> Any:
        order = slice(None, None, -1 if reverse else 1)
        return self.treedef.unflatten([np.stack(leaves[order])[:length] for leaves in self.leaves])
