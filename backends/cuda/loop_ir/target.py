"""CUDA C++ as NVRTC takes it: no GNU builtins, no floating-point flags, memory from what the host has set aside.

One thread runs the program. A way out stores its number in the status word, and what was written is restored by who called.
Where the memory does not suffice that number is -1: the host sets aside more.
"""

from __future__ import annotations

from typing import Final

from npcompile.backends.loop_ir import libm
from npcompile.backends.loop_ir.target import SHARED_HELPERS, Ability, Target

HELPERS: Final = f"""typedef long long npc_i64;
union npc_word {{ npc_i64 i; double d; char* p; }};
#define NPC_INLINE static __device__ __forceinline__
#define NPC_UNLIKELY(c) __builtin_expect(!!(c), 0)
#define NPC_NAN __longlong_as_double(0x7ff8000000000000LL)
#define NPC_INFINITY __longlong_as_double(0x7ff0000000000000LL)
{SHARED_HELPERS}{libm.HELPERS}
NPC_INLINE int npc_add_overflows(npc_i64 a, npc_i64 b) {{
  const npc_i64 r = (npc_i64)((unsigned long long)a + (unsigned long long)b);
  return ((a ^ r) & (b ^ r)) < 0;
}}
NPC_INLINE int npc_subtract_overflows(npc_i64 a, npc_i64 b) {{
  const npc_i64 r = (npc_i64)((unsigned long long)a - (unsigned long long)b);
  return ((a ^ b) & (a ^ r)) < 0;
}}
NPC_INLINE int npc_multiply_overflows(npc_i64 a, npc_i64 b) {{
  return __mul64hi(a, b) != (npc_i64)((unsigned long long)a * (unsigned long long)b) >> 63;
}}
NPC_INLINE double npc_dot(const char* x, npc_i64 n, npc_i64 sx, const char* y, npc_i64 m, npc_i64 sy) {{
  double s = 0;
  for (npc_i64 i = 0; i < n; ++i) s += *(const double*)(x + i * sx) * *(const double*)(y + i * sy);
  return s;
}}
NPC_INLINE char* npc_take(char** arena, npc_i64* room, npc_i64 bytes, int zeroed) {{
  char* const taken = *arena;
  bytes = (bytes + 15) & ~15LL;
  if (bytes > *room) return 0;
  *arena += bytes; *room -= bytes;
  if (zeroed) for (npc_i64 i = 0; i < bytes; i += 8) *(npc_i64*)(taken + i) = 0;
  return taken;
}}
#define NPC_ALLOCATE(a, kind, rank, bytes, zeroed) {{ \\
  a.data = npc_take(&arena, &room, bytes, zeroed); \\
  if (!a.data) {{ *status = -1; return; }} \\
  a.owner = (npc_i64)a.data; a.is_view = 0; }}
#define NPC_POLL(label)
#define NPC_LEAVE(number) {{ *status = number; return; }}
"""
FUNCTION: Final = """extern "C" __global__
void npc_loop(const npc_word* in, npc_word* out, npc_i64* status, char* arena, npc_i64 room) {
  if (blockIdx.x | threadIdx.x) return;"""
CUDA: Final = Target("CUDA", HELPERS, FUNCTION, {}, False, frozenset([Ability.ALLOCATE]))
