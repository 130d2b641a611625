/* What calls of compiled functions ask first, and the calls that are one native call: backends/entering.py. */

#define MOST_PARAMETERS 16 /* as entering.py says, like the next two */
#define MOST_VALUES 64     /* the handle, parameters, and what steps give */
#define MOST_GIVEN 32      /* operands of a step */
#define OTHERS (-2)        /* backends/loop_ir/exits.py: the program is for other arguments */

static struct {
  PyObject *switches, *none, *no;   /* Python's None and False */
  PyObject* is_fault;               /* npcompile/tracer/faults.py */
  int64_t asked, enter, fast_paths; /* slots: of what switches, of what is entered and of the fast paths around that */
  c_function gettrace, get_tool;    /* of sys and sys.monitoring, the second where there are tools */
  PyObject* owners[2];              /* what these take as `self` */
  int64_t tools;
  PyObject* numbers[8];     /* of tools */
  PyObject* const* names;   /* of tools, by number, or 0: then `get_tool` is asked */
} entering;

/* begin(slots, switches, None, False, is_fault, gettrace, get_tool, *tools): `slots` is an array, the last the address of names. */
PyObject* npc_begin_entering(PyObject* self, PyObject* const* args, int64_t nargs) {
  const int64_t* slots = (const int64_t*)((npc_array*)args[0])->data;
  for (int64_t k = 1; k < nargs; k++) Py_IncRef(args[k]);
  entering.switches = args[1], entering.none = args[2], entering.no = args[3], entering.is_fault = args[4];
  entering.asked = slots[0], entering.enter = slots[1], entering.fast_paths = slots[2];
  entering.names = (PyObject* const*)(uintptr_t)slots[3];
  if (!(entering.gettrace = PyCFunction_GetFunction(args[5]))) return 0;
  if ((entering.tools = least(nargs - 7, 8)) && !(entering.get_tool = PyCFunction_GetFunction(args[6]))) return 0;
  entering.owners[0] = PyCFunction_GetSelf(args[5]), entering.owners[1] = entering.tools ? PyCFunction_GetSelf(args[6]) : 0;
  for (int64_t k = 0; k < entering.tools; k++) entering.numbers[k] = args[7 + k];
  return PyBool_FromLong(1);
}

/* Does Python say something else than None? An error, too, is for the one who asks the long way. */
static int gives_something(c_function ask, PyObject* owner, PyObject* argument) {
  PyObject* given = ask(owner, argument);
  if (given) Py_DecRef(given);
  else PyErr_Clear();
  return given != entering.none;
}

/* What an entry enters, to which args[0] is a weak reference: 0 where calls may have to run as they are, or it is gone. */
static PyObject* const* current_of(PyObject* handle) {
  int is_asked = ((PyObject**)entering.switches)[entering.asked] != entering.no;
  is_asked = is_asked || gives_something(entering.gettrace, entering.owners[0], 0);
  if (entering.names)
    for (int64_t k = 0; k < entering.tools; k++) is_asked |= entering.names[k] != 0;
  else
    for (int64_t k = 0; k < entering.tools && !is_asked; k++)
      is_asked = gives_something(entering.get_tool, entering.owners[1], entering.numbers[k]);
  PyObject* current = ((weak_reference*)handle)->object;
  const int is_there = current != entering.none && ((npc_array*)current)->ob_refcnt > 0;
  return is_asked || !is_there ? 0 : (PyObject* const*)current;
}

PyObject* npc_entered(PyObject* self, PyObject* const* args, int64_t nargs) {
  PyObject* const* current = current_of(args[0]);
  PyObject* enter = current ? current[entering.enter] : 0;
  if (!enter) enter = entering.none;
  Py_IncRef(enter);
  return enter;
}

/* npc_is_of_kind(words, *arguments): do the arguments have the types of one of some kinds? `words` is bytes: the number of kinds,
   then the addresses of the types. */
PyObject* npc_is_of_kind(PyObject* self, PyObject* const* args, int64_t nargs) {
  const int64_t* const words = (const int64_t*)PyBytes_AsString(args[0]);
  PyObject* const* type = (PyObject* const*)(words + 1);
  for (int64_t kinds = *words; kinds; kinds--, type += nargs - 1) {
    int64_t k = 1;
    while (k < nargs && ((npc_array*)args[k])->ob_type == type[k - 1]) k++;
    if (k == nargs) return PyBool_FromLong(1);
  }
  return PyBool_FromLong(0);
}

/* ---- fast paths: what a variant does, step by step ---- */

/* In the order of entering.Step. */
enum step {
  LIKE,
  IS,
  IN,
  HOLDS,
  SIZE,
  TYPE,
  ATTRIBUTE,
  ITEM,
  PART,
  UNARY,
  BINARY,
  POWER,
  COMPARE,
  CALL,
  TUPLE,
  LIST,
  SET_ATTRIBUTE,
  SET_ITEM,
  RUN,
  GIVE,
  LEAVE
};

