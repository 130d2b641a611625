/* What generated units call: parallel loops, arrays, numbers, errors. Compiled once, after the types of prelude.py.

   No header is included, so that neither Python's nor NumPy's are needed on the user's machine: the few functions used
   are declared here. Layouts and indices are those of CPython 3.11 and later and of NumPy 2's stable ABI. */

/* The first call with an empty cache waits for this file, whose functions only lead to what takes time. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O1", "inline-small-functions")
#endif

/* ---- CPython ---- */

typedef struct _thread_state PyThreadState;
typedef struct {
  double real, imag;
} Py_complex;

extern PyObject PyLong_Type, PyFloat_Type, PyBool_Type;
extern PyObject *PyExc_IndexError, *PyExc_ValueError, *PyExc_OverflowError;
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
PyObject* PyTuple_New(int64_t);
int PyTuple_SetItem(PyObject*, int64_t, PyObject*);
PyObject* PyList_New(int64_t);
int PyList_SetItem(PyObject*, int64_t, PyObject*);
PyObject* PyErr_Occurred(void);
PyObject* PyErr_NoMemory(void);
void PyErr_SetString(PyObject*, const char*);
PyObject* PyErr_Format(PyObject*, const char*, ...);
int PyErr_CheckSignals(void);
PyThreadState* PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState*);
PyObject* PyBool_FromLong(long);
PyObject* PyLong_FromLongLong(long long);
PyObject* PyLong_FromUnsignedLongLong(unsigned long long);
PyObject* PyFloat_FromDouble(double);
long long PyLong_AsLongLong(PyObject*);
long long PyLong_AsLongLongAndOverflow(PyObject*, int*);
unsigned long long PyLong_AsUnsignedLongLong(PyObject*);
PyObject* PyNumber_Index(PyObject*);
PyObject* PyDict_GetItemWithError(PyObject*, PyObject*);
double PyFloat_AsDouble(PyObject*);
Py_complex PyComplex_AsCComplex(PyObject*);
PyObject* PyObject_CallFunction(PyObject*, const char*, ...);
PyObject* PyCapsule_New(void*, const char*, void*);
int PyTraceMalloc_Track(unsigned, uintptr_t, size_t);
int PyContextVar_Get(PyObject*, PyObject*, PyObject**);

/* ---- NumPy: numpy/_core/include/numpy/{ndarraytypes.h, __multiarray_api.h} ---- */

typedef struct {
  npc_array leading;
  PyObject* weakreflist;
  void* buffer_info;
  PyObject* mem_handler; /* who frees the data when flags has OWNDATA (NEP 49) */
} numpy_array;

typedef struct {
  int64_t ob_refcnt;
  PyObject *ob_type, *typeobj;
  char kind, type, byteorder, former_flags;
  int type_num;
  uint64_t flags;
  int64_t elsize;
} numpy_descr;

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

enum { OWNDATA = 0x4, FORCECAST = 0x10, ALIGNED = 0x100, WRITEABLE = 0x400 };
enum { TRACEMALLOC_DOMAIN = 389047 }; /* NumPy's own */

static void** numpy;
#define ndarray_type ((PyObject*)numpy[2])
#define PyArray_DescrFromScalar ((PyObject * (*)(PyObject*)) numpy[57])
#define PyArray_Scalar ((PyObject * (*)(const void*, PyObject*, PyObject*)) numpy[60])
#define PyArray_ScalarAsCtype ((void (*)(PyObject*, void*))numpy[62])
#define PyArray_FromAny ((PyObject * (*)(PyObject*, PyObject*, int, int, int, PyObject*)) numpy[69])
#define PyArray_Return ((PyObject * (*)(PyObject*)) numpy[76])
#define PyArray_SetBaseObject ((int (*)(PyObject*, PyObject*)) numpy[282])
#define PyArray_NewFromDescr \
  ((PyObject * (*)(PyObject*, PyObject*, int, const int64_t*, const int64_t*, void*, int, PyObject*)) numpy[94])

/* ---- C library ---- */

