"""`npc.compile_package`: what is compiled of a package, wherever it is kept, and how that is undone."""

from __future__ import annotations

import functools
import gc
import importlib
import marshal
import pickle
import sys
import textwrap
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer import profitability
from npcompile.tracer.profitability import BUDGET, LOOKED_AT, MOST

INIT = """
from lentil.shapes import Box, double, add, halves
from lentil import shapes as _shapes
renamed = _shapes.add
"""
SHAPES = """
import functools
import numpy as np

def add(x, y):
    return x + y

def double(x):
    return add(x, x)

def traced(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

@traced
def shifted(x):
    return x + 1

@functools.lru_cache
def table(n):
    return add(n, n)

def halves(n):
    for k in range(n):
        yield k / 2

def apply(x, by=double):
    return by(x), by is double

class Box:
    side = 3.0

    def __init__(self, x):
        self.x = x

    def area(self):
        return self.x * self.side

    @property
    def total(self):
        return np.sum(self.x)

    @functools.cached_property
    def largest(self):
        return np.max(self.x)

    @staticmethod
    def twice(x):
        return x * 2

    @classmethod
    def of(cls, n):
        return cls(np.ones(n))

class Flat(Box):
    def area(self):
        return super().area() * 0

class Announced:
    def __init__(self, function):
        vars(self).update(__wrapped__=function, run=function, calls=[])

    def __setattr__(self, name, value):
        raise AttributeError(name)

    def __call__(self, *args):
        self.calls.append(args)
        return self.run(*args)

    def __reduce__(self):
        return ANNOUNCED[self.run.__name__].__getattribute__, ("__wrapped__",)

def announced(function):
    @functools.wraps(function)
    def inner(*args):
        return inner.__wrapped__(*args)
    inner.__wrapped__ = Announced(function)
    ANNOUNCED[function.__name__] = inner
    return inner

ANNOUNCED = {}

@announced
def tripled(x):
    return x * 3

by_five = functools.partial(add, 5.0)
box_of = Box.of
METHODS = {"add": add, "more": [double, (by_five, add)]}
NAMES = {add: "add"}
"""
LATER = """
from lentil.shapes import double

def four(x):
    return double(double(x))

class Later:
    def eight(self, x):
        return four(x) * 2
"""
BROKEN = "import nothing_of_this_name\n"


