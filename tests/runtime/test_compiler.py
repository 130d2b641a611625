"""Which compiler is used, and what happens with none, a failing, a hanging or a lying one."""

from __future__ import annotations

import gc
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cache import Cache
from npcompile.backends.cpu import compiler as compiler_module
from npcompile.backends.cpu.compiler import BASE_FLAGS, LARGE_UNIT, OPTIONAL_FLAGS, find_compiler, processor, which
from npcompile.backends.cpu.library_files import has_subnormals, load_library, why_incomplete
from npcompile.backends.cpu.loader import Loader
from npcompile.backends.errors import CompilerError, CompilerTimeout, NoCompiler
from npcompile.tensor_core.events import COUNTS
from tests.runtime.units import INT64, constant, make_loader, mark_items, returning

REAL = which("cc") or which("gcc") or which("clang") or ""
needs_compiler = pytest.mark.skipif(not REAL, reason="no C compiler")


@needs_compiler
def test_products_beside_a_unit_that_does_not_compile_are_there_for_the_next(tmp_path):
    loader = make_loader(tmp_path / "cache")
    with pytest.raises(CompilerError):
        loader.load("int wrong = rt->product_f8();", [])
    asked = returning(
        "/* rt->product_f8() */ int64_t is_there = rt->product_f8 != 0; result = rt->box(npc_dtypes[0], &is_there);"
    )
    assert loader.load(asked, [INT64]).call() == (1,)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes a shell script the only compiler."""

    def make(script: str) -> Cache:
        path = tmp_path / "cc"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        monkeypatch.setattr(compiler_module.importlib.util, "find_spec", lambda name: None)
        return Cache(tmp_path / "cache")

    (tmp_path / "cache").mkdir(mode=0o700)
    return make


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoCompiler, match=r"\$CC, cc, gcc, clang .* ziglang"):
        find_compiler(Cache(tmp_path))


def test_failing_compiler_shows_command_and_end_of_errors(fake):
    cache = fake("seq 1 1000 >&2; exit 3")
    with pytest.raises(CompilerError, match=r"(?s)/cc .*-O3.* status 3:\n981\n.*1000$"):
        find_compiler(cache)


@needs_compiler
@pytest.mark.parametrize(
    "lie",
    [
        "exit 0",
        'for a; do case "$p" in -o) echo nonsense > "$a";; esac; p=$a; done',
        f'echo "int other;" > "$0.c"; for a; do case "$p" in -o) {REAL} -shared -fPIC -o "$a" "$0.c";; esac; p=$a; done',
        "kill -SEGV $$",
    ],
    ids=["writes nothing", "writes nonsense", "compiles something else", "crashes"],
)
def test_lying_compiler(fake, lie):
    cache = fake(lie)
    for _ in range(2):
        with pytest.raises(CompilerError):
            Loader(cache, find_compiler(cache)).load(constant(1), [INT64])
    assert not list(cache.folder.glob("*.so"))


def running(marker: str) -> bool:
    return any(marker in command_line(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def command_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it ended meanwhile
        return ""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_hanging_compiler_is_killed_with_its_children(fake, monkeypatch):
    monkeypatch.setattr(compiler_module, "PROBE_TIMEOUT", 0.3)
    seconds = f"8{os.getpid()}.5"  # of this test alone, whatever an earlier one left behind
    cache = fake(f"sleep {seconds} & sleep {seconds}; exit 0")
    began = time.monotonic()
    with pytest.raises(CompilerTimeout, match=r"stopped after 0.3 s"):
        find_compiler(cache)
    assert time.monotonic() - began < 10
    while running(f"sleep\x00{seconds}"):  # what was killed is gone a moment later
        assert time.monotonic() - began < 20
        time.sleep(0.05)


# What each does with a unit that has npc_run; with probes and the runtime it does what it should.
UNITS = {
    "hangs": ("sleep 100", 1),
    "refuses": ("echo no >&2; exit 1", 3),
    "crashes": ("kill -SEGV $$", 3),
    "cuts": ('{real} "$@" < "$0.$$" && truncate -s 5000 "$o"', 3),
}


@needs_compiler
@pytest.mark.parametrize("fault", UNITS)
def test_a_compiler_that_makes_no_units_is_not_asked_again_and_again(fake, fault, monkeypatch):
    """Each unit would take as long as the first one. A library that was cut off is none: to load it would be SIGBUS."""
    does, times = UNITS[fault]
    ours = f'echo x >> "$0.asked"; {does.format(real=REAL)}'
    cache = fake(
        'for a; do case "$p" in -o) o=$a;; esac; p=$a; done\ncat > "$0.$$"\n'
        f'if grep -q "^PyObject\\* npc_run.*{{$" "$0.$$"; then {ours}; else {REAL} "$@" < "$0.$$"; fi'
    )
    loader = Loader(cache, find_compiler(cache))
    loader.start_runtime()
    monkeypatch.setattr(compiler_module, "TIMEOUT", 3.0)
    said = set()
    for k in range(6):
        with pytest.raises(CompilerError) as raised:
            loader.load(constant(k), [INT64])
        said.add(str(raised.value))
    assert len(Path(os.environ["CC"] + ".asked").read_text().split()) == times
    assert len(said) <= times
    if fault == "cuts":
        assert "not whole: it has 5000 bytes of" in said.pop()


@needs_compiler
def test_a_unit_that_does_not_compile_now_and_then_is_one_of_many(tmp_path):
    loader = make_loader(tmp_path / "cache")
    for k in range(6):
        with pytest.raises(CompilerError):
            loader.load(f"int wrong{k} = none;", [])
        assert loader.load(constant(k), [INT64]).call() == (k,)


@needs_compiler
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_fast_math_in_cc_changes_nothing(flag, tmp_path):
    """In a process of its own: what is switched off stays so."""
    (tmp_path / "cache").mkdir(mode=0o700)
    code = """
