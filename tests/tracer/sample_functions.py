"""Plain Python functions of every shape, with arguments, for tests that take them apart instruction by instruction."""

# The shapes are the point: what a linter or formatter would write shorter stays.
# ruff: noqa: B012, C408, C416, F821, F841, I001, PIE800, UP032
# fmt: off

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []  # function, arguments, keyword arguments
LOG: list[Any] = []  # effects outside of the arguments
COUNTER = 0


def called_with(*arguments: Any, **keywords: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the function with these arguments, which are copied for each run."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CALLS.append((function, arguments, keywords))
        return function

    return add


class Box:
    """An object with attributes, items, methods and operators that are plain to see."""

    def __init__(self, value: Any = 0):
        self.value = value
        self.items = {0: 1, "k": 2}

    def __getitem__(self, key: Any) -> Any:
        return self.items[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.items[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and (self.value, self.items) == (other.value, other.items)

    def add(self, number: Any, *more: Any, scale: Any = 1) -> Box:
        self.value += (number + sum(more)) * scale
        return self


class Manager:
    """A context manager that notes what happens, and swallows exceptions of one type."""

    def __init__(self, swallowed: type[BaseException] | tuple[()] = ()):
        self.swallowed = swallowed

    def __enter__(self) -> Manager:
        LOG.append("enter")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        LOG.append(("exit", kind, str(error)))
        return kind is not None and issubclass(kind, self.swallowed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Manager) and self.swallowed == other.swallowed


class Base:
    def greet(self, number: int) -> str:
        return f"base {number}"


class Derived(Base):
    @called_with(Base(), 3)
    def wrong_self(self, number):
        return super().greet(number)

    def greet(self, number):
        total = number
        for i in range(2):
            total += i
        return "derived " + super().greet(total)

    def captured(self, number):
        def inner():
            return self

        return inner() is self, super().greet(number)

    def replaced(self, number):
        old, self = self, Derived()
        return old is not self, super().greet(number)


CALLS.append((Derived.greet, (Derived(), 3), {}))
CALLS.append((Derived.captured, (Derived(), 3), {}))
CALLS.append((Derived.replaced, (Derived(), 3), {}))


@called_with(3, 4)
@called_with(1.5, -2)
@called_with("a", "b")
def arithmetic(a, b):
    c = a * 2 + b
    d = -c ** 2 // 3 % 7
    return ~(int(d) << 2) ^ 5 | 3 & 6, not a, +c, a @ b if c is None else c / 2


@called_with(6)
@called_with(0)
def loop_with_else(n):
    total = 0
    for i in range(n):
        if i == 2:
            continue
        if i == 5:
            break
        total += i
    else:
        total = -1
    return total, n


@called_with(4)
def loop_leaves_variable_unbound(n):
    for i in range(n - 4):
        last = i
    return last


@called_with(3)
def nested_loops(n):
    found = []
    for i in range(n):
        for j in range(i, n):
            if j == 2:
                break
            found.append((i, j))
        else:
            found.append("done")
    return found


@called_with(10)
def while_loop(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 100:
            break
    else:
        return "one", steps
    return n


@called_with(5)
def while_true(n):
    while True:
        n -= 1
        if n < 0:
            return n
        if n % 2:
            continue
        LOG.append(n)


@called_with(1)
@called_with(0)
@called_with("x")
def try_everything(x):
    path = []
    try:
        path.append("try")
        y = 1 / x
    except ZeroDivisionError as error:
        path.append(str(error))
        y = None
    except TypeError:
        path.append("type")
        y = 0
    else:
        path.append("else")
    finally:
        path.append("finally")
    return y, path


@called_with(0)
@called_with(2)
def finally_overrides(x):
    try:
        return 1 // x
    finally:
        if x == 0:
            return "swallowed"


@called_with([])
@called_with([1])
def return_through_finally(log):
    for i in range(3):
        try:
            log.append(i)
            if len(log) > 2:
                return log[5]
            if i == 1:
                continue
        finally:
            log.append("f")
    return "end"


@called_with(2)
@called_with(5)
def break_through_finally(n):
    out = []
    for i in range(10):
        try:
            if i == n:
                break
            out.append(i)
        finally:
            out.append(-i)
    return out


@called_with({"a": 1}, "b")
def nested_try(mapping, key):
    try:
        try:
            return mapping[key]
        except IndexError:
            return "index"
        finally:
            mapping["finally"] = True
    except KeyError as error:
        mapping["error"] = error.args
        raise ValueError("outer") from error


@called_with({})
def error_variable_is_gone(mapping):
    error = 1
    try:
        mapping["x"]
    except KeyError as error:
        pass
    return error


@called_with(Manager())
@called_with(Manager(ZeroDivisionError))
def with_statement(manager):
    value = 10
    with manager as m:
        value = 1 // (value - 10)
        value = m
    return value, "after"


@called_with(Manager(), Manager(KeyError), {})
@called_with(Manager(), Manager(KeyError), {"k": 3})
def two_managers(one, two, mapping):
    with one, two as t:
        return mapping["k"], t is two
    return "swallowed"


@called_with(3)
def with_in_loop(n):
    seen = []
    for i in range(n):
        with contextlib.suppress(ValueError):
            seen.append(i)
            if i == 1:
                raise ValueError(i)
            if i == 0:
                continue
            seen.append("tail")
    return seen


@called_with(4)
def closure_counts(n):
    total = 0

    def add(value):
        nonlocal total
        total += value
        return total

    results = [add(i) for i in range(n)]
    total *= 10
    return results, total, add(1)


@called_with([3, 1, 2])
def cell_parameter(items):
    key = {1: 9, 2: 5, 3: 7}
    ordered = sorted(items, key=lambda item: key[item] + len(items))
    items = ordered[1:]
    return ordered, items, (lambda: items)()


@called_with(2)
def unbound_cell(n):
    def read():
        return later

    if n > 2:
        later = 1
    return read()


@called_with(2)
def deleted_cell(n):
    def read():
        return n

    first = read()
    del n
    try:
        return read()
    except NameError as error:
        return first, str(error)


def make_adder(step: int, log: list[int]) -> Callable[[int], int]:
    def adder(value):
        log.append(step)
        for _ in range(2):
            value += step
        return value

    return adder


CALLS.append((make_adder(4, []), (1,), {}))


def make_counter() -> Callable[[], int]:
    count = 0

    def counter():
        nonlocal count
        if count > 1:
            count = 0
        count += 1
        return count

    return counter


CALLS.append((make_counter(), (), {}))


@called_with([1, 2, 3], 10)
def comprehensions(items, scale):
    i = "outer"
    squares = [i * i * scale for i in items if i != 2]
    pairs = {(a, b) for a in items for b in items if a < b}
    table = {i: [j for j in range(i)] for i in items}
    lazy = sum(scale * i for i in items)
    return i, squares, sorted(pairs), table, lazy


@called_with([1, 2, 3])
def comprehension_variable_is_local(items):
    doubled = [item + item for item in items]
    return doubled, [item for item in (item,) if item]


@called_with([1, 2, 0])
def comprehension_raises(items):
    x = 5
    try:
        x = [1 // x for x in items]
    except ZeroDivisionError:
        LOG.append(x)
    return x


@called_with([1, 2, 3])
def comprehension_with_cells(items):
    makers = [lambda: item + offset for item in items if (offset := item)]
    return [make() for make in makers], offset


@called_with([[1, 2], [3]])
def nested_comprehensions(rows):
    return [[x + len(row) for x in row] for row in rows], [x for row in rows for x in row]


@called_with(3.14159, "name", [1])
def f_strings(number, name, items):
    width = 8
    return f"{number:.2f} {name!r:>{width}} {items} {number=} {{}}" + f"{name!s}{len(items):d}"


@called_with(1, 2, 3, 4, key=5, other=6)
def star_arguments(a, b=2, *rest, key, other=None, **keywords):
    def collect(*args, **kwargs):
        return args, kwargs

    return collect(a, *rest, b, key=key, **{"other": other, **keywords}), collect(*rest), collect(**keywords)


@called_with(Box(1))
def keyword_calls(box):
    box.add(1, 2, scale=3).add(4)
    return dict(a=box.value, b=max(box.value, 2, key=lambda v: -v)), sorted([3, 1], reverse=True)


@called_with([1, [2, 3], 4, 5])
def unpacking(items):
    a, (b, c), *rest = items
    *head, tail = rest
    a, b = b, a
    a, b, c = c, a, b
    [first, second] = (a, b)
    return a, b, c, head, tail, first, second, [*rest, *head], (*rest, a), {*head, tail}, {**{"x": a}, "y": b}


@called_with([1, 2])
@called_with([1])
def unpacking_fails(items):
    found = []
    for pair in (items, items * 2):
        first, second = pair
        found.append(first + second)
    return found


@called_with(1)
@called_with(0)
def deletes_local(flag):
    value = 1
    if flag:
        del value
    return value


@called_with(0)
@called_with(1)
def maybe_unbound(flag):
    if flag:
        value = "bound"
    LOG.append("before")
    del_me = flag
    del del_me
    return value


@called_with([5, 3, 8])
def walrus(items):
    if (n := len(items)) > 2 and (top := max(items)) > 7:
        return n, top
    return n


@called_with(1, 2, 3)
@called_with(3, 2, 1)
@called_with(1, 5, 3)
def chained_comparison(a, b, c):
    return a < b < c, a <= b != c > 0, a in (b, c), a not in [b], a is b, a is not c, (a < b) == (b < c)


@called_with([], "x", 0)
@called_with([1], "", None)
def boolean_operators(a, b, c):
    d = a and b or c
    if not (a or b) and c:
        return "first"
    e = a or b or c
    return d, e, (a and b), not a and b


@called_with(3)
@called_with(-3)
def ternaries(x):
    sign = 1 if x > 0 else -1 if x < 0 else 0
    return sign, abs(x) if sign < 0 else (x if x > 5 else 5)


@called_with({"kind": "circle", "r": 2, "more": 1})
@called_with([1, 2, 3, 4])
@called_with(Box(3))
@called_with(7)
@called_with("text")
@called_with(None)
def match_statement(value):
    match value:
        case {"kind": "circle", "r": radius, **rest}:
            return "circle", radius, rest
        case [first, 2, *others]:
            return first, others
        case Box(value=3 | 4 as inner):
            return "box", inner
        case int(number) if number > 5:
            return "big", number
        case None | "nothing":
            return "none"
        case _:
            return "other", value


@called_with(1)
@called_with(0)
def asserts(x):
    assert x, f"not {x}"
    assert x == 1
    return x


@called_with(2)
def nested_functions(n):
    def outer(a, b=n, *, c=3):
        def inner(d):
            return a + b + c + d + n

        return inner

    twice = lambda f, x: f(f(x))  # noqa: E731
    return twice(outer(1), 10), [g(1) for g in (outer(2), outer(3, 4, c=5))]


@called_with([0, 1, 2, 3, 4, 5])
def slices(items):
    items[1:3] = ["a", "b", "c"]
    del items[-1:], items[0]
    return items[1:], items[::-1], items[:2], items[::2], items[-1], items[slice(0, 1)]


@called_with(Box(2), [1, 2, 3])
def augmented_assignment(box, items):
    box.value += 3
    box.value <<= 1
    box["k"] *= 4
    items[0] -= 5
    items[1:] += [9]
    items += [7]
    box.fresh = items
    del box["k"], box.fresh
    return box.value, box.items, items


@called_with(3)
def global_variable(n):
    global COUNTER
    COUNTER = 0
    for i in range(n):
        COUNTER += i
    return COUNTER, len(LOG)


@called_with([1, 2, 3])
def raises_half_way(items):
    for position, item in enumerate(items):
        items[position] = item * 2
        if item == 2:
            items.append(
                missing_name
            )
    return items


@called_with([1], 3)
def index_error_in_expression(items, n):
    total = 0
    while n:
        total += (items[0]
                  + items[n - 1])
        n -= 1
    return total


@called_with("given")
def raises_past_handlers(message):
    try:
        raise ValueError(message)
    except (TypeError, KeyError):
        return "no"
    finally:
        LOG.append("finally")


@called_with(1)
@called_with(2)
def bare_raise(n):
    try:
        [][n]
    except IndexError:
        if n == 1:
            raise
        return "handled"


@called_with(3)
def exception_in_handler(n):
    try:
        {}[n]
    except KeyError:
        for i in range(n):
            LOG.append(i)
        return n.missing


@called_with([1, 2])
def loop_in_try_in_loop(items):
    out = []
    for item in items:
        try:
            for other in [1, 0]:
                out.append(item // other)
        except ZeroDivisionError:
            out.append("zero")
            continue
        finally:
            out.append("f")
    return out


@called_with([1, "a", 2.5, None])
def exception_groups(values):
    caught = []
    try:
        raise ExceptionGroup("several", [ValueError(values[0]), TypeError(values[1]), KeyError(values[2])])
    except* ValueError as group:
        caught.append(len(group.exceptions))
    except* (TypeError, KeyError) as group:
        caught.append([str(e) for e in group.exceptions])
    return caught


@called_with(2)
def builds(n):
    t = (n, n + 1)
    items = [n, *t]
    s = {n, 3}
    d = {"a": n, **{"b": t}}
    d["c"] = items
    return t, items, s, d, [], (), {}, {1: 2, 3: n}, [1, 2, 3, 4], {1, 2, 3, 4}


def countdown(n: int) -> Iterator[int]:
    while n:
        yield n
        n -= 1


@called_with(4)
def consumes_generator(n):
    total = 0
    for i in countdown(n):
        total += i
        if total == 4:
            continue
        total += sum(j for j in countdown(i) if j > 1)
    return total, list(countdown(2)), next(iter(countdown(1)), None)


@called_with(2)
def imports(n):
    import math
    from os.path import basename as name, join

    return math.floor(n + 0.5), name(join("a", "b"))


@called_with(2)
def local_class(n):
    class Local:
        factor = n

        def scale(self, x):
            return x * self.factor + n

    return Local().scale(3), Local.__name__


@called_with(2)
def method_chains(n):
    text = " a,b ".strip().split(",").__len__().__add__(n)
    return "{}-{x}".format(text, x=[n, n].count(n)), "".join([str(i) for i in range(n)]).upper()


@called_with(3)
def recursion(n):
    return 1 if n < 2 else n * recursion(n - 1)


@called_with(4)
def many_locals(n):
    a = b = c = d = e = f = g = h = i = j = k = m = o = p = q = r = s = t = n
    u, v = a + t, b + s
    w, x = u + r, v + q
    for y in range(n):
        z, a = a + y, u + v
        w, x = x + z, w + a
    return a + b + c + d + e + f + g + h + i + j + k + m + o + p + q + r + s + t + u + v + w + x


def big_function(blocks: int, variables: int = 300) -> Callable[[int], Any]:
    """A function with more constants, names and distances than one byte can count."""
    lines = ["def big(n):", "    total = 0", "    for i in range(n):", "        if i == 1: continue"]
    for k in range(blocks):
        v = f"v{k % variables}"
        lines += [f"        {v} = total * {k + 1000} + {k}.5", f"        if {v} < 0: break", f"        total += {v} % 7"]
    lines += ["        if i == 3: total = total // 0", "    else:", f"        return total, {v}", "    return 'broken'"]
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), __file__, "exec"), globals(), scope)
    return scope["big"]


CALLS.append((big_function(300), (3,), {}))
CALLS.append((big_function(300), (4,), {}))
