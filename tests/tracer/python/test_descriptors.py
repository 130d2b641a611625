"""Attributes that descriptors answer for, in the order of object.__getattribute__, type.__getattribute__ and super()."""

import abc
import copy
import functools

import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import check

CALLS = []


class Stored:
    """Sets, and does not get: the object's own value is read."""

    def __set_name__(self, owner, name):
        self.name = name

    def __set__(self, owner, value):
        owner.__dict__[self.name] = value * 2


class Undeletable:
    def __delete__(self, owner):
        raise TypeError("stays")


class Doubled:
    """Answers before the object does."""

    def __get__(self, owner, kind=None):
        return self if owner is None else owner.__dict__["size"] * 2

    def __delete__(self, owner):
        raise TypeError("stays")


class OfClass(property):
    def __get__(self, owner, kind=None):
        return self.fget(kind)


class Tripled(property):
    def __set__(self, owner, value):
        owner.tripled = value * 3


class Fixed(functools.cached_property):
    def __set__(self, owner, value):
        raise AttributeError(f"{self.attrname} is computed")


class Never(functools.cached_property):
    def __get__(self, owner, kind=None):
        return "never computed"


class Asked:
    def __get__(self, owner, kind=None):
        CALLS.append(owner is None)
        return kind.__name__


class Base:
    level = 1
    asked = Asked()

    @property
    def shown(self):
        return f"base {self.level}"

    @staticmethod
    def plain(x):
        return x + 1

    @classmethod
    def named(cls):
        return cls.__name__


class Thing(Base):
    level = 2
    stored, kept, size = Stored(), Undeletable(), Doubled()
    tripled_size = Tripled(lambda self: self.tripled)

    def __init__(self, value=1):
        self.stored = value
        self.__dict__["size"] = 10
        self.computed = 0

    @OfClass
    def label(cls):
        return cls.__name__ + "!"

    @Fixed
    def once(self):
        self.computed += 1
        return self.stored + 1

    @Never
    def never(self):
        return 0

    @property
    def shown(self):
        return super().shown + " and more"

    def above(self):
        return super().level, self.level, super().plain(1), super().named(), super().asked

    @classmethod
    def above_class(cls):
        return super().level, super().plain(1), super().named(), super().asked


class Meta(abc.ABCMeta):
    @property
    def level(cls):
        return f"of {cls.__name__}"

    extra = 5

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        CALLS.append(name)
        return name.upper()


class OfMeta(metaclass=Meta):
    level = 3

    def __init__(self):
        self.value = 0


class Missing:
    @property
    def value(self):
        raise AttributeError("not yet")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"other {name}"


class Slotted:
    __slots__ = ("value", "__dict__")

    def __init__(self):
        self.__dict__["value"] = "hidden"
        self.value = "own"


class Stand:
    """An object that says it is of another class."""

    @property
    def __class__(self):
        return Base


class Held:
    """The attribute and what stores it have one name."""

    def __init__(self):
        self.size = 3

    @property
    def size(self):
        return self.__dict__["size"] * 10

    @size.setter
    def size(self, value):
        self.__dict__["size"] = value


def thing(round):
    return Thing(3 + round)


@check(thing, breaks=0)
def test_a_descriptor_that_only_sets_does_not_hide_the_value(given, x):
    return given.stored, x * given.stored


@check()
def test_of_an_object_that_is_made(x):
    made = Thing(4)
    made.stored = 5
    return made.stored, x * 2


@check(thing)
def test_what_was_set_through_it_is_read(given):
    given.stored = 7
    return given.stored


@check(thing)
def test_in_a_loop(given):
    total = 0
    for k in range(300):
        total += given.stored * k + given.size
    return total


@check(thing)
def test_set_in_a_loop(given):
    for k in range(300):
        given.stored = k
    return given.stored


@check(thing)
def test_one_that_only_deletes_is_not_set(given):
    given.kept = 1  # AttributeError: __set__


@check(thing)
def test_one_that_gets_and_deletes_answers_first(given):
    return given.size, Thing.size is Thing.__dict__["size"]


@check(thing)
def test_properties_of_other_kinds(given):
    return given.label, Thing.label, given.never


@check(thing)
def test_a_property_that_sets_in_its_own_way(given):
    given.tripled_size = 2
    return given.tripled_size


@check(thing)
def test_a_cached_property_that_cannot_be_set_is_computed_once(given):
    first = given.once, given.once, given.computed
    try:
        given.once = 5
    except AttributeError as error:
        return first, str(error), given.once


@check()
def test_a_cached_property_of_an_object_that_leaves():
    made = Thing(2)
    first = made.once
    npc.graph_break()
    return first, made.once, made.computed, made


@check(thing)
def test_super_finds_what_the_next_class_holds(given):
    return given.above(), given.above_class(), Thing.above_class(), given.shown


@check(lambda round: OfMeta())
def test_a_metaclass_answers_for_the_class_and_not_for_its_objects(given):
    return OfMeta.level, OfMeta.extra, OfMeta.unknown, given.level, type(given).level


@pytest.mark.parametrize(
    "look", (lambda: OfMeta.unknown, lambda: Base.asked, lambda: hasattr(Base(), "asked"), lambda: Base().asked)
)
def test_code_that_answers_for_an_attribute_runs_once(look):
    compiled = npc.compile(look, backend="eager")
    for _ in range(3):
        CALLS.clear()
        compiled()
        assert len(CALLS) == 1


@check(lambda round: Missing())
def test_a_property_that_raises_asks_getattr(given):
    try:
        return given.value, given.anything
    except AttributeError:
        return "the handler"


@check(lambda round: Slotted(), breaks=0)
def test_a_slot_hides_the_dict(given):
    return given.value


@check(lambda round: Stand())
def test_an_object_that_says_it_is_of_another_class(given):
    return isinstance(given, Base), given.__class__.__name__, type(given).__name__


@check(lambda round: Held())
def test_copies_hold_what_is_stored(given):
    near, deep = copy.copy(given), copy.deepcopy(given)
    return near.size, deep.size, near


def test_what_a_descriptor_is_guards():
    class Late:
        def __set__(self, owner, value):
            pass

    class Owner:
        mark = Late()

        def __init__(self):
            self.__dict__["mark"] = 1

    def f(owner):
        return owner.mark

    compiled = npc.compile(f, backend="eager")
    assert compiled(Owner()) == 1
    Late.__get__ = lambda self, owner, kind=None: 2
    assert compiled(Owner()) == 2
    del Late.__get__
    assert compiled(Owner()) == 1
    assert compiled_function(compiled) is not None