@pytest.fixture
def lentil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package that is imported, apart from two of its modules."""
    folder = tmp_path / "lentil"
    (folder / "tests").mkdir(parents=True)
    files = {"__init__": INIT, "shapes": SHAPES, "later": LATER, "broken": BROKEN, "data": "SIZE = 3\n"}
    for name, text in {**files, "tests/__init__": "def helper(x):\n    return x\n"}.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("lentil")
    for name in [name for name in sys.modules if name.partition(".")[0] == "lentil"]:
        del sys.modules[name]


def is_compiled(function: Any) -> bool:
    return compiled_function(function) is not None


def snapshot(package: Any) -> list[Any]:
    """All that is kept in the package, by identity."""
    shapes = package.shapes
    classes = [dict(vars(owner)) for owner in (shapes.Box, shapes.Flat)]
    containers = [dict(shapes.METHODS), list(shapes.METHODS["more"]), dict(shapes.NAMES)]
    inner = [cell.cell_contents for cell in shapes.shifted.__closure__ or ()]
    more = [inner, shapes.apply.__defaults__, shapes.Box.__dict__["largest"].func]
    return [dict(vars(package)), dict(vars(shapes)), *classes, *containers, *more]


def test_functions_are_compiled_wherever_they_are_kept(lentil: Any) -> None:
    shapes = lentil.shapes
    with npc.compile_package("lentil") as package:
        assert is_compiled(lentil.add) and lentil.add is lentil.renamed is shapes.add is shapes.METHODS["add"]
        assert shapes.METHODS["more"] == [shapes.double, (shapes.by_five, shapes.add)]
        assert shapes.NAMES[shapes.add] == "add"
        assert is_compiled(shapes.shifted) and is_compiled(compiled_function(shapes.shifted).user.__closure__[0].cell_contents)
        assert is_compiled(shapes.by_five.func) and is_compiled(shapes.box_of.__func__)
        members = vars(shapes.Box)
        for each in (members["area"], members["total"].fget, members["largest"].func, members["twice"], members["of"]):
            assert is_compiled(getattr(each, "__func__", each))
        assert {f.__qualname__ for f in package.functions} > {"add", "Box.area", "Flat.area", "shifted"}


def test_objects_that_decorators_make_hold_what_is_compiled(lentil: Any) -> None:
    shapes = lentil.shapes
    wrapper = shapes.tripled.__wrapped__
    plain = wrapper.run
    with npc.compile_package("lentil"):
        assert is_compiled(shapes.tripled) and shapes.tripled is shapes.ANNOUNCED["tripled"]
        assert shapes.tripled.__wrapped__ is wrapper and is_compiled(wrapper.run) and wrapper.__wrapped__ is wrapper.run
        assert pickle.loads(pickle.dumps(wrapper)) is wrapper
        assert shapes.tripled(2.0) == 6.0 and wrapper.calls == [(2.0,)]
    assert wrapper.run is wrapper.__wrapped__ is plain and shapes.tripled.__wrapped__ is wrapper


def test_answers_stay(lentil: Any) -> None:
    def answers() -> list[Any]:
        shapes, x = lentil.shapes, np.arange(4.0)
        box, flat = shapes.Box(x), shapes.Flat(x)
        own = [box.area(), box.total, box.largest, box.twice(x), type(box).of(3).x, shapes.box_of(2).area(), flat.area()]
        return [*own, lentil.double(x), shapes.shifted(x), shapes.table(4), list(lentil.halves(3)), shapes.by_five(x)]

    plain = answers()
    lentil.shapes.table.cache_clear()
    with npc.compile_package("lentil"):
        compiled = answers()
        assert lentil.shapes.apply(1.0) == (2.0, True)
    for expected, given in zip(plain, compiled, strict=True):
        assert type(given) is type(expected)
        np.testing.assert_array_equal(given, expected)


def test_undo_puts_back_what_was_there(lentil: Any) -> None:
    before = snapshot(lentil)
    package = npc.compile_package("lentil")
    assert snapshot(lentil) != before
    package.undo()
    assert snapshot(lentil) == before
    assert package.functions == []
    package.undo()
    assert snapshot(lentil) == before


def test_undo_leaves_what_was_put_there_since(lentil: Any) -> None:
    with npc.compile_package("lentil"):
        lentil.shapes.add = len
        lentil.shapes.METHODS["more"].pop()
    assert lentil.shapes.add is len
    assert not is_compiled(lentil.shapes.double)


def test_names_in_other_modules_change_too(lentil: Any) -> None:
    other = types.ModuleType("other_than_lentil")
    other.add = lentil.add  # type: ignore[attr-defined]
    sys.modules[other.__name__] = other
    try:
        with npc.compile_package("lentil"):
            assert is_compiled(other.add)
        assert not is_compiled(other.add)
    finally:
        del sys.modules[other.__name__]


def test_modules_imported_later_are_compiled(lentil: Any) -> None:
    with npc.compile_package("lentil"):
        later = importlib.import_module("lentil.later")
        assert is_compiled(later.four) and is_compiled(later.Later.eight) and later.double is lentil.double
        assert later.Later().eight(1.5) == 12.0
        assert "exec_module" not in vars(later.__loader__)
        assert not is_compiled(importlib.import_module("lentil.tests").helper)
    assert not any(map(is_compiled, (later.four, later.Later.eight, later.double)))
    assert not any("compiled functions" in repr(finder) or "LaterModules" in repr(finder) for finder in sys.meta_path)


def test_an_error_in_a_module_imported_later_shows_no_frames_of_ours(lentil: Any) -> None:
    def frames() -> list[str]:
        sys.modules.pop("lentil.broken", None)
        with pytest.raises(ModuleNotFoundError) as raised:
            import lentil.broken  # noqa: F401
        return [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]

    plain = frames()
    with npc.compile_package("lentil"):
        assert frames() == plain


def test_what_is_compiled_already_stays(lentil: Any) -> None:
    own = lentil.shapes.add = npc.compile(lentil.shapes.add)
    with npc.compile_package("lentil"), npc.compile_package("lentil.shapes", "lentil") as second:
        assert lentil.shapes.add is own
        assert second.functions == []
    assert lentil.shapes.add is own
    assert not is_compiled(lentil.shapes.double)


def test_a_cache_stays_the_same(lentil: Any) -> None:
    lentil.shapes.table(3)
    with npc.compile_package("lentil"):
        assert isinstance(lentil.shapes.table, functools._lru_cache_wrapper)
        assert lentil.shapes.table.cache_info().currsize == 1


def test_one_module_of_a_package(lentil: Any) -> None:
    importlib.import_module("lentil.later")
    with npc.compile_package("lentil.later"):
        assert is_compiled(sys.modules["lentil.later"].four)
        assert not is_compiled(lentil.add)


@pytest.mark.parametrize(
    ("names", "error", "text"),
    [
        ((), ValueError, "none is given"),
        (("no_package_of_this_name",), ModuleNotFoundError, "no_package_of_this_name"),
        ((np,), TypeError, "module"),
        (("numpy.linalg",), ValueError, "npcompile itself runs on it"),
        (("npcompile",), ValueError, "npcompile itself runs on it"),
        (("functools",), ValueError, "npcompile itself runs on it"),
        (("lentil.data",), ValueError, "lentil.data has no functions"),
    ],
)
def test_what_cannot_be_compiled_is_said(lentil: Any, names: tuple[Any, ...], error: type[Exception], text: str) -> None:
    importlib.import_module("lentil.data")
    before, finders = snapshot(lentil), list(sys.meta_path)
    with pytest.raises(error, match=text):
        npc.compile_package(*names)
    assert snapshot(lentil) == before and sys.meta_path == finders


def test_a_wrong_option_changes_nothing(lentil: Any) -> None:
    before, finders = snapshot(lentil), list(sys.meta_path)
    with pytest.raises(ValueError, match="unknown backend"):
        npc.compile_package("lentil", backend="abacus")
    assert snapshot(lentil) == before and sys.meta_path == finders


def test_nothing_is_compiled_before_it_was_called_for_long(tmp_path, monkeypatch):
    (tmp_path / "rarely_called.py").write_text("import numpy as np\n\n\ndef root(x):\n    return np.sqrt(x) + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(BUDGET, "spent", -1e3)
    monkeypatch.setattr(profitability, "HOT", 1e3)
    with npc.config.patch(tiers="measured"), npc.compile_package("rarely_called"):
        from rarely_called import root

        known = compiled_function(root)
        for _ in range(2 * LOOKED_AT):
            assert root(np.arange(2.0)).tolist() == [1, 2]
        assert root.__code__ is known.current.aside
        assert not known.graphs
        monkeypatch.setattr(profitability, "HOT", 0.0)
        call_until_compiled(known, lambda: root(np.arange(2.0)))


def test_seconds_count_once_and_while_they_pass(tmp_path, monkeypatch):
    """A function that runs as long as the program does: what it calls is compiled all the same."""
    text = """
        def inner(seconds):
            clock[0] += seconds

        def outer(spend):
            inner(2.0)
            spend(3.0)
            clock[0] += 5.0
            noted.append(BUDGET.allows())
            inner(4.0)
    """
    (tmp_path / "runs_for_long.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    clock, noted, budget = [0.0], [], profitability.Budget()
    monkeypatch.setattr(profitability, "BUDGET", budget)
    monkeypatch.setattr(profitability, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(profitability, "HOT", 1e3)

    def spend(seconds):  # what was compiled within
        clock[0] += seconds
        budget.spend(seconds)

    with npc.config.patch(tiers="measured"), npc.compile_package("runs_for_long"):
        import runs_for_long

        vars(runs_for_long).update(clock=clock, noted=noted, BUDGET=budget)
        runs_for_long.outer(spend)
        inner, outer = (compiled_function(getattr(runs_for_long, name)).trial for name in ("inner", "outer"))
    assert noted == [(2.0 + 5.0) * profitability.SHARE >= 3.0 + profitability.LIKELY]
    assert (budget.taken, budget.spent, budget.began) == (11.0, 3.0, None)
    assert (inner.waited, outer.waited) == (6.0, 11.0)


def call_until_compiled(known, call):
    """The compiler runs beside the program, and the function steps aside for some calls meanwhile."""
    for _ in range(2 * MOST):
        assert call().tolist() == [1, 2]
        if known.compiling is not None:
            known.compiling.join()
        if known.graphs:
            return
    pytest.fail("nothing was compiled")


WRAPPER = """
import numpy as np


