"""exp, log, log1p, tanh, sin and cos of eight float64 at once, where the processor has AVX-512.

libmvec's forms gather from tables in memory, and are calls, between which nothing stays in a register. These have their tables
in registers, or none, branch only for what is rare, and use the processor's own instructions for exponents (`vscalef`,
`vgetexp`, `vgetmant`), which know infinities, NaN and subnormal numbers. The polynomials are minimax ones (Remez's algorithm)
for the relative error of the result, which docs/accuracy.md has.

Sine and cosine have two polynomials for an eighth of a turn, of which each number takes one. One for half a turn takes an
eighth less time, but its errors reach beyond 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu import lanes
from npcompile.backends.cpu.c_definitions import definitions_of, needed_by

# Of the power series without its first terms: (exp(r) - 1 - r) / r^2 for |r| < log(2) / 32, and for |r| < log(2) / 2
EXP_NEAR = "0x1.0000000000005p-1 0x1.555555548f223p-3 0x1.555555545e273p-5 0x1.11123afbb3fe7p-7 0x1.6c185e7e07c0dp-10"
EXP = """0x1.0000000000009p-1 0x1.5555555555558p-3 0x1.55555555503e3p-5 0x1.111111110f803p-7 0x1.6c16c18601e8cp-10
    0x1.a01a01b00c2c6p-13 0x1.a01993b37a9ccp-16 0x1.71ddf6b3f10ddp-19 0x1.28b410d73d344p-22 0x1.af632ad6aaa77p-26"""
# (log(1 + r) - r) / r^2 for |r| < 0.0316
LOG = """-0x1.fffffffffff90p-2 0x1.55555555554efp-2 -0x1.000000012daa7p-2 0x1.9999999bbe19ap-3
    -0x1.555538d7b3277p-3 0x1.24922f3dcf6f5p-3 -0x1.0083102ba89fdp-3 0x1.c80abf03ec2f4p-4"""
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4, in powers of r^2, for |r| < pi / 4
SIN = """-0x1.5555555555548p-3 0x1.111111110f7cap-7 -0x1.a01a019bfd186p-13 0x1.71de3567129edp-19
    -0x1.ae5e59f5c3485p-26 0x1.5d8fa32ad14c6p-33"""
COS = """0x1.555555555554bp-5 -0x1.6c16c16c14f8ap-10 0x1.a01a019c8390dp-16 -0x1.27e4f7ea37841p-22
    0x1.1ee9d7528b6bbp-29 -0x1.8fa465ed9fc62p-37"""
# 2^(j/16), and -log(1 + j/16) in two parts: times an exponent those of the logarithm of 2, of 42 bits, are exact, and so are sums
POWERS = """0x1.0000000000000p+0 0x1.0b5586cf9890fp+0 0x1.172b83c7d517bp+0 0x1.2387a6e756238p+0
    0x1.306fe0a31b715p+0 0x1.3dea64c123422p+0 0x1.4bfdad5362a27p+0 0x1.5ab07dd485429p+0
    0x1.6a09e667f3bcdp+0 0x1.7a11473eb0187p+0 0x1.8ace5422aa0dbp+0 0x1.9c49182a3f090p+0
    0x1.ae89f995ad3adp+0 0x1.c199bdd85529cp+0 0x1.d5818dcfba487p+0 0x1.ea4afa2a490dap+0"""
LOGARITHMS = """0x0.0p+0 -0x1.f0a30c0118000p-5 -0x1.e27076e2b0000p-4 -0x1.5ff3070a7a000p-3
    -0x1.c8ff7c79aa000p-3 -0x1.1675cababa000p-2 -0x1.4618bc21c6000p-2 -0x1.739d7f6bbd000p-2
    -0x1.9f323ecbfa000p-2 -0x1.c8ff7c79aa000p-2 -0x1.f128f5faf0000p-2 -0x1.0be72e4252800p-1
    -0x1.1e85f5e704000p-1 -0x1.307d7334f1000p-1 -0x1.41d8fe8467000p-1 -0x1.52a2d265bc800p-1"""
LOGARITHMS_LOW = """0x0.0p+0 0x1.d599e83368e91p-45 0x1.a342c2af0003cp-45 0x1.8586f183bebf2p-44
    0x1.7794f689f8434p-45 -0x1.8380e731f55c4p-44 0x1.3d82f484c84ccp-46 -0x1.a7389314feb50p-52
    0x1.ed03525ca2643p-44 0x1.7794f689f8434p-44 -0x1.bb2cd720ec44cp-44 -0x1.415b4c4bdd99fp-44
    -0x1.a07bd8b34be7cp-46 -0x1.7c3f6b2143eadp-46 -0x1.5732325e617a3p-44 0x1.2a88c41ba8752p-44"""


def horner(x: str, coefficients: Sequence[str]) -> str:
    text = f"npc_all8({coefficients[-1]})"
    for c in reversed(coefficients[:-1]):
        text = f"NPC_FMA8({text}, {x}, npc_all8({c}))"
    return text


def polynomial(x: str, square: str, numbers: str) -> str:
    """Even and odd powers apart, so that there are two chains half as long."""
    coefficients = numbers.split()
    return f"NPC_FMA8({horner(square, coefficients[1::2])}, {x}, {horner(square, coefficients[::2])})"


def table(name: str, numbers: str) -> str:
    """Of 16 numbers, as two vectors."""
    found = numbers.split()
    return f"static const npc_f8x8 {name}[2] = {{{{{', '.join(found[:8])}}}, {{{', '.join(found[8:])}}}}};\n"


MACROS = """
#define NPC_FMA8(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4)
#define NPC_SHIFT8 0x1.8p52 /* added to a number, it leaves the nearest whole one in the lowest bits */
"""
SHARED = r"""
/* Where b is NaN, so is the result. */
static inline npc_f8x8 npc_max8(npc_f8x8 a, npc_f8x8 b) { __asm__("vmaxpd %1, %0, %0" : "+v"(a) : "v"(b)); return a; }
static inline npc_f8x8 npc_min8(npc_f8x8 a, npc_f8x8 b) { __asm__("vminpd %1, %0, %0" : "+v"(a) : "v"(b)); return a; }
/* a 2^n, n rounded down */
static inline npc_f8x8 npc_scale8(npc_f8x8 a, npc_f8x8 n) { __asm__("vscalefpd %1, %0, %0" : "+v"(a) : "v"(n)); return a; }
/* By the lowest four bits of each. */
static inline npc_f8x8 npc_chosen8(npc_bits64 at, const npc_f8x8* of) {
  npc_f8x8 r = of[0];
  __asm__("vpermt2pd %2, %1, %0" : "+v"(r) : "v"(at), "v"(of[1]));
  return r;
}
"""

LOGARITHM = (
    table("npc_logarithms", LOGARITHMS)
    + table("npc_logarithms_low", LOGARITHMS_LOW)
    + r"""
