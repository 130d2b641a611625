/* The table of all this, and its start. */

static double first_square_by_pow(double x);

static struct npc_runtime runtime = {
    .parallel = parallel,
    .parallel_in_pieces = parallel_in_pieces,
    .poll = poll,
    .interrupted = PyErr_CheckSignals,
    .is_due = is_due,
    .hold = hold,
    .threads = count_threads,
    .empty = empty,
    .view = view,
    .box = box,
    .scratch = scratch,
    .release = release,
    .as_int64 = as_int64,
    .as_uint64 = as_uint64,
    .as_double = as_double,
    .as_complex = as_complex,
    .scalar_data = scalar_data,
    .tuple = PyTuple_New,
    .tuple_set = tuple_set,
    .tuple_of = tuple_of,
    .list_of = list_of,
    .leave = leave,
    .from_int64 = PyLong_FromLongLong,
    .from_uint64 = PyLong_FromUnsignedLongLong,
    .from_double = PyFloat_FromDouble,
    .from_bool = PyBool_FromLong,
    .from_complex = PyComplex_FromDoubles,
    .none = &_Py_NoneStruct,
    .take_array = take_array,
    .take_int = take_int,
    .take_float = take_float,
    .take_bool = take_bool,
    .take_complex = take_complex,
    .take_scalar = take_scalar,
    .incref = incref,
    .are_names_known = are_names_known,
    .is_state_known = is_state_known,
    .is_true_of_state = is_true_of_state,
    .decref = decref,
    .discard = discard,
    .error = error,
    .caught = caught,
    .pardon = PyErr_Clear,
    .watch = clear_flags,
    .report = report,
    .unwritten = unwritten,
    .note_invalid = note_invalid,
    .may_be_infinite = may_be_infinite,
    .overlaps_itself = overlaps_itself,
    .index_error = index_error,
    .value_error = value_error,
    .run_numpy_loop = run_numpy_loop,
    .square_by_pow = first_square_by_pow,
};

/* It puts in its place what does it as libm does. */
static double first_square_by_pow(double x) {
  double (*const square)(double) = is_pow_by_logarithm() ? square_by_logarithm : square_by_libm;
  __atomic_store_n(&runtime.square_by_pow, square, __ATOMIC_RELAXED);
  return square(x);
}

static void hold_before_fork(void) { lock_pool(); }
static void resume_parent(void) { unlock_pool(); }
static void resume_child(void) {
  unlock_pool();
  is_child = is_child || workers.started;
}

/* The table, ready for use; NULL with an exception set. Called once, with the GIL. `blas` has one pointer per routine
   in the order of npc_runtime, or NULL. */
const struct npc_runtime* npc_start(void** numpy_api, PyObject* generic, PyObject* report_errors, PyObject* variable,
                                    PyObject* usual, int threads, int64_t bytes_kept, void* const* blas,
                                    int64_t blas_limit) {
  if (handler_capsule) return &runtime;
  numpy = numpy_api;
  generic_type = generic;
  Py_IncRef(report_errors);
  reporter = report_errors;
  Py_IncRef(variable);
  state_variable = variable;
  Py_IncRef(usual);
  usual_state = usual;
  thread_limit = most_threads = (int)least(threads, MOST_WORKERS + 1);
  pthread_mutex_init(&workers.mutex, 0);
  pthread_cond_init(&workers.condition, 0);
  pool.most_kept = bytes_kept;
  runtime.scalar = PyArray_Return;
  runtime.blas_limit = blas_limit;
  if (blas_limit) memcpy(&runtime.sgemm, blas, sizeof runtime - __builtin_offsetof(struct npc_runtime, sgemm));
  pthread_atfork(hold_before_fork, resume_parent, resume_child);
  usual_capsule = PyDataMem_DefaultHandler;
  if (!(usual_handler = PyCapsule_GetPointer(usual_capsule, "mem_handler"))) return 0;
  return (handler_capsule = PyCapsule_New(&handler, "mem_handler", 0)) ? &runtime : 0;
}
