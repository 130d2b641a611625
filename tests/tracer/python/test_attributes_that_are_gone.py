"""An attribute that is only passed on, and that a later call finds gone: Python raises there, or takes what is in its place."""

from __future__ import annotations

import contextlib
import traceback
import types

import numpy as np
import pytest

import npcompile as npc


class Held:
    def __init__(self):
        self.kept = 1

    @property
    def shown(self):
        return self.kept

    def given(self):
        return self.kept


class Slotted(Held):
    __slots__ = ("kept",)


class Named(types.SimpleNamespace):
    given = Held.given
    shown = Held.shown

    def __init__(self):
        super().__init__(kept=1)


class OfClass:
    @classmethod
    def given(cls):
        return cls.kept

    @property
    def shown(self):
        return self.kept


def with_default(x, owner):
    found = getattr(owner, "kept", None)
    npc.graph_break()
    return found


def by_property(x, owner):
    return getattr(owner, "shown", None), x * 2


def asked(x, owner):
    return hasattr(owner, "shown"), x * 2


def caught(x, owner):
    try:
        found = owner.given()
    except AttributeError:
        found = "gone"
    return found, x * 2


def suppressed(x, owner):
    found = "gone"
    with contextlib.suppress(AttributeError):
        found = owner.kept
    return found, x * 2


def matched(x, owner):
    match owner:
        case Held(kept=found) | Slotted(kept=found) | Named(kept=found) | OfClass(kept=found):
            return found, x * 2
    return "gone"


def after_a_change(x, owner):
    x += 1
    return owner.given(), x * 2


PROGRAMS = (with_default, by_property, asked, caught, suppressed, matched, after_a_change)


def outcome(function, *arguments):
    try:
        return repr(function(*arguments))
    except AttributeError as error:
        return repr(error), [f.name for f in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", (Held, Slotted, Named, OfClass))
def test_python_answers(kind, program, monkeypatch):
    compiled = npc.compile(program, backend="eager")
    for is_there in (True, False, True):
        owners = kind(), kind()
        if kind is OfClass:
            monkeypatch.setattr(OfClass, "kept", 1, raising=False)
            owners += (OfClass,)
        for owner in () if is_there else owners[-1:] if kind is OfClass else owners:
            del owner.kept
        mine, theirs = np.arange(3.0), np.arange(3.0)
        assert outcome(compiled, mine, owners[0]) == outcome(program, theirs, owners[1])
        assert (mine == theirs).all()


def test_nothing_more_is_asked_of_an_attribute_that_is_used():
    def f(x, owner):
        return x * owner.kept

    (guards,) = npc.explain(f)(np.arange(3.0), Held()).guards
    assert any("Held" in text for text in guards) and not any("has an attribute" in text for text in guards)


def test_a_default_that_is_gone():
    def given(x, *, y=[1]):  # noqa: B006
        return y, x * 2

    def f(x):
        return given(x)

    compiled = npc.compile(f, backend="eager")
    x = np.arange(3.0)
    assert repr(compiled(x)) == repr(f(x))
    given.__kwdefaults__ = None
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'y'"):
        compiled(x)


@pytest.mark.parametrize("module", ("builtins", "numpy"))
def test_a_class_that_says_it_is_of_a_library(module):
    made = {}
    exec("class Made:\n    kept = 2.0\n", made)
    made["Made"].__module__ = module
    owner = made["Made"]

    def f(x):
        return x * owner.kept, getattr(owner, "later", None)

    compiled = npc.compile(f, backend="eager")
    for value in (2.0, 5.0):
        owner.kept = value
        assert repr(compiled(np.arange(3.0))) == repr(f(np.arange(3.0)))
    owner.later = 1
    assert compiled(np.arange(3.0))[1] == 1
