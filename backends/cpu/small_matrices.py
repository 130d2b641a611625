"""C for stacks of matrices of 2 to 4 rows: determinants, inverses, equations, eigenvalues of symmetric ones.

LAPACK is called once for each matrix, and such a call takes longer than their arithmetic. Here the matrices of a tile lie
side by side in the lanes of vectors, and each statement is one on all of them. Equations are solved by the LU factorization
with partial pivoting, rows changing places by choosing; eigenvalues are found by Jacobi's rotations. As in NumPy, float32 is
computed in 64 bits.

A matrix whose result could be of another kind in NumPy is left to NumPy: those that are nearly singular, so that LinAlgError
is NumPy's, and those with numbers that are not finite, too large or too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.cpu.loader import load
from npcompile.backends.cpu.primitives import c_type
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.op import OPS

ROWS = range(2, 5)
MOST_COLUMNS = 4  # of a right side
LANES = 8
GRAIN = {"det": 4096, "inv": 4096, "solve": 4096, "eigvalsh": 1024}  # matrices that are not worth a second thread
SWEEPS = 16  # of Jacobi's rotations: more than 6 have not been seen

# The product of the pivots, each relative to the largest element, bounds what rounding can make of the last one. Where it is
# no larger than this, a matrix that LAPACK finds singular may be regular here, and the reverse.
NEARLY_SINGULAR = 2.0**-45
SMALLEST = 1e-290  # of a product of pivots that is exact to its last bits
LEAST, MOST = 1e-140, 1e140  # of eigenvalues: squares of these can be computed

SORTED = {2: [(0, 1)], 3: [(0, 1), (1, 2), (0, 1)], 4: [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]}  # exchanges that sort


@dataclass(frozen=True, slots=True)
class Kind:
    """What a unit computes."""

    op: str
    rows: int
    columns: int  # of the right side and the result
    dtype: np.dtype
    uplo: str

    @property
    def read(self) -> list[tuple[int, int]]:
        """The places in memory of a matrix's elements, by row."""
        n = self.rows
        if self.op != "eigvalsh":
            return [(i, j) for i in range(n) for j in range(n)]
        return [(max(i, j), min(i, j)) if self.uplo == "L" else (min(i, j), max(i, j)) for i in range(n) for j in range(i, n)]

    @property
    def made(self) -> int:
        """How many numbers the result of a matrix is."""
        return {"det": 1, "eigvalsh": self.rows}.get(self.op, self.rows * self.columns)


@dataclass(slots=True)
class Body:
    """Statements about one matrix, in the loop over lanes."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def name(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"const double t{self.count} = {text};")
        return f"t{self.count}"

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.name(f"{condition} ? {a} : {b}")

    def largest(self, names: list[str]) -> str:
        """Of absolute values; anything where one is not a number."""
        found, *rest = [self.name(f"__builtin_fabs({x})") for x in names]
        for x in rest:
            found = self.choose(f"{x} > {found}", x, found)
        return found


def form_of(node: Node) -> Callable[..., Any] | None:
    """What computes the node, called like its op's meaning in NumPy; None where the matrices are not small, or complex."""
    kind = kind_of(node)
    if kind is None:
        return None
    compute = load(text_of(kind), [kind.dtype, np.dtype(np.bool_)]).call
    meaning, dtype = OPS[node.op].eager, kind.dtype

    def call(*operands: Any, **params: Any) -> Any:
        arrays = [np.asarray(x, dtype, order="C") for x in operands]
        result, *doubtful = compute(*arrays)
        if doubtful:
            (where,) = doubtful
            result[where] = meaning(*(x[where] for x in arrays), **params)
        return result

    return call


def kind_of(node: Node) -> Kind | None:
    if node.op not in GRAIN or any(x.dtype.char not in "fd" for x in (node, *node.inputs)):
        return None
    rows = node.inputs[0].shape[-1]
    columns = {"inv": rows, "solve": node.shape[-1] if node.meta.ndim else 0}.get(node.op, 0)
    if type(rows) is not int or rows not in ROWS or type(columns) is not int or columns > MOST_COLUMNS:
        return None
    if node.op == "solve" and not columns:
        return None
    return Kind(node.op, rows, columns, node.dtype, node.params.get("uplo", ""))


# --- the arithmetic

# x - a * b, rounded once where the processor can, as in BLAS.
LESS = """
#if defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__aarch64__) /* the first is GCC's */
#define npc_less(x, a, b) __builtin_fma(-(a), b, x)
#else
#define npc_less(x, a, b) ((x) - (a) * (b))
#endif
"""


