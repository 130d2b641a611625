/* ---- Python functions of C, and what they own ----

   CPython reads a function's PyMethodDef for the last time when the function goes. Of a cycle Python's collector takes objects in
   any order, and before that runs their finalizers, which may call the function. It knows no capsules: so a capsule owns what the
   function needs, and goes with it. */

typedef struct {
  const char* name;
  void* function;
  int flags;
  const char* doc;
  void* library; /* to be unloaded, or 0 */
  void (*drop)(void); /* gives back what the library keeps, or 0 */
  PyObject* needs; /* what goes no sooner, or 0 */
  char text[];
} owned;

#define OWNER "npcompile function"
#define METH_FASTCALL 0x80

static void let_go(PyObject* capsule) {
  owned* it = PyCapsule_GetPointer(capsule, OWNER);
  if (!Py_IsInitialized()) return; /* the process ends: nothing there has an order, and what is left goes with it */
  if (it->drop) it->drop();
  if (it->needs) Py_DecRef(it->needs);
  if (it->library) dlclose(it->library);
  PyMem_RawFree(it);
}

PyObject* npc_owned_function(void* function, const char* name, void* library, void (*drop)(void), PyObject* needs) {
  const size_t size = strlen(name) + 1;
  owned* it = PyMem_RawMalloc(sizeof(owned) + size);
  if (!it) return PyErr_NoMemory();
  *it = (owned){it->text, function, METH_FASTCALL, 0, library, drop, needs};
  memcpy(it->text, name, size);
  PyObject* capsule = PyCapsule_New(it, OWNER, let_go);
  if (!capsule) {
    PyMem_RawFree(it);
    return 0;
  }
  if (needs) Py_IncRef(needs);
  PyObject* made = PyCFunction_NewEx(it, capsule, 0);
  Py_DecRef(capsule);
  return made;
}
