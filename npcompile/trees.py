"""Trees: values nested in tuples, lists, dicts and dataclasses, as a flat list of leaves and what was around them."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """How containers of one sort are taken apart and put together."""

    parts: Callable[[Any], dict[Any, Any]]  # what it holds, by key
    build: Callable[[TreeDef, dict[Any, Any]], Any]
    step: Callable[[Any], str]  # a key as the Python text that gets to the part
    fixed: Callable[[Any], Any] = lambda tree: None  # what else must be equal for two trees to be alike


@dataclass(frozen=True)
class TreeDef:
    """A tree without its leaves. Equal ones have the same containers, with the same keys in the same order."""

    type: type | None  # of the container; None for a leaf
    fixed: Any = None
    children: tuple[tuple[Any, TreeDef], ...] = ()
    kind: Kind | None = field(default=None, compare=False, repr=False)

    @cached_property
    def size(self) -> int:
        """How many leaves."""
        return 1 if self.type is None else sum(child.size for _, child in self.children)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """For each leaf the Python text that gets to it from the tree: `['layers'][0].weight`; empty for a lone leaf."""
        return tuple(self._paths())

    def _paths(self, path: str = "") -> Iterator[str]:
        if self.kind is None:
            yield from [path] * self.size
            return
        for key, child in self.children:
            yield from child._paths(path + self.kind.step(key))

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves. ValueError where their number is not `size`."""
        if len(leaves) != self.size:
            raise ValueError(f"a tree of {self.size} leaves cannot be made of {len(leaves)}")
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        parts = {key: child._build(leaves) for key, child in self.children}
        return self.kind.build(self, parts) if self.kind is not None else None

    def leaves_of(self, tree: Any, name: str = "tree") -> list[Any]:
        """The leaves of another tree like this one, in this one's order: dicts may have their keys in another.

        TypeError, which calls the tree `name`, says where the two differ.
        """
        return list(self._leaves_of(tree, name))

    def _leaves_of(self, tree: Any, path: str) -> Iterator[Any]:
        kind = kind_of(tree)
        found = None if kind is None and tree is not None else type(tree)
        if found is not self.type:
            raise TypeError(f"{path} is {described(tree)} where {self} is expected")
        if self.type is None:
            yield tree
        elif kind is not None and self.kind is not None:
            parts = kind.parts(tree)
            if parts.keys() != {key for key, _ in self.children}:
                keys = [key for key, _ in self.children]
                raise TypeError(f"{path} has the parts {list(parts)} where {keys} are expected")
            if kind.fixed(tree) != self.fixed:
                raise TypeError(f"{path} has {kind.fixed(tree)} where {self.fixed} is expected: static parts cannot change")
            for key, child in self.children:
                yield from child._leaves_of(parts[key], path + kind.step(key))

    def spread(self, prefix: Any, name: str = "prefix") -> list[Any]:
        """For each leaf the leaf of `prefix` above it.

        `prefix` is a tree like this one that may end earlier: what stands in the place of a container, None too, is for all
        leaves of it. ValueError, which calls it `name`, says where the two differ.
        """
        kind = kind_of(prefix)
        if kind is None:
            return [prefix] * self.size
        parts = kind.parts(prefix)
        if type(prefix) is not self.type or parts.keys() != {key for key, _ in self.children}:
            raise ValueError(f"{name} is {described(prefix)} where {self} is expected")
        return [leaf for key, child in self.children for leaf in child.spread(parts[key], name + kind.step(key))]

    def __str__(self) -> str:
        if self.type is None:
            return "a leaf"
        return "None" if self.type is type(None) else f"a {self.type.__name__} of {len(self.children)}"


LEAF = TreeDef(None)
NONE = TreeDef(type(None))  # a container of nothing


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of `tree`, depth first, and the TreeDef whose `unflatten` makes a tree of such leaves again.

    Containers are tuples, named tuples, lists, dicts (in the order of their keys' insertion; OrderedDict and defaultdict
    too), instances of dataclasses and of classes given to `register_tree_node`. None holds no leaf. Everything else is a leaf.

    A dataclass's fields are its parts, except those with `metadata={"static": True}`, which stay as they are. It is put
    together again without its `__init__` and `__post_init__`.

    >>> leaves, treedef = flatten({"w": [1.0, 2.0], "b": 3.0})
    >>> leaves, treedef.paths
    ([1.0, 2.0, 3.0], ("['w'][0]", "['w'][1]", "['b']"))
    >>> treedef.unflatten([x + 1 for x in leaves])
    {'w': [2.0, 3.0], 'b': 4.0}
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> TreeDef:
    if tree is None:
        return NONE
    kind = kind_of(tree)
    if kind is None:
        leaves.append(tree)
        return LEAF
    children = tuple([(key, _flatten(part, leaves)) for key, part in kind.parts(tree).items()])
    return TreeDef(type(tree), kind.fixed(tree), children, kind)


