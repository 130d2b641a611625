"""Lists and bytes made of array data: passed on they are made when the program has run, looked at before it goes on."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import check

KEPT: list[Any] = []


@check(graphs=1, breaks=0)
def test_lists_are_passed_on(x: Any) -> Any:
    y = x * 2
    made = y.tolist()
    return made, (made, [y[0].tolist()]), y[:0].tolist(), x.T.tolist(), y.sum().tolist(), made is None, type(made), y


@check(graphs=1, breaks=0)
def test_bytes(x: Any) -> Any:
    return {"all": (x + 1).tobytes(), "part": x.T[1].tobytes("C")}, isinstance(x.tobytes(), bytes), x.max().tobytes()


@check(lambda round: np.arange(6).reshape(2, 3) + round, graphs=1, breaks=0)
def test_of_integers(x: Any) -> Any:
    return (x * 2).tolist(), (x > 2).tolist(), x.astype(np.int8).tolist(), (x + 1j).tolist(), x.astype("g").tolist()


@check(graphs=1, breaks=0)
def test_what_the_array_held_then(x: Any) -> Any:
    before, before_as_bytes = x.tolist(), x.tobytes()
    x += 1
    return before, x.tolist(), before_as_bytes, x.tobytes()


@check(graphs=1, breaks=0)
def test_one_list_stays_one(x: Any) -> Any:
    made = x[0].tolist()
    other = made
    KEPT[:] = [made]
    return made is other, made, other


@check()
def test_lists_are_changed(x: Any) -> Any:
    made = x[0].tolist()
    made.append(1)
    made[0] = x[1].tolist()
    return made, len(made), x * 2


@check()
def test_lists_are_looked_at(x: Any) -> Any:
    y = x + 1
    total = 0.0
    for row in y.tolist():
        for value in row:
            total += value
    first, *rest = y[0].tolist()
    return (
        total,
        first,
        rest,
        max(y[1].tolist()),
        y.tolist() == (x + 1).tolist(),
        2 if y.tolist() else 3,
        y[0, 0] in y[0].tolist(),
    )


@check()
def test_lists_are_given_to_functions(x: Any) -> Any:
    y = np.asarray((x * 2).tolist()) + np.frombuffer(x.tobytes()).reshape(x.shape)
    return (
        y,
        hash((x * 2).tobytes()),
        sorted(y[0].tolist()),
        f"{x[0].tolist()}",
        copy.deepcopy(y.tolist()),
        copy.copy(y[0].tolist()),
    )


@check()
def test_equal_containers(x: Any) -> Any:
    one, other = {"a": [x.tolist()]}, {"a": [x.tolist()]}
    return one == other, [x.tolist()] != [x.tolist()], (x.tobytes(),) == (x.tobytes(),), x.tolist() == 3, x.tobytes() == 3, x + 1


def listed(x: Any) -> list[Any]:
    return (x * 3).tolist()


class Holder:
    def __init__(self, x: Any):
        self.x = x

    @property
    def items(self) -> list[Any]:
        return (self.x - 1).tolist()


@check(breaks=0)
def test_made_by_functions(x: Any) -> Any:
    return listed(x), Holder(x).items, [listed(r) for r in x], (lambda: x.tolist())


@check()
def test_made_by_functions_and_looked_at(x: Any) -> Any:
    holder = Holder(x)
    return len(listed(x)), holder.items[1], [v for r in map(listed, x) for v in r], sum(listed(x[0])), [*listed(x)][1]


@check()
def test_generators_that_look(x: Any) -> Any:
    def each() -> Any:
        for value in x[0].tolist():
            yield value * 2

    return list(each()), x + 1


@check()
def test_around_branches_and_loops(x: Any) -> Any:
    made = x[0].tolist()
    if x.sum() > 0:
        other = made
    else:
        other = x[1].tolist()
    for k in range(40):
        x = x * 1.01
        if k % 10 == 0:
            made = (x[0] + k).tolist()
    return made, other, x


@check()
def test_within_blocks(x: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            made = (x / 0).tolist()
        return made[0][0], made
    except IndexError:
        return None


@check(graphs=1, breaks=0)
def test_items_at_places(x: Any) -> Any:
    return (
        x.item(3),
        x.item(-1),
        x.item(1, 2),
        x.item((2, 0)),
        x.item((5,)),
        x.T.item(1),
        x[:1, :1].item(),
        x[0, 0].item(0),
        (x > 1).item(5),
    )


@check(lambda round: np.arange(12).reshape(3, 4) * (round + 1), graphs=1, breaks=0)
def test_integers_at_places(x: Any) -> Any:
    x += 1
    before = x.item(1)
    x *= 2
    return before, x.item(1), x.item(2, 1)


@check()
def test_items_that_are_not_there(x: Any) -> Any:
    return x + 1, x.item(12)


@pytest.mark.parametrize("arguments", [(12,), (0, 0, 0), (1.0,), (True,), ((3, 0),), (4, 0)])
def test_wrong_places(arguments: tuple[Any, ...]) -> None:
    x = np.arange(12.0).reshape(3, 4)

    def function(x: Any) -> Any:
        return (x * 2).item(*arguments)

    with pytest.raises(Exception) as theirs:
        function(x)
    with pytest.raises(theirs.type) as ours:
        npc.compile(function, backend="eager")(x)
    assert str(ours.value) == str(theirs.value)


def test_of_other_sizes() -> None:
    compiled = npc.compile(lambda x: (x * 2).tolist(), backend="eager")
    for n in (3, 4, 5, 1, 0, 9):
        assert compiled(np.arange(n)) == (np.arange(n) * 2).tolist()


def test_long_lists_of_numbers_are_one_program() -> None:
    """Each number would be an input of the graph, which would be another one for each length."""

    def centred(values, x):
        y = np.array(values)
        return y - y.mean(), x.sum() * y.size

    compiled, x = npc.compile(centred), np.arange(6.0)
    for kind in (float, np.float32):
        for count in (40, 41, 100, 1000):
            values = [kind(k % 7) for k in range(count)]
            ours, theirs = compiled(values, x), centred(values, x)
            assert ours[0].dtype == theirs[0].dtype and np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1]
        assert len(compiled_function(compiled).graphs) <= (3 if kind is float else 6)
    assert np.array_equal(compiled([1.0, 2.0, 6.0], x)[0], [-2.0, -1.0, 3.0])
