/* What generated units call: parallel loops, arrays, numbers, errors. Compiled once, after the types of prelude.py.

   No header is included, so that neither Python's nor NumPy's are needed on the user's machine: the few functions used
   are declared here, those of the C library in c_library.py. Layouts and indices are those of CPython 3.11 and later and of
   NumPy 2's stable ABI. */

/* The first call with an empty cache waits for this file, whose functions only lead to what takes time. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Og", "inline-small-functions", "inline-functions-called-once")
#endif

/* ---- CPython ---- */

typedef struct _thread_state PyThreadState;
typedef struct {
  double real, imag;
} Py_complex;

extern PyObject _Py_NoneStruct, PyLong_Type, PyFloat_Type, PyBool_Type, PyComplex_Type, PyDict_Type, PyList_Type, PyModule_Type;
extern PyObject *PyExc_Exception, *PyExc_IndexError, *PyExc_KeyError, *PyExc_ValueError, *PyExc_OverflowError;
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
PyObject* PyTuple_New(int64_t);
int PyTuple_SetItem(PyObject*, int64_t, PyObject*);
PyObject* PyTuple_GetItem(PyObject*, int64_t);
PyObject* PyList_New(int64_t);
int PyList_SetItem(PyObject*, int64_t, PyObject*);
PyObject* PyErr_Occurred(void);
PyObject* PyErr_NoMemory(void);
void PyErr_Clear(void);
int PyErr_ExceptionMatches(PyObject*);
void PyErr_Fetch(PyObject**, PyObject**, PyObject**);
void PyErr_Restore(PyObject*, PyObject*, PyObject*);
void PyErr_NormalizeException(PyObject**, PyObject**, PyObject**);
int PyException_SetTraceback(PyObject*, PyObject*);
PyObject* PyException_GetTraceback(PyObject*);
void PyErr_SetObject(PyObject*, PyObject*);
void PyErr_SetString(PyObject*, const char*);
PyObject* PyErr_Format(PyObject*, const char*, ...);
int PyErr_CheckSignals(void);
PyThreadState* PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState*);
PyObject* PyBool_FromLong(long);
char* PyBytes_AsString(PyObject*);
PyObject* PyLong_FromLongLong(long long);
PyObject* PyLong_FromUnsignedLongLong(unsigned long long);
PyObject* PyFloat_FromDouble(double);
long long PyLong_AsLongLong(PyObject*);
long long PyLong_AsLongLongAndOverflow(PyObject*, int*);
unsigned long long PyLong_AsUnsignedLongLong(PyObject*);
PyObject* PyNumber_Index(PyObject*);
PyObject* PyNumber_Power(PyObject*, PyObject*, PyObject*);
PyObject* PyObject_GetAttr(PyObject*, PyObject*);
int PyObject_SetAttr(PyObject*, PyObject*, PyObject*);
PyObject* PyObject_GetItem(PyObject*, PyObject*);
int PyObject_SetItem(PyObject*, PyObject*, PyObject*);
PyObject* PyObject_RichCompare(PyObject*, PyObject*, int);
int PyObject_IsTrue(PyObject*);
int PySequence_Contains(PyObject*, PyObject*);
PyObject* PyDict_GetItemWithError(PyObject*, PyObject*);
PyObject* _PyType_Lookup(PyObject*, PyObject*);
double PyFloat_AsDouble(PyObject*);
Py_complex PyComplex_AsCComplex(PyObject*);
PyObject* PyComplex_FromDoubles(double, double);
PyObject* PyObject_CallFunction(PyObject*, const char*, ...);
typedef PyObject* (*allocator)(PyObject* type, int64_t items);
void* PyType_GetSlot(PyObject* type, int slot);
unsigned long PyType_GetFlags(PyObject* type);
int PyType_IsSubtype(PyObject*, PyObject*);
PyObject* PyCapsule_New(void*, const char*, void*);
void* PyCapsule_GetPointer(PyObject*, const char*);
PyObject* PyCFunction_NewEx(void* definition, PyObject* self, PyObject* module);
void* PyMem_RawMalloc(size_t);
void PyMem_RawFree(void*);
int Py_IsInitialized(void);
int PyTraceMalloc_Track(unsigned, uintptr_t, size_t);
int PyContextVar_Get(PyObject*, PyObject*, PyObject**);
int64_t PyList_Size(PyObject*);
PyObject* PyObject_Vectorcall(PyObject*, PyObject* const*, size_t, PyObject*);
PyObject* PyList_GetItem(PyObject*, int64_t);
typedef PyObject* (*c_function)(PyObject* self, PyObject* argument);
typedef PyObject* (*fast_function)(PyObject* self, PyObject* const* args, int64_t nargs); /* METH_FASTCALL */
c_function PyCFunction_GetFunction(PyObject*);
PyObject* PyCFunction_GetSelf(PyObject*);

