"""Sine and cosine of float64 far out, and complex powers of two, by a reduction of the angle that has bits enough.

That of the C library has too few for numbers near multiples of pi/2: of a result below 3e-13 it leaves few digits right. Where a
vector holds a number beyond 2^38, such numbers go through Payne and Hanek's method: a number is a whole one times a power of two,
and of 2/pi only those bits matter that do not make whole turns with it.
"""

from __future__ import annotations

QUARTERS = {"sin": 0, "cos": 1}  # function -> the quarter turns that make it of the sine

REDUCTION = r"""
static const uint64_t npc_two_over_pi[] = {
  0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
  0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
  0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea,
  0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d}; /* after 64 zeros */
static const uint64_t npc_twos_over_pi[] = {
  0x0000000000000000, 0x70f7263dfa5a6eec, 0xb608582e55fef3dd, 0x8e13becd1d495c36, 0x1d72013aea9f8fca, 0x76e866fc9b48be48,
  0x15f5cb6fd8bee211, 0x0394db3020d6eb52, 0x30ffa9ae90cbc735, 0x51358ced67c0db3c, 0x490d15bdd91a29f5, 0x682402af5e8f9c23,
  0xbff15cbc71f05fed, 0xfe0bb0622a8c8f67, 0x7309c45a7502282a, 0xead0c2435c5527bb, 0x759f345e2d0628e8, 0xb1a563a253e62918,
  0xea5ffdabeac0d479, 0xcfedb1b6fc78b439, 0xa333a25fdc77be31}; /* 2 log(2) / pi */
/* A fraction of a quarter turn, of 128 bits of which the first is the sign, as an angle in two parts. */
static inline void npc_angle_of(unsigned __int128 rest, double* high_part, double* low_part) {
  const int is_below = rest >> 127;
  if (is_below) rest = -rest;
  const int zeros = rest >> 64 ? __builtin_clzll((uint64_t)(rest >> 64)) : 64 + __builtin_clzll((uint64_t)rest | 1);
  rest <<= zeros;
  const int64_t scale_bits = (int64_t)(1023 - 53 - zeros) << 52;
  double scale;
  __builtin_memcpy(&scale, &scale_bits, sizeof scale);
  const double a = (double)(int64_t)(rest >> 75) * scale;
  const double b = (double)(int64_t)((rest >> 22) & 0x1fffffffffffff) * scale * 0x1p-53;
  const double pi_high = 0x1.921fb54442d18p+0, pi_low = 0x1.1a62633145c07p-54;
  const double angle = a * pi_high, more = __builtin_fma(a, pi_high, -angle) + (a * pi_low + b * pi_high);
  *high_part = is_below ? -angle : angle;
  *low_part = is_below ? -more : more;
}
/* A number of at least 1/2 times what the table says, in quarter turns: how many, and the rest as an angle in two parts. */
static __attribute__((noinline)) int npc_reduce(int64_t bits, const uint64_t* table, double* high_part, double* low_part) {
  const int exponent = ((bits >> 52) & 2047) - 1075; /* the number is a whole one of so many bits more */
  const uint64_t m = (bits & 0xfffffffffffff) | 0x10000000000000;
  const int at = exponent + 62, word = at / 64, shift = at % 64; /* further left are multiples of whole turns */
  uint64_t w[3];
  for (int j = 0; j < 3; j++) {
    const uint64_t* p = table + word + j;
    w[j] = shift ? p[0] << shift | p[1] >> (64 - shift) : p[0];
  }
  const unsigned __int128 low = (unsigned __int128)m * w[2], middle = (unsigned __int128)m * w[1] + (uint64_t)(low >> 64);
  const uint64_t high = m * w[0] + (uint64_t)(middle >> 64);
  npc_angle_of(((unsigned __int128)high << 64 | (uint64_t)middle) << 2 | (uint64_t)low >> 62, high_part, low_part);
  return (int)((high + 0x2000000000000000u) >> 62);
}
"""

# Vectors of 64, 32 and 16 bytes, as whole numbers
BITS_TEXT = """
typedef long long npc_bits64 __attribute__((vector_size(64)));
typedef unsigned long long npc_ubits64 __attribute__((vector_size(64)));
typedef long long npc_bits32 __attribute__((vector_size(32)));
typedef long long npc_bits16 __attribute__((vector_size(16)));
"""

