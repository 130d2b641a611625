"""Globals, modules and functions that change between calls."""

import builtins
import copy
import functools
import types
from typing import Any

import numpy as np
import pytest

from tests.tracer.calls.changes.cases import Cases, X, check

CASES = Cases()
case = CASES.case

# --- globals

SCALE: Any = 2.0


def helper(x, k=2.0, *, s=1.0):
    return x * k + s


def other_helper(x, k=20.0, *, s=10.0):
    return x - k - s


def uses_scale(x):
    return x * SCALE


@case
def a_global_rebound():
    global SCALE
    try:
        for SCALE in (2.0, 3.0, 4, True, np.float32(2), X, np.arange(3), [1.0, 2.0, 3.0], "text", None, -0.0, float("nan"), 2j):
            yield uses_scale, (X,)
        for SCALE in (0.0, -0.0):
            yield uses_scale, (X,)
    finally:
        SCALE = 2.0


def hands_scale_on(x):
    return x + 1, SCALE


@case
def a_global_that_is_gone():
    try:
        for globals()["SCALE"] in ("text", None, 2.0):
            yield hands_scale_on, (X,)
            yield hands_scale_on, (X,)
            del globals()["SCALE"]
            yield hands_scale_on, (X,)
    finally:
        globals()["SCALE"] = 2.0


POLYNOMIAL: Any = (1.0, -2.0, 0.5)


def by_horner(x):
    result = np.zeros_like(x)
    for c in POLYNOMIAL:
        result = result * x + c
    return result, POLYNOMIAL


@case
def a_global_tuple_rebound():
    global POLYNOMIAL
    before = POLYNOMIAL
    try:
        for POLYNOMIAL in (before, (1.0, -2.0, 3), (-0.0, 0.0, -0.0), [1.0, -2.0, 0.5], before, (1, 2, 2**70), (), (True, X)):
            yield by_horner, (X,)
    finally:
        POLYNOMIAL = before


@case
def a_global_deleted_and_made_again():
    yield uses_scale, (X,)
    kept = globals().pop("SCALE")
    try:
        yield uses_scale, (X,)
    finally:
        globals()["SCALE"] = kept
    yield uses_scale, (X,)


@case
def a_global_array_changed_in_place():
    global SCALE
    SCALE = np.ones(3)
    try:
        yield uses_scale, (X,)
        SCALE[1] = 7
        yield uses_scale, (X,)
        SCALE.resize(1, refcheck=False)
        yield uses_scale, (X,)
        SCALE.shape = (1, 1)
        yield uses_scale, (X,)
        SCALE.dtype = np.int64
        yield uses_scale, (X,)
        SCALE.flags.writeable = False
        yield uses_scale, (X,)
    finally:
        SCALE = 2.0


@case
def a_builtin_hidden_by_a_global():
    def f(x):
        return x * len(x)

    yield f, (X,)
    f.__globals__["len"] = lambda x: 100
    try:
        yield f, (X,)
    finally:
        del f.__globals__["len"]
    yield f, (X,)


@case
def a_builtin_replaced():
    def f(x):
        return x * divmod(7, 2)[0]

    yield f, (X,)
    builtins.divmod, saved = (lambda a, b: (100, 0)), divmod
    try:
        yield f, (X,)
    finally:
        builtins.divmod = saved
    yield f, (X,)


@case
def a_numpy_function_replaced():
    def f(x):
        return np.sin(x) + np.linalg.norm(x)

    yield f, (X,)
    np.sin, saved = np.cos, np.sin
    try:
        yield f, (X,)
    finally:
        np.sin = saved
    yield f, (X,)
    np.linalg.norm, saved = (lambda x: 100.0), np.linalg.norm
    try:
        yield f, (X,)
    finally:
        np.linalg.norm = saved
    yield f, (X,)


