"""CUDA C++ as NVRTC takes it: no GNU builtins, no floating-point flags, memory from what the host has set aside.

A grid of threads runs the program. What a way out hands over is stored by the first thread; who called restores what was written.
"""

from __future__ import annotations

from typing import Final

from npcompile.backends.loop_ir import libm
from npcompile.backends.loop_ir.target import SHARED_HELPERS, Ability, Target, of_words

# Of words of 32 bits and less: 64 bits hold the exact result.
OVERFLOWS: Final = """NPC_INLINE int npc_add_overflows_$(@ a, @ b) { const npc_i64 r = (npc_i64)a + b; return r != (@)r; }
NPC_INLINE int npc_subtract_overflows_$(@ a, @ b) { const npc_i64 r = (npc_i64)a - b; return r != (@)r; }
NPC_INLINE int npc_multiply_overflows_$(@ a, @ b) { const npc_i64 r = (npc_i64)a * b; return r != (@)r; }
"""
HELPERS: Final = f"""typedef long long npc_i64;
union npc_word {{ npc_i64 i; double d; float f; char* p; }};
#define NPC_INLINE static __device__ __forceinline__
#define NPC_STRAIGHT /* before a loop without branches, whose iterations wait for each other: NVRTC unrolls it itself */
#define NPC_UNLIKELY(c) __builtin_expect(!!(c), 0)
#define NPC_NAN __longlong_as_double(0x7ff8000000000000LL)
#define NPC_INFINITY __longlong_as_double(0x7ff0000000000000LL)
{SHARED_HELPERS}{libm.HELPERS}
{of_words(OVERFLOWS, 4)}NPC_INLINE int npc_add_overflows_i64(npc_i64 a, npc_i64 b) {{
  const npc_i64 r = (npc_i64)((unsigned long long)a + (unsigned long long)b);
  return ((a ^ r) & (b ^ r)) < 0;
}}
NPC_INLINE int npc_subtract_overflows_i64(npc_i64 a, npc_i64 b) {{
  const npc_i64 r = (npc_i64)((unsigned long long)a - (unsigned long long)b);
  return ((a ^ b) & (a ^ r)) < 0;
}}
NPC_INLINE int npc_multiply_overflows_i64(npc_i64 a, npc_i64 b) {{
  return __mul64hi(a, b) != (npc_i64)((unsigned long long)a * (unsigned long long)b) >> 63;
}}
NPC_INLINE int npc_add_overflows_u64(unsigned long long a, unsigned long long b) {{ return a + b < a; }}
NPC_INLINE int npc_subtract_overflows_u64(unsigned long long a, unsigned long long b) {{ return a < b; }}
NPC_INLINE int npc_multiply_overflows_u64(unsigned long long a, unsigned long long b) {{ return __umul64hi(a, b) != 0; }}
NPC_INLINE double npc_dot(const char* x, npc_i64 n, npc_i64 sx, const char* y, npc_i64 m, npc_i64 sy) {{
  double s = 0;
  for (npc_i64 i = 0; i < n; ++i) s += *(const double*)(x + i * sx) * *(const double*)(y + i * sy);
  return s;
}}
/* Memory for an array of all threads, which they all take alike. */
#define NPC_ALLOCATE(a, kind, rank, bytes, zeroed) {{ \\
  const npc_i64 taken = ((bytes) + 15) & ~15LL; \\
  if (taken > room) {{ if (npc_thread == 0) status[NPC_WAY].i = NPC_NO_ROOM; return; }} \\
  a.data = arena; a.owner = (npc_i64)arena; a.is_view = 0; \\
  arena += taken; room -= taken; \\
  if (zeroed) for (npc_i64 k = 8 * npc_thread; k < taken; k += 8 * npc_threads) *(npc_i64*)(a.data + k) = 0; }}
/* Words of the status: has an iteration failed?, blocks at the barrier, how often all were there, had one failed then?, way. */
enum {{ NPC_FAILED, NPC_ARRIVED, NPC_TIMES, NPC_HAD_FAILED, NPC_WAY, NPC_STATUS_WORDS, NPC_NO_ROOM = -1 }};
#ifndef NPC_WAIT /* tests run the text on the CPU, where others need the processor */
#define NPC_WAIT()
#endif
/* All threads of the grid meet: what was stored before is seen after. Has an iteration failed? All get one answer. */
NPC_INLINE int npc_meet(npc_word* status) {{
  int failed = 0;
  __syncthreads();
  if (threadIdx.x == 0) {{
    __threadfence(); /* also of what the others of the block have stored: they were at the barrier before */
    volatile npc_i64* const words = (volatile npc_i64*)status;
    unsigned long long* const counts = (unsigned long long*)status;
    const npc_i64 times = words[NPC_TIMES];
    if (atomicAdd(counts + NPC_ARRIVED, 1ULL) == gridDim.x - 1) {{
      words[NPC_HAD_FAILED] = words[NPC_FAILED];
      words[NPC_ARRIVED] = 0;
      __threadfence();
      atomicAdd(counts + NPC_TIMES, 1ULL);
    }} else {{
      while (words[NPC_TIMES] == times) NPC_WAIT();
    }}
    __threadfence();
    failed = words[NPC_HAD_FAILED] != 0;
  }}
  return __syncthreads_or(failed);
}}
"""
CUDA: Final = Target("CUDA", HELPERS, "", {}, False, frozenset([Ability.ALLOCATE]))
