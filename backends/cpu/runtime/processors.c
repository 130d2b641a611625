/* Processors: which of them workers may use.

   Linux wakes a worker where it last ran, also where the caller runs by then and other processors have nothing to do, at least
   in virtual machines. There the worker waits until the caller's time is over, milliseconds later, so that it misses every loop
   until the system moves it. So a worker that last ran where the caller is may use all processors but that one, unless somebody
   else has said which ones it may use. */

enum { MOST_WORKERS = 511 };

#ifdef __linux__
enum { WORD = 8 * sizeof(unsigned long) };

static struct seat {
  void* thread;                         /* pthread_t */
  enum { UNTOUCHED, OURS, OTHERS } are; /* who has chosen the processors */
  struct processors before, mask;       /* what the worker might use, what it may */
} seats[MOST_WORKERS + 1];

static int processor_here(void) { return sched_getcpu(); }

static void seat_worker(int worker, void* thread) { seats[worker].thread = thread; }

static int has_any(const struct processors* mask) {
  for (unsigned i = 0; i < sizeof *mask / sizeof *mask->bits; i++)
    if (mask->bits[i]) return 1;
  return 0;
}

static __attribute__((noinline)) void keep_from(int worker, int processor) {
  struct seat* const seat = &seats[worker];
  struct processors now = {{0}};
  if (seat->are == OTHERS || processor < 0 || (unsigned)processor >= sizeof now * 8) return;
  if (pthread_getaffinity_np(seat->thread, sizeof now, &now)) now = (struct processors){{0}};
  if (seat->are == UNTOUCHED) seat->before = seat->mask = now;
  seat->are = OTHERS;
  if (!has_any(&now) || __builtin_memcmp(&now, &seat->mask, sizeof now)) return;
  seat->mask = seat->before;
  seat->mask.bits[processor / WORD] &= ~(1ul << processor % WORD);
  if (has_any(&seat->mask) && !pthread_setaffinity_np(seat->thread, sizeof seat->mask, &seat->mask)) seat->are = OURS;
}
#else
static int processor_here(void) { return -1; }
static void seat_worker(int worker, void* thread) {}
static void keep_from(int worker, int processor) {}
#endif
