"""Generated C as other compilers and other machines take it: all that is called is declared, and nothing is warned of."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from npcompile.backends.cpu.c_library import LIBRARY, SYSTEM
from npcompile.backends.cpu.compiler import BASE_FLAGS
from npcompile.backends.cpu.loader import runtime_text
from npcompile.backends.cpu.prelude import TYPES
from npcompile.backends.cpu.runtime import FOLDER
from npcompile.backends.cpu.small_floats import TEXT as SMALL_FLOATS
from tests.runtime.corpus import cover

FOUND = [path for name in ("gcc", "clang", "clang-16", "clang-19") if (path := shutil.which(name))]
HERE = [*{os.path.realpath(path): path for path in FOUND}.values()]


def takes_half(compiler: str) -> bool:
    """On x86-64 clang does from 15 on."""
    command = [compiler, "-x", "c", "-march=native", "-fsyntax-only", "-"]
    return not subprocess.run(command, input="_Float16 x;", text=True, capture_output=True, check=False).returncode


OF_UNITS = list(filter(takes_half, HERE))
ZIG = (sys.executable, "-m", "ziglang", "cc")
TARGETS = {"aarch64-linux-gnu": None, "x86_64-linux-musl": 10, "aarch64-macos": 10, "riscv64-linux-musl": 6}
STRICT = ("-x", "c", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Werror=implicit-function-declaration")
ALLOWED = (  # in generated text
    *("unused", "unused-parameter"),  # it has what programs may need
    *("type-limits", "tautological-compare", "div-by-zero"),  # templates are for every type and every number
    *("discarded-qualifiers", "incompatible-pointer-types-discards-qualifiers"),  # temporaries are all const
    "missing-field-initializers",  # the others are zero
    "unknown-pragmas",  # ivdep is GCC's
    "unknown-warning-option",  # in this list
)


def corpus(folder: Path, *options: str) -> Sequence[Path]:
    """A few units that have between them what the programs of the corpus need.

    NPCOMPILE_UNITS names a folder with those that another Python made.
    """
    if given := os.environ.get("NPCOMPILE_UNITS"):
        return cover(Path(given))
    command = [sys.executable, "-m", "tests.runtime.corpus", str(folder), *options]
    subprocess.run(command, check=True, env={**os.environ, "NPCOMPILE_CACHE_DIR": str(folder / "cache")})
    return cover(folder)


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    return corpus(tmp_path_factory.mktemp("units"))


@pytest.fixture(scope="module")
def plain_units(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    return corpus(tmp_path_factory.mktemp("plain"), "--plain")


def complaints(command: Sequence[str], unit: Path) -> str:
    asked = [*command, str(unit)]
    done = subprocess.run(asked, cwd=unit.parent, capture_output=True, text=True, errors="replace", check=False)
    return done.stderr if done.returncode else ""


def check(command: Sequence[str], units: Sequence[Path]) -> None:
    command = [*command, *STRICT, *(f"-Wno-{name}" for name in ALLOWED)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = list(filter(None, threads.map(lambda unit: complaints(command, unit), units)))
    assert not found, f"{len(found)} units:\n{found[0][:3000]}"


@pytest.mark.parametrize("compiler", OF_UNITS)
def test_units_are_clean(compiler: str, units: Sequence[Path]) -> None:
    assert len(units) > 20
    check((compiler, "-fsyntax-only", "-march=native", "-fopenmp"), units)


@pytest.mark.parametrize("compiler", OF_UNITS)
def test_units_without_vector_mathematics_are_clean(compiler: str, plain_units: Sequence[Path]) -> None:
    check((compiler, "-fsyntax-only", "-march=native", "-fopenmp"), plain_units)


@pytest.mark.parametrize("target", TARGETS)
def test_units_compile_for_other_machines(target: str, plain_units: Sequence[Path]) -> None:
    """For one all: the first ones hold most of what there is. On riscv64 <fenv.h> stands for its own lines."""
    check((*ZIG, "-target", target, "-O0", "-fno-sanitize=undefined", "-c"), plain_units[: TARGETS[target]])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads instructions of x86-64")
@pytest.mark.parametrize("compiler", OF_UNITS)
def test_float16_is_rounded_once(compiler: str) -> None:
    """Also on processors that have instructions for it, which this one may not be: of a float64 no float32 is made on the way."""
    text = TYPES + LIBRARY + SMALL_FLOATS
    text += "void f(double* x, float* y, long n) { for (long i = 0; i < n; i++) y[i] = npc_round_f2_f8(x[i]); }"
    flags = [flag for flag in BASE_FLAGS if flag != "-shared"]
    command = [compiler, *flags, "-march=sapphirerapids", "-S", "-o", "-", "-"]
    found = subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout
    both = {name for name in ("vcvtpd2ps", "vcvtps2ph") if name in found}
    assert "f:" in found and both != {"vcvtpd2ps", "vcvtps2ph"}


def test_one_table_declares_the_c_library() -> None:
    """The runtime's own files declare what CPython, OpenMP and AddressSanitizer have."""
    text = "".join(path.read_text() for path in FOLDER.glob("*.c"))
    declared = re.findall(r"^(?!static|typedef|return)\w[\w *]*?\b(\w+)\([^{}\n]*\);$", text, re.MULTILINE)
    assert len(declared) > 20
    assert not [name for name in declared if not name.startswith(("Py", "_Py", "omp_", "__asan_"))]


