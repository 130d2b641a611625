"""All call forms, closures, lambdas, recursion, decorators, and what functools makes of functions."""

from __future__ import annotations

import functools

import numpy as np

from tests.tracer.bytecode.constructs import construct


def affine(x, scale=2.0, /, shift=1.0, *rest, power=1, **more):
    total = (x * scale + shift) ** power
    for r in rest:
        total = total + r
    for name in more:
        total = total - more[name]
    return total


@construct("call: positional")
def positional(x, y):
    return affine(x, y)


@construct("call: keywords")
def keywords(x, y):
    return affine(x, shift=y, power=2)


@construct("call: defaults of a function")
def defaults(x):
    return affine(x) + affine(x, 3.0) + affine(x, 3.0, 4.0)


@construct("call: *args taken by the callee")
def rest_arguments(x, y):
    return affine(x, 2.0, 0.5, y, x)


@construct("call: **kwargs taken by the callee")
def more_keywords(x, y):
    return affine(x, first=y, second=x * 2)


@construct("call: *args and **kwargs given")
def star_given(x, y):
    args, kwargs = [x, 3.0], {"shift": y, "power": 2}
    return affine(*args, **kwargs)


@construct("call: several stars and names at once")
def stars_between(x, y):
    return affine(*(x,), 2.0, *[y], *(), power=1, **{"a": x}, **dict(b=y))


@construct("call: stars passed on")
def stars_passed_on(x, y):
    def forward(*args, **kwargs):
        return affine(*args, **kwargs)

    return forward(x, 2.0, y, power=3, other=x)


@construct("call: keyword-only and positional-only parameters")
def parameter_kinds(x, y):
    def kinds(a, b, /, c, *, d, e=3.0):
        return a * b + c * d - e

    return kinds(x, y, c=x, d=y) + kinds(x, y, 2.0, d=1.0, e=x)


@construct("call: mutable default shared by calls")
def mutable_default(x):
    def collect(item, into=[]):
        into.append(item)
        return into

    collect(x)
    return collect(x * 2)


@construct("call: default that is an array of the call")
def array_default(x, y):
    def add(a, b=y):
        return a + b

    return add(x) * add(x, 2.0)


@construct("call: an expression is called")
def called_expression(x):
    return (np.sin if x.ndim == 2 else np.cos)(x) + [np.exp, np.tanh][1](x)


@construct("call: a call in each argument")
def nested_calls(x, y):
    return affine(affine(x, 3.0), np.sum(affine(y)), np.abs(np.negative(x)))


@construct("own *args and **kwargs", lambda r: np.arange(3.0) + r, lambda r: np.arange(3.0) * 2 + r, lambda r: 3.0 + r)
def own_star_arguments(first, *rest, **more):
    return first + sum(rest) + len(rest) + len(more)


@construct("closure over locals")
def closure(x, y):
    scale = 3

    def inner(a):
        return a * scale + y

    return inner(x) + inner(y)


@construct("closure changed after it was made")
def closure_changed(x):
    scale = 3

    def inner():
        return x * scale

    before = inner()
    scale = 4
    x = x + 1
    return before, inner()


@construct("nonlocal")
def nonlocal_variable(x):
    total = np.zeros(3)

    def add(row):
        nonlocal total
        total = total + row
        return total

    add(x[0])
    add(x[1])
    return total


@construct("cell shared by two inner functions")
def shared_cell(x):
    state = x

    def double():
        nonlocal state
        state = state * 2

    def read():
        return state

    double()
    first = read()
    double()
    return first, read()


@construct("closure in a closure")
def nested_closure(x, y):
    def outer(a):
        def inner(b):
            return a * b + y

        return inner

    return outer(x)(y) + outer(2.0)(x)


@construct("closures made in a loop")
def closures_of_loop(x):
    late = [lambda: x * i for i in range(3)]
    early = [lambda i=i: x + i for i in range(3)]
    return [f() for f in late], [f() for f in early]


@construct("inner function returned")
def function_returned(x):
    def inner(a):
        return a * 2

    return inner(x), callable(inner), inner.__name__


