"""Statements and expressions: match, walrus, comparisons, conditions, loops, assert, del, global, with, try, raise."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np

from tests.tracer.bytecode.constructs import construct

STATE = {"weights": np.arange(3.0)}
COUNT = 0
SCALE = 2.0


@dataclasses.dataclass
class Shape:
    kind: str
    size: object = 1


@construct("match of constants and sequences")
def match_sequence(x):
    match x.shape:
        case (n,):
            return x * n
        case (4, n) if n > 5:
            return x
        case (n, 3 | 5 as m):
            return x * n + m
        case _:
            return None


@construct("match of strings and None", "mean")
def match_string(mode, x):
    match mode:
        case "sum" | "total":
            return x.sum()
        case None:
            return x
        case "mean":
            return x.mean(axis=0)


@construct("match of a mapping", {"op": "scale", "by": 3.0, "more": 1})
def match_mapping(options, x):
    match options:
        case {"op": "shift", "by": by}:
            return x + by
        case {"op": "scale", "by": by, **rest}:
            return x * by, rest


@construct("match of classes")
def match_class(x):
    out = []
    for item in (Shape("square", x), Shape("round"), 3, [1, x], "s", x):
        match item:
            case Shape("square", size=size):
                out.append(size * 2)
            case Shape(kind=kind):
                out.append(kind)
            case int(number):
                out.append(number)
            case [first, *rest]:
                out.append(first)
            case str():
                out.append("text")
            case np.ndarray():
                out.append("array")
    return out


@construct("match of an object from outside", lambda r: Shape("square", np.arange(3.0) + r))
def match_outside(item, x):
    match item:
        case Shape("round"):
            return x
        case Shape("square", size):
            return x * size


@construct("walrus")
def walrus(x):
    if (n := len(x)) > 3 and (y := x * 2).ndim == 2:
        return y + n
    return n


@construct("chained comparison of numbers", 3)
def chained_comparison(n, x):
    return 1 < n <= 3 < 5, 1 < n < 2, x.shape[0] == 4 != n, x * n


@construct("conditional expression", True)
def conditional(flag, x, y):
    scale = 2 if flag else 3
    return x * scale if x.ndim == 2 else y, y if not flag else None


@construct("boolean operators", None, "k")
def boolean_operators(a, b, x):
    return a or x, b and x * 2, a or b or 3, not a, (a is None) and x + 1, (b or a) == "k" and a is None


@construct("comparison with is, in and None", None)
def identity(axis, x):
    y = x
    return (
        x is y,
        x is not None,
        axis is None,
        x.ndim in (1, 2),
        "a" not in {"b": 1},
        x.sum() is None,
        y * 2,
        x.dtype is np.dtype(float),
    )


@construct("loop with break, continue and else")
def loop_control(x):
    for k in range(6):
        if k == 1:
            continue
        if k == 4:
            break
        x = x + k
    else:
        x = x * 100
    for _ in range(2):
        x = x * 2
    else:
        x = x + 1
    while True:
        k -= 1
        if k < 2:
            break
    return x, k


@construct("while loop")
def while_loop(x):
    n = 10
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        x = x + n
    return x, n


@construct("nested loops")
def nested_loops(x):
    out = np.zeros((2, 3))
    for i in range(2):
        for j in range(3):
            if (i + j) % 2:
                out[i, j] += x[i, j]
    return out


@construct("loop over the rows of an array")
def loop_over_rows(x):
    out = []
    for row in x:
        out.append(row * 2)
    return out


@construct("long loop")
def long_loop(x):
    for k in range(40):
        x = x * 0.5 + k
    return x


@construct("assert")
def asserts(x):
    assert x.ndim == 2, "two axes"
    assert len(x)
    return x * 2


@construct("assert that fails", breaks=1, why="it raises, which is done natively")
def assert_fails(x):
    y = x * 2
    assert y.ndim == 3, f"not {y.ndim}"
    return y


@construct("del of locals, items and slices")
def deletes(x):
    y = x * 2
    items, table = [1, 2, y, 4, 5], {"a": 1, "b": 2}
    del items[0], table["a"], items[2:]
    del y
    return items, table


@construct("global read")
def global_read(x):
    return x * SCALE + STATE["weights"]


@construct("global set")
def global_set(x):
    global COUNT
    COUNT = 1
    y = x * 2
    COUNT += 1
    return y, COUNT


@construct("global array set")
def global_array(x):
    global LAST
    LAST = x * 2
    return LAST + 1


@construct("global container changed")
def global_changed(x):
    STATE["weights"] = np.arange(3.0)
    STATE["last"] = x[0] * 2
    STATE["weights"] += 1
    return x * STATE["weights"]


@construct("annotations and pass")
def annotations(x):
    y: np.ndarray = x * 2
    z: int
    ...
    pass
    return y


@construct("augmented assignment of names, items and attributes")
def augmented(x):
    items, table = [1.0, x], {"a": x}
    items[0] += 2
    items[1] *= 2
    table["a"] -= 1
    shape = Shape("s", 2)
    shape.size **= 3
    n = 7
    n //= 2
    n <<= 2
    n |= 1
    n %= 8
    x @= np.eye(3)
    return items, table, shape.size, n, x


@construct("chained assignment and multiple targets")
def assignments(x):
    a = b = [x]
    (c, d), [e, f] = (1, 2), x[:2]
    a[0], table = 3, {}
    table["k"], table["l"] = c, d
    return b, e + f, table


@construct("with np.errstate")
def errstate(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = x / (x - x)
    return np.isinf(y)


class Scope:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return 2.0

    def __exit__(self, kind, error, trace):
        self.log.append("out")
        return kind is KeyError


@construct("with of a user's manager")
def user_manager(x):
    log = []
    with Scope(log) as scale:
        y = x * scale
    with Scope(log), contextlib.suppress(ValueError):
        {}["none"]
    return y + len(log), log


@construct("with contextlib.nullcontext and suppress")
def library_managers(x):
    with contextlib.nullcontext(3) as n, contextlib.suppress(ZeroDivisionError):
        x = x * n
        n // 0
        x = x * 100
    return x + 1


@construct("try without an exception")
def try_passes(x):
    try:
        y = x * 2
    except ValueError:
        y = x
    else:
        y = y + 1
    finally:
        z = x + 1
    return y + z


@construct("try with an exception", breaks=1, why="NumPy raises")
def try_catches(x):
    path = []
    try:
        y = x.reshape(7, 7)
    except (TypeError, ValueError) as error:
        path.append(type(error).__name__)
        y = x * 2
    finally:
        path.append("finally")
    return y + 1, path


@construct("exception raised and caught in nested blocks")
def nested_try(x):
    out = []
    for k in range(3):
        try:
            try:
                out.append(x * (6 // k))
            finally:
                out.append(k)
        except ZeroDivisionError:
            continue
    return out


@construct("raise", breaks=1, why="it raises, which is done natively")
def raises(x):
    y = x * 2
    if y.ndim == 2:
        raise ValueError("two axes")
    return y


@construct("raise from and re-raise", breaks=1, why="NumPy raises")
def reraises(x):
    total = x.sum(axis=0)
    try:
        try:
            total[10]
        except IndexError as error:
            raise KeyError("outer") from error
    except KeyError:
        total = total * 2
        raise


@construct("error half way, after effects", [], breaks=1, why="NumPy raises")
def error_half_way(log, x):
    log.append(1)
    x[0] = 7
    y = x * 2
    log.append(2)
    y.reshape(100)
    log.append(3)
    return y


@construct("return in a finally and break out of a try")
def finally_returns(x):
    for k in range(3):
        try:
            x = x + 1
            if k == 1:
                break
        finally:
            x = x * 2
    try:
        return x // 1
    finally:
        x += 100


def rows(x):
    for row in x:
        yield row * 2


@construct("generator")
def generators(x):
    return [row + 1 for row in rows(x)], sum(rows(x))


async def doubled(x):
    return x * 2


@construct("coroutine", breaks=2, why="coroutines run natively")
def coroutines(x):
    made = doubled(x)
    try:
        made.send(None)
    except StopIteration as stop:
        return stop.value + 1


@construct("branch on data")
def branch_on_data(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y + 1


@construct("branch on data that leaves an argument")
def branch_that_leaves_an_argument(x):
    most = np.abs(x).max()
    if most > 1:
        x = x / most
    first = x[0] if x[0, 0] > 0.5 else x[1]
    return x - first


@construct("comparison of sizes as a value, and what is computed of sizes")
def computed_sizes(x):
    rows, columns = x.shape
    parts = divmod(rows, columns), min(rows, columns, 2), abs(columns - rows), rows % 3
    return x[: min(rows, 2)] * (rows > columns), parts, not rows > 5, f"{x.shape} {rows > 1}", "%d" % rows  # noqa: UP031


@construct("ellipsis, None and constants of all kinds")
def constants(x):
    return x[..., 0] + 1, x[None].shape, ..., None, True, 1j, b"a", (1, ("a", 2.5)), -0.0


@construct("docstring and nested expression statements")
def expression_statements(x):
    """A docstring."""
    x * 2
    "text"
    return x.T @ x