void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
void* malloc(size_t);
void free(void*);
void* mmap(void*, size_t, int, int, int, long);
int munmap(void*, size_t);
int madvise(void*, size_t, int);
int sched_yield(void);
int sigfillset(void*);
int sigdelset(void*, int);
int pthread_sigmask(int, const void*, void*);
int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
int pthread_create(void** thread, const void* attributes, void* (*)(void*), void*);
int pthread_detach(void*);
int pthread_mutex_init(void*, const void*);
int pthread_mutex_lock(void*);
int pthread_mutex_unlock(void*);
int pthread_cond_init(void*, const void*);
int pthread_cond_wait(void* condition, void* mutex);
int pthread_cond_signal(void*);
int pthread_cond_broadcast(void*);
typedef struct {
  int64_t bytes[16]; /* more than any system's pthread_mutex_t or pthread_cond_t has */
} lock;
struct timespec {
  long seconds, nanoseconds;
};
int clock_gettime(int, struct timespec*);

#if defined(__APPLE__)
enum { MAP_ANONYMOUS_PRIVATE = 0x1002, CLOCK_MONOTONIC = 6, SIG_SETMASK = 3, SIGBUS = 10 };
#else
enum { MAP_ANONYMOUS_PRIVATE = 0x22, CLOCK_MONOTONIC = 1, SIG_SETMASK = 2, SIGBUS = 7 };
#endif
enum { PROT_READ_WRITE = 3, MADV_HUGEPAGE = 14 };

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

/* ---- floating-point errors ----

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

/* ---- threads ----

   One pool for all loops. Every worker has a place of its own, where the caller offers it a part of the loop: threads that
   wrote to one place would wait for each other's caches, for longer than a short loop takes. The caller takes what a worker
   was offered and has not begun: a worker which the system has not scheduled, because the machine is busy, delays nobody.
   (At the end of an OpenMP region every thread must have arrived.) While one caller has the pool, others run their loops
   alone. */

#ifdef _OPENMP
int omp_get_max_threads(void);
int omp_in_parallel(void);
#endif

enum { MOST_WORKERS = 511 };
static const int64_t SHORT = 500000, LONG = 50000000; /* nanoseconds: chunks grow below and shrink above */
static const int64_t SPIN = 1000000; /* nanoseconds that an idle worker looks for the next loop before it sleeps */
/* Short loops need workers that are awake, and keep them so while they follow each other within SOON. Such as took MISSED
   together wake them. */
static const int64_t SOON = 100000, MISSED = 100000; /* nanoseconds */

struct loop {
  npc_body body;
  void* context;
  int64_t n, grain;
  int64_t parted;       /* grains that the threads share out beforehand */
  int threads;          /* at most */
  int is_interrupted;
  PyThreadState* state; /* of the calling thread, while it has no GIL */
  int64_t next __attribute__((aligned(128))); /* the first item behind those that nobody has taken */
};

static int thread_limit = 1;         /* from the environment, the affinity mask and the control group */
static int is_child;                 /* forked from a process that had workers: stays on one thread */
static __thread int body_thread;     /* 1 + the thread number while in a body without the GIL, else 0 */
static __thread struct loop* body_loop;

enum { NO_OFFER, OFFERED, TAKEN, DONE };

/* What a worker and the caller tell each other, on lines of the cache that no other worker writes. */
static struct place {
  int offer __attribute__((aligned(128)));
  unsigned flags; /* floating-point errors of its part */
  struct loop* loop;
  int is_asleep __attribute__((aligned(128)));
} places[MOST_WORKERS + 1];

static struct {
  int has_caller; /* somebody's loop has the workers */
  int started;    /* workers that exist */
  int64_t latest; /* nanoseconds: when the last loop of several threads ended */
  int64_t missed, missed_until; /* nanoseconds that loops took which had no worker because none was awake, and when */
  int are_late;   /* the last loop waited for none of some: the machine is busy */
  lock mutex;
  lock condition;
} workers;

static int count_threads(void) {
  if (is_child) return 1;
#ifdef _OPENMP
  if (omp_in_parallel()) return 1;
  int openmp = omp_get_max_threads(); /* asked each time: threadpoolctl and omp_set_num_threads change it */
  return openmp < thread_limit ? openmp : thread_limit;
#else
  return thread_limit;
#endif
}

/* See whether the user interrupts; by the calling thread, which may take the GIL. */
static int look_for_signals(struct loop* loop) {
  PyEval_RestoreThread(loop->state);
  if (PyErr_CheckSignals()) __atomic_store_n(&loop->is_interrupted, 1, __ATOMIC_RELAXED);
  loop->state = PyEval_SaveThread();
  return loop->is_interrupted;
}