@construct("lambda")
def lambdas(x, y):
    add = lambda a, b=1.0: a + b
    return add(x, y) + (lambda: x * 2)() + (lambda *a: a[0] - a[1])(x, y)


def power_of(x, n):
    return x * power_of(x, n - 1) if n else np.ones_like(x)


@construct("recursion")
def recursion(x):
    return power_of(x, 4)


@construct("recursion of an inner function")
def inner_recursion(x):
    def halve(a, depth):
        if depth == 0:
            return a
        return halve(a / 2, depth - 1) + 1

    return halve(x, 3)


def is_even(x, n):
    return x * 2 if n == 0 else is_odd(x, n - 1)


def is_odd(x, n):
    return x * 3 if n == 0 else is_even(x, n - 1)


@construct("mutual recursion")
def mutual_recursion(x):
    return is_even(x, 4) + is_odd(x, 4)


def doubled(function):
    def wrapper(*args, **kwargs):
        return 2 * function(*args, **kwargs)

    return wrapper


def scaled(by):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * by

        return wrapper

    return decorate


@doubled
def plain_sum(x, y=1.0):
    return x + y


@scaled(3)
@doubled
def product(x, y):
    return x * y


@construct("decorated function")
def decorated(x, y):
    return plain_sum(x, y=y) + product(x, y)


@construct("decorator inside the function")
def decorated_inside(x, y):
    @doubled
    def add(a):
        return a + y

    return add(x)


@construct("functools.wraps inside the function")
def wraps_inside(x, y):
    @scaled(4)
    def add(a):
        return a + y

    return add(x)


AFFINE_OF_TWO = functools.partial(affine, shift=4.0, power=2)


@construct("functools.partial of a module")
def partial_outside(x, y):
    return AFFINE_OF_TWO(x) + AFFINE_OF_TWO(x, 3.0) + AFFINE_OF_TWO(x, shift=y)


@construct("functools.partial made inside")
def partial_inside(x, y):
    add = functools.partial(affine, x, shift=y)
    return add() + add(power=2) + functools.partial(np.sum, axis=0)(x)


@construct("functools.partial called in a comprehension")
def partial_mapped(x, y):
    return [functools.partial(np.add, y)(row) for row in (x, x * 2)]


@construct("functools.reduce")
def reduce_(x, y):
    return functools.reduce(lambda a, b: a * 2 + b, [x, y, x]), functools.reduce(np.add, (x, y), np.ones(3))


@functools.lru_cache(maxsize=None)
def window(n):
    return np.arange(n) / n


@functools.cache
def factor(name):
    return {"low": 0.5, "high": 2.0}[name]


@construct("functools.lru_cache of an array")
def lru_cache(x):
    return x * window(3) + window(3)


@construct("functools.cache of a number")
def cache(x):
    return x * factor("low") + factor("high")


@functools.singledispatch
def norm(x):
    return np.sqrt(np.sum(x * x))


@norm.register
def _(x: list):
    return sum(norm(row) for row in x)


@norm.register(int)
def _(x):
    return abs(x)


@construct("functools.singledispatch")
def singledispatch(x):
    return norm(x), norm([x, x]), norm(-3)


@construct("functools.cmp_to_key and total order of numbers")
def cmp_to_key(x):
    order = sorted([2, 0, 1], key=functools.cmp_to_key(lambda a, b: b - a))
    return [x[k] for k in order]


@construct("function attribute")
def function_attribute(x):
    def inner(a):
        inner.count += 1
        return a * inner.count

    inner.count = 1
    return inner(x), inner(x)


@construct("call: a builtin bound method")
def bound_builtin(x):
    found = []
    push = found.append
    push(x)
    push(x * 2)
    get = {"a": x}.get
    return found, get("a"), get("b")


@construct("call: an unbound method with its object")
def unbound_method(x):
    return np.ndarray.sum(x, axis=0), list.index([3, 4], 4), str.upper("a"), dict.get({"k": x}, "k")


@construct("call: ufunc methods and out=")
def ufunc_calls(x, y):
    out = np.empty_like(x)
    np.add(x, y, out=out)
    np.multiply(out, 2, out)
    return out, np.add.reduce(x), np.multiply.outer(x[0], y[0])