/* x is m 2^e, m from 1 to 2, and c nearly 1 / m. */
typedef struct { npc_f8x8 e, m, c; } npc_parts8;
static inline npc_parts8 npc_parts_of8(npc_f8x8 x) {
  npc_parts8 p;
  __asm__("vgetexppd %1, %0" : "=v"(p.e) : "v"(x));
  __asm__("vgetmantpd $0, %1, %0" : "=v"(p.m) : "v"(x));
  __asm__("vrcp14pd %1, %0" : "=v"(p.c) : "v"(p.m));
  __asm__("vrndscalepd $0x50, %0, %0" : "+v"(p.c)); /* to 32nds: of 16 numbers up to 1 */
  return p;
}
/* The logarithm of 2^e (1 + r) / c */
static inline npc_f8x8 npc_log_of8(npc_parts8 p, npc_f8x8 r) {
  npc_f8x8 e = p.e, of_c, r2 = r * r;
  __asm__("vgetexppd %1, %0" : "=v"(of_c) : "v"(p.c));
  e -= of_c;
  const npc_bits64 at = (npc_bits64)((npc_ubits64)p.c >> 48);
  const npc_f8x8 high = NPC_FMA8(e, npc_all8(0x1.62e42fefa3800p-1), npc_chosen8(at, npc_logarithms));
  const npc_f8x8 low = NPC_FMA8(e, npc_all8(0x1.ef35793c76730p-45), npc_chosen8(at, npc_logarithms_low));
  return high + (r + NPC_FMA8(POLYNOMIAL, r2, low));
}
/* Is any of them not above 0, or not finite? */
static inline int npc_is_rare(npc_f8x8 x) { /* others, less 1, are below what infinity is then */
  return __builtin_ia32_ucmpq512_mask((npc_bits64)x - 1, (npc_bits64){0} + 0x7fefffffffffffff, 5, -1);
}
""".replace("POLYNOMIAL", polynomial("r", "r2", LOG))
)

QUARTER_TURNS = r"""
/* |x| and so many quarter turns more: the sine. An odd number of them makes it a cosine, two turn its sign. */
static inline npc_f8x8 npc_sine_of8(npc_f8x8 x, int more, npc_bits64 sign) {
  const npc_f8x8 size = (npc_f8x8)((npc_bits64)x & ~npc_sign8());
  const npc_f8x8 k = NPC_FMA8(size, npc_all8(0x1.45f306dc9c883p-1), npc_all8(NPC_SHIFT8)), n = k - NPC_SHIFT8;
  npc_f8x8 r = NPC_FMA8(n, npc_all8(-0x1.921fb54442d18p+0), size);
  r = NPC_FMA8(n, npc_all8(-0x1.1a62633145c07p-54), r);
  r = NPC_FMA8(n, npc_all8(0x1.f1976b7ed8fbcp-110), r);
  const npc_f8x8 r2 = r * r, sine = NPC_FMA8(r2 * SINE, r, r);
  const npc_f8x8 cosine = NPC_FMA8(r2 * COSINE, r2, NPC_FMA8(r2, npc_all8(-0.5), npc_all8(1)));
  const npc_bits64 quarters = (npc_bits64)k + more, odd = -(quarters & 1);
  const npc_bits64 value = ((npc_bits64)cosine & odd) | ((npc_bits64)sine & ~odd);
  return (npc_f8x8)(value ^ (((quarters << 62) ^ sign) & npc_sign8()));
}
""".replace("COSINE", horner("r2", COS.split())).replace("SINE", horner("r2", SIN.split()))

FUNCTIONS = {
    "exp": table("npc_powers", POWERS)
    + r"""
