"""C for `np.searchsorted`, `np.digitize` and `np.interp`: many keys are looked for at once.

A step of a binary search halves the same number of places for every key. So a block of keys takes its steps side by side, and
chooses instead of branching: no key waits for the branches and the memory of another. In a few places, what comes before a key
is counted.

A vector that is not sorted is left to NumPy, whose answer depends on the order of its steps then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.loader import load
from npcompile.backends.cpu.primitives import c_type
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import product
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.numpy_calls import Keywords

KINDS = "bBhHiIlLqQfd"  # characters of dtypes
LANES = 32  # keys of a block
COUNTED = 24  # places: in so few nothing is searched
GRAIN = 50_000  # comparisons that are not worth a second thread
FEW = 64  # keys: NumPy finds so few as fast, and need not be told that the vector is sorted


def form_of(node: Node) -> Callable[..., Any] | None:
    """What computes the node, called like its op's meaning in NumPy; None for a `sorter`, stacks and other numbers."""
    function = node.params.get("function")
    if are_few(node):
        return None
    if isinstance(function, Keywords) and function.function is np.digitize and len(node.inputs) == 2:
        keys, edges = node.inputs
        side = "left" if dict(function.values).get("right") else "right"
        return digitize_form(keys, edges, side)
    if node.op == "interp" and not node.params.get("stack"):
        return interpolation_form()
    if node.op != "searchsorted" or len(node.inputs) != 2 or node.params.get("stack"):
        return None
    search, meaning = search_of(*node.inputs, node.params["side"]), OPS["searchsorted"].eager

    def call(a: Any, v: Any, **params: Any) -> Any:
        places = search(a, v) if search else ()
        return places[0] if places else meaning(a, v, **params)

    return call if search else None


def are_few(node: Node) -> bool:
    """Are so few keys looked for that NumPy always does it?"""
    if node.op not in ("whole", "searchsorted", "interp"):
        return False
    size = product(node.inputs[node.op != "whole"].shape)
    return isinstance(size, int) and size < FEW


def digitize_form(keys: Node, edges: Node, side: str) -> Callable[..., Any] | None:
    search, meaning = search_of(edges, keys, side), OPS["whole"].eager

    def call(x: Any, bins: Any, **params: Any) -> Any:
        is_usual = x.ndim > 0 and bins.size > 0 and bins[-1] == bins[-1]  # np.digitize takes NaN for no greater than others
        places = search(bins, x) if search and is_usual else ()
        return places or meaning(x, bins, **params)

    return call if search else None


