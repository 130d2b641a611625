"""Functions of scipy.special in C: those that the C library has, or that are made of its logarithm.

They are within 4 units in the last place of the exact result; SciPy's own erfc and gammaln are not, everywhere. Special values
are SciPy's. It takes back what its functions note of floating-point errors, so these note none but underflow: what would be a
division by zero, an overflow or an invalid operation is not computed.
"""

TEXT = """
/* x * y for x that is not 0, without noting an error. */
static inline double npc_quiet_product(double x, double y) {
  if (fabs(x) <= 0x1p1000 || x != x || y != y) return x * y;
  if (fabs(x) == __builtin_inf()) return y == 0 ? __builtin_nan("") : (x < 0) == (y < 0) ? __builtin_inf() : -__builtin_inf();
  const double part = x * 0x1p-30 * y;
  return fabs(part) > 0x1.fffffffffffffp993 ? copysign(__builtin_inf(), part) : part * 0x1p30;
}
static inline float npc_quiet_float(double x) {
  return fabs(x) >= 0x1.ffffffp127 ? (float)copysign(__builtin_inf(), x) : (float)x;
}
static inline double npc_quiet_log(double x) {
  const double y = npc_log_f8(x > 0 ? x : 1);
  return x > 0 ? y : x == 0 ? -__builtin_inf() : __builtin_nan("");
}
static inline double npc_quiet_log1p(double x) {
  const double y = log1p(x > -1 ? x : 0);
  return x > -1 ? y : x == -1 ? -__builtin_inf() : __builtin_nan("");
}
static inline double npc_erf_f8(double x) { return erf(x); }
static inline double npc_erfc_f8(double x) { return erfc(x); }
/* Infinite where SciPy's is: beside 0, and above a limit below that of float64. */
static inline double npc_gammaln_f8(double x) {
  if (fabs(x) == __builtin_inf()) return x;
  if (x > 2.556348e305 || fabs(x) < 0x1p-1024 || (x < 0 && x == floor(x))) return __builtin_inf();
  int sign;
  return lgamma_r(x, &sign);
}
static inline double npc_expit_f8(double x) {
  const int is_far = x < -0x1.62e42fefa39efp9;
  const double y = 1 / (1 + npc_exp_f8(is_far ? 0 : -x));
  return is_far ? 0 : y;
}
static inline double npc_logit_f8(double x) {
  if (!(x > 0 && x < 1)) return x == 0 ? -__builtin_inf() : x == 1 ? __builtin_inf() : __builtin_nan("");
  const double y = 2 * (x - 0.5);
  return x < 0.3 || x > 0.65 ? npc_log_f8(x / (1 - x)) : log1p(y) - log1p(-y);
}
static inline double npc_entr_f8(double x) {
  return x > 0 ? -npc_quiet_product(x, npc_quiet_log(x)) : x == 0 ? 0 : x < 0 ? -__builtin_inf() : x;
}
static inline double npc_xlogy_f8(double x, double y) {
  return x == 0 ? (y == y ? 0 : y) : npc_quiet_product(x, npc_quiet_log(y));
}
static inline double npc_xlog1py_f8(double x, double y) {
  return x == 0 ? (y == y ? 0 : y) : npc_quiet_product(x, npc_quiet_log1p(y));
}
static inline float npc_erf_f4(float x) { return (float)erf(x); }
static inline float npc_erfc_f4(float x) { return (float)erfc(x); }
static inline float npc_gammaln_f4(float x) { return npc_quiet_float(npc_gammaln_f8(x)); }
static inline float npc_expit_f4(float x) { return x < -0x1.62e42ep6f ? 0 : (float)npc_expit_f8(x); }
static inline float npc_logit_f4(float x) { return (float)npc_logit_f8(x); }
static inline float npc_entr_f4(float x) { return npc_quiet_float(npc_entr_f8(x)); }
static inline float npc_xlogy_f4(float x, float y) { return npc_quiet_float(npc_xlogy_f8(x, y)); }
static inline float npc_xlog1py_f4(float x, float y) { return npc_quiet_float(npc_xlog1py_f8(x, y)); }
"""