class Wrapper:
    def __init__(self, inner):
        self.inner = inner

    def __getattribute__(self, name):
        inner = object.__getattribute__(self, "inner")
        return inner[name] * 2 if name in inner else object.__getattribute__(self, name)

    def total(self):
        return np.sum(self.x) + self.y


def root(x):
    return Wrapper({"x": x, "y": 1.0}).total()
"""


def test_looking_at_an_object_does_not_begin_to_compile_how_it_is_looked_at(tmp_path, monkeypatch):
    (tmp_path / "wraps_results.py").write_text(WRAPPER)
    monkeypatch.syspath_prepend(tmp_path)
    with npc.config.patch(tiers="always", internal_errors="raise"), npc.compile_package("wraps_results"):
        from wraps_results import root

        for _ in range(32):
            assert root(np.arange(3.0)) == 8


DECORATOR = """
import functools


def checked(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper
"""


def test_what_a_decorator_from_elsewhere_holds_is_compiled(tmp_path, monkeypatch):
    (tmp_path / "checks_calls.py").write_text(DECORATOR)
    (tmp_path / "is_checked.py").write_text(
        "import numpy as np\nfrom checks_calls import checked\n\n\n@checked\ndef root(x):\n    return np.sqrt(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with npc.config.patch(tiers="always"), npc.compile_package("is_checked") as package:
        from is_checked import root

        (cell,) = root.__closure__
        assert package.functions == [cell.cell_contents]
        assert root(np.array([4.0])).tolist() == [2]
        assert compiled_function(cell.cell_contents).graphs
    assert cell.cell_contents is root.__wrapped__


MOVING = """
class Box:
    def __init__(self, content, name=None):
        self.content = content
        self.name = name if name is not None else content

    def is_full(self):
        return True

    def first(self):
        return self.content[0]

    def twice(self):
        return self.content + self.content

    def longer(self):
        return self.content and len(self.content)
"""


def test_what_computes_nothing_stays_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "moves_things.py").write_text(MOVING)
    monkeypatch.syspath_prepend(tmp_path)
    with npc.compile_package("moves_things") as package:
        assert {f.__name__ for f in package.functions} == {"first", "twice", "longer"}


def test_a_function_steps_aside_while_nothing_may_be_compiled(tmp_path, monkeypatch):
    """Also one that was compiled for what it was called with before, and found no verdict."""
    (tmp_path / "waits_for_more.py").write_text("import numpy as np\n\n\ndef root(x):\n    return np.sqrt(x) + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(profitability, "HOT", 0.0)
    monkeypatch.setattr(profitability, "SHORT", 1e3)
    monkeypatch.setattr(BUDGET, "spent", -1e3)
    with npc.config.patch(tiers="measured"), npc.compile_package("waits_for_more"):
        from waits_for_more import root

        known = compiled_function(root)
        call_until_compiled(known, lambda: root(np.arange(2.0)))
        monkeypatch.setattr(BUDGET, "spent", 1e6)
        for _ in range(2 * LOOKED_AT):
            assert root(np.arange(2.0)).tolist() == [1, 2]
        assert root.__code__ is known.current.aside
        assert {times.verdict for times in known.trial.kinds.values()} == {None}


def test_compiling_takes_no_longer_than_the_rest(tmp_path, monkeypatch):
    (tmp_path / "called_for_long.py").write_text("import numpy as np\n\n\ndef root(x):\n    return np.sqrt(x) + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(profitability, "BETWEEN", 0.0)
    monkeypatch.setattr(profitability, "HOT", 0.0)
    monkeypatch.setattr(BUDGET, "spent", 1e6)
    with npc.config.patch(tiers="measured"), npc.compile_package("called_for_long"):
        from called_for_long import root

        known = compiled_function(root)
        for _ in range(50):
            assert root(np.arange(2.0)).tolist() == [1, 2]
        assert not known.graphs
        monkeypatch.setattr(BUDGET, "spent", -1e3)
        call_until_compiled(known, lambda: root(np.arange(2.0)))
        monkeypatch.setattr(BUDGET, "spent", 1e6)
        assert root(np.arange(2, dtype=np.float32)).dtype == np.float32  # of another kind
        assert len(known.graphs) == 1


def test_a_function_with_nothing_to_compile_is_looked_at_less_and_less(tmp_path, monkeypatch):
    """It is captured for each function that it is given: that costs, and gives nothing back."""
    (tmp_path / "says_things.py").write_text("def told(say, x):\n    say(x)\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(profitability, "HOT", 0.0)
    monkeypatch.setattr(profitability, "IN_VAIN", 2)
    monkeypatch.setattr(BUDGET, "spent", -1e3)
    with npc.config.patch(tiers="measured"), npc.compile_package("says_things"):
        from says_things import told

        trial = compiled_function(told).trial
        trial.waited = 1e3
        unknown = (sys.getsizeof, sys.getrefcount, gc.is_tracked, gc.is_finalized)
        for value, say in enumerate(unknown):
            assert told(say, value) == value
        captures, before = trial.captures, trial.needed
        assert captures >= len(unknown)
        trial.lose(0.0)
        trial.lose(0.0)
        assert trial.needed == 2 * before > 0
        trial.waited = 0.0
        assert told(marshal.dumps, b"y") == b"y"
        assert trial.captures == captures + 2
        assert trial.waited > 0


def test_long_functions_of_a_package_are_not_read(tmp_path, monkeypatch):
    """Unless the user names them. Those that call them are compiled around the calls."""
    lines = "".join(f"    x = x + {k}\n" for k in range(200))
    text = f"import numpy as np\n\n\ndef longer(x):\n{lines}    return x\n\n\ndef calls(x):\n    return longer(np.sin(x)) * 2\n"
    (tmp_path / "long_winded.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(profitability, "LONGEST_CODE", 10_000)
    monkeypatch.setattr(profitability, "HOT", 0.0)
    monkeypatch.setattr(BUDGET, "spent", -1e3)
    with npc.config.patch(tiers="measured"), npc.compile_package("long_winded"):
        from long_winded import calls, longer

        x = np.ones(2)
        call_until_compiled(compiled_function(calls), lambda: calls(x) / calls(x) * [1, 2])
        np.testing.assert_array_equal(calls(x), 2 * (np.sin(x) + sum(range(200))))
        assert compiled_function(longer).is_left
        assert "longer is too long" in str(compiled_function(calls).breaks)
        named = npc.compile(compiled_function(longer).user)
        assert not compiled_function(named).is_too_long
