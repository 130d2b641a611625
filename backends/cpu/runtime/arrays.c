/* Memory, and arrays in it. */

/* ---- memory ----

   The system hands out and takes back large blocks page by page, which costs more than most kernels. Freed blocks are
   kept here and given to the next request of about their size: FEW bytes of them in any case, more only up to what was in use
   at once a moment ago, and `most_kept` at most. They go back to the system when it has no more memory to give, and by npc_trim;
   it may take the larger ones whenever it needs them. */

struct block { /* just before the memory that it describes */
  void* mapping;
  size_t mapped, capacity;
  int64_t is_offered; /* may the system have its memory, while it is kept? */
  int64_t padding[4];
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
static const size_t LARGE = 1 << 17, PAGE = 4096, HUGE_PAGE = 2 << 20, FEW = 32 << 20;
static const int64_t MOMENT = 1000000000; /* nanoseconds */

static struct {
  char lock;
  unsigned colour;
  size_t kept, most_kept, used; /* bytes */
  size_t peak, peak_before;     /* the most that was in use at once in this moment, and in the one before */
  int64_t moment_ends;
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

static void count_use(size_t bytes) {
  pool.used += bytes;
  pool.peak = greatest(pool.peak, pool.used);
}

/* The memory of a block, of which the first `size` bytes are in use. */
static void* in_use(struct block* block, size_t size) {
  allow(block + 1, size);
  char *end = (char*)(block + 1) + size, *end_of_mapping = (char*)block->mapping + block->mapped;
  forbid(end, end_of_mapping - end);
  return block + 1;
}

/* Bytes that may be kept. By the holder of the lock, who gives back what is over. */
static size_t may_keep(void) {
  if (pool.kept <= FEW) return least(FEW, pool.most_kept);
  const int64_t time = now();
  if (time > pool.moment_ends) {
    pool.peak_before = time > pool.moment_ends + MOMENT ? pool.used : pool.peak;
    pool.peak = pool.used;
    pool.moment_ends = time + MOMENT;
  }
  return least(greatest(FEW, greatest(pool.peak, pool.peak_before)), pool.most_kept);
}

static void give_back(struct block** blocks, int count) {
  for (int i = 0; i < count; i++) {
    allow(blocks[i]->mapping, blocks[i]->mapped);
    munmap(blocks[i]->mapping, blocks[i]->mapped);
  }
}

/* Return to the system what is kept. The number of bytes. */
size_t npc_trim(void) {
  struct block* dropped[SLOTS];
  int count = 0;
  lock_pool();
  const size_t bytes = pool.kept;
  while (pool.count) dropped[count++] = take_block(0);
  unlock_pool();
  give_back(dropped, count);
  return bytes;
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
  if (block) count_use(block->mapped);
  unsigned colour = pool.colour++ % 8;
  unlock_pool();
  if (block) return in_use(block, size);

  /* Blocks start on a page, each a little further than the one before: with equal low bits in all addresses the
     inputs and outputs of one loop would compete for the same lines of the cache. */
  size_t offset = colour * 320, alignment = size >= 2 * HUGE_PAGE ? HUGE_PAGE : PAGE;
  size_t mapped = (size + offset + PAGE + alignment + PAGE - 1) / PAGE * PAGE;
  if (mapped < size) return 0;
  char* mapping = mmap(0, mapped, PROT_READ_WRITE, MAP_ANONYMOUS_PRIVATE, -1, 0);
  if (mapping == (char*)-1 && npc_trim()) mapping = mmap(0, mapped, PROT_READ_WRITE, MAP_ANONYMOUS_PRIVATE, -1, 0);
  if (mapping == (char*)-1) return 0;
  char* start = (char*)(((uintptr_t)mapping + PAGE + alignment - 1) / alignment * alignment);
#ifdef __linux__
  if (alignment == HUGE_PAGE) madvise(start, mapping + mapped - start, MADV_HUGEPAGE);
#endif
  block = (struct block*)(start + offset) - 1;
  block->mapping = mapping;
  block->mapped = mapped;
  block->capacity = (size + PAGE - 1) / PAGE * PAGE; /* not the slack of the alignment, which would hide it from its like */
  lock_pool();
  count_use(mapped);
  unlock_pool();
  return in_use(block, size);
}

/* Let the system have the memory of a block that is kept, should it need some before the block is used again. */
static void offer_memory(struct block* block) {
#ifdef __linux__
  char *start = (char*)(((uintptr_t)(block + 1) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE), *end = (char*)(block + 1) + block->capacity;
  if (end >= start + 2 * HUGE_PAGE) madvise(start, (end - start) / HUGE_PAGE * HUGE_PAGE, MADV_FREE);
#endif
  block->is_offered = 1;
}

/* Offer what was not. Processors of threads that are awake have to be told of every page, which takes longer than all the rest. */
static void offer_kept_memory(void) {
  lock_pool();
  for (int i = 0; i < pool.count; i++)
    if (!pool.blocks[i]->is_offered) offer_memory(pool.blocks[i]);
  unlock_pool();
}

static void pool_put(void* memory) {
  struct block *block = (struct block*)memory - 1, *dropped[SLOTS + 1];
  int count = 0;
  forbid(memory, block->capacity);
  block->is_offered = 0;
  if (!are_workers_awake()) offer_memory(block); /* else the first that goes to sleep does */
  lock_pool();
  if (pool.count == SLOTS) dropped[count++] = take_block(0);
  pool.blocks[pool.count++] = block;
  pool.kept += block->mapped;
  const size_t most = may_keep(); /* while this block still counts as in use */
  pool.used -= block->mapped;
  while (pool.kept > most) dropped[count++] = take_block(0);
  unlock_pool();
  give_back(dropped, count);
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
static PyObject *handler_capsule, *usual_capsule; /* the second is NumPy's own */
static const numpy_mem_handler* usual_handler;

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

/* Programs make the same small arrays at each call, and the objects take longer than what is computed with them. Those that
   nobody has any more are kept here by shape, a few for each part of the table. */
enum { PARTS = 32, SPARE = 4, MOST_BYTES = 8192, NUMBERS = 13 /* NPY_FLOAT64 + 1 */ };
static PyObject* spare[PARTS][SPARE];

static PyObject** spare_like(PyObject* dtype, int nd, const int64_t* dimensions) {
  uint64_t hash = (uintptr_t)dtype >> 4;
  for (int i = 0; i < nd; i++) hash = (hash ^ dimensions[i]) * 0x9e3779b97f4a7c15u;
  return spare[hash >> 59];
}

static PyObject* take_spare(PyObject* dtype, int nd, const int64_t* dimensions) {
  PyObject** like = spare_like(dtype, nd, dimensions);
  for (int k = 0; k < SPARE; k++) {
    npc_array* a = (npc_array*)like[k];
    if (!a || a->descr != dtype || a->nd != nd || memcmp(a->dimensions, dimensions, nd * sizeof(int64_t))) continue;
    like[k] = 0;
    return (PyObject*)a;
  }
  return 0;
}

static int is_in_order(int64_t expected, int nd, const int64_t* dimensions, const int64_t* strides) {
  for (int i = nd; i--; expected *= dimensions[i])
    if (strides[i] != expected) return 0;
  return 1;
}

/* The program has no use for an array any more, which `empty` has made. */
static void discard(PyObject* array) {
  const npc_array* a = (npc_array*)array;
  const int whole = OWNDATA | ALIGNED | WRITEABLE;
  if (!array) return;
  if (a->ob_refcnt != 1 || a->ob_type != ndarray_type || a->base || (a->flags & whole) != whole) {
    Py_DecRef(array);
    return;
  }
  int64_t bytes = ((npc_descr*)a->descr)->elsize;
  for (int i = 0; i < a->nd && bytes <= MOST_BYTES; i++) bytes *= a->dimensions[i];
  const int is_kept = bytes && bytes <= MOST_BYTES && ((npc_descr*)a->descr)->type_num < NUMBERS;
  if (!is_kept || !is_in_order(((npc_descr*)a->descr)->elsize, a->nd, a->dimensions, a->strides)) {
    Py_DecRef(array);
    return;
  }
  PyObject **like = spare_like(a->descr, a->nd, a->dimensions), *dropped = array;
  for (int k = 0; k < SPARE && dropped; k++) { /* the latest first */
    PyObject* other = like[k];
    like[k] = dropped;
    dropped = other;
  }
  if (dropped) Py_DecRef(dropped);
}

static PyObject* empty(PyObject* dtype, int nd, const int64_t* dimensions, const int64_t* strides) {
  int64_t bytes = ((npc_descr*)dtype)->elsize;
  for (int i = 0; i < nd; i++)
    if (__builtin_mul_overflow(bytes, dimensions[i], &bytes)) {
      if (body_thread) return 0;
      bytes = 0; /* NumPy raises its error */
    }
  if (body_thread) return own_empty(bytes, nd, dimensions);
  PyObject* known = bytes && bytes <= MOST_BYTES && !strides ? take_spare(dtype, nd, dimensions) : 0;
  if (known) return known;
  Py_IncRef(dtype); /* stolen */
  if (bytes && strides && is_in_order(((npc_descr*)dtype)->elsize, nd, dimensions, strides))
    strides = 0; /* NumPy need not look at them */
  const numpy_mem_handler* memory = &handler;
  PyObject* owner = handler_capsule;
  if (bytes >= (int64_t)LARGE) Py_IncRef(owner);
  else owner = PyDataMem_GetHandler(), memory = owner == usual_capsule ? usual_handler : 0; /* NumPy would look it up by name */
  void* data = bytes && memory ? memory->allocator.malloc(memory->allocator.context, bytes) : 0;
  PyObject* array = PyArray_NewFromDescr(ndarray_type, dtype, nd, dimensions, strides, data, data ? ALIGNED | WRITEABLE : 0, 0);
  if (!array || !data) { /* where there was none NumPy has raised its error, or found the memory */
    if (data) memory->allocator.free(memory->allocator.context, data, bytes);
    if (owner) Py_DecRef(owner);
    return array;
  }
  numpy_array* fields = (numpy_array*)array;
  fields->mem_handler = owner;
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

/* A scalar of NumPy's own numbers is its value behind the header of an object (numpy/arrayscalars.h), allocated as its type says.
   The types are there for ever. */
enum { BOOL = 0, PY_TP_ALLOC = 47 };
static PyObject* box(PyObject* dtype, const void* element) {
  static allocator allocators[FIRST_OF_OTHER_KINDS];
  const npc_descr* d = (npc_descr*)dtype;
  if (d->elsize != 8 || d->type_num <= BOOL || d->type_num >= FIRST_OF_OTHER_KINDS || d->byteorder != '=')
    return PyArray_Scalar(element, dtype, 0);
  allocator* allocate = allocators + d->type_num;
  if (!*allocate) *allocate = (allocator)PyType_GetSlot(d->typeobj, PY_TP_ALLOC);
  npc_number* made = (npc_number*)(*allocate)(d->typeobj, 0);
  if (made) memcpy(&made->value, element, sizeof made->value);
  return (PyObject*)made;
}