import numpy as np, sys, npcompile as npc
f = npc.compile(lambda x: (x / 2, x - x, x * 0.0 + 1 / x))
x = np.array([sys.float_info.min, np.inf, -1.0] * 3)
with np.errstate(all="ignore"):
    ours, theirs = f(x), (x / 2, x - x, x * 0.0 + 1 / x)
assert all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs)), (ours, theirs)
assert (np.full(9, 5e-324) * 1.0 > 0).all() and npc.explain(f)(x).summary == '1 graph, 0 breaks'
"""
    environment = {**os.environ, "CC": f"{REAL} {flag}", "NPCOMPILE_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert list((tmp_path / "cache").glob("*.so"))


@needs_compiler
@pytest.mark.skipif("linux" not in sys.platform, reason="needs glibc's crtfastmath.o")
def test_a_library_that_switches_off_subnormals_is_not_used(tmp_path):
    source = tmp_path / "unit.c"
    source.write_text(
        "__attribute__((constructor)) static void off(void) {\n#ifdef __SSE__\n"
        "__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);\n#endif\n}\n"
    )
    subprocess.run([REAL, "-shared", "-fPIC", "-o", tmp_path / "unit.so", source], check=True)
    if "x86_64" in os.uname().machine:
        with pytest.raises(OSError, match="switches off subnormal numbers"):
            load_library(str(tmp_path / "unit.so"))
    assert has_subnormals()


@needs_compiler
def test_a_library_that_is_not_whole_is_seen(tmp_path):
    library = Path(tmp_path / "unit.so")
    subprocess.run([REAL, "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=b"int x[9999] = {1};", check=True)
    content = library.read_bytes()
    assert why_incomplete(content) == ""
    for size in (20, 63, 700, len(content) // 2, len(content) - 1):
        assert why_incomplete(content[:size]), size


@needs_compiler
def test_compiler_without_options_is_used_without_them(fake):
    refused = " ".join(OPTIONAL_FLAGS) + " -lmvec"
    cache = fake(f'for a; do for r in {refused}; do [ "$a" = "$r" ] && exit 1; done; done; exec {REAL} "$@"')
    loader = Loader(cache, find_compiler(cache))
    assert not set(OPTIONAL_FLAGS) & set(loader.compiler.flags)
    assert loader.compiler.libraries == ("-lm",)
    assert not loader.compiler.has_openmp and not loader.compiler.has_vector_math
    assert loader.load(constant(6), [INT64]).call() == (6,)


@needs_compiler
def test_large_units_are_compiled_in_less_time(fake, tmp_path):
    cache = fake(f'echo "$@" >> {tmp_path}/asked; exec {REAL} "$@"')
    loader = Loader(cache, find_compiler(cache))
    for source in (constant(7), constant(8) + "/* a comment */\n" * (LARGE_UNIT // 10)):
        loader.load(source, [INT64])
    *_, small, large = [line for line in (tmp_path / "asked").read_text().splitlines() if line.endswith("-lm")]
    assert "-fno-gcse" in large and "-fno-gcse" not in small


@needs_compiler
def test_options_that_lead_nowhere_are_not_used(fake):
    """As zig does, -fopenmp is taken and its library is not linked: what needs it could not be loaded."""
    cache = fake(f"""
