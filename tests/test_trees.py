"""Trees of containers and their leaves."""

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from npcompile import trees

Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True, slots=True)
class Layer:
    weight: Any
    bias: Any
    name: str = field(default="", metadata={"static": True})


@dataclass
class Positive:
    value: float
    checked: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.checked += 1


TREES = [
    (1.0, [""]),
    (None, []),
    ((), []),
    ((1, None, [2, (3,)]), ["[0]", "[2][0]", "[2][1][0]"]),
    ({"b": 1, "a": {0: 2}}, ["['b']", "['a'][0]"]),
    (OrderedDict(x=[], y=3), ["['y']"]),
    (defaultdict(list, x=1), ["['x']"]),
    (Pair(1, {"k": 2}), [".left", ".right['k']"]),
    ([Layer(1, 2, "first")], ["[0].weight", "[0].bias"]),
    (Positive(4.0), [".value", ".checked"]),
    ("text", [""]),
    ({1, 2}, [""]),
    (Layer, [""]),
]


@pytest.mark.parametrize(("tree", "paths"), TREES, ids=lambda x: repr(x)[:40])
def test_there_and_back(tree: Any, paths: list[str]) -> None:
    leaves, treedef = trees.flatten(tree)
    assert list(treedef.paths) == paths and treedef.size == len(leaves)
    again = treedef.unflatten(leaves)
    assert again == tree and type(again) is type(tree)
    assert treedef.leaves_of(tree) == leaves
    assert trees.flatten(again)[1] == treedef


def test_paths_are_python() -> None:
    tree = {"layers": [Layer(1, 2), Pair(3, (4,))]}
    leaves, treedef = trees.flatten(tree)
    assert [eval(f"tree{path}", {"tree": tree}) for path in treedef.paths] == leaves


def test_arrays_are_leaves() -> None:
    x = np.arange(3)
    leaves, treedef = trees.flatten([x, np.float64(2)])
    assert leaves[0] is x and treedef.unflatten(leaves)[0] is x


def test_a_defaultdict_keeps_its_factory() -> None:
    leaves, treedef = trees.flatten(defaultdict(list, x=1))
    assert treedef.unflatten(leaves)["new"] == []


def test_a_dataclass_is_not_initialized_again() -> None:
    leaves, treedef = trees.flatten(Positive(4.0))
    assert treedef.unflatten(leaves).checked == 1


def test_the_order_of_keys_is_the_first_trees() -> None:
    _, treedef = trees.flatten({"a": 1, "b": 2})
    assert treedef.leaves_of({"b": 20, "a": 10}) == [10, 20]


@pytest.mark.parametrize(
    ("tree", "other", "message"),
    [
        ((1, 2), [1, 2], r"state is a list of 2 where a tuple of 2 is expected"),
        ((1, [2]), (1, [2, 3]), r"state\[1\] has the parts \[0, 1\] where \[0\] are expected"),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, r"state\['a'\] has the parts \['c'\] where \['b'\] are expected"),
        ([1], [None], r"state\[0\] is None where a leaf is expected"),
        ([None], [1], r"state\[0\] is a leaf \(int\) where None is expected"),
        (Layer(1, 2, "x"), Layer(1, 2, "y"), r"state has .*'y'.* where .*'x'.* is expected: static parts cannot change"),
    ],
)
def test_a_different_tree_is_named(tree: Any, other: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        trees.flatten(tree)[1].leaves_of(other, "state")


def test_the_number_of_leaves_is_checked() -> None:
    with pytest.raises(ValueError, match="a tree of 2 leaves cannot be made of 1"):
        trees.flatten([1, 2])[1].unflatten([1])
