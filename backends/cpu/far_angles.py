"""Sine and cosine of float64 far out, by a reduction of the angle that has bits enough.

That of the C library has too few for numbers near multiples of pi/2: of a result below 3e-13 it leaves few digits right. Where a
vector holds a number beyond 2^38, such numbers go through Payne and Hanek's method: a number is a whole one times a power of two,
and of 2/pi only those bits matter that do not make whole turns with it.
"""

from __future__ import annotations

QUARTERS = {"sin": 0, "cos": 1}  # function -> the quarter turns that make it of the sine

FAR_TEXT = r"""
typedef long long npc_bits64 __attribute__((vector_size(64)));
typedef long long npc_bits32 __attribute__((vector_size(32)));
static const uint64_t npc_two_over_pi[] = {
  0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
  0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
  0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea,
  0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d}; /* after 64 zeros */
double npc_plain_sin(double) __asm__("sin"), npc_plain_cos(double) __asm__("cos");
static __attribute__((noinline, cold)) void npc_far(const double* x, double* r, int lanes, int quarters) {
  for (int k = 0; k < lanes; k++) {
    int64_t bits;
    __builtin_memcpy(&bits, x + k, sizeof bits);
    const int exponent = ((bits >> 52) & 2047) - 1075; /* x is a whole number of so many bits more */
    if ((bits & 0x7fffffffffffffff) <= 0x4250000000000000 || exponent > 971) continue;
    const uint64_t m = (bits & 0xfffffffffffff) | 0x10000000000000;
    const int at = exponent + 62, word = at / 64, shift = at % 64; /* further left are multiples of whole turns */
    uint64_t w[3];
    for (int j = 0; j < 3; j++) {
      const uint64_t* p = npc_two_over_pi + word + j;
      w[j] = shift ? p[0] << shift | p[1] >> (64 - shift) : p[0];
    }
    const unsigned __int128 low = (unsigned __int128)m * w[2], middle = (unsigned __int128)m * w[1] + (uint64_t)(low >> 64);
    const uint64_t high = m * w[0] + (uint64_t)(middle >> 64);
    const int quarter = (int)((high + 0x2000000000000000u) >> 62) + quarters;
    unsigned __int128 rest = ((unsigned __int128)high << 64 | (uint64_t)middle) << 2 | (uint64_t)low >> 62;
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
    double angle = a * pi_high, more = __builtin_fma(a, pi_high, -angle) + (a * pi_low + b * pi_high);
    if (is_below) angle = -angle, more = -more;
    const int is_negative = ((quarter >> 1) & 1) ^ (bits < 0 && !quarters); /* the cosine is even */
    const double s = npc_plain_sin(angle), c = npc_plain_cos(angle), value = quarter & 1 ? c - more * s : s + more * c;
    r[k] = is_negative ? -value : value;
  }
}
"""

# Is any number of a vector of so many bytes beyond 2^38? By its bits, without that of the sign.
IS_FAR = {
    64: "__builtin_ia32_ucmpq512_mask((npc_bits64)x + (npc_bits64)x, (npc_bits64){} + (long long)0x84a0000000000000, 6, -1)",
    32: "__builtin_ia32_movmskpd256((npc_f8x4)(((npc_bits32)x & 0x7fffffffffffffff) > 0x4250000000000000))",
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
