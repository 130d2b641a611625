/* Floating-point errors.

   The processor's sticky flags, in its own order: invalid, denormal, divide, overflow, underflow. */

#if defined(__x86_64__)
static unsigned raised_x87_flags(void) {
  unsigned short x87;
  __asm__ volatile("fnstsw %0" : "=a"(x87));
  return x87;
}
static unsigned raised_flags(void) { return (__builtin_ia32_stmxcsr() | raised_x87_flags()) & 31; }
static void clear_flags(void) { /* they are seldom set, and slow to clear */
  const unsigned sse = __builtin_ia32_stmxcsr();
  if (sse & 31) __builtin_ia32_ldmxcsr(sse & ~63u);
  if (raised_x87_flags() & 31) __asm__ volatile("fnclex");
}
static void raise_flags(unsigned flags) { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | flags); }
static int errstate_bits(unsigned flags) {
  return (flags & 4 ? 1 : 0) | (flags & 8 ? 2 : 0) | (flags & 16 ? 4 : 0) | (flags & 1 ? 8 : 0);
}
#elif defined(__aarch64__)
static uint64_t status(void) { /* invalid, divide, overflow, underflow, inexact; GCC alone has a builtin for it */
  uint64_t fpsr;
  __asm__ volatile("mrs %0, fpsr" : "=r"(fpsr) : : "memory");
  return fpsr;
}
static void set_status(uint64_t fpsr) { __asm__ volatile("msr fpsr, %0" : : "r"(fpsr) : "memory"); }
static unsigned raised_flags(void) { return status() & 15; }
static void clear_flags(void) {
  if (raised_flags()) set_status(status() & ~(uint64_t)31);
}
static void raise_flags(unsigned flags) { set_status(status() | flags); }
static int errstate_bits(unsigned flags) {
  return (flags & 2 ? 1 : 0) | (flags & 4 ? 2 : 0) | (flags & 8 ? 4 : 0) | (flags & 1 ? 8 : 0);
}
#else
#include <fenv.h>
static unsigned raised_flags(void) { return fetestexcept(FE_ALL_EXCEPT); }
static void clear_flags(void) { feclearexcept(FE_ALL_EXCEPT); }
static void raise_flags(unsigned flags) { feraiseexcept(flags); }
static int errstate_bits(unsigned flags) {
  return (flags & FE_DIVBYZERO ? 1 : 0) | (flags & FE_OVERFLOW ? 2 : 0) | (flags & FE_UNDERFLOW ? 4 : 0) |
         (flags & FE_INVALID ? 8 : 0);
}
#endif

static void run_numpy_loop(const struct npc_numpy_loop* loop, char** operands, int64_t count, const int64_t* strides) {
  const unsigned before = raised_flags();
  loop->function(operands, &count, strides, loop->data);
  if (before & ~raised_flags()) raise_flags(before);
}

static PyObject* reporter; /* asks np.errstate about the bits, and raises when it does not ignore one */
static PyObject *state_variable, *usual_state; /* NumPy's context variable of np.errstate, and its value when nobody set one */

static int is_state_usual(void) {
  PyObject* state = 0;
  if (PyContextVar_Get(state_variable, 0, &state) || !state) return 0;
  Py_DecRef(state);
  return state == usual_state;
}

static int report(int errors, int with_invalid, int unseen) {
  int noted = errstate_bits(raised_flags());
  if (noted & 8) noted |= with_invalid;
  if (unseen & errors & ~noted && !is_state_usual()) noted |= unseen;
  int bits = noted & errors;
  if (!bits) return 0;
  PyObject* answer = PyObject_CallFunction(reporter, "i", bits);
  if (!answer) return -1;
  Py_DecRef(answer);
  return 0;
}

/* NumPy runs it, and finds in its own order that memory is lacking. */
static void unwritten(void) {
  PyErr_Clear();
  Py_DecRef(PyObject_CallFunction(reporter, "i", -1));
}