@pytest.mark.parametrize("compiler", HERE)
def test_the_runtime_is_clean(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "runtime.c").write_text(runtime_text())
    assert not complaints((compiler, "-fsyntax-only", *STRICT, "-Wno-unused-parameter"), tmp_path / "runtime.c")


# Floating-point errors that happen are seen, as np.errstate's bits: 1 divide, 2 over, 4 under, 8 invalid.
FLAGS = r"""
PyObject* PyErr_Occurred(void) { return 0; }
void PyErr_Clear(void) {}
void Py_DecRef(PyObject* object) { (void)object; }
int PyContextVar_Get(PyObject* variable, PyObject* value, PyObject** out) { return variable == value && out != 0; }
static int asked;
PyObject* PyObject_CallFunction(PyObject* function, const char* format, ...) {
  __builtin_va_list rest;
  __builtin_va_start(rest, format);
  asked = __builtin_va_arg(rest, int);
  __builtin_va_end(rest);
  return function;
}
static int seen(double a, double b, char operation) {
  volatile double x = a, y = b, z;
  clear_flags();
  if (operation == '/') z = x / y;
  else z = x * y;
  asked = 0;
  (void)z;
  report(15, 0, 0);
  return asked;
}
int main(void) {
  const int bits[] = {seen(1, 0, '/'), seen(1e300, 1e300, '*'), seen(1e-300, 1e-300, '*'), seen(0, 0, '/'), seen(1, 3, '/'),
                      seen(2, 4, '/')};
  const int expected[] = {1, 2, 4, 8, 0, 0};
  for (int k = 0; k < 6; k++) if (bits[k] != expected[k]) return k + 1;
  clear_flags();
  seen(1, 0, '/');
  const unsigned raised = raised_flags();
  clear_flags();
  if (errstate_bits(raised_flags())) return 7;
  raise_flags(raised);
  return errstate_bits(raised_flags()) == 1 ? 0 : 8;
}
"""


ALONE = """
void _start(void) {
  register long status __asm__("x0") = main(), number __asm__("x8") = 93; /* exit */
  __asm__ volatile("svc 0" : : "r"(status), "r"(number));
  __builtin_unreachable();
}
"""


def flags_text() -> str:
    return "".join([TYPES, LIBRARY, SYSTEM, *((FOLDER / name).read_text() for name in ("declarations.c", "errors.c")), FLAGS])


def build(folder: Path, command: Sequence[str], text: str, *libraries: str) -> Path:
    (folder / "flags.c").write_text(text)
    strict = [flag for flag in STRICT if flag != "-Wextra"]
    subprocess.run([*command, *strict, "-O1", "-Wno-unused", "-o", folder / "flags", folder / "flags.c", *libraries], check=True)
    return folder / "flags"


@pytest.mark.parametrize("by_header", [False, True], ids=["own lines", "fenv.h"])
@pytest.mark.parametrize("compiler", HERE)
def test_floating_point_errors_are_seen(compiler: str, by_header: bool, tmp_path: Path) -> None:
    text = flags_text()
    if by_header:
        text = text.replace("defined(__x86_64__)", "0").replace("defined(__aarch64__)", "0")
    assert subprocess.run([build(tmp_path, (compiler,), text, "-lm")], check=False).returncode == 0


@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="needs qemu-aarch64 (Debian: qemu-user)")
def test_floating_point_errors_are_seen_on_aarch64(tmp_path: Path) -> None:
    program = build(tmp_path, (*ZIG, "-target", "aarch64-linux-musl", "-nostdlib", "-static"), flags_text() + ALONE)
    assert subprocess.run(["qemu-aarch64", program], check=False).returncode == 0