/* The leading fields of CPython's PyDictObject up to 3.13: each change of a dictionary gives it a version that none has had
   (PEP 509, until PEP 699). Only those of instances have values apart. */
typedef struct {
  int64_t ob_refcnt;
  PyObject* ob_type;
  int64_t used;
  uint64_t version;
  void *keys, *values;
} versioned_dictionary;

/* The leading fields of CPython's PyWeakReference. */
typedef struct {
  int64_t ob_refcnt;
  PyObject *ob_type, *object; /* None once that is gone */
} weak_reference;

/* The same of PyTypeObject: a version is 0 until something is looked up in the class, and after each change of it or its bases. */
typedef struct {
  void* leading[48];
  unsigned version;
} versioned_class;

/* ---- NumPy: numpy/_core/include/numpy/{ndarraytypes.h, __multiarray_api.h} ---- */

typedef struct {
  npc_array leading;
  PyObject* weakreflist;
  void* buffer_info;
  PyObject* mem_handler; /* who frees the data when flags has OWNDATA (NEP 49) */
} numpy_array;

typedef struct {
  char name[127];
  uint8_t version;
  struct {
    void* context;
    void* (*malloc)(void* context, size_t size);
    void* (*calloc)(void* context, size_t count, size_t size);
    void* (*realloc)(void* context, void* data, size_t size);
    void (*free)(void* context, void* data, size_t size);
  } allocator;
} numpy_mem_handler;

enum { C_CONTIGUOUS = 0x1, F_CONTIGUOUS = 0x2, OWNDATA = 0x4, FORCECAST = 0x10, ALIGNED = 0x100, WRITEABLE = 0x400 };
enum { TRACEMALLOC_DOMAIN = 389047 }; /* NumPy's own */

enum { FIRST_OF_OTHER_KINDS = 17 }; /* NPY_OBJECT: the types before it are numbers */

/* A scalar of 64 bits. */
typedef struct {
  int64_t ob_refcnt;
  PyObject* ob_type;
  int64_t value;
} npc_number;

static void** numpy;
#define ndarray_type ((PyObject*)numpy[2])
#define PyArray_DescrFromScalar ((PyObject * (*)(PyObject*)) numpy[57])
#define PyArray_Scalar ((PyObject * (*)(const void*, PyObject*, PyObject*)) numpy[60])
#define PyArray_ScalarAsCtype ((void (*)(PyObject*, void*))numpy[62])
#define PyArray_FromAny ((PyObject * (*)(PyObject*, PyObject*, int, int, int, PyObject*)) numpy[69])
#define PyArray_Return ((PyObject * (*)(PyObject*)) numpy[76])
#define PyArray_SetBaseObject ((int (*)(PyObject*, PyObject*)) numpy[282])
#define PyDataMem_GetHandler ((PyObject * (*)(void)) numpy[305])
#define PyDataMem_DefaultHandler (*(PyObject**)numpy[306])
#define PyArray_NewFromDescr \
  ((PyObject * (*)(PyObject*, PyObject*, int, const int64_t*, const int64_t*, void*, int, PyObject*)) numpy[94])

/* ---- the system ---- */

#ifdef __linux__
struct processors {
  unsigned long bits[16]; /* cpu_set_t: the first 1024 */
};
#endif
typedef struct {
  int64_t bytes[16]; /* more than any system's pthread_mutex_t or pthread_cond_t has */
} lock;
struct timespec {
  long seconds, nanoseconds;
};

#if defined(__APPLE__)
enum { MAP_ANONYMOUS_PRIVATE = 0x1002, CLOCK_MONOTONIC = 6, SIG_SETMASK = 3, SIGBUS = 10 };
#else
enum { MAP_ANONYMOUS_PRIVATE = 0x22, CLOCK_MONOTONIC = 1, SIG_SETMASK = 2, SIGBUS = 7 };
#endif
enum { PROT_READ_WRITE = 3, MADV_FREE = 8, MADV_HUGEPAGE = 14 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.seconds * 1000000000 + t.nanoseconds;
}

static void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}
