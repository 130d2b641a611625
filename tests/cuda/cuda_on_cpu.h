/* What the CUDA text of loops needs of CUDA, in C++ for the CPU: each thread of the grid is a thread of the system. */
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>
struct npc_dim { unsigned x; };
static thread_local npc_dim threadIdx, blockIdx;
static npc_dim blockDim, gridDim;
struct npc_block_of_threads {
  std::barrier<> all;
  int found[2] = {0, 0};
  explicit npc_block_of_threads(int threads) : all(threads) {}
};
static thread_local npc_block_of_threads* npc_this_block;
#define NPC_WAIT() std::this_thread::yield()
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
static inline void __syncthreads() { npc_this_block->all.arrive_and_wait(); }
static inline int __syncthreads_or(int condition) {
  npc_block_of_threads* const block = npc_this_block;
  if (threadIdx.x == 0) block->found[0] = 0;
  block->all.arrive_and_wait();
  if (condition) __atomic_store_n(block->found, 1, __ATOMIC_SEQ_CST);
  block->all.arrive_and_wait();
  const int found = __atomic_load_n(block->found, __ATOMIC_SEQ_CST);
  block->all.arrive_and_wait();
  return found;
}
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long n) {
  return __atomic_fetch_add(at, n, __ATOMIC_SEQ_CST);
}
static inline double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }
static inline long long __mul64hi(long long a, long long b) { return (long long)(((__int128)a * b) >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
template <class Kernel> static void npc_run_grid(unsigned blocks, unsigned threads, Kernel kernel) {
  gridDim.x = blocks; blockDim.x = threads;
  std::vector<npc_block_of_threads*> made;
  std::vector<std::thread> running;
  for (unsigned b = 0; b < blocks; b++) made.push_back(new npc_block_of_threads(threads));
  for (unsigned b = 0; b < blocks; b++)
    for (unsigned t = 0; t < threads; t++)
      running.emplace_back([=] { threadIdx.x = t; blockIdx.x = b; npc_this_block = made[b]; kernel(); });
  for (auto& each : running) each.join();
  for (auto* each : made) delete each;
}
