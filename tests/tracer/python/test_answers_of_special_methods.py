"""What Python asks of the answers of special methods: a length is an integer of at least 0, an iterator has __next__."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc


def told(name, answer):
    return type("Told", (), {name: lambda self: answer})()


def length(x, owner):
    return len(owner), x * 2


def truth(x, owner):
    return not owner, x * 2


def choice(x, owner):
    return (x * 2 if owner else x * 3), 1


def first(x, owner):
    return next(iter(owner)), x * 2


def found(x, owner):
    return 2 in owner, x * 2


def looped(x, owner):
    for item in owner:
        x = x * item
    return x


def outcome(function, *arguments):
    try:
        return repr(function(*arguments))
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize(
    ("name", "answer"),
    (
        *(("__len__", v) for v in (-1, 3, 0, True, 2**70, 2.5, None, NotImplemented, np.int64(2))),
        *(("__bool__", v) for v in (True, False, 1, None, np.bool_(True), np.ones(1), NotImplemented)),
        *(("__iter__", v) for v in ([1, 2], "ab", np.ones(2), range(2), None)),
    ),
    ids=repr,
)
@pytest.mark.parametrize("program", (length, truth, choice, first, found, looped), ids=lambda f: f.__name__)
def test_python_asks_the_same(program, name, answer):
    compiled = npc.compile(program, backend="eager")
    for _ in range(2):
        assert outcome(compiled, np.arange(3.0), told(name, answer)) == outcome(program, np.arange(3.0), told(name, answer))


class Rows:
    def __init__(self):
        self.left, self.asked = iter([1, 2, 3, 4]), []

    def __iter__(self):
        return self.left


class Told(Rows):
    def __iter__(self):
        for k in range(4):
            self.asked.append(k)
            yield k


@pytest.mark.parametrize("kind", (Rows, Told))
def test_in_asks_for_no_item_behind_the_one_that_it_finds(kind):
    def f(x):
        owner = kind()
        return 2 in owner, list(owner.left), owner.asked, x * 2

    assert outcome(npc.compile(f, backend="eager"), np.arange(3.0)) == outcome(f, np.arange(3.0))


class Counted:
    def __init__(self):
        self.steps, self.asked = 0, 0

    def __iter__(self):
        self.asked += 1
        return iter([7, 8])

    def __next__(self):
        self.steps += 1
        if self.steps > 3:
            raise StopIteration
        return self.steps


class Countable:
    def __iter__(self):
        self.counted = Counted()
        return self.counted


def test_an_iterator_is_not_asked_for_another_one():
    def f(x):
        owner = Countable()
        return [*owner], owner.counted.asked, x * 2

    assert outcome(npc.compile(f, backend="eager"), np.arange(3.0)) == outcome(f, np.arange(3.0))
