"""Lists, dicts, sets, tuples, ranges, slices, strings and their methods, comprehensions and generator expressions."""

from __future__ import annotations

import numpy as np

from tests.tracer.bytecode.constructs import construct


@construct("list made and changed")
def list_methods(x, y):
    items = [x]
    items.append(y)
    items.insert(0, 3)
    items.extend([4, 5])
    items += [6]
    last = items.pop()
    first = items.pop(0)
    items.reverse()
    items.remove(5)
    copied = items.copy()
    items[0] = 9
    items[1:2] = [x + 1, 7]
    del items[0]
    return items, copied, last, first, len(items), copied[0], items * 2, [1] + [x]


@construct("list.sort, index, count, clear")
def list_order(x):
    order = [2, 0, 1, 2]
    order.sort()
    up = list(order)
    order.sort(key=lambda k: -k)
    down = order[:]
    order.sort(reverse=True)
    at, many = order.index(1), order.count(2)
    order.clear()
    return [x[k] for k in up], down, at, many, order


@construct("list from outside read", lambda r: [np.arange(3.0) + r, 2.0, [np.ones(3)]])
def list_read(items, x):
    a, b, (c,) = items
    return x * a + b * items[-1][0] + c, len(items), items[1:]


@construct("list from outside changed", lambda r: [np.arange(3.0) + r, 2.0])
def list_changed(items, x):
    items.append(x * 2)
    items[0] = x
    items += [3]
    del items[1]
    return x + len(items)


@construct("list from outside cleared and filled", lambda r: [1, 2])
def list_filled(items, x):
    items.clear()
    for k in range(3):
        items.append(x * k)
    items.reverse()
    return items.pop() + 1


@construct("list of lists from outside changed", lambda r: [[1.0], []])
def inner_list_changed(items, x):
    for inner in items:
        inner.append(x)
    return len(items[0]) + x


@construct("tuple")
def tuples(x, y):
    t = x, y, 3
    a, *rest = t + (4,)
    return t[0] + rest[0], t[1:], len(t), (3, x).index(3), (1, 2) < (1, 3), (1, 2).count(2), rest


@construct("dict made and changed")
def dict_methods(x, y):
    d = {"a": x, "b": y}
    d["c"] = x + y
    d.update({"e": 1}, f=2)
    d |= {"g": 3}
    d["a"] += 1
    found = d.pop("f"), d.pop("zz", None), d.setdefault("h", 5), d.setdefault("h", 6), d.setdefault("i"), d.get("q", y)
    del d["g"]
    last = d.popitem()
    merged = d | {"m": 0}
    total = sum(v for k, v in d.items() if k in ("a", "b"))
    return d, found, last, merged, total, list(d), sorted(d.keys()), "a" in d, "zz" not in d.keys(), len(d.values()), dict(d)


@construct("dict made by dict(), fromkeys, zip and a comprehension")
def dict_makers(x, y):
    made = dict(a=x, b=y), dict.fromkeys(["p", "q"], 0), dict(zip("uv", (x, y))), {k: v * 2 for k, v in {"a": x}.items()}
    empty = dict()
    empty.clear()
    return made, {**made[0], "c": 1}, {**made[1], **made[2]}, empty, list(reversed({"r": 1, "s": 2}))


@construct("dict from outside read", lambda r: {"w": np.arange(3.0) + r, 1: {"b": 2.0}})
def dict_read(d, x):
    return x * d["w"] + d[1]["b"], [*d], d.get("none"), "w" in d, {k: 1 for k in d}


@construct("dict from outside changed", lambda r: {"w": np.arange(3.0) + r, "n": 1})
def dict_changed(d, x):
    d["n"] += 1
    d["out"] = x * d["w"]
    d.update(more=x)
    d.setdefault("again", 3)
    old = d.pop("w")
    return old + d["out"]


def word_counts(round):
    return {"one": 1}


@construct("counting in a dict from outside", word_counts)
def dict_counted(counts, x):
    for word in ("one", "two", "one"):
        counts[word] = counts.get(word, 0) + 1
    return x * counts["one"]


@construct("dict keyed by tuples and numbers")
def dict_keys(x):
    table = {(0, 1): x, 2.5: x * 2, None: 3, np.float64: 4}
    table[0, 1] = table[0, 1] + 1
    return table[(0, 1)] + table[2.5], table[None], table[np.float64]


@construct("set made and changed")
def sets(x):
    s = {1, 2}
    s.add(3)
    s.discard(9)
    s.update([4], (5,))
    s.remove(1)
    t = s | {7} & {7, 8}
    u = {k * 2 for k in range(3)}
    return (
        x * len(t),
        3 in s,
        s,
        t - {7},
        s ^ {3},
        u,
        s <= t,
        s.issubset(t),
        set(),
        set([1, 1]),
        s.union([8]),
        sorted(u),
        s == {2, 3},
    )


@construct("frozenset")
def frozensets(x):
    axes = frozenset({0, 1})
    return x.sum(axis=0) if 0 in axes else x, axes | {2}, len(axes)