def factorize(body: Body, a: list[list[str]], b: list[list[str]]) -> tuple[str, str]:
    """Gaussian elimination of `a`, with `b` beside it. Gives the sign of the rows' exchange and the condition of no doubt."""
    n = len(a)
    scale = body.largest([x for row in a for x in row])
    regular, sign = "1.0", "1.0"
    for k in range(n):
        for i in range(k + 1, n):  # the largest comes first, as partial pivoting has it
            is_larger = f"__builtin_fabs({a[i][k]}) > __builtin_fabs({a[k][k]})"
            for rows, first in ((a, k), (b, 0)):
                for j in range(first, len(rows[k])):
                    x, y = rows[k][j], rows[i][j]
                    rows[k][j], rows[i][j] = body.choose(is_larger, y, x), body.choose(is_larger, x, y)
            sign = body.choose(is_larger, f"-{sign}", sign)
        regular = body.name(f"{regular} * (__builtin_fabs({a[k][k]}) / {scale})")
        for i in range(k + 1, n):
            factor = body.name(f"{a[i][k]} / {a[k][k]}")
            for j in range(k + 1, n):
                a[i][j] = body.name(f"npc_less({a[i][j]}, {factor}, {a[k][j]})")
            b[i] = [body.name(f"npc_less({y}, {factor}, {x})") for x, y in zip(b[k], b[i])]
    return sign, f"{regular} > {NEARLY_SINGULAR!r}"


def determinant(body: Body, a: list[list[str]]) -> tuple[list[str], str]:
    sign, is_regular = factorize(body, a, [[] for _ in a])
    made, conditions = sign, [is_regular]
    for k, row in enumerate(a):
        made = body.name(f"{made} * {row[k]}")
        conditions += [f"__builtin_fabs({made}) > {SMALLEST!r}", f"__builtin_fabs({made}) < {1 / SMALLEST!r}"]
    return [made], all_of(conditions)


def all_of(conditions: list[str]) -> str:
    return " & ".join(f"({c})" for c in conditions)  # all are computed: a branch would keep the loop from being one of vectors


def equations(body: Body, a: list[list[str]], b: list[list[str]]) -> tuple[list[str], str]:
    _, is_regular = factorize(body, a, b)
    n = len(a)
    for i in reversed(range(n)):
        for c in range(len(b[i])):
            left = b[i][c]
            for j in range(i + 1, n):
                left = body.name(f"npc_less({left}, {a[i][j]}, {b[j][c]})")
            b[i][c] = body.name(f"{left} / {a[i][i]}")
    return [x for row in b for x in row], is_regular


def rotations(n: int) -> Iterator[str]:
    """One sweep of Jacobi's method over a symmetric matrix whose upper triangle is in `a` (Golub and Van Loan, 8.5)."""
    place = {(i, j): f"a[{k}][l]" for k, (i, j) in enumerate((i, j) for i in range(n) for j in range(i, n))}
    for p in range(n):
        for q in range(p + 1, n):
            app, aqq, apq = place[p, p], place[q, q], place[p, q]
            yield f"{{ const double x = {apq}, ratio = ({aqq} - {app}) / (x + x);"
            yield "  const double size = 1 / (__builtin_fabs(ratio) + __builtin_sqrt(ratio * ratio + 1));"
            yield "  const double t = x == 0 ? 0 : ratio < 0 ? -size : size, c = 1 / __builtin_sqrt(t * t + 1);"
            yield "  const double s = t * c, tau = s / (1 + c);"
            yield f"  {app} -= t * x; {aqq} += t * x; {apq} = 0;"
            for r in range(n):
                if r not in (p, q):
                    arp, arq = place[min(r, p), max(r, p)], place[min(r, q), max(r, q)]
                    yield f"  {{ const double y = {arp}, z = {arq};"
                    yield f"  {arp} = y - s * (z + tau * y); {arq} = z + s * (y - tau * z); }}"
            yield "}"


# --- the unit


