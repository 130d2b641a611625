"""Branches, loops, try, with and match statements, whose bodies are drawn statements."""

from __future__ import annotations

from tests.fuzz.blocks import drawn, indented, require
from tests.fuzz.expressions import condition
from tests.fuzz.statements import assign, inplace, setitem
from tests.fuzz.templates import filled, statement, templates
from tests.fuzz.writer import Writer

# --- loops

LOOPS = (
    *["for $p in range($n):", "for $p in $x:", "for $p, $q in enumerate($x):", "for $p, $q in zip($x, $y):"],
    *["for $p in range(20):", "for $p in range(18):", "for $p in range($x.ndim - 1, -1, -1):", "for $p in range(3):"],
    *["for $p in $u:", "for $p, $q in enumerate($u, 1):", "for $p, $q in $d.items():", "for $p in list($d):"],
    *["for $p in reversed(range($n)):", "for $p, ($q, $c) in enumerate(zip($x, $y)):", "for $p in itertools.count():"],
    *["for $p in map(helper, [$x, $y]):", "for $p in ($q * 2 for $q in $x):", "for $p in rows($x, 2):", "for $p in 'abc':"],
    *["for $p in np.ndindex(2, 2):", "for $p, $q in itertools.product(range(2), NAMES):", "for $p in sorted({3, 1, 2}):"],
    *["for $p in $x.flat:", "for $p in filter(None, [0, $n, 2]):", "for $p in iter([$x, 1]):", "for $p in (1, $x, 'c'):"],
)
LIST_LOOPS = ("for $p in $l:", "for $p, $q in enumerate($l):", "for $p, $q in zip($l, range(5)):", "for $p in reversed($l):")


def loop(w: Writer) -> None:
    template = w.pick(LOOPS if w.iterated or w.chance(2) else (*LOOPS, *LIST_LOOPS * 2))
    over_list = template in LIST_LOOPS
    header = filled(w, template)
    require(w.breaks or not ("18" in template or "20" in template))
    w.iterated += over_list
    w.loops += 1
    try:
        lines, _ = drawn(w, header, 3, (*w.statements, *[leave_loop] * 4))
    finally:
        w.iterated -= over_list
        w.loops -= 1
    if "count()" in template:  # it has no end of its own
        lines += indented(filled(w, "if $c > 2:\n    break", c=header[0].split()[1]))
    if w.chance(5):
        lines += ["else:", *indented(filled(w, w.pick(AFTERWARDS)))]
    require(w.add(lines))


def while_loop(w: Writer) -> None:
    v = w.name()
    limit = w.pick(["2", "3", *w.numbers(int)[-1:], f"min({w.array()}.ndim, 3)"])
    test = w.pick([f"{v} < {limit}", f"{v} < {limit}", f"{v} < 3 and {condition(w)}", f"({v}_w := {v} + 1) < {limit}"])
    require(w.add([f"{v} = 0"]))
    w.loops += 1
    try:
        lines, _ = drawn(w, [f"while {test}:", f"    {v} += 1"], 2, (*w.statements, leave_loop))
    finally:
        w.loops -= 1
    if w.chance(5):
        lines += ["else:", *indented(filled(w, w.pick(AFTERWARDS)))]
    require(w.add(lines))


AFTERWARDS = ("$v = $x * 2", "LOG.append($x)", "$x = $y", "pass", "$v = $t")


def leave_loop(w: Writer) -> None:
    require(w.loops)
    leave = w.pick(["break", "continue", "break", "continue", f"return {w.pick(list(w.env))}"])
    effect = w.pick([[], [], [f"    LOG.append({w.pick(list(w.env))})"]])
    require(w.add([f"if {condition(w)}:", *effect, f"    {leave}"]))


def multiple_return(w: Writer) -> None:
    """Leave early, for a reason that may hold in some rounds only."""
    limits = [f"{w.pick(w.arrays())}.size > {w.pick(['10', '100', '4'])}", condition(w)]
    require(w.add([f"if {w.pick(limits)}:", f"    return {w.pick(list(w.env))}"]))


# --- branches


def branch(w: Writer) -> None:
    lines, _ = drawn(w, [f"if {condition(w)}:"], 2, w.statements)
    others = []
    if w.chance(4):
        others += drawn(w, [f"if {condition(w)}:"], 1, w.statements)[0]
        others[0] = f"el{others[0]}"
    if w.chance(2):
        others += ["else:", *drawn(w, ["if True:"], 2, (assign, setitem, inplace, *w.statements[:10]))[0][1:]]
    require(w.add([*lines, *others]))


def joining_branch(w: Writer) -> None:
    """Arms that give the same names values of the same kind: a candidate for a branch in the graph."""
    x, y, v = w.array(), w.array(), w.name()
    arms = [w.pick([f"{x} + {y}", f"{x} * 2", f"-{x}", f"{x}", f"{x} - {y}", f"{x}.copy()", f"{x}[::-1]"]) for _ in range(2)]
    more = w.pick([[], [], [f"    {x} = {x} * 1"], [f"    {v}_b = {arms[0]}"], [f"    {x} += 1"]])
    lines = [f"if {condition(w)}:", f"    {v} = {arms[0]}", *more, "else:", f"    {v} = {arms[1]}", *w.pick([more, []])]
    require(w.add(lines))


