/* What guards ask of objects and names: backends/array_guards.py. */

/* The facts are those of backends/array_guards.py: how many names and owners, then the owners with their versions. */
enum { NAMES, OWNERS, VERSIONS };
static int64_t version_of(int64_t owner) {
  const versioned_dictionary* d = (const versioned_dictionary*)(uintptr_t)owner;
  if (d->ob_type != &PyDict_Type) return ((const versioned_class*)d)->version;
  return d->values ? 0 : (int64_t)d->version;
}

/* 1 or 0, or -1 where an exception is set. `fact` is the first of the names. */
static int are_names_found(const int64_t* fact, int64_t names) {
  for (const int64_t* const end = fact + 3 * names; fact < end; fact += 3) { /* a dictionary or class, a name, what it means */
    PyObject *owner = (PyObject*)(uintptr_t)fact[0], *name = (PyObject*)(uintptr_t)fact[1];
    const int is_dictionary = type_of(owner) == &PyDict_Type;
    PyObject* found = is_dictionary ? PyDict_GetItemWithError(owner, name) : _PyType_Lookup(owner, name);
    if (!found && PyErr_Occurred()) return -1;
    if ((int64_t)(uintptr_t)found != fact[2]) return 0;
  }
  return 1;
}

/* Do names mean what they did? As `are_names_found`, which is not asked again until one of the owners has changed. */
static int are_names_known(PyObject* facts) {
  int64_t* const fact = (int64_t*)((npc_array*)facts)->data;
  int64_t* const versions = fact + VERSIONS;
  const int64_t end = 2 * fact[OWNERS];
  int64_t k = 0;
  while (k < end && versions[k + 1] && versions[k + 1] == version_of(versions[k])) k += 2;
  if (end && k == end) return 1;
  for (k = 0; k < end; k += 2) versions[k + 1] = version_of(versions[k]); /* before keys are compared, which may run anything */
  const int are_found = are_names_found(versions + end, fact[NAMES]);
  if (are_found != 1 && end) versions[1] = 0;
  return are_found;
}

/* NumPy's state of floating-point errors, which the context holds; 0 where there is none, or an exception is set. */
static PyObject* present_state(void) {
  PyObject* state = 0;
  if (PyContextVar_Get(state_variable, 0, &state) || !state) return 0;
  Py_DecRef(state);
  return state;
}

static int is_among(PyObject* states, const PyObject* state) {
  for (int64_t k = PyList_Size(states); k--;)
    if (PyList_GetItem(states, k) == state) return 1;
  return 0;
}

/* Is NumPy's state of floating-point errors one of these? */
static int is_state_known(PyObject* states) {
  const PyObject* state = present_state();
  return state ? is_among(states, state) : -!!PyErr_Occurred();
}

/* Is something true of that state? `question` is that of an ErrorStates of backends/registry.py. */
static int is_true_of_state(PyObject* question) {
  const PyObject* state = present_state();
  if (!state && PyErr_Occurred()) return -1;
  if (is_among(PyTuple_GetItem(question, 0), state)) return 1;
  if (is_among(PyTuple_GetItem(question, 1), state)) return 0;
  PyObject* holds = PyObject_Vectorcall(PyTuple_GetItem(question, 2), 0, 0, 0);
  const int is_true = holds ? PyObject_IsTrue(holds) : -1;
  if (holds) Py_DecRef(holds);
  return is_true;
}

/* Are objects as the facts say, which are args[0]? -1 on an error. What it is called with may be anything. */
static int are_like(PyObject* const* args, int64_t nargs) {
  const int64_t* fact = (const int64_t*)((npc_array*)args[0])->data;
  const int are_known = are_names_known(args[0]);
  if (are_known <= 0) return are_known;
  fact += VERSIONS + 2 * fact[OWNERS] + 3 * fact[NAMES];
  for (int64_t i = 1; i < nargs; i++) {
    const npc_array* x = (npc_array*)args[i];
    if ((int64_t)(uintptr_t)x->ob_type != *fact++) return 0;
    if (x->ob_type == &PyLong_Type) {
      const int64_t least = *fact++, most = *fact++;
      int is_beyond = 0;
      const int64_t number = least <= most ? PyLong_AsLongLongAndOverflow(args[i], &is_beyond) : 0;
      if (least <= most && (is_beyond || number < least || number > most)) return 0;
    }
    if (x->ob_type != ndarray_type) continue;
    if ((int64_t)(uintptr_t)x->descr != fact[0] || (x->flags & fact[1]) != fact[2] || x->nd != fact[3]) return 0;
    const int64_t sizes = fact[4];
    fact += 5;
    for (int64_t d = 0; d < sizes; d++)
      if (x->dimensions[d] != *fact++) return 0;
  }
  return 1;
}

/* are_like(facts, *objects) of backends/array_guards.py. */
PyObject* npc_are_like(PyObject* self, PyObject* const* args, int64_t nargs) {
  const int found = are_like(args, nargs);
  return found < 0 ? 0 : PyBool_FromLong(found);
}

/* Is it of a kind of its own: a boolean, a class or a module? */
static int is_kind(PyObject* x) {
  PyObject* const type = ((npc_array*)x)->ob_type;
  const unsigned long of_classes = 1ul << 31; /* Py_TPFLAGS_TYPE_SUBCLASS */
  return type == &PyBool_Type || (PyType_GetFlags(type) & of_classes) || PyType_IsSubtype(type, &PyModule_Type);
}

/* kind_of(mask, *objects) of backends/array_guards.py. Kinds that get the same number, against all odds, are one kind. */
PyObject* npc_kind_of(PyObject* self, PyObject* const* args, int64_t nargs) {
  const int64_t mask = PyLong_AsLongLong(args[0]);
  uint64_t kind = 0;
  for (int64_t i = 1; i < nargs; i++) {
    const npc_array* x = (npc_array*)args[i];
    uint64_t part = is_kind(args[i]) ? (uint64_t)(uintptr_t)args[i] + 1 : (uint64_t)(uintptr_t)x->ob_type;
    if (x->ob_type == ndarray_type) {
      const npc_descr* d = (npc_descr*)x->descr;
      part = (uint64_t)d->type_num << 40 ^ (uint64_t)d->elsize << 16 ^ (uint64_t)d->byteorder << 8 ^ (uint64_t)x->nd;
      part = part * 0x9e3779b97f4a7c15u ^ (uint64_t)(x->flags & mask);
    }
    kind = (kind ^ part) * 0x9e3779b97f4a7c15u;
    kind ^= kind >> 29;
  }
  return PyLong_FromLongLong((long long)(kind >> 4));
}