def text_of(kind: Kind) -> str:
    """The C unit: `npc_run(matrices[, right sides])` gives (result,), or (result, which matrices are left to NumPy)."""
    reads = len(kind.read)
    right = kind.rows * kind.columns if kind.op == "solve" else 0
    size = kind.rows**2
    memory = c_type(kind.dtype)
    # Lanes beyond the last matrix hold that matrix again.
    load_matrix = [f"a[{k}][l] = x[{i * kind.rows + j}];" for k, (i, j) in enumerate(kind.read)]
    load_matrix += [f"b[{k}][l] = y[{k}];" for k in range(right)]
    compute = jacobi(kind) if kind.op == "eigvalsh" else elimination(kind)
    store = [f"z[{k}] = r[{k}][l];" for k in range(kind.made)]
    return f"""
/* {kind.op} of stacks of {kind.rows} x {kind.rows} matrices of {kind.dtype} */{LESS}
struct context {{ const {memory} *x, *y; {memory}* out; uint8_t* doubtful; int64_t count; int any; }};

static void matrices(void* data, int64_t begin, int64_t end, int thread) {{
  struct context* const context = data;
  for (int64_t first = begin; first < end; first += {LANES}) {{
    const int64_t lanes = npc_min({LANES}, end - first);
    double a[{reads}][{LANES}] __attribute__((aligned(64))), b[{right or 1}][{LANES}] __attribute__((aligned(64)));
    double r[{kind.made}][{LANES}] __attribute__((aligned(64))), doubt[{LANES}] __attribute__((aligned(64)));
    for (int l = 0; l < {LANES}; l++) {{
      const int64_t m = first + npc_min(l, lanes - 1);
      const {memory} *const x = context->x + m * {size}{f", *const y = context->y + m * {right}" if right else ""};
      {f"{chr(10)}      ".join(load_matrix)}
    }}
    {f"{chr(10)}    ".join(compute)}
    for (int l = 0; l < lanes; l++) {{
      {memory}* const z = context->out + (first + l) * {kind.made};
      {f"{chr(10)}      ".join(store)}
      context->doubtful[first + l] = doubt[l] != 0;
      if (doubt[l] != 0) __atomic_store_n(&context->any, 1, __ATOMIC_RELAXED);
    }}
  }}
}}

PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {{
  const npc_array* const x = (const npc_array*)args[0];
  const int stack = x->nd - 2;
  int64_t shape[64], count = 1;
  for (int k = 0; k < stack; k++) count *= shape[k] = x->dimensions[k];
  {result_shape(kind)}
  PyObject *result = NULL, *doubtful = NULL, *out = rt->empty(npc_dtypes[0], axes, shape, NULL);
  if (!out) return NULL;
  if (!(doubtful = rt->empty(npc_dtypes[1], stack, x->dimensions, NULL))) goto failed;
  struct context context = {{
    .x = (const {memory}*)x->data, .y = {f"(const {memory}*)((const npc_array*)args[1])->data" if right else "NULL"},
    .out = ({memory}*)((npc_array*)out)->data, .doubtful = (uint8_t*)((npc_array*)doubtful)->data,
  }};
  if (rt->parallel(matrices, &context, count, {GRAIN[kind.op]})) goto failed;
  if (!(result = rt->tuple(1 + context.any))) goto failed;
  rt->tuple_set(result, 0, out);
  if (context.any) rt->tuple_set(result, 1, doubtful);
  else rt->decref(doubtful);
  return result;
failed:
  rt->decref(out);
  rt->decref(doubtful);
  return NULL;
}}
""".replace("NULL", "((void*)0)")


def result_shape(kind: Kind) -> str:
    """Statements that add the axes of one result to those of the stack."""
    core = {"det": [], "eigvalsh": [kind.rows]}.get(kind.op, [kind.rows, kind.columns])
    adds = [f"shape[stack + {k}] = {n};" for k, n in enumerate(core)]
    return " ".join([f"const int axes = stack + {len(core)};", *adds])


def elimination(kind: Kind) -> list[str]:
    body, n = Body(), kind.rows
    a = [[body.name(f"a[{i * n + j}][l]") for j in range(n)] for i in range(n)]
    if kind.op == "det":
        results, is_sure = determinant(body, a)
    else:
        if kind.op == "solve":
            b = [[body.name(f"b[{i * kind.columns + c}][l]") for c in range(kind.columns)] for i in range(n)]
        else:
            b = [["1.0" if i == c else "0.0" for c in range(n)] for i in range(n)]
        results, is_sure = equations(body, a, b)
    limit = float(np.finfo(kind.dtype).max)
    is_finite = [f"__builtin_fabs({x}) <= {limit!r}" for x in results]
    body.lines += [f"r[{k}][l] = {x};" for k, x in enumerate(results)]
    body.lines.append(f"doubt[l] = {all_of([is_sure, *is_finite])} ? 0.0 : 1.0;")
    return in_lanes(body.lines)


def jacobi(kind: Kind) -> list[str]:
    n = kind.rows
    places = [(i, j) for i in range(n) for j in range(i, n)]
    outside = [f"__builtin_fabs(a[{k}][l])" for k, (i, j) in enumerate(places) if i != j]
    scale = Body()
    largest = scale.largest([f"a[{k}][l]" for k in range(len(places))])
    total = " + ".join(f"__builtin_fabs(a[{k}][l])" for k in range(len(places)))
    result = [f"r[{i}][l] = a[{places.index((i, i))}][l];" for i in range(n)]
    for i, j in SORTED[n]:
        result.append(f"{{ const double x = r[{i}][l], y = r[{j}][l]; r[{i}][l] = y < x ? y : x; r[{j}][l] = y < x ? x : y; }}")
    limit = float(np.finfo(kind.dtype).max) / 8
    return [
        f"double least[{LANES}];",
        *in_lanes(
            [
                *scale.lines,
                f"least[l] = {largest} * 0x1p-60;",
                f"doubt[l] = ({largest} >= {LEAST!r}) & ({total} <= {min(MOST, limit)!r}) ? 0.0 : 1.0;",
            ]
        ),
        "int sweep = 0;",
        f"for (; sweep < {SWEEPS}; sweep++) {{",
        "  int rest = 0;",
        *in_lanes([f"rest |= ({' + '.join(outside)} > least[l]) & (doubt[l] == 0);"]),
        "  if (!rest) break;",
        *in_lanes(list(rotations(n))),
        "}",
        *in_lanes([f"if (sweep == {SWEEPS}) doubt[l] = 1;", *result]),
    ]


def in_lanes(lines: list[str]) -> list[str]:
    return ["#pragma omp simd", f"for (int l = 0; l < {LANES}; l++) {{", *(f"  {line}" for line in lines), "}"]
