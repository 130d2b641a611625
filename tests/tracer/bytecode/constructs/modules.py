"""math, operator, itertools, functools, collections and copy of the standard library."""

from __future__ import annotations

import cmath
import collections
import copy
import itertools
import math
import operator

import numpy as np

from tests.tracer.bytecode.constructs import construct


@construct("math of constants")
def math_constants(x):
    return (
        x * math.pi + math.sqrt(2) - math.floor(2.7),
        math.factorial(4),
        math.gcd(12, 8),
        math.comb(5, 2),
        math.prod([1, 2, 3]),
        math.inf,
        math.isnan(2.0),
    )


@construct("math of numbers from outside", 4, 2.5)
def math_inputs(n, v, x):
    return (
        x * math.sqrt(n),
        math.exp(v),
        math.floor(v),
        math.ceil(v),
        math.log(v),
        math.hypot(v, n),
        math.pow(v, 2),
        math.isnan(v),
        math.isfinite(v),
        math.isqrt(n),
        math.trunc(v),
        math.radians(v),
        math.atan2(v, n),
        math.copysign(v, -1),
        math.fsum([v, n]),
        math.gcd(n, 6),
        math.factorial(n),
        math.log(v, 2),
    )


@construct("math of an element")
def math_of_element(x):
    return math.sqrt(x[0, 0]) * x


@construct("cmath")
def cmath_(x):
    return x * cmath.exp(1j * math.pi), cmath.sqrt(-1), cmath.phase(1j)


@construct("operator functions")
def operators(x, y):
    made = (
        operator.add(x, y),
        operator.mul(x, 2),
        operator.neg(x),
        operator.getitem(x, 1),
        operator.truediv(x, y),
        operator.matmul(x, y.T),
    )
    more = (
        operator.sub(x, y),
        operator.pow(x, 2),
        operator.lt(x, y),
        operator.eq(3, 3),
        operator.not_([]),
        operator.is_(x, x),
        operator.index(3),
        operator.contains([1], 1),
    )
    return (
        made,
        more,
        operator.and_(x > 1, y > 1),
        operator.invert(x > 1),
        operator.abs(-x),
        operator.concat([1], [2]),
        operator.truth(()),
        operator.xor(1, 3),
        operator.floordiv(x, 2),
    )


@construct("operator in-place functions")
def inplace_operators(x, y):
    a = x.copy()
    b = operator.iadd(a, y)
    operator.setitem(a, 0, 5)
    return a, b is a, operator.imul(a, 2)


@construct("operator.itemgetter, attrgetter, methodcaller")
def getters(x):
    second, both = operator.itemgetter(1), operator.itemgetter(0, 1)
    pairs = sorted([(2, "a"), (1, "b")], key=operator.itemgetter(0))
    return (
        second([1, x]) + 1,
        both((x, 2)),
        operator.attrgetter("shape")(x),
        operator.attrgetter("T.shape")(x),
        operator.methodcaller("sum", axis=0)(x),
        pairs,
    )


@construct("itertools.product, combinations, permutations")
def combinatorics(x):
    pairs = [x[i, j] for i, j in itertools.product(range(2), repeat=2)]
    return (
        pairs,
        [x[i] * x[j] for i, j in itertools.combinations(range(3), 2)],
        list(itertools.permutations([1, 2])),
        list(itertools.combinations_with_replacement("ab", 2)),
        [*itertools.product([x], "ab")],
    )


@construct("itertools.chain, repeat, islice, zip_longest")
def chains(x, y):
    both = [a * 2 for a in itertools.chain([x], [y, 1])]
    rows = list(itertools.islice(x, 1, 3))
    return (
        both,
        rows,
        list(itertools.repeat(x, 2)),
        list(itertools.zip_longest([1], [2, 3], fillvalue=0)),
        [*itertools.chain.from_iterable([[x], [2]])],
    )


@construct("itertools.count and cycle")
def endless(x):
    total = x
    for k, row in zip(itertools.count(2), x):
        total = total + k * row
    for sign, row in zip(itertools.cycle([1, -1]), x):
        total = total + sign * row
    return total, next(itertools.count(5)), list(itertools.islice(itertools.count(1, 2), 3))


@construct("itertools.accumulate, pairwise, starmap, takewhile, dropwhile, compress, groupby")
def itertools_more(x, y):
    sums = list(itertools.accumulate([x, y, x])), list(itertools.accumulate([1, 2, 3], operator.mul))
    pairs = [b - a for a, b in itertools.pairwise(x)]
    star = list(itertools.starmap(np.add, [(x, y), (x, 1)]))
    some = (
        list(itertools.takewhile(lambda k: k < 2, range(5))),
        list(itertools.dropwhile(lambda k: k < 2, range(4))),
        list(itertools.compress([x, y], [0, 1])),
        list(itertools.filterfalse(None, [0, 1])),
    )
    return sums, pairs, star, some


@construct("itertools.groupby")
def groupby(x):
    return [(k, len(list(g))) for k, g in itertools.groupby([1, 1, 2])], x * 2


@construct("copy of arrays and containers")
def copies(x, y):
    a = copy.copy(x)
    a += 1
    items = [x, [y]]
    shallow, deep = copy.copy(items), copy.deepcopy(items)
    deep[0] *= 2
    return a, x, shallow[1] is items[1], deep, copy.copy({"k": x}), copy.deepcopy(3), copy.copy((1, 2))


class Parts:
    def __init__(self, data):
        self.data = data
        self.names = ["a"]


@construct("copy of an object", lambda r: Parts(np.arange(3.0) + r))
def copied_object(obj, x):
    made = copy.copy(obj)
    return made.data * x


@construct("deepcopy of an object", lambda r: Parts(np.arange(3.0) + r))
def deepcopied_object(obj, x):
    made = copy.deepcopy(obj)
    made.data += 1
    return made.data * x + obj.data


@construct("collections.deque", breaks=5, why="an object of C code with a state of its own")
def deque(x):
    last = collections.deque(maxlen=2)
    for k in range(3):
        last.append(x * k)
    return sum(last), len(last)


@construct("collections.defaultdict", breaks=8, why="a class of dicts whose items appear when they are read")
def defaultdict(x):
    groups = collections.defaultdict(list)
    for k in range(4):
        groups[k % 2].append(x[k])
    return {k: sum(v) for k, v in groups.items()}


@construct("collections.OrderedDict", breaks=5, why="a class of dicts with an order of its own")
def ordered_dict(x):
    d = collections.OrderedDict(a=x, b=2)
    d["c"] = 3
    return d["a"] * d["b"], list(d)


@construct("collections.Counter", breaks=3, why="a class of dicts whose items appear when they are read")
def counter(x):
    counts = collections.Counter("aab")
    return x * counts["a"] + counts["z"]


@construct("import inside the function")
def imports(x):
    import math as m
    from functools import reduce

    import numpy.linalg
    import os.path

    return x * m.pi + reduce(lambda a, b: a + b, [1, 2]), numpy.linalg.norm(x), os.path.basename("a/b")
