"""Functions, methods, generators and classes inside a program, whose bodies are drawn statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tests.fuzz.blocks import drawn, indented, require
from tests.fuzz.templates import filled, statement, templates
from tests.fuzz.writer import Writer

# --- what a drawn body becomes: parameters, a first line, and the arguments of the calls

SIGNATURES = (
    ("$p", "", "$x"),
    ("$p", "", "$p=$x"),
    ("$p, *$p_r, **$p_k", "", "$x, 1, $y, a=3"),
    ("*$p_r", "$p, *$p_r = $p_r", "*[$x, $y]"),
    ("**$p_k", "$p = $p_k['x']", "**{'x': $x, 'y': 2}"),
    ("$p, /, $q=$y, *, $q_r=1", "", "$x, $q_r=$n"),
    ("$p=$x", "", ""),
    ("$q, $p=$s", "$p = $p * $q", "$x"),
    ("$p, $q=[]", "$q.append($p)", "$x"),
    ("$q", "$p, *$p_r = $q", "($x, $y)"),
)
USES = templates(
    """
$v = $f($given)

$v = $f($given)

$v = [$f($given) for $q in range(2)]

$v = functools.partial($f, $given)()

$v = (lambda: $f($given))()

$v = list(map(lambda $q: $f($given), NAMES))

for $i in range(3):
    $v = $f($given)

$v = twice($f)($given)

$v = ($f, $f($given))

$v = {'f': $f}['f']($given)

with Section('call'):
    $v = $f($given)

$v = $f($given) if $t else $y

$v = $t and $f($given)

try:
    $v = $f($given)
finally:
    LOG.append(len(LOG))

$v = helper($x), $f($given)

$v = $x.ndim
while $v < 3:
    $v += 1
    $v_r = $f($given)

$v = [*(lambda $q: ($q, $f($given)))($y)]

@twice
def $e($q):
    return $q, $f($given)
$v = $e(1)

def $e($q):
    return $f($given)
$v = $e(1), $e(2)
"""
)
CONSUMED = templates(
    """
$v = list($f($given))

$v = []
for $i in $f($given):
    $v.append($i)

$v = next($f($given), None)

$v = [$i for $i in $f($given)]

$v = dict(enumerate($f($given)))

$v = list(zip($f($given), $f($given)))

$v, *$v_r = $f($given)

$v = tuple($f($given)); $v_n = len($v)

for $v, $i in enumerate($f($given)):
    if $v == 1:
        break

$v = $f($given)
$v_n = next($v)

def $e():
    yield $x
    $i = yield from $f($given)
    yield $i
$v = list($e())

$v = sum(1 for $i in $f($given))

$v = any($i is $x for $i in $f($given))

$v = list(itertools.islice($f($given), 2))

$v = list(map(type, $f($given)))
"""
)


def stored(lines: Sequence[str]) -> set[str]:
    """Names that a body assigns in its own scope."""

    def walk(node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                return
            case ast.ExceptHandler(name=str(name)):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.Lambda():
                return
            case ast.comprehension():  # its targets are its own
                yield from walk(node.iter)
                return
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    return set(walk(ast.parse("\n".join(lines))))


def drawn_body(w: Writer) -> tuple[str, str, list[str], list[str]]:
    """A parameter, an example for it, lines of a body that uses it, and names that are there at its end."""
    p, x = w.name(), w.array()
    loops, w.loops = w.loops, 0
    try:
        lines, env = drawn(w, ["if True:", f"    {p} = {x}"], 4, w.statements)
    finally:
        w.loops = loops
    return p, x, lines[2:], list(env)


def drawn_function(w: Writer) -> None:
    p, x, body, names = drawn_body(w)
    f, own = w.name(), stored(["if True:", *body])
    parameters, first, given = w.pick(SIGNATURES)
    outside = sorted(own & {*w.env})
    kept = [name for name in outside if w.chance(2)]  # as parameters with a default; the others are nonlocal
    head = [parameters, *(f"{name}={name}" for name in kept)]
    if "**" in parameters or "*$p" in parameters:
        head, kept = [parameters], []
    shared = [name for name in outside if name not in kept]
    lines = [*([f"nonlocal {', '.join(shared)}"] if shared else []), *([first] if first else [])]
    local = [p, *sorted(own & {*names}), *list(w.env)[-3:]]
    returned = w.pick(["", f"return {w.pick(local[::-1])}", f"return {w.pick(local)}, {w.pick(local[::-1])}"])
    form = w.integer(0, 6)
    known = {"p": p, "x": x, "f": f}
    holes = filled(w, "\n".join([", ".join(head), given, *lines]), **known)
    head_text, known["given"], *lines = holes
    lines = [*indented(lines), *body]
    if form == 0:
        lines = yielding(w, lines, local)
    elif returned:
        lines.append(f"    {returned}")
    if form == 1:  # a method
        klass, owner = w.name(), w.name()
        text = [
            *[f"class {klass}({w.pick(['', 'Box', 'Model'])}):", f"    kept = {x}", f"    def {f}(self, {head_text}):"],
            *indented(lines),
            f"{owner} = {klass}({w.pick([x, '', '2'])})",
        ]
        known["f"] = f"{owner}.{f}"
    else:
        text = [f"def {f}({head_text}):", *lines]
    del known["p"]
    use = filled(w, w.pick(CONSUMED if form == 0 else USES), **known)
    require(w.add([*text, *[part for line in use for part in line.split("; ")]]))


def yielding(w: Writer, lines: list[str], names: list[str]) -> list[str]:
    """A body with yields between its statements."""
    clauses = ("else", "elif", "except", "finally", "case", "nonlocal")
    places = [k for k, line in enumerate(lines) if line[4] != " " and not line[4:].startswith(clauses)]
    for k in sorted({w.pick([*places, len(lines)]) for _ in range(w.integer(1, 3))}, reverse=True):
        lines = [*lines[:k], f"    {w.pick(['yield', 'yield', 'sent = yield'])} {w.pick(names)}", *lines[k:]]
    return lines


small_function = statement(
    *templates(
        """