FAR_TEXT = r"""
static __attribute__((noinline, cold)) void npc_far(const double* x, double* r, int lanes, int quarters) {
  for (int k = 0; k < lanes; k++) {
    int64_t bits;
    __builtin_memcpy(&bits, x + k, sizeof bits);
    if ((bits & 0x7fffffffffffffff) <= 0x4250000000000000 || (bits & 0x7fffffffffffffff) >= 0x7ff0000000000000) continue;
    double angle, more;
    const int quarter = npc_reduce(bits, npc_two_over_pi, &angle, &more) + quarters;
    const int is_negative = ((quarter >> 1) & 1) ^ (bits < 0 && !quarters); /* the cosine is even */
    const double s = npc_plain_sin(angle), c = npc_plain_cos(angle), value = quarter & 1 ? c - more * s : s + more * c;
    r[k] = is_negative ? -value : value;
  }
}
"""

# A power of two with a complex exponent: a size, and a direction whose angle is reduced as above.
EXP2_TEXT = """
static inline npc_c16 npc_exp2_c16(npc_c16 z) {
  const double x = z.re, y = z.im, log_2 = 0x1.62e42fefa39efp-1, log_2_low = 0x1.abc9e3b39803fp-56;
  if (x - x != 0 || y - y != 0) return npc_of_c_c16(cexp(npc_to_c_c16(npc_pair_c16(x * log_2, y * log_2))));
  double angle = fabs(y) * log_2, more = __builtin_fma(fabs(y), log_2, -angle) + fabs(y) * log_2_low;
  int64_t bits;
  __builtin_memcpy(&bits, &y, sizeof bits);
  const int quarter = fabs(y) < 0.5 ? 0 : npc_reduce(bits & 0x7fffffffffffffff, npc_twos_over_pi, &angle, &more);
  const double s = npc_plain_sin(angle), c = npc_plain_cos(angle), sine = s + more * c, cosine = c - more * s;
  const double re = quarter & 1 ? sine : cosine, im = quarter & 1 ? cosine : sine;
  const double outer = x > 1000 ? 0x1p1000 : x < -1000 ? 0x1p-1000 : 1;
  const double size = exp2(x > 1000 ? x - 1000 : x < -1000 ? x + 1000 : x);
  const double tiny = fabs(y) < 0x1p-500 ? fabs(y) * 0x1p500 * log_2 * size * 0x1p-500 : 0; /* a product that may be subnormal */
  const double a = ((quarter + 1) & 2 ? -re : re) * size * outer;
  const double b = fabs(y) < 0x1p-500 ? tiny * outer : (quarter & 2 ? -im : im) * size * outer;
  return npc_pair_c16(a, y == 0 ? y : y < 0 ? -b : b);
}
static inline npc_c8 npc_exp2_c8(npc_c8 z) {
  const npc_c16 w = npc_exp2_c16(npc_pair_c16(z.re, z.im));
  return npc_pair_c8((float)w.re, (float)w.im);
}
"""

# Is any number of a vector of so many bytes beyond 2^38? By its bits, without that of the sign.
IS_FAR = {
    64: "__builtin_ia32_ucmpq512_mask((npc_bits64)x + (npc_bits64)x, (npc_bits64){} + (long long)0x84a0000000000000, 6, -1)",
    32: "__builtin_ia32_movmskpd256((npc_f8x4)(((npc_bits32)x & 0x7fffffffffffffff) > 0x4250000000000000))",
    16: "__builtin_ia32_movmskpd((npc_f8x2)(((npc_bits16)x & 0x7fffffffffffffff) > 0x4250000000000000))",
}


def near_and_far(function: str, symbol: str, width: int) -> str:
    """npc_wide_<function>: the vector function `symbol`, and for numbers far out what is above.

    Instead of these the vector function is given zero: it would note an overflow. Bits are compared, as comparisons of floats
    report NaN.
    """
    lanes, vector, bits = width // 8, f"npc_f8x{width // 8}", f"npc_bits{width}"
    return f"""static __attribute__((noinline, cold)) {vector} npc_far_{function}({vector} x) {{
  const {bits} size = ({bits})x & 0x7fffffffffffffff, far = (size > 0x4250000000000000) & (size < 0x7ff0000000000000);
  {vector} r = {symbol}(({vector})(({bits})x & ~far));
  npc_far((const double*)&x, (double*)&r, {lanes}, {QUARTERS[function]});
  return r;
}}
static inline {vector} npc_wide_{function}({vector} x) {{
  return __builtin_expect({IS_FAR[width]}, 0) ? npc_far_{function}(x) : {symbol}(x);
}}
"""
