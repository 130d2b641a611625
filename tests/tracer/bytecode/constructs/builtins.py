"""Python's built-in functions."""

from __future__ import annotations

import numpy as np

from tests.tracer.bytecode.constructs import construct


@construct("zip")
def zip_(x, y):
    total = 0
    for a, b, k in zip(x, y, range(2)):
        total = total + a * b * k
    return (
        total,
        list(zip([1, 2], "ab")),
        [*zip()],
        dict(zip("ab", x)),
        [*zip(*[(1, 2), (3, 4)])],
        [*zip([1, 2], [3, 4], strict=True)],
    )


@construct("enumerate")
def enumerate_(x):
    total = 0
    for k, row in enumerate(x, 1):
        total = total + k * row
    return total, list(enumerate("ab")), [*enumerate([x], start=2)]


@construct("map")
def map_(x, y):
    doubled = [*map(lambda a: a * 2, (x, y))]
    return doubled, list(map(np.add, (x, y), (y, 2))), sum(map(len, (x, [1]))), list(map(str, (1, 2))), tuple(map(int, "12"))


@construct("filter")
def filter_(x, y):
    kept = list(filter(lambda a: a.ndim == 2, (x, x[0], y)))
    return kept, [*filter(None, (0, 1, "", "a"))], list(filter(lambda k: k % 2, range(5)))


@construct("sorted")
def sorted_(x):
    order = sorted([2, 0, 1], reverse=True)
    pairs = sorted([("b", x), ("a", x * 2)], key=lambda p: p[0])
    return [x[k] for k in order], pairs, sorted("cab"), sorted({"k": 1, "j": 2}.items()), sorted((3, 1), key=lambda v: -v)


@construct("reversed")
def reversed_(x):
    total = 0
    for row in reversed([x[0], x[1]]):
        total = total * 2 + row
    for k in reversed(range(3)):
        total = total * 2 + k
    return total, list(reversed((1, 2))), "".join(reversed("ab")), [*reversed(x)]


@construct("any and all")
def any_all(x, y):
    return any([0, 1]), all(()), any(a.ndim > 2 for a in (x, y)), all(isinstance(a, np.ndarray) for a in (x, y)), x * 2


@construct("sum")
def sum_(x, y):
    return sum([x, y]), sum((x, y), 1.0), sum([1, 2, 3]), sum([[1], [x]], []), sum(x), sum(range(4)), sum([], start=x)


@construct("min and max of numbers")
def min_max(x):
    n = (
        min(x.shape),
        max(1, 5, 2),
        min([3, 1]),
        max("b", "a"),
        min(2.0, 3),
        max([1, -4], key=abs),
        max((), default=7),
        max([2, 3], default=0),
    )
    return x * n[0], n, min(x.shape[0], 10), max(len(x), 2)


@construct("len, abs, round, divmod, pow")
def numbers(x):
    n = len(x)
    return x * n, abs(-3), abs(x), round(2.567, 2), round(2.5), divmod(7, 2), pow(2, 3), pow(2, 5, 3), pow(x, 2), divmod(x, 2)


@construct("int, float, bool, complex, str of constants")
def conversions(x):
    return (
        x * int("3"),
        float(2),
        bool([]),
        bool(x.shape),
        complex(1, 2),
        str(3),
        int(2.7),
        repr("a"),
        chr(97),
        hex(10),
        bin(3),
        float("inf"),
    )


@construct("numbers of Python as inputs", 3, 2.5)
def number_inputs(n, v, x):
    return (
        x * n + v,
        n * 2,
        v / n,
        n // 2,
        int(n) + 1,
        float(n),
        abs(v),
        round(v, 1),
        n > 2,
        min(n, 5),
        n**2,
        -n,
        divmod(n, 2),
        n & 1,
        n << 1,
        bool(n),
    )


@construct("isinstance, issubclass, type")
def types(x):
    kinds = (
        isinstance(x, np.ndarray),
        isinstance(3, (str, int)),
        isinstance(x, int | float),
        issubclass(bool, int),
        type(x) is np.ndarray,
    )
    return x * 2, kinds, type(3).__name__, type([]) is list, type("a") is str, isinstance([x], list), isinstance({}, dict)


@construct("hasattr, getattr, setattr, callable, id of the same")
def attribute_functions(x):
    return (
        getattr(x, "T") + 0,
        hasattr(x, "nothing"),
        getattr(x, "nothing", 3),
        callable(np.sin),
        callable(x),
        getattr(np, "sum")(x),
    )


@construct("iter and next")
def iterators(x):
    it = iter([x, 2, 3])
    first = next(it)
    rest = list(it)
    rows = iter(x)
    return first * 2, rest, next(it, None), next(rows) + next(rows)


@construct("iter of a function and a sentinel")
def iter_sentinel(x):
    state = [3, 2, 1, 0, 5]
    return [x * k for k in iter(lambda: state.pop(0), 0)], state


@construct("tuple, list, dict, set, frozenset of iterables")
def constructors(x):
    return (
        tuple(x),
        list((x, 1)),
        dict([("a", x)]),
        set((1, 2)),
        frozenset([1]),
        list("ab"),
        tuple({"k": 1}),
        list(range(3)),
        [*{"k": x}.values()],
    )


@construct("slice, range, reversed objects built by call")
def built_objects(x):
    return x[slice(1, None)] + 1, list(range(4, 0, -2)), x[(slice(None), 1)] * 1, x[..., None] + 0


@construct("hash, ord, chr, format, ascii")
def text_functions(x):
    return x + ord("a"), chr(65), format(3, "03d"), ascii("é"), hash(3), format(2.5), "a".__len__()


@construct("print", why="it writes to a stream", breaks=1)
def print_(x):
    y = x * 2
    print(y.shape, end="", file=NoFile())
    return y + 1


class NoFile:
    def write(self, text):
        pass


@construct("vars and dir", why="they hand out the frame or an object's dict", breaks=None)
def vars_(x):
    y = x * 2
    return y, sorted(vars())


@construct("locals", why="it hands out the frame", breaks=None)
def locals_(x):
    y = x * 2
    return y, sorted(locals())


@construct("eval", why="it runs text", breaks=None)
def eval_(x):
    return x + eval("x * 2")
