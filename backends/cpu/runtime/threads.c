/* Threads.

   One pool for all loops. Every worker has a place of its own, where the caller offers it a part of the loop: threads that
   wrote to one place would wait for each other's caches, for longer than a short loop takes. Parts are the same whenever a
   loop runs again, so that a thread finds in its caches what it had of the arrays the time before. Who has finished its part
   takes pieces of the others', also of those that nobody has begun: a worker which the system has not scheduled, because the
   machine is busy, delays nobody. (At the end of an OpenMP region every thread must have arrived.) While one caller has the
   pool, others run their loops alone. */

#ifdef _OPENMP
int omp_get_max_threads(void);
int omp_in_parallel(void);
#endif

enum { FIRST_GRAINS = 16 }; /* that a thread takes at most before it knows how long they take */
static const int64_t SHORT = 500000, LONG = 50000000; /* nanoseconds: chunks grow below and shrink above */
static const int64_t AWHILE = 20000000;               /* that Python may wait for a program which it has to go on for */
static const int64_t SPIN = 1000000; /* nanoseconds that an idle worker looks for the next loop before it sleeps */
/* Short loops need workers that are awake, and keep them so while they follow each other within SOON. Such as took MISSED
   together wake them. */
static const int64_t SOON = 100000, MISSED = 100000; /* nanoseconds */

struct loop {
  npc_body body;
  void* context;
  int64_t n, grain;
  int is_short;         /* each thread runs the whole of its part */
  int threads;          /* at most */
  int is_interrupted;
  PyThreadState* state; /* of the calling thread, while it has no GIL */
  struct part* parts;   /* one for each thread */
};

/* Items that follow each other, on lines of the cache that other threads only touch when they have nothing left. */
struct part {
  int64_t next __attribute__((aligned(128))); /* the first that nobody has taken */
  int64_t end;
};

static int most_threads = 1;         /* from the environment, the affinity mask and the control group */
static int thread_limit = 1;         /* what a program asked for since then */
static int is_child;                 /* forked from a process that had workers: stays on one thread */
static __thread int body_thread;     /* 1 + the thread number while in a body without the GIL, else 0 */
static __thread struct loop* body_loop;
static __thread int is_held;         /* does a handler of signals have to wait? It would see what is written by half */

enum { NO_OFFER, OFFERED, TAKEN, DONE };

/* What a worker and the caller tell each other, on lines of the cache that no other worker writes. */
static struct place {
  int offer __attribute__((aligned(128)));
  unsigned flags; /* floating-point errors of its part */
  int processor;  /* where it last was */
  struct loop* loop;
  int is_asleep __attribute__((aligned(128)));
} places[MOST_WORKERS + 1];
static struct part shared_parts[MOST_WORKERS + 1];

static struct {
  int has_caller; /* somebody's loop has the workers */
  int started;    /* workers that exist */
  int64_t latest; /* nanoseconds: when the last loop of several threads ended */
  int64_t missed, missed_until; /* nanoseconds that loops took which had no worker because none was awake, and when */
  int are_late;   /* the last loop waited for none of some: the machine is busy */
  lock mutex;
  lock condition;
} workers;

/* For threadpoolctl: how many threads a loop may use, whoever calls. */
int npc_get_num_threads(void) { return __atomic_load_n(&thread_limit, __ATOMIC_RELAXED); }
void npc_set_num_threads(int threads) {
  __atomic_store_n(&thread_limit, (int)least(greatest(threads, 1), most_threads), __ATOMIC_RELAXED);
}

static int count_threads(void) {
  if (is_child) return 1;
#ifdef _OPENMP
  if (omp_in_parallel()) return 1;
  int openmp = omp_get_max_threads(); /* asked each time: threadpoolctl and omp_set_num_threads change it */
  return least(openmp, npc_get_num_threads());
#else
  return npc_get_num_threads();
#endif
}

/* See whether the user interrupts; by the calling thread, which may take the GIL. */
static int look_for_signals(struct loop* loop) {
  if (is_held) return 0;
  PyEval_RestoreThread(loop->state);
  if (PyErr_CheckSignals()) __atomic_store_n(&loop->is_interrupted, 1, __ATOMIC_RELAXED);
  loop->state = PyEval_SaveThread();
  return loop->is_interrupted;
}

static int is_interrupted(const struct loop* loop) { return __atomic_load_n(&loop->is_interrupted, __ATOMIC_RELAXED); }

/* What a thread has learnt of a loop: how many items it should take at once. */
struct pace {
  int64_t chunk, start, checked; /* items; nanoseconds: when this chunk began, when the user was last asked */
};

/* Items of a part until nobody has any left there. Half of what is left, as the end should be reached together; not more than
   a chunk, of which the time is known. */
