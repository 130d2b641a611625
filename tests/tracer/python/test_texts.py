"""Strings made of numbers and strings from outside: expressions of the program, so that others are not another compile."""

import numpy as np

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import check


def test_another_number_is_not_another_compile():
    def f(n, v, name, x):
        label = f"{name}: {n:>4} {v:.2f} {v!r}" + "." + str(n) + repr(v)
        return x * n, label, f"{label}!"

    compiled = npc.compile(f, backend="eager")
    for n, v, name in ((3, 2.5, "a"), (4, -0.0, "b"), (10**6, 1e300, "")):
        assert repr(compiled(n, v, name, np.ones(2))) == repr(f(n, v, name, np.ones(2)))
    assert len(compiled_function(compiled).graphs) == 1
    assert not compiled_function(compiled).breaks


@check(3, "key")
def test_strings_that_are_looked_at_are_known(n, key, x):
    table = {"key3": x, "key4": x * 2}
    name = f"{key}{n}"
    if name == "key3":
        return table[name] + 1
    return name.upper()


@check("a", [1, 2], True, None)
def test_what_is_no_number_is_made_natively(text, items, flag, nothing, x):
    return f"{text:>5}{items}{flag}{nothing}", x * 2


@check(2.5, breaks=0)
def test_in_an_error_that_is_not_raised(v, x):
    if v < 0:
        raise ValueError(f"{v} is negative")
    return x * v


@check(-2.5)
def test_in_an_error(v, x):
    y = x * 2
    if v < 0:
        raise ValueError(f"{v} is negative")
    return y