@case
def the_name_np_rebound():
    def f(x):
        return np.sin(x)

    yield f, (X,)
    f.__globals__["np"] = types.SimpleNamespace(sin=np.cos)
    try:
        yield f, (X,)
    finally:
        f.__globals__["np"] = np_module
    yield f, (X,)


np_module = np


@case
def an_attribute_of_a_module():
    module = types.ModuleType("settings")
    module.k, module.table, module.f = 2.0, np.ones(3), helper

    def f(x):
        return module.f(x * module.k + module.table)

    yield f, (X,)
    module.k = 3.0
    yield f, (X,)
    module.table[1] = 5
    yield f, (X,)
    module.f = other_helper
    yield f, (X,)
    del module.k
    yield f, (X,)
    module.__getattr__ = lambda name: 9.0
    yield f, (X,)


COUNT = 0


def counts(x):
    global COUNT
    COUNT += 1
    return x * COUNT


@case
def a_global_that_the_program_sets():
    global COUNT
    for value in (0, 5, 2.5, np.ones(3), np.float32(2)):

        def given(value=value):
            global COUNT
            COUNT = copy.copy(value)
            return (X,)

        yield counts, given


@case
def the_error_state():
    def f(x):
        return np.log(x - 1)

    with np.errstate(divide="raise"):
        yield f, (X,)
    yield f, (X,)
    with np.errstate(divide="ignore"):
        yield f, (X,)


@case
def an_import_in_the_function():
    import sys

    module = types.ModuleType("module_of_this_test")
    module.k = 2.0
    sys.modules["module_of_this_test"] = module

    def f(x):
        import module_of_this_test
        from module_of_this_test import k

        return x * k + module_of_this_test.k

    try:
        yield f, (X,)
        module.k = 3.0
        yield f, (X,)
        other = sys.modules["module_of_this_test"] = types.ModuleType("module_of_this_test")
        other.k = 9.0
        yield f, (X,)
        del sys.modules["module_of_this_test"]
        yield f, (X,)
    finally:
        sys.modules.pop("module_of_this_test", None)


# --- functions


@case
def a_function_with_other_code():
    def g(x):
        return x * 2

    def f(x):
        return g(x)

    yield f, (X,)
    g.__code__ = (lambda x: x - 5).__code__
    yield f, (X,)


def called_globally(x, k=3.0, *, s=1.0):
    return x * k + s


def calls_globally(x):
    return called_globally(x)


@case
def a_global_function_with_other_code_and_defaults():
    code, defaults, kwdefaults = called_globally.__code__, called_globally.__defaults__, called_globally.__kwdefaults__
    try:
        yield calls_globally, (X,)
        called_globally.__defaults__ = (7.0,)
        yield calls_globally, (X,)
        called_globally.__kwdefaults__ = {"s": 9.0}
        yield calls_globally, (X,)
        called_globally.__kwdefaults__["s"] = 10.0
        yield calls_globally, (X,)
        called_globally.__kwdefaults__ = None
        yield calls_globally, (X,)
        called_globally.__kwdefaults__ = {"s": X}
        yield calls_globally, (X,)
        called_globally.__defaults__ = None
        yield calls_globally, (X,)
        called_globally.__defaults__ = (1.0, 2.0)
        yield calls_globally, (X,)
        called_globally.__defaults__ = ("text",)
        yield calls_globally, (X,)
        called_globally.__code__ = (lambda x, k=0, *, s=0: x - k - s).__code__
        called_globally.__defaults__ = (3,)
        yield calls_globally, (X,)
    finally:
        called_globally.__code__, called_globally.__defaults__, called_globally.__kwdefaults__ = code, defaults, kwdefaults


@case
def defaults_of_functions_given():
    def f(x, g):
        return g(x)

    for k in (1.0, 2.0, 3, True, None, "text", X, (1.0, 2.0, 3.0)):

        def g(x, k=k, *, s=k):
            return (x if k is None else x * 2, k, s)

        yield f, (X, g)