@construct("set from outside", lambda r: {"a", "b"})
def set_outside(names, x):
    names.add("c")
    return x * 2 if "a" in names else x, len(names)


@construct("range")
def ranges(x):
    r = range(1, 10, 3)
    total = x
    for k in r:
        total = total + k
    return total, r[1], r[-1], len(r), 4 in r, list(r), r[1:], range(3) == range(0, 3, 1), [*reversed(range(3))], r.start, r.step


@construct("slice")
def slices(x):
    s = slice(1, 3)
    rows, columns = slice(None, None, 2), slice(0, 2)
    return x[s] + 1, x[rows, columns] * 2, s.start, s.stop, s.indices(2), [1, 2, 3, 4][s], (1, 2, 3)[::-1], "abcd"[s]


@construct("str methods", "Sum,mean")
def strings(names, x):
    parts = names.lower().split(",")
    found = [getattr(np, part)(x) for part in parts]
    text = "-".join(parts).upper().replace("-", "+")
    tests = (
        text.startswith("S"),
        text.endswith(("N", "M")),
        "SUM" in text,
        text.find("M"),
        text[0],
        text.isupper(),
        text.strip("SN"),
    )
    return (
        found,
        text,
        tests,
        text * 2 + "!",
        len(text),
        "{} {x}".format(1, x=2),
        "%s-%d" % ("a", 3),
        text == "SUM+MEAN",
        ord("a"),
    )


@construct("f-string of constants")
def f_strings(x):
    name, n = "sum", 3
    text = f"{name!r:>8}|{n:03d}|{n}|{name}{x.ndim}"
    return getattr(x, f"{name}")(axis=0), text


@construct("f-string of a number from outside", 3, 2.5)
def f_string_of_number(n, v, x):
    return x * n, f"{n} {v:.2f}", str(n)


@construct("bytes")
def bytes_(x):
    raw = b"ab" + bytes([99])
    return x * raw[0], raw.decode(), len(raw), raw[1:]


@construct("list, dict and set comprehension")
def comprehensions(x, y):
    squares = [a * a for a in (x, y)]
    kept = [i * x for i in range(5) if i % 2]
    table = {f"k{i}": x + i for i in range(3)}
    numbers = {i % 3 for i in range(7)}
    return squares, kept, table, numbers


@construct("nested comprehensions")
def nested_comprehensions(x):
    return [[x[i, j] * k for j in range(2)] for i in range(2) for k in (1, 2)], {i: [j for j in range(i)] for i in range(3)}


@construct("comprehension over rows, with a closure and a walrus")
def comprehension_scopes(x, y):
    shift = 2.0
    rows = [row * shift + y[0] for row in x]
    sums = [last := row.sum() for row in x]
    return rows, sums, last


@construct("generator expression consumed in place")
def generator_expressions(x, y):
    total = sum(a * 2 for a in (x, y))
    best = max(i * i for i in range(4))
    made = tuple(a + 1 for a in [x, y]), list(i for i in range(3) if i), dict((k, x) for k in "ab"), "".join(c for c in "xy")
    return total, best, made, any(i > 2 for i in range(4)), all(a.ndim == 2 for a in (x, y)), set(i for i in range(2))


@construct("generator expression in a loop")
def generator_in_loop(x):
    total = np.zeros(3)
    for row in (r * 2 for r in x):
        total += row
    return total


@construct("generator expression advanced by next")
def generator_next(x):
    rows = (r * 2 for r in x)
    first = next(rows)
    return first + next(rows), next((i for i in range(9) if i > 4), None), next(iter([]), "none")


@construct("comparison of lists, tuples and dicts")
def comparisons(x):
    shape = x.shape
    return [1, 2] == [1, 2], (4, 3) == shape, shape != (4,), {"a": 1} == {"a": 1}, [1] < [2], () == [], x * 2


@construct("star-unpacking")
def unpacking(x, y):
    a, *b, c = [x, y, 3, 4]
    (d, e), *f = (x, y), 5
    first, *_ = x
    [*g] = (1, 2)
    m, n = x.shape
    return a, b, c, d + e, f, first, g, [*b, *f], (*g, c), {*g}, {**{"q": x}}, m * n


@construct("swap")
def swap(x, y):
    x, y = y, x
    a = b = x + y
    b, a, c = a, b + 1, y
    return x, y, a, b, c


@construct("containers in containers")
def nested_containers(x, y):
    state = {"layers": [{"w": x}, {"w": y}], "n": (1, [2])}
    state["layers"][0]["w"] = state["layers"][1]["w"] * 2
    state["n"][1].append(3)
    return [layer["w"] + 1 for layer in state["layers"]], state


@construct("one list under two names")
def aliases(x):
    a = [x]
    b = a
    b.append(x * 2)
    d = {"a": a}
    d["a"][0] = 3
    return a, b is a, a is d["a"], d


@construct("one list from outside under two names", lambda r: (shared := [1.0], [shared]))
def outside_aliases(both, x):
    a, (b,) = both
    a.append(1)
    return x * len(b), a is b
