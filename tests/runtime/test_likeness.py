"""The native question whether objects are arrays as a program was compiled for: like the expression in Python."""

import abc
import builtins
import enum
import itertools

import numpy as np
import pytest

from npcompile.backends.array_guards import HAS_VERSIONS, LIKENESS, Facts, Name, Typed, as_array, kind_of
from npcompile.backends.cpu import loader as module
from npcompile.backends.entering import ENTERING, words_of
from npcompile.tracer.wrapping import ARRAY_FLAGS

A = np.arange(24.0).reshape(2, 3, 4)


class Derived(np.ndarray):
    pass


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


OBJECTS = [
    A, A.copy(), A[::-1], A.T, A[:, ::2], A[0], A[:0], A[:1], A.reshape(4, 3, 2), A.astype("f4"), A.astype(">f8"), A.astype(int),
    A.astype("u8"), A.astype(object), read_only(A), A.view(Derived), A[0, 0, 0], np.asarray(5.0), np.float64(5.0), A.tolist(),
    5, 2**100, None, "text", (), {}, np, np.sin, type, A.flags, np.dtype("f8"),
]  # fmt: skip


def facts_of(x: np.ndarray, is_fixed: bool) -> Facts:
    return Facts(x.dtype, ARRAY_FLAGS, x.flags.num & ARRAY_FLAGS, x.ndim, x.shape if is_fixed else None)


def is_like(x: object, facts: Facts) -> bool:
    return (
        type(x) is np.ndarray
        and x.dtype is facts.dtype
        and x.flags.num & facts.mask == facts.flags
        and (x.ndim == facts.ndim if facts.shape is None else x.shape == facts.shape)
    )


@pytest.mark.parametrize("is_fixed", [True, False])
def test_one_and_two_objects(is_fixed: bool) -> None:
    module.loader().start_runtime()
    ask = LIKENESS.are_like
    assert ask is not None
    known = [x for x in OBJECTS if type(x) is np.ndarray]
    for x in known:
        facts = facts_of(x, is_fixed)
        for y in OBJECTS:
            assert ask(as_array([facts]), y) is is_like(y, facts), (x, y)
    for one, other in itertools.product(known[:6], repeat=2):
        facts = [facts_of(one, is_fixed), facts_of(other, not is_fixed)]
        for x, y in itertools.product(OBJECTS[:14], repeat=2):
            assert ask(as_array(facts), x, y) is (is_like(x, facts[0]) and is_like(y, facts[1]))


NUMBERS = [0, 5, -5, 2**62, 2**63 - 1, -(2**63), 2**63, 2**100, -(2**100), True, 5.0, 5j, np.int64(5), "5", A, None]


@pytest.mark.parametrize(("least", "most"), [(1, 0), (5, 5), (-5, 5), (-(2**63), 2**63 - 1), (2**62, 2**63 - 1)])
def test_numbers_and_other_objects(least: int, most: int) -> None:
    module.loader().start_runtime()
    ask = LIKENESS.are_like
    assert ask is not None
    integers = as_array([Typed(int, least, most), facts_of(A, True), Typed(float)])
    for x in NUMBERS:
        is_there = type(x) is int and (least > most or least <= x <= most)
        assert ask(integers, x, A, 1.5) is is_there, x
        assert ask(integers, most if least <= most else 2**100, A, x) is (type(x) is float), x
        for kind in map(type, NUMBERS[:-3]):
            assert ask(as_array([Typed(kind)]), x) is (type(x) is kind)


@pytest.mark.skipif(not HAS_VERSIONS, reason="classes are looked up again")
def test_names_are_not_looked_up_again_in_a_class_that_has_not_changed() -> None:
    class Base:
        n = 5

    class Derived(Base):
        pass

    module.loader().start_runtime()
    ask = LIKENESS.are_like
    assert ask is not None
    facts = as_array([], [name := Name(Derived, "n", id(Base.n))])
    assert name.holds() and ask(facts) and ask(facts)
    facts[-1] = 0  # what it means, were it looked up
    assert ask(facts)
    Base.m = 6  # type: ignore[attr-defined]
    assert not ask(facts)


def test_names_of_classes() -> None:
    class Base:
        n = None

    class Derived(Base):
        pass

    module.loader().start_runtime()
    ask = LIKENESS.are_like
    assert ask is not None
    names = [Name(Derived, "n", id(None)), Name(Derived, "missing", None), Name(Base, "__init__", id(object.__init__))]
    facts = as_array([], names)
    for kind, key in itertools.product((Base, Derived), ("n", "missing", "__init__")):
        for _ in range(3):
            assert ask(facts)
        before = vars(kind).get(key, facts)
        setattr(kind, key, len)
        is_hidden = kind is Derived and key == "__init__"  # by none that is asked about
        assert ask(facts) is is_hidden is all(name.holds() for name in names)
        delattr(kind, key) if before is facts else setattr(kind, key, before)