@case
def a_function_given_closes_over_another():
    def f(x, g):
        return g(x)

    def make(k):
        return lambda x: x * k

    for k in (1.0, 2.0, 3, X, "text", None):
        yield f, (X, make(k))


@case
def a_closure_cell_rebound():
    k: Any = 1.0

    def f(x):
        return x * k  # noqa: F821

    yield f, (X,)
    for k in (2.0, 3, np.ones(3), [1, 2, 3], "text", np.float32(3)):
        yield f, (X,)
    del k
    yield f, (X,)


@case
def a_cell_of_a_callee_rebound():
    k: Any = 1.0

    def g(x):
        return x * k

    def f(x):
        return g(x) + 1

    yield f, (X,)
    for k in (2.0, 3, X, None):
        yield f, (X,)


@case
def own_array_default_changed_in_place():
    table = np.ones(3)

    def f(x, t=table, *, u=table):
        return x * t + u

    yield f, (X,)
    table[:] = [3, 4, 5]
    yield f, (X,)


@case
def a_callee_with_a_list_default():
    def g(x, seen=[1.0]):  # noqa: B006
        return x * seen[0] + len(seen)

    def f(x):
        return g(x)

    yield f, (X,)
    g.__defaults__[0][0] = 5.0
    yield f, (X,)
    g.__defaults__[0].append(1)
    yield f, (X,)


@case
def a_function_replaced_by_an_equal_name():
    holder = types.SimpleNamespace(g=helper)

    def f(x):
        return holder.g(x)

    yield f, (X,)
    holder.g = other_helper
    yield f, (X,)
    holder.g = np.sin
    yield f, (X,)
    holder.g = functools.partial(helper, k=5)
    yield f, (X,)
    holder.g = functools.partial(helper, k=6)
    yield f, (X,)
    holder.g = 5
    yield f, (X,)


@case
def a_bound_method_given():
    class A:
        def __init__(self, k):
            self.k = k

        def scale(self, x):
            return x * self.k

        def shift(self, x):
            return x + self.k

    def f(x, g):
        return g(x)

    for g in (A(1.0).scale, A(2.0).scale, A(2.0).shift, A(X).shift):
        yield f, (X, g)


@case
def an_attribute_of_a_function():
    def g(x):
        return x * g.k

    def f(x):
        return g(x) + f.k

    g.k, f.k = 2.0, X
    yield f, (X,)
    g.k = 3.0
    yield f, (X,)
    f.k = 1
    yield f, (X,)
    del g.k
    yield f, (X,)


@case
def partial_objects():
    def f(x, g):
        return g(x)

    def h(x, k=1.0, *, s=0.0):
        return x * k + s

    for g in (functools.partial(h, k=2.0), functools.partial(h, k=3.0), functools.partial(h, s=X), functools.partial(np.add, 1)):
        yield f, (X, g)
    g = functools.partial(h, s=1.0)
    yield f, (X, g)
    g.keywords["s"] = 5.0
    yield f, (X, g)


@case
def closures_that_share_a_cell():
    def make():
        k: Any = 1.0

        def get(x):
            return x * k

        def put(value):
            nonlocal k
            k = value

        return get, put

    get, put = make()

    def f(x):
        y = get(x)
        put(k)
        return y + get(x)

    for k in (2.0, 3.0, 4, X):
        yield f, lambda: (put(7.0), (X,))[1]


@case
def a_wrapped_function():
    calls: list[Any] = []

    def noted(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            calls.append(len(calls))
            return function(*args, **kwargs) * inner.factor

        inner.factor = 2.0
        return inner

    @noted
    def g(x):
        return x + 1

    def f(x):
        return g(x)

    yield f, lambda: (calls.clear(), (X,))[1]
    g.factor = 3.0
    yield f, lambda: (calls.clear(), (X,))[1]
    g.__wrapped__ = np.sin
    yield f, lambda: (calls.clear(), (X,))[1]


@pytest.mark.parametrize("name", CASES)
def test_the_change_is_seen(name: str) -> None:
    check(CASES[name])
