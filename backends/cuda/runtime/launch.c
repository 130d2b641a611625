/* Launches every kernel of a recipe in one call of Python: CuPy's function objects take longer than the launch itself.

   No header is included: neither Python's nor CUDA's are needed on the user's machine. The driver is not linked either,
   a plan holds the address of its cuLaunchKernel. A plan is an array of int64_t, made by launch.py:

     cuLaunchKernel, launches, then for each launch:
       function, grid, threads of a block, bytes of dynamic shared memory, parameters, then for each parameter:
         kind, index, number
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

enum { KNOWN, INTEGER, DOUBLE }; /* `number`; values[index] + number, an address or an integer; values[index] */
enum { MOST_PARAMETERS = 1024 }; /* of one plan; launch.py has it too */

/* (plan, stream, *values): the error of the driver, 0 for none. Launches follow each other on the stream. */
PyObject* npc_launch(PyObject* self, PyObject* const* args, int64_t count) {
  const int64_t* plan = (const int64_t*)PyLong_AsUnsignedLongLongMask(args[0]);
  void* stream = (void*)PyLong_AsUnsignedLongLongMask(args[1]);
  PyObject* const* values = args + 2;
  union {
    uint64_t integer;
    double real;
  } given[MOST_PARAMETERS];
  void* parameters[MOST_PARAMETERS];

  launch_kernel launch = (launch_kernel)plan[0];
  int64_t launches = plan[1], k = 0;
  const int64_t* at = plan + 2;
  for (int64_t n = 0; n < launches; n++) {
    int64_t own = at[4];
    at += 5;
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
  at = plan + 2;
  k = 0;
  for (int64_t n = 0; n < launches && !error; n++) {
    error = launch((void*)at[0], (unsigned)at[1], 1, 1, (unsigned)at[2], 1, 1, (unsigned)at[3], stream, parameters + k, 0);
    k += at[4];
    at += 5 + 3 * at[4];
  }
  PyEval_RestoreThread(thread);
  return PyLong_FromLong(error);
}