def test_kinds_are_told_apart_as_in_python() -> None:
    module.loader().start_runtime()
    ask = LIKENESS.kind_of
    assert ask is not None
    classes = [Derived, Derived(1), False, bool, np.random, enum.Enum, enum.Flag, abc.ABC]
    objects = [
        *OBJECTS,
        *NUMBERS,
        *classes,
        False,
        A.astype(">i8"),
        A.astype("m8[s]"),
        A.astype("q"),
        A.astype("l"),
        np.ones((1,) * 64),
    ]
    for x, y in itertools.product(objects, repeat=2):
        assert (ask(ARRAY_FLAGS, x) == ask(ARRAY_FLAGS, y)) is (kind_of(ARRAY_FLAGS, x) == kind_of(ARRAY_FLAGS, y)), (x, y)
    pairs = [*itertools.product(objects, repeat=2)]
    assert len({ask(ARRAY_FLAGS, *pair) for pair in pairs}) == len({kind_of(ARRAY_FLAGS, *pair) for pair in pairs})


def test_names() -> None:
    module.loader().start_runtime()
    ask = LIKENESS.are_like
    assert ask is not None
    space: dict[str, object] = {"np": np, "n": 5}
    names = [Name(space, "np", id(np)), Name(space, "missing", None), Name(vars(builtins), "range", id(range))]
    facts = as_array([facts_of(A, True)], names)
    assert ask(facts, A) and ask(as_array([], names)) and not ask(facts, A[0])
    for key, value in (("np", np.random), ("missing", None)):
        before = space.copy()
        space[key] = value
        assert not ask(facts, A) and not ask(as_array([], names))
        space.pop(key)
        assert ask(as_array([], names)) is (key == "missing")
        space.clear()
        space.update(before)
        assert ask(facts, A)


class Unlike:
    """A key of a dictionary that is found in the place of a name."""

    def __hash__(self) -> int:
        return hash("missing")

    def __eq__(self, other: object) -> bool:
        raise KeyError(other)


def test_what_keys_raise_is_raised() -> None:
    module.loader().start_runtime()
    space: dict[object, object] = {Unlike(): 1}
    assert LIKENESS.are_like is not None
    with pytest.raises(KeyError):
        LIKENESS.are_like(as_array([], [Name(space, "missing", None)]))  # type: ignore[arg-type]


CHANGES = {
    "set": lambda space: space.__setitem__("n", 6),
    "delete": lambda space: space.__delitem__("n"),
    "pop": lambda space: space.pop("n"),
    "popitem": lambda space: [space.popitem() for _ in range(len(space))],
    "clear": lambda space: space.clear(),
    "update": lambda space: space.update(n=6),
    "|=": lambda space: space.__ior__({"n": 6}),
    "setdefault": lambda space: space.setdefault("missing", 6),
    "run": lambda space: exec("n = 6", space),
    "global": lambda space: exec("def f():\n    global missing\n    missing = 6\nf()", space),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_dictionary_is_noticed(change: str) -> None:
    """Its names are looked up again, though they were found in it before."""
    module.loader().start_runtime()
    ask = LIKENESS.are_like
    assert ask is not None
    space: dict[str, object] = {"np": np, "n": 5, "__builtins__": vars(builtins)}
    names = [Name(space, "n", id(space["n"])), Name(space, "missing", None), Name(vars(builtins), "range", id(range))]
    facts = as_array([], names)
    for _ in range(3):
        assert ask(facts)
    before = space.copy()
    CHANGES[change](space)
    assert not ask(facts) and not ask(facts)
    space.clear()
    space.update(before)
    space["other"] = 1
    assert ask(facts) and ask(facts)


@pytest.mark.skipif(not HAS_VERSIONS, reason="dictionaries of this Python have no versions")
def test_names_are_not_looked_up_again_in_a_dictionary_that_has_not_changed() -> None:
    module.loader().start_runtime()
    assert LIKENESS.are_like is not None
    space = {"n": 5}
    facts = as_array([], [Name(space, "n", id(space["n"]))])
    assert LIKENESS.are_like(facts)
    facts[-1] = 0  # what it means, were it looked up
    assert LIKENESS.are_like(facts)
    space["m"] = 6
    assert not LIKENESS.are_like(facts)


def test_attributes_of_an_instance() -> None:
    """Its dictionary may share its keys, and have its values in the object."""

    class Settings:
        def __init__(self) -> None:
            self.n: object = 5

    module.loader().start_runtime()
    assert LIKENESS.are_like is not None
    for _ in range(40):  # CPython gets to know what is set
        settings = Settings()
        facts = as_array([], [Name(vars(settings), "n", id(settings.n))])
        assert LIKENESS.are_like(facts) and LIKENESS.are_like(facts)
        settings.n = None
        assert not LIKENESS.are_like(facts)


def test_types_of_values() -> None:
    module.loader().start_runtime()
    ask = ENTERING.npc_is_of_kind
    assert ask is not None
    kinds = [(int, float, np.ndarray), (float, float, np.ndarray), (type(None), Derived, str)]
    for values in itertools.product((1, True, 2.0, np.float64(2), None, A, A.view(Derived), "text"), repeat=3):
        for some in (kinds, kinds[1:], []):
            assert ask(words_of(some), *values) is (tuple(map(type, values)) in some)
    assert ask(words_of([]), 1) is ask(words_of([])) is False
