"""Every number of float32 and float16, through every function of one number: what `python -m tests.accuracy --sweep` runs.

The exact results of float32 are those of float64, by the vector functions of the C library, whose errors are some 10^-8 units of
float32; a number that would be the worst so far is judged again by the library's functions of single numbers. Every
processor works, each on numbers of its own.
"""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.primitives import NUMPY_LIBM
from tests.accuracy import measure
from tests.accuracy.kernels import Kernels
from tests.accuracy.samples import every_float16

NUMBERS = 1 << 32
TASK = 1 << 25  # numbers of one task of one processor
CHUNK = 1 << 16  # of one call: what is read and written then stays in the processor's cache
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, *[ctypes.c_void_p] * 2)

WANTED = {"square": "x * x", "reciprocal": "1 / x"}
WANTED |= dict.fromkeys(("degrees", "rad2deg"), f"x * {180 / math.pi!r}")
WANTED |= dict.fromkeys(("radians", "deg2rad"), f"x * {math.pi / 180!r}")

# As `reference.near_errors`: in units in the last place of what is wanted, overflow being the first power of two too large.
# Errors are compared as integers, in whose order their bits are: only then does the compiler make vectors of a maximum.
UNITS = """
typedef __INT64_TYPE__ int64_t;
typedef __INT32_TYPE__ int32_t;
#define BITS(x) ({ int64_t bits; __builtin_memcpy(&bits, &x, sizeof bits); bits; })
static inline __attribute__((always_inline)) int64_t units(double got, double wanted) {
  const double limit = 0x1p128, there = wanted > limit ? limit : wanted < -limit ? -limit : wanted;
  const double here = got > limit ? limit : got < -limit ? -limit : got;
  int64_t exponent = ((BITS(there) >> 52) & 2047) - 1023;
  exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
  const int64_t scale_bits = (1023 + 23 - exponent) << 52;
  double scale;
  __builtin_memcpy(&scale, &scale_bits, sizeof scale);
  const double distance = (here > there ? here - there : there - here) * scale;
  const int64_t wanted_nan = -(int64_t)(wanted != wanted), got_nan = -(int64_t)(got != got);
  return (BITS(distance) & ~(wanted_nan | got_nan)) | ((wanted_nan ^ got_nan) & 0x7ff0000000000000);
}
"""
# `worst` and `at` hold ours and then NumPy's. What is returned: how many results have another sign than NumPy's, or are NaN where
# NumPy's is not.
JUDGE = """
double {libm}(double) {simd};
double single_{libm}(double) __asm__("{libm}");
int64_t judge_{name}(const float* xs, const float* ours, const float* numpys, int64_t n, double* worst, float* at) {{
  int64_t different = 0;
  for (int64_t first = 0; first < n; first += 1024) {{
    const int64_t end = first + 1024 < n ? first + 1024 : n;
    int64_t most_ours = 0, most_numpys = 0;
    int32_t others = 0;
    for (int64_t i = first; i < end; i++) {{
      const double x = xs[i], wanted = {wanted};
      const int64_t a = units(ours[i], wanted), b = units(numpys[i], wanted);
      most_ours = a > most_ours ? a : most_ours;
      most_numpys = b > most_numpys ? b : most_numpys;
    }}
    for (int64_t i = first; i < end; i++) {{
      int32_t a, b;
      __builtin_memcpy(&a, ours + i, sizeof a);
      __builtin_memcpy(&b, numpys + i, sizeof b);
      const int32_t a_nan = (a & 0x7fffffff) > 0x7f800000, b_nan = (b & 0x7fffffff) > 0x7f800000;
      others += (a_nan ^ b_nan) | (!a_nan & !b_nan & ((a ^ b) < 0));
    }}
    different += others;
    for (int k = 0; k < 2; k++)
      if ((k ? most_numpys : most_ours) > BITS(worst[k]))
        for (int64_t i = first; i < end; i++) {{
          const double x = xs[i];
          const int64_t found = units((k ? numpys : ours)[i], {singly});
          if (found > BITS(worst[k])) __builtin_memcpy(worst + k, &found, sizeof found), at[k] = xs[i];
        }}
  }}
  return different;
}}
"""


def judges(names: Sequence[str]) -> dict[str, Callable[..., int]]:
    compiler = loader().compiler
    simd = '__attribute__((simd("notinbranch")))' if compiler.has_vector_math else ""
    source = UNITS
    for name in names:
        call = f"{NUMPY_LIBM.get(name, 'sqrt')}(x)"
        wanted = WANTED.get(name, call)
        singly = WANTED.get(name, f"single_{call}")
        source += JUDGE.format(name=name, libm=NUMPY_LIBM.get(name, "sqrt"), simd=simd, wanted=wanted, singly=singly)
    with compiler.begin(source, loader().cache) as making:
        library = ctypes.CDLL(str(making.finish()))
    return {name: FUNCTION((f"judge_{name}", library)) for name in names}