match_statement = statement(
    *templates(
        """
match $x.shape:
    case ($p,):
        $v = $p
    case ($p, $q) if $p == $q:
        $v = $x.T
    case ($p, *_):
        $v = $p, $x
    case _:
        $v = None

match $a:
    case np.ndarray(ndim=1, size=$p):
        $v = $p
    case int() | float() as $p:
        $v = $p + 1
    case [$p, *$q]:
        $v = $q
    case {'a': $p, **$q}:
        $v = $p, $q
    case Box(data=$p):
        $v = $p * 2
    case Pair($p, $q):
        $v = $q
    case None | 'abc':
        $v = 'none'
    case _:
        $v = $x

match ($x.ndim, $y.ndim):
    case (1, 1):
        $v = $x + 1
    case (2, $p) | ($p, 2):
        $v = $p * $x
    case _:
        $v = 0

match {'kind': 'a', 'data': $x}:
    case {'kind': 'b'}:
        $v = 0
    case {'kind': str($p), 'data': $q}:
        $v = $p, $q * 2

match Point($x, $n):
    case Point(x=$p, y=1):
        $v = $p
    case Point($p, $q):
        $v = $p * $q

match Color($n if $n in (1, 2) else 1):
    case Color.RED:
        $v = $x + 1
    case Color.BLUE:
        $v = $x - 1
"""
    )
)


# --- exceptions

FAILING = (
    *["$v = $x[100]", "$v = $x[$x.shape[0]]", "$v = $x + np.ones(17)", "$v = $x.reshape(7, 11, 13)", "$v = $x.sum(axis=9)"],
    *["$v = 1 // ($x.ndim - $n)", "$v = $n % ($x.ndim - 2)", "raise Refused('no', $n)", "raise KeyError('k')", "$v = {}['k']"],
    *["if $t:\n    raise Refused('data', 1)", "$v = $x.nothing", "assert not $t, 'held'", "assert $t", "check_positive($x)"],
    *["check_positive(-abs($r), 'y')", "$v = next(iter(()))", "$v = int('a')", "$v = undefined", "$v, $v_b, $v_c = $x"],
    *["helper()", "$x[100] = 1", "$v = LOG[7]", "$v = [1, 2][$n + 5]", "np.concatenate([$x, np.ones((2, 2, 2, 2))])"],
    *["raise Refused('class')", "$v = $x.T @ np.ones((19, 2))", "$v = REGISTRY['b']", "np.stack([$x, $x[None]])", "del LOG[5]"],
    *["raise RuntimeError($x.ndim) from None", "$v = keyword_only($x, 2)", "$v = keyword_only(x=$x)", "$v = Settings(nothing=1)"],
    *["$v = np.linalg.inv(np.zeros((2, 2)))", "$v = Size(1).area", "Size(1).rows = 2", "$v = Color(7)", "LOG.remove(99)"],
    *["$v = list(zip($x[:2], [1], strict=True))", "$v = $x.reshape(-1)[$x.size + 2]", "$v = bool(np.ones(3))", "$v = float('x')"],
    *["$v = 'a' + $x.ndim", "$v = len(3)", "$v = $x['a']", "$v = $x.astype('nothing')", "$v = np.arange(3).reshape($x.size, 2)"],
    *["$x += np.ones(23)", "$v = $k", "$v = $x * 2", "raise ExceptionGroup('several', [ValueError(1), Refused('in', $n)])"],
)
HANDLERS = templates(
    """
except (IndexError, ValueError):
    $v = $x

except (IndexError, ValueError):
    pass

except Exception as $e:
    $v = type($e).__name__, str($e)

except Exception as $e:
    $v = $e

except Exception as $e:
    $v = $e.args, isinstance($e, LookupError)

except ZeroDivisionError:
    $v = $x * 0
except (TypeError, AttributeError):
    $v = $x * 1

except Refused as $e:
    $v = $e.code
except ValueError:
    $v = 'value'

except LookupError as $e:
    raise RuntimeError('again') from $e

except TypeError as $e:
    raise ValueError(str($e))

except Exception:
    LOG.append('failed')
    raise

except Exception as $e:
    $e.add_note('noted')
    raise

except:
    $v = $x.ndim

except Exception:
    $v = opaque($x)

except Exception:
    try:
        $v = $y[100]
    except IndexError as $e:
        $v = str($e.__context__)

except Exception:
    return $a

except* ValueError as $e:
    $v = len($e.exceptions)
"""
)
LAST = templates(
    """
finally:
    LOG.append($x.ndim)

finally:
    $v_f = $x * 1

finally:
    record('finally')

finally:
    $x = $y
"""
)


def with_failure(w: Writer, lines: list[str]) -> list[str]:
    """A body, with a statement that may raise somewhere in it."""
    places = [
        k for k, line in enumerate(lines) if line[4] != " " and not line[4:].startswith(("el", "except", "finally", "case"))
    ]
    k = w.pick([*places, len(lines)])
    failing = indented(filled(w, w.pick(FAILING)))
    return [*lines[:k], *failing, *lines[k:]]


