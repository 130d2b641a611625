"""The C text that every generated unit starts with: types, and the table of what the runtime offers it.

A unit includes no header (c_library.py declares what it may call of the C library) and calls nothing of Python or NumPy
itself: it goes through `rt`, which `npc_bind` sets when the unit is loaded. It defines one entry point,

    PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs)

called as METH_FASTCALL with the GIL held: it returns a new tuple, or NULL with an exception set. Where a graph has one
output, npc_item is called in the same way and returns it.
"""

from npcompile.backends.cpu.c_library import LIBRARY

TYPES = r"""
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;

typedef struct _object PyObject;

/* The leading fields of NumPy's PyArrayObject. */
typedef struct {
  int64_t ob_refcnt;
  PyObject* ob_type;
  char* data;
  int nd;
  int64_t* dimensions;
  int64_t* strides; /* bytes, signed */
  PyObject* base;
  PyObject* descr;
  int flags;
} npc_array;

/* Those of its PyArray_Descr. */
typedef struct {
  int64_t ob_refcnt;
  PyObject *ob_type, *typeobj;
  char kind, type, byteorder, former_flags;
  int type_num;
  uint64_t flags;
  int64_t elsize; /* bytes */
} npc_descr;

/* Items begin .. end-1 of a loop, on one of threads() threads. `begin` is a multiple of the loop's grain, so that
   a reduction which keeps one partial result per grain does not depend on the number of threads. */
typedef void (*npc_body)(void* context, int64_t begin, int64_t end, int thread);

/* Every size and leading dimension of BLAS is a pointer to int64_t, whichever integers the library was built with. */
typedef void (*npc_gemm)(const char* transa, const char* transb, const int64_t* m, const int64_t* n, const int64_t* k,
                         const void* alpha, const void* a, const int64_t* lda, const void* b, const int64_t* ldb,
                         const void* beta, void* c, const int64_t* ldc);
typedef void (*npc_gemv)(const char* trans, const int64_t* m, const int64_t* n, const void* alpha, const void* a,
                         const int64_t* lda, const void* x, const int64_t* incx, const void* beta, void* y,
                         const int64_t* incy);
typedef void (*npc_syrk)(const char* uplo, const char* trans, const int64_t* n, const int64_t* k, const void* alpha,
                         const void* a, const int64_t* lda, const void* beta, void* c, const int64_t* ldc);
typedef double (*npc_ddot)(const int64_t* n, const double* x, const int64_t* incx, const double* y, const int64_t* incy);
typedef float (*npc_sdot)(const int64_t* n, const float* x, const int64_t* incx, const float* y, const int64_t* incy);

/* c[m, n] = a[m, k] @ b[k, n], with strides in bytes; of `block` products sums are made, which are added then. 0, or 2 without
   memory, 3 when interrupted. Elements that are not finite are noted so that NumPy is asked. */
typedef int (*npc_matmul)(char* c, int64_t c_m, int64_t c_n, const char* a, int64_t a_m, int64_t a_k, const char* b, int64_t b_k,
                           int64_t b_n, int64_t m, int64_t n, int64_t k, int64_t block);
/* The same for real numbers, in tiles whatever the sizes are; on the calling thread alone where it makes a part of a product. */
typedef int (*npc_matmul_of_rows)(char* c, int64_t c_m, int64_t c_n, const char* a, int64_t a_m, int64_t a_k, const char* b,
                                  int64_t b_k, int64_t b_n, int64_t m, int64_t n, int64_t k, int64_t block, int is_alone);

/* An inner loop of a ufunc of NumPy's, and what it is given beside its operands: numpy_loops.py. */
struct npc_numpy_loop {
  void (*function)(char** operands, const int64_t* count, const int64_t* strides, void* data);
  void* data;
};

/* Functions that return int give 0, or -1 with a Python exception set; those that return a pointer give NULL then.
   Only `parallel`, `parallel_in_pieces`, `threads`, `scratch`, `release`, `watch`, `poll`, `empty`, `incref`, `decref`,
   `run_numpy_loop` and BLAS may be called from a body; from there a loop runs on the calling thread, `scratch` and `empty` set
   no exception, and where `poll` is not 0 the body has to end. Arrays that it makes are its own: no Python object, and gone
   before it ends. */
struct npc_runtime {
  /* Run `body` over 0 .. n-1: in one call when n <= grain, else in chunks on all threads with the GIL released.
     -1 when the user interrupted it: some items have not run then. */
  int (*parallel)(npc_body body, void* context, int64_t n, int64_t grain);
  /* The same where a thread that is awake may take less than a grain: a multiple of `piece`. */
  int (*parallel_in_pieces)(npc_body body, void* context, int64_t n, int64_t grain, int64_t piece);
  int (*threads)(void); /* an upper bound of `thread` + 1 in any loop of this call */

  PyObject* (*empty)(PyObject* dtype, int nd, const int64_t* dimensions, const int64_t* strides); /* NULL strides: C */
  /* An array of memory that belongs to `owner`, an array. */
  PyObject* (*view)(PyObject* dtype, int nd, const int64_t* dimensions, const int64_t* strides, char* data, PyObject* owner);
  PyObject* (*scalar)(PyObject* array);                   /* steals a 0-d array, gives the NumPy scalar */
  PyObject* (*box)(PyObject* dtype, const void* element); /* a NumPy scalar from the bytes of one element */
  void* (*scratch)(int64_t bytes);                        /* temporary memory, aligned to 64 bytes */
  void (*release)(void* scratch);                         /* NULL is fine */

  int (*as_int64)(PyObject* number, int64_t* out); /* a Python number, NumPy scalar or 0-d array; OverflowError */
  int (*as_uint64)(PyObject* number, uint64_t* out);
  int (*as_double)(PyObject* number, double* out);
  int (*as_complex)(PyObject* number, double* out);                  /* out[0] + out[1] j */
  int (*scalar_data)(PyObject* number, PyObject* dtype, void* out);  /* its bytes as one element: np.asarray(number, dtype) */

  PyObject* (*tuple)(int64_t n);
  void (*tuple_set)(PyObject* tuple, int64_t i, PyObject* item); /* steals the item */
  /* Of n items, which are stolen. NULL, with the others released, where one of them is NULL. */
  PyObject* (*tuple_of)(int n, ...);
  /* A list of `count` numbers, i f b n as below, which lie `size` bytes apart; after ( of tuples of them, each in 8 bytes. */
  PyObject* (*list_of)(const char* letters, PyObject* const* dtypes, const char* data, int64_t count, int64_t size);
  /* A list of a number and of what the letters say: i int64_t, f double, b int, c two doubles as Python's numbers; as NumPy's
     scalars d a dtype and a double, n a dtype and an address; o an object; l the arguments of `list_of`; v those of `view`.
     NULL where one cannot be made. */
  PyObject* (*leave)(int64_t where, const char* letters, ...);
  PyObject* (*from_int64)(long long);
  PyObject* (*from_uint64)(unsigned long long);
  PyObject* (*from_double)(double);
  PyObject* (*from_bool)(long);
  PyObject* (*from_complex)(double, double);
  PyObject* none;

  /* Guards: 0 where the object is exactly of that type. Nothing else is asked of it, and no exception is set. */
  int (*take_array)(PyObject* object, PyObject* dtype, int nd, int flags); /* with all of these flags set */
  int (*take_int)(PyObject* object, int64_t* out);                         /* and of less than 64 bits */
  int (*take_float)(PyObject* object, double* out);
  int (*take_bool)(PyObject* object, uint8_t* out);
  int (*take_complex)(PyObject* object, double _Complex* out);
  int (*take_scalar)(PyObject* object, PyObject* dtype, void* out);
  int (*are_names_known)(PyObject* facts); /* 1 or 0, or -1 with an exception set, as the next */
  int (*is_state_known)(PyObject* states); /* NumPy's, of floating-point errors */
  int (*is_true_of_state)(PyObject* question); /* (states of which it is, others, what else says so) */
  void (*incref)(PyObject* object);
  void (*decref)(PyObject* object); /* NULL is fine */
  void (*discard)(PyObject* array); /* as decref: one that `empty` has made, and may give again */
  int (*error)(void);               /* is an exception set? */
  PyObject* (*caught)(void);        /* the one that is, which is not from here on */
  void (*pardon)(void);             /* none is, from here on */

  /* Floating-point errors, np.errstate's four: 1 divide, 2 over, 4 under, 8 invalid. They add up over all threads of
     a loop. `report` gives -1, with FloatingPointSignal set, when one of `errors` happened since `watch` and
     np.errstate does not ignore it, else 0. Those in `with_invalid` happened where an invalid operation did. NumPy may
     note those in `unseen`, and nothing here does: they happened wherever np.errstate is not as it is by default. */
  void (*watch)(void);
  int (*report)(int errors, int with_invalid, int unseen);
  void (*note_invalid)(void);
  /* In place of the exception that is set, where memory is lacking before an argument was written to: FloatingPointSignal. */
  void (*unwritten)(void);
  /* Can one of these arrays and numbers be infinite, or something that was computed since `watch`? */
  int (*may_be_infinite)(PyObject* const* args, int64_t n);
  int (*overlaps_itself)(const npc_array* array); /* do, or may, elements of it share memory? */

  int (*index_error)(int64_t index, int axis, int64_t size); /* sets NumPy's IndexError; always -1 */
  int (*value_error)(const char* text);                      /* sets ValueError; always -1 */
  int (*poll)(void); /* lets other threads of Python run; -1 when the user interrupts */
  int (*interrupted)(void); /* the same, and no other thread runs */
  /* While held, loops and `poll` do not look for signals: what is being written is written as a whole. */
  void (*hold)(int is_held);
  int (*is_due)(int64_t* due); /* has it been a while since the first time that `due`, 0 then, was asked about? */
  /* The errors that were found before stay noted: some loops forget all, where they have found some that are none. */
  void (*run_numpy_loop)(const struct npc_numpy_loop* loop, char** operands, int64_t count, const int64_t* strides);
  double (*square_by_pow)(double x); /* libm's pow(x, 2), to the bit, where that is between 2^-32 and 2^32 */

  npc_matmul product_f4, product_f8, product_c8, product_c16; /* NULL before a unit that calls it is loaded */
  npc_matmul_of_rows rows_product_f4, rows_product_f8;         /* NULL, too, where BLAS is not OpenBLAS */

  /* NumPy's own BLAS, Fortran calling convention; `blas_limit` is the largest size it takes, 0 when there is none. */
  int64_t blas_limit;
  npc_gemm sgemm, dgemm, cgemm, zgemm;
  npc_gemv sgemv, dgemv, cgemv, zgemv;
  npc_syrk ssyrk, dsyrk;
  npc_sdot sdot;
  npc_ddot ddot;
};
"""