static int is_interrupted(const struct loop* loop) { return __atomic_load_n(&loop->is_interrupted, __ATOMIC_RELAXED); }

/* A thread's part of the grains that were shared out beforehand. */
static void run_part(struct loop* loop, int part, int thread) {
  const int64_t begin = loop->parted * part / loop->threads * loop->grain;
  const int64_t end = least(loop->parted * (part + 1) / loop->threads * loop->grain, loop->n);
  if (begin < end && !is_interrupted(loop)) loop->body(loop->context, begin, end, thread);
}

/* Of the others, what is left. */
static void run_chunks(struct loop* loop, int thread) {
  if (loop->parted * loop->grain >= loop->n) return;
  int64_t chunk = loop->grain * 4, start = now(), checked = start;
  while (!is_interrupted(loop)) {
    /* Small at first, to see how long they take, and at the end, to finish together. */
    int64_t rest = loop->n - __atomic_load_n(&loop->next, __ATOMIC_RELAXED);
    int64_t share = rest / loop->grain / (3 * loop->threads) * loop->grain;
    int64_t taken = greatest(least(chunk, loop->threads > 1 ? share : chunk), loop->grain);
    int64_t begin = __atomic_fetch_add(&loop->next, taken, __ATOMIC_RELAXED);
    if (begin >= loop->n) break;
    loop->body(loop->context, begin, least(begin + taken, loop->n), thread);
    int64_t end = now();
    if (end - start < SHORT) chunk = least(chunk * 2, loop->n / loop->grain * loop->grain);
    if (end - start > LONG && chunk > loop->grain) chunk = greatest(chunk / loop->grain / 2, 1) * loop->grain;
    if (thread == 0 && end - checked > LONG) {
      look_for_signals(loop);
      end = checked = now();
    }
    start = end;
  }
}

static void run_as(struct loop* loop, int thread) {
  body_thread = thread + 1;
  body_loop = loop;
  run_part(loop, thread, thread);
  run_chunks(loop, thread);
  body_thread = 0;
}

static int is_offered(struct place* place) { return __atomic_load_n(&place->offer, __ATOMIC_ACQUIRE) == OFFERED; }