for a; do
  if [ "$a" = -fopenmp ]; then a=-D_OPENMP=201511; fi
  set -- "$@" "$a"; shift
done
exec {REAL} "$@"
""")
    loader = Loader(cache, find_compiler(cache))
    assert not loader.compiler.has_openmp
    assert (mark_items(loader)(1000, 10) // 1000 == 1).all()


def test_ziglang(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "nowhere"))
    loader = make_loader(tmp_path / "cache")
    program, argument = loader.compiler.command
    assert Path(program).name == "zig" and argument == "cc"
    assert (mark_items(loader)(1000, 10) // 1000 == 1).all()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="a processor of x86-64")
def test_ziglang_takes_names_of_processors_that_others_take(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "nowhere"))
    monkeypatch.setenv("NPCOMPILE_MARCH", "x86-64-v2")
    compiler = find_compiler(Cache(tmp_path / "cache"))
    assert Path(compiler.command[0]).name == "zig" and "-march=x86_64_v2" in compiler.flags


def test_zig_keeps_nothing_of_a_unit(tmp_path, monkeypatch):
    """Its own cache of what it has made is never swept: objects go with the folder of the unit."""
    monkeypatch.setenv("CC", str(tmp_path / "nowhere"))
    cache = Cache(tmp_path / "cache")
    with find_compiler(cache).begin("int x;", cache) as making:
        folder = making.finish().parent
        assert list(folder.rglob("*.o"))
    assert not folder.exists()


@needs_compiler
def test_wrapped_compiler(fake, monkeypatch):
    cache = fake('exec "$@"')
    monkeypatch.setenv("CC", f"{os.environ['CC']} {REAL} -g0")
    compiler = find_compiler(cache)
    assert compiler.command == (os.environ["CC"].split()[0], REAL, "-g0")


@needs_compiler
def test_warm_start_runs_no_process(loader, monkeypatch):
    loader.load(constant(8), [INT64])

    def refuse(*args, **kwargs):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    unit = make_loader(loader.cache.folder).load(constant(8), [INT64])
    assert unit.was_cached and unit.call() == (8,)


@needs_compiler
def test_another_compiler_processor_or_target_is_another_entry(fake, monkeypatch):
    cache = fake(f'exec {REAL} "$@"')
    keys = {Loader(cache, find_compiler(cache)).part("source", "").key}
    monkeypatch.setenv("NPCOMPILE_MARCH", "x86-64" if os.uname().machine == "x86_64" else "armv8-a")
    keys.add(Loader(cache, find_compiler(cache)).part("source", "").key)
    assert "-march=native" not in find_compiler(cache).flags
    before = len(list(cache.folder.glob("*.json")))
    monkeypatch.setattr(compiler_module, "processor", lambda: "another")
    find_compiler(cache)
    os.utime(os.environ["CC"], (1, 1))
    find_compiler(cache)
    assert len(keys) == 2
    assert len(list(cache.folder.glob("*.json"))) == before + 2  # found anew both times


def test_processor_is_told_by_its_features_not_by_its_clock():
    assert processor()
    assert "MHz" not in processor()
    assert processor() == processor()


@pytest.mark.parametrize(
    "features, gathers, march, tuned",
    [
        ("vendor_id : GenuineIntel\nflags : avx2 avx512f avx512_vbmi2", "Not affected\n", None, True),
        ("vendor_id : GenuineIntel\nflags : avx2 avx512f avx512_vbmi2", "Mitigation: Microcode\n", None, False),
        ("vendor_id : GenuineIntel\nflags : avx2 avx512f avx512_vbmi2", None, None, False),
        ("vendor_id : GenuineIntel\nflags : avx2 avx512f avx512_vbmi2", "Not affected\n", "x86-64-v3", False),
        ("vendor_id : GenuineIntel\nflags : avx2", "Not affected\n", None, False),
        ("vendor_id : AuthenticAMD\nflags : avx2 avx512f avx512_vbmi2", "Not affected\n", None, False),
    ],
)
def test_processors_that_gather_quickly_are_tuned_for(features, gathers, march, tuned, monkeypatch, tmp_path):
    told = tmp_path / "gather_data_sampling"
    if gathers is not None:
        told.write_text(gathers)
    monkeypatch.setattr(compiler_module, "GATHERS", told)
    monkeypatch.setattr(compiler_module, "processor", lambda: features)
    monkeypatch.setenv("NPCOMPILE_MARCH", march or "")
    assert compiler_module.tuning() == (("-mtune=sapphirerapids",) if tuned else ())
    assert set(compiler_module.tuning()) <= set(compiler_module.optional_flags(()))


@needs_compiler
def test_compilers_that_do_not_know_the_tuning_are_used_without_it(fake, monkeypatch):
    monkeypatch.setattr(compiler_module, "tuning", lambda: ("-mtune=of-tomorrow",))
    cache = fake(f'for a; do [ "$a" = "-mtune=of-tomorrow" ] && exit 1; done; exec {REAL} "$@"')
    found = find_compiler(cache)
    assert "-mtune=of-tomorrow" not in found.flags and "-march=native" in found.flags
    assert Loader(cache, found).load(constant(6), [INT64]).call() == (6,)


def test_floating_point_stays_exact():
    flags = {*BASE_FLAGS, *OPTIONAL_FLAGS}
    assert "-ffp-contract=off" in flags
    assert not flags & {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only", "-fassociative-math"}


@needs_compiler
def test_rows_read_in_both_directions():
    """GCC counts from address 0 here. It may not find that the kernel ends there, so that nothing is written."""

    def both(y):
        return y + y[::-1]

    compiled = npc.compile(both, backend="cpu")
    for n in (3, 4, 5):
        y = np.arange(4.0 * n * n).reshape(2 * n, 2 * n)[::2, ::2].T
        np.testing.assert_array_equal(compiled(y), both(y))


def test_loading_leaves_subnormals_on(loader):
    loader.load(constant(9), [INT64])
    smallest = np.full(8, 5e-324)
    assert (smallest * 1.0 == smallest).all() and smallest[0] > 0
    assert np.float32(1e-45) * np.float32(1) > 0


INTERRUPTED = """
import os, signal, sys, threading, time
from pathlib import Path
from npcompile.backends.cache import Cache
from npcompile.backends.cpu.compiler import Compiler
from npcompile.backends.cpu.library_files import has_subnormals, load_library, why_incomplete
from npcompile.backends.cpu.loader import Loader
from tests.runtime.units import INT64, constant, make_loader, mark_items
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
folder = Path(sys.argv[1])
loader = make_loader(folder)
real, loader.compiler = loader.compiler, Compiler((sys.argv[2],), "", (), ())
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    loader.load(constant(1), [INT64])
except KeyboardInterrupt:
    print("interrupted" if time.monotonic() - began < 5 else "late")
