"""Lists, dicts, sets, globals and objects: made, read, and changed where the change outlives the call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.blocks import require
from tests.fuzz.templates import one_per_line, statement, templates
from tests.fuzz.writer import Writer


def container(w: Writer) -> None:
    """A new one, of what is there."""
    names = [n for n, v in w.env.items() if isinstance(v, (np.ndarray, np.generic, int, float))]
    require(names)
    items = [w.pick(names) for _ in range(w.integer(1, 3))]
    v = w.name()
    lines = [
        f"{v} = [{', '.join(items)}]",
        f"{v} = ({', '.join(items)},)",
        f"{v} = {{{', '.join(f'{k!r}: {x}' for k, x in zip('abc', items))}}}",
        f"{', '.join(f'{v}_{k}' for k in range(len(items)))}, = {', '.join(items)},",
        f"{v} = dict(zip('abc', [{', '.join(items)}]))",
        f"{v} = Pair({items[0]}, {items[-1]})",
        f"{v} = [[{items[0]}], {items[-1]}]",
        f"{v} = {{'a': [{items[0]}], 'b': {{'c': {items[-1]}}}}}",
    ]
    require(w.add([w.pick(lines)]))


USED = one_per_line("""
$l.append($x)
$l += [$x]
$l.extend(($x, $n))
$l.insert(0, $x)
$l[0] = $x
$v = $l[-1]
$v = $l.pop()
$v = $l.pop(0)
$v = $l[1:]
*$v, $v_l = $l
$v = [p for p in $l]
$v = [p * 2 for p in $l]
$v = len($l)
$l.reverse()
$l[0] += 1
$v = $l * 2
$v = $l + [1]
del $l[0]
$v = tuple($l)
$v = sum($l)
$v = $l.copy(); $v.append(1)
$l[1:] = [$x]
$l[:0] = $u
$l[0], $l[-1] = $l[-1], $l[0]
$l.clear()
$v = $l; $v += [$n]
$v = [*$l, $x]
$v = $l == [$x], $l is $l
$v = $n in [1, 2] and $l
$v = next(iter($l))
$v = list(reversed($l)); $v.pop()
$v, *$v_r = $u
$v = $u[0]
$v = list($u)
$v = $u[::-1]
$v = $u + ($x,)
$v = $u[0], *$u
$v = len($u), $u is $u
$v = $d['a']
$d['d'] = $x
$d['a'] += 1
$v = [*$d.values()]
$v = {**$d, 'e': $x}
$v = {p: q for p, q in $d.items()}
$v = $d.get('b', 2)
$v = $d.get('z'); $v_n = $v is None
$d.update(a=$x)
$v = list($d)
$v = $d.pop('a')
$v = $d.pop('z', 0)
$v = $d | {'f': $x}
$d |= {'g': $n}
$v = $d.setdefault('h', $x); $v_l = len($d)
$v = $d.setdefault('l', []); $v.append($x)
$v = 'a' in $d, 'z' not in $d
del $d['a']
$v = list($d.keys())[0], list($d.items())[-1]
$v = sorted($d)
$v = $d.copy(); $v['a'] = 0
$d['self'] = $n; $d.popitem()
$v = len($d) and $x
$v = {k: (p, k) for k, p in $d.items() if k != 'a'}
$d.clear()
$v = copy.copy($d); $v['z'] = 1
$v = copy.deepcopy($d)
$v = copy.deepcopy($l)
$v = copy.copy($x); $v += 1
$v = $u.index(1)
$v = $u.count(2)
$v = $l.index(99)
""")

STATEFUL = one_per_line("""
LOG.append($x)
LOG.append($n); LOG.append($x * 2)
LOG.extend([$n, $s])
LOG[0] = $x
LOG[0] += 1
$v = LOG.pop()
$v = LOG[-1]; LOG.append($v)
$v = len(LOG)
$v = LOG
del LOG[0]
LOG.insert(0, $n)
$v = [p for p in LOG]
REGISTRY['b'] = $x
REGISTRY['a'] = REGISTRY['a'] + $n
REGISTRY['a'] += 1
REGISTRY[$n] = $x.shape
$v = REGISTRY['a']; $v[0] = 5
$v = REGISTRY.get('b'); $v_n = $v is None
$v = REGISTRY.setdefault('c', [$n]); $v.append($x)
$v = REGISTRY.pop('a')
REGISTRY.update({'d': $x, 'e': $n})
$v = list(REGISTRY), len(REGISTRY)
SEEN.add($n); $v = $n in SEEN, len(SEEN)
SEEN.update([$n, 'a']); SEEN.discard('b')
SEEN.add($x.shape)
SHARED.data = $x
SHARED.data = SHARED.data + 1
SHARED.data += 1
SHARED.data[0] = $n
SHARED.uses += 1
$v = SHARED.touch(), SHARED.touch()
$v = SHARED.data; $v *= 2
$v = SHARED.data * $n
$v = SHARED.data.sum()
SHARED.extra = $x; $v = SHARED.extra is $x
$v = getattr(SHARED, 'extra', 3)
$v = hasattr(SHARED, 'extra'), hasattr(SHARED, 'data')
setattr(SHARED, 'late', $x + 1)
del SHARED.uses
$v = vars(SHARED)['uses']
Box.scale = $n; $v = Box($x).scaled()
Box.scale += 1
global COUNT; COUNT += 1
global COUNT; COUNT = COUNT * 2 + $n; $v = COUNT
global MADE; MADE = $x * 2
global MADE; MADE = [$x]; MADE.append($n)
global TABLE; TABLE = TABLE + 1; $v = TABLE
global TABLE; TABLE += $n
TABLE[0] = $n; $v = TABLE
TABLE[1:] *= 2
$v = COUNT, SCALE
$v = TABLE[::-1]; $v[0] = 7
$v = remembering($x), remembering($n)
STATE['last'] = $x
STATE.setdefault('calls', []).append($n)
print($n, $x.shape)
print('a', end=''); print($n)
$v = print($x.ndim)
record(len(LOG)); LOG.append(1); record(len(LOG))
$v = globals()['SCALE']
import math as $v; $v_p = $v.sqrt(4)
from operator import add as $v; $v_s = $v($x, 1)
""")

OBJECTS = templates(
    """