def try_statement(w: Writer) -> None:
    body = drawn(w, ["if True:"], 2, (*w.statements, *([leave_loop] * 4 if w.loops else [])))[0][1:]
    lines = ["try:", *(with_failure(w, body) if not w.chance(4) else body)]
    form = w.integer(0, 5)
    if form:
        lines += filled(w, w.pick(HANDLERS))
        if w.chance(3):
            lines += drawn(w, ["if True:"], 2, w.statements)[0][1:]  # more of the last handler
        elif w.chance(5) and lines[-1] != "raise":
            lines += ["else:", *indented(filled(w, w.pick(AFTERWARDS)))]
    if not form or w.chance(3):
        lines += filled(w, w.pick(LAST))
    require(w.add(lines))


WITHS = (
    *["with np.errstate(all='ignore'):", "with np.errstate(divide='raise', invalid='raise'):", "with np.errstate(all='warn'):"],
    *[
        "with Section('a') as $v:",
        "with Section('b', ValueError, IndexError):",
        "with announced($x) as $v:",
        "with Section('d'):",
    ],
    *[
        "with contextlib.suppress(Exception):",
        "with Section('c'), announced($n) as $v:",
        "with contextlib.nullcontext($x) as $v:",
    ],
    *["with contextlib.ExitStack() as $v:\n    $v.callback(LOG.append, 5)\n    $v_s = $v.enter_context(Section('e'))"],
)


def with_statement(w: Writer) -> None:
    header = filled(w, w.pick(WITHS))
    lines = drawn(w, header, 3, (*w.statements, *([leave_loop] * 4 if w.loops else [])))[0]
    head, body = lines[: len(header)], lines[len(header) :]
    failing = "suppress" in head[0] or "ValueError" in head[0] or w.chance(8)
    require(w.add([*head, *(with_failure(w, body) if failing else body)]))


def raising(w: Writer) -> None:
    """Something that raises, in some rounds at least, and ends the program."""
    w.body += ["    " * w.indent + line for line in filled(w, w.pick(FAILING))]


# --- loops that fill an array, and other idioms of loops

element_loops = statement(
    *templates(
        """
$v = np.zeros($m.shape)
for $i in range($m.shape[0]):
    $v[$i] = $m[$i] * $i

$v = np.zeros_like($m)
for $i in range(1, len($m)):
    $v[$i] = $v[$i - 1] + $m[-$i]

$v = []
for $i in range(len($m)):
    $v.append($m[$i])
    if $i == 2:
        break
else:
    $v = ($v, 1)

$v = 0
for $i in $r:
    $v = $v + $i

$v = []
for $i, $j in zip($m, $m[::-1]):
    $v += [$i * $j]

$v = $m.copy()
for $i in range(len($v) // 2):
    $v[$i], $v[-1 - $i] = $v[-1 - $i], $v[$i]

$v = np.zeros($m.T.shape)
for $i in range($m.shape[0]):
    for $j in range($m.shape[-1]):
        $v[$j, $i] = $m[$i, $j]

$v = 0
for $i in $m:
    for $j in np.atleast_1d($i):
        $v = $v + $j
        if $j is $i:
            continue
        $v = $v + 1

$v = 0
while $r.max() > $v < 40:
    $v += 2

$v = $r.copy()
for $i in range(25):
    $v = $v * 0.5
    if abs($v).max() < 1:
        break

$v = 0
for $i in range($r.ndim):
    if $r[$i].any():
        $v += 1
        record($v)

$v = [opaque(p) for p in $m]

$v = 0
for $i in iter([$x, $x]):
    try:
        $v = $v + $i
        record($i.shape)
    finally:
        $v = $v * 2

for $i in range(4):
    try:
        if $i == 1:
            continue
        if $i == 2:
            break
        $v = $x * $i
    finally:
        LOG.append($i)

for $i in range(3):
    with Section($i):
        if $r.min() < 0 and $i:
            break
        $v = $x[None] * $i

$v = 0
while True:
    $v += 1
    if $v > $x.ndim:
        break
    npc.graph_break()

$v = {}
for $i in $m:
    $v[len($v)] = $i
    $v.setdefault('shapes', []).append(np.shape($i))

for $i in range(3):
    for $j in range(3):
        if $i + $j > $x.ndim:
            break
    else:
        LOG.append($j)
        continue
    LOG.append($i)

$v = [$x]
while len($v) < 4:
    $v.append($v[-1] * 2)

$v, $v_b = 0, 1
for $i in range($x.size):
    $v, $v_b = $v_b, ($v + $v_b) % 100

$v = iter([$x, $y, 1])
$v_a = next($v)
for $i in $v:
    $v_a = $i

$v = $x
for $i in range($n):
    $v = $v[..., None] if $v.ndim < 4 else $v

for $i, $v in enumerate([$x, $y]):
    $v += 1

for $v in [$x, $y]:
    $v = $v + 1
"""
    )
)
