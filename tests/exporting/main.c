/* Calls the exported functions and prints every number to the bit. */
#include <stdio.h>
#include <stdlib.h>
#include "escape_times.h"
#include "fails.h"
#include "move_centres.h"
#include "orbit.h"

int main(void) {
  int64_t times[12 * 16], inside = 0;
  npc_i64_2 picture = {times, {12, 16}, {16 * sizeof *times, sizeof *times}, NULL};
  double start[] = {1.0, 0.0, 0.0, 1.2}, last = 0;
  npc_f64_1 state = {start, {4}, {sizeof *start}, NULL};
  npc_f64_2 path;
  double where[40], middle[6], total = 0, single = 0;
  int64_t labels[20];
  npc_f64_2 points = {where, {20, 2}, {2 * sizeof *where, sizeof *where}, NULL};
  npc_f64_2 centres = {middle, {3, 2}, {2 * sizeof *middle, sizeof *middle}, NULL};
  npc_i64_1 nearest = {labels, {20}, {sizeof *labels}, NULL};
  int k, status;

  status = escape_times(-2.0, -1.25, 0.125, 100, &picture, &inside);
  printf("%d %lld", status, (long long)inside);
  for (k = 0; k < 12 * 16; k++) printf(" %lld", (long long)times[k]);

  status = orbit(&state, 0.02, 30, &path, &last);
  printf("\n%d %lld %lld %a", status, (long long)path.shape[0], (long long)path.shape[1], last);
  for (k = 0; k < 60; k++) printf(" %a", path.data[k]);
  free(path.memory);

  for (k = 0; k < 40; k++) where[k] = (k * 7 % 11) / 16.0 + (k % 3);
  for (k = 0; k < 6; k++) middle[k] = k / 4.0;
  status = move_centres(&points, &centres, &nearest, &total);
  printf("\n%d %a", status, total);
  for (k = 0; k < 6; k++) printf(" %a", middle[k]);
  for (k = 0; k < 20; k++) printf(" %lld", (long long)labels[k]);

  status = fails(&state, 9, 1.0, &single);
  printf("\n%s: %a\n", fails_message(status), start[0]);
  state.strides[0] = 2 * sizeof *start;
  printf("%s\n", fails_message(fails(&state, 1, 1.0, &single)));
  return 0;
}
