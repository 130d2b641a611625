"""Numbers of twice the digits, as sums of two doubles: the C text of their arithmetic."""

PAIRS_TEXT = r"""
typedef struct { double high, low; } npc_two; /* their sum; low is at most half a unit of high */
static inline npc_two npc_exact_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  const npc_two r = {sum, (a - (sum - part)) + (b - part)};
  return r;
}
static inline npc_two npc_joined(double a, double b) { /* where a is the larger */
  const double sum = a + b;
  const npc_two r = {sum, b - (sum - a)};
  return r;
}
static inline npc_two npc_exact_product(double a, double b) {
  const double product = a * b;
  const npc_two r = {product, __builtin_fma(a, b, -product)};
  return r;
}
static inline npc_two npc_sum(npc_two a, npc_two b) { /* to 2^-105 of the larger */
  const npc_two high = npc_exact_sum(a.high, b.high);
  return npc_joined(high.high, high.low + (a.low + b.low));
}
static inline npc_two npc_negated(npc_two a) { const npc_two r = {-a.high, -a.low}; return r; }
static inline npc_two npc_product(npc_two a, npc_two b) {
  const npc_two high = npc_exact_product(a.high, b.high);
  return npc_joined(high.high, high.low + (a.high * b.low + a.low * b.high));
}
static inline npc_two npc_scaled_pair(npc_two a, double b) {
  const npc_two high = npc_exact_product(a.high, b);
  return npc_joined(high.high, high.low + a.low * b);
}
static inline npc_two npc_quotient(npc_two a, npc_two b) {
  const double inverse = 1 / b.high, first = a.high * inverse;
  return npc_joined(first, (__builtin_fma(-first, b.high, a.high) + (a.low - first * b.low)) * inverse);
}
"""
