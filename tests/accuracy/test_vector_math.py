"""The inline mathematical functions of backends/cpu/{vector_math,inline_angles}.py, as each compiler makes them, for musl too."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from mpmath import mpf

from npcompile.backends.cpu import vector_math
from npcompile.backends.cpu.compiler import BASE_FLAGS
from npcompile.backends.cpu.far_angles import REDUCTION
from npcompile.backends.cpu.inline_angles import FUNCTIONS, angles_text
from npcompile.backends.cpu.prelude import TYPES
from tests.accuracy import reference
from tests.accuracy.polynomials import WANTED, error_of
from tests.accuracy.samples import operands
from tests.runtime.test_toolchains import HERE, ZIG

# Polynomial -> dtype -> n: its largest error is less than 2^-n.
ERRORS = {
    "EXP": {"f8": 57.7, "f4": 28},
    "EXPM1": {"f8": 61.5, "f4": 30.9},
    "EXP2": {"f8": 59.4, "f4": 32.4},
    "LOG": {"f8": 59.3, "f4": 35.3},
    "SIN": {"f8": 57.8, "f4": 27.8},
    "COS": {"f8": 63.8, "f4": 32.9},
    "POW": {"f8": 73.4},
}
UNITS = {
    "tanh": 2.6,
    "tan": 2.2,
    "sin": 0.8,
    "cos": 0.8,
}  # tanh and tan are quotients of two numbers that are rounded; of the others
MOST_UNITS = 1.5
MOST_UNITS_UNFUSED = 2.6  # by processors without fused operations

BEGIN = """
long read(int, void*, size_t);
long write(int, const void*, size_t);
static int all(int is_written, char* at, long bytes) {
  for (long done; bytes > 0; at += done, bytes -= done)
    if ((done = is_written ? write(1, at, (size_t)bytes) : read(0, at, (size_t)bytes)) <= 0) return 1;
  return 0;
}
"""
PART = """
  {{
    static {c} x[2][{count}], result[{count}];
    if (all(0, (char*)x, sizeof x)) return 1;
    for (int k = 0; k < {count}; k++) result[k] = {call};
    if (all(1, (char*)result, sizeof result)) return 1;
  }}
"""
COUNT = 4096
# Commands, options of the target, what runs its programs, and whether products and sums are fused
MACHINES = {Path(path).name: ((path, "-march=native"), (), "__FMA__") for path in HERE}
MACHINES |= {f"{Path(path).name}, first x86-64": ((path, "-march=x86-64"), (), "") for path in HERE}
MACHINES["musl"] = ((*ZIG, "-target", "x86_64-linux-musl", "-march=native"), (), "__FMA__")
MACHINES["musl on aarch64"] = ((*ZIG, "-target", "aarch64-linux-musl"), ("qemu-aarch64",), "__aarch64__")


@pytest.mark.parametrize("name", ERRORS)
def test_polynomials_are_as_near_as_is_said(name: str) -> None:
    assert set(WANTED[name].terms) == set(ERRORS[name])
    for dtype, bits in ERRORS[name].items():
        coefficients = [mpf(float.fromhex(c)) for c in vector_math.POLYNOMIALS[name][dtype].split()]
        assert len(coefficients) == WANTED[name].terms[dtype]
        assert error_of(name, coefficients) < mpf(2) ** -mpf(bits)


def has(command: Sequence[str], macro: str) -> bool:
    asked = subprocess.run([*command, "-dM", "-E", "-x", "c", "-"], input="", capture_output=True, text=True, check=True)
    return bool(macro) and f"#define {macro} " in asked.stdout


@pytest.mark.parametrize("machine", MACHINES)
def test_every_compiler_makes_them_as_near(machine: str, tmp_path: Path) -> None:
    command, runner, fused = MACHINES[machine]
    if runner and not shutil.which(runner[0]):
        pytest.skip(f"needs {runner[0]} (Debian: qemu-user)")
    is_fused, rng, text, asked = has(command, fused), np.random.default_rng(3), "", []
    kinds = vector_math.NAMES | {name: vector_math.F4 if suffix else vector_math.F8 for name, (_, suffix) in FUNCTIONS.items()}
    for name, kind in kinds.items():
        if name in ("pow", *FUNCTIONS) and not is_fused:
            continue  # it is the C library's then
        ufunc = "power" if name.startswith("pow") else name.removesuffix("f")
        xs = tuple(np.resize(rng.permutation(x), COUNT) for x in operands(ufunc, np.dtype(kind.dtype), rng, COUNT))
        asked.append((ufunc, xs))
        call = f"{name}(x[0][k], x[1][k])" if len(xs) == 2 else f"{name}(x[0][k])"
        text += PART.format(c=kind.number, count=COUNT, call=call)
    types = TYPES.partition("typedef struct _object")[0]
    functions = REDUCTION + vector_math.inline_text(set(vector_math.NAMES), angles_text(set(FUNCTIONS)))
    (tmp_path / "unit.c").write_text(f"{types}{functions}{BEGIN}int main(void) {{{text}  return 0;\n}}\n")
    flags = [flag for flag in BASE_FLAGS if flag not in ("-fPIC", "-shared")]
    subprocess.run([*command, *flags, "-o", tmp_path / "run", tmp_path / "unit.c", "-lm"], check=True)
    given = b"".join(np.concatenate(xs * (3 - len(xs))).tobytes() for _, xs in asked)
    made = subprocess.run([*runner, tmp_path / "run"], input=given, capture_output=True, check=True).stdout
    for ufunc, xs in asked:
        got, made = np.frombuffer(made, xs[0].dtype, COUNT), made[xs[0].nbytes :]
        with np.errstate(all="ignore"):
            errors = reference.near_errors(got, reference.nearly_exact(ufunc, *xs))
        worst, most = errors.argmax(), max(UNITS.get(ufunc, MOST_UNITS), 0 if is_fused else MOST_UNITS_UNFUSED)
        assert errors[worst] <= most, (ufunc, errors[worst], [x[worst] for x in xs], got[worst])
    assert not made
