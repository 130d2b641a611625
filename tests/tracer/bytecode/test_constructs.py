"""What each construct of the language does when it is compiled, and that it is captured."""

import re

import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.bytecode.versions import WHY_UNKNOWN
from tests.backends import BACKENDS
from tests.tracer.bytecode.constructs import Construct, all_constructs
from tests.tracer.harness import describe, run, same_outcome

CONSTRUCTS = all_constructs()
# What has to be captured whole: named by the constructs, which may say more.
LISTED = """
call: positional | call: keywords | defaults | *args | **kwargs | closure | nonlocal | cell shared | lambda | recursion
decorated | functools.partial | functools.wraps | functools.reduce | functools.lru_cache | functools.singledispatch
functools.cached_property | method | property | class method | static method | super() | dataclass | named tuple | enum
__call__ | __getattr__ | descriptor | operators of a class | decorated __call__ | list | dict | set | tuple | range | slice
str methods | comprehension | generator expression | zip | enumerate | map | filter | sorted | reversed | any and all | sum
min and max | isinstance | hasattr | getattr | setattr | type | len | math | operator | itertools | copy | star-unpacking
match | walrus | chained comparison | conditional expression | assert | del | global | import
with np.errstate | with of a user's manager | contextmanager | exception group | except* | try without
raised and caught in nested blocks | generator | branch on data
"""


def compiled_twice(given: Construct, backend: str):
    """The function compiled, after two calls that gave what the plain function gives."""
    function = given.sample.function
    compiled = npc.compile(function, backend=backend)
    for round in range(2):
        theirs = run(function, function, given.arguments(round))
        for _ in range(2):
            same_outcome(run(compiled, function, given.arguments(round)), theirs, ulp=64 if backend != "cuda" else 4096)
    return compiled_function(compiled)


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b.values[0] != "cpu"])
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_outcome_and_breaks(name, backend):
    given = CONSTRUCTS[name]
    known = compiled_twice(given, backend)
    if given.breaks is None or WHY_UNKNOWN:
        return  # it need not be one program; that it does what it should was seen
    assert known is not None, "not compiled"
    assert len(known.breaks) <= given.breaks, describe(known)


@pytest.mark.parametrize("part", [part.strip() for part in re.split("[|\n]", LISTED) if part.strip()])
def test_listed_construct_is_captured_whole(part):
    assert any(part in c.name and c.breaks == 0 for c in CONSTRUCTS.values())


def test_there_are_enough():
    assert len(CONSTRUCTS) >= 150