def $f($p):
    return $p + $y
$v = $f($x)

$f = lambda $p, q=$y: ($p, q)
$v = [$f(r) for r in ($x, $y)]

def $f($p):
    $p[...] = 1
    return $y
$v = $f($x)

def $f($p):
    nonlocal $y
    $y = $p
    return $p.T
$v = $f($x)

def $f($p):
    if $p.ndim > 1:
        return $p[0]
    return $p
$v = $f($x), $f($y)

def $f($p):
    total = 0
    for r in range(3):
        total = total + $p * r
    return total
$v = $f($x)

def $f($p):
    def g(r):
        return r * $p
    return g($y)
$v = $f($x) if $x.ndim else $f($y)

def $f($p):
    record($p)
    return $p * 2
$v = [$f(r) for r in ($x, $y)]

def $f($p):
    if $r.any():
        return $p * 2
    return $p
$v = $f($x)

def $f():
    $p = 0
    def step(by=1):
        nonlocal $p
        $p += by
        return $p * $x
    return step
$v = $f()
$v_a = $v(), $v(2), $v()

def $f($p, n):
    return $p if n == 0 else $f($p + 1, n - 1)
$v = $f($x, 3)

$v = []
for $i in range(3):
    $v.append(lambda: $x * $i)
$v_a = [f() for f in $v]

$v = [(lambda k=k: $x * k) for k in range(2)]
$v_a = [f() for f in $v]

def $f(*args, **kwargs):
    return len(args), sorted(kwargs), args[0] * 2
$v = $f(*[$x, $y], **{'a': 1}, b=2)

$f = functools.reduce
$v = $f(lambda a, b: a + b.ndim, [$x, $y], $n)

$f = functools.lru_cache(lambda n: n * 2)
$v = $f($n) + $f($n)

def $f():
    global COUNT
    COUNT += $n
    return COUNT
$v = $f(), $f()

def $f():
    global MADE
    MADE = $x + 1
$f()
$v = MADE

async def $f($p):
    return $p * 2
try:
    $f($x).send(None)
except StopIteration as $e:
    $v = $e.value

def $f():
    $p = yield $x
    while True:
        $p = yield $p * 2
$v = $f()
$v_a = next($v), $v.send($y)
$v.close()

def $f():
    try:
        yield $x
    except ValueError as $e:
        yield str($e), $y
$v = $f()
$v_a = next($v), $v.throw(ValueError('thrown'))

def $f():
    $v = yield from ($x, $y)
    return $n
$v = []
$c = $f()
try:
    while True:
        $v.append(next($c))
except StopIteration as $e:
    $v.append($e.value)

@contextlib.contextmanager
def $f($p):
    LOG.append('in')
    try:
        yield $p * 2
    finally:
        LOG.append('out')
with $f($x) as $v:
    $v_a = $v + 1

def $f($p, $q=None, *, key=lambda r: r.ndim):
    $q = [] if $q is None else $q
    $q.append(key($p))
    return $q
$v = $f($y, $f($x))

def $f($p):
    $p = $p + 1
    del $p
    return $x
$v = $f($x)

def $f():
    return $v
$v = $x * 2
$v_a = $f()
$v = $y
$v_b = $f()

def $f($p):
    $f.calls = getattr($f, 'calls', 0) + 1
    return $p * $f.calls
$v = $f($x), $f($x), $f.calls

def $f($p):
    try:
        return $p * 2
    finally:
        LOG.append($n)
$v = $f($x)

def $f($p):
    for q in range(5):
        if q == $p.ndim:
            return q, $p * q
        LOG.append(q)
$v = $f($x), $f($y)

def $f($p):
    def g():
        nonlocal $p
        $p = $p * 2
    g()
    g()
    return $p
$v = $f($x)

$v = compiled_helper($x), compiled_helper($y, $n)

$v = np.vectorize(lambda p: p * 2, otypes=[float])($r)

$v = np.fromfunction(lambda i, j: i * $n + j, (2, 3))

$v = np.apply_along_axis(lambda r: r * $n, 0, $m)

$v = [f($x) for f in (helper, breaking_helper, opaque)]

$v = list(map(helper, [$x, $y], (1, 2)))

$v = sorted([$x, $y], key=lambda p: p.ndim)

$v = sorted(($x.ndim, $y.ndim, 2), reverse=True), max([$x, $y], key=np.ndim)

$f = $x.sum
$v = $f is None, callable($f)

$f = $x.reshape
$v = $f(-1)

$f = operator.itemgetter(0)
$v = $f([$x, 1])

$f = operator.attrgetter('shape', 'T')
$v = $f($x)

$v = functools.partial(helper, k=$s)($x)

$v = functools.partial(np.add, $x)($s)
"""
    )
)