loader.compiler = real
print(int(loader.load(constant(3), [INT64]).call()[0]))
"""


@needs_compiler
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_interrupt_kills_the_compiler(tmp_path):
    slow = tmp_path / "slow"
    duration = f"86399.{os.getpid()}"  # tells this test's processes from those of another run on this machine
    slow.write_text(f"#!/bin/sh\nsleep {duration} & sleep {duration}\n")
    slow.chmod(0o755)
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "cache"), str(slow)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert done.stdout.split() == ["interrupted", "3"], done.stderr
    deadline = time.monotonic() + 5
    while running(f"sleep\0{duration}"):
        assert time.monotonic() < deadline, "the compiler's children are still there"
        time.sleep(0.05)


@needs_compiler
def test_threads_compile_a_unit_once(tmp_path):
    loader, before = make_loader(tmp_path), COUNTS["units_compiled"]
    barrier = threading.Barrier(32)
    answers: list[int] = []

    def work(number: int) -> None:
        barrier.wait()
        value = 100 + number % 4
        answers.append(int(loader.load(constant(value), [INT64]).call()[0]) - value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [0] * 32
    assert COUNTS["units_compiled"] - before == 5  # four units and the runtime


def test_signals_are_as_before(loader):
    before = signal.getsignal(signal.SIGINT)
    loader.load(constant(10), [INT64])
    assert signal.getsignal(signal.SIGINT) is before


def test_a_unit_is_unloaded_when_its_function_is_gone(loader):
    make_loader(loader.cache.folder).load(constant(77), [INT64])  # now it is in the cache
    unit = loader.load(constant(77), [INT64])
    call, path, seconds = unit.call, unit.path, unit.seconds
    again = loader.load(constant(77), [INT64])
    assert again.call is call and again.seconds == seconds
    assert is_mapped(path)
    del unit, again
    gc.collect()
    assert call() == (77,)
    del call
    gc.collect()
    assert not is_mapped(path)
    assert loader.load(constant(77), [INT64]).call() == (77,)


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()
