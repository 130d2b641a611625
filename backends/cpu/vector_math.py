"""exp, exp2, expm1, log, log2, log1p, tanh and pow without a branch, of which every compiler makes vectors.

glibc's libmvec has vector forms of the mathematical functions, and GCC calls them. musl and macOS have none, and clang calls none
in the loops that it makes vectors of: each number then costs a call. The functions here are inline, of arithmetic and choices by
masks alone, so compilers make vectors of loops around them. Sine, cosine and tangent take a branch for numbers far out, and are
in `inline_angles.py`.

What is special about a number is asked of its bits, as comparisons of floats report NaN. Errors are noted by the operations that
make them: 0 and negative numbers divide by zero in the one division of a logarithm, and a power of two is multiplied by in two
steps, of which only the second rounds, overflows and underflows. An infinite operand may note what a large one does.

`tests/accuracy/polynomials.py` fits the polynomials, and a test holds them to the errors that are written beside them. What
rounding adds is in docs/accuracy.md.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from npcompile.backends.cpu.c_definitions import definitions_of, needed_by

# Name -> dtype -> coefficients, after what they make and the largest relative error of that.
POLYNOMIALS = {
    "EXP": {  # exp(r) = 1 + r + r^2 P(r), |r| < log(2) / 2; 2^-57.7 and 2^-28.0
        "f8": """0x1.000000000000bp-1 0x1.555555555550fp-3 0x1.55555555502a0p-5 0x1.1111111122b4ap-7 0x1.6c16c1852c01cp-10
            0x1.a01a014498ae6p-13 0x1.a01997c656a0fp-16 0x1.71deec62e8918p-19 0x1.28af42a60c9fap-22 0x1.add773f1864b3p-26""",
        "f4": "0x1.fffff8p-2 0x1.55548ep-3 0x1.555b96p-5 0x1.123bd0p-7 0x1.685352p-10",
    },
    "EXPM1": {  # exp(r) - 1 = r + r^2 P(r), |r| < log(2) / 2; 2^-61.5 and 2^-30.9
        "f8": """0x1.0000000000000p-1 0x1.5555555555559p-3 0x1.555555555554cp-5 0x1.111111110f659p-7 0x1.6c16c16c1b322p-10
            0x1.a01a01b00095fp-13 0x1.a01a018b44f8bp-16 0x1.71ddf819562cbp-19 0x1.27e5198469b2ep-22 0x1.af5f172ab98f7p-26
            0x1.1f102bb7c77e5p-29""",
        "f4": "0x1.000000p-1 0x1.555554p-3 0x1.5554f0p-5 0x1.111308p-7 0x1.6d436ap-10 0x1.9e076cp-13",
    },
    "EXP2": {  # 2^r = 1 + r P(r), |r| < 1/2; 2^-59.4 and 2^-32.4
        "f8": """0x1.62e42fefa39efp-1 0x1.ebfbdff82c58ep-3 0x1.c6b08d704a185p-5 0x1.3b2ab6fba50fep-7 0x1.5d87fe788836bp-10
            0x1.430912f7a9f3ep-13 0x1.ffcbfcde55481p-17 0x1.62c025606fa91p-20 0x1.b5241c91658f4p-24 0x1.e4c3801506237p-28
            0x1.eb0754d5d1ac4p-32 0x1.d487100e0d40fp-36""",
        "f4": "0x1.62e430p-1 0x1.ebfbe0p-3 0x1.c6b072p-5 0x1.3b2a4ap-7 0x1.5da0f4p-10 0x1.442280p-13 0x1.e5ba8ap-17",
    },
    "LOG": {  # log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2), of a number from sqrt(1/2) to sqrt(2); 2^-59.3 and 2^-35.3
        "f8": """0x1.555555555558ap-1 0x1.999999998249bp-2 0x1.2492493ffe728p-2 0x1.c71c537fbe8a4p-3 0x1.7465f709e8f38p-3
            0x1.39a8919a9e7fbp-3 0x1.2ec3e1af998d1p-3""",
        "f4": "0x1.555556p-1 0x1.999912p-2 0x1.248458p-2 0x1.d92600p-3",
    },
    "SIN": {  # sin(r) = r + r^3 P(r^2), |r| < pi / 4; 2^-57.8 and 2^-27.8
        "f8": """-0x1.555555555554ap-3 0x1.111111110f9dbp-7 -0x1.a01a019c35ee6p-13 0x1.71de3592ae8e2p-19
            -0x1.ae5e78c627ca8p-26 0x1.5d97d0918f04dp-33""",
        "f4": "-0x1.555546p-3 0x1.11077cp-7 -0x1.9955c6p-13",
    },
    "COS": {  # cos(r) = 1 - r^2 / 2 + r^4 P(r^2), |r| < pi / 4; 2^-63.8 and 2^-32.9
        "f8": """0x1.555555555554bp-5 -0x1.6c16c16c15026p-10 0x1.a01a019c91a69p-16 -0x1.27e4f7f3b29afp-22
            0x1.1ee9dd5e458a2p-29 -0x1.8fa75a16a38ecp-37""",
        "f4": "0x1.55554ap-5 -0x1.6c0c2cp-10 0x1.99e9ecp-16",
    },
    "POW": {  # the same as LOG = 2 s + 2/3 s^3 + s^5 P(s^2); 2^-73.4
        "f8": """0x1.9999999999996p-2 0x1.2492492492f3ap-2 0x1.c71c71c59a9adp-3 0x1.745d1827183e0p-3 0x1.3b13656bac1b9p-3
            0x1.1120564fe67efp-3 0x1.de415f82c046ep-4 0x1.eaa5789548b71p-4""",
    },
}

# What is written in capitals below, of each dtype. LN2_HIGH times an exponent is exact, without a fused operation too.
CONSTANTS = {
    "f8": """WIDTH=52 ONE=0x3ff0000000000000 INFINITE=0x7ff0000000000000 SIZE=0x7fffffffffffffff SMALLEST=0x0010000000000000
        UNITS=0x3fe6a09e667f3bcd FRACTION=0x000fffffffffffff WHOLE=0x4330000000000000 SHIFT=0x1.8p52 OFFSET=0x1.00000000003ffp52
        LIFT=0x1p54 LIFTED=54 HALF=0.5 LN2_HIGH=0x1.62e42fefa3800p-1 LN2_LOW=0x1.ef35793c76730p-45 LN2=0x1.62e42fefa39efp-1
        LOG2_E=0x1.71547652b82fep0 LOG2_E_LOW=0x1.777d0ffda0d24p-56 TWO_LOG2_E=0x1.71547652b82fep1
        TWO_LOG2_E_LOW=0x1.777d0ffda0d24p-55 THIRD=0x1.5555555555555p-2 THIRD_LOW=0x1.5555555555555p-56
        EXP_FAR=1000 EXP2_FAR=2000 EXPM1_FAR=750 EXPM1_LEAST=50 BIG=500 TANH_FAR=20""",
    "f4": """WIDTH=23 ONE=0x3f800000 INFINITE=0x7f800000 SIZE=0x7fffffff SMALLEST=0x00800000
        UNITS=0x3f3504f3 FRACTION=0x007fffff WHOLE=0x4b000000 SHIFT=0x1.8p23f OFFSET=0x1.0000fep23f
        LIFT=0x1p25f LIFTED=25 HALF=0.5f LN2_HIGH=0x1.62ep-1f LN2_LOW=0x1.0bfbe8p-15f
        LOG2_E=0x1.715476p0f LOG2_E_LOW=0x1.4ae0cp-26f
        EXP_FAR=120 EXP2_FAR=170 EXPM1_FAR=100 EXPM1_LEAST=25 BIG=60 TANH_FAR=10""",
}


@dataclass(frozen=True)
class Kind:
    """Numbers of one dtype, or vectors of them: what the words in capitals, @ and $ mean below."""

    name: str  # @
    dtype: str  # its short name
    number: str  # the C types of NUMBER, and of WORD and UNSIGNED, integers of as many bits
    word: str
    unsigned: str
    every: str = "{}"  # ALL(constant) as a template, and what FUSED and RINT are
    fused: str = ""
    rint: str = "__builtin_rint"

    @property
    def suffix(self) -> str:
        return "f" if self.dtype == "f4" else ""

    def text_of(self, text: str) -> str:
        """The text, of such numbers."""
        text = POLYNOMIAL.sub(lambda m: self.polynomial(m[1], m[2]), text)
        text = ALL.sub(lambda m: self.every.format(m[1]), text)
        meant = dict(pair.split("=") for pair in CONSTANTS[self.dtype].split())
        meant |= {"NUMBER": self.number, "WORD": self.word, "UNSIGNED": self.unsigned, "FUSED": self.fused, "RINT": self.rint}
        text = CAPITALS.sub(lambda m: meant.get(m[0], m[0]), text)
        return text.replace("@", self.name).replace("$", self.suffix)

    def polynomial(self, name: str, x: str) -> str:
        name, _, dtype = name.partition(":")
        first, *others = reversed(POLYNOMIALS[name][dtype or self.dtype].split())
        text = f"ALL({first}{self.suffix})"
        for c in others:
            text = f"FUSED({text}, {x}, ALL({c}{self.suffix}))"
        return text


F8 = Kind("f8", "f8", "double", "int64_t", "uint64_t", fused="NPC_FMA_f8")
F4 = Kind("f4", "f4", "float", "int32_t", "uint32_t", fused="NPC_FMA_f4", rint="__builtin_rintf")
F8_VECTOR = Kind("8", "f8", "npc_f8x8", "npc_words8", "npc_ubits64", "npc_all8({})", "NPC_FMA8", "npc_rint8")
F4_VECTOR = Kind("16", "f4", "npc_f4x16", "npc_words16", "npc_unsigned16", "npc_all16({})", "NPC_FMA16", "npc_rint16")

CAPITALS = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
ALL = re.compile(r"\bALL\(((?:[^()]|\([^()]*\))*)\)")
POLYNOMIAL = re.compile(r"POLYNOMIAL\(([\w:]+), (\w+)\)")

MACROS = """
#define NPC_MASK_f8(c) (-(int64_t)(c))
#define NPC_MASK_f4(c) (-(int32_t)(c))
#if defined(__FMA__) || defined(__aarch64__)
#define NPC_HAS_FMA
#define NPC_FMA_f8 __builtin_fma
#define NPC_FMA_f4 __builtin_fmaf
#else
#define NPC_FMA_f8(a, b, c) ((a) * (b) + (c))
#define NPC_FMA_f4(a, b, c) ((a) * (b) + (c))
#endif
"""
VECTOR_MACROS = """
typedef unsigned int npc_unsigned16 __attribute__((vector_size(64)));
typedef int npc_words16_half __attribute__((vector_size(32)));
#define NPC_MASK_8(c) ((npc_words8)(c))
#define NPC_MASK_16(c) ((npc_words16)(c))
#define NPC_FMA16(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)
"""
SHARED = r"""
static inline WORD npc_bits_of_@(NUMBER x) { WORD r; __builtin_memcpy(&r, &x, sizeof x); return r; }
static inline NUMBER npc_number_of_@(WORD x) { NUMBER r; __builtin_memcpy(&r, &x, sizeof x); return r; }
static inline NUMBER npc_either_@(WORD mask, NUMBER a, NUMBER b) {
  return npc_number_of_@((npc_bits_of_@(a) & mask) | (npc_bits_of_@(b) & ~mask));
}
/* 0 where the mask is set */
static inline NUMBER npc_unless_@(WORD mask, NUMBER x) { return npc_number_of_@(npc_bits_of_@(x) & ~mask); }
/* Of the size of x: is it more than `limit`, and not NaN? */
static inline WORD npc_is_far_@(NUMBER x, NUMBER limit) {
  const WORD size = npc_bits_of_@(x) & SIZE;
  return NPC_MASK_@(size > npc_bits_of_@(limit)) & NPC_MASK_@(size <= INFINITE);
}
/* x, or the limit, of its sign */
static inline NUMBER npc_within_@(NUMBER x, NUMBER limit) {
  return npc_either_@(npc_is_far_@(x, limit), npc_number_of_@(npc_bits_of_@(limit) | (npc_bits_of_@(x) & ~SIZE)), x);
}
static inline NUMBER npc_with_sign_@(NUMBER x, NUMBER sign) {
  return npc_number_of_@((npc_bits_of_@(x) & SIZE) | (npc_bits_of_@(sign) & ~SIZE));
}
/* 2^n of a whole n in the range of exponents */
static inline NUMBER npc_power_of_two_@(NUMBER n) {
  return npc_number_of_@((WORD)(((UNSIGNED)npc_bits_of_@(n + SHIFT) << WIDTH) + ONE));
}
static inline NUMBER npc_scaled_@(NUMBER x, NUMBER n) {
  const NUMBER half = (n * HALF + SHIFT) - SHIFT;
  return x * npc_power_of_two_@(half) * npc_power_of_two_@(n - half);
}
/* What x is 2^e m of, m from sqrt(1/2) to sqrt(2). x is above 0 and normal. */
static inline NUMBER npc_exponent_@(NUMBER x) {
  const UNSIGNED raised = (UNSIGNED)npc_bits_of_@(x) - UNITS + ONE;
  return npc_number_of_@((WORD)((raised >> WIDTH) | WHOLE)) - OFFSET;
}
static inline NUMBER npc_unit_@(NUMBER x) {
  return npc_number_of_@((WORD)((((UNSIGNED)npc_bits_of_@(x) - UNITS) & FRACTION) + UNITS));
}
/* Numbers that no logarithm is computed of: not above 0, infinite, or NaN. */
static inline WORD npc_is_rare_@(NUMBER x) {
  const WORD bits = npc_bits_of_@(x);
  return NPC_MASK_@(bits <= 0) | NPC_MASK_@(bits >= INFINITE);
}
/* f / (2 + f). Of rare x the logarithm: infinity and NaN over 1, -1 over 0 of 0, and of negative numbers 0 over 0. */
static inline NUMBER npc_log_quotient_@(NUMBER x, NUMBER f) {
  const WORD size = npc_bits_of_@(x) & SIZE, rare = npc_is_rare_@(x);
  const WORD itself = NPC_MASK_@(size > INFINITE) | NPC_MASK_@(npc_bits_of_@(x) == INFINITE), some = NPC_MASK_@(size != 0);
  const NUMBER above = npc_either_@(itself, x, npc_unless_@(some, ALL(-1))), below = npc_unless_@(~itself, ALL(1));
  return npc_either_@(rare, above, f) / npc_either_@(rare, below, 2 + f);
}
/* f - f^2/2 + s (f^2/2 + s^2 P(s^2)) is the logarithm of 1 + f. This is f less that. */
static inline NUMBER npc_log_rest_@(NUMBER f, NUMBER s) {
  const NUMBER half = HALF * f * f, z = s * s;
  return half - s * (half + z * POLYNOMIAL(LOG, z));
}
/* exp(x) less what stands for 1, where n is the whole number near x / log(2) and power 2^n: 2^n - 1, and 2^n r, and the rest */
static inline NUMBER npc_exp_less_@(NUMBER x, NUMBER n, NUMBER power, NUMBER one) {
  const NUMBER a = FUSED(n, ALL(-LN2_HIGH), x), r = FUSED(n, ALL(-LN2_LOW), a), lost = FUSED(n, ALL(-LN2_LOW), a - r), r2 = r * r;
  return FUSED(power, r, power - one) + power * FUSED(POLYNOMIAL(EXPM1, r), r2, lost);
}
"""
FUNCTIONS = r"""
static inline NUMBER npc_inline@_exp$(NUMBER x) {
  const NUMBER a = npc_within_@(x, ALL(EXP_FAR)), n = FUSED(a, ALL(LOG2_E), ALL(SHIFT)) - SHIFT;
  const NUMBER r = FUSED(n, ALL(-LN2_LOW), FUSED(n, ALL(-LN2_HIGH), a)), r2 = r * r;
  return npc_scaled_@(1 + FUSED(POLYNOMIAL(EXP, r), r2, r), n);
}
static inline NUMBER npc_inline@_exp2$(NUMBER x) {
  const NUMBER a = npc_within_@(x, ALL(EXP2_FAR)), n = (a + SHIFT) - SHIFT, r = a - n;
  return npc_scaled_@(FUSED(r, POLYNOMIAL(EXP2, r), ALL(1)), n);
}
static inline NUMBER npc_inline@_expm1$(NUMBER x) {
  const WORD low = npc_is_far_@(x, ALL(EXPM1_LEAST)) & NPC_MASK_@(npc_bits_of_@(x) < 0);
  const NUMBER a = npc_either_@(low, ALL(-EXPM1_LEAST), npc_within_@(x, ALL(EXPM1_FAR)));
  const NUMBER n = FUSED(a, ALL(LOG2_E), ALL(SHIFT)) - SHIFT;
  const WORD big = npc_is_far_@(n, ALL(BIG)) & ~low; /* an exponent beyond the range is taken in two steps */
  const NUMBER more = npc_unless_@(~big, ALL(BIG)), one = npc_unless_@(big, ALL(1)), power = npc_power_of_two_@(n - more);
  return npc_with_sign_@(npc_exp_less_@(a, n, power, one) * npc_power_of_two_@(more), x);
}
static inline NUMBER npc_inline@_log$(NUMBER x) {
  const WORD tiny = NPC_MASK_@((npc_bits_of_@(x) & SIZE) < SMALLEST);
  const NUMBER lifted = x * npc_either_@(tiny, ALL(LIFT), ALL(1));
  const NUMBER e = npc_exponent_@(lifted) - npc_unless_@(~tiny, ALL(LIFTED)), f = npc_unit_@(lifted) - 1;
  const NUMBER s = npc_log_quotient_@(x, f), value = FUSED(e, ALL(LN2_HIGH), f - FUSED(e, ALL(-LN2_LOW), npc_log_rest_@(f, s)));
  return npc_either_@(npc_is_rare_@(x), s, value);
}
static inline NUMBER npc_inline@_log2$(NUMBER x) {
  const WORD tiny = NPC_MASK_@((npc_bits_of_@(x) & SIZE) < SMALLEST);
  const NUMBER lifted = x * npc_either_@(tiny, ALL(LIFT), ALL(1));
  const NUMBER e = npc_exponent_@(lifted) - npc_unless_@(~tiny, ALL(LIFTED)), f = npc_unit_@(lifted) - 1;
  const NUMBER s = npc_log_quotient_@(x, f), high = f * LOG2_E;
  const NUMBER low = FUSED(f, ALL(LOG2_E), -high) + FUSED(f, ALL(LOG2_E_LOW), -LOG2_E * npc_log_rest_@(f, s));
  return npc_either_@(npc_is_rare_@(x), s, e + (high + low));
}
static inline NUMBER npc_inline@_log1p$(NUMBER x) { /* with what 1 + x loses to rounding, over m = (1 + s) / (1 - s) */
  const NUMBER sum = 1 + x, f = npc_unit_@(sum) - 1, s = npc_log_quotient_@(sum, f), e = npc_exponent_@(sum);
  const WORD huge = NPC_MASK_@(npc_bits_of_@(x) >= npc_bits_of_@(ALL(LIFT))), rare = npc_is_rare_@(sum);
  const WORD large = npc_is_far_@(x, ALL(1));
  const NUMBER some = npc_either_@(rare | huge, ALL(1), x);
  const NUMBER larger = npc_either_@(large, some, ALL(1)), smaller = npc_either_@(large, ALL(1), some);
  const NUMBER lost = (smaller - (larger + smaller - larger)) * npc_power_of_two_@(-npc_unless_@(rare | huge, e));
  const NUMBER t = npc_unless_@(rare, s), more = lost * (1 - 2 * t * (1 - t * (1 - t)));
  const NUMBER value = FUSED(e, ALL(LN2_HIGH), f - (npc_log_rest_@(f, t) - FUSED(e, ALL(LN2_LOW), more)));
  return npc_either_@(rare, s, npc_with_sign_@(value, x));
}
static inline NUMBER npc_inline@_tanh$(NUMBER x) { /* exp(y) - 1 over exp(y) + 1 for y = 2 |x| */
  const NUMBER a = npc_within_@(x, ALL(TANH_FAR)), y = 2 * npc_number_of_@(npc_bits_of_@(a) & SIZE);
  const NUMBER n = FUSED(y, ALL(LOG2_E), ALL(SHIFT)) - SHIFT, less = npc_exp_less_@(y, n, npc_power_of_two_@(n), ALL(1));
  return npc_with_sign_@(less / (less + 2), x);
}
"""

# Powers of sizes. `wrong` and `pole` are masks of what divides 0 and 1 by 0, which notes it; those and `endless` get no power.
POWERS = r"""
static inline NUMBER npc_power_of_sizes_@(NUMBER x, NUMBER y, WORD wrong, WORD pole, WORD endless) {
  const WORD tiny = NPC_MASK_@(npc_bits_of_@(x) < SMALLEST), other = wrong | pole | endless;
  const NUMBER lifted = x * npc_either_@(tiny, ALL(LIFT), ALL(1));
  const NUMBER e = npc_exponent_@(lifted) - npc_unless_@(~tiny, ALL(LIFTED)), f = npc_unit_@(lifted) - 1;
  const NUMBER under = 2 + f, under_low = f - (under - 2);
  const NUMBER inverse = npc_unless_@(other, npc_unless_@(wrong, ALL(1)) / npc_unless_@(wrong | pole, under));
  /* s, s^2, and 1 + s^2 / 3 + s^4 P in two parts each */
  const NUMBER s = f * inverse, s_low = FUSED(-s, under_low, FUSED(-s, under, f)) * inverse;
  const NUMBER z = s * s, z_low = FUSED(s, s, -z) + 2 * s * s_low;
  const NUMBER a = z * THIRD, a_low = FUSED(z, ALL(THIRD), -a) + FUSED(z, ALL(THIRD_LOW), z_low * THIRD);
  const NUMBER b = z * z * (HALF * POLYNOMIAL(POW, z)), c = a + b, c_low = (a - c + b) + a_low;
  const NUMBER m = 1 + c, m_low = (1 - m + c) + c_low;
  /* s times that and times 2 / log(2), and e more: the logarithm to base 2 */
  const NUMBER u = s * m, u_low = FUSED(s, m, -u) + FUSED(s, m_low, s_low * m);
  const NUMBER l = u * TWO_LOG2_E, l_low = FUSED(u, ALL(TWO_LOG2_E), -l) + FUSED(u, ALL(TWO_LOG2_E_LOW), u_low * TWO_LOG2_E);
  const NUMBER high = e + l, low = (e - high + l) + l_low;
  const NUMBER by = npc_within_@(y, ALL(0x1p70)), product = by * high, product_low = FUSED(by, high, -product) + by * low;
  const NUMBER p = npc_unless_@(other, npc_within_@(product, ALL(EXP2_FAR)));
  const NUMBER rest = npc_unless_@(other | npc_is_far_@(product, ALL(EXP2_FAR)), product_low) * LN2;
  const NUMBER n = (p + SHIFT) - SHIFT, r = p - n, more = r * POLYNOMIAL(EXP2, r);
  return npc_scaled_@(1 + FUSED(rest, 1 + more, more), n);
}
/* Those of singles, by a logarithm and a power of two that have bits enough for these */
static inline NUMBER npc_power_of_singles_@(NUMBER x, NUMBER y, WORD wrong, WORD pole, WORD endless) {
  const NUMBER e = npc_exponent_@(x), f = npc_unit_@(x) - 1;
  const NUMBER inverse = npc_unless_@(wrong, ALL(1)) / npc_unless_@(wrong | pole, 2 + f);
  const NUMBER s = f * npc_unless_@(wrong | pole | endless, inverse), z = s * s;
  const NUMBER product = npc_within_@(y, ALL(0x1p70)) * (e + TWO_LOG2_E * FUSED(s * z, HALF * POLYNOMIAL(LOG:f4, z), s));
  const NUMBER p = npc_unless_@(wrong | pole | endless, npc_within_@(product, ALL(400))), n = (p + SHIFT) - SHIFT, r = p - n;
  return FUSED(r, POLYNOMIAL(EXP2:f4, r), ALL(1)) * npc_power_of_two_@(n);
}
"""
SINGLE_POWER = r"""
static inline float npc_power_of_sizes_f4(float x, float y, int32_t wrong, int32_t pole, int32_t endless) {
  return (float)npc_power_of_singles_f8(x, y, wrong, pole, endless);
}
"""
SINGLE_POWERS = r"""
static inline npc_f4x16 npc_power_of_sizes_16(npc_f4x16 x, npc_f4x16 y, npc_words16 wrong, npc_words16 pole,
                                              npc_words16 endless) {
  npc_f4x8 xs[2], ys[2];
  npc_words16_half wrongs[2], poles[2], ends[2];
  __builtin_memcpy(xs, &x, sizeof x);
  __builtin_memcpy(ys, &y, sizeof y);
  __builtin_memcpy(wrongs, &wrong, sizeof wrong);
  __builtin_memcpy(poles, &pole, sizeof pole);
  __builtin_memcpy(ends, &endless, sizeof endless);
  for (int k = 0; k < 2; k++) {
    const npc_f8x8 a = __builtin_convertvector(xs[k], npc_f8x8), b = __builtin_convertvector(ys[k], npc_f8x8);
    const npc_words8 u = __builtin_convertvector(wrongs[k], npc_words8), v = __builtin_convertvector(poles[k], npc_words8);
    const npc_words8 w = __builtin_convertvector(ends[k], npc_words8);
    xs[k] = __builtin_convertvector(npc_power_of_singles_8(a, b, u, v, w), npc_f4x8);
  }
  __builtin_memcpy(&x, xs, sizeof x);
  return x;
}
"""
POWER = r"""
static inline NUMBER npc_inline@_pow$(NUMBER x, NUMBER y) {
  const NUMBER half = HALF * y, size = npc_number_of_@(npc_bits_of_@(x) & SIZE);
  const WORD whole = NPC_MASK_@(RINT(y) == y), odd = whole & NPC_MASK_@(RINT(half) != half), no = NPC_MASK_@(y != y);
  const WORD below = NPC_MASK_@(npc_bits_of_@(x) < 0), falls = NPC_MASK_@(npc_bits_of_@(y) < 0), zero = NPC_MASK_@(size == 0);
  const WORD endless = NPC_MASK_@(npc_bits_of_@(size) == INFINITE), nan = NPC_MASK_@(npc_bits_of_@(size) > INFINITE);
  const WORD wrong = below & ~(whole | zero | endless | nan | no), pole = zero & falls & ~no & NPC_MASK_@(y != 0);
  const NUMBER power = npc_power_of_sizes_@(size, y, wrong, pole, zero | endless | nan);
  NUMBER value = npc_either_@(zero | endless, npc_number_of_@(INFINITE & ((zero & falls) | (endless & ~falls))), power);
  value = npc_number_of_@(npc_bits_of_@(value) | (below & odd & ~SIZE));
  value = npc_either_@(wrong, ALL(__builtin_nanf("")), npc_either_@(nan | no, x + y, value));
  return npc_either_@(NPC_MASK_@(y == 0) | NPC_MASK_@(x == 1), ALL(1), value);
}
"""


@functools.cache
def definitions(are_vectors: bool = False) -> dict[str, str]:
    """Function -> its definition."""
    wide, narrow = (F8_VECTOR, F4_VECTOR) if are_vectors else (F8, F4)
    text = "".join(kind.text_of(SHARED + FUNCTIONS) for kind in (wide, narrow)) + wide.text_of(POWERS)
    text += SINGLE_POWERS if are_vectors else SINGLE_POWER
    return definitions_of(text + "".join(kind.text_of(POWER) for kind in (wide, narrow)))


NAMES = {f + kind.suffix: kind for kind in (F8, F4) for f in ("exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "pow")}


def inline_text(functions: set[str], angles: str = "") -> str:
    """C's functions of these names that are here, and from there on their names mean them. `angles`: those of `inline_angles`."""
    found = [f for f in NAMES if f in functions]
    if not found and not angles:
        return ""
    _, needed = needed_by(angles + "".join(f"npc_inline{NAMES[f].name}_{f}()" for f in found), definitions())
    text = MACROS + needed + angles
    for f in found:  # a power of float64 takes more bits than it has, which fused operations give
        named = f"#define {f} npc_inline{NAMES[f].name}_{f}\n"
        text += f"#ifdef NPC_HAS_FMA\n{named}#endif\n" if f == "pow" else named
    return text


def vectors_text(functions: set[str], whole: str, called_whole: str) -> str:
    """Those of them that are here, of vectors of 64 bytes: `whole` and their name, `called_whole` and it where not inline."""
    found = {f: F8_VECTOR if NAMES[f] is F8 else F4_VECTOR for f in NAMES if f in functions}
    _, needed = needed_by("".join(f"npc_inline{kind.name}_{f}()" for f, kind in found.items()), definitions(are_vectors=True))
    text = VECTOR_MACROS + needed if found else ""
    for f, kind in found.items():
        operands = ["x", "y"] if f.startswith("pow") else ["x"]
        taken, given = ", ".join(f"{kind.number} {x}" for x in operands), ", ".join(operands)
        text += f"#define {whole}{f} npc_inline{kind.name}_{f}\n"
        text += f"static __attribute__((noinline)) {kind.number} {called_whole}{f}({taken}) {{ return {whole}{f}({given}); }}\n"
    return text
