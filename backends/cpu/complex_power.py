"""Complex powers: z ** w = exp(w log z), with the logarithm, its product and the angle in as many bits as the result needs.

|z| and arg z have logarithms with more than a double's digits, as sums of two doubles: one unit in the last place of a
product with w as large as 700 would be 10 bits of the result. Where the product is so large that its angle has no digits left,
all is done once more in whole numbers of up to 1,300 bits. Small whole exponents are products, in pairs of doubles too.

What NumPy's loop gives for zeros, infinities and NaN, and which errors it notes, is in npy_cpow of
numpy/_core/src/npymath/npy_math_complex.c.src: small whole powers by multiplication and division, else the C library's cpow.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache

STEPS = 64  # the tables have a logarithm, and an angle, for each 64th
FIRST, LAST = 48, 96  # of the logarithms, in 64ths
WORDS = 20  # of the longest numbers, of 64 bits


def pair_text(x: Decimal) -> str:
    """A number as a sum of two doubles, in C."""
    high = float(x)
    return f"{{{high.hex()}, {float(x - Decimal(high)).hex()}}}"


def arc_tangent(x: Decimal) -> Decimal:
    """Of a small number, by its power series."""
    total = power = x
    k = 1
    while abs(power) > Decimal("1e-60"):
        power *= -x * x
        k += 2
        total += power / k
    return total


@cache
def tables_text() -> str:
    with localcontext() as context:
        context.prec = 60
        logarithms = [(Decimal(k) / STEPS).ln() / 2 for k in range(FIRST, LAST + 1)]
        angles = [Decimal(0)]
        for k in range(1, STEPS + 1):  # the angle between the directions of (64, k - 1) and (64, k)
            angles.append(angles[-1] + arc_tangent(Decimal(STEPS) / (STEPS * STEPS + k * (k - 1))))
        quarter = 2 * angles[-1]
        reduction = [quarter]
        for _ in range(2):
            reduction.append(reduction[-1] - Decimal(float(reduction[-1])))
        numbers = {
            "NPC_HALF_LOG_2": pair_text(Decimal(2).ln() / 2),
            "NPC_LOG_2": pair_text(Decimal(2).ln()),
            "NPC_HALF_PI": pair_text(quarter),
            "NPC_PI": pair_text(2 * quarter),
            "NPC_THIRD": pair_text(Decimal(1) / 3),
            "NPC_FIFTH": pair_text(Decimal(1) / 5),
        }
        text = "".join(f"static const npc_two {name.lower()} = {value};\n" for name, value in numbers.items())
        text += f"static const double npc_quarter_parts[] = {{{', '.join(float(x).hex() for x in reduction)}}};\n"
        for name, numbers_of in (("npc_half_logarithms", logarithms), ("npc_angles", angles)):
            text += f"static const npc_two {name}[] = {{{', '.join(map(pair_text, numbers_of))}}};\n"
        context.prec = 420
        words = int(Decimal(2).ln() * 2 ** (64 * (WORDS - 1)))
    listed = ", ".join(hex(words >> (64 * k) & 2**64 - 1) for k in reversed(range(WORDS)))
    return text + f"static const uint64_t npc_log_2_words[] = {{{listed}}};\n"


SCALING_TEXT = r"""
#define NPC_APART __attribute__((noinline))
#define NPC_RARE __attribute__((noinline, cold))
static inline double npc_power_of_two(int n) {
  const int64_t bits = (int64_t)(1023 + n) << 52;
  double power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return power;
}
/* x * 2^n, rounded once where x is near 1 */
static inline double npc_shifted(double x, int n) {
  if (n > -1000 && n < 1000) return x * npc_power_of_two(n);
  n = n > 3000 ? 3000 : n < -3000 ? -3000 : n;
  const int third = n / 3;
  const double few = npc_power_of_two(third);
  return x * few * few * npc_power_of_two(n - 2 * third);
}
"""

# f + f^3/3 + f^5/5 ..., and with signs that alternate the inverse tangent: |f| is below 1/128.
LOG_TEXT = r"""
static inline npc_two npc_odd_series(npc_two f, double sign, int is_short) {
  if (is_short) {
    const double x = f.high * f.high * sign;
    const double tail = x * (1 / 3. + x * (1 / 5. + x * (1 / 7. + x * (1 / 9. + x * (1 / 11.)))));
    return npc_joined(f.high, f.low + f.high * tail);
  }
  npc_two s = npc_product(f, f);
  s.high *= sign, s.low *= sign;
  const double x = s.high, far = 1 / 7. + x * (1 / 9. + x * (1 / 11. + x * (1 / 13.)));
  const npc_two fifth = npc_sum(npc_fifth, npc_exact_product(x, far));
  const npc_two third = npc_sum(npc_third, npc_product(s, fifth));
  return npc_sum(f, npc_product(f, npc_product(s, third)));
}
/* The logarithm of |x + iy|, and the angle, in 100 bits or, short ones, in 68; x and y are finite, and not both zero. */
static inline void npc_log_pair(double x, double y, npc_two* size, npc_two* angle, int is_short) {
  const double ax = fabs(x), ay = fabs(y), larger = ax > ay ? ax : ay, smaller = ax > ay ? ay : ax;
  int64_t bits;
  __builtin_memcpy(&bits, &larger, sizeof bits);
  int exponent = (int)(bits >> 52) - 1023;
  if (exponent == -1023) { /* subnormal */
    const double made_normal = larger * 0x1p54;
    __builtin_memcpy(&bits, &made_normal, sizeof bits);
    exponent = (int)(bits >> 52) - 1023 - 54;
  }
  const double a = npc_shifted(larger, -exponent), b = npc_shifted(smaller, -exponent);
  /* The square, 1 to 8, as 2^twos times 3/4 to 3/2 */
  const double square = a * a + b * b, unit = square < 1.5 ? 1 : square < 3 ? 0.5 : square < 6 ? 0.25 : 0.125;
  const int twos = square < 1.5 ? 0 : square < 3 ? 1 : square < 6 ? 2 : 3, at = (int)(square * unit * 64 + 0.5);
  const double near = at / 64. / unit;
  const npc_two aa = npc_exact_product(a, a), bb = npc_exact_product(b, b), sum = npc_exact_sum(aa.high, bb.high);
  const npc_two beyond = npc_exact_sum(sum.high, -near), lows = npc_exact_sum(aa.low, bb.low);
  const npc_two rest = npc_exact_sum(sum.low, beyond.low), small = npc_exact_sum(rest.high, lows.high);
  const npc_two first = npc_exact_sum(beyond.high, small.high);
  const npc_two excess = npc_joined(first.high, first.low + (small.low + (rest.low + lows.low)));
  const npc_two twice = {2 * near, 0}, fraction = npc_quotient(excess, npc_sum(excess, twice));
  const int halves = twos + 2 * exponent;
  npc_two logarithm = npc_odd_series(fraction, 1, is_short);
  if (at != 64) logarithm = npc_sum(npc_half_logarithms[at - FIRST], logarithm);
  if (halves) logarithm = npc_sum(npc_scaled_pair(npc_half_log_2, halves), logarithm);
  *size = logarithm;
  const int step = (int)(b / a * 64 + 0.5);
  const double slope = step / 64.;
  const npc_two along = npc_exact_product(a, slope), across = npc_exact_product(b, slope), x_part = {a, 0}, y_part = {b, 0};
  npc_two turn = npc_odd_series(npc_quotient(npc_sum(y_part, npc_negated(along)), npc_sum(x_part, across)), -1, is_short);
  if (step) turn = npc_sum(npc_angles[step], turn);
  if (ay >= ax) turn = npc_sum(npc_half_pi, npc_negated(turn));
  if (x < 0) turn = npc_sum(npc_pi, npc_negated(turn));
  *angle = __builtin_signbit(y) ? npc_negated(turn) : turn;
}
""".replace("FIRST", str(FIRST))

# The result from its logarithm: r, and an angle that is `quarter` quarter turns and a rest.
RESULT_TEXT = r"""
static inline npc_c16 npc_exp_turned(npc_two r, int quarter, npc_two angle) {
  const npc_two most = {1400, 0}, least = {-1400, 0};
  r = r.high > 1400 ? most : r.high < -1400 ? least : r;
  const int n = (int)(r.high * 0x1.71547652b82fep+0 + (r.high < 0 ? -0.5 : 0.5));
  const npc_two rest = npc_sum(r, npc_scaled_pair(npc_log_2, -n));
  const double power = npc_plain_exp(rest.high), size = power + power * rest.low;
  const double s = npc_plain_sin(angle.high), c = npc_plain_cos(angle.high);
  const double sine = s + angle.low * c, cosine = c - angle.low * s;
  const double re = quarter & 1 ? sine : cosine, im = quarter & 1 ? cosine : sine;
  const npc_c16 z = {npc_shifted(((quarter + 1) & 2 ? -re : re) * size, n), npc_shifted((quarter & 2 ? -im : im) * size, n)};
  return z;
}
"""

# Numbers of n words in two's complement, the lowest first; the highest is the whole part.
LONG_TEXT = r"""
enum { NPC_WORDS = WORDS, NPC_LONGEST = NPC_WORDS + 1, NPC_WINDOW = 20 }; /* products with a number have a word more */
static const uint64_t npc_long_zero[NPC_LONGEST];
static NPC_RARE void npc_long_add(uint64_t* r, const uint64_t* a, const uint64_t* b, int n, int is_difference) {
  unsigned __int128 carry = is_difference;
  for (int k = 0; k < n; k++) {
    carry += (unsigned __int128)a[k] + (is_difference ? ~b[k] : b[k]);
    r[k] = (uint64_t)carry;
    carry >>= 64;
  }
}
static NPC_RARE int npc_long_magnitude(uint64_t* r, const uint64_t* a, int n) {
  const int is_negative = a[n - 1] >> 63;
  npc_long_add(r, npc_long_zero, a, n, is_negative);
  return is_negative;
}
static NPC_RARE void npc_long_signed(uint64_t* r, int is_negative, int n) {
  if (is_negative) npc_long_add(r, npc_long_zero, r, n, 1);
}
static NPC_RARE void npc_long_product(uint64_t* r, const uint64_t* x, const uint64_t* y, int n) {
  uint64_t a[NPC_WORDS], b[NPC_WORDS], whole[2 * NPC_WORDS] = {0};
  const int is_negative = npc_long_magnitude(a, x, n) ^ npc_long_magnitude(b, y, n);
  for (int j = 0; j < n; j++) {
    unsigned __int128 carry = 0;
    for (int k = 0; k < n; k++) {
      carry += (unsigned __int128)a[j] * b[k] + whole[j + k];
      whole[j + k] = (uint64_t)carry;
      carry >>= 64;
    }
    whole[j + n] = (uint64_t)carry;
  }
  __builtin_memcpy(r, whole + n - 1, n * sizeof *r);
  npc_long_signed(r, is_negative, n);
}
/* a * m, or with a shift of one word a * m / 2^64 */
static NPC_RARE void npc_long_times(uint64_t* r, const uint64_t* x, int64_t m, int n, int shift) {
  uint64_t a[NPC_LONGEST + 1];
  const int is_negative = npc_long_magnitude(a, x, n) ^ (m < 0);
  unsigned __int128 carry = 0;
  for (int k = 0; k < n; k++) {
    carry += (unsigned __int128)a[k] * (m < 0 ? -(uint64_t)m : (uint64_t)m);
    a[k] = (uint64_t)carry;
    carry >>= 64;
  }
  a[n] = (uint64_t)carry;
  __builtin_memcpy(r, a + shift, n * sizeof *r);
  npc_long_signed(r, is_negative, n);
}
static NPC_RARE void npc_long_over(uint64_t* r, const uint64_t* x, uint32_t m, int n) {
  const int is_negative = npc_long_magnitude(r, x, n);
  uint64_t rest = 0;
  for (int k = n - 1; k >= 0; k--) {
    const uint64_t upper = rest << 32 | r[k] >> 32, lower = upper % m << 32 | (uint32_t)r[k];
    r[k] = upper / m << 32 | lower / m;
    rest = lower % m;
  }
  npc_long_signed(r, is_negative, n);
}
static NPC_RARE void npc_long_product_of_pairs(uint64_t* z, const uint64_t* a, const uint64_t* b, int n) {
  uint64_t p[4][NPC_WORDS];
  for (int k = 0; k < 4; k++) npc_long_product(p[k], a + (k / 2) * NPC_WORDS, b + (k % 2) * NPC_WORDS, n);
  npc_long_add(z, p[0], p[3], n, 1);
  npc_long_add(z + NPC_WORDS, p[1], p[2], n, 0);
}
/* mantissa * 2^exponent */
static inline uint64_t npc_taken_apart(double x, int* exponent) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const int biased = (bits >> 52) & 2047;
  *exponent = (biased ? biased : 1) - 1075;
  return (bits & 0xfffffffffffff) | (biased ? 0x10000000000000 : 0);
}
/* a * 2^shift, of so many words */
static NPC_RARE void npc_long_shifted(uint64_t* r, int words, const uint64_t* a, int n, int shift) {
  for (int k = 0; k < words; k++) {
    const int bit = 64 * k - shift, at = bit >> 6, few = bit & 63;
    const uint64_t low = at >= 0 && at < n ? a[at] : 0, high = at >= -1 && at < n - 1 ? a[at + 1] : 0;
    r[k] = few ? low >> few | high << (64 - few) : low;
  }
}
/* log(x + iy), where the larger part is at least 1 and below 2: l + log(1 + e) for a number l near it, with z exp(-l) = 1 + e. */
static NPC_RARE void npc_long_log(uint64_t r[2][NPC_WORDS], double x, double y, int n) {
  uint64_t power[2][NPC_WORDS] = {{0}}, term[2][NPC_WORDS] = {{0}}, z[2][NPC_WORDS], part[4][NPC_WORDS];
  npc_two size, angle;
  npc_log_pair(x, y, &size, &angle, 1);
  const int64_t re = (int64_t)(size.high * -0x1p48), im = (int64_t)(angle.high * -0x1p48); /* of -l, and in 2^-64 of -l/2^16 */
  power[0][n - 1] = term[0][n - 1] = 1;
  for (int k = 1, bits = 0; bits < 64 * n; k++) {
    for (int j = 0; j < 4; j++) npc_long_times(part[j], term[j / 2], j % 3 ? im : re, n, 1);
    npc_long_add(part[0], part[0], part[2], n, 1);
    npc_long_add(part[1], part[1], part[3], n, 0);
    for (int j = 0; j < 2; j++) {
      npc_long_over(term[j], part[j], k, n);
      npc_long_add(power[j], power[j], term[j], n, 0);
    }
    bits += 14 + 63 - __builtin_clzll(k);
  }
  for (int k = 0; k < 16; k++) npc_long_product_of_pairs(power[0], power[0], power[0], n);
  for (int j = 0; j < 2; j++) {
    int exponent;
    const double given = j ? y : x;
    const uint64_t mantissa = npc_taken_apart(given, &exponent);
    npc_long_shifted(z[j], n, &mantissa, 1, exponent + 64 * (n - 1));
    npc_long_signed(z[j], given < 0, n);
  }
  npc_long_product_of_pairs(z[0], z[0], power[0], n);
  z[0][n - 1]--;
  __builtin_memcpy(power, z, sizeof z);
  for (int j = 0; j < 2; j++) {
    const __int128 near = -(__int128)(j ? im : re) << 16;
    __builtin_memset(r[j], 0, n * sizeof *r[j]);
    r[j][n - 2] = (uint64_t)near, r[j][n - 1] = (uint64_t)(near >> 64);
    npc_long_add(r[j], r[j], power[j], n, 0);
  }
  for (int k = 2; 46 * (k - 1) < 64 * n; k++) {
    npc_long_product_of_pairs(power[0], power[0], z[0], n);
    for (int j = 0; j < 2; j++) {
      npc_long_over(part[j], power[j], k, n);
      npc_long_add(r[j], r[j], part[j], n, k % 2 == 0);
    }
  }
}
/* window += a * m: two words of it are behind the point. */
static NPC_RARE void npc_window_add(uint64_t* window, const uint64_t* a, double m, int n, int is_difference) {
  uint64_t product[NPC_LONGEST], moved[NPC_WINDOW];
  int exponent;
  const uint64_t mantissa = npc_taken_apart(m, &exponent);
  const int is_negative = npc_long_magnitude(product, a, n) ^ (m < 0) ^ is_difference;
  product[n] = 0;
  npc_long_times(product, product, (int64_t)mantissa, n + 1, 0);
  npc_long_shifted(moved, NPC_WINDOW, product, n + 1, exponent + 64 * (3 - n));
  npc_long_add(window, window, moved, NPC_WINDOW, is_negative);
}
/* (x + iy) ** (c + id) for numbers of any size: with a logarithm of as many bits behind the point as the exponent has before it,
   and 160 more. */
