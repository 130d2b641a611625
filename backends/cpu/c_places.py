"""The place of the least or greatest of the elements of a loop, printed as C.

In short rows, lanes of numbers and of their places take longer to combine than the row to read. So the least is found first, and
then where it stands. What is computed is stored for that; what lies side by side in memory is read where it is.
"""

from __future__ import annotations

from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.c_sums import Sums
from npcompile.backends.cpu.lanes import BYTES, IS_HERE
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.kernels.index import split_linear
from npcompile.backends.kernels.kernel import Accumulate, Load, Loop
from npcompile.backends.kernels.operations import short
from npcompile.tensor_core.dim import same

OPERATORS = {"arg_min": ("least", "<"), "arg_max": ("greatest", ">")}
TYPES = {"f4": "float", "f8": "double", "i4": "int32_t", "i8": "int64_t", "u4": "uint32_t", "u8": "uint64_t"}

VECTORS = """
typedef TYPE npc_eight_of_KIND __attribute__((vector_size(8 * sizeof(TYPE)), aligned(1), may_alias));
typedef PLACE npc_places_KIND __attribute__((vector_size(8 * sizeof(TYPE))));
"""
FUNCTION = """
static inline int64_t npc_first_NAME_KIND(const char* from, int64_t n, TYPE* best) {
  /* Where the first number is that is better than `best`, or NaN, if no other of the n is better; -1 where none is. */
#define NPC_EITHER(which, a, b) ((npc_eight_of_KIND)(((npc_places_KIND)(a) & (which)) | ((npc_places_KIND)(b) & ~(which))))
#define NPC_EIGHT(i) (*(const npc_eight_of_KIND*)(from + (i) * sizeof(TYPE)))
  int64_t at = -1;
  if (*best != *best) return at;
#if __has_builtin(__builtin_shufflevector)
  if (n >= 8) {
    npc_eight_of_KIND m = NPC_EIGHT(0), x = NPC_EIGHT(n - 8);
    npc_places_KIND nan = (npc_places_KIND)(m != m) | (npc_places_KIND)(x != x);
    m = NPC_EITHER((npc_places_KIND)(x BETTER m), x, m);
    for (int64_t i = 8; i + 8 <= n; i += 8) {
      x = NPC_EIGHT(i);
      nan |= (npc_places_KIND)(x != x);
      m = NPC_EITHER((npc_places_KIND)(x BETTER m), x, m);
    }
    nan |= __builtin_shufflevector(nan, nan, 4, 5, 6, 7, 0, 1, 2, 3);
    nan |= __builtin_shufflevector(nan, nan, 2, 3, 0, 1, 6, 7, 4, 5);
    if (!(nan[0] | nan[1])) {
      x = __builtin_shufflevector(m, m, 4, 5, 6, 7, 0, 1, 2, 3);
      m = NPC_EITHER((npc_places_KIND)(x BETTER m), x, m);
      x = __builtin_shufflevector(m, m, 2, 3, 0, 1, 6, 7, 4, 5);
      m = NPC_EITHER((npc_places_KIND)(x BETTER m), x, m);
      x = __builtin_shufflevector(m, m, 1, 0, 3, 2, 5, 4, 7, 6);
      m = NPC_EITHER((npc_places_KIND)(x BETTER m), x, m);
      if (!(m[0] BETTER *best)) return at;
      *best = m[0];
      const npc_places_KIND order = {0, 1, 2, 3, 4, 5, 6, 7}, none = order - order + (PLACE)n;
      npc_places_KIND here = (npc_places_KIND)(NPC_EIGHT(n - 8) == m);
      npc_places_KIND places = ((order + (PLACE)(n - 8)) & here) | (none & ~here);
      for (int64_t i = (n - 1) / 8 * 8 - 8; i >= 0; i -= 8) { /* the first is the last that is written */
        here = (npc_places_KIND)(NPC_EIGHT(i) == m);
        places = ((order + (PLACE)i) & here) | (places & ~here);
      }
      npc_places_KIND other = __builtin_shufflevector(places, places, 4, 5, 6, 7, 0, 1, 2, 3), less = other < places;
      places = (other & less) | (places & ~less);
      other = __builtin_shufflevector(places, places, 2, 3, 0, 1, 6, 7, 4, 5), less = other < places;
      places = (other & less) | (places & ~less);
      return npc_min(places[0], places[1]);
    }
  }
#endif
  for (int64_t i = 0; i < n; i++) {
    const TYPE x = *(const npc_KIND_in_memory*)(from + i * sizeof(TYPE));
    const int is_better = (x BETTER *best) | (x != x);
    at = is_better ? i : at;
    *best = is_better ? x : *best;
    if (x != x) break;
  }
  return at;
#undef NPC_EITHER
#undef NPC_EIGHT
}
"""


def places_text(kernels: str) -> str:
    """The functions that these kernels call."""
    text = ""
    for kind, number in TYPES.items():
        called = [(name, sign) for name, sign in OPERATORS.values() if f"npc_first_{name}_{kind}(" in kernels]
        made = VECTORS * bool(called) + "".join(FUNCTION.replace("NAME", name).replace("BETTER", sign) for name, sign in called)
        text += made.replace("KIND", kind).replace("TYPE", number).replace("PLACE", f"int{8 * int(kind[1])}_t")
    return text


def print_first_places(p: Sums, s: Loop, first: str, end: str) -> None:
    """The loop of a Reduce with one accumulator."""
    (a,) = p.accumulators.values()
    kind, at, axis = short(a.dtype), f"{s.axis}_at", s.axis
    (found,) = (x for x in s.body if isinstance(x, Accumulate))
    assert isinstance(s.size, int)
    p.open("{")
    p.line(f"const int64_t {at} = {first}, some = {end} - {at};")
    count = "some"
    if place := side_by_side(s, kind):
        p.line(f"const char* {a.name}_terms;")
        p.line(f"{{ const int64_t {axis} = {at}; {a.name}_terms = {place.buffer} + {size_text(place.offset)}; }}")
    else:
        p.line(f"char {a.name}_terms[{s.size * a.dtype.itemsize + BYTES}] __attribute__((aligned({BYTES})));")
        p.compute_terms(s, "0", "some")
        terms = p.plan.loops[s].terms
        if terms and p.values.vectors.get(terms.loop) and not terms.pipeline:  # its last vector is full
            count = f"{a.name}_stored"
            p.line(IS_HERE)
            p.line(f"const int64_t {count} = (some + 7) / 8 * 8;")
            p.line("#else")
            p.line(f"const int64_t {count} = some;")
            p.line("#endif")
    p.line(f"{c_type(a.dtype)} {a.name}_best = {p.place(a)};")
    p.line(f"const int64_t {a.name}_first = npc_first_{OPERATORS[a.reducer][0]}_{kind}({a.name}_terms, {count}, &{a.name}_best);")
    p.open(f"if ({a.name}_first >= 0) {{")
    p.line(f"const int64_t {axis} = {at} + {a.name}_first;")
    p.line(f"{a.name}_at[0] = {size_text(found.position)};")
    p.close()
    p.line(f"{p.place(a)} = {a.name}_best;")
    p.close()


def side_by_side(s: Loop, kind: str) -> Load | None:
    """What is read, where nothing else is done. Fewer than a vector has are copied, so that they fill one."""
    match s.body:
        case [Load(target, _, offset, None) as load, Accumulate(_, value)] if target.name == value.name:
            linear = split_linear(offset, s.axis)
            is_few = isinstance(s.size, int) and s.size < 8
            if short(target.dtype) == kind and linear and same(linear[0], target.dtype.itemsize) and not is_few:
                return load
    return None