/* A step is its number and operands: of values, and addresses of constants. What it gives is the next value. */
struct progress {
  const int64_t* word; /* the next */
  int64_t count;       /* of values */
  PyObject* values[MOST_VALUES];
};

static PyObject* operand_at(PyObject* const* values, int64_t word) {
  return (uint64_t)word < MOST_VALUES ? values[word] : (PyObject*)(uintptr_t)word;
}

/* As many operands as the first word says. The word after them. */
static const int64_t* operands_at(PyObject* const* values, const int64_t* word, PyObject** given) {
  const int64_t* const end = word + 1 + *word;
  while (++word < end) *given++ = operand_at(values, *word);
  return end;
}

static PyObject* operand(struct progress* at) { return operand_at(at->values, *at->word++); }

static int64_t operands(struct progress* at, PyObject** given) {
  const int64_t n = *at->word;
  at->word = operands_at(at->values, at->word, given);
  return n;
}

static void* address(struct progress* at) { return (void*)(uintptr_t)*at->word++; }

/* Takes the reference. -1 where it is none. */
static int add_value(struct progress* at, PyObject* value) {
  if (value) at->values[at->count++] = value;
  return value ? 1 : -1;
}

static PyObject* new_reference(PyObject* object) {
  if (object) Py_IncRef(object);
  return object;
}

/* Is it as asked? An answer below 0 is an error. */
static int is_answer(int answer, int64_t asked) { return answer < 0 ? -1 : answer == asked; }

/* One of the steps that run_fast_path leaves to it: 1 where the next follows, 0 where the call is not for this path, -1 where an
   exception is set. */
static int take_step(struct progress* at, enum step step) {
  PyObject *given[MOST_GIVEN], *first, *second, *made;
  int64_t n;
  switch (step) {
    case IS:
      first = operand(at), second = operand(at);
      return is_answer(first == second, *at->word++);
    case IN:
      first = operand(at), second = operand(at);
      return is_answer(PySequence_Contains(second, first), *at->word++);
    case HOLDS:
      first = operand(at);
      return is_answer(PyObject_IsTrue(first), *at->word++);
    case SIZE: { /* of an ndarray; others have attributes of their own */
      const npc_array* array = (const npc_array*)operand(at);
      const int is_stride = (int)*at->word++;
      const int64_t axis = *at->word++;
      if (array->ob_type != ndarray_type || axis >= array->nd) return 0;
      return add_value(at, PyLong_FromLongLong((is_stride ? array->strides : array->dimensions)[axis]));
    }
    case TYPE: return add_value(at, new_reference(type_of(operand(at))));
    case ATTRIBUTE:
      first = operand(at), second = operand(at);
      return add_value(at, PyObject_GetAttr(first, second));
    case ITEM:
      first = operand(at), second = operand(at);
      if (type_of(first) != &PyDict_Type) return add_value(at, PyObject_GetItem(first, second));
      made = PyDict_GetItemWithError(first, second);
      if (!made && !error()) PyErr_SetObject(PyExc_KeyError, second);
      return add_value(at, new_reference(made));
    case PART: /* of a tuple that a graph made */
      first = operand(at);
      return add_value(at, new_reference(PyTuple_GetItem(first, *at->word++)));
    case UNARY: {
      PyObject* (*const function)(PyObject*) = (PyObject * (*)(PyObject*)) address(at);
      return add_value(at, function(operand(at)));
    }
    case BINARY: {
      PyObject* (*const function)(PyObject*, PyObject*) = (PyObject * (*)(PyObject*, PyObject*)) address(at);
      first = operand(at), second = operand(at);
      return add_value(at, function(first, second));
    }
    case POWER:
      first = operand(at), second = operand(at);
      return add_value(at, PyNumber_Power(first, second, entering.none));
    case COMPARE:
      first = operand(at), second = operand(at);
      return add_value(at, PyObject_RichCompare(first, second, (int)*at->word++));
    case CALL:
      first = operand(at);
      n = operands(at, given);
      return add_value(at, PyObject_Vectorcall(first, given, n, 0));
    case TUPLE:
    case LIST:
      n = operands(at, given);
      made = step == TUPLE ? PyTuple_New(n) : PyList_New(n);
      for (int64_t k = 0; made && k < n; k++)
        (step == TUPLE ? PyTuple_SetItem : PyList_SetItem)(made, k, new_reference(given[k]));
      return add_value(at, made);
    case SET_ATTRIBUTE:
    case SET_ITEM:
      operands(at, given);
      return (step == SET_ITEM ? PyObject_SetItem : PyObject_SetAttr)(given[0], given[1], given[2]) ? -1 : 1;
    default: return 0; /* the others are not taken here */
  }
}

