"""C as the CPU's compilers take it: checked arithmetic by builtins, floating-point flags, memory and signals."""

from __future__ import annotations

from typing import Final

from npcompile.backends.cpu.loop_ir import functions
from npcompile.backends.loop_ir import libm
from npcompile.backends.loop_ir.target import C_TYPES, SHARED_HELPERS, Ability, Target, of_words
from npcompile.tensor_core.loop_ir.types import DTYPES

OUT_OF_MEMORY = -1  # what the function returns instead of the number of a way out
KINDS: Final = tuple(kind for kind in DTYPES if kind in C_TYPES)  # of `npc_dtypes`
PATIENCE = 1 << 12  # iterations, or blocks of these, between two looks for signals

OVERFLOWS: Final = """NPC_INLINE int npc_add_overflows_$(@ a, @ b) { @ r; return __builtin_add_overflow(a, b, &r); }
NPC_INLINE int npc_subtract_overflows_$(@ a, @ b) { @ r; return __builtin_sub_overflow(a, b, &r); }
NPC_INLINE int npc_multiply_overflows_$(@ a, @ b) { @ r; return __builtin_mul_overflow(a, b, &r); }
"""
# They follow prelude.py's: `rt` is the runtime.
HELPERS: Final = f"""typedef long long npc_i64;
union npc_word {{ npc_i64 i; double d; float f; char* p; }};
struct npc_list {{ struct npc_list* next; npc_i64 length, capacity; char* data; PyObject* made; }};
struct npc_room {{ struct npc_room* next; npc_i64 bytes; char* data; }};
struct npc_block {{ struct npc_block* next; PyObject* array; }};
enum {{ NPC_FEW = 4, NPC_FEW_BYTES = 4096 }}; /* arrays that need no memory of their own to be remembered; that may lie idle */
struct npc_frame {{
  npc_i64 errors, fuel, leaves, done, left; struct npc_block* blocks; struct npc_list* lists; struct npc_room* rooms;
  PyObject* const* args; npc_i64 nargs, few; struct npc_block first[NPC_FEW];
  int lets_others; /* may other threads of Python run meanwhile? Not where what they write would be undone. */
}};
#define NPC_INLINE static inline __attribute__((unused))
#define NPC_UNLIKELY(c) __builtin_expect(!!(c), 0)
/* Does NumPy report one of these errors, which happened? Of programs whose callers do not know its state. */
#define NPC_REPORTED(errors) (rt->report(errors, 0, 0) && (rt->pardon(), 1))
/* Before a loop whose iterations do not see each other. */
#ifdef __clang__
#define NPC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define NPC_STRAIGHT
#else
#pragma GCC optimize("no-split-paths") /* of a number that is chosen it makes a jump, and doubles what follows */
#define NPC_INDEPENDENT _Pragma("GCC ivdep")
#define NPC_STRAIGHT _Pragma("GCC unroll 8")
#endif
#define NPC_NAN __builtin_nan("")
#define NPC_INFINITY __builtin_inf()
{libm.DECLARATIONS}{SHARED_HELPERS}{libm.HELPERS}
{of_words(OVERFLOWS)}#if defined(__x86_64__)
enum {{ NPC_INVALID = 1, NPC_DIVIDE = 4, NPC_OVER = 8, NPC_UNDER = 16 }};
/* GCC makes one of two calls of __builtin_ia32_stmxcsr() with nothing but arithmetic between. */
NPC_INLINE unsigned npc_flags(void) {{ unsigned found; __asm__ volatile("stmxcsr %0" : "=m"(found) : : "memory"); return found; }}
/* Those that nobody asks for, of inexact results and denormals, stay: one of them is set nearly always. */
NPC_INLINE void npc_clear_flags(void) {{
  const unsigned found = npc_flags(), cleared = found & ~63u;
  if (found & (NPC_INVALID | NPC_DIVIDE | NPC_OVER | NPC_UNDER)) __asm__ volatile("ldmxcsr %0" : : "m"(cleared));
}}
#define NPC_PIN(x) __asm__ volatile("" : : "x"(x))
/* Vectors of as many bytes are in registers where these are as wide. */
#define NPC_PIN8 NPC_PIN
#define NPC_PIN16 NPC_PIN
#ifdef __AVX__
#define NPC_PIN32 NPC_PIN
#else
#define NPC_PIN32 NPC_PIN128
#endif
#ifdef __AVX512F__
#define NPC_PIN64 NPC_PIN
#else
#define NPC_PIN64 NPC_PIN128
#endif
#define NPC_PIN_INTEGER(x) __asm__ volatile("" : : "g"(x))
#define NPC_HIDE(x) __asm__("" : "+x"(x))
#else
#include <fenv.h>
enum {{ NPC_INVALID = FE_INVALID, NPC_DIVIDE = FE_DIVBYZERO, NPC_OVER = FE_OVERFLOW, NPC_UNDER = FE_UNDERFLOW }};
NPC_INLINE unsigned npc_flags(void) {{ return fetestexcept(FE_ALL_EXCEPT); }}
NPC_INLINE void npc_clear_flags(void) {{ feclearexcept(FE_ALL_EXCEPT); }}
#define NPC_PIN(x) __asm__ volatile("" : : "g"(x))
#define NPC_PIN8 NPC_PIN128
#define NPC_PIN16 NPC_PIN128
#define NPC_PIN32 NPC_PIN128
#define NPC_PIN64 NPC_PIN128
#define NPC_PIN_INTEGER(x) __asm__ volatile("" : : "g"(x))
#define NPC_HIDE(x) __asm__("" : "+g"(x))
#endif
#define NPC_PIN128(x) __asm__ volatile("" : : "m"(x))
/* Else GCC takes a number that is made an integer and a number again for that without its fraction, which has -0.0. */
#define NPC_HIDE_INTEGER(x) __asm__("" : "+r"(x))
NPC_INLINE unsigned npc_hardware(npc_i64 errors) {{
  return (errors & 1 ? NPC_DIVIDE : 0) | (errors & 2 ? NPC_OVER : 0) |
    (errors & 4 ? NPC_UNDER : 0) | (errors & 8 ? NPC_INVALID : 0);
}}
/* Does a signal wait that Python has a handler for, or does the caller want the program to be left here? */
static __attribute__((noinline, unused)) int npc_poll(struct npc_frame* frame) {{
  frame->done += {PATIENCE};
  return frame->leaves || (frame->lets_others ? rt->poll() : rt->interrupted());
}}
#define NPC_POLL(label) if (NPC_UNLIKELY(--fuel < 0)) {{ if (npc_poll(frame)) goto label; fuel = {PATIENCE}; }}
/* Small arrays that nobody else has, for the next call. */
static npc_array* npc_kept[NPC_FEW];
void npc_drop(void) {{ for (int k = 0; k < NPC_FEW; k++) {{ rt->decref((PyObject*)npc_kept[k]); npc_kept[k] = 0; }} }}
NPC_INLINE npc_array* npc_kept_array(int kind, int rank, const npc_i64* sizes) {{
  for (int k = 0; k < NPC_FEW; k++) {{
    npc_array* const found = npc_kept[k];
    int fits = found && (PyObject*)found->descr == npc_dtypes[kind] && found->nd == rank;
    for (int axis = 0; fits && axis < rank; axis++) fits = found->dimensions[axis] == sizes[axis];
    if (fits) {{ npc_kept[k] = 0; return found; }}
  }}
  return 0;
}}
static __attribute__((noinline, unused)) void npc_leave_array(npc_array* a) {{
  npc_i64 bytes = ((npc_descr*)a->descr)->elsize;
  for (int axis = 0; axis < a->nd; axis++) bytes *= a->dimensions[axis];
  for (int k = 0; a->ob_refcnt == 1 && bytes <= NPC_FEW_BYTES && k < NPC_FEW; k++) {{
    if (!npc_kept[k]) {{ npc_kept[k] = a; return; }}
  }}
  rt->decref((PyObject*)a);
}}
/* So many iterations have run without a look: the next one comes earlier. */
#define NPC_WORKED(n) if (!frame->leaves) fuel -= (n) >> 9;
static __attribute__((noinline, unused)) npc_array* npc_allocate(
    struct npc_frame* frame, int kind, int rank, const npc_i64* sizes, npc_i64 bytes, int zeroed) {{
  const int is_own = frame->few == NPC_FEW;
  struct npc_block* const block = is_own ? rt->scratch(sizeof(struct npc_block)) : frame->first + frame->few;
  if (!block) return 0;
  block->array = (PyObject*)npc_kept_array(kind, rank, sizes);
  if (!block->array) block->array = rt->empty(npc_dtypes[kind], rank, (const int64_t*)sizes, 0);
  if (!block->array) {{ if (is_own) rt->release(block); return 0; }}
  frame->few += !is_own;
  block->next = frame->blocks; frame->blocks = block;
  if (zeroed) memset(((npc_array*)block->array)->data, 0, bytes);
  return (npc_array*)block->array;
}}
#define NPC_ALLOCATE(a, kind, rank, bytes, zeroed) {{ \\
  npc_array* const made = npc_allocate(frame, NPC_OF_##kind, rank, a.n, bytes, zeroed); \\
  if (!made) return {OUT_OF_MEMORY}; \\
  a.data = made->data; a.owner = (npc_i64)made; a.is_view = 0; }}
/* An array of a site, whose memory the site's next one takes if that is enough. */
struct npc_site {{ npc_array* array; npc_i64 room; }};
static __attribute__((noinline, unused)) int npc_take(struct npc_frame* frame, struct npc_site* site, int kind, npc_i64 bytes) {{
  const npc_i64 elements = bytes / 4 + 1; /* twice as many, of eight bytes each */
  site->array = npc_allocate(frame, kind, 1, &elements, 0, 0);
  site->room = bytes * 2;
  return site->array != 0;
}}
#define NPC_TAKE(a, site, rank, bytes, zeroed) {{ \\
  const npc_i64 wanted = bytes; \\
  if ((!site.array || wanted > site.room) && !npc_take(frame, &site, NPC_OF_F64, wanted)) return {OUT_OF_MEMORY}; \\
  a.data = site.array->data; a.owner = (npc_i64)site.array; a.is_view = 0; \\
  if (zeroed) memset(a.data, 0, wanted); }}
/* An array of a site whose arrays take turns: the one whose turn it is, if it has the shape. */
NPC_INLINE int npc_fits(const npc_array* a, int rank, const npc_i64* sizes) {{
  int fits = a && a->ob_refcnt == 1;
  for (int axis = 0; fits && axis < rank; axis++) fits = a->dimensions[axis] == sizes[axis];
  return fits;
}}
#define NPC_TURN(a, site, turns, kind, rank, bytes, zeroed) {{ \\
  npc_array* made = site.arrays[site.next]; \\
  if (npc_fits(made, rank, a.n)) {{ if (zeroed) memset(made->data, 0, bytes); }} \\
  else {{ \\
    made = site.arrays[site.next] = npc_allocate(frame, NPC_OF_##kind, rank, a.n, bytes, zeroed); \\
    if (!made) return {OUT_OF_MEMORY}; \\
  }} \\
  site.next = site.next + 1 == turns ? 0 : site.next + 1; \\
  a.data = made->data; a.owner = (npc_i64)made; a.is_view = 0; }}
static __attribute__((noinline, unused)) int npc_grow(struct npc_list* list) {{
  const npc_i64 capacity = list->capacity ? 2 * list->capacity : 16;
  char* const data = rt->scratch(8 * capacity);
  if (!data) return 0;
  if (list->length) memcpy(data, list->data, 8 * list->length);
  rt->release(list->data);
  list->data = data; list->capacity = capacity;
  return 1;
}}
static __attribute__((noinline, unused)) struct npc_list* npc_new_list(struct npc_frame* frame) {{
  struct npc_list* const list = rt->scratch(sizeof(struct npc_list));
  if (!list) return 0;
  *list = (struct npc_list){{frame->lists, 0, 0, 0, 0}};
  return frame->lists = list;
}}
#define NPC_NEW_LIST(v) {{ v = npc_new_list(frame); if (!v) return {OUT_OF_MEMORY}; }}
#define NPC_APPEND(type, v, x) {{ \\
  if (NPC_UNLIKELY(v->length == v->capacity) && !npc_grow(v)) return {OUT_OF_MEMORY}; \\
  ((type*)v->data)[v->length++] = x; }}
/* What Python has for an array: its words are data, owner, whether it is a view, sizes, strides. 0: no memory. */
static __attribute__((noinline, unused)) PyObject* npc_array_of(
    struct npc_frame* frame, union npc_word* out, int kind, int rank) {{
  PyObject* const owner = out[1].i < frame->nargs ? frame->args[out[1].i] : (PyObject*)out[1].i;
  if (!out[2].i) {{ rt->incref(owner); return owner; }}
  return rt->view(npc_dtypes[kind], rank, (int64_t*)&out[3], (int64_t*)&out[3 + rank], out[0].p, owner);
}}
static __attribute__((noinline, unused)) PyObject* npc_list_of(
    struct npc_list* list, const char* letter, int kind, npc_i64 size) {{
  if (!list->made) list->made = rt->list_of(letter, npc_dtypes + kind, list->data, list->length, size);
  if (list->made) rt->incref(list->made);
  return list->made;
}}
NPC_INLINE void npc_free(struct npc_frame* frame) {{
  for (struct npc_block* each = frame->blocks; each;) {{
    struct npc_block* const next = each->next;
    npc_leave_array((npc_array*)each->array);
    if (each < frame->first || each >= frame->first + NPC_FEW) rt->release(each);
    each = next;
  }}
  for (struct npc_room* each = frame->rooms; each;) {{
    struct npc_room* const next = each->next;
    rt->release(each->data); rt->release(each); each = next;
  }}
  for (struct npc_list* each = frame->lists; each;) {{
    struct npc_list* const next = each->next;
    rt->decref(each->made); rt->release(each->data); rt->release(each); each = next;
  }}
}}
/* Memory of so many bytes, which a place of the program keeps for the next time. 0: there is none. */
static __attribute__((noinline, unused)) char* npc_room(struct npc_frame* frame, struct npc_room** own, npc_i64 bytes) {{
  struct npc_room* room = *own;
  if (!room) {{
    room = rt->scratch(sizeof(struct npc_room));
    if (!room) {{ rt->pardon(); return 0; }}
    *room = (struct npc_room){{frame->rooms, 0, 0}};
    *own = frame->rooms = room;
  }}
  if (room->bytes < bytes || !room->data) {{
    rt->release(room->data);
    room->data = rt->scratch(bytes + 64);
    room->bytes = room->data ? bytes : 0;
    if (!room->data) rt->pardon();
  }}
  return room->data;
}}
enum {{ {", ".join(f"NPC_OF_{kind.name}" for kind in KINDS)} }};
/* `done` less `left` is about how many iterations there were. */
#define NPC_LEAVE(number) {{ frame->left = fuel; return number; }}
"""
FUNCTION: Final = """static npc_i64 npc_loop(struct npc_frame* frame, const union npc_word* in, union npc_word* out) {
  const unsigned reported __attribute__((unused)) = npc_hardware(frame->errors);
  npc_i64 fuel = frame->done = frame->fuel;
  npc_clear_flags();"""
# Comparisons that set no flag for a NaN, as NumPy's do not report one.
QUIET: Final = {
    f"{row}.{kind}": f"__builtin_is{row.replace('_', '')}({{}}, {{}})"
    for row in ("less", "less_equal", "greater", "greater_equal")
    for kind in ("f32", "f64")
}
CPU: Final = Target("the CPU", HELPERS, FUNCTION, {**functions.TEXTS, **QUIET}, True, frozenset(Ability))
