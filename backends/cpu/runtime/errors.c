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
static unsigned raised_flags(void) { return __builtin_aarch64_get_fpsr() & 15; }
static void clear_flags(void) { __builtin_aarch64_set_fpsr(__builtin_aarch64_get_fpsr() & ~31u); }
static void raise_flags(unsigned flags) { __builtin_aarch64_set_fpsr(__builtin_aarch64_get_fpsr() | flags); }
static int errstate_bits(unsigned flags) {
  return (flags & 2 ? 1 : 0) | (flags & 4 ? 2 : 0) | (flags & 8 ? 4 : 0) | (flags & 1 ? 8 : 0);
}
#else
static unsigned raised_flags(void) { return 0; }
static void clear_flags(void) {}
static void raise_flags(unsigned flags) {}
static int errstate_bits(unsigned flags) { return 0; }
#endif

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
