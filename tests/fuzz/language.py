"""Tables of lines: expressions of the language around arrays, random numbers, arrays of other kinds, operations on anything."""

from __future__ import annotations

from tests.fuzz.blocks import indented, require
from tests.fuzz.templates import filled, one_per_line, statement
from tests.fuzz.writer import Writer

LINES = one_per_line("""
$v = $x if $t else $y
$v = $t and $x
$v = $t or $x
$v = [p * 2 for p in ($x, $y) if p.ndim]
$v = sum(p.size for p in ($x, $y))
$v = ($v_w := $x * 2) * $v_w
assert $t
$v = slice(1, None); $v_s = $x[$v]
$v = $x[(0, slice(None))]
$v = f'{$x.shape} {$x.ndim:>3} {$x.dtype}'
$v = f'{$n!r:>5}', f'{$n:03d}', f'{$x.ndim + 1}'
$v = 'a-b'.split('-'), '%d' % $n, '{} {}'.format($n, 2), ','.join(NAMES), 'abc'[$n:], 'ab' * $n, 'Ab'.upper()
$v = max(len($x), $y.ndim)
$v = math.sqrt($x.size) * $x.ndim
$v = math.floor($x.ndim / 2), math.pi * $n, math.prod($x.shape), math.gcd(4, $n)
$v = $x * SCALE + RATE
$v = TABLE * $x
$v = TABLE
$v = $x.shape; $v_n = np.zeros($v)
$v, $v_m = $x.shape
$v, *$v_m = $x.shape
$v = $x; del $v
$v = {k: $x * i for i, k in enumerate(NAMES)}
$v = $x.dtype
$v = $x.flags.c_contiguous, $x.strides, $x.itemsize
$v = $x is $y, $x is $x
$v = list(map(lambda p: p + 1, [$x, $y]))
$v = [g() for g in [lambda: $x, lambda: $y]]
$v = any(p.ndim > 1 for p in [$x, $y])
$v = all(p.size for p in ($x, $y)), any([])
$v = sorted([$x.size, $y.ndim, 2])
$v = isinstance($x, np.ndarray), type($y)
$v = range($x.ndim); $v_l = len($v)
$v = range($n, 5), range($n)[-1], $n in range(3), list(range(5, 0, -$n))
$v = [*$x.shape, $x.ndim]
$v = ($x,) + ($y,)
$v = $x.copy().T.base is None
$v = dict(a=$x, b=1)['a']
$v = [[$x, $y], $x][0][1]
$v = 1 < $x.ndim <= $y.ndim < 4
$v = $x.ndim in (1, 2), 'a' in NAMES
$v = divmod($x.size, 3)
$v = $x[$y.ndim - 1]
$v = np.shape($x), np.ndim($y), np.size($x)
$v = (1 + 2j) * $x.ndim; $v_c = $v * $x
$v = (0.5 + $x.ndim) ** 2; $v_f = $x * $v
$v = $x.size / 2, $x.size // -2, -$x.ndim % 3, $x.ndim ** 2, $x.size << 1, $x.size & 6
$v = $x.copy(); $v.shape = (-1,)
np.copyto($v := np.empty_like($x), $x)
$v = [p.sum() for p in $r]
$v = $r.sum() * 2 + 1
$v = sum($r)
$v = list($x)
$v, *$v_r = $m
$v = [p for p in $m[::-1]]
$v = max([$x.ndim, 2]) * $r.min()
$v = $r.tolist()
$v = [[p * q for p in ($x, $y)] for q in range(2)]
$v = [(p, q) for p in range(2) for q in range(p + 1) if p != q or $n]
$v = {p.ndim for p in ($x, $y)}, {$n, 2} | {3}, frozenset((1, $n)), {1, 2} & {$n}
$v = {p.ndim: p for p in ($x, $y)}
$v = [$v_w := $x.ndim, $v_w + 1]
$v = [$v_w for p in ($x, $y) if ($v_w := p.ndim) > 1]
$v = (lambda *p, **q: (p, q))($x, 1, k=$n)
$v = (lambda p, /, q=$x, *, r: p + r)($y, r=1)
$v = not $x.ndim, not ($x.ndim and $y.ndim), ~$n, +$n, $n ^ 1, $n | 4, $n >> 1
$v = None is None, $x is not None, ... is Ellipsis
$v = $n == 2 == $x.ndim, $n < 3 > 1 != 0
$v = $x.ndim and $y.ndim or 5
$v = (($x, 1), [$y, {'k': $n}])[1][1]['k']
$v = [1, 2, 3][$n:], (1, 2, 3)[-$n], 'abc'[::-1], [1, 2, 3][slice(None, None, 2)]
$v = $x[..., 0], $x[None, ...], $x[slice(0, 1)]
$v_a, ($v_b, *$v_c), $v = $x, (1, 2, $y), 3
$v = $v_b = $x * 2; $v += 1
($v, $v_b), $v_c = [$x, $y], 1
for $v in range(2): pass
$v = [None] * 2; $v[1] = $x
$v = [0] * $n; $v.append($x)
$v = [[0] * 2 for p in range(2)]; $v[0][1] = $x
$v = zip([$x, 1], ($y, 2)); $v = list($v)
$v = list(zip(*[($x, 1), ($y, 2)]))
$v = list(enumerate([$x, $y], start=$n))
$v = [*map(np.ndim, ($x, $y))], [*filter(None, (0, $n))], list(map(max, (1, 2), ($n, 3)))
$v = min($x.ndim, $y.ndim, 3), max((1, $n)), min([3], default=0), max([], default=$n)
$v = abs(-$n), round(2.567, $n), pow(2, $n), pow(3, 2, 5), divmod(-7, 2), bool($n), int(2.7), float($n)
$v = str($n), repr($x.ndim), chr(97 + $n), ord('a'), hex($n), bin($n), len('abc')
$v = isinstance($n, (int, str)), issubclass(Meter, Box), callable(helper), hasattr($x, 'T'), getattr($x, 'ndim')
$v = type($n) is int, type($x) is np.ndarray, type($x) == type($y)
$v = sum([1, $n], 2), sum(($x.ndim, $y.ndim)), sum([[1], [$n]], [])
$v = operator.add($x, 1), operator.mul($n, 2), operator.neg($x)
$v = functools.reduce(operator.add, [1, $n, 3]), functools.reduce(lambda p, q: p + q.ndim, [$x, $y], 0)
$v = list(itertools.chain([$x], (1, 2))), list(itertools.accumulate([1, $n, 3]))
$v = [p for p, _ in itertools.groupby([1, 1, $n])], list(itertools.zip_longest('ab', [$x]))
$v = next(iter([$x, $y])), next(iter([]), $n), list(reversed([$x, 1])), list(reversed(range($n)))
$v = tuple(p for p in ($x, 1)), list(p for p in 'ab'), set(range($n)), dict([('a', $x)])
$v = [*range($n), *'ab', *[$x]], {**{'a': $x}, 'b': $n}
$v = (yes := $n) + yes
$v: int = $n + 1
$v: list = [$x]; $v[0] = $v[0] * 2
$v = ($x + 1, $x * 2)[$n > 1]
$v = {'a': lambda: $x, 'b': lambda: $y}['a']()
$v = $x.__class__.__name__, $x.__len__() if $x.ndim else 0
$v = $x.shape == $y.shape, $x.shape < (3,), $x.shape + (1,), $x.shape[::-1], $x.shape[-1:]
$v = np.zeros($x.shape[:1] + (2,)), np.ones((*$x.shape, 1))
$v = $x.shape[0] * 2 - 1; $v_a = np.arange($v)
$v = len($m); $v_a = $m[: $v // 2]; $v_b = $m[$v // 2 :]
$v = $m[len($m) - 1], $m[-len($m)]
$v = $m.shape[0]; $v_a = $m / $v, $m * $v, $v - $m
$v = $m.size / len($m); $v_a = $m.astype(float) * $v
($v := np.empty(len($m)))[:] = $n
$v = $n * 1.5; $v_a = $x * $v; $v_b = $v > 2
$v = float($n) / 2 + $n ** 2 - $n % 2; $v_a = $v * $x
$v = bool($r.any()), int($r.max()), float($r.min())
$v = $r.sum().item(); $v_a = $v * $x
$v = [float(p) for p in $r.ravel()[:3]]
$v = $r.max() if $r.min() < 0 else $r.min()
$v = $x[$r > 0] if $r.shape == $x.shape else $x
$v = np.where($r > 0, $r, 0).sum()
if ($v := $r.sum()) > 0: LOG.append($v)
$v = $x.any() or $y
$v = npc.graph_break(); $v_a = $x + 1
$v = [$x * 2, npc.graph_break(), $y]
$v = helper($x + opaque(1), *opaque([2, $y]))
$v = {'a': opaque($x), 'b': $y * 2}
$v = opaque($x) if $t else opaque($y)
$v = [opaque(p) for p in ($x, $y)], $n
$v = f'{opaque($n)} {$x.ndim}'
$v = opaque(helper)($x)
$v = opaque($x).sum(axis=0) * $n
$x[opaque(0)] = $s
$x[...] = opaque($y)
opaque(LOG).append($n)
$v = $x[opaque(slice(None, 1))]
$v = opaque(lambda p: p * 2)($x)
$v = eval('$n + 1')
$v = sorted(locals())[:1]
$v = np.array([$n, $x.ndim]), np.array([[p, 2] for p in range(2)])
$v = np.asarray([$x.shape, $x.shape])
$v = [np.add, np.multiply][$n > 1]($x, 2)
for $v in (np.negative, np.square): $v_a = $v($x)
$v = $x[:]; $v += 1
$v = $x.T; $v *= 2
$v = $x[::-1]; $v[0] = $s
$v = $x.reshape(-1); $v[:1] = $s; $v_b = $x + 1
$v = $m[0]; $m[0] = $s; $v_b = $v * 1
$v = $m[1:]; $v += $m[:-1]
$m[0], $m[-1] = $m[-1], $m[0]
$m[:] = $m[::-1]
$v = $x; $v += 1; $v = $v + 1; $v_b = $x
""")
RANDOM = one_per_line("""
$v = $g.random(3)
$v = $g.random($x.shape)
$v = $g.integers(0, 5, $x.shape)
$v = $g.integers(9)
$v = $g.normal(size=$n)
$v = $g.standard_normal()
$v = $g.uniform(0, $n, (2, 2))
$v = $g.permutation($n + 2)
$v = $g.choice(4)
$g.shuffle($m)
$v = $g.random() > 0.5
$v = [$g.integers(5) for p in range(3)]
$v = $g.random(2) + $g.random(2)
$v = $g
if $t: $v = $g.random(2)
if $g.random() < 0.5: LOG.append($x)
$v = np.random.default_rng($n).random($x.shape)
""")
OTHER_ARRAYS = one_per_line("""
$v = $w + 1
$v = $w * $x
$v = $w[0]
$v = $w[::-1]
$v = $w.T
$v = $w == $w
$v = $w.sum()
$v = $w.copy(); $v[0] = $w[1]
$w[0] = $w[-1]
$v = np.sort($w)
$v = len($w), $w.dtype, $w.shape
$v = [p for p in $w]
$v = np.concatenate([$w, $w])
$v = np.asarray($w)
$v = type($w).__name__
$v = helper($w)
$v = np.where(True, $w, $w)
$v = $w.astype(str)
$v = $w.reshape(-1)
""")
ANYTHING = one_per_line("""
$v = $a + $A
$v = $a - $A
$v = $a * $A
$v = $a / $A
$v = $a // $A
$v = $a % $A
$v = $a ** $A
$v = $a @ $A
$v = $a | $A
$v = $a & $A
$v = $a << $A
$a += $A
$a *= $A
$a -= $A
$a |= $A
$v = $a == $A
$v = $a != $A
$v = $a < $A
$v = $a >= $A
$v = $a is $A
$v = $A in $a
$v = $a and $A
$v = $a or $A
$v = $a[$A]
$v = $a[0]
$v = $a[1:]
$v = $a[::-1]
$a[0] = $A
$a[$A] = $s
del $a[0]
$v = $a if $A else 0
$v = not $a
$v = -$a
$v = ~$a
$v = abs($a)
$v = len($a)
$v = [p for p in $a]
for $v in $a: LOG.append($v)
$v, *$v_r = $a
$v, $v_b = $a
$v = [*$a]
$v = ($A, *$a)
$v = {**$a}
$v = helper(*$a)
$v = helper($a, $A)
$v = $a($A)
$v = $a.shape
$v = $a.T
$v = $a.data
$v = $a.real
$v = $a.copy()
$a.append($A)
$v = list($a)
$v = tuple($a)
$v = bool($a)
$v = float($a)
$v = int($a)
$v = max($a)
$v = sorted($a)
$v = set($a)
$v = dict($a)
$v = enumerate($a); $v = list($v)
$v = list(zip($a, $A))
$v = list(map(helper, $a))
$v = isinstance($a, (int, list, np.ndarray)), type($a).__name__, callable($a)
$v = getattr($a, 'shape', 2), hasattr($a, '__len__')
$v = np.asarray($a)
$v = np.shape($a), np.ndim($a)
$v = np.add($a, $A)
$v = np.maximum($a, $A)
$v = np.stack([$a, $A])
$v = np.array([$a, $A])
$v = np.where($a, $A, 0)
$v = np.isfinite($a)
$v = np.zeros($a)
$v = np.full(2, $a)
$v = np.broadcast_to($a, (2, 2))
$v = np.reshape($a, -1)
$v = copy.copy($a)
$v = copy.deepcopy($a)
$v = range($a)
$v = slice($a, $A)
""")


def anything(w: Writer) -> None:
    """An operation on whatever is there; when it raises, what it raises is often kept."""
    lines = filled(w, w.pick(ANYTHING))
    if not w.chance(3):
        handler = filled(w, "except Exception as $e:\n    $v = type($e).__name__, str($e)")
        lines = ["try:", *indented(lines), *handler]
    require(w.add(lines))


other_arrays = statement(*OTHER_ARRAYS)
python_code = statement(*LINES)
random_numbers = statement(*RANDOM)