HELPERS = r"""
static const struct npc_runtime* rt;
static PyObject* const* npc_dtypes; /* the NumPy dtypes given to load(), in order */

void npc_bind(const struct npc_runtime* runtime, PyObject* const* dtypes) {
  rt = runtime;
  npc_dtypes = dtypes;
}

PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs);

/* Python's floor division and remainder; as in NumPy, division by zero gives 0 and overflow wraps around. */
static inline int64_t npc_floordiv(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  int64_t q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
static inline int64_t npc_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  int64_t r = a % b;
  return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0);
}
/* Of a sum that is hardly ever more than b away from the remainder: no division then. */
static inline int64_t npc_near_mod(int64_t a, int64_t b) {
  int64_t r = a >= b ? a - b : a;
  r += r < 0 ? b : 0;
  return __builtin_expect(b > 0 && (uint64_t)r < (uint64_t)b, 1) ? r : npc_mod(a, b);
}
static inline int64_t npc_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t npc_min(int64_t a, int64_t b) { return a < b ? a : b; }
#ifdef __clang__
#define NPC_NOT_INLINED __attribute__((noinline))
#else
#define NPC_NOT_INLINED __attribute__((noinline, noclone))
#endif
/* As rt->parallel_in_pieces, which is not called for so few that no other thread would take part. */
static inline int npc_in_pieces(npc_body body, void* context, int64_t n, int64_t grain, int64_t piece) {
  if (n > npc_max(piece, 1)) return rt->parallel_in_pieces(body, context, n, grain, piece);
  if (n > 0) body(context, 0, n, 0);
  return 0;
}
"""

PRELUDE = TYPES + LIBRARY + HELPERS