static void run_part(struct loop* loop, struct part* part, struct pace* pace, int thread) {
  while (!is_interrupted(loop)) {
    const int64_t rest = part->end - __atomic_load_n(&part->next, __ATOMIC_RELAXED);
    if (rest <= 0) return;
    const int64_t half = loop->threads > 1 ? rest / loop->grain / 2 * loop->grain : rest;
    const int64_t taken = greatest(least(pace->chunk, half), loop->grain);
    const int64_t begin = __atomic_fetch_add(&part->next, taken, __ATOMIC_RELAXED);
    if (begin >= part->end) return;
    loop->body(loop->context, begin, least(begin + taken, part->end), thread);
    int64_t end = now();
    if (end - pace->start < SHORT) pace->chunk = least(pace->chunk * 2, greatest(loop->n, loop->grain));
    if (end - pace->start > LONG && pace->chunk > loop->grain) pace->chunk = greatest(pace->chunk / loop->grain / 2, 1) * loop->grain;
    if (thread == 0 && end - pace->checked > LONG) {
      look_for_signals(loop);
      end = pace->checked = now();
    }
    pace->start = end;
  }
}

/* A thread's own part, and what the others have left of theirs. */
static void run_parts(struct loop* loop, int thread) {
  struct pace pace = {.chunk = loop->grain * FIRST_GRAINS};
  pace.start = pace.checked = now();
  for (int k = 0; k < loop->threads; k++) run_part(loop, &loop->parts[(thread + k) % loop->threads], &pace, thread);
}

static void run_whole(struct loop* loop, const struct part* part, int thread) {
  if (part->next < part->end && !is_interrupted(loop)) loop->body(loop->context, part->next, part->end, thread);
}

static void run_as(struct loop* loop, int thread) {
  body_thread = thread + 1;
  body_loop = loop;
  if (loop->is_short)
    run_whole(loop, &loop->parts[thread], thread);
  else
    run_parts(loop, thread);
  body_thread = 0;
}

static int is_offered(struct place* place) { return __atomic_load_n(&place->offer, __ATOMIC_ACQUIRE) == OFFERED; }

/* By its worker or, in vain or not, by the caller. */
static int take_offer(struct place* place, int taken) {
  int offered = OFFERED;
  return __atomic_compare_exchange_n(&place->offer, &offered, taken, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void note_processor(struct place* place) { __atomic_store_n(&place->processor, processor_here(), __ATOMIC_RELAXED); }

static void offer_kept_memory(void);

static int are_workers_awake(void) {
  int awake = 0;
  for (int k = 1; k <= workers.started && !is_child; k++) awake |= !__atomic_load_n(&places[k].is_asleep, __ATOMIC_RELAXED);
  return awake;
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
      offer_kept_memory();
      pthread_mutex_lock(&workers.mutex);
      note_processor(place);
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
    note_processor(place);
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
    places[workers.started + 1].processor = -1;
    if (pthread_create(&thread, 0, work, &places[workers.started + 1])) break; /* fewer threads, then */
    seat_worker(workers.started + 1, thread);
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

/* A short loop has a few grains for each thread, which are no more to be divided, where the workers come. */
static void share_out(struct loop* loop) {
  const int64_t grains = (loop->n - 1) / loop->grain + 1;
  loop->is_short = grains <= 4 * loop->threads && !workers.are_late;
  for (int k = 0; k < loop->threads; k++) {
    loop->parts[k].next = grains * k / loop->threads * loop->grain;
    loop->parts[k].end = least(grains * (k + 1) / loop->threads * loop->grain, loop->n);
  }
}

/* The floating-point errors of the workers. */
static unsigned run_with_workers(struct loop* loop) {
  unsigned flags = 0;
  int late = 0;
  const int here = processor_here();
  for (int k = 1; k < loop->threads; k++) {
    if (__atomic_load_n(&places[k].processor, __ATOMIC_RELAXED) == here) keep_from(k, here);
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
      if (!loop->is_short) continue; /* the caller has seen that nothing of it is left */
      body_thread = 1;
      run_whole(loop, &loop->parts[k], 0);
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
    loop.parts = shared_parts;
    share_out(&loop);
    flags = run_with_workers(&loop);
    workers.missed = 0;
    workers.latest = now();
    __atomic_store_n(&workers.has_caller, 0, __ATOMIC_RELEASE);
  } else {
    struct part whole = {.end = n};
    loop.parts = &whole;
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
  if (is_held) return 0;
  PyEval_RestoreThread(PyEval_SaveThread());
  return PyErr_CheckSignals();
}

static void hold(int yes) { is_held = yes; }

static int is_due(int64_t* due) {
  const int64_t time = now();
  if (!*due) *due = time + AWHILE;
  return time >= *due;
}
