/* Does every step of a recipe in one call of Python: CuPy's function objects take longer than a launch itself.

   No header is included: neither Python's nor CUDA's are needed on the user's machine. Nothing is linked either, a plan
   holds the addresses of the functions that it needs. A plan is an array of int64_t, made by launch.py:

     steps, then for each step:
       kind, parameters, numbers, the numbers, then for each parameter:
         kind, index, number

   Numbers of a LAUNCH:  cuLaunchKernel, function, grid, threads of a block, bytes of dynamic shared memory
             of a COPY:    cuMemcpyDtoDAsync, bytes
             of a PRODUCT: cublasSetStream, cublas?gemm, the type of elements, then cublas?gemm's own: is the first transposed,
                           the second, m, n, k, and for the first, the second and the result each the elements from column to
                           column and from matrix to matrix; last, how many matrices: cublas?gemmStridedBatched if not one

   Parameters of a COPY are the target and the source, of a PRODUCT the handle, the first, the second and the result.
*/

typedef struct _thread_state PyThreadState;
PyObject* PyErr_Occurred(void);
PyThreadState* PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState*);
PyObject* PyLong_FromLong(long);
unsigned long long PyLong_AsUnsignedLongLongMask(PyObject*);
double PyFloat_AsDouble(PyObject*);

typedef int (*launch_kernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** parameters,
                             void** extra);
typedef int (*copy_memory)(uint64_t target, uint64_t source, uint64_t bytes, void* stream);
typedef int (*set_stream)(void* handle, void* stream);
typedef int (*gemm)(void* handle, int, int, int, int, int, const void* alpha, const void*, int, const void*, int,
                    const void* beta, void*, int);
typedef int (*gemm_batched)(void* handle, int, int, int, int, int, const void* alpha, const void*, int, long long, const void*,
                            int, long long, const void* beta, void*, int, long long, int);

enum { KNOWN, INTEGER, DOUBLE }; /* `number`; values[index] + number, an address or an integer; values[index] */
enum { LAUNCH, COPY, PRODUCT };
enum { MOST_PARAMETERS = 1024 }; /* of one plan; launch.py has it too */

static const float float_one[2] = {1, 0}, float_zero[2] = {0, 0}; /* of complex numbers too */
static const double double_one[2] = {1, 0}, double_zero[2] = {0, 0};
static const void* const ONE[] = {float_one, double_one};
static const void* const ZERO[] = {float_zero, double_zero};

static int multiply(const int64_t* n, void* const* given, void* stream) {
  void *handle = given[0], *out = given[3];
  const void *a = given[1], *b = given[2], *one = ONE[n[2]], *zero = ZERO[n[2]];
  int error = ((set_stream)n[0])(handle, stream);
  if (error) return error;
  int ta = (int)n[3], tb = (int)n[4], rows = (int)n[5], columns = (int)n[6], inner = (int)n[7];
  if (n[14] == 1)
    return ((gemm)n[1])(handle, ta, tb, rows, columns, inner, one, a, (int)n[8], b, (int)n[10], zero, out, (int)n[12]);
  return ((gemm_batched)n[1])(handle, ta, tb, rows, columns, inner, one, a, (int)n[8], n[9], b, (int)n[10], n[11], zero, out,
                              (int)n[12], n[13], (int)n[14]);
}

/* (plan, stream, *values): 0, or the error of the driver, or that of cuBLAS, negative. Steps follow each other on the stream. */
PyObject* npc_launch(PyObject* self, PyObject* const* args, int64_t count) {
  const int64_t* plan = (const int64_t*)PyLong_AsUnsignedLongLongMask(args[0]);
  void* stream = (void*)PyLong_AsUnsignedLongLongMask(args[1]);
  PyObject* const* values = args + 2;
  union {
    uint64_t integer;
    double real;
    void* pointer;
  } given[MOST_PARAMETERS];
  void* parameters[MOST_PARAMETERS];

  int64_t steps = plan[0], k = 0;
  const int64_t* at = plan + 1;
  for (int64_t n = 0; n < steps; n++) {
    int64_t own = at[1];
    at += 3 + at[2];
    for (int64_t j = 0; j < own; j++, k++, at += 3) {
      if (at[0] == DOUBLE)
        given[k].real = PyFloat_AsDouble(values[at[1]]);
      else
        given[k].integer = (uint64_t)at[2] + (at[0] == INTEGER ? PyLong_AsUnsignedLongLongMask(values[at[1]]) : 0);
      parameters[k] = &given[k];
    }
  }
  if (PyErr_Occurred()) return 0;

  PyThreadState* thread = PyEval_SaveThread(); /* a launch waits while the queue of the device is full */
  int error = 0;
  at = plan + 1;
  k = 0;
  for (int64_t n = 0; n < steps && !error; n++) {
    const int64_t *numbers = at + 3, own = at[1];
    if (at[0] == LAUNCH)
      error = ((launch_kernel)numbers[0])((void*)numbers[1], (unsigned)numbers[2], 1, 1, (unsigned)numbers[3], 1, 1,
                                          (unsigned)numbers[4], stream, parameters + k, 0);
    else if (at[0] == COPY)
      error = ((copy_memory)numbers[0])(given[k].integer, given[k + 1].integer, (uint64_t)numbers[1], stream);
    else
      error = -multiply(numbers, &given[k].pointer, stream);
    k += own;
    at += 3 + at[2] + 3 * own;
  }
  PyEval_RestoreThread(thread);
  return PyLong_FromLong(error);
}
