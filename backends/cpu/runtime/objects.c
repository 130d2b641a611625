/* Python's objects and C's numbers, infinities, errors, and arrays that share memory. */

/* ---- numbers ---- */

static int as_int64(PyObject* number, int64_t* out) {
  *out = PyLong_AsLongLong(number);
  return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int as_uint64(PyObject* number, uint64_t* out) {
  PyObject* index = PyNumber_Index(number);
  if (!index) return -1;
  *out = PyLong_AsUnsignedLongLong(index);
  Py_DecRef(index);
  return *out == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

static int as_double(PyObject* number, double* out) {
  *out = PyFloat_AsDouble(number);
  return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int as_complex(PyObject* number, double* out) {
  Py_complex c = PyComplex_AsCComplex(number);
  out[0] = c.real;
  out[1] = c.imag;
  return c.real == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject* generic_type; /* numpy.generic */
int PyType_IsSubtype(PyObject*, PyObject*);

enum { FIRST_OF_OTHERS = 256 }; /* NPY_USERDEF: numbers of dtypes that are not NumPy's own */

static int scalar_data(PyObject* number, PyObject* dtype, void* out) {
  npc_array* array = (npc_array*)number;
  if (PyType_IsSubtype(array->ob_type, generic_type)) {
    PyObject* own = PyArray_DescrFromScalar(number);
    if (!own) return -1;
    Py_DecRef(own); /* the built-in dtypes live on */
    if (own == dtype && ((npc_descr*)dtype)->type_num < FIRST_OF_OTHERS) {
      PyArray_ScalarAsCtype(number, out); /* of dtypes that packages register it gives a pointer */
      return 0;
    }
  }
  if (array->ob_type == ndarray_type && array->nd == 0 && array->descr == dtype) {
    memcpy(out, array->data, ((npc_descr*)dtype)->elsize);
    return 0;
  }
  Py_IncRef(dtype); /* stolen */
  PyObject* converted = PyArray_FromAny(number, dtype, 0, 0, FORCECAST, 0);
  if (!converted) return -1;
  memcpy(out, ((npc_array*)converted)->data, ((npc_descr*)dtype)->elsize);
  Py_DecRef(converted);
  return 0;
}

/* Is an array's dtype this one? Others that say the same are made by unpickling, for one. That of long long is another. */
static int is_dtype(PyObject* own, PyObject* dtype) {
  const npc_descr *a = (npc_descr*)own, *b = (npc_descr*)dtype;
  const int are_numbers = a->type_num < FIRST_OF_OTHER_KINDS && b->type_num < FIRST_OF_OTHER_KINDS;
  return a == b || (are_numbers && a->type_num == b->type_num && a->elsize == b->elsize && a->byteorder == b->byteorder);
}

static PyObject* type_of(PyObject* object) { return ((npc_array*)object)->ob_type; }

static int take_array(PyObject* object, PyObject* dtype, int nd, int flags) {
  const npc_array* a = (npc_array*)object;
  return type_of(object) != ndarray_type || a->nd != nd || (a->flags & flags) != flags || !is_dtype(a->descr, dtype);
}

static int take_int(PyObject* object, int64_t* out) {
  int overflow = 0;
  if (type_of(object) != &PyLong_Type) return 1;
  *out = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow || *out == (int64_t)(1ull << 63);
}

static int take_float(PyObject* object, double* out) {
  if (type_of(object) != &PyFloat_Type) return 1;
  *out = PyFloat_AsDouble(object);
  return 0;
}

static int take_bool(PyObject* object, uint8_t* out) {
  if (type_of(object) != &PyBool_Type) return 1;
  *out = PyLong_AsLongLong(object) != 0;
  return 0;
}

static int take_complex(PyObject* object, double _Complex* out) {
  if (type_of(object) != &PyComplex_Type) return 1;
  as_complex(object, (double*)out);
  return 0;
}

static int take_scalar(PyObject* object, PyObject* dtype, void* out) {
  if (type_of(object) != ((npc_descr*)dtype)->typeobj) return 1;
  PyArray_ScalarAsCtype(object, out);
  return 0;
}

/* ---- infinities ---- */

static void note_invalid(void) {
  volatile double x = __builtin_inf();
  x -= x;
}

/* Of elements that are `parts` numbers of `size` bytes: their bits, as comparisons note NaN. */
static int has_infinity(const char* data, int nd, const int64_t* sizes, const int64_t* strides, int64_t parts, int64_t size) {
  const uint64_t infinity = size == 8 ? 0x7ffull << 52 : size == 4 ? 0xffull << 23 : 0x1full << 10;
  int found = 0;
  if (nd > 0) {
    for (int64_t i = 0; i < sizes[0] && !found; i++)
      found = has_infinity(data + i * strides[0], nd - 1, sizes + 1, strides + 1, parts, size);
    return found;
  }
  for (int64_t k = 0; k < parts; k++) {
    uint64_t bits = 0;
    memcpy(&bits, data + k * size, size);
    found |= (bits << (65 - 8 * size) >> (65 - 8 * size)) == infinity;
  }
  return found;
}

static int may_be_infinite(PyObject* const* args, int64_t n) {
  int found = errstate_bits(raised_flags()) & 3;
  for (int64_t k = 0; k < n && !found; k++) {
    const npc_array* a = (npc_array*)args[k];
    const double number = a->ob_type == &PyFloat_Type ? PyFloat_AsDouble(args[k]) : 0;
    if (a->ob_type == &PyFloat_Type) found = has_infinity((const char*)&number, 0, 0, 0, 1, 8);
    else if (a->ob_type == &PyLong_Type || a->ob_type == &PyBool_Type) continue;
    else if (a->ob_type != ndarray_type) found = 1;
    else {
      const npc_descr* dtype = (npc_descr*)a->descr;
      const int parts = dtype->kind == 'c' ? 2 : 1;
      const int64_t size = dtype->elsize / parts;
      const int is_native = dtype->byteorder == '=' || dtype->byteorder == '|';
      if (dtype->kind == 'b' || dtype->kind == 'i' || dtype->kind == 'u') continue;
      const int is_known = (dtype->kind == 'f' || dtype->kind == 'c') && is_native && size <= 8;
      found = is_known ? has_infinity(a->data, a->nd, a->dimensions, a->strides, parts, size) : 1;
    }
  }
  return found;
}

/* ---- tuples and errors ---- */

static void tuple_set(PyObject* tuple, int64_t i, PyObject* item) { PyTuple_SetItem(tuple, i, item); }
/* Objects of Python's stay as they are while a body runs, which has no GIL. */
static int is_own(PyObject* object) { return !((npc_array*)object)->ob_type; }
static void incref(PyObject* object) {
  if (!body_thread)
    Py_IncRef(object);
  else if (is_own(object))
    ((npc_array*)object)->ob_refcnt++;
}
static void decref(PyObject* object) {
  if (!object) return;
  if (!body_thread)
    Py_DecRef(object);
  else if (is_own(object) && !--((npc_array*)object)->ob_refcnt)
    release(object);
}

static PyObject* tuple_of(int n, ...) {
  PyObject* made = PyTuple_New(n);
  int is_whole = made != 0;
  __builtin_va_list items;
  __builtin_va_start(items, n);
  for (int i = 0; i < n; i++) {
    PyObject* item = __builtin_va_arg(items, PyObject*);
    is_whole &= item != 0;
    if (made)
      PyTuple_SetItem(made, i, item);
    else
      decref(item);
  }
  __builtin_va_end(items);
  if (is_whole) return made;
  decref(made);
  return 0;
}

static PyObject* item_of(char letter, PyObject* dtype, const char* at) {
  if (letter == 'i') return PyLong_FromLongLong(*(const int64_t*)at);
  if (letter == 'f') return PyFloat_FromDouble(*(const double*)at);
  if (letter == 'b') return PyBool_FromLong(*(const uint8_t*)at);
  return box(dtype, at);
}

static PyObject* tuple_at(const char* letters, PyObject* const* dtypes, const char* at) {
  PyObject* made = PyTuple_New(strlen(letters));
  for (int k = 0; made && letters[k]; k++) {
    PyObject* item = item_of(letters[k], dtypes[k], at + 8 * k);
    if (!item) {
      decref(made);
      return 0;
    }
    PyTuple_SetItem(made, k, item);
  }
  return made;
}

static PyObject* list_of(const char* letters, PyObject* const* dtypes, const char* data, int64_t count, int64_t size) {
  PyObject* made = PyList_New(count);
  for (int64_t i = 0; made && i < count; i++) {
    const char* const at = data + i * size;
    PyObject* item = *letters == '(' ? tuple_at(letters + 1, dtypes, at) : item_of(*letters, *dtypes, at);
    if (!item) {
      decref(made);
      return 0;
    }
    PyList_SetItem(made, i, item);
  }
  return made;
}

struct handed {
  __builtin_va_list items;
};

static PyObject* next_object(char letter, struct handed* from) {
  if (letter == 'i') return PyLong_FromLongLong(__builtin_va_arg(from->items, int64_t));
  if (letter == 'f') return PyFloat_FromDouble(__builtin_va_arg(from->items, double));
  if (letter == 'b') return PyBool_FromLong(__builtin_va_arg(from->items, int));
  if (letter == 'c') {
    const double real = __builtin_va_arg(from->items, double);
    return PyComplex_FromDoubles(real, __builtin_va_arg(from->items, double));
  }
  PyObject* first = __builtin_va_arg(from->items, PyObject*);
  if (letter == 'd') {
    const double number = __builtin_va_arg(from->items, double);
    return box(first, &number);
  }
  if (letter == 'n') return box(first, __builtin_va_arg(from->items, const void*));
  if (letter == 'l') {
    PyObject* const* dtypes = __builtin_va_arg(from->items, PyObject* const*);
    const char* data = __builtin_va_arg(from->items, const char*);
    const int64_t count = __builtin_va_arg(from->items, int64_t);
    return list_of((const char*)first, dtypes, data, count, __builtin_va_arg(from->items, int64_t));
  }
  if (letter == 'v') {
    const int nd = __builtin_va_arg(from->items, int);
    const int64_t* dimensions = __builtin_va_arg(from->items, const int64_t*);
    const int64_t* strides = __builtin_va_arg(from->items, const int64_t*);
    char* data = __builtin_va_arg(from->items, char*);
    return view(first, nd, dimensions, strides, data, __builtin_va_arg(from->items, PyObject*));
  }
  Py_IncRef(first);
  return first;
}

static PyObject* leave(int64_t where, const char* letters, ...) {
  int n = 0;
  while (letters[n]) n++;
  PyObject *made = PyList_New(n + 1), *item = made ? PyLong_FromLongLong(where) : 0;
  struct handed handed;
  __builtin_va_start(handed.items, letters);
  for (int i = 0; item && i <= n; i++) {
    PyList_SetItem(made, i, item);
    if (i < n) item = next_object(letters[i], &handed);
  }
  __builtin_va_end(handed.items);
  if (item) return made;
  decref(made);
  return 0;
}
static int error(void) { return PyErr_Occurred() != 0; }
static PyObject* caught(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  decref(type);
  decref(traceback);
  return value;
}

static int index_error(int64_t index, int axis, int64_t size) {
  PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for axis %d with size %lld", (long long)index, axis,
               (long long)size);
  return -1;
}
static int value_error(const char* text) {
  PyErr_SetString(PyExc_ValueError, text);
  return -1;
}

/* ---- overlap ---- */

struct extent {
  char *low, *high; /* high is behind the last byte */
};

static struct extent extent_of(const npc_array* array) {
  struct extent e = {array->data, array->data + ((npc_descr*)array->descr)->elsize};
  for (int i = 0; i < array->nd; i++) {
    int64_t n = array->dimensions[i];
    if (n == 0) return (struct extent){0, 0};
    *(array->strides[i] < 0 ? &e.low : &e.high) += (n - 1) * array->strides[i];
  }
  return e;
}

/* overlaps_itself(array) of backends/overlap.py. */
static int overlaps_itself(const npc_array* a) {
  if (a->flags & (C_CONTIGUOUS | F_CONTIGUOUS)) return 0;
  int64_t extent = ((npc_descr*)a->descr)->elsize;
  int order[64], does = 0;
  for (int k = 0; k < a->nd; k++) {
    int j = k;
    for (; j && __builtin_llabs(a->strides[order[j - 1]]) > __builtin_llabs(a->strides[k]); j--) order[j] = order[j - 1];
    order[j] = k;
    if (!a->dimensions[k]) return 0;
  }
  for (int k = 0; k < a->nd; k++) {
    const int64_t n = a->dimensions[order[k]], stride = __builtin_llabs(a->strides[order[k]]);
    does |= n > 1 && stride < extent;
    extent += (n - 1) * stride;
  }
  return does;
}

/* are_disjoint(written, *arrays) of backends/overlap.py. The arrays are ndarrays: guards have looked. */
PyObject* npc_are_disjoint(PyObject* self, PyObject* const* args, int64_t nargs) {
  int64_t written;
  if (as_int64(args[0], &written)) return 0;
  struct extent some[64], *extents = nargs > 64 ? malloc(nargs * sizeof(struct extent)) : some;
  if (!extents) return PyErr_NoMemory();
  int is_disjoint = 1;
  for (int64_t i = 1; i < nargs; i++) extents[i] = extent_of((npc_array*)args[i]);
  for (int64_t i = 1; i <= written && is_disjoint; i++) is_disjoint = !overlaps_itself((npc_array*)args[i]);
  for (int64_t i = 1; i <= written && is_disjoint; i++)
    for (int64_t j = i + 1; j < nargs; j++)
      if (extents[i].low < extents[j].high && extents[j].low < extents[i].high) {
        is_disjoint = 0;
        break;
      }
  if (extents != some) free(extents);
  return PyBool_FromLong(is_disjoint);
}