def interpolation_form() -> Callable[..., Any]:
    dtype = np.dtype(np.float64)
    interpolate, meaning = load(text_of(dtype, "right", interpolates=True), [dtype]).call, OPS["interp"].eager

    def call(xp: Any, x: Any, fp: Any, **params: Any) -> Any:
        is_usual = x.size >= max(FEW, xp.size // 4) and xp.size == fp.size > 1 and xp[-1] == xp[-1]
        values = interpolate(*(np.asarray(v, order="C") for v in (xp, x, fp))) if is_usual else ()
        return values[0] if values else meaning(xp, x, fp, **params)

    return call


def search_of(a: Node, v: Node, side: str) -> Callable[[Any, Any], tuple[Any, ...]] | None:
    """A function of the two arrays that gives the places, or nothing where NumPy is to look; None where it always is."""
    dtype = a.dtype
    if a.meta.ndim != 1 or dtype.char not in KINDS or not dtype.isnative or v.dtype != dtype:
        return None
    search = load(text_of(dtype, side), [np.dtype(np.intp)]).call

    def places(a: Any, v: Any) -> tuple[Any, ...]:
        if v.size < max(FEW, a.size // 4):  # to look at all of the vector takes longer
            return ()
        return search(np.asarray(a, dtype, order="C"), np.asarray(v, dtype, order="C"))

    return places


def text_of(dtype: np.dtype, side: str, *, interpolates: bool = False) -> str:
    """The unit, which takes the vector, the keys and, where it interpolates, a value for each of the vector's elements.

    It gives nothing where the vector is not sorted.
    """
    names = {"TYPE": c_type(dtype), "LANES": str(LANES), "COUNTED": str(COUNTED), "GRAIN": str(GRAIN)}
    is_float = dtype.kind == "f"  # NaN comes last
    names["LESS"] = "(x < y) | ((y != y) & (x == x))" if is_float else "x < y"
    names["BEFORE"] = "npc_less(x, key)" if side == "left" else "!npc_less(key, x)"
    names["FINISH"] = INTERPOLATE if interpolates else "((int64_t*)c->made)[first + lane] = found[lane];"
    names["VALUES"] = "(const double*)((const npc_array*)args[2])->data" if interpolates else "(const double*)0"
    return filled(TEXT, names)


# As arr_interp in numpy/_core/src/multiarray/compiled_base.c: `key` is at or after `place` - 1, and before `place`.
# All cases are computed and chosen from, so keys stay in vectors.
INTERPOLATE = """{
      const double key = c->keys[first + lane];
      const int64_t place = found[lane], j = npc_min(npc_max(place - 1, 0), c->n - 2);
      const double x0 = c->a[j], y0 = c->values[j], x1 = c->a[j + 1], y1 = c->values[j + 1];
      const double slope = (y1 - y0) / (x1 - x0);
      const double from_left = slope * (key - x0) + y0, from_right = slope * (key - x1) + y1;
      const double either = from_left == from_left ? from_left : from_right;
      const double y = (either != either) & (y0 == y1) ? y0 : either;
      const double inside = (place == 0) | (key == x0) ? y0 : y;
      const double known = place == c->n ? y1 : inside;
      ((double*)c->made)[first + lane] = key != key ? key : known;
    }"""

TEXT = """
static inline int npc_less(TYPE x, TYPE y) { return LESS; }
static inline int npc_before(TYPE x, TYPE key) { return BEFORE; }
struct npc_search {
  const TYPE *a, *keys;
  const double* values;
  char* made;
  int64_t n, count;
};
static inline void npc_count(const struct npc_search* c, int64_t first, int lanes, int64_t* found) {
  for (int64_t k = 0; k < c->n; k++) {
    const TYPE x = c->a[k];
    #pragma omp simd
    for (int lane = 0; lane < lanes; lane++) found[lane] += npc_before(x, c->keys[first + lane]);
  }
}
static inline void npc_halve(const struct npc_search* c, int64_t first, int lanes, int64_t* found) {
  int64_t rest = c->n;
  for (; rest > 1; rest -= rest / 2) {
    const int64_t half = rest / 2;
    #pragma GCC ivdep
    for (int lane = 0; lane < lanes; lane++)
      found[lane] += npc_before(c->a[found[lane] + half - 1], c->keys[first + lane]) ? half : 0;
  }
  for (int lane = 0; lane < lanes && rest; lane++) found[lane] += npc_before(c->a[found[lane]], c->keys[first + lane]);
}
static void npc_find(void* context, int64_t begin, int64_t end, int thread) {
  const struct npc_search* const c = context;
  for (int64_t block = begin; block < end; block++) {
    const int64_t first = block * LANES;
    const int lanes = (int)npc_min(LANES, c->count - first);
    int64_t found[LANES] = {0};
    if (c->n <= COUNTED) npc_count(c, first, lanes, found);
    else if (lanes == LANES) npc_halve(c, first, LANES, found);
    else npc_halve(c, first, lanes, found);
    #pragma GCC ivdep
    for (int lane = 0; lane < lanes; lane++) FINISH
  }
}
PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {
  const npc_array *const a = (const npc_array*)args[0], *const v = (const npc_array*)args[1];
  struct npc_search c = {.a = (const TYPE*)a->data, .keys = (const TYPE*)v->data, .n = a->dimensions[0], .count = 1};
  c.values = VALUES;
  for (int k = 0; k < v->nd; k++) c.count *= v->dimensions[k];
  int is_unsorted = 0;
  for (int64_t k = 1; k < c.n; k++) is_unsorted |= npc_less(c.a[k], c.a[k - 1]);
  if (is_unsorted) return rt->tuple(0);
  PyObject *result, *made = rt->empty(npc_dtypes[0], v->nd, v->dimensions, (const int64_t*)0);
  if (!made) return (PyObject*)0;
  c.made = ((npc_array*)made)->data;
  int64_t steps = 1;
  while (c.n >> steps) steps++;
  if (c.n <= COUNTED) steps = c.n / 8 + 1;
  const int64_t grain = npc_max(1, GRAIN / (steps * LANES));
  if (rt->parallel(npc_find, &c, (c.count + LANES - 1) / LANES, grain) || !(result = rt->tuple(1))) {
    rt->decref(made);
    return (PyObject*)0;
  }
  rt->tuple_set(result, 0, made);
  return result;
}
"""