$v = Box($x)
$v_a = $v.scaled($n)
$v_b = $v.total

$v = Box($x)
$v.data = $v.data + 1
$v_a = $v.touch(), $v.touch()
$v_b = $v.data
$v = $v.uses

$v = Box($x)
$v.data += 1
$v = $v.data

$v = Box($x)
$v.data[0] = 2
$v = $v.data, $v.scale

$v = Box($x)

$v = Box($k)

$b.data = $x

$b.data *= 2
$v = $b.data

$v = $b.scaled(k=$n)

$v = $b.touch()

$b.uses = $n

$b.mine = $x
$v = $b.mine

$v = $b.scaled
$v = $v(2)

$v = Meter($x, unit='k')
$v.first = $n
$v_a = $v.first

$v = Meter($x)
$v_a = $v.kept
$v_b = $v.kept is $v_a

$v = Meter($x).plus_2

$v = Meter($x)
try:
    $v_a = $v.missing
except AttributeError as $e:
    $v_a = str($e)

$v = getattr(Meter($x), 'missing', 4)

$v = Meter.of($n, 2).data + Meter.made

$v = Meter.ratio($x, 2), Meter.made

$v = Meter($x).scaled(2)

$v = Vector($x) + 1
$v_a = $v.values

$v = 1 + Vector($x) * $n
$v_a = -$v

$v = Vector($x)
$v += $n
$v_l = $v.log

$v = Vector($x)
$v[0] = $n
$v_a = $v[0], len($v)

$v = Vector($x)($y, k=$n)

$v = Vector($x)
$v = [p for p in $v]

$v = $x in Vector($x), bool(Vector($x)), Vector($x) == Vector($y)

$v = 1 if Vector($x) else 2

$v = Vector($x) @ Vector($x)

$o += 1
$v = $o.values

$o[0] = $n

$v = $o + $o

$v = len($o), [p for p in $o]

$v = $o and 1

$v = {Vector($x): 1}[Vector($x)]

$v = Settings(rate=$s)
$v.names.append('a')
$v_a = $v.apply($x)

$v = Settings(data=$x)
$v.data = $v.data * 2
$v_a = Settings() == Settings()

$v = Size($n, 3)
$v_a = $v.rows * $v.columns, $v == Size($n, 3), str($v)

$v = Pair($x)
$v_a = $v.left * $v.right

$v = Pair($x, right=$y)._replace(right=1)

$v, $v_b = Pair($x, $n)

$v = Point($x, $n)
$v_a = $v.x * $v.y, $v[0], $v._fields

$v = Color.RED
$v_a = $v is Color.RED, $v.value * $x, $v.name

$v = Color(2) == Color.BLUE, [c.value for c in Color]

$v = Model($x)
$v_a = $v($y)
$v.weight = $n
$v_b = $v($y)

$v = Model($n, a=$x)
$v_a = $v.options['a'] * $v.weight

$h.rate = $n

$v = $h.weight

$v = doubled($x)

$v = described($x), described($n), described('a')

$v = keyword_only($x, scale=$n, b=2)

$v = isinstance($a, Box), type($a).__name__

$v = Counter('abca')
$v['a'] += $n
$v_m = $v.most_common(1)

$v = defaultdict(list)
$v['k'].append($x)
$v['k'].append($n)
$v = dict($v)

$v = OrderedDict(a=$x, b=$n)
$v.move_to_end('a')

class $c(Box):
    scale = 3
    def scaled(self, k=1):
        return super().scaled(k) - self.scale
$v = $c($x).scaled($n)

class $c:
    count = 0
    def __init__(self):
        $c.count += 1
        self.rows = [$x]
    def add(self, p):
        self.rows.append(p)
        return self
$v = $c().add($y).add($n)
$v_n = $c.count, len($v.rows)

class $c:
    def __enter__(self):
        LOG.append('in')
        return $x
    def __exit__(self, *error):
        LOG.append('out')
with $c() as $v:
    $v_a = $v * 2

class $c:
    def __init__(self, n):
        self.n = n
    def __iter__(self):
        return self
    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n * $x
$v = [p for p in $c(3)]

class $c:
    @property
    def size(self):
        return self.data.size
    def __init__(self, data):
        self.data = data
    @staticmethod
    def made(p):
        return $c(p)
    @classmethod
    def named(cls):
        return cls.__name__
$v = $c.made($x).size, $c.named()

class $c(Exception):
    pass
try:
    raise $c($n)
except $c as $e:
    $v = $e.args

$v = helper($x)

$v = helper($x, $s, $y, b=$s)

$v = helper(*[$x, 3], **{'b': 2})

$v = recursive($x, $n)

$v = [helper(p, k) for p, k in zip(($x, $y), (1, 2))]

$v = breaking_helper($x)

$v = breaking_helper($x, $x.ndim) + breaking_helper($y)

$v = [*rows($m)]

$v = rows($m, 1)
$v_a = next($v)
$v_b = next($v, None)

$v = check_positive($x)

$v = (p for p in [$x, $y] if p.ndim)
$v = list($v)

$v = SHARED
$v.data = $x
"""
)

used: Callable[[Writer], None] = statement(*USED)
stateful = statement(*STATEFUL)
objects = statement(*OBJECTS)