static inline npc_f8x8 npc_own_exp(npc_f8x8 x) {
  const npc_f8x8 a = npc_min8(npc_all8(1000), npc_max8(npc_all8(-1000), x));
  const npc_f8x8 k = NPC_FMA8(a, npc_all8(0x1.71547652b82fep+4), npc_all8(NPC_SHIFT8)), n = k - NPC_SHIFT8; /* 16ths of log(2) */
  npc_f8x8 r = NPC_FMA8(n, npc_all8(-0x1.62e42fefa39efp-5), a);
  r = NPC_FMA8(n, npc_all8(-0x1.abc9e3b39803fp-60), r);
  const npc_f8x8 r2 = r * r, power = npc_chosen8((npc_bits64)k, npc_powers);
  const npc_f8x8 p = NPC_FMA8(EXP_NEAR, r2, r);
  return npc_scale8(NPC_FMA8(p, power, power), NPC_FMA8(n, npc_all8(0.0625), x - a)); /* of infinities no error */
}
""".replace("EXP_NEAR", polynomial("r", "r2", EXP_NEAR)),
    "log": r"""
static __attribute__((noinline, cold)) npc_f8x8 npc_log_of_rare(npc_f8x8 x, npc_f8x8 r) {
  for (int k = 0; k < 8; k++) if (!(x[k] > 0 && x[k] <= 0x1.fffffffffffffp1023)) r[k] = npc_plain_log(x[k]);
  return r;
}
static inline npc_f8x8 npc_own_log(npc_f8x8 x) {
  const npc_parts8 p = npc_parts_of8(x);
  const npc_f8x8 value = npc_log_of8(p, NPC_FMA8(p.m, p.c, npc_all8(-1)));
  return __builtin_expect(npc_is_rare(x), 0) ? npc_log_of_rare(x, value) : value;
}
""",
    "log1p": r"""
