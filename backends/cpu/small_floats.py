"""Numbers of two bytes, float16 and bfloat16, of which C computes as of float32: how they are rounded, and what is theirs."""

TEXT = """
/* bfloat16 is the upper half of a float32. Rounded to even, by integers: no floating-point error is noted. */
static inline float npc_load_bf16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
static inline uint16_t npc_store_bf16(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return (uint16_t)(bits >> 16);
}
static inline float npc_round_bf16(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  uint32_t near = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u, nan = (bits & 0x80000000u) | 0x7fc00000u;
  bits = (bits & 0x7fffffffu) > 0x7f800000u ? nan : near;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
/* float16 of a float64, as NumPy rounds it: once, to even, and with the same errors. Functions of compilers note none, or
   take long, and in vectors GCC 14 rounds to float32 first where processors have an instruction that does not. A power of two
   is added whose last bit is float16's; below 0x1p-14 what that loses is noted; what is too large becomes infinite. By bits
   where a comparison would note a NaN. */
static inline float npc_round_f2_f8(double x) {
#if defined(__clang__) && (defined(__AVX512FP16__) || defined(__aarch64__))
  return (float)(_Float16)x;
#else
  uint64_t size, power, below;
  __builtin_memcpy(&size, &x, sizeof size);
  size &= 0x7fffffffffffffffu;
  below = size & -(uint64_t)(size < 0x3f10000000000000u);
  power = size & 0x7ff0000000000000u;
  power = power < 0x3f10000000000000u ? 0x3f10000000000000u : power > 0x40f0000000000000u ? 0x40f0000000000000u : power;
  double magnitude, unit, tiny;
  __builtin_memcpy(&magnitude, &size, sizeof magnitude);
  __builtin_memcpy(&unit, &power, sizeof unit);
  __builtin_memcpy(&tiny, &below, sizeof tiny);
  unit *= 0x1p42;
  const double lost = (tiny - ((tiny + 0x1p28) - 0x1p28)) * 0x1p-30 * 0x1p-1022;
  const float near = (float)((magnitude + unit) - unit + lost), beyond = near * 0x1p112f;
  uint32_t bits;
  __builtin_memcpy(&bits, &near, sizeof bits);
  return copysignf(bits > 0x477fe000u ? beyond : near, (float)x);
#endif
}
static inline float npc_round_f2_f4(float x) {
#if defined(__F16C__) || defined(__aarch64__)
  return (float)(_Float16)x;
#else
  return npc_round_f2_f8(x);
#endif
}
/* As ml_dtypes has them. The sum of logarithms is NaN where the operands have no order. */
static inline float npc_logaddexp_bf16(float a, float b) {
  if (a == b) return a + 0.693147182464599609375f;
  if (a > b) return a + npc_single_log1pf(npc_single_expf(b - a));
  return a < b ? b + npc_single_log1pf(npc_single_expf(a - b)) : __builtin_nanf("");
}
static inline float npc_logaddexp2_bf16(float a, float b) {
  if (a == b) return a + 1;
  if (a > b) return a + npc_single_log1pf(npc_single_exp2f(b - a)) / 0.693147182464599609375f;
  return a < b ? b + npc_single_log1pf(npc_single_exp2f(a - b)) / 0.693147182464599609375f : __builtin_nanf("");
}
static inline float npc_nextafter_bf16(float a, float b) {
  uint16_t from = npc_store_bf16(a), to = npc_store_bf16(b), from_size = from & 0x7fff, to_size = to & 0x7fff;
  if (from_size > 0x7f80 || to_size > 0x7f80) return __builtin_nanf("");
  if (from == to || (!from_size && !to_size)) return b;
  if (!from_size) return npc_load_bf16((uint16_t)((to & 0x8000) | 1));
  return npc_load_bf16((uint16_t)(from + (from_size > to_size || ((from ^ to) & 0x8000) ? -1 : 1)));
}
"""