typedef struct {
  int64_t length;               /* of the words */
  PyObject *on_error, *on_exit; /* or 0 */
  int64_t words[];
} fast_path;

/* What goes on after what was compiled has given something, 0 where the next step does. */
static PyObject* follower(const fast_path* path, const PyObject* made) {
  if (!made) return path->on_error;
  return path->on_exit && ((const npc_array*)made)->ob_type == &PyList_Type ? path->on_exit : 0;
}

/* The result of the path from there; 0 without an error where it is for other arguments. */
static PyObject* go_on_after(PyObject* made, PyObject* next, PyObject* const* args, int64_t nargs) {
  if (made && PyLong_AsLongLong(PyList_GetItem(made, 0)) == OTHERS) {
    Py_DecRef(made);
    return 0;
  }
  PyObject* state[1 + MOST_PARAMETERS];
  for (int64_t k = 1; k < nargs; k++) state[k] = args[k];
  PyObject* first = state[0] = made ? made : caught();
  PyObject* result = PyObject_Vectorcall(next, state, nargs, 0);
  Py_DecRef(first);
  return result;
}

/* Does the exception say no more than that a question could not be asked? Not what a handler of signals has raised. */
static int is_no_answer(void) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return 0;
  PyObject *raised = caught(), *answer = PyObject_Vectorcall(entering.is_fault, &raised, 1, 0);
  const int is_fault = answer && answer != entering.no;
  if (answer) Py_DecRef(answer);
  if (is_fault) Py_DecRef(raised);
  else if (answer) PyErr_Restore(new_reference(type_of(raised)), raised, PyException_GetTraceback(raised));
  else Py_DecRef(raised);
  return is_fault;
}

/* Its result, the handle where the call is to be entered; 0 without an error where it is for other arguments. */
static PyObject* run_fast_path(const fast_path* path, PyObject* const* args, int64_t nargs) {
  struct progress at;
  PyObject *given[MOST_GIVEN], *result = 0;
  const int64_t* word = path->words; /* in registers, like the next: in `at` only where another function takes a step */
  int64_t count = nargs;
  int goes_on = 1, has_run = 0;
  for (int64_t k = 0; k < nargs; k++) at.values[k] = args[k];
  while (goes_on > 0 && !result) {
    const enum step step = (enum step)*word++;
    if (step == LIKE) {
      const int64_t n = *word;
      word = operands_at(at.values, word, given);
      goes_on = are_like(given, n);
    } else if (step == RUN) { /* call what was compiled */
      const fast_function function = (fast_function)(uintptr_t)*word++; /* or 0 */
      PyObject* const owner = (PyObject*)(uintptr_t)*word++;            /* of it, else what is called */
      const int64_t n = *word;
      word = operands_at(at.values, word, given);
      PyObject* const made = function ? function(owner, given, n) : PyObject_Vectorcall(owner, given, n, 0);
      PyObject* const next = follower(path, made);
      has_run = 1;
      if (next) result = go_on_after(made, next, args, nargs);
      if (made && !next) at.values[count++] = made;
      else if (!result) goes_on = error() ? -1 : 0;
    } else if (step == GIVE) {
      result = *word == count - 1 ? at.values[--count] : new_reference(operand_at(at.values, *word));
    } else if (step == LEAVE) {
      result = new_reference(args[0]);
    } else {
      at.word = word, at.count = count;
      goes_on = take_step(&at, step);
      word = at.word, count = at.count;
    }
  }
  if (goes_on < 0 && !has_run && is_no_answer()) goes_on = 0; /* the long way asks again */
  while (count > nargs) Py_DecRef(at.values[--count]);
  return result;
}

/* fast_path(handle, *state): the result of a call by the first path that is for it, else the handle: then the call is entered. */
PyObject* npc_fast_path(PyObject* self, PyObject* const* args, int64_t nargs) {
  PyObject* const* current = current_of(args[0]);
  const npc_array* words = current ? (npc_array*)current[entering.fast_paths] : 0;
  const int64_t* word = words && (PyObject*)words != entering.none ? (const int64_t*)words->data : 0;
  if (word && (PyObject*)(uintptr_t)word[0] == current[entering.enter]) {
    PyObject *keeper = (PyObject*)(uintptr_t)word[1], *result = 0;
    const int64_t count = word[2];
    int is_failed = 0;
    Py_IncRef(keeper); /* what runs may be replaced meanwhile, and these words with it */
    word += 3;
    for (int64_t k = 0; k < count && !result && !is_failed; k++) {
      const fast_path* path = (const fast_path*)word;
      is_failed = !(result = run_fast_path(path, args, nargs)) && error();
      word = path->words + path->length;
    }
    Py_DecRef(keeper);
    if (result || is_failed) return result;
  }
  Py_IncRef(args[0]);
  return args[0];
}