static NPC_RARE npc_c16 npc_power_by_long_numbers(double x, double y, double c, double d) {
  uint64_t z[2][NPC_WORDS], two[NPC_WORDS], r[NPC_WINDOW] = {0}, turns[NPC_WINDOW] = {0}, inverse[NPC_WORDS];
  int exponent, bits, other;
  npc_taken_apart(fabs(c) > fabs(d) ? c : d, &bits);
  const int n = (bits + 53 + 160 < 64 ? 0 : (bits + 53 + 160) / 64) + 2;
  const double larger = fabs(x) > fabs(y) ? x : y;
  const uint64_t mantissa = npc_taken_apart(larger, &exponent);
  other = exponent + 63 - __builtin_clzll(mantissa);
  npc_long_log(z, npc_shifted(x, -other), npc_shifted(y, -other), n);
  if (other) {
    for (int k = 0; k < n; k++) two[n - 1 - k] = npc_log_2_words[k];
    npc_long_times(two, two, other, n, 0);
    npc_long_add(z[0], z[0], two, n, 0);
  }
  npc_window_add(r, z[0], c, n, 0);
  npc_window_add(r, z[1], d, n, 1);
  for (int k = 0; k < n; k++) inverse[n - 1 - k] = npc_two_over_pi[k];
  for (int j = 0; j < 2; j++) {
    npc_long_product(z[j], z[j], inverse, n);
    npc_window_add(turns, z[j], j ? c : d, n, 0);
  }
  const int is_negative = r[NPC_WINDOW - 1] >> 63;
  int is_large = 0;
  for (int k = 3; k < NPC_WINDOW; k++) is_large |= r[k] != (is_negative ? ~(uint64_t)0 : 0);
  is_large |= (int64_t)r[2] > 2000 || (int64_t)r[2] < -2000;
  npc_two logarithm = {is_negative ? -2000 : 2000, 0}, angle;
  if (!is_large) {
    logarithm = npc_exact_sum((double)(int64_t)r[2], (double)(r[1] >> 32) * 0x1p-32);
    logarithm = npc_sum(logarithm, npc_exact_sum((double)(uint32_t)r[1] * 0x1p-64, 0));
  }
  npc_angle_of((unsigned __int128)turns[1] << 64 | turns[0], &angle.high, &angle.low);
  return npc_exp_turned(logarithm, (int)((turns[2] + (turns[1] >> 63)) & 3), angle);
}
""".replace("= WORDS", f"= {WORDS}")

POWER_TEXT = r"""
static NPC_RARE void npc_long_pair(double x, double y, npc_two* size, npc_two* angle) {
  npc_log_pair(x, y, size, angle, 0);
}
/* (x + iy) ** (c + id). Or, in `far`: 1 where that takes long numbers, and where it does not, 2 for infinity and -2 for zero. */
static NPC_APART npc_c16 npc_power_by_logarithm(double x, double y, double c, double d, int* far) {
  npc_two size, angle;
  npc_log_pair(x, y, &size, &angle, 1);
  const double product = (fabs(c) + fabs(d)) * (fabs(size.high) + fabs(angle.high));
  if (!(product < 0x1p12)) npc_long_pair(x, y, &size, &angle);
  const npc_two r = npc_sum(npc_scaled_pair(size, c), npc_scaled_pair(angle, -d));
  *far = 0;
  if (!(product < 0x1p40)) {
    *far = fabs(r.high) - 0x1p-90 * product < 2000 || product > 0x1p1000 ? 1 : r.high > 0 ? 2 : -2;
    return (npc_c16){0, 0};
  }
  npc_two phi = npc_sum(npc_scaled_pair(size, d), npc_scaled_pair(angle, c));
  if (phi.high == 0) {
    npc_c16 z = npc_exp_turned(r, 0, phi);
    z.im = copysign(z.im, size.high * d + angle.high * c);
    return z;
  }
  const double turns = rint(phi.high * 0x1.45f306dc9c883p-1);
  const npc_two first = npc_exact_product(-turns, npc_quarter_parts[0]), second = npc_exact_product(-turns, npc_quarter_parts[1]);
  const npc_two low = {first.low, 0}, more = {phi.low, -turns * npc_quarter_parts[2]};
  phi = npc_sum(npc_exact_sum(phi.high, first.high), npc_sum(low, second));
  return npc_exp_turned(r, (int)((int64_t)turns & 3), npc_sum(phi, more));
}
static inline void npc_multiply_pairs(npc_two* z, const npc_two* a, const npc_two* b) {
  const npc_two re = npc_sum(npc_product(a[0], b[0]), npc_negated(npc_product(a[1], b[1])));
  const npc_two im = npc_sum(npc_product(a[0], b[1]), npc_product(a[1], b[0]));
  z[0] = re, z[1] = im;
}
/* Of a part that is far smaller than the other, only its product with that counts: it may be scaled by itself. */
static NPC_APART npc_c16 npc_whole_power(double x, double y, int n) {
  int exponent, smaller;
  const int is_re = fabs(x) > fabs(y);
  const uint64_t large = npc_taken_apart(is_re ? x : y, &exponent), small = npc_taken_apart(is_re ? y : x, &smaller);
  exponent += 63 - __builtin_clzll(large | 1), smaller += 63 - __builtin_clzll(small | 1);
  const int moved = small && exponent - smaller > 300 ? exponent - smaller - 200 : 0;
  x = npc_shifted(x, (is_re ? 0 : moved) - exponent), y = npc_shifted(y, (is_re ? moved : 0) - exponent);
  npc_two base[2] = {{x, 0}, {y, 0}};
  npc_two power[2];
  int is_begun = 0;
  for (int m = n < 0 ? -n : n;;) {
    if (m & 1 && is_begun) npc_multiply_pairs(power, power, base);
    if (m & 1 && !is_begun) power[0] = base[0], power[1] = base[1], is_begun = 1;
    m >>= 1;
    if (!m) break;
    npc_multiply_pairs(base, base, base);
  }
  if (n < 0) {
    const npc_two square = npc_sum(npc_product(power[0], power[0]), npc_product(power[1], power[1]));
    power[0] = npc_quotient(power[0], square);
    power[1] = npc_negated(npc_quotient(power[1], square));
  }
  const double re = power[0].high, im = power[1].high;
  const int all = exponent * n, few = all - moved;
  const npc_c16 z = {npc_shifted(re, fabs(re) < fabs(im) ? few : all), npc_shifted(im, fabs(im) < fabs(re) ? few : all)};
  return z;
}
"""

# Of one dtype, as npy_cpow.
LOOP_TEXT = """
/* NumPy's, where the result is infinite or zero, which its own may show in many ways; of zeros that both have, NumPy's sign. */
static inline int npc_is_numpys_{K}({T} exact, {T} numpys) {{
  const int is_finite = exact.re - exact.re == 0 && exact.im - exact.im == 0, is_zero = exact.re == 0 && exact.im == 0;
  const int is_infinite = !(numpys.re - numpys.re == 0 && numpys.im - numpys.im == 0);
  return (!is_finite || is_zero) && (is_infinite || (is_zero && numpys.re == 0 && numpys.im == 0));
}}
static inline {T} npc_chosen_{K}({T} exact, {T} numpys) {{
  if (npc_is_numpys_{K}(exact, numpys)) return numpys;
  const int is_re = exact.re == 0 && numpys.re == 0, is_im = exact.im == 0 && numpys.im == 0;
  return npc_pair_{K}(is_re ? numpys.re : exact.re, is_im ? numpys.im : exact.im);
}}
static inline {T} npc_power_{K}({T} a, {T} b) {{
  if (b.re == 0 && b.im == 0) return npc_pair_{K}(1, 0);
  if (a.re == 0 && a.im == 0) {{
    volatile {P} infinity = __builtin_inf();
    return b.re > 0 ? npc_pair_{K}(0, 0) : npc_pair_{K}(infinity - infinity, infinity - infinity);
  }}
  if (b.im == 0 && b.re > -100 && b.re < 100 && (int)b.re == b.re) {{
    const int n = (int)b.re;
    if (n == 1) return a;
    {T} z = {{1, 0}}, power = a;
    for (int m = n < 0 ? -n : n;;) {{
      if (m & 1) z = npc_cmul_{K}(z, power);
      m >>= 1;
      if (!m) break;
      power = npc_cmul_{K}(power, power);
    }}
    if (n == 2) z = npc_cmul_{K}(a, a);
    if (n == 3) z = npc_cmul_{K}(a, npc_cmul_{K}(a, a));
    if (n < 0) z = npc_divide_{K}(npc_pair_{K}(1, 0), z);
    if (n == 2 || n == 3 || a.re - a.re != 0 || a.im - a.im != 0) return z;
    const int is_in_range = sizeof({P}) == 4 && n >= -7 && n <= 7; /* of float64, of which float32 is a part */
    const npc_c16 exact = is_in_range ? npc_few_products(a.re, a.im, n) : npc_whole_power(a.re, a.im, n);
    return npc_chosen_{K}(npc_pair_{K}(({P})exact.re, ({P})exact.im), z);
  }}
  if (a.re - a.re != 0 || a.im - a.im != 0 || b.re - b.re != 0 || b.im - b.im != 0) {{
    if (b.im == 0) b.re = npc_heard_{R}(b.re); /* NumPy compares it with 100 */
    return npc_of_c_{K}(cpow{s}(npc_to_c_{K}(a), npc_to_c_{K}(b)));
  }}
  int far;
  npc_c16 exact = npc_power_by_logarithm(a.re, a.im, b.re, b.im, &far);
  if (!far) {{
    if (fabs(exact.re) > {LARGE} || fabs(exact.im) > {LARGE}) npc_overflown(0); /* as NumPy's, which is not as near, may have */
    return npc_pair_{K}(({P})exact.re, ({P})exact.im);
  }}
  const {T} z = npc_of_c_{K}(cpow{s}(npc_to_c_{K}(a), npc_to_c_{K}(b))); /* for its errors too */
  if (far != 1 && npc_is_numpys_{K}(npc_pair_{K}(far > 0 ? __builtin_inf() : 0, 0), z)) return z;
  exact = npc_power_by_long_numbers(a.re, a.im, b.re, b.im);
  return npc_chosen_{K}(npc_pair_{K}(({P})exact.re, ({P})exact.im), z);
}}
"""


def power_text() -> str:
    """What npc_power_c8 and npc_power_c16 call, beside functions of far_angles.py and double_double.py."""
    return tables_text() + SCALING_TEXT + LOG_TEXT + RESULT_TEXT + LONG_TEXT + POWER_TEXT