@dataclass(slots=True)
class Found:
    """Of some numbers of float32, or of all."""

    worst: np.ndarray = field(default_factory=lambda: np.zeros(2))  # ours, NumPy's
    at: np.ndarray = field(default_factory=lambda: np.zeros(2, F))
    different: int = 0

    def add(self, other: Found) -> None:
        is_worse = other.worst > self.worst
        self.worst, self.at = np.where(is_worse, other.worst, self.worst), np.where(is_worse, other.at, self.at)
        self.different += other.different


F, E = np.dtype("f"), np.dtype("e")
KERNELS: dict[str, Kernels] = {}  # these two are filled before processes divide, who inherit them
JUDGES: dict[str, Callable[..., int]] = {}


def task(given: tuple[str, int]) -> tuple[str, Found]:
    """The numbers whose bits are `start` and what follows. Those of functions that round at most once are to be NumPy's."""
    name, start = given
    found = Found()
    kernels, function, judge = KERNELS[name], getattr(np, name), JUDGES.get(name)
    worst, at = np.zeros(2), np.zeros(2, F)
    with np.errstate(all="ignore"):
        for first in range(start, min(start + TASK, NUMBERS), CHUNK):
            x = np.arange(first, first + CHUNK, dtype=np.uint32).view(F)
            ours, numpys = kernels([(x,)])[0], function(x)
            if judge is None:
                found.different += int(np.count_nonzero(~measure.same_bits(ours, numpys)))
            else:
                pointers = (a.ctypes.data for a in (x, ours, numpys))
                found.different += judge(*pointers, CHUNK, worst.ctypes.data, at.ctypes.data)
    found.worst, found.at = worst, at
    return name, found


def functions() -> dict[str, bool]:
    """Those of one float32. Does the function round more than once?"""
    return {n: rounded for rounded in (True, False) for n, dtypes in measure.calls_of(F, rounded=rounded) if len(dtypes) == 1}


def sweep(names: Sequence[str] = ()) -> str:
    """A table of the worst errors over every number, and what differs from NumPy where nothing may."""
    os.environ["NPCOMPILE_NUM_THREADS"] = "1"  # of each process
    known = functions()
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"{', '.join(unknown)}: no function of one float32. Those are {', '.join(known)}.")
    names = list(names or known)
    rounding = [name for name in names if known[name]]
    JUDGES.update(judges(rounding))
    for name in names:
        KERNELS[name] = Kernels([(name, (F,))])
        KERNELS[name]([(np.ones(CHUNK, F),)])
    half = {name: worst_of_float16(name) for name in rounding}
    found = {name: Found() for name in names}
    tasks = [(name, start) for name in names for start in range(0, NUMBERS, TASK)]
    processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"{len(names)} functions of {NUMBERS} numbers, {processes} processes", flush=True)
    began = last = time.monotonic()
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for done, (name, part) in enumerate(pool.imap_unordered(task, tasks), 1):
            found[name].add(part)
            now = time.monotonic()
            if now - last > 10 or done == len(tasks):
                last = now
                left = (now - began) * (len(tasks) - done) / done
                print(f"{done} of {len(tasks)} tasks, {name}; {now - began:.0f} s, about {left:.0f} s left", flush=True)
    return table(found, rounding, half)


def worst_of_float16(name: str) -> float:
    x = every_float16()
    with np.errstate(all="ignore"):
        return measure.worst(name, (x,), Kernels([(name, (E,))])([(x,)])[0]).units


def table(found: dict[str, Found], rounding: Sequence[str], half: dict[str, float]) -> str:
    lines = ["| function | float16 | float32 | at | NumPy, float32 | at | other sign or NaN |", "|---" * 7 + "|"]
    for name in rounding:
        f = found[name]
        worst = (f"{units:.3f} | {x:.9g}" for units, x in zip(f.worst, f.at))
        lines.append(f"| `{name}` | {half[name]:.3f} | {' | '.join(worst)} | {f.different} |")
    same = [name for name in found if name not in rounding]
    if same:
        differing = [f"`{n}` ({found[n].different} numbers)" for n in same if found[n].different]
        lines += ["", f"NumPy's bits, of every number of float32: {', '.join(f'`{n}`' for n in same if not found[n].different)}."]
        lines += [f"Others: {', '.join(differing)}."] if differing else []
    return "\n".join(lines)