/* By its worker or, in vain or not, by the caller. */
static int take_offer(struct place* place, int taken) {
  int offered = OFFERED;
  return __atomic_compare_exchange_n(&place->offer, &offered, taken, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void wait_for_offer(struct place* place) {
  unsigned looked = 0;
  for (int64_t asleep_from = now() + SPIN; !is_offered(place) || !take_offer(place, TAKEN);) {
    if (now() < asleep_from) {
      if (++looked % 64)
        pause_briefly();
      else
        sched_yield(); /* to the caller, when the system has put both on one processor */
    } else {
      pthread_mutex_lock(&workers.mutex);
      __atomic_store_n(&place->is_asleep, 1, __ATOMIC_RELAXED);
      __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the caller offers before it looks who sleeps */
      while (!is_offered(place)) pthread_cond_wait(&workers.condition, &workers.mutex);
      __atomic_store_n(&place->is_asleep, 0, __ATOMIC_RELAXED);
      pthread_mutex_unlock(&workers.mutex);
      asleep_from = now() + SPIN;
    }
  }
}

static void* work(void* own) {
  struct place* place = own;
  for (;;) {
    wait_for_offer(place);
    clear_flags();
    run_as(place->loop, (int)(place - places));
    place->flags = raised_flags();
    __atomic_store_n(&place->offer, DONE, __ATOMIC_RELEASE);
  }
  return 0;
}

/* Workers see no signal, except those of their own faults: Python's handlers are the main thread's. */
static void start_workers(int count) {
  static const int faults[] = {4, SIGBUS, 8, 11}; /* SIGILL, SIGBUS, SIGFPE, SIGSEGV */
  char every[128], before[128];
  sigfillset(every);
  for (int i = 0; i < 4; i++) sigdelset(every, faults[i]);
  pthread_sigmask(SIG_SETMASK, every, before);
  for (void* thread; workers.started < count; workers.started++) {
    if (pthread_create(&thread, 0, work, &places[workers.started + 1])) break; /* fewer threads, then */
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, before, 0);
}

static void wake_workers(int count) {
  int asleep = 0;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  for (int k = 1; k <= count; k++) asleep |= __atomic_load_n(&places[k].is_asleep, __ATOMIC_RELAXED);
  if (!asleep) return;
  pthread_mutex_lock(&workers.mutex);
  pthread_cond_broadcast(&workers.condition);
  pthread_mutex_unlock(&workers.mutex);
}

/* What is shared out beforehand: all of a short loop, and of a long one a part, as threads do not take equally long. Nothing
   where workers may not come: their parts would be left to the caller. */
static int64_t parted(int64_t grains, int threads) {
  if (workers.are_late) return 0;
  return grains <= 4 * threads ? grains : least(grains / 2, 16 * threads);
}

/* The floating-point errors of the workers. */
static unsigned run_with_workers(struct loop* loop) {
  unsigned flags = 0;
  int late = 0;
  for (int k = 1; k < loop->threads; k++) {
    places[k].loop = loop;
    __atomic_store_n(&places[k].offer, OFFERED, __ATOMIC_RELEASE);
  }
  wake_workers(loop->threads - 1);
  run_as(loop, 0);
  int64_t checked = 0;
  for (int k = 1; k < loop->threads; k++) {
    struct place* place = &places[k];
    if (take_offer(place, NO_OFFER)) {
      late++;
      body_thread = 1;
      run_part(loop, k, 0);
      body_thread = 0;
      continue;
    }
    for (unsigned i = 0; __atomic_load_n(&place->offer, __ATOMIC_ACQUIRE) != DONE; i++) {
      if (i < 1000)
        pause_briefly();
      else
        sched_yield();
      if (i % 1024) continue;
      if (!checked) checked = now();
      if (now() - checked > LONG && !is_interrupted(loop)) {
        look_for_signals(loop);
        checked = now();
      }
    }
    flags |= place->flags;
    __atomic_store_n(&place->offer, NO_OFFER, __ATOMIC_RELAXED); /* its worker looks all the time */
  }
  workers.are_late = late > loop->threads / 8;
  return flags;
}

/* How many threads a loop is worth. A thread is worth waking for each grain; awake it is of use for a piece. */
static int threads_for(int64_t n, int64_t grain, int64_t piece, int most, int64_t begun) {
  const int is_short = n <= grain;
  const int are_awake = begun - workers.latest < (is_short ? SOON : SPIN) || (is_short && workers.missed > MISSED);
  return (int)least((n - 1) / (are_awake ? piece : grain) + 1, most);
}

static void note_missed(int64_t begun) {
  const int64_t ended = now();
  if (begun - workers.missed_until > SOON) workers.missed = 0;
  workers.missed += ended - begun;
  workers.missed_until = ended;
}

static int parallel_in_pieces(npc_body body, void* context, int64_t n, int64_t grain, int64_t piece) {
  if (n <= 0) return 0;
  if (piece < 1) piece = 1;
  if (grain < piece) grain = piece;
  int most;
  if (n <= piece || body_thread || ((most = count_threads()) == 1 && n <= grain)) {
    body(context, 0, n, body_thread ? body_thread - 1 : 0);
    return 0;
  }
  const int64_t begun = now();
  int threads = threads_for(n, grain, piece, most, begun);
  if (threads == 1 && n <= grain) {
    body(context, 0, n, 0);
    note_missed(begun);
    return 0;
  }
  struct loop loop = {.body = body, .context = context, .n = n, .grain = piece, .threads = 1};
  unsigned flags = 0;
  loop.state = PyEval_SaveThread();
  if (threads > 1 && !__atomic_exchange_n(&workers.has_caller, 1, __ATOMIC_ACQUIRE)) {
    if (workers.started < threads - 1) start_workers(threads - 1);
    loop.threads = (int)least(threads, workers.started + 1);
    loop.parted = parted((n - 1) / piece + 1, loop.threads);
    loop.next = loop.parted * piece;
    flags = run_with_workers(&loop);
    workers.missed = 0;
    workers.latest = now();
    __atomic_store_n(&workers.has_caller, 0, __ATOMIC_RELEASE);
  } else {
    run_as(&loop, 0);
  }
  raise_flags(flags);
  PyEval_RestoreThread(loop.state);
  return loop.is_interrupted ? -1 : 0;
}

static int parallel(npc_body body, void* context, int64_t n, int64_t grain) {
  return parallel_in_pieces(body, context, n, grain, grain);
}

static int poll(void) {
  if (body_thread > 1) return __atomic_load_n(&body_loop->is_interrupted, __ATOMIC_RELAXED);
  if (body_thread) return look_for_signals(body_loop);
  PyEval_RestoreThread(PyEval_SaveThread());
  return PyErr_CheckSignals();
}

/* ---- memory ----

   The system hands out and takes back large blocks page by page, which costs more than most kernels. Freed blocks are
   kept here, up to a bound, and given to the next request of about their size. */

struct block { /* just before the memory that it describes */
  void* mapping;
  size_t mapped, capacity;
  int64_t padding[5];
};

/* AddressSanitizer knows the blocks of malloc. Of those here it is told: what lies behind the bytes that were asked for, and
   all of a block that was given back, is nobody's. */
#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(const void*, size_t);
void __asan_unpoison_memory_region(const void*, size_t);
static void forbid(void* memory, size_t size) { __asan_poison_memory_region(memory, size); }
static void allow(void* memory, size_t size) { __asan_unpoison_memory_region(memory, size); }
#else
static void forbid(void* memory, size_t size) {}
static void allow(void* memory, size_t size) {}
#endif

enum { SLOTS = 64 };
static const size_t LARGE = 1 << 17, PAGE = 4096, HUGE_PAGE = 2 << 20;

static struct {
  char lock;
  unsigned colour;
  size_t kept, most_kept; /* bytes */
  int count;
  struct block* blocks[SLOTS]; /* oldest first */
} pool;

static void lock_pool(void) {
  while (__atomic_test_and_set(&pool.lock, __ATOMIC_ACQUIRE)) sched_yield();
}
static void unlock_pool(void) { __atomic_clear(&pool.lock, __ATOMIC_RELEASE); }

static struct block* take_block(int i) {
  struct block* block = pool.blocks[i];
  for (pool.count--; i < pool.count; i++) pool.blocks[i] = pool.blocks[i + 1];
  pool.kept -= block->mapped;
  return block;
}

/* The memory of a block, of which the first `size` bytes are in use. */
static void* in_use(struct block* block, size_t size) {
  allow(block + 1, size);
  char *end = (char*)(block + 1) + size, *end_of_mapping = (char*)block->mapping + block->mapped;
  forbid(end, end_of_mapping - end);
  return block + 1;
}

/* Memory for `size` bytes, aligned to 64; NULL when there is none. */
static void* pool_get(size_t size) {
  lock_pool();
  int best = -1;
  for (int i = pool.count - 1; i >= 0; i--) {
    size_t capacity = pool.blocks[i]->capacity;
    if (capacity >= size && capacity <= size + size / 4 && (best < 0 || capacity < pool.blocks[best]->capacity)) best = i;
  }
  struct block* block = best < 0 ? 0 : take_block(best);
  unsigned colour = pool.colour++ % 8;
  unlock_pool();
  if (block) return in_use(block, size);

  /* Blocks start on a page, each a little further than the one before: with equal low bits in all addresses the
     inputs and outputs of one loop would compete for the same lines of the cache. */
  size_t offset = colour * 320, alignment = size >= 2 * HUGE_PAGE ? HUGE_PAGE : PAGE;
  size_t mapped = (size + offset + PAGE + alignment + PAGE - 1) / PAGE * PAGE;
  if (mapped < size) return 0;
  char* mapping = mmap(0, mapped, PROT_READ_WRITE, MAP_ANONYMOUS_PRIVATE, -1, 0);
  if (mapping == (char*)-1) return 0;
  char* start = (char*)(((uintptr_t)mapping + PAGE + alignment - 1) / alignment * alignment);
#ifdef __linux__
  if (alignment == HUGE_PAGE) madvise(start, mapping + mapped - start, MADV_HUGEPAGE);
#endif
  block = (struct block*)(start + offset) - 1;
  block->mapping = mapping;
  block->mapped = mapped;
  block->capacity = (size + PAGE - 1) / PAGE * PAGE; /* not the slack of the alignment, which would hide it from its like */
  return in_use(block, size);
}

static void pool_put(void* memory) {
  struct block *block = (struct block*)memory - 1, *dropped[SLOTS];
  int count = 0;
  forbid(memory, block->capacity);
  lock_pool();
  if (block->mapped > pool.most_kept) {
    dropped[count++] = block;
  } else {
    while (pool.count == SLOTS || pool.kept + block->mapped > pool.most_kept) dropped[count++] = take_block(0);
    pool.blocks[pool.count++] = block;
    pool.kept += block->mapped;
  }
  unlock_pool();
  for (int i = 0; i < count; i++) {
    allow(dropped[i]->mapping, dropped[i]->mapped);
    munmap(dropped[i]->mapping, dropped[i]->mapped);
  }
}

/* The same blocks as NumPy's allocator (NEP 49), for the arrays that hold one. NumPy calls these with the GIL. */
static void* data_malloc(void* context, size_t size) { return pool_get(size); }
static void* data_calloc(void* context, size_t count, size_t size) {
  void* data = size && count > (size_t)-1 / size ? 0 : pool_get(count * size);
  return data ? memset(data, 0, count * size) : 0;
}
static void data_free(void* context, void* data, size_t size) {
  if (data) pool_put(data);
}
static void* data_realloc(void* context, void* data, size_t size) {
  size_t capacity = data ? ((struct block*)data - 1)->capacity : 0;
  if (data && size <= capacity && size >= capacity / 2) return in_use((struct block*)data - 1, size);
  void* moved = pool_get(size);
  if (moved && data) {
    allow(data, capacity); /* how much of it is in use, the block does not say */
    memcpy(moved, data, size < capacity ? size : capacity);
    pool_put(data);
  }
  return moved;
}

static numpy_mem_handler handler = {"npcompile", 1, {0, data_malloc, data_calloc, data_realloc, data_free}};
static PyObject* handler_capsule;

/* Scratch memory has its size in front when it is small, else it is a block. */
static void* scratch(int64_t bytes) {
  char* memory = 0;
  if (bytes >= (int64_t)LARGE) {
    memory = pool_get(bytes);
  } else if (bytes >= 0) {
    char* start = malloc(bytes + 128);
    memory = start ? (char*)(((uintptr_t)start + 127) / 64 * 64) : 0;
    if (memory) {
      struct block* block = (struct block*)memory - 1;
      block->mapping = start;
      block->mapped = 0;
      forbid(memory + bytes, start + 128 - memory);
    }
  }
  if (!memory && !body_thread) PyErr_NoMemory();
  return memory;
}

static void release(void* memory) {
  if (!memory) return;
  struct block* block = (struct block*)memory - 1;
  if (block->mapped)
    pool_put(memory);
  else
    free(block->mapping);
}

/* ---- arrays ---- */

/* A body has no GIL. What it makes is an array of its own, of which Python hears nothing: it has no type. */
enum { MOST_AXES = 8 };
struct own_array {
  npc_array array;
  int64_t dimensions[MOST_AXES];
};

static PyObject* own_empty(int64_t bytes, int nd, const int64_t* dimensions) {
  const int64_t lead = (sizeof(struct own_array) + 63) / 64 * 64;
  struct own_array* made = nd > MOST_AXES ? 0 : scratch(lead + bytes);
  if (!made) return 0;
  made->array = (npc_array){.ob_refcnt = 1, .data = (char*)made + lead, .nd = nd, .dimensions = made->dimensions};
  for (int i = 0; i < nd; i++) made->dimensions[i] = dimensions[i];
  return (PyObject*)made;
}

static int is_in_order(int64_t expected, int nd, const int64_t* dimensions, const int64_t* strides) {
  for (int i = nd; i--; expected *= dimensions[i])
    if (strides[i] != expected) return 0;
  return 1;
}

static PyObject* empty(PyObject* dtype, int nd, const int64_t* dimensions, const int64_t* strides) {
  int64_t bytes = ((numpy_descr*)dtype)->elsize;
  for (int i = 0; i < nd; i++)
    if (__builtin_mul_overflow(bytes, dimensions[i], &bytes)) {
      if (body_thread) return 0;
      bytes = 0; /* NumPy raises its error */
    }
  if (body_thread) return own_empty(bytes, nd, dimensions);
  Py_IncRef(dtype); /* stolen */
  if (bytes && strides && is_in_order(((numpy_descr*)dtype)->elsize, nd, dimensions, strides))
    strides = 0; /* NumPy need not look at them */
  if (bytes < (int64_t)LARGE) return PyArray_NewFromDescr(ndarray_type, dtype, nd, dimensions, strides, 0, 0, 0);

  void* data = pool_get(bytes);
  if (!data) { /* NumPy raises its error, or finds the memory */
    return PyArray_NewFromDescr(ndarray_type, dtype, nd, dimensions, strides, 0, 0, 0);
  }
  PyObject* array = PyArray_NewFromDescr(ndarray_type, dtype, nd, dimensions, strides, data, ALIGNED | WRITEABLE, 0);
  if (!array) {
    pool_put(data);
    return 0;
  }
  numpy_array* fields = (numpy_array*)array;
  Py_IncRef(handler_capsule);
  fields->mem_handler = handler_capsule;
  fields->leading.flags |= OWNDATA;
  PyTraceMalloc_Track(TRACEMALLOC_DOMAIN, (uintptr_t)data, bytes);
  return array;
}

static PyObject* view(PyObject* dtype, int nd, const int64_t* dimensions, const int64_t* strides, char* data, PyObject* owner) {
  int flags = ((npc_array*)owner)->flags & (ALIGNED | WRITEABLE);
  Py_IncRef(dtype); /* stolen */
  PyObject* array = PyArray_NewFromDescr(ndarray_type, dtype, nd, dimensions, strides, data, flags, 0);
  if (!array) return 0;
  Py_IncRef(owner); /* stolen */
  if (!PyArray_SetBaseObject(array, owner)) return array;
  Py_DecRef(array);
  return 0;
}

static PyObject* box(PyObject* dtype, const void* element) { return PyArray_Scalar(element, dtype, 0); }

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

enum { FIRST_OF_OTHER_KINDS = 17 }; /* NPY_OBJECT: the types before it are numbers */
enum { FIRST_OF_OTHERS = 256 }; /* NPY_USERDEF: numbers of dtypes that are not NumPy's own */

static int scalar_data(PyObject* number, PyObject* dtype, void* out) {
  npc_array* array = (npc_array*)number;
  if (PyType_IsSubtype(array->ob_type, generic_type)) {
    PyObject* own = PyArray_DescrFromScalar(number);
    if (!own) return -1;
    Py_DecRef(own); /* the built-in dtypes live on */
    if (own == dtype && ((numpy_descr*)dtype)->type_num < FIRST_OF_OTHERS) {
      PyArray_ScalarAsCtype(number, out); /* of dtypes that packages register it gives a pointer */
      return 0;
    }
  }
  if (array->ob_type == ndarray_type && array->nd == 0 && array->descr == dtype) {
    memcpy(out, array->data, ((numpy_descr*)dtype)->elsize);
    return 0;
  }
  Py_IncRef(dtype); /* stolen */
  PyObject* converted = PyArray_FromAny(number, dtype, 0, 0, FORCECAST, 0);
  if (!converted) return -1;
  memcpy(out, ((npc_array*)converted)->data, ((numpy_descr*)dtype)->elsize);
  Py_DecRef(converted);
  return 0;
}

/* Is an array's dtype this one? Others that say the same are made by unpickling, for one. */
static int is_dtype(PyObject* own, PyObject* dtype) {
  const numpy_descr *a = (numpy_descr*)own, *b = (numpy_descr*)dtype;
  const int are_numbers = a->type_num < FIRST_OF_OTHER_KINDS && b->type_num < FIRST_OF_OTHER_KINDS;
  return a == b || (are_numbers && a->kind == b->kind && a->elsize == b->elsize && a->byteorder == b->byteorder);
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

static int take_scalar(PyObject* object, PyObject* dtype, void* out) {
  if (type_of(object) != ((numpy_descr*)dtype)->typeobj) return 1;
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
      const numpy_descr* dtype = (numpy_descr*)a->descr;
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

static PyObject* filled(PyObject* made, int (*set)(PyObject*, int64_t, PyObject*), int n, __builtin_va_list items) {
  int is_whole = made != 0;
  for (int i = 0; i < n; i++) {
    PyObject* item = __builtin_va_arg(items, PyObject*);
    is_whole &= item != 0;
    if (made)
      set(made, i, item);
    else
      decref(item);
  }
  if (is_whole) return made;
  decref(made);
  return 0;
}

static PyObject* tuple_of(int n, ...) {
  __builtin_va_list items;
  __builtin_va_start(items, n);
  PyObject* made = filled(PyTuple_New(n), PyTuple_SetItem, n, items);
  __builtin_va_end(items);
  return made;
}

static PyObject* list_of(int n, ...) {
  __builtin_va_list items;
  __builtin_va_start(items, n);
  PyObject* made = filled(PyList_New(n), PyList_SetItem, n, items);
  __builtin_va_end(items);
  return made;
}
static int error(void) { return PyErr_Occurred() != 0; }

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
  struct extent e = {array->data, array->data + ((numpy_descr*)array->descr)->elsize};
  for (int i = 0; i < array->nd; i++) {
    int64_t n = array->dimensions[i];
    if (n == 0) return (struct extent){0, 0};
    *(array->strides[i] < 0 ? &e.low : &e.high) += (n - 1) * array->strides[i];
  }
  return e;
}

/* are_disjoint(written, *arrays) of backends/overlap.py. The arrays are ndarrays: guards have looked. */
PyObject* npc_are_disjoint(PyObject* self, PyObject* const* args, int64_t nargs) {
  int64_t written;
  if (as_int64(args[0], &written)) return 0;
  struct extent some[64], *extents = nargs > 64 ? malloc(nargs * sizeof(struct extent)) : some;
  if (!extents) return PyErr_NoMemory();
  int is_disjoint = 1;
  for (int64_t i = 1; i < nargs; i++) extents[i] = extent_of((npc_array*)args[i]);
  for (int64_t i = 1; i <= written && is_disjoint; i++)
    for (int64_t j = i + 1; j < nargs; j++)
      if (extents[i].low < extents[j].high && extents[j].low < extents[i].high) {
        is_disjoint = 0;
        break;
      }
  if (extents != some) free(extents);
  return PyBool_FromLong(is_disjoint);
}

/* are_like(facts, *arrays) of backends/likeness.py: what it is called with may be anything. */
PyObject* npc_are_like(PyObject* self, PyObject* const* args, int64_t nargs) {
  const int64_t* fact = (const int64_t*)((npc_array*)args[0])->data;
  const int64_t* const names_end = fact + 1 + 3 * *fact;
  for (fact++; fact < names_end; fact += 3) { /* a dictionary, a name, and what it means */
    PyObject* found = PyDict_GetItemWithError((PyObject*)(uintptr_t)fact[0], (PyObject*)(uintptr_t)fact[1]);
    if (!found && PyErr_Occurred()) return 0;
    if ((int64_t)(uintptr_t)found != fact[2]) return PyBool_FromLong(0);
  }
  const int64_t kind = *fact++;
  for (int64_t i = 1; i < nargs; i++) {
    const npc_array* x = (npc_array*)args[i];
    if ((int64_t)(uintptr_t)x->ob_type != kind) return PyBool_FromLong(0);
    if ((int64_t)(uintptr_t)x->descr != fact[0] || (x->flags & fact[1]) != fact[2] || x->nd != fact[3]) return PyBool_FromLong(0);
    const int64_t sizes = fact[4];
    fact += 5;
    for (int64_t d = 0; d < sizes; d++)
      if (x->dimensions[d] != *fact++) return PyBool_FromLong(0);
  }
  return PyBool_FromLong(1);
}

/* ---- start ---- */

static struct npc_runtime runtime = {
    .parallel = parallel,
    .parallel_in_pieces = parallel_in_pieces,
    .poll = poll,
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
    .from_int64 = PyLong_FromLongLong,
    .from_uint64 = PyLong_FromUnsignedLongLong,
    .from_double = PyFloat_FromDouble,
    .from_bool = PyBool_FromLong,
    .take_array = take_array,
    .take_int = take_int,
    .take_float = take_float,
    .take_bool = take_bool,
    .take_scalar = take_scalar,
    .incref = incref,
    .decref = decref,
    .error = error,
    .watch = clear_flags,
    .report = report,
    .note_invalid = note_invalid,
    .may_be_infinite = may_be_infinite,
    .index_error = index_error,
    .value_error = value_error,
};

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
  thread_limit = (int)least(threads, MOST_WORKERS + 1);
  pthread_mutex_init(&workers.mutex, 0);
  pthread_cond_init(&workers.condition, 0);
  pool.most_kept = bytes_kept;
  runtime.scalar = PyArray_Return;
  runtime.blas_limit = blas_limit;
  if (blas_limit) memcpy(&runtime.sgemm, blas, sizeof runtime - __builtin_offsetof(struct npc_runtime, sgemm));
  pthread_atfork(hold_before_fork, resume_parent, resume_child);
  return (handler_capsule = PyCapsule_New(&handler, "mem_handler", 0)) ? &runtime : 0;
}