static __attribute__((noinline, cold)) npc_f8x8 npc_log1p_of_rare(npc_f8x8 x, npc_f8x8 r) {
  for (int k = 0; k < 8; k++) if (!(x[k] > -1 && x[k] <= 0x1.fffffffffffffp1023)) r[k] = npc_plain_log1p(x[k]);
  return r;
}
static inline npc_f8x8 npc_own_log1p(npc_f8x8 x) { /* with what 1 + x loses to rounding */
  const npc_f8x8 larger = npc_max8(npc_all8(1), x), smaller = npc_min8(npc_all8(1), x), sum = larger + smaller;
  const npc_parts8 p = npc_parts_of8(sum);
  const npc_f8x8 near = NPC_FMA8(p.m, p.c, npc_all8(-1)), more = npc_scale8(smaller - (sum - larger), -p.e);
  const npc_bits64 value = (npc_bits64)npc_log_of8(p, NPC_FMA8(more, p.c, near)) | ((npc_bits64)x & npc_sign8()); /* of -0 too */
  return __builtin_expect(npc_is_rare(sum), 0) ? npc_log1p_of_rare(x, (npc_f8x8)value) : (npc_f8x8)value;
}
""",
    "tanh": r"""
static inline npc_f8x8 npc_own_tanh(npc_f8x8 x) { /* exp(y) - 1 over exp(y) + 1 for y = 2 |x| */
  const npc_f8x8 size = (npc_f8x8)((npc_bits64)x & ~npc_sign8()), y = npc_min8(npc_all8(40), size + size);
  const npc_f8x8 k = NPC_FMA8(y, npc_all8(0x1.71547652b82fep+0), npc_all8(NPC_SHIFT8)), n = k - NPC_SHIFT8;
  npc_f8x8 r = NPC_FMA8(n, npc_all8(-0x1.62e42fefa39efp-1), y);
  r = NPC_FMA8(n, npc_all8(-0x1.abc9e3b39803fp-56), r);
  const npc_f8x8 r2 = r * r, p = NPC_FMA8(POLYNOMIAL, r2, r);
  const npc_f8x8 power = (npc_f8x8)(((npc_bits64)k << 52) + 0x3ff0000000000000);
  const npc_f8x8 less = NPC_FMA8(power, p, power - 1), value = less / (less + 2);
  return (npc_f8x8)((npc_bits64)value | ((npc_bits64)x & npc_sign8()));
}
""".replace("POLYNOMIAL", polynomial("r", "r2", EXP)),
    "sin": "static inline npc_f8x8 npc_own_sin(npc_f8x8 x) { return npc_sine_of8(x, 0, (npc_bits64)x); }\n",
    "cos": "static inline npc_f8x8 npc_own_cos(npc_f8x8 x) { return npc_sine_of8(x, 1, (npc_bits64){0}); }\n",
}
SHARED_BY = {LOGARITHM: ("log", "log1p"), QUARTER_TURNS: ("sin", "cos")}


# Those of float32 that go another way than to libmvec's form.
SINGLES = r"""
static inline npc_f4x16 npc_exp16(npc_f4x16 x) { /* libmvec's reports -inf as invalid */
  return npc_vector_expf(npc_either16((npc_words16)x == (int)0xff800000, npc_all16(-30000.0f), x));
}
static inline npc_f4x16 npc_log16(npc_f4x16 x) { /* libmvec's is 3.7 units off */
  npc_f4x8 halves[2];
  __builtin_memcpy(halves, &x, sizeof x);
  for (int k = 0; k < 2; k++) {
    const npc_f8x8 wide = __builtin_convertvector(halves[k], npc_f8x8);
    halves[k] = __builtin_convertvector(npc_vector_log(wide), npc_f4x8);
  }
  __builtin_memcpy(&x, halves, sizeof x);
  return x;
}
"""


def own_text(functions: Sequence[str], loops: str) -> str:
    """npc_own_<function>, of an npc_f8x8, for those that are here, and what `loops` that are written in vectors need."""
    found = [f for f in FUNCTIONS if f in functions]
    shared = "".join(text for text, users in SHARED_BY.items() if not set(users).isdisjoint(found))
    own = shared + "".join(FUNCTIONS[f] for f in found)
    if not own and not loops:
        return ""
    _, needed = needed_by(own + singles_text(loops) + loops, lanes.definitions() | definitions_of(SHARED))
    return lanes.types_text() + MACROS + needed + own


def singles_text(loops: str) -> str:
    """What of SINGLES `loops` need, after the functions that these call."""
    return needed_by(loops, definitions_of(SINGLES))[1]