def described(tree: Any) -> str:
    kind = kind_of(tree)
    name = type(tree).__name__
    return "None" if tree is None else f"a leaf ({name})" if kind is None else f"a {name} of {len(kind.parts(tree))}"


def register_tree_node(
    cls: type, flatten: Callable[[Any], tuple[Sequence[Any], Any]], unflatten: Callable[[Any, tuple[Any, ...]], Any]
) -> None:
    """Let instances of `cls` be containers, whose parts transforms and control flow see.

    Parameters
    ----------
    cls
        The class itself: instances of subclasses stay leaves.
    flatten
        Gives `(parts, static)` of an instance: a sequence of trees, and what else it is made of, which can be compared by
        `==` and is the same in trees that are alike.
    unflatten
        Gives an instance of `static` and a tuple of parts. They may be anything, so it should not look at them.

    Raises
    ------
    TypeError
        Where `cls` is no class.
    ValueError
        Where its instances are containers already.

    Notes
    -----
    The meaning is that of JAX's `register_pytree_node`. Compiled code calls both functions while it is captured.

    Examples
    --------
    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_tree_node(Pair, lambda pair: ((pair.x, pair.y), None), lambda _, parts: Pair(*parts))
    >>> flatten(Pair(1.0, 2.0))[0]
    [1.0, 2.0]
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_tree_node takes a class, not {cls!r}")
    if cls in KINDS or dataclasses.is_dataclass(cls) or issubclass(cls, tuple) and hasattr(cls, "_fields"):
        raise ValueError(f"instances of {cls.__qualname__} are containers already")
    REGISTERED[cls] = Functions(flatten, unflatten)
    KINDS[cls] = Kind(
        lambda tree: by_index(flatten(tree)[0]),
        lambda d, parts: unflatten(d.fixed, tuple(parts.values())),
        lambda key: f"<part {key}>",
        fixed=lambda tree: flatten(tree)[1],
    )


@dataclass(frozen=True, slots=True)
class Functions:
    """What a user gave for a class."""

    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten: Callable[[Any, tuple[Any, ...]], Any]


REGISTERED: dict[type, Functions] = {}


# --- the kinds of containers


def kind_of(tree: Any) -> Kind | None:
    """None for a leaf, and for None."""
    cls = type(tree)
    if cls in KINDS:
        return KINDS[cls]
    if isinstance(tree, tuple) and hasattr(cls, "_fields"):
        return NAMED_TUPLE
    return DATACLASS if dataclasses.is_dataclass(cls) else None


def by_index(tree: Sequence[Any]) -> dict[Any, Any]:
    return dict(enumerate(tree))


def subscript(key: Any) -> str:
    return f"[{key!r}]"


def attribute(key: Any) -> str:
    return f".{key}"


def is_static(each: dataclasses.Field[Any]) -> bool:
    return bool(each.metadata.get("static"))


def build_named_tuple(treedef: TreeDef, parts: dict[Any, Any]) -> Any:
    cls: Any = treedef.type
    return cls._make(parts.values())


def build_dataclass(treedef: TreeDef, parts: dict[Any, Any]) -> Any:
    assert treedef.type is not None
    return make_dataclass(treedef.type, parts | dict(treedef.fixed))


def make_dataclass(cls: type, parts: dict[str, Any]) -> Any:
    """An object of a dataclass with these fields, made without its `__init__`."""
    tree: Any = object.__new__(cls)
    for key, value in parts.items():
        object.__setattr__(tree, key, value)  # the dataclass may be frozen
    return tree


NAMED_TUPLE = Kind(lambda tree: dict(zip(tree._fields, tree)), build_named_tuple, attribute)
DATACLASS = Kind(
    lambda tree: {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree) if not is_static(f)},
    build_dataclass,
    attribute,
    fixed=lambda tree: tuple((f.name, getattr(tree, f.name)) for f in dataclasses.fields(tree) if is_static(f)),
)
KINDS: dict[Any, Kind] = {
    tuple: Kind(by_index, lambda d, parts: tuple(parts.values()), subscript),
    list: Kind(by_index, lambda d, parts: list(parts.values()), subscript),
    dict: Kind(dict, lambda d, parts: parts, subscript),
    OrderedDict: Kind(dict, lambda d, parts: OrderedDict(parts), subscript),
    defaultdict: Kind(dict, lambda d, parts: defaultdict(d.fixed, parts), subscript, fixed=lambda tree: tree.default_factory),
}
